"""The energy trace: one CSV row a settled step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

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


def trace_csv(rows: Iterable[TraceRow]) -> str:
    """Write the rows as CSV text; numbers with as many digits as tell them apart."""
    lines = [",".join(_COLUMNS)]
    lines.extend(",".join(repr(get(row)) for get in _COLUMNS.values()) for row in rows)
    return "\n".join(lines) + "\n"
