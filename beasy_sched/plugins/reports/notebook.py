"""Display of runs in a notebook: a card with the main figures, and the run as one figure."""

from __future__ import annotations

from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.errors import InputError
from beasy_sched.formats.run_summary import BatteryLevels, read_summary
from beasy_sched.outputs.tables import Row, main_rows
from beasy_sched.planner.plan import PlanStore
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
from beasy_sched.plugins.reports.energy_charts import BATTERY_LIMITS, other_kinds, target_band
from beasy_sched.plugins.reports.plan_figures import plan_figure
from beasy_sched.plugins.reports.run_data import (
    RunData,
    last_of_each_time,
    levels,
    powers,
    read_run_data,
)
from beasy_sched.run.results import read_trace
from beasy_sched.units import SECONDS_PER_HOUR

_WIDTH: Final = 320
_HEIGHT: Final = 56
_MOST_PIECES: Final = 160
"""Pieces of a sparkline, each with its minimum and maximum."""


def run_card(prefix: str) -> str:
    """Return the HTML for a run, without style sheet or script, in colours for light and dark pages.

    Without an energy trace it has no sparkline. Raises InputError for a file that cannot be read.
    """
    summary = read_summary(prefix)
    rows = table_of_rows(main_rows(summary), caption=prefix)
    levels_pct = [row["soc_pct"] for row in read_trace(prefix) if "soc_pct" in row]
    if len(levels_pct) < 2:
        return rows
    legend = (
        '<div style="font-size:smaller">State of charge, 0 to 100 %; dashed: target, dotted: minimum</div>'
    )
    return (
        rows
        + sparkline(np.array(levels_pct), None if summary.site is None else summary.site.battery)
        + legend
    )


def table_of_rows(rows: list[Row], caption: str) -> str:
    """Return an HTML table of names and values."""
    body = "".join(
        f'<tr><th style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:right">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table><caption style="text-align:left">{escape(caption)}</caption><tbody>{body}</tbody></table>'


def sparkline(levels_pct: FloatArray, battery: BatteryLevels | None) -> str:
    """Return an SVG of a state of charge (%) over time, with lines at its minimum and its target."""
    times, values = _thinned(levels_pct)
    xs = times * (_WIDTH / (len(levels_pct) - 1))
    points = " ".join(
        f"{x:.1f},{_y(value):.1f}" for x, value in zip(xs.tolist(), values.tolist(), strict=True)
    )
    marks: list[tuple[float, str, str]] = []
    if battery is not None:
        marks = [(battery.soc_min_pct, "minimum", "2 3"), (battery.soc_target_pct, "target", "7 3")]
    band = target_band(battery)
    lines = [] if band is None else [_band(*band)]
    lines += [
        f'<line x1="0" x2="{_WIDTH}" y1="{_y(pct):.1f}" y2="{_y(pct):.1f}" stroke="{LIMIT}"'
        f' stroke-dasharray="{dashes}"><title>{label}: {pct:g} %</title></line>'
        for pct, label, dashes in marks
    ]
    summary = f"State of charge over time: lowest {levels_pct.min():.1f} %, final {levels_pct[-1]:.1f} %"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{summary}"><title>{summary}</title>{"".join(lines)}'
        f'<polyline points="{points}" fill="none" stroke="{BATTERY}" stroke-width="1.5"/></svg>'
    )


def _band(low_pct: float, high_pct: float) -> str:
    """Return a grey area between two states of charge (%)."""
    height = _y(low_pct) - _y(high_pct)
    return (
        f'<rect x="0" width="{_WIDTH}" y="{_y(high_pct):.1f}" height="{height:.1f}" fill="{LIMIT}"'
        f' fill-opacity="0.15"><title>on target: {low_pct:g} to {high_pct:g} %</title></rect>'
    )


def _y(level_pct: float) -> float:
    return 2.0 + (_HEIGHT - 4.0) * (1.0 - level_pct / 100.0)


def _thinned(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positions and values; if there are many, the minimum and maximum of each piece in order."""
    places = np.arange(len(values))
    if len(values) > 2 * _MOST_PIECES:
        pieces = np.array_split(places, _MOST_PIECES)
        chosen = {0, len(values) - 1}
        for piece in pieces:
            chosen |= {int(piece[values[piece].argmin()]), int(piece[values[piece].argmax()])}
        places = np.array(sorted(chosen))
    return places.astype(np.float64), values[places]


def draw_plan_shown(plans: PlanStore) -> Any:
    """Return the matplotlib figure of a plan. Raises ConfigError if matplotlib is missing."""
    return for_notebooks(plan_figure(plans))


def for_notebooks(figure: Any) -> Any:
    """Return the figure, prepared so that a notebook shows it as a cell's result.

    Notebooks show figures automatically only if pyplot, which keeps figures until the program ends, was
    imported before.
    """
    figure._repr_png_ = lambda: figure_bytes(figure, ".png")
    return figure


_POWERS: Final = {
    "renewable_w": ("production", PRODUCTION),
    "demand_w": ("demand of the servers", DEMAND),
    "grid_import_w": ("grid import", OKABE_ITO["purple"]),
    "unserved_w": ("unserved", SHORTAGE),
}
"""Curves of the second panel: columns of the energy trace, with name and colour."""
_STATES: Final = {
    "computing": (("nb_computing",), OKABE_ITO["blue"]),
    "idle": (("nb_idle",), OKABE_ITO["sky"]),
    "switching": (("nb_switching_on", "nb_switching_off"), OKABE_ITO["orange"]),
    "sleeping": (("nb_sleeping",), "#cccccc"),
}
"""Layers of the third panel, from below: columns of the machine states, and colour."""


def draw_run(prefix: str, *, width: float = 11.0) -> Any:
    """Return a matplotlib figure of the run whose files begin with ``prefix``, ``width`` inches wide.

    It has a panel for each storage device; without an energy trace, it shows only the servers. Raises
    ConfigError if matplotlib or pyarrow is missing, and InputError for files that cannot be read, or if there
    is nothing to draw.
    """
    run = read_run_data(Path(prefix).name, prefix)
    draws: list[tuple[Any, float]] = []
    if len(run.trace):
        if run.has_battery:
            draws.append((_draw_charge, 1.2))
        tank: list[type[Device]] = [] if run.hydrogen is None else [HydrogenSpec]
        draws += [(partial(_draw_level_of, kind), 0.8) for kind in (*tank, *other_kinds(run.trace))]
        draws.append((_draw_powers, 1.4))
    if len(run.states):
        draws.append((_draw_servers, 1.2))
    if not draws:
        raise InputError(prefix, "found neither energy_trace.csv nor machine_states.csv to draw")
    figure, panels = stacked_panels(".png", (width, 0.8, 1.7), draws, run, _title(run))
    mark_hours(panels[-1], 0.0, max(run.end_s, 1.0) / SECONDS_PER_HOUR)
    return for_notebooks(figure)


def _title(run: RunData) -> str:
    policy = run.name if run.summary is None else run.summary.settings.policy
    start = run.site and run.site.start
    return f"{policy}, from {start}" if start else policy


def _draw_charge(panel: Any, run: RunData) -> None:
    times_s, soc_pct = levels(run.trace, "soc_pct", run.soc_start_pct)
    draw_level(panel, times_s / SECONDS_PER_HOUR, soc_pct, BATTERY)
    if (band := target_band(run.battery)) is not None:
        panel.axhspan(*band, color="grey", alpha=0.15, linewidth=0.0)
    for label, field in BATTERY_LIMITS.items():
        if run.battery is not None:
            level_pct = getattr(run.battery, field)
            panel.axhline(level_pct, color=LIMIT, linewidth=1.0, linestyle=":")
            panel.annotate(label, (1.0, level_pct), (3, 0), xycoords=("axes fraction", "data"),
                           textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_level_of(kind: type[Device], panel: Any, run: RunData) -> None:
    """Draw the level of a device other than the battery."""
    times_s, level = levels(run.trace, kind.columns.level)
    draw_level(panel, times_s / SECONDS_PER_HOUR, level, HYDROGEN if kind is HydrogenSpec else BATTERY)
    panel.set_ylim(bottom=0.0)
    panel.set_ylabel(f"{kind.title} [{kind.level_unit()}]")


def _draw_powers(panel: Any, run: RunData) -> None:
    shown = [name for name in _POWERS if name in run.trace]
    shown = [name for name in shown if name in ("renewable_w", "demand_w") or run.trace[name].any()]
    curve = powers(run.trace, shown)
    edges_h = curve.edges_s / SECONDS_PER_HOUR
    for name, values_w in zip(shown, curve.values.T, strict=True):
        label, color = _POWERS[name]
        filled = name == "renewable_w"
        style = {"fill": True, "alpha": 0.5} if filled else {"baseline": None, "linewidth": 1.2}
        panel.stairs(values_w / 1e3, edges_h, color=color, label=label, **style)
    panel.set_ylim(bottom=0.0)
    panel.set_ylabel("power [kW]")
    panel.legend(ncols=len(shown), **LEGEND)


def _draw_servers(panel: Any, run: RunData) -> None:
    layers = [run.states.side_by_side(columns).sum(axis=1) for columns, _ in _STATES.values()]
    curve = last_of_each_time(run.states["time"], np.stack(layers, axis=1), run.end_s).thinned()
    edges_h = curve.edges_s / SECONDS_PER_HOUR
    base = np.zeros(len(curve.values))
    for (label, (_, color)), values in zip(_STATES.items(), curve.values.T, strict=True):
        if values.any():
            panel.stairs(base + values, edges_h, baseline=base, fill=True, color=color, label=label)
        base = base + values
    panel.set_ylim(0.0, 1.25 * base.max())
    panel.set_ylabel(f"servers\nof {base.max():,.0f}")
    panel.legend(ncols=len(_STATES), **LEGEND)
