"""Rounds of GreenSlot: the paper's size within a fraction of a second, and time in proportion to the jobs."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from beasy_sched.plugins.greenslot.planning import QueuedTask, plan_round
from beasy_sched.plugins.greenslot.slots import Slots

pytestmark = pytest.mark.bench

SLOT_S = 900.0
HOUR_S = 3600.0


def two_days(nodes: int, size: int = 192) -> Slots:
    """Sun of 144 W a node at noon, off-peak prices at night."""
    hour = np.arange(size) * SLOT_S / HOUR_S
    noise = np.random.default_rng(1).uniform(0.3, 1.0, size)
    sun_w = np.maximum(np.sin(2 * np.pi * hour / 24), 0) * 144 * nodes * noise
    price = np.where(hour % 24 < 14, 0.13, 0.08)
    return Slots.predicted(
        0.0, SLOT_S, sun_w, price, nodes=nodes, full_w=105.0, sleep_w=8.6, base_w=85.0, daylight=sun_w > 0
    )


def single_jobs(count: int) -> list[QueuedTask]:
    """Jobs of 10 minutes to 4 hours, some of them due after the window."""
    rng = np.random.default_rng(2)
    return [
        QueuedTask(
            str(i),
            res=int(rng.integers(1, 4)),
            duration_s=rng.uniform(600, 4 * HOUR_S),
            deadline_s=rng.uniform(8 * HOUR_S, 60 * HOUR_S),
            order=i,
        )
        for i in range(count)
    ]


def workflows(count: int, width: int) -> list[QueuedTask]:
    """Three phases each: one job, many, one."""
    tasks = []
    for w in range(count):
        head, last = f"{w}", f"{w}.last"
        middle = tuple(f"{w}.{i}" for i in range(width))
        due_s, before = (20 + 20 * w / count) * HOUR_S, (head,)
        more = {"workflow": head, "order": w}
        tasks.append(QueuedTask(head, 1, 600.0, due_s - 4 * HOUR_S, **more))  # type: ignore[arg-type]
        tasks += [QueuedTask(k, 1, 2 * HOUR_S, due_s - HOUR_S, predecessors=before, **more) for k in middle]  # type: ignore[arg-type]
        tasks.append(QueuedTask(last, 1, 300.0, due_s, predecessors=middle, **more))  # type: ignore[arg-type]
    return tasks


CASES: dict[str, tuple[Callable[[], list[QueuedTask]], int]] = {
    "200 jobs, 16 nodes": (lambda: single_jobs(200), 16),
    "200 jobs, 64 nodes": (lambda: single_jobs(200), 64),
    "20 workflows of 10 jobs, 16 nodes": (lambda: workflows(20, 8), 16),
    "10 000 jobs, 16 nodes": (lambda: single_jobs(10_000), 16),
    "10 000 jobs, 3000 nodes": (lambda: single_jobs(10_000), 3000),
    "10 workflows of 1000 jobs, 3000 nodes": (lambda: workflows(10, 998), 3000),
}


@pytest.mark.parametrize("name", CASES)
def test_a_round_of_192_slots(name: str, benchmark: BenchmarkFixture) -> None:
    make, nodes = CASES[name]
    slots, tasks = two_days(nodes), make()
    done = benchmark.pedantic(lambda: plan_round(slots, tasks, {}), rounds=5)
    assert any(plan.start is not None for plan in done.plans.values())


def test_time_grows_no_faster_than_jobs_and_slots() -> None:
    """Four times the jobs, and four times the slots, in at most six times the time."""

    def time_s(count: int, size: int) -> float:
        slots, tasks, best_s = two_days(count, size), single_jobs(count), np.inf
        for _ in range(5):
            begin_s = process_time()
            plan_round(slots, tasks, {})
            best_s = min(best_s, process_time() - begin_s)
        return float(best_s)

    assert time_s(4000, 192) < 6 * time_s(1000, 192)
    assert time_s(1000, 4 * 192) < 6 * time_s(1000, 192)
