"""The window: what running jobs and the site's floor leave, and sums over every start."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from plugins.greenslot.round_cases import SLOT_S, WH_J, running, window

from beasy_sched.plugins.greenslot.slots import Reservations, RunningTask


@pytest.mark.parametrize(
    ("start", "slots", "end"),
    [
        (0, 2, 2),
        (-1, 2, 1),
        (-0.5, 2, 2),  # 1.5 slots are left
        (-2, 2, 1),  # should have ended this moment
        (-9, 2, 1),  # overruns
        (-2, 2.0000000001, 1),
        (-2, 3.0000000001, 1),
        (0, 4, 4),
        (0, 99, 4),
        (0, math.inf, 4),
    ],
)
def test_when_a_running_job_ends(start: float, slots: float, end: int) -> None:
    job = running("r", 2, start, slots)
    state = window((50, 60, 70, 80), nodes=3, running=[job])
    assert state.end_slot(job) == end
    assert state.free.tolist() == [1] * end + [3] * (4 - end)
    assert (state.net_j / WH_J).tolist() == [0, 10, 20, 30][:end] + [50, 60, 70, 80][end:]


def test_the_sun_that_is_left() -> None:
    """Two nodes asleep and the base take 15 Wh; the job needs 22.5 more than a sleeping node."""
    jobs = [running("r", 1, 0, 2)]
    state = window((0, 40, 70), nodes=2, base_w=40.0, sleep_w=10.0, limit_wh=50, running=jobs)
    assert (state.net_j / WH_J).tolist() == [-37.5, 2.5, 55]
    assert (state.sun_j / WH_J).tolist() == [0, 2.5, 55]


def test_a_running_job_with_a_power_of_its_own() -> None:
    job = RunningTask("r", 2, 0.0, SLOT_S, extra_w=40.0)
    assert (window((50, 50), nodes=2, running=[job]).net_j / WH_J).tolist() == [30, 50]


def test_infinite_sun_stays_infinite() -> None:
    room = Reservations(window((math.inf,) * 3, nodes=2))
    room.reserve(slice(0, 3), 2, 1e9)
    room.reserve(slice(0, 3), -2, -1e9)
    costs = room.costs(2, 1e9, 2)
    assert costs.possible.all()
    assert costs.brown_j.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("latest", "slot"), [(-math.inf, -1), (-1, -1), (3.9999999, 3), (4.9999999999, 5), (5, 5), (math.inf, 8)]
)
def test_last_start(latest: float, slot: int) -> None:
    """The round starts at slot 2 of the simulation."""
    state = window((0,) * 8, now=2)
    assert state.last_start((latest + 2) * SLOT_S) == slot


@pytest.mark.parametrize(
    ("earliest", "slot"),
    [(-math.inf, 0), (-3, 0), (0, 0), (0.1, 1), (3.0000000001, 3), (8.5, 8), (math.inf, 8)],
)
def test_first_start(earliest: float, slot: int) -> None:
    assert window((0,) * 8, now=2).first_start((earliest + 2) * SLOT_S) == slot


WH = st.integers(0, 120)
PRICE = st.integers(-30, 50)


@given(
    st.lists(st.tuples(WH, PRICE, st.integers(0, 4)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 12),
    st.one_of(st.just(math.inf), st.integers(0, 150)),
)
def test_costs_are_those_counted_slot_by_slot(
    cells: list[tuple[int, int, int]], res: int, length: int, limit_wh: float
) -> None:
    size = len(cells)
    length = min(length, size)
    sun_wh, price = [cell[0] for cell in cells], [cell[1] / 100 for cell in cells]
    state = window(sun_wh, price, nodes=4, limit_wh=limit_wh)
    for slot, cell in enumerate(cells):
        state.free[slot] = cell[2]
    costs = Reservations(state).costs(res, res * 25 * WH_J, length)
    for start in range(size - length + 1):
        span = range(start, start + length)
        brown_wh = [max(0, res * 25 - sun_wh[slot]) for slot in span]
        money = sum(b * price[slot] for b, slot in zip(brown_wh, span, strict=True)) / 1000
        enough = all(b <= limit_wh for b in brown_wh) and all(cells[slot][2] >= res for slot in span)
        assert costs.possible[start] == enough
        assert costs.brown_j[start] / WH_J == pytest.approx(sum(brown_wh), abs=1e-6)
        assert costs.cost[start] == pytest.approx(money, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 3)), max_size=12))
def test_what_is_given_back_was_never_taken(taken: list[tuple[int, int, int]]) -> None:
    room = Reservations(window((3, 30, 300, 3000, 0, 1, 2, 3, 4, 5), nodes=9))
    free, net_j = room.free.copy(), room.net_j.copy()
    for sign in (1, -1):
        for start, length, res in taken:
            room.reserve(slice(start, start + length), sign * res, sign * res * 25 * WH_J)
    assert np.array_equal(room.free, free)
    assert np.array_equal(room.net_j, net_j)


def test_costs_are_counted_anew_after_a_reservation() -> None:
    room = Reservations(window((25, 25)))
    before = room.costs(1, 25 * WH_J, 1)
    assert room.costs(1, 25 * WH_J, 1) is before
    room.reserve(slice(0, 1), 1, 25 * WH_J)
    after = room.costs(1, 25 * WH_J, 1)
    assert before.possible.tolist() == [True, True]
    assert after.possible.tolist() == [False, True]
    assert after.brown_j[0] == 25 * WH_J


def test_sun_that_lacks_only_by_rounding_is_enough() -> None:
    assert 0.3 - 0.1 - 0.1 < 0.1
    room = Reservations(replace(window((0.0,), nodes=9, limit_wh=0), net_j=np.array([0.3])))
    for _ in range(2):
        room.reserve(slice(0, 1), 1, 0.1)
    costs = room.costs(1, 0.1, 1)
    assert costs.brown_j.tolist() == [0.0]
    assert costs.possible.all()
