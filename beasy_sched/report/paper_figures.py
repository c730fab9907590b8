"""Figures of results as in the BEASY paper: outcomes, distance, waste; boxes over executions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.report.paper_style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    TWO_COLUMNS_IN,
    VERMILLION,
    YELLOW,
    new_figure,
)

OUTCOMES: Final = (
    ("finished_pct", "finished", SKY, ""),
    ("postponed_pct", "postponed", YELLOW, "...."),
    ("reached_walltime_pct", "reached walltime", GREEN, "\\\\\\\\"),
    ("not_completely_finished_pct", "not completely finished", PURPLE, "xxxx"),
    ("killed_pct", "killed", VERMILLION, "////"),
)
"""Column, name, colour and hatch of what may become of a job, in the order of the paper's Fig. 9."""
_HEIGHT: Final = 0.72


@dataclass(frozen=True)
class Bars:
    """A mean and its interval for each policy."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


def outcome_figure(
    policies: Sequence[str], outcomes: Mapping[str, FloatArray], distance: Bars, wasted: Bars
) -> Any:
    """Draw what became of the jobs, how far the battery ends from its target, and the energy wasted."""
    figure = new_figure(TWO_COLUMNS_IN, 2.35)
    jobs, soc, waste = figure.subplots(1, 3, sharey=True, width_ratios=[1.5, 1, 1])
    places = np.arange(len(policies))
    _draw_outcomes(jobs, places, outcomes)
    _draw_bars(soc, places, distance, ORANGE, "{:+.1f}")
    soc.axvline(0, color=BLACK, linewidth=0.8)
    soc.set_xlabel("final SoC less target [points]")
    _draw_bars(waste, places, wasted, BLUE, "{:.1f}")
    waste.set_xlabel("wasted energy [kWh]")
    jobs.set_yticks(places, policies)
    jobs.invert_yaxis()
    figure.legend(
        *jobs.get_legend_handles_labels(), loc="outside upper center", ncols=len(OUTCOMES), handlelength=1.6
    )
    return figure


def _draw_outcomes(panel: Any, places: Any, outcomes: Mapping[str, FloatArray]) -> None:
    left = np.zeros(len(places))
    for column, name, color, hatch in OUTCOMES:
        panel.barh(
            places,
            outcomes[column],
            _HEIGHT,
            left,
            color=color,
            hatch=hatch,
            label=name,
            edgecolor=BLACK,
            linewidth=0.3,
        )
        left = left + outcomes[column]
    for place, share in zip(places, outcomes["finished_pct"], strict=True):
        panel.text(1.5, place, f"{share:.1f} %", va="center", fontsize=6.5)
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of the jobs [%]")


def _draw_bars(panel: Any, places: Any, bars: Bars, color: str, form: str) -> None:
    """Bars with intervals, each labelled with its mean, beside the end of the interval."""
    panel.barh(places, bars.mean, _HEIGHT, color=color, alpha=0.75)
    errors = np.maximum([bars.mean - bars.low, bars.high - bars.mean], 0.0)
    panel.errorbar(bars.mean, places, xerr=errors, fmt="none", ecolor=BLACK, elinewidth=0.8, capsize=2)
    for place, mean, low, high in zip(places, bars.mean, bars.low, bars.high, strict=True):
        right = mean >= 0
        panel.annotate(
            form.format(mean),
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
    """Where to draw a line for comparison."""


def box_figure(policies: Sequence[str], panels: Sequence[BoxPanel]) -> Any:
    """Draw boxes over executions, a panel a measure: quartiles, whiskers of 1.5 times their distance."""
    figure = new_figure(TWO_COLUMNS_IN, 2.5)
    all_axes = figure.subplots(1, len(panels), sharey=True)
    for axes, panel in zip(np.atleast_1d(all_axes), panels, strict=True):
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
    first = np.atleast_1d(all_axes)[0]
    first.set_yticks(np.arange(len(policies)), policies)
    first.invert_yaxis()
    _box_legend(figure, drawn, any(panel.mark is not None for panel in panels))
    return figure


def _horizontal(boxplot: Any) -> dict[str, Any]:
    """How this matplotlib is told to lay boxes flat: ``vert`` is on its way out from 3.10 on."""
    known = inspect.signature(boxplot).parameters
    return {"orientation": "horizontal"} if "orientation" in known else {"vert": False}


def _box_legend(figure: Any, drawn: Mapping[str, Any], marked: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [drawn["boxes"][0], drawn["medians"][0], drawn["means"][0]]
    names = ["middle half", "median", "mean"]
    if marked:
        handles.append(Line2D([], [], color=GREY, linestyle="--", linewidth=0.8))
        names.append("target SoC")
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))
