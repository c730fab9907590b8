"""BEASY's energy test on plans small enough to check by hand.

`worlds.FAST`: busy 100 W, idle 50 W, asleep 5 W; 7 s at 60 W to fall asleep, 20 s at 80 W to wake. In a
step of 100 s it needs 10000 J busy, 500 J asleep, 885 J falling asleep, 9600 J waking.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from worlds import FAST, SLOW

from beasy_sched.energy.server_energy import CellEnergies, shifted
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.policies.beasy.energy_test import EnergyTest
from beasy_sched.policies.beasy.sleep_bound import KeptOn, SleepBound
from beasy_sched.policies.planned.sleep_savings import SleepSavings, kept_on, worthwhile
from beasy_sched.policies.planned.working_plan import Runs

ON, SLOWER, ASLEEP = 0, 1, 2
BUSY_J, ASLEEP_J, FALLING_J, WAKING_J = 10_000.0, 500.0, 885.0, 9_600.0


def savings_of(platform: Platform, *, idle_power: bool = False) -> SleepSavings:
    return SleepSavings(CellEnergies(PowerModel(platform), idle_power=idle_power))


def savings(count: int, *, kind: ServerKind = FAST, idle_power: bool = False) -> SleepSavings:
    names = tuple(f"n{i}" for i in range(count))
    return savings_of(Platform((kind,), np.zeros(count, dtype=np.intp), names), idle_power=idle_power)


class FixedTest(EnergyTest):
    """A test whose levels stay the same, and whose bound is found anew each time."""

    fixed_j: np.ndarray

    def levels_j(self) -> np.ndarray:
        return self.fixed_j

    def write(self, hosts: np.ndarray, states: np.ndarray) -> None:
        self.states[: len(states), hosts] = states

    def most_saved_j(self, enough_j: float, rows: int) -> float:
        bound = SleepBound(self.savings, self.states, self.reserved_until, 100.0)
        return bound.most_j(enough_j, rows)


def energy_test(
    *plans: str,
    reserved: dict[int, int] | None = None,
    low_from: int | None = None,
    idle_power: bool = False,
    now: np.ndarray | None = None,
) -> FixedTest:
    """A test on one text a server, a letter a step: "1" on, "s" slower, "." asleep."""
    letters = {"1": ON, "s": SLOWER, ".": ASLEEP}
    states = np.array([[letters[each] for each in plan] for plan in plans], dtype=np.int8).T.copy()
    until = np.zeros(len(plans), dtype=np.intp)
    for host, end in (reserved or {}).items():
        until[host] = end
    test = FixedTest(
        savings(len(plans), idle_power=idle_power),
        states,
        now_states=np.full(len(plans), ON, dtype=np.int8) if now is None else now,
        reserved_until=until,
        dt_s=np.full(len(states), 100.0),
        min_j=20.0,
    )
    test.fixed_j = np.full(len(states), 50.0)
    if low_from is not None:
        test.fixed_j[low_from:] = 20.0
    return test


def drawn(test: EnergyTest) -> list[str]:
    return ["".join("1s."[state] for state in column) for column in test.states.T]


def test_verification_1_needs_no_change():
    test = energy_test("111.", low_from=0)
    change = test.check(np.array([0]), 3)
    assert change is not None
    assert change.needed_j == 0.0
    assert change.asleep is None
    test.apply(change)
    assert drawn(test) == ["111."]
    assert test.reserved_until.tolist() == [3]


def test_2a_counts_the_steps_asleep_and_their_transitions():
    test = energy_test("11..1", "11111")
    change = test.check(np.array([0]), 4)
    assert change is not None
    needed_j = (BUSY_J - FALLING_J) + (BUSY_J - ASLEEP_J) + (BUSY_J - WAKING_J)
    assert change.needed_j == pytest.approx(needed_j)
    assert change.columns.ravel().tolist() == [ON] * 4


def test_2a_falls_asleep_after_the_job_instead_of_before():
    change = energy_test("1...", "1111").check(np.array([0]), 2)
    assert change is not None
    assert change.needed_j == pytest.approx((BUSY_J - FALLING_J) + (FALLING_J - ASLEEP_J))


def test_2a_keeps_the_speed_of_the_step_before():
    change = energy_test("1s..1", "11111").check(np.array([0]), 5)
    assert change is not None
    assert change.columns.ravel().tolist() == [ON, SLOWER, SLOWER, SLOWER, ON]


def test_2a_a_server_asleep_in_the_present_step_keeps_the_speed_it_has_now():
    test = energy_test(".1", "11", now=np.array([SLOWER, ON], dtype=np.int8))
    change = test.check(np.array([0]), 2)
    assert change is not None
    assert change.columns.ravel().tolist() == [SLOWER, ON]


def test_2b_and_2c_idle_servers_pay_from_the_present_on_and_no_longer_than_needed():
    """Needed 19015 J; the idle server saves 9515 J in the present step, 19015 J with the next one."""
    test = energy_test("11..1", "11111")
    change = test.check(np.array([0]), 4)
    assert change is not None
    assert change.saved_j == pytest.approx(19_015.0)
    test.apply(change)
    assert drawn(test) == ["11111", "..111"]


def test_2b_in_its_last_step_sleeps_no_more_servers_than_needed():
    test = energy_test("1.1", "111", "111", "111")
    change = test.check(np.array([0]), 3)
    assert change is not None
    assert change.needed_j == pytest.approx(BUSY_J - FALLING_J + BUSY_J - WAKING_J)
    test.apply(change)
    assert drawn(test) == ["111", ".11", "111", "111"]


@pytest.mark.parametrize(("low_from", "possible"), [(0, False), (1, False), (2, True), (None, True)])
def test_2b_stops_before_the_first_step_at_soc_min(low_from, possible):
    change = energy_test("11..1", "11111", low_from=low_from).check(np.array([0]), 4)
    assert (change is not None) is possible


@pytest.mark.parametrize("reserved", [5, 4])
def test_2b_leaves_servers_with_a_job_alone(reserved):
    assert energy_test("11..1", "11111", reserved={1: reserved}).check(np.array([0]), 4) is None


def test_2b_leaves_the_head_jobs_reservation_alone():
    for first, possible in ((0, False), (3, True)):
        test = energy_test("11..1", "11111")
        test.keep(np.array([False, True]), first, 5)
        assert (test.check(np.array([0]), 4) is not None) is possible


def test_2b_counts_the_jobs_own_servers_after_its_end():
    test = energy_test("1.1111")
    change = test.check(np.array([0]), 2)
    assert change is not None
    test.apply(change)
    assert drawn(test) == ["11.111"]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(30))
def test_2b_refuses_only_what_idle_servers_cannot_pay(seed):
    """In plans longer than the first scan, some of which just suffice."""
    rng = np.random.default_rng(seed)
    plans = ["1" + "".join(rng.choice(list("1s."), size=59, p=[0.3, 0.2, 0.5])) for _ in range(2)]
    reserved = {2: int(rng.integers(0, 60))}
    for end in range(1, 61):
        test = energy_test("." * 60, *plans, reserved=reserved)
        if test.check(np.array([0]), end) is None:
            needed_j, found_j = test.shortfall()
            assert found_j < needed_j
            assert needed_j == pytest.approx((BUSY_J - ASLEEP_J) * end, rel=0.1)
            return
    pytest.fail("the servers could pay for all of it")


def test_a_failed_test_leaves_the_plan_as_it_was():
    test = energy_test("11..1", "11111", low_from=1)
    assert test.check(np.array([0]), 4) is None
    assert drawn(test) == ["11..1", "11111"]


def test_figure_5_energy_moves_only_between_hours_10_and_30():
    """The present is hour 10; at hour 30 the SoC is at 20 %: idle servers count from hour 10 to 29."""
    job = "1" + "." * 29
    before, after = "1" * 20 + "." * 10, "." * 20 + "1" * 10
    assert energy_test(job, before, low_from=20).check(np.array([0]), 10) is not None
    assert energy_test(job, after, low_from=20).check(np.array([0]), 10) is None
    assert energy_test(job, after).check(np.array([0]), 10) is not None
    test = energy_test(job, before, "1" * 30, low_from=20)
    assert test.rows_to_limit == 20
    change = test.check(np.array([0]), 21)
    assert change is not None
    assert change.asleep is not None
    assert change.asleep[0].max() < 20


def test_idle_power_as_an_option_makes_idle_servers_save_less():
    worst = energy_test("1.1", "111").check(np.array([0]), 3)
    idle = energy_test("1.1", "111", idle_power=True).check(np.array([0]), 3)
    assert worst is not None
    assert idle is not None
    assert worst.asleep is not None
    assert idle.asleep is not None
    assert (len(worst.asleep[0]), len(idle.asleep[0])) == (1, 3)


def test_a_second_check_sees_what_the_first_job_took():
    test = energy_test("11..1", "11..1", "11111", low_from=2)
    first = test.check(np.array([0]), 4)
    assert first is not None
    test.apply(first)
    assert test.check(np.array([1]), 4) is None


@pytest.mark.parametrize("seed", range(20))
def test_savings_are_the_difference_of_whole_plans(seed):
    rng = np.random.default_rng(seed)
    steps, count = 6, 3
    hosts, sleep = np.arange(count), savings(count)
    states = rng.choice(np.array([ON, SLOWER, ASLEEP], dtype=np.int8), size=(steps, count))
    before = rng.random(count) < 0.5
    idle = (states != ASLEEP) & (rng.random((steps, count)) < 0.6)
    dt_s = np.array([40.0, *[100.0] * (steps - 1)])

    def total_j(plan: np.ndarray) -> np.ndarray:
        asleep = sleep.cells.asleep(plan, hosts)
        return sleep.cells.energy_j(plan, shifted(asleep, before), hosts, dt_s).sum(axis=0)

    saved_j = sleep.sleeping_j(states, before, hosts, dt_s, idle)
    for last in range(steps):
        slept = states.copy()
        slept[: last + 1][idle[: last + 1]] = ASLEEP
        assert saved_j[last] == pytest.approx(total_j(states) - total_j(slept))


@pytest.mark.parametrize("idle_power", [False, True])
@pytest.mark.parametrize("waking_w", [20.0, 80.0, 200.0])
@pytest.mark.parametrize("seed", range(10))
def test_no_sleep_saves_more_than_the_bound(seed, waking_w, idle_power):
    """Of two kinds, idle from some row on; waking draws less than idling, less than computing, or more."""
    rng = np.random.default_rng(seed)
    steps, count = 8, 6
    costly = dataclasses.replace(FAST, full_w=(*FAST.full_w[:4], waking_w))
    kind_of = rng.integers(0, 2, count)
    platform = Platform((costly, SLOW), kind_of, tuple(f"n{i}" for i in range(count)))
    sleep, hosts = savings_of(platform, idle_power=idle_power), np.arange(count)
    states = rng.choice(np.array([ON, SLOWER, ASLEEP], dtype=np.int8), size=(steps, count))
    first, ends = rng.integers(0, steps, count), np.arange(1, steps + 1)
    awake = (states != ASLEEP) & (np.arange(steps)[:, None] >= first)
    dt_s = np.array([rng.choice([5.0, 40.0, 100.0]), *[100.0] * (steps - 1)])
    before = rng.random(count) < 0.5
    kept = (
        KeptOn(rng.random(count) < 0.3, *sorted(rng.integers(0, steps + 1, 2).tolist())) if seed % 2 else None
    )
    if kept is not None:
        awake[kept.first : kept.end, kept.hosts] = False
    bound = SleepBound(sleep, states, first, 100.0, kept)
    for end in rng.permutation(ends).tolist() if seed % 3 else ends.tolist():
        most_j = bound.before_j(end)
        idle = awake & (np.arange(steps) < end)[:, None]
        saved_j = sleep.sleeping_j(states, before, hosts, dt_s, idle)[:end]
        assert saved_j.max(axis=0).sum() <= most_j + 1e-9
        run_j = 1.25 * 20.0 * max(waking_w, 100.0) + 7.0 * 60.0
        loose_j = 100.0 * 100.0 * count + 2.0 * run_j * idle.sum()
        assert most_j <= saved_j.max(axis=0).sum() + loose_j  # not by much
        if least_j := 0.999 * most_j:
            rows = bound.rows_to(least_j, steps)
            assert bound.before_j(rows - 1) < least_j <= bound.before_j(rows)
    assert bound.rows_to(bound.before_j(steps) + 1.0, steps) == 0
    for row in range(steps):
        kept_later = kept and KeptOn(kept.hosts, max(kept.first - row, 0), max(kept.end - row, 0))
        later = SleepBound(sleep, states[row:], first - row, 100.0, kept_later)
        for end in range(row, steps + 1):
            assert bound.before_j(end, row) == later.before_j(end - row)
        least_j = rng.uniform(0.0, 1.5) * later.before_j(steps - row)
        assert bound.most_j(least_j, steps, row) >= min(least_j, later.before_j(steps - row))


@pytest.mark.parametrize("seed", range(20))
def test_what_sleeps_pays_for_the_job(seed):
    """Whatever is found: the changed plan draws no more than the old one, and only idle cells sleep."""
    rng = np.random.default_rng(100 + seed)
    plans = ["1" + "".join(rng.choice(list("1s."), size=9)) for _ in range(5)]
    test = energy_test(*plans, reserved={3: 4}, low_from=int(rng.integers(3, 11)))
    old, hosts = test.states.copy(), np.arange(5)
    change = test.check(np.array([0, 2]), int(rng.integers(2, 11)))
    if change is None:
        return
    test.apply(change)
    before = np.zeros(5, dtype=np.bool_)

    def total_j(plan: np.ndarray) -> float:
        asleep = test.cells.asleep(plan, hosts)
        energies = test.cells.energy_j(plan, shifted(asleep, before), hosts, test.dt_s)
        return float(energies.sum())

    assert total_j(test.states) <= total_j(old) + 1e-6
    assert (test.states[: change.end, [0, 2]] != ASLEEP).all()
    assert (test.states[:4, 3] == old[:4, 3]).all()


def test_nothing_can_be_saved_where_all_servers_have_jobs():
    test = energy_test("11.", "111", reserved={0: 3, 1: 3})
    assert test.most_payable_j() == 0.0
    assert test.check(np.array([0]), 3) is None


@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_out_at_once_could_not_be_paid(seed):
    """No job needs less than its bound, and none is paid with more than any could be."""
    rng = np.random.default_rng(seed)
    steps, count = int(rng.integers(2, 12)), 5
    plans = ["".join(rng.choice(list("11s."), size=steps)) for _ in range(count)]
    low_from = int(rng.integers(0, steps + 1))
    reserved = {host: int(rng.integers(1, steps + 1)) for host in (3, 4) if rng.random() < 0.5}
    now = rng.integers(0, 2, count).astype(np.int8)  # servers without a job are on
    test = energy_test(*plans, reserved=reserved, low_from=low_from, now=now)
    test.dt_s[0] = rng.choice([5.0, 40.0, 100.0])
    free = [host for host in range(count) if host not in reserved]
    res, end = int(rng.integers(1, len(free) + 1)), int(rng.integers(1, steps + 1))
    hosts = np.sort(rng.choice(free, res, replace=False))
    asleep = np.array([int((test.states[:end, hosts] == ASLEEP).sum())])
    least_j, most_j = float(test.least_needed_j(asleep, np.array([res]))[0]), test.most_payable_j()
    placement = test.check(hosts, end)
    if placement is None:
        assert test.shortfall().needed_j >= least_j
        assert test.shortfall().found_j <= most_j
    else:
        assert placement.needed_j >= least_j
        assert placement.saved_j <= most_j
        assert max(least_j, 0.0) <= most_j


def test_kept_on_fills_forward():
    states = np.array([[ASLEEP], [SLOWER], [ASLEEP], [ASLEEP], [ON]], dtype=np.int8)
    filled = kept_on(states, states == ASLEEP, np.array([ON], dtype=np.int8))
    assert filled.ravel().tolist() == [ON, SLOWER, SLOWER, SLOWER, ON]


def test_runs_of_idle_steps():
    idle = np.array([[1, 0], [1, 1], [0, 1], [1, 0]], dtype=np.bool_)
    assert [each.tolist() for each in Runs.of(idle)] == [[0, 0, 1], [0, 3, 1], [2, 4, 3]]


@pytest.mark.parametrize(("length_s", "worth"), [(100.0, True), (7.0, False)])
def test_a_run_too_short_to_pay_for_its_transitions_is_left_out(length_s, worth):
    """Waking at 300 W: asleep for 100 s saves 9115 - 4000 J, for 7 s 280 - 4000 J."""
    watts = (100.0, 70.0, 5.0, 60.0, 300.0)
    costly = dataclasses.replace(FAST, idle_w=watts, epsilon_w=watts, full_w=watts)
    sleep = savings(1, kind=costly)
    states, dt_s = np.zeros((3, 1), dtype=np.int8), np.array([length_s, 100.0, 100.0])
    idle = np.array([[True], [False], [False]])
    saved_j = sleep.sleeping_j(states, np.array([False]), np.array([0]), dt_s, idle)
    assert worthwhile(saved_j, idle).any() == worth


def test_every_pair_of_states_has_its_energy():
    expected = {
        (False, ON): BUSY_J,
        (True, ON): WAKING_J,
        (False, ASLEEP): FALLING_J,
        (True, ASLEEP): ASLEEP_J,
    }
    for was_asleep, state in itertools.product((False, True), (ON, ASLEEP)):
        found = savings(1).cells.energy_j(
            np.array([[state]], dtype=np.int8), np.array([[was_asleep]]), np.array([0]), np.array([100.0])
        )
        assert found.item() == pytest.approx(expected[was_asleep, state])
