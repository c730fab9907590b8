"""The weeks of the energy-budget study: traces in SWF, or synthetic ones that take their place."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.generate.server_spec import load_server
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import SwfOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.generate.workload_synthetic import SyntheticOptions, synthetic_workload
from beasy_sched.units import SECONDS_PER_DAY

SERVER: Final = "taurus"
"""The machine of the paper's Table I; one processor of a trace is one server."""
WEEK_DAYS: Final = 7
PERIOD_DAYS: Final = (2, 5)
"""The three middle days, for which the budget holds."""
_JOB_SIZES: Final = {1: 35, 2: 10, 4: 15, 8: 15, 16: 15, 32: 10}
_RUN_MEDIAN_S, _RUN_LOG_SD, _RUN_CAP_S = 3600.0, 1.5, 24 * 3600.0
_SYNTHETIC: Final = ((128, 1900, 1), (192, 2900, 2), (256, 3900, 3))
"""Servers, jobs and seed of the weeks that stand in where no trace is given."""


@dataclass(frozen=True)
class Week:
    """A week of jobs on as many servers as its machine had processors."""

    name: str
    hosts: int
    workload: Path
    """Batsim workload."""
    sha256: str
    jobs: int
    load: float
    """Host-seconds of all jobs, over those of the week."""


def prepare_weeks(folder: Path, traces: Sequence[Path], *, quick: bool) -> list[Week]:
    """Write the workloads of ``traces``, or of synthetic weeks, into ``folder``.

    ``quick`` takes small synthetic weeks. Raises ConfigError and InputError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    speed = load_server(SERVER).kind().reference_speed_flops
    made = [_from_trace(trace, speed) for trace in traces] or [
        _synthetic(*size, speed, quick=quick) for size in _SYNTHETIC[: 2 if quick else None]
    ]
    names = [name for name, _ in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--week: two weeks are called {twice!r}: rename one of the files")
    return [_written(folder, name, workload) for name, workload in made]


def _from_trace(trace: Path, speed: float) -> tuple[str, GeneratedWorkload]:
    name = trace.name.removesuffix(".gz").removesuffix(".swf")
    return name, workload_from_swf(trace, SwfOptions(reference_speed_flops=speed))


def _synthetic(
    hosts: int, jobs: int, seed: int, speed: float, *, quick: bool
) -> tuple[str, GeneratedWorkload]:
    if quick:
        hosts, jobs = hosts // 4, jobs // 8
    sizes = {size: share for size, share in _JOB_SIZES.items() if size <= hosts}
    options = SyntheticOptions(
        reference_speed_flops=speed,
        jobs=jobs,
        hosts=hosts,
        day_shares=(1.0,) * WEEK_DAYS,
        night_ratio=0.4,
        run_median_s=_RUN_MEDIAN_S,
        run_log_sd=_RUN_LOG_SD,
        run_cap_s=_RUN_CAP_S,
        host_shares=sizes,
        seed=seed,
    )
    return f"synthetic-{seed}", synthetic_workload(options)


def _written(folder: Path, name: str, workload: GeneratedWorkload) -> Week:
    content = b"".join(workload.json_pieces())
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{name}-{digest[:16]}.json"
    if not path.exists():
        write_atomic(path, content)
    load = float(workload.run_s @ workload.hosts) / (workload.nb_res * WEEK_DAYS * SECONDS_PER_DAY)
    return Week(name, workload.nb_res, path, digest, workload.size, load)
