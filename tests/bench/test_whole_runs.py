"""Whole processes: `beasy-sched simulate --policy easy` on real traces, energy metered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.traces import ROWS, Inputs, command
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench


LAUNCHER = """
import resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
elapsed = time.perf_counter() - begin
print(elapsed, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(code)
"""
"""A process counts its parent's memory until it becomes a program of its own: so the parent is small."""


def run_process(arguments: list[str]) -> tuple[float, float]:
    """Run to the end; return the wall time (s) and the largest resident memory (MiB)."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    elapsed, memory = done.stdout.split()
    return float(elapsed), float(memory)


@pytest.mark.parametrize("name", ["sdscblue", "metacentrum", "kth-sp2", "metacentrum-queue", "ricc"])
def test_simulate_easy(
    name: str, inputs: Callable[[str], Inputs], benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    made = inputs(name)
    prefix = tmp_path / "run"
    arguments = command(
        "simulate", "-p", made.platform, "-w", made.workload, "--policy", "easy", "-e", prefix, "-q"
    )
    taken: list[tuple[float, float]] = []
    rounds = 1 if made.trace.slow else 5
    benchmark.pedantic(lambda: taken.append(run_process(arguments)), rounds=rounds)
    summary = json.loads(Path(f"{prefix}_summary.json").read_text())
    assert summary["complete"]
    seconds = sorted(elapsed for elapsed, _ in taken)[len(taken) // 2]
    peer = made.trace.batsim_s if made.real else None
    size = f"{summary['jobs']['submitted']} jobs, {made.trace.hosts} hosts"
    ROWS.append(
        (
            f"simulate {name}" + ("" if made.real else " (synthetic)"),
            f"{seconds:.2f} s",
            f"{peer} s (Batsim, C++)" if peer else "-",
            f"{peer / seconds:.1f}" if peer else "-",
            f"{size}, {max(memory for _, memory in taken):.0f} MiB",
        )
    )
