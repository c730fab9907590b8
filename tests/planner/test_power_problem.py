"""What goes wrong in the inputs of the power decisions is named: which, where, what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan_cases import battery, hydrogen, problem

from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.planner.power_problem import check_sizes
from beasy_sched.units import kwh_to_j


@pytest.mark.parametrize(
    ("load", "renew", "more", "message"),
    [
        ([1, np.nan], [1, 1], {}, "the demand is nan W at step 1, expected a finite number >= 0"),
        ([1, 1], [1, -2], {}, "the production is -2000.0 W at step 1, expected a finite number >= 0"),
        ([1, np.inf], [1, 1], {}, "the demand is inf W at step 1"),
        ([1, 1], [1, 1, 1], {}, "the demand has 2 steps and the production 3"),
        ([], [], {}, "expected one value per step"),
        ([[1, 1]], [1, 1], {}, "found an array of shape (1, 2)"),
        ([1e10], [1], {}, "more than 1e12 W, check the unit"),
        ([1], [1], {"floor_w": -1.0}, "the sleep floor is -1.0 W at step 0"),
        ([1], [1], {"step_s": 0.0}, "step_s: found 0.0"),
        ([1], [1], {"most_w": 0.0}, "most_w: found 0.0"),
        ([1], [1], {"start": StorageState(kwh_to_j(9.5))}, "starts with the battery at 95.00 %"),
        (
            [1],
            [1],
            {"start": StorageState(0.0, 3.0)},
            "starts with 3.0 kg of hydrogen, expected 0 to tank_kg",
        ),
    ],
)
def test_bad_inputs(load: Any, renew: Any, more: dict[str, Any], message: str) -> None:
    storage = Storage(battery(soc_max_pct=90.0), hydrogen())
    with pytest.raises(ConfigError) as caught:
        problem(load, renew, storage, **more)
    assert message in str(caught.value)


def test_negative_capacity() -> None:
    with pytest.raises(ConfigError, match=r"capacity_j: found -3600000.0, expected a finite number >= 0"):
        battery(-1.0)


@pytest.mark.parametrize(
    ("load_kw", "renew_kw", "capacity_kwh", "message"),
    [
        (5.0, 5e4, 10.0, "are both in watts?"),
        (0.005, 0.004, 1000.0, "holds 2e+05 hours"),
        (5e4, 5e4, 10.0, "holds 0.0002 hours"),
    ],
)
def test_sizes_that_do_not_go_together(
    load_kw: float, renew_kw: float, capacity_kwh: float, message: str
) -> None:
    assert message in " ".join(check_sizes(problem([load_kw], [renew_kw], battery(capacity_kwh))))


def test_sizes_that_do() -> None:
    assert check_sizes(problem([5.0, 0.0], [0.0, 12.0], battery(100.0))) == ()
