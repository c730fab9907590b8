"""The daemon's time for a message, next to pybatsim's easyBackfill, on the same messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench.traces import ROWS, Inputs
from pytest_benchmark.fixture import BenchmarkFixture

from beasy_sched.simulator import Inputs as Files
from beasy_sched.simulator import Simulation, SimulationOptions, simulation_from_files

pytest.importorskip("batsim", reason="pybatsim is not installed")

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("name", ["sdscblue", "metacentrum", "metacentrum-queue"])
def test_time_a_message(
    name: str,
    inputs: Callable[[str], Inputs],
    benchmark: BenchmarkFixture,
    request: pytest.FixtureRequest,
) -> None:
    from pybatsim_inside import load_example
    from pybatsim_timing import compare

    made = inputs(name)
    quick = request.config.getoption("--quick")
    scheduler = load_example("easyBackfill")

    def make() -> Simulation:
        return simulation_from_files(Files(made.platform, [made.workload]), SimulationOptions())

    limit = 12_000 if quick else None
    theirs, ours = benchmark.pedantic(lambda: compare(make, scheduler, limit), rounds=1)
    ROWS.append(
        (
            f"daemon, a message, {name}" + ("" if made.real else " (synthetic)"),
            f"{ours.mean_us:.1f} us mean",
            f"{theirs.mean_us:.1f} us (pybatsim easyBackfill)",
            f"{theirs.mean_us / ours.mean_us:.1f}",
            f"{len(ours.seconds)} messages, longest queue {ours.waiting.max()}",
        )
    )
