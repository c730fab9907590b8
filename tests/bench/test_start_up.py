"""Start-up: CPU time of commands that only print, as a multiple of that of a bare Python."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from bench.traces import ROWS
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench
ROUNDS = 7
COMMANDS = ("--version", "--help", "simulate --help", "compare --help", "check", "policies")


def cpu_s(*arguments: str, cwd: Path) -> float:
    """Return the user and system CPU time of Python with these arguments, s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, *arguments], cwd=cwd, check=False, **silent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", COMMANDS)
def test_start_up(command: str, benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    ours: list[float] = []
    bare: list[float] = []

    def both() -> None:
        ours.append(cpu_s("-m", "beasy_sched", *command.split(), cwd=tmp_path))
        bare.append(cpu_s("-c", "pass", cwd=tmp_path))

    both()  # writes the compiled modules
    ours.clear(), bare.clear()
    benchmark.pedantic(both, rounds=ROUNDS)
    ours_s, bare_s = statistics.median(ours), statistics.median(bare)
    remark = f"user and system CPU time, medians of {ROUNDS} rounds in turns; peer: python -c pass"
    numbers = f"{ours_s:.3f} s", f"{bare_s:.3f} s", f"{ours_s / bare_s:.1f}"
    ROWS.append((f"beasy-sched {command}", *numbers, remark))
