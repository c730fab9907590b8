"""A step's refit against looking at every single move again and again."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import ASLEEP, small_battery
from worlds import FAST, SLOW, STEP_S, plans_of, server

from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform
from beasy_sched.policies.envelope import TOLERANCE_J, EnvelopeRefit
from beasy_sched.policies.planned.working_plan import WorkingPlan

ODD = server("odd", speed=90.0, idle=20.0, full=110.0)
KINDS = (FAST, SLOW, ODD)
WORTH_TOLERANCE = 1e-9


class Tried(NamedTuple):
    """A single server in another state, and what that brings."""

    worth: float
    switches: int
    row: int
    host: int
    used_j: float


class Case(NamedTuple):
    platform: Platform
    states: np.ndarray
    step: int
    idle: np.ndarray

    @property
    def cells(self) -> CellEnergies:
        return CellEnergies(PowerModel(self.platform))

    @property
    def before(self) -> np.ndarray:
        return self.states[0]

    def outcome(self, states: np.ndarray) -> tuple[float, float]:
        energy_j = self.cells.plan_energy_j(states, self.before, STEP_S)
        return float(energy_j.sum()), float(self.cells.plan_flops(states, self.before, STEP_S).sum())

    def try_all(self, states: np.ndarray, left_j: float) -> list[Tried]:
        """Every move of a single server that is not beyond ``left_j``."""
        energy_j, flops = self.outcome(states)
        found = []
        for host in range(states.shape[1]):
            for row, pstate in enumerate((0, 1, ASLEEP)):
                changed = states.copy()
                changed[self.step, host] = pstate
                after_j, after_flops = self.outcome(changed)
                used_j, gained = after_j - energy_j, after_flops - flops
                fits = TOLERANCE_J < used_j * np.sign(left_j) <= abs(left_j) + 1e-6
                if fits and (left_j < 0 or gained > 0):
                    on = np.vstack([self.before, changed])[:, host] != ASLEEP
                    switches = int(np.count_nonzero(np.diff(on[self.step : self.step + 3])))
                    found.append(Tried(gained / abs(used_j), switches, row, host, used_j))
        return found

    def refitted(self, energy_j: float) -> list[int]:
        """The step's states, changed move by move."""
        states, left_j = self.states.copy(), energy_j
        while moves := self.try_all(states, left_j):
            if left_j < 0 and any(self.idle[move.host] for move in moves):
                moves = [move for move in moves if self.idle[move.host]]
            most = max(move.worth for move in moves)
            equals = [move for move in moves if move.worth >= most - WORTH_TOLERANCE * abs(most)]
            best = min(equals, key=lambda move: (move.switches, move.row, move.host))
            states[self.step, best.host] = (0, 1, ASLEEP)[best.row]
            left_j -= best.used_j
        return [int(state) for state in states[self.step]]


def case_of(*rows: list[int], step: int, kinds: list[int], idle: list[bool]) -> Case:
    names = tuple(f"n{i:03}" for i in range(len(kinds)))
    platform = Platform(KINDS, np.array(kinds, dtype=np.intp), names)
    return Case(platform, np.array(rows, dtype=np.int8), step, np.array(idle, dtype=bool))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, steps = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rows = rng.integers(0, 3, (steps, count)).tolist()
    kinds = rng.integers(0, draw(st.integers(1, 3)), count).tolist()
    idle = (rng.random(count) < 0.5).tolist()
    return case_of(*rows, step=draw(st.integers(0, steps - 1)), kinds=kinds, idle=idle)


def refit_of(case: Case) -> tuple[WorkingPlan, EnvelopeRefit]:
    store = plans_of(small_battery(steps=len(case.states)), case.platform, [case.states])
    plan = WorkingPlan(store, case.cells, case.before)
    return plan, EnvelopeRefit(plan)


@given(cases(), st.floats(-40_000, 40_000))
def test_as_move_by_move(case: Case, energy_j: float) -> None:
    plan, refit = refit_of(case)
    refit.change(case.step, energy_j, case.idle)
    assert plan.states[case.step].tolist() == case.refitted(energy_j)


@pytest.mark.parametrize("energy_j", [2_500.0, 40_000.0, -4_000.0, -9_000.0, -60_000.0])
def test_many_alike(energy_j: float) -> None:
    """Servers of few situations, so that many of them make the same move one after the other."""
    kinds, idle = [0] * 12, [host % 3 == 0 for host in range(12)]
    row = [1] * 4 + [0] * 4 + [ASLEEP] * 4
    case = case_of(row, row, row, step=1, kinds=kinds, idle=idle)
    plan, refit = refit_of(case)
    refit.change(case.step, energy_j, case.idle)
    assert plan.states[case.step].tolist() == case.refitted(energy_j)


def test_of_two_to_slow_down_the_one_that_stays_on_comes_first() -> None:
    """Both lose 50 flops/s for 30 W over the 40 s that they are awake; the first falls asleep again."""
    z = ASLEEP
    case = case_of([z, z], [0, 0], [z, 0], step=1, kinds=[0, 0], idle=[True] * 2)
    plan, refit = refit_of(case)
    refit.change(1, -1900.0, case.idle)
    assert plan.states[1].tolist() == [0, 1]


@pytest.mark.parametrize("moves", [1, 2, 3, 4])
def test_of_equal_moves_of_different_kinds_the_lowest_id_comes_first(moves: int) -> None:
    """Servers 0 and 2 are of one kind, 1 and 3 of a kind that is its twin."""
    twins = Platform(
        (FAST, dataclasses.replace(FAST, name="twin")), np.array([0, 1, 0, 1]), ("a", "b", "c", "d")
    )
    case = Case(twins, np.ones((2, 4), dtype=np.int8), 1, np.zeros(4, dtype=bool))
    plan, refit = refit_of(case)
    one_j = refit_of(case)[1].change(1, 1e6, case.idle) / 4
    refit.change(1, (moves + 0.5) * one_j, case.idle)
    assert plan.states[1].tolist() == [0] * moves + [1] * (4 - moves)


@given(cases(), st.floats(-40_000, 40_000))
def test_what_servers_can_do_stays_known(case: Case, energy_j: float) -> None:
    """A change of a step also changes what can be done in the steps beside it."""
    _, refit = refit_of(case)
    refit.change(case.step, energy_j, case.idle)
    situations, least_j = refit._situations.copy(), refit._least_j.copy()
    refit.forget()
    refit.enter(0)
    assert np.array_equal(situations, refit._situations)
    assert np.array_equal(least_j, refit._least_j)


def test_a_server_whose_job_ends_within_the_step_is_not_idle_in_it() -> None:
    case = case_of([0, 0], [0, 0], step=1, kinds=[0, 0], idle=[False] * 2)
    plan, refit = refit_of(case)
    refit.spread(np.array([1]), -1900.0, np.array([1.5 * STEP_S, 0.0]))
    assert plan.states[1].tolist() == [0, 1]
