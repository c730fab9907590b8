"""Let policies schedule the same days, each as a scheduler's and a simulator's process, some at a time."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from run_inputs import PROGRAM, Inputs, show
from two_processes import TICK_S, RunFailed, Stopped, StopSignals, run_both

from beasy_sched.cli.options import read_options
from beasy_sched.errors import BeasyError, why
from beasy_sched.outputs.tables import COMPARISON_COLUMNS, Contender
from beasy_sched.policies.registry import make_policy

LOG_NAME = "run_log.txt"
"""What the two processes of a policy printed, where several run."""


@dataclass(frozen=True)
class Pair:
    """A policy's two commands, less the name of the program, and where they write."""

    policy: str
    folder: Path
    scheduler: list[str]
    simulator: list[str]

    @property
    def summary(self) -> dict[str, Any] | None:
        """What the run came to; None where it has left no summary."""
        try:
            found = json.loads((self.folder / "run_summary.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def clear(self) -> None:
        """Make the folder; results of an earlier run go, or they could be taken for those of this one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob("run_*"):
            path.unlink()


def check_policies(chosen: argparse.Namespace) -> None:
    """See that each policy can be made with its options, before anything is. Raises BeasyError, RunFailed."""
    options = read_options(chosen.options) if chosen.options is not None else {}
    for policy in chosen.policies:
        try:
            make_policy(policy, options)
        except BeasyError:
            raise
        except Exception as error:  # whatever a policy of someone else's raises
            raise RunFailed(f"policy {policy!r}: {why(error)}", 1) from None


def folder_name(policy: str) -> str:
    """Return the name of a policy's folder: its own, or something like it for package.module:Class."""
    return re.sub(r"[^\w.-]", "_", policy)


def pair(chosen: argparse.Namespace, inputs: Inputs, plan: str | None, policy: str) -> Pair:
    """Return the commands of a policy; its results go to a folder of its name."""
    folder = chosen.out / folder_name(policy)
    prefix = str(folder / "run")
    serve = ["serve", "-s", "tcp://127.0.0.1:0", "--policy", policy]
    serve += ["-o", chosen.options] if chosen.options is not None else []
    serve += ["--site", inputs.site, *(["--plan", plan] if plan else []), "-e", prefix, "--timeout", "60"]
    batsim = ["batsim", "-p", inputs.platform, "-w", inputs.workload, "--events", inputs.power]
    batsim += ["--forward-unknown-events", "-E", "-e", prefix]
    return Pair(policy, folder, serve, batsim)


def run_one(chosen: argparse.Namespace, inputs: Inputs, plan: str | None) -> Contender:
    """Run the one policy chosen; both processes print as they go. Raises RunFailed, Stopped."""
    only = pair(chosen, inputs, plan, chosen.policies[0])
    only.clear()
    show(only.scheduler)
    show([*only.simulator, "-s", "ENDPOINT"])
    run_both([*PROGRAM, *only.scheduler], [*PROGRAM, *only.simulator])
    return Contender(only.policy, only.summary)


def run_several(chosen: argparse.Namespace, inputs: Inputs, plan: str | None) -> tuple[list[Contender], int]:
    """Run all policies chosen, ``chosen.jobs`` at a time; return what came of each, in their order.

    The number is that of the signal that has ended all early, or 0. What a pair prints goes to a file in
    its folder.
    """
    pairs = [pair(chosen, inputs, plan, policy) for policy in chosen.policies]
    example = pair(chosen, inputs, plan, "POLICY")
    show(example.scheduler)
    show([*example.simulator, "-s", "ENDPOINT"])
    print(f"{len(pairs)} policies, {chosen.jobs} at a time:", file=sys.stderr, flush=True)
    done: dict[str, Contender] = {}
    with StopSignals() as signals, _progress(len(pairs)) as progress:
        with ThreadPoolExecutor(chosen.jobs) as pool:
            pending = {pool.submit(_contend, each, signals, progress) for each in pairs}
            while pending:  # never waits for long: a signal in the moment before is not noted while it waits
                ended, pending = wait(pending, TICK_S, FIRST_COMPLETED)
                for contender, duration_s in (future.result() for future in ended):
                    done[contender.policy] = contender
                    progress.ended(contender.policy, _story(contender, duration_s))
        stopped_by = signals.number or 0
    return [done[each.policy] for each in pairs], stopped_by


class Progress(Protocol):
    """Told when a policy begins, and when it has ended."""

    def began(self, policy: str) -> None:
        """Note that a policy runs."""

    def ended(self, policy: str, story: str) -> None:
        """Note that a policy has ended, and how."""


def _contend(each: Pair, signals: StopSignals, progress: Progress) -> tuple[Contender, float]:
    """Run a pair, and tell what came of it; this never raises for what may go wrong in a run."""
    begin = time.monotonic()
    failure = None
    try:
        signals.check()
        progress.began(each.policy)
        each.clear()
        with (each.folder / LOG_NAME).open("a", encoding="utf-8") as log:
            run_both([*PROGRAM, *each.scheduler], [*PROGRAM, *each.simulator], signals, log)
    except Stopped as stopped:
        return Contender(each.policy, None, f"stopped by {stopped}"), time.monotonic() - begin
    except RunFailed as error:
        failure = _cause(each) or str(error)
    except OSError as error:
        failure = f"{error.filename}: {error.strerror}"
    return Contender(each.policy, each.summary, failure), time.monotonic() - begin


def _cause(each: Pair) -> str | None:
    """Return the first complaint of either process, or the summary's; that a partner has gone is none."""
    complaints = []
    with contextlib.suppress(OSError):
        text = (each.folder / LOG_NAME).read_text("utf-8", errors="replace")
        complaints = re.findall(r"^(?:beasy-sched|Error): (.*)", text, re.MULTILINE)
    told = (each.summary or {}).get("error")
    return next((found for found in complaints if "has gone away" not in found), told)


def _story(contender: Contender, duration_s: float) -> str:
    if contender.problem is not None or contender.summary is None:
        return f"{contender.policy}: {contender.problem}; see {folder_name(contender.policy)}/{LOG_NAME}"
    shares = {column.name: column.text(contender.summary) for column in COMPARISON_COLUMNS}
    finished, killed = shares["finished_pct"], shares["killed_pct"]
    return f"{contender.policy}: {finished} % of the jobs finished, {killed} % killed; {duration_s:.1f} s"


class _Lines:
    """Progress for a file: a line for each policy that has ended."""

    def began(self, policy: str) -> None: ...

    def ended(self, policy: str, story: str) -> None:
        print(f"  {story}", file=sys.stderr, flush=True)


class _Bar:
    """Progress for a terminal: the same lines above a bar that names what runs."""

    def __init__(self, bar: Any, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total)
        self._running: dict[str, None] = {}

    def began(self, policy: str) -> None:
        self._running[policy] = None
        self._bar.update(self._task, description=", ".join(list(self._running)))

    def ended(self, policy: str, story: str) -> None:
        self._running.pop(policy, None)
        self._bar.console.print(f"  {story}", highlight=False, markup=False, soft_wrap=True)
        self._bar.update(self._task, advance=1, description=", ".join(list(self._running)))


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, total)
