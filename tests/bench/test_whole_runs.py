"""Whole processes: `beasy-sched simulate --policy easy` on real traces, energy metered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.measured import Measured, measure
from bench.traces import ROWS, Inputs, command
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("name", ["sdscblue", "metacentrum", "kth-sp2", "metacentrum-queue", "ricc"])
def test_simulate_easy(
    name: str, inputs: Callable[[str], Inputs], benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    made = inputs(name)
    prefix = tmp_path / "run"
    arguments = command(
        "simulate", "-p", made.platform, "-w", made.workload, "--policy", "easy", "-e", prefix, "-q"
    )
    taken: list[Measured] = []
    rounds = 1 if made.trace.slow else 5
    benchmark.pedantic(lambda: taken.append(measure(arguments)), rounds=rounds)
    summary = json.loads(Path(f"{prefix}_summary.json").read_text())
    assert summary["complete"]
    seconds = sorted(each.elapsed_s for each in taken)[len(taken) // 2]
    peer = made.trace.batsim_s if made.real else None
    size = f"{summary['jobs']['submitted']} jobs, {made.trace.hosts} hosts"
    ROWS.append(
        (
            f"simulate {name}" + ("" if made.real else " (synthetic)"),
            f"{seconds:.2f} s",
            f"{peer} s (Batsim, C++)" if peer else "-",
            f"{peer / seconds:.1f}" if peer else "-",
            f"{size}, {max(each.memory_mib for each in taken):.0f} MiB",
        )
    )
