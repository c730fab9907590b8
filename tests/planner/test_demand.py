"""The demand forecast: energies by hand, none lost, waiting where servers are short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import two_kinds

from beasy_sched.planner.forecast import demand_power_w, full_draw_w, reference_speed_flops

PLATFORM = two_kinds()
"""n0 and n1: 120 W busy, 5 W asleep; n2, slower: 90 W busy, 50 W idle, never asleep."""

REST_W = 5.0 + 5.0 + 50.0


def demand(*jobs: tuple[float, float, int], steps: int = 4, step_s: float = 100.0) -> np.ndarray:
    submit, run, hosts = (
        (np.array(column) for column in zip(*jobs, strict=True)) if jobs else (np.zeros(0),) * 3
    )
    return demand_power_w(PLATFORM, submit, run, hosts, steps=steps, step_s=step_s)


def test_nothing_to_do() -> None:
    np.testing.assert_allclose(demand(), REST_W)


@pytest.mark.parametrize(
    ("jobs", "expected_w"),
    [
        ([(0.0, 100.0, 1)], [115, 0, 0, 0]),
        ([(50.0, 100.0, 1)], [57.5, 57.5, 0, 0]),
        ([(0.0, 200.0, 2)], [230, 230, 0, 0]),
        ([(0.0, 100.0, 3)], [270, 0, 0, 0]),  # The fast ones first, then 40 W for the slow one.
        ([(0.0, 100.0, 2), (100.0, 100.0, 2)], [230, 230, 0, 0]),
        ([(0.0, 100.0, 2), (0.0, 100.0, 2)], [270, 115, 0, 0]),  # One of the four waits.
        ([(350.0, 500.0, 2)], [0, 0, 0, 115]),
        ([(1000.0, 500.0, 2)], [0, 0, 0, 0]),
        ([(0.0, 0.0, 3)], [0, 0, 0, 0]),
    ],
)
def test_by_hand(jobs: list[tuple[float, float, int]], expected_w: list[float]) -> None:
    np.testing.assert_allclose(demand(*jobs) - REST_W, expected_w, atol=1e-9)


@given(st.lists(st.tuples(st.floats(0, 900), st.floats(0, 300), st.integers(1, 2)), min_size=1, max_size=30))
def test_no_energy_is_lost(jobs: list[tuple[float, float, int]]) -> None:
    """With only the two equal servers in use at once, energy is server time times 115 W."""
    power = demand(*jobs, steps=400)
    assert power.max() <= full_draw_w(PLATFORM) * (1 + 1e-12)
    server_s = sum(run * hosts for _, run, hosts in jobs)
    above_j = (power - REST_W).sum() * 100.0
    assert 40.0 * server_s - 1e-3 <= above_j <= 115.0 * server_s + 1e-3


def test_bounds_of_the_platform() -> None:
    assert full_draw_w(PLATFORM) == 120 + 120 + 90
    assert reference_speed_flops(PLATFORM) == 4.0
