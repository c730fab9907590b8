"""A run as a notebook shows it: a table of its main figures, and its state of charge over time."""

from __future__ import annotations

from html import escape
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.outputs.tables import Row, Summary, main_rows
from beasy_sched.report.plan_figure import BATTERY, LIMIT
from beasy_sched.results import read_trace

_WIDTH: Final = 320
_HEIGHT: Final = 56
_MOST_PIECES: Final = 160
"""Pieces of a sparkline, each with its least and its greatest value."""


def run_card(prefix: str, summary: Summary) -> str:
    """Return the HTML for a run: no style sheet, no script, colours that suit light and dark pages.

    Without an energy trace it has no sparkline. Raises InputError for a trace that cannot be read.
    """
    rows = table_of_rows(main_rows(summary), caption=prefix)
    levels_pct = [row["soc_pct"] for row in read_trace(prefix) if "soc_pct" in row]
    if len(levels_pct) < 2:
        return rows
    legend = (
        '<div style="font-size:smaller">State of charge, 0 to 100 %; dashed: target, dotted: minimum</div>'
    )
    return rows + sparkline(np.array(levels_pct), summary.get("site", {})) + legend


def table_of_rows(rows: list[Row], caption: str) -> str:
    """Return an HTML table of names and values."""
    body = "".join(
        f'<tr><th style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:right">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table><caption style="text-align:left">{escape(caption)}</caption><tbody>{body}</tbody></table>'


def sparkline(levels_pct: FloatArray, site: dict[str, float]) -> str:
    """Return an SVG of a state of charge (%) over time, with lines at the site's minimum and its target."""
    times, values = _thinned(levels_pct)
    xs = times * (_WIDTH / (len(levels_pct) - 1))
    points = " ".join(
        f"{x:.1f},{_y(value):.1f}" for x, value in zip(xs.tolist(), values.tolist(), strict=True)
    )
    lines = [
        f'<line x1="0" x2="{_WIDTH}" y1="{_y(site[name]):.1f}" y2="{_y(site[name]):.1f}" stroke="{LIMIT}"'
        f' stroke-dasharray="{dashes}"><title>{label}: {site[name]:g} %</title></line>'
        for name, label, dashes in (("soc_min_pct", "minimum", "2 3"), ("soc_target_pct", "target", "7 3"))
        if name in site
    ]
    told = f"State of charge over time: lowest {levels_pct.min():.1f} %, final {levels_pct[-1]:.1f} %"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{told}"><title>{told}</title>{"".join(lines)}'
        f'<polyline points="{points}" fill="none" stroke="{BATTERY}" stroke-width="1.5"/></svg>'
    )


def _y(level_pct: float) -> float:
    return 2.0 + (_HEIGHT - 4.0) * (1.0 - level_pct / 100.0)


def _thinned(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and values; of many, the least and the greatest of each piece, in their order."""
    places = np.arange(len(values))
    if len(values) > 2 * _MOST_PIECES:
        pieces = np.array_split(places, _MOST_PIECES)
        chosen = {0, len(values) - 1}
        for piece in pieces:
            chosen |= {int(piece[values[piece].argmin()]), int(piece[values[piece].argmax()])}
        places = np.array(sorted(chosen))
    return places.astype(np.float64), values[places]
