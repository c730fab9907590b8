"""Runs or policies side by side, as a table: sortable, the best cells marked, rows that are alike folded.

The figures that runs of a campaign are compared by are here, with their means and intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from html import escape
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray

BEST_MARK = "\u2605"
"""What stands in a cell that no other one beats."""


_FEW = 12
"""Columns up to which a table has the usual size of letters."""


class Better(IntEnum):
    """Which values of a column are better."""

    LOW = -1
    NEITHER = 0
    HIGH = 1
    NOT_NEGATIVE = 2
    """From 0 on all are as good; below that, higher ones."""

    def rank(self, value: float) -> float:
        """A number that is larger for better values."""
        return min(value, 0.0) if self is Better.NOT_NEGATIVE else self * value


@dataclass(frozen=True)
class ComparedColumn:
    """What is compared."""

    title: str
    unit: str
    better: Better
    text: Callable[[float], str]
    """A value as it is shown, without its unit."""


@dataclass(frozen=True)
class ComparedRow:
    """A run, or a policy of a campaign."""

    name: str
    values: Sequence[float | None]
    """One per column; None where it is not known."""
    texts: Sequence[str] | None = None
    """Shown in the place of the columns' own texts."""
    note: str = ""
    """Stands below the name."""


def best_texts(columns: Sequence[ComparedColumn], rows: Sequence[ComparedRow]) -> list[set[str]]:
    """The texts of the best values of each column; none where all are alike, or none is better.

    Values that are shown alike are equally good.
    """
    found = []
    for place, column in enumerate(columns):
        known = [value for row in rows if (value := row.values[place]) is not None]
        ranks = [column.better.rank(value) for value in known]
        best = {column.text(v) for v, rank in zip(known, ranks, strict=True) if rank == max(ranks)}
        alike = all(column.text(value) in best for value in known)
        found.append(set() if column.better is Better.NEITHER or alike else best)
    return found


def comparison_html(columns: Sequence[ComparedColumn], rows: Sequence[ComparedRow], caption: str) -> str:
    """A table with a row each; a click on a head sorts by it.

    Columns that no row knows are left out. Rows that are shown alike are one, which names the others.
    """
    shown = [place for place in range(len(columns)) if any(row.values[place] is not None for row in rows)]
    best = best_texts(columns, rows)
    heads = [_head(caption, "", first=True)]
    heads += [_head(columns[place].title, columns[place].unit) for place in shown]
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
        lines.append(f'<p class="note">{BEST_MARK} best of its column. Click on a head to sort.</p>\n')
    return "\n".join(lines)


def _head(title: str, unit: str, *, first: bool = False) -> str:
    shown = f' <span class="unit">[{escape(unit)}]</span>' if unit else ""
    kind = ' class="first"' if first else ""
    return (
        f'<th scope="col"{kind} aria-sort="none"><button type="button">{escape(title)}{shown}</button></th>'
    )


def _name(group: Sequence[ComparedRow]) -> str:
    first, *others = group
    text = escape(first.name) + (f'<span class="of">{escape(first.note)}</span>' if first.note else "")
    if not others:
        return text
    names = "".join(f"<li>{escape(row.name)}</li>" for row in others)
    return f"{text}<details><summary>and {len(others)} alike</summary><ul>{names}</ul></details>"


def _text(column: ComparedColumn, row: ComparedRow, place: int) -> str:
    value = row.values[place]
    if row.texts is not None:
        return row.texts[place]
    return "-" if value is None else column.text(value)


def _cell(column: ComparedColumn, row: ComparedRow, place: int, best: set[str]) -> str:
    value, text = row.values[place], escape(_text(column, row, place))
    if value is None:
        return "<td>-</td>"
    mean, sign, half_width = text.partition(" \u00b1 ")
    if sign:
        text = f'{mean} <span class="spread">\u00b1 {half_width}</span>'
    if column.text(value) in best:
        text = f'<b title="best">{BEST_MARK}</b> {text}'
    return f'<td data-value="{value!r}">{text}</td>'


# --- runs of a campaign -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A column of the table of runs that policies are compared by."""

    column: str
    title: str
    unit: str
    digits: int = 2
    better: Better = Better.NEITHER

    def text(self, value: float, half_width: float = np.nan) -> str:
        """A value as it is shown, without its unit, with its interval where that is known; ``-`` for none."""
        known = (f"{each:,.{self.digits}f}" for each in (value, half_width) if not np.isnan(each))
        return " ± ".join(known) or "-"

    @property
    def as_column(self) -> ComparedColumn:
        """Its column in a table of policies."""
        return ComparedColumn(self.title, self.unit, self.better, self.text)

    def mean_of(self, runs: Any, policy: str) -> tuple[float, float]:
        """The mean of a policy's runs, and half the width of its 95 % interval."""
        return mean_and_half_width(values_of(runs, policy, self.column))


FIGURES: Final = (
    Figure("finished_pct", "Finished jobs", "%", better=Better.HIGH),
    Figure("killed_as_in_paper_pct", "Killed, as the BEASY paper counts", "%", better=Better.LOW),
    Figure("postponed_pct", "Postponed jobs", "%", better=Better.LOW),
    Figure("soc_distance_points", "Final state of charge less target", "points", better=Better.NOT_NEGATIVE),
    Figure("soc_lowest_pct", "Lowest state of charge", "%", better=Better.HIGH),
    Figure("wasted_kwh", "Wasted energy", "kWh", better=Better.LOW),
    Figure("curtailed_kwh", "Curtailed energy", "kWh", better=Better.LOW),
    Figure("unserved_kwh", "Unserved energy", "kWh", better=Better.LOW),
    Figure("bounded_slowdown_mean", "Bounded slowdown, mean", "", better=Better.LOW),
    Figure("waiting_s_mean", "Waiting time, mean", "s", better=Better.LOW),
)

GRID_FIGURES: Final = (
    Figure("grid.green_share", "Green share of the load, 0 to 1", "", 3, Better.HIGH),
    Figure("grid.import_kwh", "Energy from the grid", "kWh", better=Better.LOW),
    Figure("grid.cost", "Cost of the imported energy", "", better=Better.LOW),
    Figure("grid.carbon_kg", "Carbon of the imported energy", "kg", better=Better.LOW),
)
"""The same of runs with a grid; costs are in the site's currency."""


def figures_of(runs: Any) -> tuple[Figure, ...]:
    """The figures that runs have, with those of the grid where one of them has a grid."""
    grid = "grid.import_kwh" in runs.columns and bool(runs["grid.import_kwh"].notna().any())
    return FIGURES + (GRID_FIGURES if grid else ())


_T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
                2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""Student's t for 1, 2, ... degrees of freedom: 97.5 % of the distribution lies below."""


def mean_and_half_width(values: FloatArray) -> tuple[float, float]:
    """The mean of n runs, and half the width of its 95 % interval (Student's t); NaN for a single run."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan), np.nan
    freedom = len(values) - 1
    t = _T975[freedom - 1] if freedom <= len(_T975) else 1.96 + 2.46 / freedom
    return float(values.mean()), float(t * values.std(ddof=1) / np.sqrt(len(values)))


def values_of(runs: Any, policy: str, column: str) -> FloatArray:
    """The values of a policy's runs; those without a value are left out."""
    found = runs.loc[runs["policy"] == policy, column].to_numpy(np.float64, na_value=np.nan)
    return np.asarray(found[np.isfinite(found)], dtype=np.float64)
