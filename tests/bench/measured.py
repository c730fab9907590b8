"""Time and memory of whole processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = """
import resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
elapsed = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(elapsed, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(code)
"""
"""A process counts its parent's memory until it becomes a program of its own: so the parent is small."""


@dataclass(frozen=True)
class Measured:
    """What a process took."""

    elapsed_s: float
    cpu_s: float
    memory_mib: float
    """Largest resident memory."""

    def __str__(self) -> str:
        return f"{self.cpu_s:.2f} s, {self.memory_mib:.0f} MiB"


class Running:
    """A process that is measured."""

    def __init__(self, arguments: Sequence[str | Path], cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCHER, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        )  # fmt: skip

    def wait(self) -> Measured:
        """Wait for its end, which must be a good one."""
        said, complained = self._process.communicate()
        assert self._process.returncode == 0, complained
        return Measured(*map(float, said.split()))


def measure(arguments: Sequence[str | Path]) -> Measured:
    """Run a process to its end."""
    return Running(arguments).wait()
