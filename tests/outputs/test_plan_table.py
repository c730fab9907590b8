"""The rows of a plan's table: targets, and whether they are met."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from talk import small_battery
from worlds import FAST, plans_of

from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.tables import plan_rows

STEPS = 4


@pytest.mark.parametrize(("target_kg", "told"), [(0.0, "met"), (0.8, "met"), (1.0, "missed by 0.1")])
def test_the_hydrogen_target_and_whether_it_is_met(target_kg: float, told: str) -> None:
    tank = HydrogenSpec(2.0, 1.0, target_kg, electrolyzer_max_w=1e5, fuel_cell_max_w=1e5)
    site = small_battery(steps=STEPS)
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, tank))
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    used_w = 0.1 / tank.used_kg(1.0, STEPS * site.step_s)
    plans = plans_of(site, platform, [np.zeros((STEPS, 1), dtype=np.int8)], [used_w] * STEPS)
    rows = [*plan_rows(plans)]
    targets = [value for name, value in rows if name == "  target"]
    assert ("hydrogen: start, end", "1.000, 0.900 kg") in rows
    assert targets[0] == "50.00 %, met"
    assert targets[1].startswith(f"{target_kg:.3f} kg, {told}")
