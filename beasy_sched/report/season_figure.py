"""A coarse plan as a picture: energies of each day, and what battery and tank hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.outputs.season_table import month_starts, season_calendar
from beasy_sched.plan.season import Season
from beasy_sched.report.drawing import figure_bytes, new_figure
from beasy_sched.report.plan_figure import BATTERY, DEMAND, HYDROGEN, LIMIT, PRODUCTION
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNMET, _CURTAILED = "#d55e00", "#56b4e9"


def draw_season(season: Season, suffix: str = ".png") -> bytes:
    """Draw the whole horizon by day. Returns the file's bytes.

    The same plan gives the same bytes with the same matplotlib. Raises ConfigError for a format that is
    not png, svg or pdf, and where matplotlib is not installed.
    """
    rows = [(_draw_energies, 1.6), (_draw_losses, 1.0)]
    if season.storage.battery.exists:
        rows.append((_draw_battery, 1.0))
    rows.append((_draw_tank, 1.4))
    figure = new_figure(suffix, (12.0, 1.2 + 1.9 * len(rows)))
    axes = figure.subplots(len(rows), 1, sharex=True, height_ratios=[height for _, height in rows])
    for (draw, _), panel in zip(rows, axes, strict=True):
        draw(panel, season)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(_title(season), fontsize=11, loc="left")
    _mark_months(axes[-1], season)
    return figure_bytes(figure, suffix)


def _title(season: Season) -> str:
    demand_w, unmet_w = season.load_w + season.base_w, season.mean("unmet_w")
    share = float(unmet_w.sum() / demand_w.sum()) if demand_w.any() else 0.0
    met = "the whole demand is met" if share < 5e-5 else f"{100 * share:.1f} % of the demand is not met"
    years = "" if len(season.years) == 1 else f" (mean of {len(season.years)} years)"
    return f"Plan of the season: {met}{years}"


def _day_edges(season: Season) -> FloatArray:
    """Edges of the days, in days; the last day may be shorter."""
    days = season.steps * season.step_s / SECONDS_PER_DAY
    return np.append(np.arange(0.0, days - 1e-9), days)


def _by_day(season: Season, power_w: FloatArray) -> FloatArray:
    """Energy of each day, kWh: of parts of a step where steps do not fill the days."""
    upto_j = np.concatenate(([0.0], np.cumsum(power_w))) * season.step_s
    edges_s = _day_edges(season) * SECONDS_PER_DAY
    return np.diff(np.interp(edges_s, season.step_s * np.arange(season.steps + 1), upto_j)) / JOULES_PER_KWH


def _draw_energies(panel: Any, season: Season) -> None:
    edges = _day_edges(season)
    produced, demand = _by_day(season, season.mean("renew_w")), _by_day(season, season.load_w + season.base_w)
    panel.stairs(produced, edges, color=PRODUCTION, fill=True, alpha=0.35, label="production (sun, wind)")
    panel.stairs(demand, edges, color=DEMAND, linewidth=1.0, label="demand", baseline=None)
    panel.set_ylabel("kWh a day")
    panel.set_ylim(bottom=0.0)
    panel.legend(loc="upper right", ncols=2, fontsize=8, framealpha=0.9)


def _draw_losses(panel: Any, season: Season) -> None:
    edges = _day_edges(season)
    for name, color, label in (
        ("curtailed_w", _CURTAILED, "curtailed"),
        ("unmet_w", _UNMET, "demand not met"),
    ):
        values = _by_day(season, season.mean(name))
        panel.stairs(values, edges, color=color, fill=True, alpha=0.7, label=label)
    panel.set_ylabel("kWh a day")
    panel.set_ylim(bottom=0.0)
    panel.legend(loc="upper right", ncols=2, fontsize=8, framealpha=0.9)


def _draw_battery(panel: Any, season: Season) -> None:
    battery = season.storage.battery
    pct = 100.0 * season.mean("battery_j") / battery.capacity_j
    edges = _day_edges(season)
    starts = np.minimum((edges[:-1] * SECONDS_PER_DAY / season.step_s).astype(np.intp), season.steps - 1)
    low, high = np.minimum.reduceat(pct, starts), np.maximum.reduceat(pct, starts)
    panel.stairs(high, edges, baseline=low, fill=True, color=BATTERY, alpha=0.5, label="from least to most")
    for value in (battery.soc_min_pct, battery.soc_max_pct):
        panel.axhline(value, color=LIMIT, linewidth=1.0, linestyle=":")
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_tank(panel: Any, season: Season) -> None:
    days = season.step_s * np.arange(season.steps + 1) / SECONDS_PER_DAY
    if len(season.years) > 1:
        levels = np.array([year.hydrogen_kg for year in season.years])
        panel.fill_between(
            days,
            levels.min(axis=0),
            levels.max(axis=0),
            color=HYDROGEN,
            alpha=0.25,
            linewidth=0,
            label="all years",
        )
    panel.plot(days, season.hydrogen_kg, color=HYDROGEN, linewidth=1.6, label="level")
    ends = season.window_s / SECONDS_PER_DAY * np.arange(1, len(season.targets_kg) + 1)
    panel.plot(
        ends,
        season.targets_kg,
        linestyle="none",
        marker=".",
        markersize=3.5,
        color="black",
        label="targets of windows",
    )
    panel.axhline(season.tank_kg, color=LIMIT, linewidth=1.0, linestyle=":")
    panel.set_ylim(0.0, 1.08 * season.tank_kg)
    panel.set_ylabel("hydrogen [kg]")
    panel.legend(loc="lower right", ncols=3, fontsize=8, framealpha=0.9)


def _mark_months(panel: Any, season: Season) -> None:
    """Mark the months where they are known, days elsewhere."""
    days = season.steps * season.step_s / SECONDS_PER_DAY
    calendar = season_calendar(season)
    panel.set_xlim(0.0, days)
    if calendar is None:
        panel.set_xlabel("time [days]")
        return
    starts, names = month_starts(season, calendar)
    shown = list(zip(starts, names, strict=True))[:: -(-len(starts) // 16)]
    labels = []
    for number, (_, name) in enumerate(shown):
        year, _, month = name.partition("-")
        with_year = number == 0 or month == "01"
        labels.append(f"{_MONTHS[int(month) - 1]} {year}" if with_year else _MONTHS[int(month) - 1])
    panel.set_xticks([at * season.step_s / SECONDS_PER_DAY for at, _ in shown], labels, ha="left")
