"""A plan's summary, window by window, as a table for people."""

from __future__ import annotations

from collections.abc import Iterator

from beasy_sched.plan.plan import Plan
from beasy_sched.plan.store import PlanStore
from beasy_sched.plan.summary import PlanSummary, summarize

Row = tuple[str, str]


def plan_rows(plans: PlanStore) -> Iterator[Row]:
    """What, and how much: the rows of all windows, with a title row (no value) for each of several."""
    for window, plan in enumerate(plans):
        if len(plans) > 1:
            yield f"window {window}", ""
        yield from _window_rows(plan, summarize(plan))


def _window_rows(plan: Plan, totals: PlanSummary) -> Iterator[Row]:
    hours = plan.steps * plan.step_s / 3600.0
    yield "hours", f"{plan.start_s / 3600.0:g} to {plan.end_s / 3600.0:g}, {plan.steps} steps ({hours:g} h)"
    unmet_kwh = totals.demand_kwh - totals.served_kwh
    yield "relax factor rf", f"{totals.relax_factor:.4f}"
    yield "demand", f"{totals.demand_kwh:,.2f} kWh"
    if totals.demand_kwh > 0:
        share = 100 * unmet_kwh / totals.demand_kwh
        yield "  not met", f"{unmet_kwh:,.2f} kWh ({share:.2f} %)"
    surplus = plan.provenance.settings.get("surplus")
    yield (
        "envelope of the servers",
        f"{totals.envelope_kwh:,.2f} kWh" + (f" (surplus: {surplus})" if surplus else ""),
    )
    yield "  from sun and wind", f"{totals.production_kwh:,.2f} kWh"
    yield "  from the battery", f"{totals.discharged_kwh:,.2f} kWh"
    yield "  into the battery", _taken(totals.charged_kwh)
    if plan.storage.hydrogen is not None:
        yield "  from the fuel cell", f"{totals.fuel_cell_kwh:,.2f} kWh"
        yield "  into the electrolyzer", _taken(totals.electrolyzer_kwh)
    yield "  curtailed", _taken(totals.curtailed_kwh)
    yield (
        "state of charge: start, lowest, end",
        f"{totals.soc_start_pct:.2f}, {totals.soc_least_pct:.2f}, {totals.soc_end_pct:.2f} %",
    )
    yield "  target", _target(totals.soc_end_pct, plan.storage.battery.soc_target_pct, 2, "%", "points")
    if plan.storage.hydrogen is not None:
        yield "hydrogen: start, end", f"{totals.hydrogen_start_kg:.3f}, {totals.hydrogen_end_kg:.3f} kg"
        target_kg = plan.storage.hydrogen.level_target_kg
        yield "  target", _target(totals.hydrogen_end_kg, target_kg, 3, "kg", "kg")
    if totals.servers:
        yield "servers on, mean", f"{totals.servers_on_mean:,.1f} of {totals.servers:,}"
        yield "  woken", f"{totals.wakeups:,} times"
        yield "  energy at most", f"{totals.server_kwh:,.2f} kWh"
    for solved in plan.provenance.solved:
        note = f"; {solved.message}" if solved.message else ""
        yield f"{solved.name}", f"{solved.status}, gap {100 * solved.gap:.3g} %{note}"


def _target(end: float, target: float, digits: int, unit: str, apart_unit: str) -> str:
    """Tell a target, and whether the plan ends at it or above."""
    if end >= target - 0.5 * 10.0**-digits:
        return f"{target:.{digits}f} {unit}, met"
    return f"{target:.{digits}f} {unit}, missed by {target - end:.{digits}f} {apart_unit}"


def _taken(energy_kwh: float) -> str:
    """What leaves the envelope, with its sign; no minus before 0.00."""
    return f"{-energy_kwh if energy_kwh >= 0.005 else 0.0:,.2f} kWh"
