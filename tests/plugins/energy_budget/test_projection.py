"""The balance to come and the power to come, against arithmetic that goes from point to point."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.energy_budget.budget_runs import lowest_balance_j

from beasy_sched.plugins.energy_budget.budget_rate import BudgetRate
from beasy_sched.plugins.energy_budget.energy_budget_options import BudgetPeriod
from beasy_sched.plugins.energy_budget.projection import Ceiling, Commitments, IdleShutdownCost, Projection

START, END = 100.0, 200.0
PERIOD = BudgetPeriod(START, END, 10.0, 1.0, True)
TOLERANCE_J = 1e-6
NEAR = 1e-3
"""Balances (J) nearer to zero than this are not judged: rounding may decide."""

jobs = st.lists(st.tuples(st.integers(20, 260), st.integers(1, 60)), max_size=6)
cases = st.tuples(
    st.integers(0, 190), st.integers(-200, 4000), st.integers(0, 120), st.integers(0, 120), jobs
)


def commitments(running: list[tuple[int, int]], now: float) -> tuple[Commitments, list[tuple[float, float]]]:
    known = Commitments()
    kept = [(float(end), float(extra)) for end, extra in running if end > now]
    for number, (end, extra) in enumerate(kept):
        known.add(f"j{number}", end, extra, 1)
    return known, kept


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 9)), max_size=12),
    st.integers(0, 9),
)
def test_commitments_are_sorted_by_end_and_add_up_after_every_change(
    changes: list[tuple[int, int, int]], at_s: int
) -> None:
    known, expected = Commitments(), dict[str, tuple[float, float]]()
    for number, end, extra in changes:
        if extra:
            known.add(f"j{number}", end, extra, number)
            expected.pop(f"j{number}", None)
            expected[f"j{number}"] = float(end), float(extra)
        else:
            known.remove(f"j{number}")
            expected.pop(f"j{number}", None)
        rows = sorted(expected.values(), key=lambda row: row[0])  # of the same end, the first added first
        assert list(zip(known.end_s.tolist(), known.extra_w.tolist(), strict=True)) == rows
        assert known.drawn_w(at_s) == sum(extra for end, extra in rows if end > at_s)


@settings(max_examples=examples(800), deadline=None)
@given(cases, st.integers(1, 80), st.integers(1, 150), st.sampled_from([0, 0, 30]))
def test_a_job_is_admitted_exactly_if_no_point_of_the_balance_is_below_zero(
    case: tuple[int, int, int, int, list[tuple[int, int]]], extra: int, lasts: int, passing: int
) -> None:
    now, available, rate, floor, running = case
    known, kept = commitments(running, now)
    start_j = float(available) if now >= START else 0.0
    test = Projection(
        PERIOD, BudgetRate(rate), now, start_j, floor, known, IdleShutdownCost(float(passing), 2), TOLERANCE_J
    )
    end = float(now + lasts)
    lowest = lowest_balance_j(now, start_j - passing, rate, (START, END), floor, [*kept, (end, extra)])
    expected = lowest >= 0 or end <= START
    if abs(lowest) > NEAR:
        assert test.allows(float(extra), end, 0) == expected
        if not passing:
            assert (
                bool(test.admits(np.array([float(extra)]), np.array([end]), np.array([1.0]))[0]) == expected
            )


@settings(max_examples=examples(400), deadline=None)
@given(cases, jobs, st.integers(1, 80), st.integers(1, 150))
def test_after_starts_as_if_they_had_been_running(
    case: tuple[int, int, int, int, list[tuple[int, int]]],
    more: list[tuple[int, int]],
    extra: int,
    lasts: int,
) -> None:
    now, available, rate, floor, running = case
    known, kept = commitments(running, now)
    start_j = float(available) if now >= START else 0.0
    test = Projection(
        PERIOD, BudgetRate(rate), now, start_j, floor, known, IdleShutdownCost(0.0, 0), TOLERANCE_J
    )
    for end, power in more:
        if end > now:
            test.start(float(power), float(end), 0)
            kept.append((float(end), float(power)))
    end = float(now + lasts)
    lowest = lowest_balance_j(now, start_j, rate, (START, END), floor, [*kept, (end, extra)])
    if abs(lowest) > NEAR:
        admitted = test.admits(np.array([float(extra)]), np.array([end]), np.array([1.0]))[0]
        assert bool(admitted) == (lowest >= 0 or end <= START)


@settings(max_examples=examples(300), deadline=None)
@given(cases, st.integers(1, 80), st.integers(1, 150), st.integers(1, 60), st.integers(1, 90))
def test_a_promise_is_kept(
    case: tuple[int, int, int, int, list[tuple[int, int]]],
    extra: int,
    lasts: int,
    other: int,
    others_lasts: int,
) -> None:
    """What is admitted beside a promise leaves the promised job its energy."""
    now, available, rate, floor, running = case
    known, _ = commitments(running, now)
    start_j = float(available) if now >= START else 0.0
    test = Projection(
        PERIOD, BudgetRate(rate), now, start_j, floor, known, IdleShutdownCost(0.0, 0), TOLERANCE_J
    )
    when = test.earliest(float(now), float(extra), float(lasts))
    assert when <= max(now, END)
    need_j = test.promise(when, float(extra), float(lasts))
    assert need_j >= 0
    end = float(now + others_lasts)
    if not test.admits(np.array([float(other)]), np.array([end]), np.array([1.0]))[0] or end <= START:
        return
    again = Projection(
        PERIOD, BudgetRate(rate), now, start_j, floor, known, IdleShutdownCost(0.0, 0), TOLERANCE_J
    )
    again.start(float(other), end, 0)
    if when < END:
        assert again.earliest(when, float(extra), float(lasts)) <= when + 1e-6


def test_a_dip_in_the_middle_counts() -> None:
    """100 J are there; a running job takes 9 W more than comes until 110, then 50 W are saved."""
    known = Commitments()
    known.add("running", 110.0, 59.0, 1)
    test = Projection(
        PERIOD, BudgetRate(100.0), 100.0, 100.0, 50.0, known, IdleShutdownCost(0.0, 0), TOLERANCE_J
    )
    power = np.array([1.0, 1.1, 49.0, 51.0])
    end, hosts = np.full(4, 190.0), np.ones(4)
    assert test.admits(power, end, hosts).tolist() == [True, False, False, False]


def test_the_need_is_what_the_counter_must_hold() -> None:
    """40 W more than there is, for 50 s."""
    test = Projection(
        PERIOD, BudgetRate(100.0), 100.0, 0.0, 60.0, Commitments(), IdleShutdownCost(0.0, 0), TOLERANCE_J
    )
    when = test.earliest(100.0, 80.0, 50.0)
    assert when == pytest.approx(150.0, abs=0.11)
    assert test.promise(when, 80.0, 50.0) == pytest.approx(2000.0, abs=5)


@settings(max_examples=examples(300), deadline=None)
@given(cases, st.integers(1, 80), st.integers(1, 150))
def test_the_ceiling_is_never_broken(
    case: tuple[int, int, int, int, list[tuple[int, int]]], extra: int, lasts: int
) -> None:
    now, _, limit, floor, running = case
    known, kept = commitments(running, now)
    test = Ceiling(PERIOD, limit, now, floor, known, IdleShutdownCost(0.0, 0))
    begin, end = max(now, START), float(now + lasts)
    points = [begin, *(e for e, _ in kept if begin < e < min(end, END))]
    highest = max(floor + extra + sum(p for e, p in kept if e > at) for at in points)
    assert test.allows(float(extra), end, 0) == (highest <= limit or end <= START)
