"""Best path of one server through the steps, by dynamic programming.

A server is in one of these states at the end of a step: asleep; free, which is on for the minimum on-time or
longer, so that it may fall asleep; or young, which woke fewer steps ago.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Final, NamedTuple

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray

_NO_PATH: Final = -math.inf
"""Value of a state that no path reaches."""


class _Predecessors(NamedTuple):
    """Predecessors of the states that have two, by step."""

    stays_asleep: list[bool]
    """Whether the best path to "asleep" sleeps in the step before; else it is free."""
    stays_free: list[bool]
    """Whether the best path to "free" is free in the step before; else it is young."""


def best_path(values: FloatArray, on: bool, obliged_steps: int, least: int) -> BoolArray:
    """Return the path of highest total value of one server that starts on or asleep: [T], on or not.

    ``values``: [4, T], value of a step on through, waking, falling asleep, asleep; ``least``: number of
    steps that a woken server stays on; ``obliged_steps``: number of steps for which one that starts on does.
    """
    through, waking, falling, sleeping = values.tolist()
    steps = len(through)
    asleep, free = (_NO_PATH, 0.0) if on else (0.0, _NO_PATH)
    grows_up = [_NO_PATH] * (steps + least)
    """Value of the path that becomes free at the end of each step: also of steps after the last, whose
    paths are still young then."""
    obliged = min(obliged_steps, least - 1)
    if on and obliged:
        free = _NO_PATH
        grows_up[obliged - 1] = reduce(add, through[:obliged], 0.0)
    before = _Predecessors([], [])
    for step in range(steps):  # few states: plain numbers are faster than arrays
        sleeps_on, falls_asleep = asleep + sleeping[step], free + falling[step]
        wakes, stays_on = asleep + waking[step], free + through[step]
        becomes_free = grows_up[step] if least > 1 else wakes
        before.stays_asleep.append(sleeps_on >= falls_asleep)
        before.stays_free.append(stays_on >= becomes_free)
        asleep, free = max(sleeps_on, falls_asleep), max(stays_on, becomes_free)
        # A path that is not better than one on for longer never will be; the last ones are incomplete.
        if wakes > free or step > steps - least:
            grows_up[step + least - 1] = reduce(add, through[step + 1 : step + least], wakes)
    young = grows_up[steps : steps + least - 1]  # the one that woke last becomes free last
    by_age = [asleep, *reversed(young), free]
    return _way_back(by_age.index(max(by_age)), before, least)


def _way_back(age: int, before: _Predecessors, least: int) -> BoolArray:
    """Return the path that ends in the state of this age: [T].

    Age 0 is asleep, ``least`` is free, and those between are young: woken so many steps ago.
    """
    left = len(before.stays_asleep)
    path = np.zeros(left, dtype=np.bool_)
    while left > 0:
        if age == 0:
            left -= 1
            age = 0 if before.stays_asleep[left] else least
        elif age == least:
            left -= 1
            path[left] = True
            age = least if before.stays_free[left] else least - 1
        else:
            path[max(left - age, 0) : left] = True
            left -= age
            age = 0
    return path
