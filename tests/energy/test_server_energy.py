"""What servers draw and compute in a step, transitions included."""

from __future__ import annotations

import numpy as np
import pytest
from planner.server_cases import STEP_S, tiny_platform

from beasy_sched.energy import server_energy
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.model.host_power import PowerModel

SLEEP = 3  # QUICK's sleep state


def test_energy_and_flops_of_transitions_are_exact() -> None:
    platform = tiny_platform(quick=2)
    states = np.array([[0, SLEEP], [SLEEP, SLEEP], [1, 2]], dtype=np.int8)
    before = np.array([1, 0], dtype=np.int8)
    cells = CellEnergies(PowerModel(platform))
    energy_j = cells.plan_energy_j(states, before, STEP_S)
    falls_j = 10 * 70.0 + 290 * 5.0
    assert energy_j.tolist() == [
        300 * 130.0 + falls_j,
        falls_j + 300 * 5.0,
        (60 * 90.0 + 240 * 95.0) + (60 * 90.0 + 240 * 80.0),
    ]
    assert cells.plan_flops(states, before, STEP_S).tolist() == [300 * 10e9, 0.0, 240 * 13e9]


def test_a_long_plan_is_counted_in_pieces_that_know_the_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = tiny_platform(quick=2)
    states = np.array([[0, SLEEP], [SLEEP, 1], [1, 1], [SLEEP, SLEEP], [2, SLEEP]], dtype=np.int8)
    before = np.array([SLEEP, 0], dtype=np.int8)
    cells = CellEnergies(PowerModel(platform))
    whole = [count(states, before, STEP_S) for count in (cells.plan_energy_j, cells.plan_flops)]
    monkeypatch.setattr(server_energy, "_CELLS_A_PIECE", 4)
    pieces = [count(states, before, STEP_S) for count in (cells.plan_energy_j, cells.plan_flops)]
    np.testing.assert_array_equal(pieces, whole)
