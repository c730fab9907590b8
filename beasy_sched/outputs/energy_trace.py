"""The energy trace: one CSV row a settled step, with what was planned beside what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from beasy_sched.plan.store import PlanStore
from beasy_sched.session.power import TraceRow
from beasy_sched.units import j_to_kwh

_COLUMNS: Final[dict[str, Callable[[TraceRow], float]]] = {
    "step": lambda row: row.step,
    "start_s": lambda row: row.start_s,
    "duration_s": lambda row: row.record.dt_s,
    "renewable_w": lambda row: row.record.renew_w,
    "demand_w": lambda row: row.record.demand_w,
    "charge_w": lambda row: row.record.charge_w,
    "discharge_w": lambda row: row.record.discharge_w,
    "electrolyzer_w": lambda row: row.record.electrolyzer_w,
    "fuel_cell_w": lambda row: row.record.fuel_cell_w,
    "curtailed_w": lambda row: row.record.curtailed_w,
    "unserved_w": lambda row: row.record.unserved_w,
    "planned_electrolyzer_w": lambda row: row.record.planned_electrolyzer_w,
    "planned_fuel_cell_w": lambda row: row.record.planned_fuel_cell_w,
    "consumed_kwh": lambda row: j_to_kwh(row.record.consumed_j),
    "soc_pct": lambda row: row.record.soc_after_pct,
    "hydrogen_kg": lambda row: row.record.hydrogen_after_kg,
    "residual_j": lambda row: row.record.residual_j,
}
"""Columns of the trace in order; powers are means over the step, levels those at its end."""

_PLANNED: Final = (
    "planned_renewable_w",
    "planned_load_w",
    "planned_envelope_w",
    "planned_charge_w",
    "planned_discharge_w",
    "planned_soc_pct",
    "planned_hydrogen_kg",
    "planned_servers_on",
)
"""Further columns of a run with a plan; empty outside its windows."""


def trace_csv(rows: Iterable[TraceRow], plans: PlanStore | None = None) -> str:
    """Write the rows as CSV text; numbers with as many digits as tell them apart."""
    planned = _PLANNED if plans is not None else ()
    lines = [",".join((*_COLUMNS, *planned))]
    for row in rows:
        values = [repr(get(row)) for get in _COLUMNS.values()]
        if plans is not None:
            values += _planned_values(plans, row.start_s)
        lines.append(",".join(values))
    return "\n".join(lines) + "\n"


def _planned_values(plans: PlanStore, start_s: float) -> list[str]:
    place = plans.place(start_s)
    if place is None:
        return [""] * len(_PLANNED)
    plan, step = plans[place.window], place.step
    power = plan.power
    servers = "" if plan.servers is None else repr(int(plan.servers.on_count[step]))
    values = (
        power.renew_w[step],
        power.load_w[step],
        power.envelope_w[step],
        power.charge_w[step],
        power.discharge_w[step],
        plan.soc_pct[step + 1],
        power.hydrogen_kg[step + 1],
    )
    return [*(repr(float(value)) for value in values), servers]
