"""Figures over time as in the BEASY paper: states of charge, predictions, demand and production."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.report.paper_style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ONE_COLUMN_IN,
    ORANGE,
    PURPLE,
    TWO_COLUMNS_IN,
    VERMILLION,
    mark_days,
    new_figure,
)


@dataclass(frozen=True)
class Limits:
    """Of the battery, %."""

    soc_min_pct: float
    soc_max_pct: float
    soc_target_pct: float | None = None


@dataclass(frozen=True)
class SocCurve:
    """The battery of one run."""

    name: str
    hours: FloatArray
    soc_pct: FloatArray
    kills: Mapping[float, int] = field(default_factory=dict)
    """How many jobs were killed, by hour."""


def soc_figure(curves: Sequence[SocCurve], limits: Limits) -> Any:
    """Compare states of charge; triangles show where jobs are killed for lack of energy."""
    figure = new_figure(ONE_COLUMN_IN, 2.5)
    panel = figure.subplots()
    looks = zip((ORANGE, BLUE, GREEN), ("--", "-", "-."), ("^", "v", "s"), strict=True)
    for curve, (color, style, mark) in zip(curves, looks, strict=False):
        panel.plot(curve.hours, curve.soc_pct, color=color, linestyle=style, linewidth=1.3, label=curve.name)
        if curve.kills:
            hours = np.array(list(curve.kills))
            total = sum(curve.kills.values())
            below = np.interp(hours, curve.hours, curve.soc_pct) - 3.5
            name = f"{curve.name} kills jobs ({total})"
            panel.plot(
                hours, below, mark, color=VERMILLION, markeredgecolor=color, markersize=4.5, label=name
            )
    _draw_limits(panel, limits)
    last = max(curve.hours[-1] for curve in curves)
    mark_days(panel, last / 24.0)
    _level_axis(panel)
    figure.legend(loc="outside upper center", ncols=2, columnspacing=1.0, handlelength=1.6)
    return figure


def nine_curves_figure(
    hours: FloatArray, soc_pct: FloatArray, names: Sequence[tuple[str, str]], dangerous: Any, limits: Limits
) -> Any:
    """Draw the nine predictions (9, T): colour by production, dashes by demand; dangerous steps shaded."""
    figure = new_figure(ONE_COLUMN_IN, 2.9)
    panel = figure.subplots()
    colors = {"low": VERMILLION, "median": BLUE, "high": GREEN}
    styles = {"low": "-", "median": "--", "high": ":"}
    for curve, (demand, production) in zip(soc_pct, names, strict=True):
        panel.plot(hours, curve, color=colors[production], linestyle=styles[demand])
    if np.any(dangerous):
        panel.fill_between(hours, 0, 100, where=dangerous, step="pre", color=GREY, alpha=0.25, linewidth=0)
    _draw_limits(panel, limits)
    mark_days(panel, hours[-1] / 24.0)
    _level_axis(panel)
    _nine_legend(figure, colors, styles, bool(np.any(dangerous)))
    return figure


def _nine_legend(figure: Any, colors: Mapping[str, str], styles: Mapping[str, str], danger: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=color, label=f"{name} production") for name, color in colors.items()
    ]
    handles += [
        Line2D([], [], color=BLACK, linestyle=style, label=f"{name} demand") for name, style in styles.items()
    ]
    if danger:
        handles.append(Patch(color=GREY, alpha=0.25, label="dangerous steps"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, columnspacing=1.0, handlelength=1.6)


@dataclass(frozen=True)
class Band:
    """A prediction, W a step."""

    low_w: FloatArray
    value_w: FloatArray
    high_w: FloatArray


def prediction_figure(hours: FloatArray, production: Band, demand: Band) -> Any:
    """Draw production and demand as predicted, one above the other, with what they may be."""
    figure = new_figure(ONE_COLUMN_IN, 3.0)
    panels = figure.subplots(2, 1, sharex=True)
    for panel, band, color, name in zip(
        panels, (production, demand), (BLUE, GREEN), ("production", "demand"), strict=True
    ):
        panel.fill_between(
            hours,
            band.low_w / 1e3,
            band.high_w / 1e3,
            color=color,
            alpha=0.3,
            linewidth=0,
            label="uncertainty",
        )
        panel.plot(hours, band.value_w / 1e3, color=color, linewidth=0.9, label="prediction")
        panel.set_ylabel(f"{name} [kW]")
        panel.set_ylim(bottom=0)
        panel.grid()
        panel.legend(loc="upper right", ncols=2)
        panel.set_ylim(top=1.25 * band.high_w.max() / 1e3)
    mark_days(panels[-1], hours[-1] / 24.0)
    figure.align_ylabels()
    return figure


@dataclass(frozen=True)
class Powers:
    """What was foreseen (W a step), and what came in some cases."""

    title: str
    foreseen_w: FloatArray
    came_w: Mapping[str, FloatArray]


def power_figure(hours: FloatArray, demands: Sequence[Powers], production: Powers) -> Any:
    """Draw demands and production without noise and with it, one above the other."""
    figure = new_figure(ONE_COLUMN_IN, 1.35 * (len(demands) + 1))
    panels = figure.subplots(len(demands) + 1, 1, sharex=True)
    for panel, powers in zip(panels, [*demands, production], strict=True):
        panel.plot(hours, powers.foreseen_w / 1e3, color=BLACK, linewidth=1.1, label="without noise")
        for (name, came_w), color, style in zip(
            powers.came_w.items(), (ORANGE, BLUE, PURPLE), ("-", "--", ":"), strict=False
        ):
            panel.plot(hours, came_w / 1e3, color=color, linestyle=style, linewidth=0.9, label=name)
        panel.set_title(powers.title, loc="left")
        panel.set_ylabel("power [kW]")
        panel.set_ylim(0, 1.3 * max(np.max(w) for w in (powers.foreseen_w, *powers.came_w.values())) / 1e3)
        panel.grid()
        panel.legend(loc="upper right", ncols=3, handlelength=1.6, columnspacing=1.0)
    mark_days(panels[-1], hours[-1] / 24.0)
    figure.align_ylabels()
    return figure


def tuple_figure(hours: FloatArray, tuples: Sequence[tuple[Powers, Powers]]) -> Any:
    """Draw demand and production of several pairs: foreseen as lines, the range of what came as bands."""
    columns = 2
    rows = -(-len(tuples) // columns)
    figure = new_figure(TWO_COLUMNS_IN, 0.35 + 1.0 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for panel, (demand, production) in zip(panels.flat, tuples, strict=False):
        for powers, color, style, name in (
            (demand, BLUE, "-", "demand"),
            (production, ORANGE, "--", "production"),
        ):
            came_w = np.stack(list(powers.came_w.values())) / 1e3
            panel.fill_between(
                hours, came_w.min(axis=0), came_w.max(axis=0), color=color, alpha=0.3, linewidth=0,
                label=f"{name}: with noise (range)",
            )  # fmt: skip
            panel.plot(hours, powers.foreseen_w / 1e3, color=color, linestyle=style, label=f"{name}: without")
        panel.set_title(demand.title, loc="left", pad=2)
        panel.grid()
    for row in panels:
        row[0].set_ylabel("power [kW]")
    for unused in panels.flat[len(tuples) :]:
        unused.set_visible(False)
    for panel in panels[-1]:
        mark_days(panel, hours[-1] / 24.0)
    panels[0, 0].set_ylim(bottom=0)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _draw_limits(panel: Any, limits: Limits) -> None:
    for value in (limits.soc_min_pct, limits.soc_max_pct):
        panel.axhline(value, color=VERMILLION, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1)
    if limits.soc_target_pct is not None:
        panel.axhline(limits.soc_target_pct, color=GREY, linestyle=(0, (1, 2)), linewidth=0.8, zorder=1)


def _level_axis(panel: Any) -> None:
    panel.set_ylim(0, 100)
    panel.set_yticks(range(0, 101, 20))
    panel.set_ylabel("state of charge [%]")
