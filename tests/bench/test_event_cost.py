"""The cost of an event does not grow during a run: early and late messages at equal queue length."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from bench.traces import ROWS, Inputs
from pytest_benchmark.fixture import BenchmarkFixture

from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import JobCompleted, Message
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs as Files
from beasy_sched.simulator import SimulationOptions, simulation_from_files

pytestmark = pytest.mark.bench


def measure(made: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return queue length and time in the scheduler (s) of each message that ends a job."""
    session = build_session(RunSettings())
    lengths: list[int] = []
    seconds: list[float] = []

    def decide(message: Message) -> Reply:
        waiting = len(session.cluster.queue) if session.cluster else 0
        begin = time.perf_counter()
        reply = session.step(message)
        seconds.append(time.perf_counter() - begin)
        if not any(isinstance(event, JobCompleted) for event in message.events):
            seconds.pop()  # arrivals alone cost little; runs do not have as many of them early and late
        else:
            lengths.append(waiting)
        return reply

    files = Files(made.platform, [made.workload])
    simulation_from_files(files, SimulationOptions(energy=True)).run(decide)
    return np.array(lengths), np.array(seconds)


@pytest.mark.parametrize("name", ["kth-sp2", "metacentrum-queue", "ricc"])
def test_late_messages_cost_what_early_ones_do(
    name: str, inputs: Callable[[str], Inputs], benchmark: BenchmarkFixture
) -> None:
    made = inputs(name)
    found = benchmark.pedantic(measure, args=(made,), rounds=1)
    lengths, seconds = found
    bins = np.digitize(lengths, [1, 4, 16, 64, 256, 1024, 4096, 16384])
    half = len(lengths) // 2
    ratios = [
        np.median(seconds[half:][late]) / np.median(seconds[:half][early])
        for early, late in ((bins[:half] == b, bins[half:] == b) for b in np.unique(bins))
        if early.sum() > 200 and late.sum() > 200
    ]
    ROWS.append(
        (
            f"end of a job, easy, {name}" + ("" if made.real else " (synthetic)"),
            f"{1e6 * np.median(seconds):.0f} us median, {1e6 * np.percentile(seconds, 99):.0f} us p99",
            "its first half",
            f"{max(ratios):.2f}" if ratios else "-",
            f"late / early at equal queue length, worst of {len(ratios)}; longest queue {lengths.max()}",
        )
    )
