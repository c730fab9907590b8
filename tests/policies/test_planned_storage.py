"""Projections count the planned hydrogen and end with the present window, in every policy that compensates.

One server of `worlds.FAST`, planned on (100 W); a battery of 100 kJ without losses, half full.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from talk import Talk, only, production, small_battery
from worlds import FAST, plans_of

from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import Plan, PlanStore
from beasy_sched.policies.registry import make_policy

COMPENSATE = ["beasy", "peak", "next", "last", "workload"]
TANK = HydrogenSpec(1e-2, 5e-3, 0.0, electrolyzer_max_w=150.0, fuel_cell_max_w=150.0)


def planned(windows: int = 1, *, hydrogen_w: float = 0.0) -> list[Plan]:
    site = small_battery(capacity_j=100_000.0, steps=4)
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, TANK))
    platform = Platform((FAST,), np.zeros(1, dtype=np.intp), ("n000",))
    states = [np.zeros((4, 1), dtype=np.int8)] * windows
    return [*plans_of(site, platform, states, [hydrogen_w] * 4 * windows)]


def first_step(name: str, plans: list[Plan], renew_w: float) -> list[d.Decision]:
    """What a policy does to the server as the run begins with this production."""
    site = dataclasses.replace(small_battery(capacity_j=100_000.0, steps=4), storage=plans[0].storage)
    talk = Talk(
        make_policy(name),
        count=1,
        site=site,
        plans=PlanStore(plans),
        windows=len(plans),
        energy=EnergySource.MODEL,
    )
    return only(d.SetResourceState, talk.at(0.0, production(0.0, renew_w)))


@pytest.mark.parametrize("name", COMPENSATE)
@pytest.mark.parametrize("hydrogen_w", [60.0, -60.0])
def test_the_planned_hydrogen_is_no_surplus_and_no_shortage(name: str, hydrogen_w: float) -> None:
    plans = planned(hydrogen_w=hydrogen_w)
    assert first_step(name, plans, plans[0].power.renew_w[0]) == []
    assert plans[0].power.renew_w[0] == pytest.approx(100.0 - hydrogen_w)


@pytest.mark.parametrize("name", COMPENSATE)
def test_what_the_next_window_takes_is_no_shortage_of_this_one(name: str) -> None:
    """The second window is to take 5.4 kJ out of the battery: the first ends at its target."""
    plans = planned(2)
    power = plans[1].power
    renew_w, discharge_w, battery_j = (x.copy() for x in (power.renew_w, power.discharge_w, power.battery_j))
    renew_w[0] -= 90.0
    discharge_w[0] = 90.0
    battery_j[1:] -= 5400.0
    power = dataclasses.replace(power, renew_w=renew_w, discharge_w=discharge_w, battery_j=battery_j)
    plans[1] = dataclasses.replace(plans[1], power=power)
    assert first_step(name, plans, 100.0) == []
