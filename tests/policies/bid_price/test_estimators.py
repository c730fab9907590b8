"""What bid-price learns, against the formulas written out naively."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.policies.bid_price.estimators import (
    ProductionError,
    RunTimes,
    SeenArrivals,
    share_to_come,
)

shares = st.lists(st.floats(0.001, 1.0), max_size=60)


def learned(found: list[float], most: float = 1.0) -> RunTimes:
    run_times = RunTimes(most=most)
    for share in found:
        run_times.add(share)
    return run_times


# --- run times ---


def test_nothing_known_is_the_papers_assumption() -> None:
    """Eq. 3.29 with eps_u = 1 for what must be sure; three jobs of 0.7 for the mean."""
    run_times = RunTimes()
    assert run_times.surest == 1.0
    assert run_times.mean == pytest.approx(0.7)
    assert survival(run_times, 0.0, [0.5, 1.0, 1.5]) == pytest.approx([1.0, 1.0, 0.0])


def test_one_more_job_is_expected_to_need_all_that_can_be_done() -> None:
    assert survival(RunTimes(most=1.4), 0.9, [1.0, 1.2, 1.4, 1.6]) == pytest.approx(
        [1.0, 1.0, 1.0, 0.0], abs=0.01
    )
    assert survival(learned([0.5] * 3), 0.0, [0.5, 1.0]) == pytest.approx([1.0, 0.25], abs=1e-3)


@given(shares)
def test_mean_and_bound(found: list[float]) -> None:
    run_times = learned(found)
    assert run_times.mean == pytest.approx((sum(found) + 2.1) / (len(found) + 3))
    assert run_times.surest == (max(found) if len(found) >= 20 else 1.0)


def survival(run_times: RunTimes, done: float, later: list[float], limit: float = math.inf) -> list[float]:
    edges = np.array([[done, *later]])
    return run_times.survival(np.array([[done]]), edges, np.diff(edges), np.array([[limit]]))[0].tolist()


@given(shares, st.floats(0.0, 1.2), st.lists(st.floats(0.001, 0.3), min_size=1, max_size=6))
def test_survival_counts_the_jobs_that_ran_longer(
    found: list[float], done: float, lengths: list[float]
) -> None:
    """The mean over many points of each interval; the bins of the table are a 2048th of the walltime."""
    edges = done + np.cumsum([0.0, *lengths])
    known = np.array([*found, 1.0])
    if done >= 1.0 or min(abs(known - done)) < 2 / 2048:
        return
    chances = survival(learned(found), done, edges[1:].tolist())
    for chance, first, last in zip(chances, edges[:-1], edges[1:], strict=True):
        points = first + (np.arange(400) + 0.5) / 400 * (last - first)
        above = (known[:, None] > points).sum(axis=0)
        still = int((known > done).sum())
        mean = (above / still).mean()
        assert chance == pytest.approx(mean, abs=0.01 + 1.1 / 2048 / (last - first) * len(known) / still)


@given(shares, st.lists(st.floats(0.01, 0.4), min_size=2, max_size=20))
def test_survival_falls_from_one(found: list[float], lengths: list[float]) -> None:
    chance = np.array(survival(learned(found), 0.0, np.cumsum([1e-4, *lengths]).tolist()))
    assert chance[0] == pytest.approx(1.0)
    assert (np.diff(chance) <= 1e-9).all()
    assert ((chance >= 0.0) & (chance <= 1.0)).all()


def test_a_job_shorter_than_a_cell_takes_its_part_of_it() -> None:
    assert survival(learned([0.25] * 30), 0.0, [1.0, 2.0]) == pytest.approx(
        [(0.25 * 30 + 1.0) / 31, 0.0], abs=1e-3
    )


def test_a_job_that_has_outlived_all_others_may_need_its_walltime() -> None:
    assert survival(learned([0.2] * 30), 0.5, [0.6, 1.0, 1.1]) == pytest.approx([1.0, 1.0, 0.0])


# --- run times beyond what a walltime stands for ---


def test_a_job_may_need_more_than_its_walltime_stands_for() -> None:
    """At full speed, 1.4 times as much can be done in it; what is sure is still the paper's assumption."""
    run_times = learned([0.5] * 15 + [1.25] * 15, most=1.4)
    assert run_times.mean == pytest.approx((7.5 + 18.75 + 2.1) / 33)
    assert run_times.surest == 1.0
    assert survival(run_times, 1.1, [1.2, 1.3, 1.4]) == pytest.approx([1.0, 17 / 32, 1 / 16], abs=0.01)


def test_a_job_ends_when_its_walltime_is_over() -> None:
    """Be it expected to run on, or to have ended long ago."""
    run_times = learned([1.3] * 30, most=1.4)
    assert survival(run_times, 0.5, [1.0, 1.1, 1.2], limit=1.05) == pytest.approx([1.0, 0.5, 0.0], abs=0.01)
    assert survival(learned([0.5] * 30, most=1.4), 1.1, [1.2, 1.3], limit=1.25) == pytest.approx([1.0, 0.5])
    assert survival(run_times, 0.0, [1.0, 1.2], limit=1.1) == pytest.approx([1.0, 0.5])


# --- production ---


@given(st.lists(st.floats(0.0, 3.0), max_size=300), st.floats(0.05, 0.5))
def test_production_error_is_a_discounted_mean(actual: list[float], uncertainty: float) -> None:
    error, kept = ProductionError(), 0.5 ** (1 / 144)
    for value in actual:
        error.add(value * 100.0, 100.0, uncertainty)
    z = np.clip((np.array(actual) - 1.0) / uncertainty, -2.0, 2.0)
    weights = kept ** np.arange(len(z))[::-1]
    count = weights.sum() + 3.0
    mean = float((weights * z).sum() / count)
    assert error.mean == pytest.approx(mean, abs=1e-9)
    second = float(((weights * z * z).sum() + 1.0) / count)
    assert error.variance == pytest.approx(max(second - mean**2, 0.0), abs=1e-9)


def test_production_at_the_lower_bound_is_recognized_and_not_undercut() -> None:
    """A day at the lower bound: the forecast becomes that bound, but for a few percent of the band."""
    error = ProductionError()
    for _ in range(288):
        error.add(80.0, 100.0, 0.2)
    for sigmas in (0.0, 0.5, 2.0):
        expected_w = error.expected_w(np.full(99, 100.0), np.full(99, 0.2), sigmas)
        assert expected_w.min() >= 80.0
        assert expected_w[-1] == pytest.approx(80.0, abs=0.5)


def test_more_doubt_counts_on_less_production() -> None:
    error = ProductionError()
    for value in (90.0, 105.0, 98.0, 110.0):
        error.add(value, 100.0, 0.1)
    rows = [error.expected_w(np.full(5, 100.0), np.full(5, 0.1), sigmas) for sigmas in (0.0, 0.5, 2.0)]
    assert (rows[0] > rows[1]).all()
    assert (rows[1] > rows[2]).all()


def test_nights_teach_nothing() -> None:
    error = ProductionError()
    error.add(0.0, 0.0, 0.2)
    assert error.mean == 0.0
    assert error.variance == pytest.approx(1.0 / 3.0)


# --- arrivals ---

jobs = st.lists(st.tuples(st.integers(1, 8), st.floats(10.0, 2e4)), min_size=1, max_size=20)


@given(jobs, st.floats(1.0, 1e5), st.floats(1.0, 1e5))
def test_share_to_come_by_hand(found: list[tuple[int, float]], age_s: float, left_s: float) -> None:
    hosts = np.array([float(job[0]) for job in found])
    mean_s = np.array([job[1] for job in found])
    share = share_to_come(hosts, mean_s, 2.0 * mean_s, np.array([age_s]), np.array([left_s]))
    total = sum(r * d for r, d in zip(hosts, mean_s, strict=True))
    for row, (r, d) in enumerate(zip(hosts, mean_s, strict=True)):
        assert share[row, 0] == pytest.approx(r * max(0.0, min(d, age_s) - max(0.0, 2 * d - left_s)) / total)
    assert share.sum() <= 1.0 + 1e-9


def test_share_to_come_grows_from_nothing_to_everything() -> None:
    """Nobody new runs at once; after the longest run, everybody is new, as long as there is time to end."""
    hosts, mean_s = np.array([1.0, 4.0]), np.array([600.0, 1200.0])
    ages_s = np.array([0.0, 300.0, 600.0, 1200.0, 5000.0])
    total = share_to_come(hosts, mean_s, mean_s, ages_s, np.full(5, 1e6)).sum(axis=0)
    assert total.tolist() == pytest.approx([0.0, 5 * 300 / 5400, 5 * 600 / 5400, 1.0, 1.0])


@given(jobs, st.floats(0.0, 1e7))
def test_the_ratio_lies_between_one_and_what_was_seen(
    found: list[tuple[int, float]], foreseen_host_s: float
) -> None:
    arrivals = SeenArrivals()
    assert arrivals.ratio(foreseen_host_s) == 1.0
    for hosts, walltime_s in found:
        arrivals.add(0.0, hosts, walltime_s)
    arrived_host_s = math.fsum(hosts * walltime_s for hosts, walltime_s in found)
    prior_host_s = 50.0 * arrived_host_s / len(found)
    expected = (arrived_host_s + prior_host_s) / (foreseen_host_s + prior_host_s)
    assert arrivals.ratio(foreseen_host_s) == pytest.approx(expected)


def test_the_last_400_jobs_stand_for_those_to_come() -> None:
    arrivals = SeenArrivals()
    assert arrivals.columns().shape == (2, 0)
    for number in range(500):
        arrivals.add(100.0 + number, 2, float(number))
    hosts, walltime_s = arrivals.columns().tolist()
    assert (hosts, walltime_s) == ([2.0] * 400, [float(number) for number in range(100, 500)])
    assert arrivals.mean_hosts(1100.0, 300.0) == pytest.approx(2.0 * sum(range(500)) / 1000.0)
    assert arrivals.mean_hosts(110.0, 300.0) == pytest.approx(2.0 * sum(range(500)) / 300.0)
