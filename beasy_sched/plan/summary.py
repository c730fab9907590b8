"""What a plan comes to, in the numbers that people ask for first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plan.plan import Plan
from beasy_sched.units import j_to_kwh


@dataclass(frozen=True)
class PlanSummary:
    """One window's totals; energies in kWh."""

    relax_factor: float
    demand_kwh: float
    served_kwh: float
    """Demand that the envelope covers."""
    production_kwh: float
    curtailed_kwh: float
    charged_kwh: float
    discharged_kwh: float
    electrolyzer_kwh: float
    fuel_cell_kwh: float
    envelope_kwh: float
    soc_start_pct: float
    soc_end_pct: float
    soc_least_pct: float
    hydrogen_start_kg: float
    hydrogen_end_kg: float
    servers: int
    """Servers there are; 0 where none are planned."""
    servers_on_mean: float
    wakeups: int
    """How often a server is woken inside the window."""
    server_kwh: float


def summarize(plan: Plan) -> PlanSummary:
    """The summary of one window."""
    power, servers = plan.power, plan.servers

    def kwh(powers_w: FloatArray) -> float:
        return j_to_kwh(float(powers_w.sum()) * plan.step_s)

    asleep = servers.asleep if servers else np.zeros((plan.steps, 0), dtype=bool)
    return PlanSummary(
        relax_factor=power.relax_factor,
        demand_kwh=kwh(power.load_w),
        served_kwh=kwh(np.minimum(power.load_w, power.envelope_w)),
        production_kwh=kwh(power.renew_w),
        curtailed_kwh=kwh(power.curtailed_w),
        charged_kwh=kwh(power.charge_w),
        discharged_kwh=kwh(power.discharge_w),
        electrolyzer_kwh=kwh(power.electrolyzer_w),
        fuel_cell_kwh=kwh(power.fuel_cell_w),
        envelope_kwh=kwh(power.envelope_w),
        soc_start_pct=float(plan.soc_pct[0]),
        soc_end_pct=float(plan.soc_pct[-1]),
        soc_least_pct=float(plan.soc_pct.min()),
        hydrogen_start_kg=float(power.hydrogen_kg[0]),
        hydrogen_end_kg=float(power.hydrogen_kg[-1]),
        servers=asleep.shape[1],
        servers_on_mean=float((~asleep).sum(axis=1).mean()),
        wakeups=int((asleep[:-1] & ~asleep[1:]).sum()),
        server_kwh=j_to_kwh(float(servers.energy_j.sum())) if servers else 0.0,
    )
