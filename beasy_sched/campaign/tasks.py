"""Who does the work of a campaign: the interface of local processes and of a cluster.

One run, wherever it is executed: everything it needs comes as bytes, everything it gives goes back so.
"""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from beasy_sched.errors import MachineError, machine_error, why
from beasy_sched.outputs.files import RunFiles
from beasy_sched.runner import run_in_process
from beasy_sched.settings import RunSettings
from beasy_sched.simulator import Inputs

Task = tuple[Any, Callable[[Any], Any], Any]
"""A key, a function that can be imported by name, and its argument."""


@dataclass(frozen=True)
class Failure:
    """In place of a result: the task raised an exception, or its process died."""

    error: str
    machine: bool = False
    """Whether it is the machine that lacks something, so that other tasks would fail, too."""


class Executor(Protocol):
    """Does tasks, several at a time."""

    @property
    def busy(self) -> int:
        """How many tasks are under way."""

    @property
    def slots(self) -> int:
        """How many tasks may be under way."""

    def submit(self, key: Any, function: Callable[[Any], Any], argument: Any) -> None:
        """Begin a task."""

    def next_done(self) -> tuple[Any, Any]:
        """Wait for a task to end; return its key and its result, or a `Failure`."""

    def close(self) -> None:
        """Stop what is still under way."""


def work_through(executor: Executor, tasks: Iterable[Task], done: Callable[[Any, Any], None]) -> None:
    """Do all tasks, in order but side by side; ``done`` is told each key and result, as they come.

    Tasks are taken from the iterable only when there is room for them. Raises MachineError, of which
    ``done`` is not told.
    """
    for key, function, argument in tasks:
        while executor.busy >= executor.slots:
            _hand_on(*executor.next_done(), done)
        executor.submit(key, function, argument)
    while executor.busy:
        _hand_on(*executor.next_done(), done)


def _hand_on(key: Any, result: Any, done: Callable[[Any, Any], None]) -> None:
    if isinstance(result, Failure) and result.machine:
        raise MachineError(result.error)
    done(key, result)


Keep = Literal["nothing", "trace", "everything"]

TRACE = "run_energy_trace.csv"
"""Name of the file of a run's trace."""


@dataclass(frozen=True)
class RunTask:
    """A run and its inputs."""

    policy: str
    options: dict[str, Any]
    site: str
    """Text of the site file, with the guard."""
    windows: int
    platform: bytes
    workload: bytes
    power: bytes
    plan: bytes | None
    keep: Keep = "nothing"


@dataclass(frozen=True)
class RunResult:
    """What came of it."""

    summary: dict[str, Any] | None
    error: str | None
    """Why it did not reach its end; None where it did."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    trace: str | None = None
    """Python's traceback, where there is one."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What was to be kept, by name."""


def execute(task: RunTask) -> RunResult:
    """Run it. Whatever goes wrong is told in the result, but for what the machine lacks: MachineError."""
    gc.set_threshold(200_000, 20, 100)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    summary, error, trace, files = None, None, None, {}
    with TemporaryDirectory(prefix="beasy-run-") as place:
        folder = Path(place)
        try:
            summary = _run(task, folder)
            error = _not_ended(summary)
        except Exception as found:
            if (lack := machine_error(found)) is not None:
                raise lack from found
            error = why(found).replace(f"{folder}/", "")
            trace = traceback.format_exc()
        files = _kept(task, folder, summary)
    return RunResult(summary, error, time.perf_counter() - wall_s, time.process_time() - cpu_s, trace, files)


def _run(task: RunTask, folder: Path) -> dict[str, Any]:
    contents = {"platform.xml": task.platform, "workload.json": task.workload, "power.txt": task.power}
    if task.plan is not None:
        contents["plan.msgpack"] = task.plan
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    settings = RunSettings(
        policy=task.policy,
        options=task.options,
        site=task.site,
        plan=None if task.plan is None else str(folder / "plan.msgpack"),
        windows=task.windows,
    )
    prefix = None if task.keep == "nothing" else str(folder / "out" / "run")
    files = RunFiles(prefix, settings, decisions=task.keep == "everything")
    inputs = Inputs(folder / "platform.xml", [folder / "workload.json"], [folder / "power.txt"])
    summary = run_in_process(inputs, files)
    if task.plan is not None:
        summary["settings"]["plan"] = "plan.msgpack"  # not where it lay for this run
    return summary


def _kept(task: RunTask, folder: Path, summary: dict[str, Any] | None) -> dict[str, bytes]:
    if task.keep == "nothing":
        return {}
    found = {path.name: path for path in (folder / "out").glob("run_*")}
    if task.keep == "trace":
        found = {name: path for name, path in found.items() if name == TRACE}
    files = {name: path.read_bytes() for name, path in sorted(found.items())}
    if summary is not None and "run_summary.json" in files:
        files["run_summary.json"] = (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode()
    return files


def _not_ended(summary: dict[str, Any]) -> str | None:
    if summary["error"]:
        return str(summary["error"])
    return None if summary["complete"] else "the run did not reach its end"
