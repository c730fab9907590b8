"""What the figures for papers have in common: sizes, fonts, colours that the colour-blind can tell apart."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic

ONE_COLUMN_IN: Final = 3.5
TWO_COLUMNS_IN: Final = 7.16
"""Widths in the two-column layout of the IEEE, inches."""

ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILLION, PURPLE, BLACK = "#0072b2", "#d55e00", "#cc79a7", "#000000"
"""The palette of Okabe and Ito."""
GREY: Final = "#777777"

_STYLE: Final = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "lines.linewidth": 1.0,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "beasy-sched",
}
PNG_DPI: Final = 200
Figures = Iterator[tuple[str, Any]]
"""Names of figures, and the figures."""


@contextlib.contextmanager
def paper_style() -> Iterator[None]:
    """Draw in the style of the papers' figures. Raises ConfigError without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError("figures need matplotlib: pip install 'beasy-sched[plot]'") from None
    with mpl.rc_context(_STYLE):
        yield


def new_figure(width_in: float, height_in: float) -> Any:
    """Return an empty figure whose parts find room by themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def save_figure(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PDF and PNG; the same figure gives the same bytes. Raises InputError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=metadata)
        path = folder / f"{name}.{kind}"
        write_atomic(path, buffer.getvalue())
        paths.append(path)
    return paths


def mark_days(panel: Any, days: float) -> None:
    """An axis of hours, marked at halves of days, of a day or two at quarters."""
    days = round(days, 1)  # the middle of the last step is not quite the end
    spacing = 12 if days > 2 else 6
    panel.set_xlim(0, 24 * days)
    panel.set_xticks([spacing * mark for mark in range(int(24 * days / spacing) + 1)])
    panel.set_xlabel("time [h]")
    panel.grid(axis="both")
