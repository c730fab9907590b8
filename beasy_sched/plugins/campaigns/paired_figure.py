"""Figure of a comparison: differences of policies from one of them, with intervals and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional
from beasy_sched.plugins.campaigns.paired import (
    COMPARED,
    Block,
    ComparedPolicies,
    PairedDifference,
    executions_text,
    number_text,
    paired_difference,
)
from beasy_sched.plugins.reports.drawing import RUN_COLORS, figure_bytes, new_figure

WIDTH_IN: Final = 7.16
"""Width of two columns in the IEEE layout, inches."""
DRAWN: Final = ("finished", "killed", "lost", "slowdown", "cost", "missed")
"""Measures drawn by default, if available."""
_STYLE: Final = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7.5, "xtick.labelsize": 7,
    "ytick.labelsize": 8, "axes.linewidth": 0.6, "pdf.fonttype": 42,
}  # fmt: skip
_ROW_IN, _HEAD_IN, _FOOT_IN = 0.2, 0.45, 1.0
_DPI: Final = 220


def draw_differences(
    blocks: Mapping[Block, ComparedPolicies],
    against: str,
    suffix: str,
    measures: Sequence[str] = (),
) -> bytes:
    """Draw the differences of all policies from ``against``: a row of panels per block, a panel per measure.

    A filled mark means a difference on which interval and test agree (`PairedDifference.verdict`). Each
    policy has a separate hue. ``measures`` are keys of `COMPARED` (none: those of `DRAWN`). Raises
    ConfigError for a measure that no block has, for more policies than hues, if there is nothing to draw, for
    a format that is not png, svg or pdf, and if matplotlib is not installed.
    """
    shown = {block: sample for block, sample in blocks.items() if against in sample.conditions}
    policies = [*dict.fromkeys(name for sample in shown.values() for name in sample.conditions)]
    policies = [name for name in policies if name != against]
    chosen = _measures(shown, measures)
    if not policies:
        raise ConfigError(f"figure of differences from {against!r}: found no other policy")
    if len(policies) > len(RUN_COLORS):
        raise ConfigError(
            f"found {len(policies)} policies in addition to {against!r}, a figure has at most"
            f" {len(RUN_COLORS)}: select some with --policy"
        )
    colors = dict(zip(policies, RUN_COLORS.values(), strict=False))
    height = _FOOT_IN + len(shown) * (_HEAD_IN + _ROW_IN * len(policies))
    with load_optional("matplotlib", "beasy-sched[plot]", "drawing").rc_context(_STYLE):
        figure = new_figure(suffix, (WIDTH_IN, height))
        grid = figure.subplots(len(shown), len(chosen), sharex="col", sharey=True, squeeze=False)
        for panels, (block, sample) in zip(grid, shown.items(), strict=True):
            for panel, measure in zip(panels, chosen, strict=True):
                _draw_panel(panel, sample, measure, against, colors)
            case, setting = block
            title = f"{case}, guard {setting}: {executions_text(sample)}"
            heading = panels[0].annotate(
                title, (0, 1), (0, 17), xycoords="axes fraction", textcoords="offset points",
                fontweight="bold", annotation_clip=False,
            )  # fmt: skip
            heading.set_in_layout(False)  # it extends over the panels next to it
        for panel, measure in zip(grid[-1], chosen, strict=True):
            panel.set_xlabel(_axis_title(measure))
        grid[0][0].set_yticks(range(len(policies)), policies)
        grid[0][0].set_ylim(len(policies) - 0.4, -0.6)
        figure.legend(
            handles=_legend(), loc="outside lower center", ncols=2, frameon=False,
            title=f"Differences from {against}, means with 95 % intervals", title_fontsize=7.5,
        )  # fmt: skip
        return figure_bytes(figure, suffix, dpi=_DPI)


def _measures(blocks: Mapping[Block, ComparedPolicies], given: Sequence[str]) -> list[str]:
    """Return the measures to draw. Raises ConfigError for one that no block has."""
    measured = [name for name in COMPARED if any(name in sample.values for sample in blocks.values())]
    for name in given:
        if name not in measured:
            raise ConfigError(f"--measure: found {name!r}, expected one of {', '.join(measured)}")
    return [*(given or [name for name in DRAWN if name in measured])]


def _draw_panel(
    panel: Any, sample: ComparedPolicies, measure: str, against: str, colors: Mapping[str, str]
) -> None:
    panel.axvline(0.0, color="#444444", linewidth=0.7, zorder=1)
    if measure in sample.values:
        for row, (policy, color) in enumerate(colors.items()):
            if policy in sample.conditions:
                _draw_row(panel, row, paired_difference(sample, measure, policy, against), color)
        mean = float(sample.mean(measure, against)[0])
        unit = f" {COMPARED[measure].unit}" if COMPARED[measure].unit else ""
        text = f"{against}: {number_text(mean, COMPARED[measure].form)}{unit}"
        panel.set_title(f"\n{text}", loc="left", color="#555555")  # leaves a line for the heading
    panel.xaxis.set_major_locator(_ticks())
    panel.grid(axis="x", alpha=0.3, linewidth=0.4)
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)


def _draw_row(panel: Any, row: int, paired: PairedDifference, color: str) -> None:
    if math.isnan(paired.mean):
        return
    panel.plot([paired.low, paired.high], [row, row], color=color, linewidth=1.6, solid_capstyle="butt")
    face = color if paired.verdict else "white"
    panel.plot(paired.mean, row, "o", color=color, markerfacecolor=face, markersize=5.5, markeredgewidth=1.3)


def _axis_title(measure: str) -> str:
    """Label a measure, with its unit and better direction."""
    compared = COMPARED[measure]
    unit = {"%": "[points] ", "": ""}.get(compared.unit, f"[{compared.unit}] ")
    arrow = "better \N{RIGHTWARDS ARROW}" if compared.higher_is_better else "\N{LEFTWARDS ARROW} better"
    return f"{compared.title}\n{unit}{arrow}"


def _ticks() -> Any:
    """Return at most four tick positions on an axis, and never only one."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4, min_n_ticks=2)


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": "#444444", "marker": "o", "linestyle": "", "markersize": 5.5}
    return [
        Line2D([], [], **look, label="interval excludes 0 and p < 0.05"),
        Line2D([], [], **look, markerfacecolor="white", label="open"),
    ]
