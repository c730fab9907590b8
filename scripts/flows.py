"""Print the files that a reader opens to follow each of three flows through the code.

The flows: from the power that a NOTIFY announces to the decisions of the new step; from a job's submission
to its EXECUTE_JOB; and from scripts/run to its table (only its own process: the scheduler that it starts is
the subject of the first two). A profiler records every function of the project that is called; files with at
least one such function are counted.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from beasy_sched.cli import main as command_line  # noqa: E402
from beasy_sched.model import decisions as d  # noqa: E402
from beasy_sched.model import events as e  # noqa: E402
from beasy_sched.protocol import batsim4  # noqa: E402
from beasy_sched.run.building import build_session  # noqa: E402
from beasy_sched.run.settings import RunSettings  # noqa: E402
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files  # noqa: E402

Files = frozenset[str]
ASKED = (d.QueryEnergy, d.CallMeLater)
"""Decisions by which the scheduler only asks for something."""


@contextmanager
def noted() -> Iterator[set[str]]:
    """Note the project's files in which a function runs meanwhile; what importing runs does not count."""
    files: set[str] = set()
    folders = (str(ROOT / "beasy_sched"), str(ROOT / "scripts"))

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(folders):
            caller = frame.f_back
            if caller is None or not caller.f_code.co_filename.startswith("<frozen importlib"):
                files.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type, unused-ignore]


def relative(files: set[str]) -> Files:
    return frozenset(str(Path(file).relative_to(ROOT)) for file in files - {__file__})


class Follower:
    """A scheduler that takes every message as the daemon does, bytes to bytes, and follows both flows."""

    def __init__(self, step: Callable[[e.Message], d.Reply]) -> None:
        self._step = step
        self.notified: list[Files] = []
        """One entry per step whose production was announced."""
        self.submitted: list[Files] = []
        """One entry per message that brings jobs, one of which starts at once."""
        self._open: set[str] | None = None

    def decide(self, message: e.Message) -> d.Reply:
        raw = batsim4.encode_message(message)
        with noted() as files:
            reply_bytes = batsim4.encode_reply(self._step(batsim4.decode_message(raw)))
        reply = batsim4.decode_reply(reply_bytes)
        decided = {type(decision) for decision in reply.decisions}.difference(ASKED)
        if any(isinstance(event, e.Notify) and "power" in str(event.data) for event in message.events):
            self._open = set()
        if self._open is not None:
            self._open |= files
            if decided or not any(isinstance(decision, d.QueryEnergy) for decision in reply.decisions):
                if decided:
                    self.notified.append(relative(self._open | {str(ROOT / "beasy_sched/daemon.py")}))
                self._open = None
        elif any(isinstance(event, e.JobSubmitted) for event in message.events) and d.ExecuteJob in decided:
            self.submitted.append(relative(files | {str(ROOT / "beasy_sched/daemon.py")}))
        return reply


def run_script(folder: Path) -> Files:
    """Run what scripts/run runs in this process, on one day and with two policies."""
    with noted() as files:
        try:
            command_line(
                ["compare", "--quick", "--policy", "beasy", "--policy", "easy", "--out", str(folder)]
            )
        except SystemExit as end:
            if end.code:
                raise
    return relative(files)


def follow_messages(folder: Path) -> Follower:
    settings = RunSettings(
        policy="beasy", site=(folder / "site.toml").read_text("utf-8"), plan=str(folder / "plan.msgpack")
    )
    follower = Follower(build_session(settings).step)
    inputs = Inputs(folder / "platform.xml", [folder / "workload.json"], [folder / "power.txt"])
    options = SimulationOptions(energy=True, forward_unknown_events=True)
    simulation_from_files(inputs, options).run(follower.decide)
    return follower


def show(title: str, cases: list[Files], *, names: bool) -> None:
    """Print how many files all ``cases`` of a flow open together, and how many the median case."""
    together = sorted(frozenset().union(*cases))
    median = sorted(map(len, cases))[len(cases) // 2]
    print(f"{title}: {len(together)} files; the median of {len(cases)} cases: {median}")
    if names:
        print("".join(f"    {name}\n" for name in together), end="")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/flows", description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true", help="also print the files")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = run_script(folder)
        follower = follow_messages(folder)
    show("power NOTIFY to decision", follower.notified, names=names)
    show("submission to EXECUTE_JOB", follower.submitted, names=names)
    show("scripts/run to its table", [script], names=names)


if __name__ == "__main__":
    main()
