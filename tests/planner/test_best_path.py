"""The best path of one server against all paths."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.planner.server_path import best_path


def worth(path: tuple[bool, ...], on: bool, values: list[list[int]]) -> int:
    through, waking, falling, asleep = values
    total, was_on = 0, on
    for step, now_on in enumerate(path):
        doing = (through if now_on else falling) if was_on else (waking if now_on else asleep)
        total += doing[step]
        was_on = now_on
    return total


def is_allowed(path: tuple[bool, ...], on: bool, obliged: int, least: int) -> bool:
    still = obliged if on else 0
    was_on = on
    for now_on in path:
        if now_on and not was_on:
            still = least
        if was_on and not now_on and still > 0:
            return False
        still = max(still - 1, 0) if now_on else 0
        was_on = now_on
    return True


@given(st.data())
def test_no_path_is_worth_more(data: st.DataObject) -> None:
    steps, least = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5))
    on = data.draw(st.booleans())
    obliged = data.draw(st.integers(0, least - 1)) if on else 0
    numbers = st.lists(st.integers(-3, 6), min_size=steps, max_size=steps)
    values = [data.draw(numbers) for _ in range(4)]
    path = tuple(best_path(np.array(values, dtype=np.float64), on, obliged, least).tolist())
    assert is_allowed(path, on, obliged, least)
    every = itertools.product((False, True), repeat=steps)
    most = max(worth(other, on, values) for other in every if is_allowed(other, on, obliged, least))
    assert worth(path, on, values) == most
