#!/usr/bin/env python3
"""The scheduler of compose.yaml: serves one simulation of the files in the current folder.

Usage: serve_folder.py [--policy NAME] [OPTIONS OF "beasy-sched serve"]

The files have the names that `scripts/run` gives them. The site is site.toml; plan.msgpack and forecast.csv
are used if they exist. If the policy requires a plan and plan.msgpack is missing, it is made before
the daemon listens. At the end, the script prints where the results are (the variable FOLDER contains the
folder's path on the user's side) and waits for the simulator to write its files.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.comparisons.days import MadeFiles
from beasy_sched.policies.registry import policy_class
from beasy_sched.signals import termination_signals

FILES = MadeFiles()
RUN = "run"
"""Prefix of the results, the simulator's as well."""
LAST_FILE = f"{RUN}_schedule.csv"
"""The file that a simulator writes last."""
PATIENCE_S = 60.0
"""Longest wait for the simulator's files after the last message, s."""
TICK_S = 0.1
FINISH_S = 0.3
"""Wait between the simulator's last file and the end of this program, so that the simulator ends first, s."""

Stamp = tuple[int, int, int]


class Program:
    """Runner of commands of beasy-sched, one at a time, which forwards signals to them."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self.stopped = False
        """Whether a signal was received."""
        for number in termination_signals():
            signal.signal(number, self._on_signal)

    def run(self, *arguments: str) -> int:
        """Run a command; return its exit code, above 128 if a signal killed it."""
        with subprocess.Popen([sys.executable, "-m", "beasy_sched", *arguments]) as self._child:
            code = self._child.wait()
        return code if code >= 0 else 128 - code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        if self._child is not None:
            self._child.send_signal(number)


def main(arguments: Sequence[str]) -> int:
    """Serve a simulation; return the exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--policy", default="easy")
    given, options = parser.parse_known_args(arguments)
    before, program = stamp_of_last_file(), Program()
    if needs_plan(given.policy) and not Path(FILES.plan).exists():
        code = make_plan(program, given.policy)
        if code:
            return code
    used = {"--site": FILES.site, "--plan": FILES.plan, "--forecast": FILES.forecast}
    found = [f"{name}={file}" for name, file in used.items() if name == "--site" or Path(file).exists()]
    code = program.run("serve", f"--policy={given.policy}", *found, f"--export={RUN}", *options)
    if code:
        return code
    report_results()
    return await_simulator(program, before)


def needs_plan(policy: str) -> bool:
    """Return whether a policy requires a plan; False for an invalid name, which `serve` reports."""
    try:
        return policy_class(policy).needs_plan
    except BeasyError:
        return False


def make_plan(program: Program, policy: str) -> int:
    """Make the plan from the forecast, or else from the actual jobs and power; return the exit code."""
    workload = first_of(FILES.forecast_workload, FILES.workload)
    power = first_of(FILES.forecast_power, FILES.power)
    report(f"{policy} requires a plan, and {FILES.plan} is missing: making it from {workload} and {power}")
    inputs = ["-p", FILES.platform, "--site", FILES.site, "-w", workload, "--production", power]
    return program.run("plan", *inputs, "-o", FILES.plan, "-q")


def first_of(forecast: str, actual: str) -> str:
    """Return the forecast's file if it exists, or else the actual one."""
    return forecast if Path(forecast).exists() else actual


def report_results() -> None:
    """Print where the results are, before the simulator ends: compose may show no output after that."""
    folder = os.environ.get("FOLDER") or str(Path.cwd())
    report(f"results in {folder}: {RUN}_summary.json, {RUN}_jobs.csv and all other files {RUN}_*")


def await_simulator(program: Program, before: Stamp | None) -> int:
    """Wait until the simulator has written its files; return the exit code.

    If this container ended earlier, compose could stop the simulator while it writes them. ``before`` is the
    stamp of the simulator's last file before this run.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while stamp_of_last_file() in (before, None):
        if time.monotonic() > deadline_s or program.stopped:
            report(f"the simulator has not written {LAST_FILE}: its files may be incomplete")
            return 1
        time.sleep(TICK_S)
    time.sleep(FINISH_S)
    return 0


def stamp_of_last_file() -> Stamp | None:
    """Return time, inode and size of the simulator's last file; None if it is missing or empty."""
    try:
        found = Path(LAST_FILE).stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found.st_size else None


def report(text: str) -> None:
    """Print a line on stderr, as the daemon does."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
