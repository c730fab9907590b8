"""The table of `compare`: a data frame that is displayed as a formatted table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from beasy_sched.outputs.tables import COMPARISON_COLUMNS, Column, Contender, shown_columns

_COLUMNS = {column.name: column for column in COMPARISON_COLUMNS}
_NAME, _UNITS = "policy", "units"


class ComparisonFrame(pd.DataFrame):  # type: ignore[misc]
    """Figures of runs; operations on it return an ordinary data frame.

    ``attrs["units"]`` has the unit of each column.
    """

    def __repr__(self) -> str:
        """The table with short headings and rounded figures."""
        heads = [self._heading(column) for column in self]
        frame = pd.DataFrame(self.to_numpy(), self.index.rename(None), pd.MultiIndex.from_tuples(heads))
        return str(frame.to_string(formatters=self._formatters(), sparsify=False, na_rep="-"))

    def _repr_html_(self) -> str:
        """HTML for notebooks: full headings, with units."""
        heads = [_title(_COLUMNS[c], self._unit(c)) if c in _COLUMNS else c for c in self]
        frame = pd.DataFrame(self.to_numpy(), self.index.rename(None), heads)
        return str(frame.to_html(formatters=self._formatters(), border=0, na_rep="-"))

    def _heading(self, column: str) -> tuple[str, str, str]:
        """Two lines, and the unit."""
        if column not in _COLUMNS:
            return "", column, ""
        unit = self._unit(column)
        return (*_COLUMNS[column].heading, "pts" if unit == "points" else unit)

    def _unit(self, column: str) -> str:
        return str(self.attrs.get(_UNITS, {}).get(column, _COLUMNS[column].unit))

    def _formatters(self) -> list[Callable[[Any], str]]:
        return [_formatter(_COLUMNS.get(column)) for column in self]


def comparison_frame(contenders: Sequence[Contender]) -> ComparisonFrame:
    """Return the table of ``contenders``, without empty columns."""
    summaries = [c.summary for c in contenders if c.summary is not None and c.problem is None]
    columns = shown_columns(contenders) if summaries else []
    rows = [
        {c.name: c.value(each.summary) for c in columns} if each.summary and each.problem is None else {}
        for each in contenders
    ]
    index = pd.Index([each.policy for each in contenders], name=_NAME)
    frame = ComparisonFrame(rows, index=index, columns=[c.name for c in columns], dtype=float)
    if any(each.problem is not None for each in contenders):
        frame["problem"] = [each.problem or "" for each in contenders]
    frame.attrs[_UNITS] = {c.name: c.unit_in(summaries) for c in columns}
    return frame


def _title(column: Column, unit: str) -> str:
    return f"{column.title} ({unit})" if unit else column.title


def _formatter(column: Column | None) -> Callable[[Any], str]:
    if column is None:
        return str
    return lambda value: "-" if math.isnan(value) else column.shown_value(value)
