"""Counts handed to single servers: exact, with the fewest switches, nested, turned round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planner.server_cases import STEP_S, tiny_platform

from beasy_sched.generate.platform_file import preset_platform
from beasy_sched.planner.server_problem import KindCounts, kind_tables
from beasy_sched.planner.server_search import KindStart, on_by_rank, ranked_hosts, states_by_rank

SERVERS = 6


@st.composite
def count_plans(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, KindStart, int]:
    """Wake-ups and falls asleep that single servers can follow, made without looking at single servers."""
    least = draw(st.integers(1, 4))
    on = np.array(draw(st.lists(st.booleans(), min_size=SERVERS, max_size=SERVERS)))
    obliged = np.array([draw(st.integers(0, least - 1)) if o else 0 for o in on])
    start_on, woken, slept, waking, falling = int(on.sum()), [], 0, [], []
    for step in range(draw(st.integers(1, 12))):
        free = start_on - int((obliged > step).sum()) + sum(woken[: max(0, step - least + 1)])
        fall = draw(st.integers(0, free - slept))
        wake = draw(st.integers(0, SERVERS - start_on - sum(woken) + slept))
        slept += fall
        woken.append(wake)
        waking.append(wake)
        falling.append(fall)
    start = KindStart(np.where(on, 0, 3).astype(np.int8), on, obliged)
    return np.array(waking), np.array(falling), start, least


@given(count_plans())
def test_servers_follow_the_counts_and_keep_their_on_time(case) -> None:
    waking, falling, start, least = case
    on = on_by_rank(waking, falling, start, least)
    before = np.vstack((start.on, on[:-1]))
    # Exactly as many switches as the counts say, and never both in one server: no fewer are possible.
    assert ((on & ~before).sum(axis=1) == waking).all()
    assert ((before & ~on).sum(axis=1) == falling).all()
    for step, server in np.argwhere(on & ~before):
        assert on[step : step + least, server].all()
    for server, steps in enumerate(start.obliged_steps):
        assert on[:steps, server].all()


@given(count_plans(), st.randoms(use_true_random=False))
def test_every_pstate_is_given_as_often_as_planned(case, random) -> None:
    waking, falling, start, least = case
    table = kind_tables(tiny_platform(quick=SERVERS), STEP_S)[0]
    on = on_by_rank(waking, falling, start, least).sum(axis=1)

    def spread(numbers: np.ndarray) -> np.ndarray:
        choices = [[random.randrange(3) for _ in range(n)] for n in numbers]
        return np.array([np.bincount(np.array(c, dtype=int), minlength=3) for c in choices])

    counts = KindCounts(spread(on - waking), spread(waking), falling)
    states = states_by_rank(table, counts, start, least, sleep_pstate=3)
    for index, pstate in enumerate(table.pstates):
        given_out = (states == pstate).sum(axis=1)
        assert (given_out == counts.whole[:, index] + counts.waking[:, index]).all()
    assert ((states == 3).sum(axis=1) == SERVERS - on).all()
    # Servers that stay on keep their P-state in as many cases as the counts allow.
    earlier = np.vstack((start.states, states[:-1]))
    for was, now, wanted in zip(earlier, states, counts.whole, strict=True):
        staying = (was != 3) & (now != 3)
        had = [int((staying & (was == pstate)).sum()) for pstate in table.pstates]
        assert int((staying & (was == now)).sum()) == int(np.minimum(had, wanted).sum())


def drawn(on: np.ndarray) -> list[str]:
    """One text a step, ``#`` for a server that is on."""
    return ["".join("#" if one else "-" for one in row) for row in on]


def test_nested_the_same_servers_stay_on_longest() -> None:
    all_on = KindStart(np.zeros(4, np.int8), np.ones(4, bool), np.zeros(4, int))
    waking = np.array([0, 0, 1, 0, 1, 0])
    falling = np.array([1, 2, 0, 0, 0, 1])
    on = on_by_rank(waking, falling, all_on, 1)
    assert drawn(on) == ["###-", "#---", "##--", "##--", "###-", "##--"]


def test_a_server_within_its_on_time_is_passed_over() -> None:
    start = KindStart(np.zeros(3, np.int8), np.array([True, True, False]), np.zeros(3, int))
    on = on_by_rank(np.array([1, 0, 0, 0]), np.array([0, 1, 0, 1]), start, 3)
    assert drawn(on) == ["###", "#-#", "#-#", "#--"]


def test_counts_that_no_server_can_follow_are_refused() -> None:
    start = KindStart(np.zeros(2, np.int8), np.ones(2, bool), np.array([2, 2]))
    with pytest.raises(ValueError, match="0 to sleep"):
        on_by_rank(np.array([0]), np.array([1]), start, 3)


def test_windows_turn_the_ranks_round_and_reach_all_servers() -> None:
    platform = preset_platform({"gros": 10, "taurus": 3})
    first = [int(ranked_hosts(platform, 0, window)[0]) for window in range(10)]
    assert first[0] == 0
    assert len(set(first)) >= 8
    assert all(sorted(ranked_hosts(platform, 1, window).tolist()) == [10, 11, 12] for window in range(5))
