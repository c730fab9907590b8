"""Rows of runs or policies side by side: sortable, the best cells marked, rows that are alike folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from html import escape

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
