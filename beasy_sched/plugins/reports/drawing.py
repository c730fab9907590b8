"""Figures as files: common code of all matplotlib figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.extras import load_optional

T = TypeVar("T")

_FORMATS: Final[dict[str, dict[str, Any]]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Figure formats, each with the metadata that omits the date."""
OKABE_ITO: Final = {"blue": "#0072b2", "vermillion": "#d55e00", "green": "#009e73", "purple": "#cc79a7",
                    "sky": "#56b4e9", "orange": "#e69f00", "black": "#000000"}  # fmt: skip
"""Okabe and Ito's colours, which colour-blind readers can distinguish, by name."""
PALETTE: Final = tuple(OKABE_ITO.values())
"""Colours of curves, in order."""
RUN_COLORS: Final = OKABE_ITO | {"brown": "#7f4a1e", "indigo": "#5b3fa0", "olive": "#8a8d00",
                                 "grey": "#8a8f98", "wine": "#8b1a4a"}  # fmt: skip
"""Colours of runs, in order, by name: one distinct hue for each run that reports show in full."""
PRODUCTION, DEMAND, SHORTAGE = OKABE_ITO["orange"], OKABE_ITO["blue"], OKABE_ITO["vermillion"]
BATTERY, HYDROGEN, LIMIT = OKABE_ITO["green"], OKABE_ITO["purple"], "#888888"
"""Colours of quantities common to runs and plans."""
LEGEND: Final = {"loc": "upper right", "fontsize": 8, "framealpha": 0.9}
"""Position and size of a panel's legend."""


def check_format(suffix: str) -> None:
    """Raise ConfigError unless a figure can be saved in the format ``suffix``."""
    if _kind(suffix) not in _FORMATS:
        raise ConfigError(f"figure format: found {suffix!r}, expected {', '.join(_FORMATS)}")


def check_figure(path: Path) -> None:
    """Raise BeasyError if a figure cannot be drawn or written; for commands that first work for long."""
    check_format(path.suffix)
    load_optional("matplotlib", "beasy-sched[plot]", "drawing")
    if not path.absolute().parent.is_dir():
        raise InputError(path, "cannot be written: its folder does not exist; create it first")


def new_figure(suffix: str, size: tuple[float, float]) -> Any:
    """Return an empty figure of ``size`` (inches), to be saved in the format ``suffix``.

    Raises ConfigError for a format that is not png, svg or pdf, and where matplotlib is not installed.
    """
    check_format(suffix)
    figures = load_optional("matplotlib.figure", "beasy-sched[plot]", "drawing")
    return figures.Figure(figsize=size, layout="constrained")


def stacked_panels(
    suffix: str,
    size: tuple[float, float, float],
    draws: Sequence[tuple[Callable[[Any, T], None], float]],
    shown: T,
    title: str,
) -> tuple[Any, list[Any]]:
    """Return a figure of panels one below the other over a common time axis, and its panels.

    ``size`` is the width, the height of an empty figure and what each panel adds to it, inches; ``draws`` has
    the function that draws ``shown`` in each panel, and the panel's relative height. Raises ConfigError as
    `new_figure` does.
    """
    width, empty, each = size
    figure = new_figure(suffix, (width, empty + each * len(draws)))
    heights = [height for _, height in draws]
    panels = figure.subplots(len(draws), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for (draw, _), panel in zip(draws, panels, strict=True):
        draw(panel, shown)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_title(title, fontsize=11, loc="left")
    return figure, list(panels)


def draw_level(panel: Any, hours: FloatArray, level: FloatArray, color: str) -> None:
    """Draw the level of a storage over time as a filled area."""
    panel.plot(hours, level, color=color, linewidth=1.6)
    panel.fill_between(hours, level, color=color, alpha=0.15, linewidth=0)


def mark_hours(panel: Any, first_h: float, last_h: float) -> None:
    """Label hours since the start of the run, at fractions of days."""
    span = last_h - first_h
    spacing = next((s for s in (1, 2, 6, 12, 24, 48, 168) if span / s <= 16), span / 8)
    panel.set_xticks(np.arange(first_h, last_h + 1e-6, spacing))
    panel.set_xlim(first_h, last_h)
    panel.set_xlabel("time [h]")


def figure_bytes(figure: Any, suffix: str, *, dpi: int = 120) -> bytes:
    """Return the file content of a figure: the same bytes for the same figure and matplotlib version.

    ``dpi`` is the resolution of a png, pixels per inch.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "beasy-sched"}):  # reproducible ids
        figure.savefig(buffer, format=_kind(suffix), dpi=dpi, metadata=_FORMATS[_kind(suffix)])
    return _with_steady_ids(buffer.getvalue()) if _kind(suffix) == "svg" else buffer.getvalue()


def _with_steady_ids(svg: bytes) -> bytes:
    """Number the clip paths of a figure in their order.

    Matplotlib names them by their sizes, whose last digits vary from one layout of a figure to the next.
    """
    names: dict[bytes, bytes] = {}
    name = rb'(?<=[#"])p[0-9a-f]{10}(?=[)"])'
    return re.sub(name, lambda match: names.setdefault(match[0], b"p%d" % len(names)), svg)


def _kind(suffix: str) -> str:
    return suffix.lstrip(".").lower() or "png"
