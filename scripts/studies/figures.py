"""Figures in the style of the papers, in colours that the colour-blind can distinguish.

Over time: states of charge, predictions, demand and production. Of results: outcomes of jobs, distance
of the battery from its target at the end, waste, and boxes over executions.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.extras import load_optional
from beasy_sched.forecast.quantiles import PowerBand
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.planner.forecast import Forecast
from beasy_sched.plugins.reports.drawing import PALETTE

ONE_COLUMN_IN: Final = 3.5
TWO_COLUMNS_IN: Final = 7.16
"""Widths in the two-column layout of the IEEE, inches."""

BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, BLACK = PALETTE
YELLOW: Final = "#f0e442"
"""The rest of the palette of Okabe and Ito."""
GREY: Final = "#777777"

_STYLE: Final = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "lines.linewidth": 1.0,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "beasy-sched",
}
PNG_DPI: Final = 200
Figures = Iterator[tuple[str, Any]]
"""Names of figures, and the figures."""


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Draw in the style of the papers' figures. Raises ConfigError without matplotlib."""
    mpl = load_optional("matplotlib", "beasy-sched[plot]", "figures")
    with mpl.rc_context(_STYLE):
        yield


def new_figure(width_in: float, height_in: float, *grid: int, **axes: Any) -> tuple[Any, Any]:
    """Return a figure whose parts find room by themselves, and its axes (see Figure.subplots)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    return figure, figure.subplots(*grid, **axes)


def save_figure(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PDF and PNG; the same figure gives the same bytes. Raises InputError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.pdf", folder / f"{name}.png"]
    for path, metadata in zip(paths, ({"CreationDate": None}, {}), strict=True):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=path.suffix[1:], dpi=PNG_DPI, metadata=metadata)
        write_atomic(path, buffer.getvalue())
    return paths


def write_figures(figures: Figures, folder: Path) -> list[Path]:
    """Draw figures in the papers' style and write them. Raises ConfigError without matplotlib, InputError."""
    with paper_style():
        return [path for name, figure in figures for path in save_figure(figure, folder, name)]


def mark_days(panel: Any, days: float) -> None:
    """An axis of hours, marked at halves of days, of a day or two at quarters."""
    days = round(days, 1)  # the middle of the last step is not quite the end
    spacing = 12 if days > 2 else 6
    panel.set_xlim(0, 24 * days)
    panel.set_xticks([spacing * mark for mark in range(int(24 * days / spacing) + 1)])
    panel.set_xlabel("time [h]")
    panel.grid(axis="both")


@dataclass(frozen=True)
class SocCurve:
    """The battery of one run."""

    name: str
    hours: FloatArray
    soc_pct: FloatArray
    kills: Mapping[float, int] = field(default_factory=dict)
    """Number of jobs that were killed, by hour."""


def soc_figure(curves: Sequence[SocCurve], battery: BatterySpec) -> Any:
    """Compare states of charge; triangles show where jobs are killed for lack of energy."""
    figure, panel = new_figure(ONE_COLUMN_IN, 2.5)
    looks = zip((ORANGE, BLUE, GREEN), ("--", "-", "-."), ("^", "v", "s"), strict=True)
    for curve, (color, style, mark) in zip(curves, looks, strict=False):
        panel.plot(curve.hours, curve.soc_pct, color=color, linestyle=style, linewidth=1.3, label=curve.name)
        if curve.kills:
            hours = np.array(list(curve.kills))
            below = np.interp(hours, curve.hours, curve.soc_pct) - 3.5
            look = {"color": VERMILLION, "markeredgecolor": color, "markersize": 4.5}
            panel.plot(
                hours, below, mark, **look, label=f"{curve.name} kills jobs ({sum(curve.kills.values())})"
            )
    level_axis(panel, battery, max(curve.hours[-1] for curve in curves))
    figure.legend(loc="outside upper center", ncols=2, columnspacing=1.0, handlelength=1.6)
    return figure


def nine_curves_figure(
    hours: FloatArray,
    soc_pct: FloatArray,
    names: Sequence[tuple[str, str]],
    dangerous: Any,
    battery: BatterySpec,
) -> Any:
    """Draw the nine predictions (9, T): colour by production, dashes by demand; dangerous steps shaded."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, panel = new_figure(ONE_COLUMN_IN, 2.9)
    colors = {"low": VERMILLION, "median": BLUE, "high": GREEN}
    styles = {"low": "-", "median": "--", "high": ":"}
    handles: list[Any] = [Line2D([], [], color=c, label=f"{name} production") for name, c in colors.items()]
    handles += [Line2D([], [], color=BLACK, linestyle=s, label=f"{n} demand") for n, s in styles.items()]
    for curve, (demand, production) in zip(soc_pct, names, strict=True):
        panel.plot(hours, curve, color=colors[production], linestyle=styles[demand])
    if np.any(dangerous):
        panel.fill_between(hours, 0, 100, where=dangerous, step="pre", color=GREY, alpha=0.25, linewidth=0)
        handles.append(Patch(color=GREY, alpha=0.25, label="dangerous steps"))
    level_axis(panel, battery, hours[-1])
    figure.legend(handles=handles, loc="outside upper center", ncols=3, columnspacing=1.0, handlelength=1.6)
    return figure


def prediction_figure(hours: FloatArray, production: Forecast, demand: Forecast | PowerBand) -> Any:
    """Draw production and demand as predicted, one above the other, with what they may be."""
    figure, panels = new_figure(ONE_COLUMN_IN, 3.0, 2, 1, sharex=True)
    shown = ((production, BLUE, "production"), (demand, GREEN, "demand"))
    for panel, (band, color, name) in zip(panels, shown, strict=True):
        low_kw, high_kw = band.low_w / 1e3, band.high_w / 1e3
        panel.fill_between(hours, low_kw, high_kw, color=color, alpha=0.3, linewidth=0, label="uncertainty")
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
class PowerCurves:
    """Powers as forecast (W per step), and actual powers in some cases."""

    title: str
    foreseen_w: FloatArray
    came_w: Mapping[str, FloatArray]


def power_figure(hours: FloatArray, demands: Sequence[PowerCurves], production: PowerCurves) -> Any:
    """Draw demands and production without noise and with it, one above the other."""
    figure, panels = new_figure(ONE_COLUMN_IN, 1.35 * (len(demands) + 1), len(demands) + 1, 1, sharex=True)
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


def tuple_figure(hours: FloatArray, tuples: Sequence[tuple[PowerCurves, PowerCurves]]) -> Any:
    """Draw demand and production of several pairs: forecasts as lines, the range of real values as bands."""
    rows = -(-len(tuples) // 2)
    figure, panels = new_figure(TWO_COLUMNS_IN, 0.35 + rows, rows, 2, sharex=True, sharey=True, squeeze=False)
    for panel, (demand, production) in zip(panels.flat, tuples, strict=False):
        shown = ((demand, BLUE, "-", "demand"), (production, ORANGE, "--", "production"))
        for powers, color, style, name in shown:
            came_w = np.stack(list(powers.came_w.values())) / 1e3
            look = {"color": color, "alpha": 0.3, "linewidth": 0, "label": f"{name}: with noise (range)"}
            panel.fill_between(hours, came_w.min(axis=0), came_w.max(axis=0), **look)
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


def level_axis(panel: Any, battery: BatterySpec, hours: float) -> None:
    """Axes of time and of the state of charge, with the battery's limits and target."""
    for value in (battery.soc_min_pct, battery.soc_max_pct):
        panel.axhline(value, color=VERMILLION, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1)
    panel.axhline(battery.soc_target_pct, color=GREY, linestyle=(0, (1, 2)), linewidth=0.8, zorder=1)
    mark_days(panel, hours / 24.0)
    panel.set_ylim(0, 100)
    panel.set_yticks(range(0, 101, 20))
    panel.set_ylabel("state of charge [%]")


OUTCOMES: Final = (
    ("finished_pct", "finished", SKY, ""),
    ("postponed_pct", "postponed", YELLOW, "...."),
    ("reached_walltime_pct", "reached walltime", GREEN, "\\\\\\\\"),
    ("not_completely_finished_pct", "not completely finished", PURPLE, "xxxx"),
    ("killed_pct", "killed", VERMILLION, "////"),
)
"""Column, name, colour and hatch of each outcome of a job, in the order of the paper's Fig. 9."""
_HEIGHT: Final = 0.72


@dataclass(frozen=True)
class MeanBars:
    """A mean and its interval for each policy."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


def outcome_figure(
    policies: Sequence[str], outcomes: Mapping[str, FloatArray], distance: MeanBars, wasted: MeanBars
) -> Any:
    """Draw the outcomes of jobs, the battery's distance from its target at the end, and the energy wasted."""
    figure, (jobs, soc, waste) = new_figure(TWO_COLUMNS_IN, 2.35, 1, 3, sharey=True, width_ratios=[1.5, 1, 1])
    places = np.arange(len(policies))
    left = np.zeros(len(policies))
    for column, name, color, hatch in OUTCOMES:
        look = {"color": color, "hatch": hatch, "edgecolor": BLACK, "linewidth": 0.3}
        jobs.barh(places, outcomes[column], _HEIGHT, left, label=name, **look)
        left = left + outcomes[column]
    for place, share in zip(places, outcomes["finished_pct"], strict=True):
        jobs.text(1.5, place, f"{share:.1f} %", va="center", fontsize=6.5)
    jobs.set_xlim(0, 100)
    jobs.set_xlabel("share of the jobs [%]")
    _draw_bars(soc, places, distance, ORANGE, "+")
    soc.axvline(0, color=BLACK, linewidth=0.8)
    soc.set_xlabel("final SoC less target [points]")
    _draw_bars(waste, places, wasted, BLUE, "")
    waste.set_xlabel("wasted energy [kWh]")
    jobs.set_yticks(places, policies)
    jobs.invert_yaxis()
    figure.legend(
        *jobs.get_legend_handles_labels(), loc="outside upper center", ncols=len(OUTCOMES), handlelength=1.6
    )
    return figure


def _draw_bars(panel: Any, places: Any, bars: MeanBars, color: str, sign: str) -> None:
    """Bars with intervals, each labelled with its mean, next to the end of the interval.

    ``sign`` is "+" to write positive values with a plus.
    """
    panel.barh(places, bars.mean, _HEIGHT, color=color, alpha=0.75)
    errors = np.maximum([bars.mean - bars.low, bars.high - bars.mean], 0.0)
    panel.errorbar(bars.mean, places, xerr=errors, fmt="none", ecolor=BLACK, elinewidth=0.8, capsize=2)
    for place, mean, low, high in zip(places, bars.mean, bars.low, bars.high, strict=True):
        right = mean >= 0
        panel.annotate(
            f"{round(mean, 1) + 0.0:{sign}.1f}",
            (max(high, 0.0) if right else min(low, 0.0), place),
            (3 if right else -3, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=6.5,
        )
    lowest, highest = min(bars.low.min(), 0.0), max(bars.high.max(), 0.0)
    room = 0.3 * (highest - lowest or 1.0)
    panel.set_xlim(lowest - room if lowest < 0 else 0.0, highest + room if highest > 0 else 0.0)
    panel.grid(axis="x")
    panel.set_axisbelow(True)


@dataclass(frozen=True)
class BoxPanel:
    """Values of all executions (executions, policies), and what they are."""

    values: FloatArray
    label: str
    mark: float | None = None
    """Value at which a line is drawn for comparison; None for no line."""


def box_figure(policies: Sequence[str], panels: Sequence[BoxPanel]) -> Any:
    """Draw boxes over executions, one panel per measure: quartiles, whiskers of 1.5 times their distance."""
    from matplotlib.lines import Line2D

    figure, [all_axes] = new_figure(TWO_COLUMNS_IN, 2.5, 1, len(panels), sharey=True, squeeze=False)
    for axes, panel in zip(all_axes, panels, strict=True):
        drawn = axes.boxplot(
            panel.values,
            **_horizontal(axes.boxplot),
            positions=np.arange(len(policies)),
            widths=0.6,
            patch_artist=True,
            showmeans=True,
            flierprops={"marker": "o", "markersize": 2, "markeredgewidth": 0.4, "alpha": 0.6},
            meanprops={"marker": "D", "markersize": 3, "markerfacecolor": BLACK, "markeredgecolor": BLACK},
            medianprops={"color": VERMILLION, "linewidth": 1.2},
            whiskerprops={"linewidth": 0.7},
            capprops={"linewidth": 0.7},
        )
        for box in drawn["boxes"]:
            box.set(facecolor=SKY, alpha=0.8, linewidth=0.6)
        if panel.mark is not None:
            axes.axvline(panel.mark, color=GREY, linestyle="--", linewidth=0.8)
        axes.set_xlabel(panel.label)
        axes.grid(axis="x")
    all_axes[0].set_yticks(np.arange(len(policies)), policies)
    all_axes[0].invert_yaxis()
    handles = {"middle half": drawn["boxes"][0], "median": drawn["medians"][0], "mean": drawn["means"][0]}
    if any(panel.mark is not None for panel in panels):
        handles["target SoC"] = Line2D([], [], color=GREY, linestyle="--", linewidth=0.8)
    figure.legend([*handles.values()], [*handles], loc="outside upper center", ncols=len(handles))
    return figure


def _horizontal(boxplot: Any) -> dict[str, Any]:
    """Options for horizontal boxes in this matplotlib: ``vert`` is deprecated from 3.10 on."""
    known = inspect.signature(boxplot).parameters
    return {"orientation": "horizontal"} if "orientation" in known else {"vert": False}
