"""The check finds every single thing that a plan can do wrong, and nothing in a plan that is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plan_cases import HOUR_S, battery, hydrogen, problem

from beasy_sched.energy.storage import Storage
from beasy_sched.planner.power_problem import PowerPlan, power_violations

GAIN_KG = hydrogen().produced_kg(2e3, HOUR_S)
USE_KG = hydrogen().used_kg(1e3, HOUR_S)

CASE = problem(
    [2, 2, 2],
    [6, 1, 0],
    Storage(
        battery(soc_min_pct=20.0, charge_limit_w=3e3, discharge_limit_w=2e3, soc_target_pct=50.0),
        hydrogen(electrolyzer_min_w=1e3, level_target_kg=0.9),
    ),
    most_w=2.5e3,
)

RIGHT = PowerPlan(
    load_w=CASE.load_w,
    renew_w=CASE.renew_w,
    charge_w=np.array([2e3, 0.0, 0.0]),
    discharge_w=np.array([0.0, 1e3, 1e3]),
    electrolyzer_w=np.array([2e3, 0.0, 0.0]),
    fuel_cell_w=np.array([0.0, 0.0, 1e3]),
    curtailed_w=np.zeros(3),
    battery_j=3.6e6 * np.array([5.0, 7.0, 6.0, 5.0]),
    hydrogen_kg=1.0 + np.array([0.0, GAIN_KG, GAIN_KG, GAIN_KG - USE_KG]),
)


def test_nothing_wrong() -> None:
    assert power_violations(RIGHT, CASE) == ()
    assert RIGHT.relax_factor == 0.0


@pytest.mark.parametrize(
    ("field", "step", "value", "constraint"),
    [
        ("charge_w", 0, -10.0, "charge_w >= 0"),
        ("charge_w", 0, 3.1e3, "P_ch <= P_ch_max (3.6)"),
        ("charge_w", 1, 10.0, "charging excludes discharging (2.3)"),
        ("charge_w", 0, 1.9e3, "battery development (2.3)"),
        ("discharge_w", 1, 2.1e3, "P_dch <= P_dch_max (3.5)"),
        ("electrolyzer_w", 0, 4.1e3, "P_ez <= P_ez_max (3.8)"),
        ("electrolyzer_w", 0, 0.9e3, "P_ez = 0 or P_ez >= P_ez_min (3.8)"),
        ("electrolyzer_w", 0, 1.9e3, "hydrogen development (2.7)"),
        ("fuel_cell_w", 2, 2.1e3, "P_fc <= P_fc_max (3.7)"),
        ("battery_j", 1, 3.6e6 * 10.1, "SoC <= SoC_max (3.3)"),
        ("battery_j", 2, 3.6e6 * 1.9, "SoC >= SoC_min (3.3)"),
        ("battery_j", 3, 3.6e6 * 4.9, "SoC(T) >= SoC_target (3.9)"),
        ("battery_j", 0, 3.6e6 * 4.9, "starts at the level given"),
        ("hydrogen_kg", 1, 2.1, "LoH <= LoH_max (3.4)"),
        ("hydrogen_kg", 1, -0.1, "LoH >= 0 (3.4)"),
        ("hydrogen_kg", 3, 0.8, "LoH(T) >= LoH_target (3.10)"),
        ("hydrogen_kg", 0, 0.9, "starts with the hydrogen given"),
        ("curtailed_w", 0, 100.0, "curtailed only beyond the servers' most"),
        ("renew_w", 0, 6.6e3, "the servers' most"),
        ("renew_w", 0, 6.1e3, "keeps the production given"),
        ("load_w", 0, 1.9e3, "keeps the demand given"),
        ("battery_j", 2, np.nan, "SoC >= SoC_min (3.3)"),
    ],
)
def test_each_thing_wrong(field: str, step: int, value: float, constraint: str) -> None:
    values = getattr(RIGHT, field).copy()
    values[step] = value
    found = power_violations(replace(RIGHT, **{field: values}), CASE)
    assert (constraint, step) in [(violation.constraint, violation.step) for violation in found]


def test_floor() -> None:
    found = power_violations(RIGHT, replace(CASE, floor_w=2.2e3))
    assert [v.constraint for v in found] == ["P_prod >= max((1 - rf) * P_load, floor) (3.11)"]


def test_hydrogen_at_a_site_without() -> None:
    case = replace(CASE, storage=Storage(CASE.storage.battery))
    assert "no hydrogen at this site" in [violation.constraint for violation in power_violations(RIGHT, case)]
