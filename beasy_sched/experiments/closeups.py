"""Single runs of a campaign looked at closely: all their files, made again from the campaign's inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beasy_sched.experiments.execute import TRACE, execute
from beasy_sched.experiments.expansion import RunSpec
from beasy_sched.experiments.preparation import Preparation
from beasy_sched.experiments.processes import Processes
from beasy_sched.experiments.tables import Campaign
from beasy_sched.experiments.tasks import Failure, work_through
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "closeups"
_JOBS = "run_jobs.csv"


@dataclass(frozen=True)
class Closeup:
    """The files of one run; `beasy-sched explain` reads the folder."""

    folder: Path

    @property
    def trace(self) -> pd.DataFrame:
        """Its energy trace."""
        import pandas

        return pandas.read_csv(self.folder / TRACE)

    def kills(self) -> dict[float, int]:
        """How many jobs were killed, by hour of the kill; those cut off by the end of the run left out."""
        import pandas

        jobs = pandas.read_csv(self.folder / _JOBS)
        last = self.trace.iloc[-1]
        in_time = jobs["finish_time"] < last["start_s"] + last["duration_s"] - 1.0
        killed = jobs[(jobs["final_state"] == "COMPLETED_KILLED") & in_time]
        times, counts = np.unique(np.round(killed["finish_time"] / SECONDS_PER_HOUR, 2), return_counts=True)
        return {float(time): int(count) for time, count in zip(times, counts, strict=True)}


def make_closeups(campaign: Campaign, runs: Iterable[str], out: Path, *, jobs: int) -> dict[str, Closeup]:
    """Execute the named runs again, once, into ``out/closeups/RUN``; return those that went well."""
    wanted = {name: Closeup(out / FOLDER / name) for name in runs}
    specs = {spec.key: spec for spec in campaign.specs}
    missing = [specs[name] for name, closeup in wanted.items() if not (closeup.folder / TRACE).exists()]
    prepared = Preparation(campaign.folder)
    executor = Processes(jobs)
    try:
        tasks = ((spec, execute, prepared.task(spec, "everything")[0]) for spec in missing)
        work_through(executor, tasks, lambda spec, result: _write(wanted, spec, result))
    finally:
        executor.close()
    return {name: closeup for name, closeup in wanted.items() if (closeup.folder / TRACE).exists()}


def _write(wanted: dict[str, Closeup], spec: RunSpec, result: object) -> None:
    if isinstance(result, Failure):
        return
    folder = wanted[spec.key].folder
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(result.files.items(), key=lambda file: file[0] == TRACE)  # type: ignore[attr-defined]
    for name, content in files:  # the trace last: where it is, all is
        write_atomic(folder / name, content)
