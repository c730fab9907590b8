"""A sweep as a picture: a map for each policy and figure over two axes, or lines over one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.errors import ConfigError
from beasy_sched.report.campaign_figures import Figure
from beasy_sched.report.sweep_data import (
    LESS_IS_BETTER,
    WITH_A_GOAL,
    Surface,
    SweptAxis,
    curve,
    nothing_to_see,
    span_of,
    surface,
)

_FORMATS: Final[dict[str, dict[str, Any]]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Formats, each with what keeps the date out of it."""
_COLORS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")
"""The palette of Okabe and Ito."""
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

    Figures that are 0 everywhere, or not known, are left out. The same runs give the same bytes with the same
    matplotlib. Raises ConfigError for a format that is not png, svg or pdf, where nothing is left to draw,
    and where matplotlib is not installed.
    """
    kind = suffix.lstrip(".").lower() or "png"
    if kind not in _FORMATS:
        raise ConfigError(f"figures are {', '.join(_FORMATS)} files: found {suffix!r}")
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'beasy-sched[plot]'") from None
    policies = list(dict.fromkeys(runs["policy"]))
    with rc_context({"svg.hashsalt": "sweep", "font.size": 9}):
        draw = _draw_maps if len(axes) == 2 else _draw_lines
        figure = draw(runs, policies, axes, figures, wanted_pct)
        figure.suptitle(title, fontsize=11)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=120, metadata=_FORMATS[kind])
    return buffer.getvalue()


def _draw_maps(
    runs: Any,
    policies: Sequence[str],
    axes: Sequence[SweptAxis],
    figures: Sequence[Figure],
    wanted_pct: float,
) -> Any:
    rows = {
        figure: {policy: surface(runs, policy, figure, axes[0], axes[1]) for policy in policies}
        for figure in figures
    }
    rows = {figure: each for figure, each in rows.items() if not nothing_to_see(each)}
    canvas, panels = _new(len(rows), len(policies), 4.2, 3.4)
    for across, (figure, found) in zip(panels, rows.items(), strict=True):
        span = span_of(found.values())
        image = None
        for panel, (policy, each) in zip(across, found.items(), strict=True):
            panel.set_title(f"{policy}: {figure.title.lower()} [{figure.unit}]", fontsize=9)
            if each is not None:
                image = _draw_map(panel, each, figure, axes, span, wanted_pct)
        canvas.colorbar(image, ax=list(across), shrink=0.9, pad=0.02)
    return canvas


def _draw_map(
    panel: Any,
    found: Surface,
    figure: Figure,
    axes: Sequence[SweptAxis],
    span: tuple[float, float],
    wanted_pct: float,
) -> Any:
    scale = "cividis_r" if figure.column in LESS_IS_BETTER else "cividis"
    image = panel.imshow(found.means, origin="lower", aspect="auto", cmap=scale, vmin=span[0], vmax=span[1])
    if found.written:
        for (row, column), mean in np.ndenumerate(found.means):
            if not np.isnan(mean):
                shade = image.cmap(image.norm(mean))
                light = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 0.5
                panel.text(
                    column, row, f"{mean:.{figure.digits}f}", ha="center", va="center", fontsize=7.5,
                    color="black" if light else "white",
                )  # fmt: skip
    if figure.column in WITH_A_GOAL and found.reaches(wanted_pct):
        line = panel.contour(found.means, levels=[wanted_pct], colors=[_GOAL], linewidths=2.2)
        panel.clabel(line, fmt=f"{wanted_pct:g} %%", fontsize=7.5)
    panel.set_xticks(range(len(found.x)), [f"{size:g}" for size in found.x])
    panel.set_yticks(range(len(found.y)), [f"{size:g}" for size in found.y])
    panel.set_xlabel(axes[0].title)
    panel.set_ylabel(axes[1].title)
    return image


def _draw_lines(
    runs: Any,
    policies: Sequence[str],
    axes: Sequence[SweptAxis],
    figures: Sequence[Figure],
    wanted_pct: float,
) -> Any:
    rows = {
        figure: {policy: curve(runs, policy, figure, axes[0]) for policy in policies} for figure in figures
    }
    rows = {figure: each for figure, each in rows.items() if not nothing_to_see(each)}
    canvas, panels = _new(len(rows), 1, 6.5, 2.7)
    for (panel,), (figure, found) in zip(panels, rows.items(), strict=True):
        for number, (policy, each) in enumerate(found.items()):
            if each is not None:
                paint, style = _COLORS[number % len(_COLORS)], _STYLES[number // len(_COLORS) % len(_STYLES)]
                panel.fill_between(each.x, each.low, each.high, color=paint, alpha=0.18, linewidth=0)
                panel.plot(each.x, each.mean, color=paint, linestyle=style, marker="o", ms=3.5, label=policy)
        if figure.column in WITH_A_GOAL:
            panel.axhline(wanted_pct, color=_GOAL, linewidth=1.0, linestyle=":")
        panel.set_ylabel(f"{figure.title.lower()}\n[{figure.unit}]")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1][0].set_xlabel(axes[0].title)
    panels[0][0].legend(fontsize=8, framealpha=0.9)
    return canvas


def _new(rows: int, columns: int, width_in: float, height_in: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure as Canvas

    if rows == 0:
        raise ConfigError("there is nothing to draw: every figure is 0 in all runs, or not known")
    canvas = Canvas(figsize=(width_in * columns + 0.8, height_in * rows + 0.5), layout="constrained")
    return canvas, canvas.subplots(rows, columns, squeeze=False)
