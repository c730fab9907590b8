"""Figures 5 to 15 of GreenSlot's paper from our runs: energy over the week, and gains by week."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from beasy_sched.arrays import FloatArray
from beasy_sched.generate.greenslot_week import ACTUAL_W, PREDICTED_W, paper_workloads
from studies.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ONE_COLUMN_IN,
    ORANGE,
    SKY,
    TWO_COLUMNS_IN,
    VERMILLION,
    Figures,
    new_figure,
)
from studies.greenslot.cases import GREEN_ONLY, VAR_PRICES, Case
from studies.greenslot.inputs import AVERAGE, HOURS, SunWeek
from studies.greenslot.results import READ_OFF, READ_OFF_BARS, GreenResults

_BROWN: Final = "#8c6239"
_START_HOUR: Final = 9
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri")
_ONE_DAY: Final = slice(15, 39)
"""The hours of Tuesday."""


def greenslot_figures(results: GreenResults, weeks: Iterable[SunWeek] = ()) -> Figures:
    """Yield the figures whose runs exist; of ``weeks``, those with prices from a file."""
    yield "figure-05", _day_figure()
    for number, (case, *_) in READ_OFF.items():
        if case in results.runs:
            yield f"figure-{int(number):02}", week_figure(results, case)
    for number, case in (("08", GREEN_ONLY), ("11", VAR_PRICES)):
        if case in results.runs and case.reference in results.runs:
            yield f"figure-{number}", _gain_figure(results, case)
    for week in weeks:
        case = replace(VAR_PRICES, week=week.name)
        if week.price is not None and case in results.runs:
            yield f"prices-{week.name}", week_figure(results, case)


def _day_figure() -> Any:
    """Production of Tuesday of the week "Average", real and predicted one hour ahead: the paper's numbers."""
    figure, panel = new_figure(ONE_COLUMN_IN, 2.4)
    hours = np.arange(24)
    panel.bar(hours, ACTUAL_W[_ONE_DAY] / 1e3, 0.8, color=GREEN, alpha=0.6, label="actual")
    panel.step(hours, PREDICTED_W[_ONE_DAY] / 1e3, where="mid", color=BLACK, label="predicted one hour ahead")
    panel.set_xticks(range(0, 24, 3))
    panel.set_xlim(-0.5, 23.5)
    panel.set_xlabel("hour of Tuesday, 13 July 2010")
    panel.set_ylabel("production [kW]")
    panel.grid(axis="y")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def week_figure(results: GreenResults, case: Case) -> Any:
    """Draw green and brown power stacked, solar power above them, the price, and deadlines of workflows."""
    curves = {name: np.array(values) for name, values in results.runs[case].curves.items()}
    figure, panel = new_figure(TWO_COLUMNS_IN, 2.3)
    steps = len(curves["green_w"])
    edges_h = np.linspace(0.0, HOURS, steps + 1)
    green_kw, brown_kw = curves["green_w"] / 1e3, curves["brown_w"] / 1e3
    sun_kw = (curves["green_w"] + curves["unused_w"]) / 1e3
    panel.stairs(sun_kw, edges_h, fill=True, color=ORANGE, alpha=0.35, label="green, unused")
    panel.stairs(green_kw, edges_h, fill=True, color=GREEN, alpha=0.85, label="green, used")
    panel.stairs(green_kw + brown_kw, edges_h, baseline=green_kw, fill=True, color=_BROWN, alpha=0.75,
                 label="brown")  # fmt: skip
    panel.stairs(sun_kw, edges_h, baseline=None, color=VERMILLION, linewidth=0.7, label="green, actual")
    if case.forecast == "paper" and case.policy != "conventional":
        predicted_kw = PREDICTED_W * (case.panels / 10) / 1e3
        panel.stairs(predicted_kw, np.arange(HOURS + 1), baseline=None, color=BLACK, linestyle=":",
                     linewidth=0.9, label="green, predicted")  # fmt: skip
    of_paper = case.week == AVERAGE.name
    _draw_price(panel, edges_h, curves["price_per_kwh"], of_paper=of_paper)
    _draw_deadlines(panel)
    _week_axis(panel)
    panel.set_ylabel("power [kW]")
    panel.set_ylim(0, 2.35)
    values = [f"{results.value(name, case):.1f} kWh" for name in ("total_kwh", "green_kwh")]
    cost = f"{results.value('cost', case):.2f} USD" if of_paper else f"cost {results.value('cost', case):.2f}"
    title = f"{case.name}: {values[0]}, {values[1]} green, {cost}"
    panel.set_title(title, loc="left")
    figure.legend(loc="outside upper center", ncols=7, columnspacing=1.0, handlelength=1.4)
    return figure


def _draw_price(panel: Any, edges_h: FloatArray, price: FloatArray, *, of_paper: bool) -> None:
    """The price on a separate axis on the right: the paper's two prices, or those of a file."""
    right = panel.twinx()
    right.stairs(price, edges_h, baseline=None, color=BLUE, linewidth=0.9, linestyle="--")
    panel.plot([], [], color=BLUE, linestyle="--", linewidth=0.9, label="price")
    if of_paper:
        right.set_ylim(0, 0.235)
        right.set_yticks((0.0, 0.08, 0.13), ("0", "0.08", "0.13"))
    else:
        right.set_ylim(min(0.0, 1.1 * price.min()), max(1.15 * price.max(), 1e-6))
    right.set_ylabel("price [USD/kWh]" if of_paper else "price [per kWh]", color=BLUE)
    right.spines["right"].set_visible(True)


def _draw_deadlines(panel: Any) -> None:
    """A mark below the upper edge at each hour at which workflows are due."""
    due_h = sorted({kind.deadline_s(n) / 3600.0 for kind in paper_workloads() for n in range(kind.count)})
    panel.plot(due_h, [2.27] * len(due_h), "v", color=GREY, markersize=4, linestyle="", label="deadlines")


def _week_axis(panel: Any) -> None:
    """Hours from Monday 9:00 on, marked at 9:00, at midnights and at noons."""
    panel.set_xlim(0, HOURS)
    midnights = [24 * day - _START_HOUR for day in range(1, len(_DAYS))]
    panel.set_xticks([0, *midnights], ["Mon 9:00", *(f"{day} 0:00" for day in _DAYS[1:])])
    panel.set_xticks([24 * day + 12 - _START_HOUR for day in range(len(_DAYS))], minor=True)
    panel.grid(axis="x", which="major")


def _gain_figure(results: GreenResults, case: Case) -> Any:
    """Bars of the paper's four weeks, next to ours of Average; points are the synthetic weeks."""
    figure, panels = new_figure(TWO_COLUMNS_IN, 2.3, 1, 2)
    bars = READ_OFF_BARS[case.policy]
    places = np.arange(len(bars))
    ours = (results.green_pct(case), results.saving_pct(case))
    sample = results.stand_ins
    has_others = sample is not None and bool(sample.executions)
    others = results.gains_of_weeks(case.policy) if has_others else None
    average = list(bars).index("average")
    for at, (panel, name) in enumerate(zip(panels, ("more green energy", "cost saved"), strict=True)):
        panel.bar(places - 0.2, [bar[at] for bar in bars.values()], 0.38, color=SKY, label="paper")
        panel.bar([average + 0.2], [ours[at]], 0.38, color=GREEN, label="ours, the same week")
        panel.text(average + 0.2, ours[at] + 1, f"{ours[at]:.1f}", ha="center", fontsize=6)
        if others is not None and sample is not None:
            names = [str(week).rpartition("-")[0] for week in sample.executions]
            at_place = [list(bars).index(week) if week in bars else len(bars) for week in names]
            x = np.array(at_place) + 0.2
            panel.plot(x, others[at], "o", color=VERMILLION, markersize=3.5, label="ours, other weeks")
        ticks = [*bars] + (["others"] if others is not None and max(x) > len(bars) else [])
        panel.set_xticks(range(len(ticks)), [tick.capitalize() for tick in ticks])
        panel.set_ylabel(f"{name} [%]")
        panel.set_xlim(-0.6, len(ticks) - 0.4)
        panel.set_ylim(bottom=0)
        panel.grid(axis="y")
        panel.set_axisbelow(True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure
