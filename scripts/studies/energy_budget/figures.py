"""Figures 2 to 5 of the energy-budget paper from our runs, Figures 2 to 4 as tables, and Table II."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.energy_budget.claims import EASY, Results
from studies.energy_budget.study import ALGORITHMS, Setting, Week, percent
from studies.figures import (
    BLACK,
    BLUE,
    GREEN,
    TWO_COLUMNS_IN,
    VERMILLION,
    Figures,
    new_figure,
)

NAMES: Final = {
    (algorithm, shutdown): f"{name} {'SHUT' if shutdown else 'IDLE'}"
    for algorithm, name in (("powercap", "PC"), ("reducepc", "reducePC"), ("energybud", "energyBud"))
    for shutdown in (False, True)
}
"""The paper's names of the curves."""
_PAPERS_TABLE_2: Final = (
    ("ave_bsld", "AVEbsld", (0.16, 0.88, -8.61)),
    ("ave_bsld", "AVEbsld, not normalized", (None, None, None)),
    ("utilization", "utilization", (-0.05, 4.95, 5.74)),
    ("jobs_started", "jobs started", (-0.05, 1.4, 1.47)),
    ("energy_share", "energy consumed", (-4.74, -1.78, -1.42)),
)


def week_table(weeks: Iterable[Week]) -> TextTable:
    """Return the table of the weeks that were run."""
    rows: list[tuple[str, ...]] = [(w.name, str(w.hosts), str(w.jobs), f"{w.load:.2f}") for w in weeks]
    return TextTable("Weeks", ("week", "processors", "jobs", "load"), rows, ("processors", "jobs", "load"))


_TITLES: Final = {
    "utilization": (4, "Figure 2: mean normalized utilization"),
    "ave_bsld": (1, "Figure 3: mean normalized AVEbsld, all jobs"),
    "energy_share": (4, "Figure 4: mean normalized energy of the week, share of the most that can be used"),
}
"""Digits and title of each figure's table."""


def figure_tables(results: Results) -> Iterator[TextTable]:
    """Figures 2, 3 and 4: means by budget and condition."""
    for measure, (digits, title) in _TITLES.items():
        easy = results.interval(measure, EASY)[0]
        has_line = measure == "utilization"
        curves = (*NAMES.values(), *(["line f"] if has_line else []))
        rows = []
        for budget in results.budgets:
            means = [results.interval(measure, Setting(a, budget, shut))[0] for a, shut in NAMES]
            means += [results.line(budget)[0]] if has_line else []
            rows.append((f"{percent(budget)} %", *(f"{mean:.{digits}f}" for mean in means)))
        note = f"EASY (no budget): {easy:.{digits}f}; {len(results.executions)} weeks"
        yield TextTable(title, ("budget", *curves), rows, curves, note)


def table_2(results: Results) -> TextTable:
    """Average change by shutdown, %, the paper's and ours."""
    head = ("measure", "powercap", "paper", "reducePC", "paper", "energyBud", "paper")
    rows = []
    for measure, label, paper in _PAPERS_TABLE_2:
        row = [label]
        for algorithm, theirs in zip(ALGORITHMS, paper, strict=True):
            ours = results.change_pct(measure, algorithm, normalized=theirs is not None)
            row += [f"{ours[0]:+.2f}", "" if theirs is None else f"{theirs:+.2f}"]
        rows.append(tuple(row))
    note = (
        "If weeks differ much, a normalized AVEbsld can be near or below zero, and its change is arbitrary."
    )
    return TextTable("Table II: change by shutdown, % (ours, the paper's)", head, rows, head[1:], note)


_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "powercap": {"color": VERMILLION, "marker": "s"},
    "reducepc": {"color": GREEN, "marker": "D"},
    "energybud": {"color": BLUE, "marker": "o"},
}
_LABELS: Final = {
    "utilization": "normalized utilization",
    "ave_bsld": "normalized AVEbsld",
    "energy_share": "normalized energy, share of the most",
}


def energy_figures(results: Results) -> Figures:
    """Yield the figures."""
    for number, measure in ((2, "utilization"), (3, "ave_bsld"), (4, "energy_share")):
        yield f"figure-{number}", _by_budget(results, measure)
    yield "figure-5", _trade_offs(results)


def _by_budget(results: Results, measure: str) -> Any:
    """Draw means and intervals without shutdown and with it; shifted a little, so that all can be seen."""
    figure, panels = new_figure(TWO_COLUMNS_IN, 2.6, 1, 2, sharey=True)
    budgets = results.budgets[::-1]
    places = np.arange(len(budgets))
    all_means = [results.interval(measure, EASY)[0]]
    for panel, shutdown in zip(panels, (False, True), strict=True):
        for shift, algorithm in zip((-0.16, 0.0, 0.16), ALGORITHMS, strict=True):
            settings = [Setting(algorithm, budget, shutdown) for budget in budgets]
            means, lows, highs = np.transpose([results.interval(measure, setting) for setting in settings])
            all_means += means.tolist()
            # above 0 despite rounding, or percentiles on one side of the mean
            reach = np.maximum([means - lows, highs - means], 0.0)
            look = _look(algorithm, shutdown) | {"elinewidth": 0.7, "alpha": 0.9}
            panel.errorbar(places + shift, means, reach, label=NAMES[algorithm, shutdown], **look)
        if measure == "utilization":
            panel.plot(
                places, [results.line(budget)[0] for budget in budgets], color=BLACK, label="f(budget)"
            )
        panel.plot(places[-1:], all_means[:1], "*", color=BLACK, markersize=7, label="EASY")
        panel.set_xticks(places, [str(percent(budget)) for budget in budgets])
        panel.set_xlabel("energy budget [%]")
        panel.set_title("with shutdown" if shutdown else "without shutdown")
        panel.grid(axis="both")
        panel.legend(loc="best")
    if measure == "ave_bsld":
        _logarithmic(panels, all_means)
    panels[0].set_ylabel(_LABELS[measure])
    return figure


def _look(algorithm: str, shutdown: bool) -> dict[str, Any]:
    look = _LOOKS[algorithm]
    dashes, fill = ("-", look["color"]) if shutdown else ("--", "white")
    return look | {"linestyle": dashes, "markerfacecolor": fill, "markersize": 3.5, "linewidth": 0.9}


def _logarithmic(panels: Iterable[Any], means: Sequence[float]) -> None:
    """Draw on a logarithmic scale if all means are positive; intervals may end below the axis."""
    if min(means) > 0:
        for panel in panels:
            panel.set_yscale("log", subs=(2, 5))
            panel.set_ylim(0.6 * min(means), 2 * max(means))
            for kind in ("major", "minor"):
                getattr(panel.yaxis, f"set_{kind}_formatter")(lambda value, _: f"{value:g}")


def _trade_offs(results: Results) -> Any:
    """Draw a curve for each condition, whose points are the budgets; some are named."""
    figure, panels = new_figure(TWO_COLUMNS_IN, 3.6, 1, 2)
    for panel, measure, letter in zip(panels, ("utilization", "ave_bsld"), "ab", strict=True):
        all_means: list[float] = []
        for algorithm, shutdown in NAMES:
            settings = [Setting(algorithm, budget, shutdown) for budget in results.budgets]
            energy = [results.interval("energy_share", setting)[0] for setting in settings]
            values = [results.interval(measure, setting)[0] for setting in settings]
            all_means += values
            panel.plot(energy, values, label=NAMES[algorithm, shutdown], **_look(algorithm, shutdown))
            for setting, x, y in zip(settings, energy, values, strict=True):
                if percent(setting.budget) in _NAMED:
                    panel.annotate(str(percent(setting.budget)), (x, y), **_beside(algorithm))
        easy = results.interval("energy_share", EASY)[0], results.interval(measure, EASY)[0]
        panel.plot(*easy, "*", color=BLACK, markersize=7, label="EASY")
        if measure == "ave_bsld":
            _logarithmic([panel], [*all_means, easy[1]])
        panel.set_title(f"({letter})")
        panel.set_xlabel(_LABELS["energy_share"])
        panel.set_ylabel(_LABELS[measure])
        panel.grid(axis="both")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7)
    return figure


_NAMED: Final = (30, 60, 80)
"""Budgets, %, that are written next to their points."""


def _beside(algorithm: str) -> dict[str, Any]:
    """Return the position of a point's budget, different from that of other algorithms."""
    at = {"powercap": (-9, 2), "reducepc": (3, -7), "energybud": (3, 3)}[algorithm]
    colour = _LOOKS[algorithm]["color"]
    return {"fontsize": 5.5, "color": colour, "xytext": at, "textcoords": "offset points"}
