"""Sortable table of runs or policies, with the best cells marked and equal rows folded.

Also defines the figures by which the runs of a campaign are compared, with means and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from html import escape
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.reports.intervals import (
    NOT_NEGATIVE,
    PERCENT,
    UNLIMITED,
    RunMean,
    ValueRange,
    mean_of,
)

BEST_MARK = "\u2605"
"""Mark of the best cells of a column."""


_FEW = 12
"""Maximum number of columns of a table in the usual font size."""


class Better(IntEnum):
    """Direction in which values of a column are better."""

    LOW = -1
    NEITHER = 0
    HIGH = 1
    NOT_NEGATIVE = 2
    """Values of at least 0 are equally good; below 0, higher is better."""

    def rank(self, value: float) -> float:
        """Number that is larger for better values."""
        return min(value, 0.0) if self is Better.NOT_NEGATIVE else self * value


@dataclass(frozen=True)
class ComparedColumn:
    """Column of compared figures. Values that are displayed equally are equally good."""

    title: str
    unit: str
    better: Better = Better.NEITHER
    digits: int = 2
    """Number of decimals shown and compared."""
    signed: bool = False
    """Whether positive values are shown with a plus sign."""
    enough: float = math.inf
    """Value above which higher is not better, for columns in which high is good."""
    slack: float = 0.0
    """Maximum relative distance from the best value that still counts as equally good."""

    def rank(self, value: float) -> float:
        """Number that is larger for better values, as they are shown."""
        return self.better.rank(min(self.shown(value), self.enough))

    def shown(self, value: float) -> float:
        """Displayed value; never -0.0."""
        return round(value, self.digits) + 0.0

    def text(self, value: float) -> str:
        """Return the value as a string, without its unit."""
        return f"{self.shown(value):{'+' if self.signed else ''},.{self.digits}f}"


@dataclass(frozen=True)
class ComparedRow:
    """A run, or a policy of a campaign."""

    name: str
    values: Sequence[float | None]
    """Values of the row, one per column; None for an unknown value."""
    texts: Sequence[str] | None = None
    """Strings shown instead of the columns' own."""
    note: str = ""
    """Note below the row's name."""

    def value(self, place: int) -> float | None:
        """Value in a column; None if it is unknown or not a number."""
        value = self.values[place]
        return None if value is None or math.isnan(value) else value


def best_values(columns: Sequence[ComparedColumn], rows: Sequence[ComparedRow]) -> list[set[float]]:
    """Best displayed values of each column; none if all are equally good or the column has no direction.

    Rows without a value do not count.
    """
    best_rows = []
    for place, column in enumerate(columns):
        shown = [column.shown(value) for row in rows if (value := row.value(place)) is not None]
        ranks = {value: column.rank(value) for value in shown}
        highest = max(ranks.values(), default=0.0)
        best = {v for v, rank in ranks.items() if rank >= highest - column.slack * abs(highest)}
        best_rows.append(best if len(best) < len(ranks) else set())
    return best_rows


def comparison_html(columns: Sequence[ComparedColumn], rows: Sequence[ComparedRow], caption: str) -> str:
    """Table with one row each; a click on a heading sorts by it.

    Columns without any value are omitted. Rows that are displayed equally are merged into one.
    """
    shown = [place for place in range(len(columns)) if any(row.value(place) is not None for row in rows)]
    best = best_values(columns, rows)
    heads = [_head(caption)]
    heads += [_head(columns[place].title, columns[place].unit, columns[place].better) for place in shown]
    groups: dict[tuple[str, ...], list[ComparedRow]] = {}
    for row in rows:
        key = tuple(_text(columns[place], row, place) for place in shown)
        groups.setdefault((*key, *(() if shown else (row.name,))), []).append(row)
    kind = "compared many" if len(shown) > _FEW else "compared"
    lines = [f'<div class="table"><table class="{kind}"><thead><tr>{"".join(heads)}</tr></thead><tbody>']
    for number, group in enumerate(groups.values()):
        cells = "".join(_cell(columns[place], group[0], place, best[place]) for place in shown)
        lines.append(f'<tr data-place="{number}"><th scope="row">{_name(group)}</th>{cells}</tr>')
    lines.append("</tbody></table></div>\n")
    if any(best):
        marked = f"{BEST_MARK} best of its column, or one of several equally good values."
        lines.append(f'<p class="note">{marked} Click a heading to sort.</p>\n')
    return "\n".join(lines)


def _head(title: str, unit: str = "", better: Better | None = None) -> str:
    """Heading of a column of values or, without ``better``, of the names."""
    shown = f' <span class="unit">[{escape(unit)}]</span>' if unit else ""
    kind = ' class="first"' if better is None else ' data-best="low"' if better is Better.LOW else ""
    return (
        f'<th scope="col"{kind} aria-sort="none"><button type="button">{escape(title)}{shown}</button></th>'
    )


def _name(group: Sequence[ComparedRow]) -> str:
    first, *others = group
    text = escape(first.name) + (f'<span class="of">{escape(first.note)}</span>' if first.note else "")
    if not others:
        return text
    names = "".join(f"<li>{escape(row.name)}</li>" for row in others)
    return f"{text}<details><summary>and {len(others)} with equal values</summary><ul>{names}</ul></details>"


def _text(column: ComparedColumn, row: ComparedRow, place: int) -> str:
    value = row.value(place)
    if row.texts is not None:
        return row.texts[place]
    return "-" if value is None else column.text(value)


def _cell(column: ComparedColumn, row: ComparedRow, place: int, best: set[float]) -> str:
    value, text = row.value(place), escape(_text(column, row, place))
    if value is None:
        return "<td>-</td>"
    mean, bracket, interval = text.partition(" [")
    if bracket:
        text = f'{mean} <span class="spread">[{interval}</span>'
    if column.shown(value) in best:
        text = f'<b title="best">{BEST_MARK}</b> {text}'
    return f'<td data-value="{column.shown(value)!r}">{text}</td>'


# --- runs of a campaign -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figure(ComparedColumn):
    """Column of the table of runs by which policies are compared."""

    column: str
    range: ValueRange = UNLIMITED
    """Range of the figure; intervals of means are limited to it."""

    def mean_text(self, mean: RunMean) -> str:
        """Mean as displayed, without unit, with its interval if there is one; ``-`` for none."""
        if math.isnan(mean.value):
            return "-"
        interval = f" [{self.text(mean.low)}, {self.text(mean.high)}]" if mean.has_interval else ""
        return self.text(mean.value) + interval

    def mean_of(self, runs: Any, policy: str) -> RunMean:
        """Mean of a policy's runs."""
        return mean_of(values_of(runs, policy, self.column), self.range)


SOC_POINTS_DIGITS: Final = 1
"""Decimals to which a state of charge is compared with its target: a smaller difference counts as reached."""
HYDROGEN_KG_DIGITS: Final = 3
"""Decimals to which the hydrogen in the tank is compared with its target."""
MEASURES: Final = {
    figure.column: figure
    for figure in (
        Figure("Finished work", "%", Better.HIGH, column="work_finished_pct", range=PERCENT),
        Figure("Finished jobs", "%", Better.HIGH, column="finished_pct", range=PERCENT),
        Figure("Killed jobs", "%", Better.LOW, column="killed_pct", range=PERCENT),
        Figure("Killed, as counted by the BEASY paper", "%", Better.LOW, column="killed_as_in_paper_pct",
               range=PERCENT),
        Figure("Postponed jobs", "%", Better.LOW, column="postponed_pct", range=PERCENT),
        Figure("Final state of charge minus target", "points", Better.NOT_NEGATIVE, SOC_POINTS_DIGITS,
               signed=True, column="soc_distance_points", range=ValueRange(-100.0, 100.0)),
        Figure("Lowest state of charge", "%", Better.HIGH, column="soc_lowest_pct", range=PERCENT),
        Figure("Wasted energy", "kWh", Better.LOW, column="wasted_kwh", range=NOT_NEGATIVE),
        Figure("Work redone after kills", "kWh", Better.LOW, column="redone_kwh", range=NOT_NEGATIVE),
        Figure("Curtailed energy", "kWh", Better.LOW, column="curtailed_kwh", range=NOT_NEGATIVE),
        Figure("Unserved energy", "kWh", Better.LOW, column="unserved_kwh", range=NOT_NEGATIVE),
        Figure("Bounded slowdown, mean", "", Better.LOW, column="bounded_slowdown_mean",
               range=ValueRange(1.0)),
        Figure("Waiting time, mean", "s", Better.LOW, column="waiting_s_mean", range=NOT_NEGATIVE),
        Figure("Green share of the load, 0 to 1", "", Better.HIGH, 3, column="green_share",
               range=ValueRange(0.0, 1.0)),
        Figure("Energy from the grid", "kWh", Better.LOW, column="import_kwh", range=NOT_NEGATIVE),
        Figure("Cost of the imported energy", "", Better.LOW, column="cost"),  # prices may be negative
        Figure("Carbon of the imported energy", "kg", Better.LOW, column="carbon_kg", range=NOT_NEGATIVE),
    )
}  # fmt: skip
"""Columns of the table of runs (`campaign.table`), by name, with their better direction and range."""
FIGURES: Final = tuple(
    MEASURES[column]
    for column in (
        "finished_pct", "killed_as_in_paper_pct", "postponed_pct", "soc_distance_points", "soc_lowest_pct",
        "wasted_kwh", "curtailed_kwh", "unserved_kwh", "bounded_slowdown_mean", "waiting_s_mean",
    )
)  # fmt: skip
"""Figures by which policies are compared."""
GRID_FIGURES: Final = tuple(MEASURES[column] for column in ("green_share", "import_kwh", "cost", "carbon_kg"))
"""Further figures by which policies are compared in runs with a grid; costs are in the site's currency."""


def figures_of(runs: Any) -> tuple[Figure, ...]:
    """Figures of the runs, including those of the grid and of restarts if one of them has such figures."""

    def has(column: str) -> bool:
        return column in runs.columns and bool(runs[column].notna().any())

    redone = (MEASURES["redone_kwh"],) if has("redone_kwh") else ()
    return FIGURES + redone + (GRID_FIGURES if has("import_kwh") else ())


def values_of(runs: Any, policy: str, column: str) -> FloatArray:
    """Values of a policy's runs, without missing ones."""
    values = runs.loc[runs["policy"] == policy, column].to_numpy(np.float64, na_value=np.nan)
    return np.asarray(values[np.isfinite(values)], dtype=np.float64)
