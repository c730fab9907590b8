"""Weeks of traces for GreenSlot's study: the jobs of real machines, on a site that is as large as they need.

As in the paper, a week is Monday 9:00 to Friday 17:00, begins on an empty machine, and asks for about half of
it. Panels and base load grow with the number of nodes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.swf import SwfReader
from beasy_sched.generate.greenslot_week import NODES
from beasy_sched.generate.job_deadlines import parse_deadlines, with_deadlines
from beasy_sched.generate.platform_file import load_server
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions
from beasy_sched.generate.workload_swf import local_time, workload_from_swf
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from studies.greenslot.inputs import AVERAGE, HOURS, PANELS, SERVER

MOST_NODES: Final = 144
"""Most nodes of the site, those of SDSC Blue Horizon; one processor of a smaller machine is one node."""
PAPERS_LOAD: Final = 0.468
"""Utilization by the paper's workloads (C08)."""
LONG_WEEK: Final = AVERAGE.longer(HOURS + 14 * 24)
"""Solar power for traces: long enough for jobs that are postponed beyond the week's end."""
RULES: Final = ("factor:2", "factor:4", "factor:8", "hours:24")
"""Deadlines of a trace's jobs: a multiple of their walltime, or a day, after their submission."""
_START_HOUR: Final = 9
_SPAN_S: Final = HOURS * SECONDS_PER_HOUR
_WEEK_S: Final = 7 * SECONDS_PER_DAY
_SEED: Final = 1


@dataclass(frozen=True)
class TraceWeek:
    """A week of a trace."""

    name: str
    start: str
    """Start of the week for readers: a date, or the time after the trace's first job."""
    workload: GeneratedWorkload
    """Jobs of the week, without deadlines; time 0 is Monday 9:00."""

    @property
    def nodes(self) -> int:
        """Nodes of the site."""
        return self.workload.nb_res

    @property
    def panels(self) -> int:
        """Solar panels of the site: as many for a node as in the paper."""
        return round(PANELS * self.nodes / NODES)

    @property
    def contents(self) -> list[Any]:
        """Everything that distinguishes the week from others, as JSON can hold it."""
        jobs = self.workload
        columns = (jobs.submit_s, jobs.run_s, jobs.hosts, jobs.walltime_s)
        return [self.name, self.nodes, *(hashlib.sha256(column.tobytes()).hexdigest() for column in columns)]

    @property
    def label(self) -> str:
        """The trace and its week, for readers."""
        return (
            f"{self.name}: {self.start}, {self.workload.size} jobs, {self.nodes} nodes, {self.panels} panels,"
            f" load {100 * self.workload.load:.1f} %"
        )

    def due_by(self, rule: str) -> GeneratedWorkload:
        """Return the jobs with deadlines by a rule of `parse_deadlines`. Raises ConfigError."""
        try:
            found = parse_deadlines(rule)
        except ValueError as error:
            raise ConfigError(f"--deadlines: {error}") from None
        return self.workload if found is None else with_deadlines(self.workload, found, seed=_SEED)


def trace_week(path: Path, most_nodes: int = MOST_NODES) -> TraceWeek:
    """Cut the week out of a trace (SWF) whose load is nearest to the paper's.

    Processors share nodes so that at most ``most_nodes`` are needed. A trace without a date in its header
    is cut from its first job on. Run times end at the walltime; jobs without one get twice their run time.
    Raises InputError.
    """
    speed = load_server(SERVER).kind().reference_speed_flops
    options = SwfOptions(reference_speed_flops=speed, start_s=0.0, absolute=True, clip_run_time=True)
    whole = workload_from_swf(path, options)
    per_node = math.ceil(whole.nb_res / most_nodes)
    whole = replace(whole, nb_res=math.ceil(whole.nb_res / per_node), hosts=-(-whole.hosts // per_node))
    at_s, told = _chosen(path, whole)
    jobs = slice(*np.searchsorted(whole.submit_s, (at_s, at_s + _SPAN_S)).tolist())
    workload = replace(
        whole,
        window_s=_SPAN_S,
        ids=whole.ids[jobs],
        submit_s=np.round(whole.submit_s[jobs] - at_s, 6),
        run_s=whole.run_s[jobs],
        hosts=whole.hosts[jobs],
        walltime_s=whole.walltime_s[jobs],
        midnight_s=-_START_HOUR * SECONDS_PER_HOUR,
    )
    return TraceWeek(path.name.removesuffix(".gz").removesuffix(".swf"), told, workload)


def _chosen(path: Path, whole: GeneratedWorkload) -> tuple[float, str]:
    """The start of the week whose load is nearest to the paper's, in the trace's own time and for readers."""
    work_s = np.concatenate(([0.0], np.cumsum(whole.run_s * whole.hosts)))
    found: list[tuple[float, float, str]] = []
    for at_s, told in _weeks(path, whole.submit_s):
        first, last = np.searchsorted(whole.submit_s, (at_s, at_s + _SPAN_S))
        load = float(work_s[last] - work_s[first]) / (whole.nb_res * _SPAN_S)
        if load > 0.0:
            found.append((abs(load - PAPERS_LOAD), at_s, told))
    if not found:
        hours = (whole.submit_s[-1] - whole.submit_s[0]) / SECONDS_PER_HOUR
        raise InputError(
            path,
            f"has no jobs in a whole week from Monday 9:00 to Friday 17:00 ({HOURS} h): its submissions"
            f" extend over {hours:.1f} h",
        )
    _, at_s, told = min(found)
    return at_s, told


def _weeks(path: Path, submit_s: FloatArray) -> Iterator[tuple[float, str]]:
    """The starts of a trace's weeks, in its own time (s) and for readers."""
    first_s, last_s = float(submit_s[0]), float(submit_s[-1])
    reader = SwfReader(path)
    next(reader.chunks())  # so that its header is known
    begin = local_time(reader, first_s)
    if begin is None:
        for week in range(int((last_s - first_s) // _WEEK_S) + 1):
            at_s = first_s + week * _WEEK_S
            if at_s + _SPAN_S <= last_s:
                yield at_s, f"day {7 * week} of the trace"
        return
    start = begin.replace(hour=_START_HOUR, minute=0, second=0, microsecond=0)
    start -= timedelta(days=start.weekday())
    while (at_s := first_s + start.timestamp() - begin.timestamp()) + _SPAN_S <= last_s:
        if at_s >= first_s:
            yield at_s, f"week of {start:%Y-%m-%d}"
        start += timedelta(days=7)
