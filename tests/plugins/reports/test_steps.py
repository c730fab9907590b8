"""Curves that step: counted, and thinned without losing any of their sum."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.plugins.reports.run_data import StepCurve, count_changes, last_of_each_time


def test_changes_of_one_time_count_together() -> None:
    curve = count_changes(np.array([5.0, 0.0, 5.0, 9.0]), np.array([1.0, 2.0, -2.0, 1.0]), 20.0)
    assert curve.edges_s.tolist() == [0.0, 5.0, 9.0, 20.0]
    assert curve.values.tolist() == [2.0, 1.0, 2.0]


def test_the_last_row_of_a_time_holds() -> None:
    curve = last_of_each_time(np.array([0.0, 0.0, 3.0]), np.array([[1.0], [2.0], [3.0]]), 5.0)
    assert curve.edges_s.tolist() == [0.0, 3.0, 5.0]
    assert curve.values.tolist() == [[2.0], [3.0]]


def test_means_by_hand() -> None:
    curve = StepCurve(np.array([0.0, 4.0, 10.0]), np.array([1.0, 3.0]))
    means = curve.mean_over(np.array([-2.0, 2.0, 6.0, 14.0, 18.0]))
    assert means.values.tolist() == [0.5, 2.0, 1.5, 0.0]


@given(
    st.lists(st.tuples(st.floats(0.1, 50.0), st.floats(-5.0, 5.0)), min_size=2, max_size=40),
    st.integers(1, 10),
)
def test_thinning_keeps_the_sum(steps: list[tuple[float, float]], most: int) -> None:
    lengths, values = np.array(steps).T
    times = np.concatenate([[0.0], np.cumsum(lengths)])
    thinned = StepCurve(times, values).thinned(most)
    assert len(thinned.values) <= most
    assert (thinned.edges_s[0], thinned.edges_s[-1]) == (times[0], times[-1])
    spans = np.diff(thinned.edges_s)
    np.testing.assert_allclose(spans @ thinned.values, lengths @ values, rtol=1e-9, atol=1e-6)
