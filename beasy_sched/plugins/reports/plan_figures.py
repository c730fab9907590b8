"""Figures of plans: the plans of windows by step, and the coarse plan of a season by day."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray
from beasy_sched.outputs.season_table import month_starts, season_calendar
from beasy_sched.planner.plan import Plan, PlanStore
from beasy_sched.planner.season import Season
from beasy_sched.plugins.reports.drawing import (
    BATTERY,
    DEMAND,
    HYDROGEN,
    LEGEND,
    LIMIT,
    OKABE_ITO,
    PRODUCTION,
    SHORTAGE,
    draw_level,
    figure_bytes,
    mark_hours,
    stacked_panels,
)
from beasy_sched.plugins.reports.energy_charts import target_band
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY

_ENVELOPE, _SERVERS, _GRID = "#111111", "#56719a", "#8c5a2b"


def draw_plan(plans: PlanStore, suffix: str = ".png") -> bytes:
    """Draw all windows on one time axis. Returns the file's bytes.

    The same plan gives the same bytes with the same matplotlib version. Raises ConfigError for a format that
    is not png, svg or pdf, and if matplotlib is not installed.
    """
    return figure_bytes(plan_figure(plans, suffix), suffix)


def plan_figure(plans: PlanStore, suffix: str = ".png") -> Any:
    """Return the matplotlib figure of `draw_plan`; raises the same exceptions."""
    draws = [(_draw_powers, 2.0), (_draw_flows, 1.2)]  # with their relative heights
    if plans[0].storage.battery.exists:
        draws.append((_draw_soc, 1.2))
    if plans[0].storage.hydrogen is not None:
        draws.append((_draw_hydrogen, 1.0))
    if plans[0].servers is not None:
        draws.append((_draw_servers, 1.2))
    width = 11.0 * min(2.0, 0.75 + 0.25 * len(plans))
    figure, panels = stacked_panels(suffix, (width, 2.2, 1.9), draws, plans, _title(plans))
    for panel in panels:
        for plan in list(plans)[1:]:
            panel.axvline(plan.start_s / 3600.0, color=LIMIT, linewidth=1.0, linestyle="--")
    mark_hours(panels[-1], plans.start_s / 3600.0, plans.end_s / 3600.0)
    return figure


def _title(plans: PlanStore) -> str:
    factors = [plan.power.relax_factor for plan in plans]
    if max(factors) < 5e-5:
        return "Offline plan: all demand is met"
    shown = ", ".join(f"{100 * factor:.1f} %" for factor in factors)
    where = "" if len(factors) == 1 else ", by window"
    return f"Offline plan: up to {shown} of a step's demand is not met (relax factor rf{where})"


def _draw_powers(panel: Any, plans: PlanStore) -> None:
    thinner = min(1.0, max(0.4, 1000.0 / sum(plan.steps for plan in plans)))
    wide, thin = 2.6 * thinner, 1.2 * thinner
    for window, plan in enumerate(plans):
        hide = "_" if window else ""  # matplotlib omits such labels: those of one window are enough
        hours, power, envelope_kw = _hours(plan), plan.power, plan.power.envelope_w / 1e3
        name = f"{hide}envelope of the servers"
        panel.stairs(envelope_kw, hours, color=_ENVELOPE, linewidth=wide, label=name, baseline=None)
        for band, color, name in (
            (plan.production, PRODUCTION, f"{hide}production (solar, wind) and its band"),
            (plan.demand, DEMAND, f"{hide}demand and its band"),
        ):
            low_kw, high_kw = band.low_w / 1e3, band.high_w / 1e3
            panel.stairs(high_kw, hours, baseline=low_kw, fill=True, color=color, alpha=0.2)
            panel.stairs(band.value_w / 1e3, hours, color=color, linewidth=thin, label=name, baseline=None)
        unmet = power.load_w - power.envelope_w > 1e-3 * power.scale_w
        if unmet.any():
            panel.fill_between(
                hours[:-1], power.load_w / 1e3, envelope_kw, where=unmet, step="post",
                color=SHORTAGE, alpha=0.5, linewidth=0, label=f"{hide}demand not met",
            )  # fmt: skip
    panel.set_ylabel("power [kW]")
    panel.set_ylim(bottom=0.0)
    panel.legend(ncols=2, **LEGEND)


def _draw_flows(panel: Any, plans: PlanStore) -> None:
    style = {"fill": True, "alpha": 0.8}
    for window, plan in enumerate(plans):
        hide = "_" if window else ""
        power, hours = plan.power, _hours(plan)
        out, into = power.discharge_w / 1e3, -power.charge_w / 1e3
        if plan.storage.battery.exists:
            panel.stairs(out, hours, color=BATTERY, label=f"{hide}battery", **style)
            panel.stairs(into, hours, color=BATTERY, **style)
        if plans[0].storage.hydrogen is not None:
            more, less = out + power.fuel_cell_w / 1e3, into - power.electrolyzer_w / 1e3
            name = f"{hide}fuel cell, electrolyzer"
            panel.stairs(more, hours, baseline=out, color=HYDROGEN, label=name, **style)
            panel.stairs(less, hours, baseline=into, color=HYDROGEN, **style)
            out = more
        if power.import_w is not UNSET:
            total = out + power.import_w / 1e3
            panel.stairs(total, hours, baseline=out, color=_GRID, label=f"{hide}grid", **style)
    panel.axhline(0.0, color="black", linewidth=0.8)
    grid = "" if plans[0].power.import_w is UNSET else "grid, "
    panel.set_ylabel(f"{grid}storage [kW]\n$-$ in      out +")
    panel.legend(ncols=2, **LEGEND)


def _draw_soc(panel: Any, plans: PlanStore) -> None:
    battery = plans[0].storage.battery
    for plan in plans:
        draw_level(panel, _hours(plan), plan.soc_pct, BATTERY)
    for value, name in ((battery.soc_min_pct, "min"), (battery.soc_max_pct, "max")):
        panel.axhline(value, color=SHORTAGE, linewidth=1.0, linestyle=":")
        _annotate(panel, name, plans.end_s / 3600.0, value, 3)
    if (band := target_band(battery)) is not None:
        panel.axhspan(*band, color="grey", alpha=0.15, linewidth=0.0)
    _mark_target(panel, plans, battery.soc_target_pct)
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_hydrogen(panel: Any, plans: PlanStore) -> None:
    tank: Any = plans[len(plans) - 1].storage.hydrogen  # exists: checked by `draw_plan`
    for plan in plans:
        draw_level(panel, _hours(plan), plan.power.hydrogen_kg, HYDROGEN)
    _mark_target(panel, plans, tank.level_target_kg)
    panel.set_ylim(0.0, 1.08 * tank.tank_kg)
    panel.set_ylabel("hydrogen [kg]")


def _mark_target(panel: Any, plans: PlanStore, target: float) -> None:
    end_h = plans.end_s / 3600.0
    panel.plot([end_h], [target], marker="<", color="black", clip_on=False, zorder=5)
    _annotate(panel, "target", end_h, target, 7)


def _annotate(panel: Any, text: str, hour: float, value: float, apart: int) -> None:
    panel.annotate(text, (hour, value), (apart, 0), textcoords="offset points", va="center", fontsize=8)


def _draw_servers(panel: Any, plans: PlanStore) -> None:
    count = 0
    for plan in plans:
        if plan.servers is not None:
            count = len(plan.servers.kind_of)
            panel.stairs(plan.servers.on_count, _hours(plan), fill=True, color=_SERVERS, alpha=0.8)
    panel.axhline(count, color=LIMIT, linewidth=1.0, linestyle=":")
    panel.set_ylim(0.0, 1.08 * count)
    panel.yaxis.get_major_locator().set_params(integer=True)
    panel.set_ylabel(f"servers on\nof {count:,}")


def _hours(plan: Plan) -> FloatArray:
    """Edges of the plan's steps."""
    return np.asarray(plan.start_s + plan.step_s * np.arange(plan.steps + 1), dtype=np.float64) / 3600.0


def draw_season(season: Season, suffix: str = ".png") -> bytes:
    """Draw the whole horizon by day. Returns the file's bytes.

    The same plan gives the same bytes with the same matplotlib version. Raises ConfigError for a format that
    is not png, svg or pdf, and if matplotlib is not installed.
    """
    draws = [(_draw_energies, 1.6)]
    if _losses(season):
        draws.append((_draw_losses, 1.0))
    if season.storage.battery.exists:
        draws.append((_draw_battery, 1.0))
    draws.append((_draw_tank, 1.4))
    figure, panels = stacked_panels(suffix, (12.0, 1.2, 1.9), draws, season, _season_title(season))
    _mark_months(panels[-1], season)
    return figure_bytes(figure, suffix)


def _season_title(season: Season) -> str:
    demand_w, unmet_w = season.load_w + season.always_w, season.mean("unmet_w")
    share = float(unmet_w.sum() / demand_w.sum()) if demand_w.any() else 0.0
    met = "all demand is met" if share < 5e-5 else f"{100 * share:.1f} % of the demand is not met"
    lost = "" if "curtailed" in _losses(season) else ", nothing is curtailed"
    years = "" if len(season.years) == 1 else f" (mean of {len(season.years)} years)"
    return f"Plan of the season: {met}{lost}{years}"


def _day_edges(season: Season) -> FloatArray:
    """Edges of the days, in days; the last day may be shorter."""
    days = season.steps * season.step_s / SECONDS_PER_DAY
    return np.append(np.arange(0.0, days - 1e-9), days)


def _by_day(season: Season, power_w: FloatArray) -> FloatArray:
    """Energy of each day, kWh; steps across midnight are divided."""
    upto_j = np.concatenate(([0.0], np.cumsum(power_w))) * season.step_s
    edges_s = _day_edges(season) * SECONDS_PER_DAY
    return np.diff(np.interp(edges_s, season.step_s * np.arange(season.steps + 1), upto_j)) / JOULES_PER_KWH


def _draw_energies(panel: Any, season: Season) -> None:
    edges = _day_edges(season)
    produced, demand = (
        _by_day(season, season.mean("renew_w")),
        _by_day(season, season.load_w + season.always_w),
    )
    panel.stairs(produced, edges, color=PRODUCTION, fill=True, alpha=0.35, label="production (solar, wind)")
    panel.stairs(demand, edges, color=DEMAND, linewidth=1.0, label="demand", baseline=None)
    panel.set_ylabel("kWh per day")
    panel.set_ylim(bottom=0.0)
    panel.legend(ncols=2, **LEGEND)


_LOSSES: Final = {
    "curtailed": ("curtailed_w", OKABE_ITO["sky"]),
    "demand not met": ("unmet_w", SHORTAGE),
}
_SHOWN_KWH: Final = 0.001
"""Minimum daily energy of a loss that is drawn, kWh."""


def _losses(season: Season) -> dict[str, FloatArray]:
    """Losses of each day, kWh, by name, without those that are always 0."""
    by_label = {label: _by_day(season, season.mean(name)) for label, (name, _) in _LOSSES.items()}
    return {label: values for label, values in by_label.items() if values.max() >= _SHOWN_KWH}


def _draw_losses(panel: Any, season: Season) -> None:
    edges = _day_edges(season)
    for label, values in _losses(season).items():
        panel.stairs(values, edges, color=_LOSSES[label][1], fill=True, alpha=0.7, label=label)
    panel.set_ylabel("kWh per day")
    panel.set_ylim(bottom=0.0)
    panel.legend(ncols=2, **LEGEND)


def _draw_battery(panel: Any, season: Season) -> None:
    battery = season.storage.battery
    pct = 100.0 * season.mean("battery_j") / battery.capacity_j
    edges = _day_edges(season)
    starts = np.minimum((edges[:-1] * SECONDS_PER_DAY / season.step_s).astype(np.intp), season.steps - 1)
    low, high = np.minimum.reduceat(pct, starts), np.maximum.reduceat(pct, starts)
    panel.stairs(high, edges, baseline=low, fill=True, color=BATTERY, alpha=0.5, label="minimum to maximum")
    for value in (battery.soc_min_pct, battery.soc_max_pct):
        panel.axhline(value, color=LIMIT, linewidth=1.0, linestyle=":")
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_tank(panel: Any, season: Season) -> None:
    days = season.step_s * np.arange(season.steps + 1) / SECONDS_PER_DAY
    if len(season.years) > 1:
        levels = np.array([year.hydrogen_kg for year in season.years])
        style = {"color": HYDROGEN, "alpha": 0.25, "linewidth": 0}
        panel.fill_between(days, levels.min(axis=0), levels.max(axis=0), label="all years", **style)
    panel.plot(days, season.hydrogen_kg, color=HYDROGEN, linewidth=1.6, label="level")
    ends = season.window_s / SECONDS_PER_DAY * np.arange(1, len(season.targets_kg) + 1)
    panel.plot(ends, season.targets_kg, ".", markersize=3.5, color="black", label="targets of windows")
    panel.axhline(season.tank_kg, color=LIMIT, linewidth=1.0, linestyle=":")
    panel.set_ylim(0.0, 1.08 * season.tank_kg)
    panel.set_ylabel("hydrogen [kg]")
    panel.legend(ncols=3, **(LEGEND | {"loc": "lower right"}))


def _mark_months(panel: Any, season: Season) -> None:
    """Label months if they are known and several, else days."""
    days = season.steps * season.step_s / SECONDS_PER_DAY
    calendar = season_calendar(season)
    panel.set_xlim(0.0, days)
    starts, names = ([], []) if calendar is None else month_starts(season, calendar)
    if len(starts) < 2:
        panel.set_xlabel("time [days]")
        return
    shown = list(zip(starts, names, strict=True))[:: -(-len(starts) // 16)]
    months = [datetime.strptime(name, "%Y-%m") for _, name in shown]
    labels = [
        f"{month:%b %Y}" if place == 0 or month.month == 1 else f"{month:%b}"
        for place, month in enumerate(months)
    ]
    panel.set_xticks([at * season.step_s / SECONDS_PER_DAY for at, _ in shown], labels, ha="left")
