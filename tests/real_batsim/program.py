"""A real Batsim 4.2.1 for tests: the program, its platforms, and runs with our daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from processes import PATIENCE_S, free_endpoint, program

BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "batsim"
"""Batsim's source and some of its platforms, beside the project."""
_INSTALLED = Path("/opt/batsim/batsim")


def real_batsim() -> Path:
    """Find Batsim: $BATSIM, /opt/batsim/batsim, or one that is built from the source beside the project.

    The test is skipped where there is none.
    """
    named = os.environ.get("BATSIM")
    if named:
        assert os.access(named, os.X_OK), f"BATSIM={named} is not a program"
        return Path(named)
    if os.access(_INSTALLED, os.X_OK):
        return _INSTALLED
    if not os.access(BESIDE / "build", os.X_OK):
        pytest.skip(f"no Batsim: neither $BATSIM, {_INSTALLED} nor {BESIDE / 'build'} exists")
    return _built()


@cache
def _built() -> Path:
    """Build Batsim once for all tests of a process; it takes about a minute."""
    program = Path(tempfile.gettempdir()) / f"batsim-of-tests-{os.getuid()}" / "batsim"
    if not os.access(program, os.X_OK):
        program.parent.mkdir(exist_ok=True)
        done = subprocess.run([BESIDE / "build", program], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no Batsim: {BESIDE / 'build'} failed: {done.stderr[-500:]}")
    return program


def batsims_platform(name: str) -> Path:
    """Find one of Batsim's own platforms beside the project; the test is skipped where it is missing."""
    path = BESIDE / "platforms" / name
    if not path.exists():
        pytest.skip(f"no platform: {path} does not exist")
    return path


@dataclass(frozen=True)
class Beside:
    """The ends of a daemon and of the real Batsim that it served."""

    batsim: int
    batsim_said: str
    daemon: int
    daemon_said: str

    def both_ended_well(self) -> None:
        assert (self.batsim, self.daemon) == (0, 0), f"{self.batsim_said[-3000:]}\n{self.daemon_said[-3000:]}"

    def batsim_aborted_with(self, reason: str) -> None:
        """Check that Batsim ended with an assertion that names ``reason``."""
        assert self.batsim == -signal.SIGABRT, self.batsim_said[-3000:]
        assert any(reason in line for line in self.batsim_said.splitlines() if "CRITICAL" in line)


def beside(
    folder: Path,
    platform: Path,
    workload: Path,
    *serve: str | Path,
    batsim: Sequence[str | Path] = (),
    while_running: Callable[[subprocess.Popen[bytes], subprocess.Popen[bytes]], None] | None = None,
) -> Beside:
    """Run ``beasy-sched serve`` with the options ``serve`` beside the real Batsim; results are in ``folder``.

    ``while_running`` is called with Batsim's process and the daemon's.
    """
    real, endpoint = real_batsim(), free_endpoint()
    folder.mkdir(exist_ok=True)
    daemon = [
        program("beasy-sched"),
        "serve",
        "-s",
        endpoint,
        "--timeout",
        "60",
        "-o",
        folder / "run",
        *serve,
    ]
    simulator = [real, "-q", "-s", endpoint, "-p", platform, "-w", workload, "-e", folder / "run", *batsim]
    with ExitStack() as stack:
        logs = [stack.enter_context((folder / name).open("w+b")) for name in ("batsim.log", "daemon.log")]
        processes = []
        for command, log in zip((simulator, daemon), logs, strict=True):
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(_end, process)
            processes.append(process)
        if while_running is not None:
            while_running(*processes)
        codes = [process.wait(PATIENCE_S) for process in processes]
        said = [(folder / name).read_text("utf-8", "replace") for name in ("batsim.log", "daemon.log")]
    return Beside(codes[0], said[0], codes[1], said[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
