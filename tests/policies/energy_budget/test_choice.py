"""Hosts with consecutive numbers: when, and which."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.policies.energy_budget.choice import earliest_window


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 42))
def test_the_window_that_is_free_first(times: list[int], width: int) -> None:
    free_at = np.array(times, dtype=np.float64)
    highest = [max(times[i : i + width]) for i in range(len(times) - width + 1)]
    first, when = earliest_window(free_at, width)
    if not highest:
        assert when == np.inf
    else:
        assert when == min(highest)
        assert first == highest.index(min(highest))


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=12))
def test_runs_of_free_hosts(free: list[bool], wanted: list[int]) -> None:
    """Cut hosts from runs, as long as one is long enough, beside a list that is looked through anew."""
    from beasy_sched.policies.energy_budget.choice import _Runs

    runs, left = _Runs(np.array(free)), list(free)
    for count in wanted:
        starts = [i for i in range(len(left) - count + 1) if all(left[i : i + count])]
        assert (runs.longest >= count) == bool(starts)
        if starts:
            first = runs.cut(count)
            assert first == starts[0]
            left[first : first + count] = [False] * count
