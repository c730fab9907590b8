"""BEASY at the steps of one window, whose plan and weather a test lays out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from talk import Talk, only, production, small_battery
from worlds import FAST, plans_of

from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.planner.plan import PlanStore
from beasy_sched.planner.power_problem import PowerPlan
from beasy_sched.policies.registry import make_policy


class Steps:
    """A run whose steps bring the planned production unless told otherwise."""

    def __init__(
        self,
        *rows: list[int],
        load_w: Sequence[float] = (),
        dip_j: float = 0.0,
        efficiency: float = 1.0,
        more_w: float = 0.0,
        kind: ServerKind = FAST,
        target_pct: float = 50.0,
        options: dict[str, Any] | None = None,
        first: Sequence[e.Event] = (),
        **site_changes: Any,
    ) -> None:
        """``load_w``: the expected demand, where it is not what the servers are planned to draw; ``dip_j``:
        what the cells give in the fifth step and get back in the sixth; ``efficiency``: of discharging;
        ``more_w``: what the first step brings beyond what was planned; ``first``: what comes with it."""
        states = np.array(rows, dtype=np.int8)
        count = states.shape[1]
        site = small_battery(**{"capacity_j": 100_000.0, "steps": len(rows), **site_changes})
        battery = dataclasses.replace(
            site.storage.battery, discharge_efficiency=efficiency, soc_target_pct=target_pct
        )
        site = dataclasses.replace(site, storage=Storage(battery))
        platform = Platform((kind,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
        plan = plans_of(site, platform, [states])[0]
        power = _with_a_dip(plan.power, dip_j, efficiency) if dip_j else plan.power
        if len(load_w):
            power = dataclasses.replace(power, load_w=np.array(load_w, dtype=np.float64))
        self.planned_w = power.renew_w
        self.talk = Talk(
            make_policy("beasy", options),
            kinds=[kind] * count,
            site=site,
            plans=PlanStore([dataclasses.replace(plan, power=power)]),
            energy=EnergySource.MODEL,
        )
        self.begun = self.begin(0, more_w, *first)

    def begin(self, step: int, more_w: float = 0.0, *events: e.Event) -> list[tuple[str, int]]:
        """Begin a step; return what servers are sent to."""
        now = 60.0 * step
        found = self.talk.at(now, production(now, float(self.planned_w[step]) + more_w), *events)
        return [(str(x.resources), x.state) for x in only(d.SetResourceState, found)]


def _with_a_dip(power: PowerPlan, dip_j: float, efficiency: float) -> PowerPlan:
    renew_w, discharge_w, charge_w, battery_j = (
        values.copy() for values in (power.renew_w, power.discharge_w, power.charge_w, power.battery_j)
    )
    discharge_w[4] = dip_j * efficiency / 60.0
    charge_w[5] += dip_j / 60.0
    renew_w[4:6] += -discharge_w[4], dip_j / 60.0
    battery_j[5] -= dip_j
    return dataclasses.replace(
        power, renew_w=renew_w, discharge_w=discharge_w, charge_w=charge_w, battery_j=battery_j
    )
