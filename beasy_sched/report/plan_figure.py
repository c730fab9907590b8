"""A plan as a picture: powers with their bands, what the storages do, their levels, servers on."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray
from beasy_sched.plan.plan import Plan, PlanStore
from beasy_sched.report.drawing import figure_bytes, new_figure

PRODUCTION, DEMAND, _ENVELOPE = "#e69f00", "#0072b2", "#111111"
BATTERY, HYDROGEN, _SERVERS, LIMIT = "#009e73", "#cc79a7", "#56719a", "#888888"
_GRID = "#8c5a2b"


def draw_plan(plans: PlanStore, suffix: str = ".png") -> bytes:
    """Draw all windows on one axis of time. Returns the file's bytes.

    The same plan gives the same bytes with the same matplotlib. Raises ConfigError for a format that is
    not png, svg or pdf, and where matplotlib is not installed.
    """
    return figure_bytes(plan_figure(plans, suffix), suffix)


def plan_figure(plans: PlanStore, suffix: str = ".png") -> Any:
    """Return the matplotlib figure that `draw_plan` makes a file of; raises the same."""
    rows = [(_draw_powers, 2.0), (_draw_flows, 1.2)]  # with their relative heights
    if plans[0].storage.battery.exists:
        rows.append((_draw_soc, 1.2))
    if plans[0].storage.hydrogen is not None:
        rows.append((_draw_hydrogen, 1.0))
    if plans[0].servers is not None:
        rows.append((_draw_servers, 1.2))
    width = 11.0 * min(2.0, 0.75 + 0.25 * len(plans))
    figure = new_figure(suffix, (width, 2.2 + 1.9 * len(rows)))
    axes = figure.subplots(len(rows), 1, sharex=True, height_ratios=[height for _, height in rows])
    for (draw, _), panel in zip(rows, axes, strict=True):
        draw(panel, plans)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        for plan in list(plans)[1:]:
            panel.axvline(plan.start_s / 3600.0, color=LIMIT, linewidth=1.0, linestyle="--")
    axes[0].set_title(_title(plans), fontsize=11, loc="left")
    mark_hours(axes[-1], plans.start_s / 3600.0, plans.end_s / 3600.0)
    return figure


def _title(plans: PlanStore) -> str:
    factors = [plan.power.relax_factor for plan in plans]
    if max(factors) < 5e-5:
        return "Offline plan: the whole demand is met (rf = 0)"
    shown = ", ".join(f"{100 * factor:.1f} %" for factor in factors)
    where = "" if len(factors) == 1 else ", by window"
    return f"Offline plan: up to {shown} of a step's demand is not met (relax factor rf{where})"


def _draw_powers(panel: Any, plans: PlanStore) -> None:
    thinner = min(1.0, max(0.4, 1000.0 / sum(plan.steps for plan in plans)))
    wide, thin = 2.6 * thinner, 1.2 * thinner
    for window, plan in enumerate(plans):
        hide = "_" if window else ""  # matplotlib leaves such labels out: one window's are enough
        hours, power, envelope_kw = _hours(plan), plan.power, plan.power.envelope_w / 1e3
        name = f"{hide}envelope of the servers"
        panel.stairs(envelope_kw, hours, color=_ENVELOPE, linewidth=wide, label=name, baseline=None)
        for band, color, name in (
            (plan.production, PRODUCTION, f"{hide}production (sun, wind) and its band"),
            (plan.demand, DEMAND, f"{hide}demand and its band"),
        ):
            low_kw, high_kw = band.low_w / 1e3, band.high_w / 1e3
            panel.stairs(high_kw, hours, baseline=low_kw, fill=True, color=color, alpha=0.2)
            panel.stairs(band.value_w / 1e3, hours, color=color, linewidth=thin, label=name, baseline=None)
        unmet = power.load_w - power.envelope_w > 1e-3 * power.scale_w
        if unmet.any():
            panel.fill_between(
                hours[:-1], power.load_w / 1e3, envelope_kw, where=unmet, step="post",
                color="#d55e00", alpha=0.5, linewidth=0, label=f"{hide}demand not met",
            )  # fmt: skip
    panel.set_ylabel("power [kW]")
    panel.set_ylim(bottom=0.0)
    panel.legend(loc="upper right", ncols=2, fontsize=8, framealpha=0.9)


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
    panel.legend(loc="upper right", ncols=2, fontsize=8, framealpha=0.9)


def _draw_soc(panel: Any, plans: PlanStore) -> None:
    battery = plans[0].storage.battery
    for plan in plans:
        _draw_level(panel, _hours(plan), plan.soc_pct, BATTERY)
    for value, name in ((battery.soc_min_pct, "min"), (battery.soc_max_pct, "max")):
        panel.axhline(value, color="#d55e00", linewidth=1.0, linestyle=":")
        _annotate(panel, name, plans.end_s / 3600.0, value, 3)
    _mark_target(panel, plans, battery.soc_target_pct)
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_hydrogen(panel: Any, plans: PlanStore) -> None:
    tank: Any = plans[len(plans) - 1].storage.hydrogen  # there is one: `draw_plan` has looked
    for plan in plans:
        _draw_level(panel, _hours(plan), plan.power.hydrogen_kg, HYDROGEN)
    _mark_target(panel, plans, tank.level_target_kg)
    panel.set_ylim(0.0, tank.tank_kg)
    panel.set_ylabel("hydrogen [kg]")


def _draw_level(panel: Any, hours: FloatArray, level: FloatArray, color: str) -> None:
    panel.plot(hours, level, color=color, linewidth=1.6)
    panel.fill_between(hours, level, color=color, alpha=0.15, linewidth=0)


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
    panel.set_ylabel(f"servers on\nof {count:,}")


def mark_hours(panel: Any, first_h: float, last_h: float) -> None:
    """Hours from the start of the run, marked at parts of days."""
    span = last_h - first_h
    spacing = next((s for s in (1, 2, 6, 12, 24, 48, 168) if span / s <= 16), span / 8)
    panel.set_xticks(np.arange(first_h, last_h + 1e-6, spacing))
    panel.set_xlim(first_h, last_h)
    panel.set_xlabel("time [h]")


def _hours(plan: Plan) -> FloatArray:
    """The edges of the plan's steps."""
    return np.asarray(plan.start_s + plan.step_s * np.arange(plan.steps + 1), dtype=np.float64) / 3600.0
