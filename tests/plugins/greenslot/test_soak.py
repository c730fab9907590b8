"""What GreenSlot does not guarantee, counted on small windows; what random rounds bring about."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, Phase, given, settings
from plugins.greenslot.round_cases import NODE_WH, Instance, first_fit, instances, task, window

from beasy_sched.plugins.greenslot import planning
from beasy_sched.plugins.greenslot.planning import QueuedTask, RoundSettings, plan_round
from beasy_sched.plugins.greenslot.slots import Slots

pytestmark = pytest.mark.slow

REASONS = {text for name, text in vars(planning).items() if name.isupper() and isinstance(text, str)}


def test_the_random_rounds_bring_about_what_they_are_for() -> None:
    counts: Counter[str] = Counter()

    @settings(
        max_examples=examples(3000),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(instances())
    def count(case: Instance) -> None:
        done = case.plan()
        counts.update(plan.why for plan in done.plans.values())
        counts["late"] += any(plan.late for plan in done.plans.values())
        counts["an ancestor moves"] += any(not done.plans[key].late for key in done.taken_s)
        urgencies = {one.key: one.urgency for one in case.tasks}
        order = [urgencies[key] for key in done.plans]
        counts["a predecessor is less urgent"] += order != sorted(order)

    count()
    assert set(counts) > REASONS - {planning.PEAK_LATER}  # peaks have no price here
    assert min(counts.values()) >= 3, counts  # the rarest usually comes 20 to 40 times


def cost_of(slots: Slots, tasks: list[QueuedTask], starts: dict[str, int]) -> float:
    """What all brown energy of a schedule costs."""
    nodes = np.zeros(slots.size)
    for one in tasks:
        start = starts[one.key]
        nodes[start : start + round(one.duration_s / slots.slot_s)] += one.res
    brown_wh = np.maximum(nodes * NODE_WH - slots.sun_j / 3600, 0)
    return float((brown_wh * slots.price_per_kwh).sum() / 1000)


def can_be_met(slots: Slots, tasks: list[QueuedTask]) -> bool:
    """Whether some schedule keeps all deadlines: tries every one."""
    lengths = [round(one.duration_s / slots.slot_s) for one in tasks]
    lasts = [
        min(slots.last_start(one.latest_start_s), slots.size - n)
        for one, n in zip(tasks, lengths, strict=True)
    ]
    for starts in itertools.product(*(range(last + 1) for last in lasts)):
        free = slots.free.copy()
        for one, start, length in zip(tasks, starts, lengths, strict=True):
            free[start : start + length] -= one.res
        if free.min() >= 0:
            return True
    return False


def test_what_is_not_guaranteed() -> None:
    """Some rounds are dearer than starting everything at once, and some miss deadlines that could be kept.

    Neither may become common, and on the whole waiting must pay.
    """
    rng = np.random.default_rng(2011)
    counts: Counter[str] = Counter()
    waiting_cost = hasty_cost = 0.0
    for _ in range(4000):
        size, nodes = 8, int(rng.integers(1, 3))
        slots = window(
            (rng.integers(0, 3, size) * rng.integers(0, 2, size) * 25).tolist(),
            rng.choice([0.1, 0.2], size).tolist(),
            nodes,
        )
        tasks = [
            task(
                name, int(rng.integers(1, 4)), int(rng.integers(1, nodes + 1)), int(rng.integers(3, size + 1))
            )
            for name in "abcd"[: int(rng.integers(2, 5))]
        ]
        counts["all"] += 1
        plans = plan_round(slots, tasks, {}, RoundSettings(refuse=False)).plans
        starts = {key: plan.start for key, plan in plans.items()}
        if any(start is None or plans[key].late for key, start in starts.items()):
            counts["late"] += 1
            counts["late though all could be met"] += can_be_met(slots, tasks)
            continue
        hasty = first_fit(slots.free.copy(), sorted(tasks, key=lambda one: one.urgency))
        costs = [
            cost_of(slots, tasks, {key: start for key, start in one.items() if start is not None})
            for one in (starts, hasty)
        ]
        counts["compared"] += 1
        counts["dearer"] += costs[0] > costs[1] + 1e-9
        counts["cheaper"] += costs[0] < costs[1] - 1e-9
        waiting_cost, hasty_cost = waiting_cost + costs[0], hasty_cost + costs[1]
    print(dict(counts), f"cost {waiting_cost:.2f} against {hasty_cost:.2f} at once")
    assert 0 < counts["dearer"] < 0.1 * counts["compared"], counts
    assert counts["cheaper"] > 3 * counts["dearer"], counts
    assert waiting_cost < 0.9 * hasty_cost
    assert 0 < counts["late though all could be met"] < 0.25 * counts["all"], counts
