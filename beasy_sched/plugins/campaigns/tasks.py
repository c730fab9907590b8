"""One run, in any process or on any computer: inputs and results are bytes."""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from beasy_sched._version import __version__
from beasy_sched.engine import Session
from beasy_sched.errors import machine_error, why
from beasy_sched.formats.batsim_workload import read_workload, run_times_s
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_files import FAILED
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.summary import DONE
from beasy_sched.plugins.campaigns.scenario import ForecastPart, PolicyPart
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.simulator import Inputs

Keep = Literal["nothing", "trace", "everything"]

TRACE = "run_energy_trace.csv"
"""Name of the file of a run's trace."""
WORKLOAD = "workload.json"
"""Name of the file of a run's jobs during its execution."""

EXPECTED = ("forecast_workload.json", "forecast_power.txt")
"""Names of the input files of plans made during a run."""


@dataclass(frozen=True)
class RunTask:
    """A run and its inputs."""

    policy: PolicyPart
    site: str
    """Content of the site file, with the guard."""
    windows: int
    platform: bytes
    workload: bytes
    power: bytes
    plan: bytes | None
    keep: Keep = "nothing"
    replan: str = ""
    """Times of plans made during the run; empty if there are none."""
    expected: tuple[bytes, bytes] | None = None
    """Expected workload and power of plans made during the run."""
    forecast: ForecastPart | None = None
    forecast_file: bytes | None = None
    """Forecast file used for plans, if policies use the same forecast."""


@dataclass
class Attempt:
    """Outcome and resource usage of a run."""

    error: str | None = None
    """Reason why the run did not reach its end; None if it did."""
    trace: str | None = None
    """Python's traceback of the error, if there is one."""
    wall_s: float = 0.0
    cpu_s: float = 0.0


@dataclass
class RunResult(Attempt):
    """The result of a run."""

    version: str = ""
    """Version of the program that executed the run."""
    summary: RunSummary | None = None
    work_finished_pct: float | None = None
    """Work of the jobs that finished (flops), percent of all jobs'; None if the jobs have no work."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the run to keep, by path in the run's folder."""


@contextlib.contextmanager
def attempt(noted: Attempt) -> Iterator[None]:
    """Record a block's times and error. Raises only MachineError, if resources are exhausted."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    try:
        yield
    except Exception as error:
        if (lack := machine_error(error)) is not None:
            raise lack from error
        noted.error, noted.trace = why(error), traceback.format_exc()
    noted.wall_s, noted.cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s


def execute(task: RunTask) -> RunResult:
    """Execute a run. The result reports any failure. Raises MachineError if resources are exhausted."""
    result = RunResult(version=__version__)
    with TemporaryDirectory(prefix="beasy-run-") as place:
        folder = Path(place)
        with attempt(result):
            result.summary, finished = _run(task, folder)
            result.work_finished_pct = work_share_pct(folder / WORKLOAD, finished)
        result.files = _kept(task, folder, result.summary)
        if result.error is not None:
            result.error = result.error.replace(f"{folder}/", "")
    if (summary := result.summary) is not None:
        unfinished = None if summary.complete else "the run did not reach its end"
        result.error = summary.error or unfinished
    return result


class _WatchedFiles(RunFiles):
    """Files of a run, which also record the finished jobs."""

    finished: frozenset[str] = frozenset()

    def finish(self, session: Session, error: str | None = None, *, whole: bool = False) -> RunSummary:
        states = session.outcomes.columns()["state"].tolist()
        done = {state.value for state in DONE}
        self.finished = frozenset(
            job for job, state in zip(session.outcomes.names, states, strict=True) if state in done
        )
        return super().finish(session, error, whole=whole)


def work_share_pct(path: Path, finished: Collection[str]) -> float | None:
    """Return the share of a workload's flops that is in the jobs ``finished``, %; None without flops.

    Raises InputError.
    """
    workload = read_workload(path)
    flops = (workload.jobs.res * run_times_s(workload, speed_flops=1.0)).tolist()
    total = math.fsum(flops)
    done = math.fsum(work for job, work in zip(workload.jobs.ids, flops, strict=True) if job in finished)
    return 100.0 * done / total if total > 0.0 else None


def settings_in(task: RunTask, folder: Path) -> tuple[RunSettings, Inputs]:
    """Write the input files of a run into a folder; return the settings and inputs that refer to them."""
    contents = {"platform.xml": task.platform, WORKLOAD: task.workload, "power.txt": task.power}
    if task.plan is not None:
        contents["plan.msgpack"] = task.plan
    if task.forecast_file is not None:
        contents["forecast.csv"] = task.forecast_file
    if task.expected is not None:
        contents |= dict(zip(EXPECTED, task.expected, strict=True))
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    settings = RunSettings(
        policy=task.policy.name,
        options=task.policy.options,
        site=task.site,
        plan=None if task.plan is None else str(folder / "plan.msgpack"),
        windows=task.windows,
        forecast=None if task.forecast is None else task.forecast.named(folder),
        replan=_replan(task, folder),
        on_kill=task.policy.on_kill,
    )
    return settings, Inputs(folder / "platform.xml", [folder / WORKLOAD], [folder / "power.txt"])


def _run(task: RunTask, folder: Path) -> tuple[RunSummary, Collection[str]]:
    """Return the summary, and the jobs that finished."""
    settings, inputs = settings_in(task, folder)
    prefix = None if task.keep == "nothing" else str(folder / "out" / "run")
    files = _WatchedFiles(prefix, settings, decisions=task.keep == "everything")
    summary = run_in_process(inputs, files)
    if task.plan is not None:
        summary.settings.plan = "plan.msgpack"  # not its path during this run
    if task.forecast is not None:
        summary.settings.forecast = task.forecast.named(Path())
    if task.replan:
        summary.settings.replan = msgspec.to_builtins(_replan(task, Path()))
    return summary, files.finished


def _replan(task: RunTask, folder: Path) -> ReplanSettings | None:
    """Return the settings of plans made during the run, whose files are in ``folder``."""
    if not task.replan:
        return None
    workload, power = (str(folder / name) for name in EXPECTED)
    foreseen = task.forecast is not None and task.forecast.source != "none"
    return ReplanSettings(task.replan, (workload,), production=None if foreseen else power)


def _kept_name(name: str) -> str:
    """Return the name of a run's file in a campaign, whose table lists the failed runs."""
    return name.replace(FAILED, "", 1)


def _kept(task: RunTask, folder: Path, summary: RunSummary | None) -> dict[str, bytes]:
    if task.keep == "nothing":
        return {}
    out = folder / "out"
    paths = [path for path in sorted(out.rglob("*")) if path.is_file()]
    named = {_kept_name(path.relative_to(out).as_posix()): path for path in paths}
    files = {name: read_bytes(path) for name, path in named.items() if task.keep != "trace" or name == TRACE}
    if summary is not None and "run_summary.json" in files:
        files["run_summary.json"] = (summary.to_json() + "\n").encode()
    return files
