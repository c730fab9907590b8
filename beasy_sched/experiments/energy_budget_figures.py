"""Figures 2 to 5 of the energy-budget paper, from our runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from beasy_sched.experiments.energy_budget_data import EASY, Results
from beasy_sched.experiments.energy_budget_runs import Setting, percent
from beasy_sched.experiments.energy_budget_tables import NAMES
from beasy_sched.report.paper_style import (
    BLACK,
    BLUE,
    GREEN,
    ONE_COLUMN_IN,
    TWO_COLUMNS_IN,
    VERMILLION,
    Figures,
    new_figure,
    paper_style,
    save_figure,
)

_COLOURS: Final = {"powercap": VERMILLION, "reducepc": GREEN, "energybud": BLUE}
_WIDE: Final[dict[str, dict[str, Any]]] = {
    "reducepc": {"markersize": 6, "markerfacecolor": "none", "linewidth": 2.6, "alpha": 0.7}
}
"""Drawn so that energyBud, which often has nearly the same values, does not hide it."""
_LABELS: Final = {
    "utilization": "normalized utilization",
    "ave_bsld": "normalized AVEbsld",
    "energy_share": "normalized energy, share of the most",
}


def write_energy_figures(results: Results, folder: Path) -> list[Path]:
    """Draw all figures as PDF and PNG. Raises ConfigError without matplotlib, and InputError."""
    written: list[Path] = []
    with paper_style():
        for name, figure in _figures(results):
            written += save_figure(figure, folder, name)
    return written


def _figures(results: Results) -> Figures:
    for number, measure in ((2, "utilization"), (3, "ave_bsld"), (4, "energy_share")):
        yield f"figure-{number}", _by_budget(results, measure)
    yield "figure-5", _trade_offs(results)


def _by_budget(results: Results, measure: str) -> Any:
    figure = new_figure(ONE_COLUMN_IN, 2.8)
    panel = figure.subplots()
    budgets = results.budgets
    shares = [percent(budget) for budget in budgets]
    for algorithm, shutdown in NAMES:
        found = [results.interval(measure, Setting(algorithm, budget, shutdown)) for budget in budgets]
        means = [mean for mean, _, _ in found]
        errors = [[mean - low for mean, low, _ in found], [high - mean for mean, _, high in found]]
        panel.errorbar(
            shares,
            means,
            errors,
            label=NAMES[algorithm, shutdown],
            color=_COLOURS[algorithm],
            linestyle="-" if shutdown else "--",
            marker="o" if shutdown else "s",
            elinewidth=0.5,
            **_WIDE.get(algorithm, {"markersize": 3}),
        )
    if measure == "utilization":
        panel.plot(shares, [results.line(budget)[0] for budget in budgets], color=BLACK, label="f(budget)")
    panel.plot([100], [results.interval(measure, EASY)[0]], "*", color=BLACK, markersize=7, label="EASY")
    panel.set_xlabel("energy budget [%]")
    panel.set_ylabel(_LABELS[measure])
    panel.grid(axis="both")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def _trade_offs(results: Results) -> Any:
    figure = new_figure(TWO_COLUMNS_IN, 3.2)
    panels = figure.subplots(1, 2)
    for panel, measure, letter in zip(panels, ("utilization", "ave_bsld"), "ab", strict=True):
        for algorithm, shutdown in NAMES:
            settings = [Setting(algorithm, budget, shutdown) for budget in results.budgets]
            energy = [results.interval("energy_share", setting)[0] for setting in settings]
            values = [results.interval(measure, setting)[0] for setting in settings]
            fill = _COLOURS[algorithm] if shutdown else "none"
            panel.plot(
                energy,
                values,
                "o" if shutdown else "s",
                color=_COLOURS[algorithm],
                markerfacecolor=fill,
                markersize=7 if algorithm in _WIDE else 4,
                label=NAMES[algorithm, shutdown],
            )
            if algorithm in _WIDE:
                continue  # its budgets stand beside energyBud's
            for setting, x, y in zip(settings, energy, values, strict=True):
                panel.annotate(
                    percent(setting.budget), (x, y), fontsize=5, xytext=(3, 2), textcoords="offset points"
                )
        easy = results.interval("energy_share", EASY)[0], results.interval(measure, EASY)[0]
        panel.plot(*easy, "*", color=BLACK, markersize=7, label="EASY")
        panel.set_title(f"({letter})")
        panel.set_xlabel(_LABELS["energy_share"])
        panel.set_ylabel(_LABELS[measure])
        panel.grid(axis="both")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7)
    return figure
