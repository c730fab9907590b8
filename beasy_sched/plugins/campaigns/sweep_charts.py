"""Results of a sweep: maps over two axes, lines over one, for a campaign's report and as a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.reports.comparison import MEASURES, Better, Figure
from beasy_sched.plugins.reports.drawing import PALETTE, figure_bytes, new_figure
from beasy_sched.plugins.reports.page import Chart, color, plain

SWEEP_FIGURES: Final = tuple(
    replace(MEASURES[column], digits=digits)
    for column, digits in (
        ("work_finished_pct", 1),
        ("finished_pct", 1),
        ("killed_pct", 1),
        ("unserved_kwh", 1),
        ("soc_lowest_pct", 0),
    )
)
"""Columns of the table of runs drawn over the axes."""
WITH_A_GOAL: Final = ("work_finished_pct", "finished_pct")
"""Figures whose maps have a line at the wanted value."""
WANTED_PCT: Final = 99.0
MOST_WRITTEN: Final = 80
"""Maximum number of cells of a map that are labelled with their values."""


@dataclass(frozen=True)
class SweptAxis:
    """Axis of a sweep: a column of the table of runs."""

    column: str
    title: str
    """Title of the axis, with its unit."""


@dataclass(frozen=True)
class Surface:
    """Means of a figure over two axes."""

    x: FloatArray
    y: FloatArray
    means: FloatArray
    """Means of the figure, of shape (y, x); NaN if no run has a value."""
    runs: int
    """Maximum number of runs of a cell."""

    @property
    def written(self) -> bool:
        """Whether the cells are few enough to be labelled with their values."""
        return self.means.size <= MOST_WRITTEN

    def reaches(self, wanted: float) -> bool:
        """Whether some cells reach ``wanted`` and others do not, so that there is a line between them."""
        finite = self.means[np.isfinite(self.means)]
        return min(self.means.shape) > 1 and bool((finite >= wanted).any() and (finite < wanted).any())


@dataclass(frozen=True)
class Curve:
    """Figure over one axis: mean, minimum and maximum of the runs."""

    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    runs: int


def slices(runs: Any, axes: Sequence[SweptAxis]) -> Iterator[tuple[str, Any]]:
    """Yield the runs for each combination of the axes beyond the second, with a name; else all runs."""
    more = [axis.column for axis in axes[2:]]
    if not more:
        yield "", runs
        return
    for values, own in runs.groupby(more, sort=True):
        yield ", ".join(f"{name} {value:g}" for name, value in zip(more, values, strict=True)), own


def surface(runs: Any, policy: str, figure: Figure, x: SweptAxis, y: SweptAxis) -> Surface | None:
    """Return a policy's surface; None if no run has a value."""
    own = _known(runs, policy, figure)
    if own.empty:
        return None
    table = own.pivot_table(index=y.column, columns=x.column, values=figure.column, aggfunc="mean")
    most = int(own.groupby([x.column, y.column]).size().max())
    return Surface(_floats(table.columns), _floats(table.index), _floats(table.to_numpy()), most)


def curve(runs: Any, policy: str, figure: Figure, x: SweptAxis) -> Curve | None:
    """Return a policy's curve; None if no run has a value."""
    own = _known(runs, policy, figure)
    if own.empty:
        return None
    groups = own.groupby(x.column)[figure.column].agg(["mean", "min", "max", "size"])
    mean, low, high = (_floats(groups[name]) for name in ("mean", "min", "max"))
    return Curve(_floats(groups.index), mean, low, high, int(groups["size"].max()))


def by_policy(
    runs: Any, policies: Sequence[str], figure: Figure, axes: Sequence[SweptAxis]
) -> dict[str, Any]:
    """Return each policy's curve, or over several axes its surface; without trivial ones."""
    of: Callable[..., Any] = curve if len(axes) == 1 else surface
    by_name = {policy: of(runs, policy, figure, *axes[:2]) for policy in policies}
    return {} if nothing_to_see(by_name) else by_name


def nothing_to_see(surfaces: Mapping[str, Surface | None] | Mapping[str, Curve | None]) -> bool:
    """Whether a figure is unknown or 0 everywhere."""
    present = [each for each in surfaces.values() if each is not None]
    means = [each.means if isinstance(each, Surface) else each.mean for each in present]
    return not any(np.any(np.abs(values[np.isfinite(values)]) > 1e-9) for values in means)


def span_of(surfaces: Iterable[Surface | None]) -> tuple[float, float]:
    """Return the minimum and maximum mean, for a common colour scale of several maps."""
    values = np.concatenate([each.means.ravel() for each in surfaces if each is not None])
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    return least, most if most > least else least + 1.0


def _known(runs: Any, policy: str, figure: Figure) -> Any:
    if figure.column not in runs.columns:
        return runs.iloc[:0]
    own = runs[runs["policy"] == policy]
    return own[own[figure.column].notna()].astype({figure.column: "float64"})


def _floats(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


# --- charts of the page -------------------------------------------------------------------------------------


_MOST_COLORS: Final = 6
_DASHES: Final = ("solid", "dash", "dot")


def sweep_charts(runs: Any, axes: Sequence[SweptAxis], key: str) -> tuple[list[Chart], list[str]]:
    """Return the charts of the runs of one condition, and the figures that are 0 or unknown everywhere."""
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
    shown = by_policy(runs, policies, figure, axes)
    if not shown:
        return
    if len(axes) == 1:
        yield _lines({name: each for name, each in shown.items() if each}, figure, axes[0], key)
        return
    span = span_of(shown.values())
    for number, (policy, policy_surface) in enumerate(shown.items()):
        if policy_surface is not None:
            title = ", ".join(filter(None, [policy, where]))
            yield _map(policy_surface, figure, axes, f"{key}-{number}", f"{figure.title}: {title}", span)


def _map(
    policy_surface: Surface,
    figure: Figure,
    axes: Sequence[SweptAxis],
    key: str,
    title: str,
    span: tuple[float, float],
) -> Chart:
    values = [[None if np.isnan(mean) else float(mean) for mean in row] for row in policy_surface.means]
    x, y = ([f"{size:g}" for size in sizes] for sizes in (policy_surface.x, policy_surface.y))
    unit = f" {figure.unit}" if figure.unit else ""
    cells = {
        "type": "heatmap", "name": "mean of the runs", "x": x, "y": y, "z": values,
        "colorscale": "Cividis", "reversescale": figure.better is Better.LOW,
        "zmin": span[0], "zmax": span[1],
        "xgap": 1, "ygap": 1, "colorbar": {"thickness": 12, "title": {"text": figure.unit}},
        "texttemplate": f"%{{z:.{figure.digits}f}}" if policy_surface.written else "",
        "hovertemplate": f"{axes[0].column} %{{x}}, {axes[1].column} %{{y}}<br>"
        f"%{{z:,.2f}}{unit}<extra></extra>",
    }  # fmt: skip
    traces, note = [cells], f"Means of up to {policy_surface.runs} runs per cell."
    if figure.column in WITH_A_GOAL and policy_surface.reaches(WANTED_PCT):
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
    for number, (policy, line) in enumerate(curves.items()):
        paint = color(f"run-{number % _MOST_COLORS}")
        dash = _DASHES[number // _MOST_COLORS % len(_DASHES)]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": plain(policy),
            "x": line.x, "y": line.mean,
            "line": {"color": paint, "width": 2, "dash": dash},
            "marker": {"color": paint, "size": 6},
            "error_y": {"type": "data", "symmetric": False, "array": line.high - line.mean,
                        "arrayminus": line.mean - line.low, "color": paint, "thickness": 1.2, "width": 4},
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
    most = max(line.runs for line in curves.values())
    note = f"Means of up to {most} runs per point; bars from the lowest to the highest run."
    spec = {"kind": "plot", "height": 300, "traces": traces, "layout": layout}
    return Chart(key, figure.title, spec, note)


# --- the figure ---------------------------------------------------------------------------------------------


_STYLES: Final = ("-", "--", ":")
_GOAL: Final = "#d55e00"


def draw_sweep(
    runs: Any,
    axes: Sequence[SweptAxis],
    figures: Sequence[Figure],
    *,
    title: str,
    wanted_pct: float,
    suffix: str = ".png",
) -> bytes:
    """Draw the runs of one condition over one or two axes. Returns the file's bytes.

    Figures that are 0 or unknown everywhere are omitted. The same runs give the same bytes with the same
    matplotlib version. Raises ConfigError for a format that is not png, svg or pdf, if nothing is left to
    draw, and if matplotlib is not installed.
    """
    policies = list(dict.fromkeys(runs["policy"]))
    canvas = new_figure(suffix, (1.0, 1.0))  # its size follows from what is drawn
    rows = {figure: by_name for figure in figures if (by_name := by_policy(runs, policies, figure, axes))}
    if not rows:
        raise ConfigError("nothing to plot: all values are zero or missing")
    draw = _draw_maps if len(axes) == 2 else _draw_lines
    draw(canvas, rows, axes, wanted_pct)
    canvas.suptitle(title, fontsize=11)
    return figure_bytes(canvas, suffix)


_Rows = Mapping[Figure, dict[str, Any]]
"""Curve or surface by figure and policy; None if no run has a value."""


def _draw_maps(canvas: Any, rows: _Rows, axes: Sequence[SweptAxis], wanted_pct: float) -> None:
    panels = _panels(canvas, len(rows), max(map(len, rows.values())), 4.2, 3.4)
    for across, (figure, surfaces) in zip(panels, rows.items(), strict=True):
        span = span_of(surfaces.values())
        image = None
        for panel, (policy, each) in zip(across, surfaces.items(), strict=True):
            panel.set_title(f"{policy}: {figure.title.lower()} [{figure.unit}]", fontsize=9)
            if each is not None:
                image = _draw_map(panel, each, figure, axes, span, wanted_pct)
        canvas.colorbar(image, ax=list(across), shrink=0.9, pad=0.02)


def _draw_map(
    panel: Any,
    policy_surface: Surface,
    figure: Figure,
    axes: Sequence[SweptAxis],
    span: tuple[float, float],
    wanted_pct: float,
) -> Any:
    scale = "cividis_r" if figure.better is Better.LOW else "cividis"
    image = panel.imshow(
        policy_surface.means, origin="lower", aspect="auto", cmap=scale, vmin=span[0], vmax=span[1]
    )
    if policy_surface.written:
        for (row, column), mean in np.ndenumerate(policy_surface.means):
            if not np.isnan(mean):
                shade = image.cmap(image.norm(mean))
                light = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 0.5
                panel.text(
                    column, row, f"{mean:.{figure.digits}f}", ha="center", va="center", fontsize=7.5,
                    color="black" if light else "white",
                )  # fmt: skip
    if figure.column in WITH_A_GOAL and policy_surface.reaches(wanted_pct):
        line = panel.contour(policy_surface.means, levels=[wanted_pct], colors=[_GOAL], linewidths=2.2)
        panel.clabel(line, fmt=f"{wanted_pct:g} %%", fontsize=7.5)
    panel.set_xticks(range(len(policy_surface.x)), [f"{size:g}" for size in policy_surface.x])
    panel.set_yticks(range(len(policy_surface.y)), [f"{size:g}" for size in policy_surface.y])
    panel.set_xlabel(axes[0].title)
    panel.set_ylabel(axes[1].title)
    return image


def _draw_lines(canvas: Any, rows: _Rows, axes: Sequence[SweptAxis], wanted_pct: float) -> None:
    panels = _panels(canvas, len(rows), 1, 6.5, 2.7)
    for (panel,), (figure, curves) in zip(panels, rows.items(), strict=True):
        for number, (policy, each) in enumerate(curves.items()):
            if each is not None:
                paint, style = PALETTE[number % len(PALETTE)], _STYLES[number // len(PALETTE) % len(_STYLES)]
                panel.fill_between(each.x, each.low, each.high, color=paint, alpha=0.18, linewidth=0)
                panel.plot(each.x, each.mean, color=paint, linestyle=style, marker="o", ms=3.5, label=policy)
        if figure.column in WITH_A_GOAL:
            panel.axhline(wanted_pct, color="#444444", linewidth=1.2, linestyle=":")
        panel.set_ylabel(f"{figure.title.lower()}\n[{figure.unit}]")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1][0].set_xlabel(axes[0].title)
    panels[0][0].legend(fontsize=8, framealpha=0.9)


def _panels(canvas: Any, rows: int, columns: int, width_in: float, height_in: float) -> Any:
    canvas.set_size_inches(width_in * columns + 0.8, height_in * rows + 0.5)
    return canvas.subplots(rows, columns, squeeze=False)
