"""Charts of a sweep for the page of a campaign: maps over two axes, lines over one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.report.campaign_figures import Figure
from beasy_sched.report.page import Chart, color, plain
from beasy_sched.report.sweep_data import (
    LESS_IS_BETTER,
    SWEEP_FIGURES,
    WANTED_PCT,
    WITH_A_GOAL,
    Curve,
    Surface,
    SweptAxis,
    curve,
    nothing_to_see,
    slices,
    span_of,
    surface,
)

_MOST_COLORS: Final = 6
_DASHES: Final = ("solid", "dash", "dot")


def sweep_charts(runs: Any, axes: Sequence[SweptAxis], key: str) -> tuple[list[Chart], list[str]]:
    """Return the charts of the runs of one condition, and the figures that are 0 everywhere or not known."""
    policies = list(dict.fromkeys(runs["policy"]))
    charts: list[Chart] = []
    absent = []
    for figure in SWEEP_FIGURES:
        made = [
            chart
            for place, (name, own) in enumerate(slices(runs, axes))
            for chart in _of_figure(own, policies, figure, axes, f"{key}-{figure.column}-{place}", name)
        ]
        charts += made
        if not made:
            absent.append(figure.title.lower())
    return charts, absent


def _of_figure(
    runs: Any, policies: Sequence[str], figure: Figure, axes: Sequence[SweptAxis], key: str, where: str
) -> Iterator[Chart]:
    if len(axes) == 1:
        curves = {policy: curve(runs, policy, figure, axes[0]) for policy in policies}
        if not nothing_to_see(curves):
            yield _lines({name: each for name, each in curves.items() if each}, figure, axes[0], key)
        return
    surfaces = {policy: surface(runs, policy, figure, axes[0], axes[1]) for policy in policies}
    if not nothing_to_see(surfaces):
        span = span_of(surfaces.values())
        for number, (policy, found) in enumerate(surfaces.items()):
            if found is not None:
                title = ", ".join(filter(None, [policy, where]))
                yield _map(found, figure, axes, f"{key}-{number}", f"{figure.title}: {title}", span)


def _map(
    found: Surface,
    figure: Figure,
    axes: Sequence[SweptAxis],
    key: str,
    title: str,
    span: tuple[float, float],
) -> Chart:
    values = [[None if np.isnan(mean) else float(mean) for mean in row] for row in found.means]
    x, y = ([f"{size:g}" for size in sizes] for sizes in (found.x, found.y))
    unit = f" {figure.unit}" if figure.unit else ""
    cells = {
        "type": "heatmap", "name": "mean of the runs", "x": x, "y": y, "z": values,
        "colorscale": "Cividis", "reversescale": figure.column in LESS_IS_BETTER,
        "zmin": span[0], "zmax": span[1],
        "xgap": 1, "ygap": 1, "colorbar": {"thickness": 12, "title": {"text": figure.unit}},
        "texttemplate": f"%{{z:.{figure.digits}f}}" if found.written else "",
        "hovertemplate": f"{axes[0].column} %{{x}}, {axes[1].column} %{{y}}<br>"
        f"%{{z:,.2f}}{unit}<extra></extra>",
    }  # fmt: skip
    traces, note = [cells], f"Means of up to {found.runs} runs a cell."
    if figure.column in WITH_A_GOAL and found.reaches(WANTED_PCT):
        traces.append({
            "type": "contour", "name": f"{WANTED_PCT:g} %", "x": x, "y": y, "z": values,
            "showscale": False, "hoverinfo": "skip", "connectgaps": False,
            "contours": {"coloring": "none", "start": WANTED_PCT, "end": WANTED_PCT, "size": 1},
            "line": {"color": color("unserved"), "width": 3},
        })  # fmt: skip
        note += f" The line: {WANTED_PCT:g} %."
    layout = {
        "xaxis": {"title": {"text": plain(axes[0].title)}, "type": "category", "fixedrange": True},
        "yaxis": {"title": {"text": plain(axes[1].title)}, "type": "category", "fixedrange": True},
        "margin": {"l": 64, "r": 72, "t": 8, "b": 46},
    }
    spec = {"kind": "plot", "height": max(270, 80 + 34 * len(y)), "traces": traces, "layout": layout}
    return Chart(key, title, spec, note)


def _lines(curves: dict[str, Curve], figure: Figure, axis: SweptAxis, key: str) -> Chart:
    traces: list[dict[str, Any]] = []
    for number, (policy, found) in enumerate(curves.items()):
        paint = color(f"run-{number % _MOST_COLORS}")
        dash = _DASHES[number // _MOST_COLORS % len(_DASHES)]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": plain(policy),
            "x": found.x, "y": found.mean,
            "line": {"color": paint, "width": 2, "dash": dash},
            "marker": {"color": paint, "size": 6},
            "error_y": {"type": "data", "symmetric": False, "array": found.high - found.mean,
                        "arrayminus": found.mean - found.low, "color": paint, "thickness": 1.2, "width": 4},
            "hovertemplate": f"{plain(policy)}, %{{x:g}}: %{{y:,.2f}} {figure.unit}<extra></extra>",
        })  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": plain(axis.title)}, "fixedrange": True},
        "yaxis": {"title": {"text": figure.unit}, "fixedrange": True},
    }
    if figure.column in WITH_A_GOAL:
        layout["shapes"] = [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": WANTED_PCT, "y1": WANTED_PCT,
             "layer": "below", "line": {"color": color("limit"), "width": 1.2, "dash": "dot"}}
        ]  # fmt: skip
    most = max(found.runs for found in curves.values())
    note = f"Means of up to {most} runs a point; bars from the lowest run to the highest."
    spec = {"kind": "plot", "height": 300, "traces": traces, "layout": layout}
    return Chart(key, figure.title, spec, note)
