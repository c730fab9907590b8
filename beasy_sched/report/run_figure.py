"""A run as one picture: the levels of its storages, production and demand, servers by state."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.report.charts import BATTERY_LIMITS, StepCurve, levels, powers, step_edges_s
from beasy_sched.report.drawing import PALETTE, for_notebooks, new_figure
from beasy_sched.report.plan_figure import BATTERY, DEMAND, HYDROGEN, LIMIT, PRODUCTION, mark_hours
from beasy_sched.report.run_data import RunData, read_run_data
from beasy_sched.units import SECONDS_PER_HOUR

_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _YELLOW, _BLACK = PALETTE
_POWERS: Final = {
    "renewable_w": ("production", PRODUCTION),
    "demand_w": ("demand of the servers", DEMAND),
    "grid_import_w": ("grid import", _PURPLE),
    "unserved_w": ("unserved", _ORANGE),
}
"""Curves of the second panel: columns of the energy trace, with name and colour."""
_STATES: Final = {
    "computing": (("nb_computing",), _BLUE),
    "idle": (("nb_idle",), _SKY),
    "switching": (("nb_switching_on", "nb_switching_off"), _YELLOW),
    "sleeping": (("nb_sleeping",), "#cccccc"),
}
"""Layers of the third panel, from below: columns of the machine states, and colour."""
_MOST_POINTS: Final = 2000


def draw_run(prefix: str, *, width: float = 11.0) -> Any:
    """Return a matplotlib figure of the run whose files begin with ``prefix``, ``width`` inches wide.

    Without an energy trace it has the servers alone; without a tank, no hydrogen. Raises ConfigError where
    matplotlib or pandas is missing, and InputError for files that cannot be read, or where none can be drawn.
    """
    run = read_run_data(Path(prefix).name, prefix)
    rows = []
    if run.trace is not None and len(run.trace):
        if run.has_battery:
            rows.append((_draw_charge, 1.2))
        if "hydrogen_final_kg" in run.site:
            rows.append((_draw_hydrogen, 0.8))
        rows.append((_draw_powers, 1.4))
    if run.states is not None and len(run.states):
        rows.append((_draw_servers, 1.2))
    if not rows:
        raise InputError(prefix, "has neither an energy_trace.csv nor a machine_states.csv to draw")
    figure = new_figure(".png", (width, 0.8 + 1.7 * len(rows)))
    axes = figure.subplots(
        len(rows), 1, sharex=True, squeeze=False, height_ratios=[height for _, height in rows]
    )[:, 0]
    for (draw, _), panel in zip(rows, axes, strict=True):
        draw(panel, run)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(_title(run), fontsize=11, loc="left")
    mark_hours(axes[-1], 0.0, max(run.end_s, 1.0) / SECONDS_PER_HOUR)
    return for_notebooks(figure)


def _title(run: RunData) -> str:
    policy = run.summary["settings"]["policy"] if run.summary else run.name
    start = run.site.get("start")
    return f"{policy}, from {start}" if start else str(policy)


def _draw_charge(panel: Any, run: RunData) -> None:
    _draw_level(panel, *levels(run.trace, "soc_pct", run.site.get("soc_start_pct")), BATTERY)
    for label, field in BATTERY_LIMITS.items():
        if field in run.site:
            panel.axhline(run.site[field], color=LIMIT, linewidth=1.0, linestyle=":")
            panel.annotate(label, (1.0, run.site[field]), (3, 0), xycoords=("axes fraction", "data"),
                           textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    panel.set_ylim(0.0, 100.0)
    panel.set_ylabel("battery [%]")


def _draw_hydrogen(panel: Any, run: RunData) -> None:
    _draw_level(panel, *levels(run.trace, "hydrogen_kg"), HYDROGEN)
    panel.set_ylim(bottom=0.0)
    panel.set_ylabel("hydrogen [kg]")


def _draw_level(panel: Any, times_s: FloatArray, level: FloatArray, color: str) -> None:
    hours = times_s / SECONDS_PER_HOUR
    panel.plot(hours, level, color=color, linewidth=1.6)
    panel.fill_between(hours, level, color=color, alpha=0.15, linewidth=0)


def _draw_powers(panel: Any, run: RunData) -> None:
    shown = [name for name in _POWERS if name in run.trace.columns]
    shown = [name for name in shown if name in ("renewable_w", "demand_w") or run.trace[name].any()]
    curve = powers(run.trace, shown)
    edges_h = np.append(curve.times_s, step_edges_s(run.trace)[-1]) / SECONDS_PER_HOUR
    for name, values_w in zip(shown, curve.values.T, strict=True):
        label, color = _POWERS[name]
        filled = name == "renewable_w"
        style = {"fill": True, "alpha": 0.5} if filled else {"baseline": None, "linewidth": 1.2}
        panel.stairs(values_w / 1e3, edges_h, color=color, label=label, **style)
    panel.set_ylim(bottom=0.0)
    panel.set_ylabel("power [kW]")
    panel.legend(loc="upper right", ncols=len(shown), fontsize=8, framealpha=0.9)


def _draw_servers(panel: Any, run: RunData) -> None:
    frame = run.states
    times_s = frame["time"].to_numpy(np.float64)
    last = np.diff(times_s, append=np.inf) > 0  # of several rows of one time, the last one counts
    layers = [frame[[*columns]].sum(axis=1).to_numpy(np.float64) for columns, _ in _STATES.values()]
    curve = StepCurve(times_s[last], np.stack(layers, axis=1)[last]).thinned(run.end_s, _MOST_POINTS)
    edges_h = np.append(curve.times_s, max(run.end_s, float(curve.times_s[-1]))) / SECONDS_PER_HOUR
    base = np.zeros(len(curve.times_s))
    for (label, (_, color)), values in zip(_STATES.items(), curve.values.T, strict=True):
        if values.any():
            panel.stairs(base + values, edges_h, baseline=base, fill=True, color=color, label=label)
        base = base + values
    panel.set_ylim(0.0, 1.25 * base.max())
    panel.set_ylabel(f"servers\nof {base.max():,.0f}")
    panel.legend(loc="upper right", ncols=len(_STATES), fontsize=8, framealpha=0.9)
