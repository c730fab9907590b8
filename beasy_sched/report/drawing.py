"""Pictures as files: what all figures that are drawn with matplotlib share."""

from __future__ import annotations

import io
from typing import Any, Final

from beasy_sched.errors import ConfigError

_FORMATS: Final[dict[str, dict[str, Any]]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Formats of figures, each with what keeps the date out of it."""
OKABE_ITO: Final = {"blue": "#0072b2", "vermillion": "#d55e00", "green": "#009e73", "purple": "#cc79a7",
                    "sky": "#56b4e9", "orange": "#e69f00", "black": "#000000"}  # fmt: skip
"""Okabe and Ito's colours, which colour-blind readers can tell apart, by name."""
PALETTE: Final = tuple(OKABE_ITO.values())
"""The same for curves, in this order."""


def new_figure(suffix: str, size: tuple[float, float]) -> Any:
    """Return an empty figure of ``size`` (inches), to be saved as ``suffix`` says.

    Raises ConfigError for a format that is not png, svg or pdf, and where matplotlib is not installed.
    """
    if _kind(suffix) not in _FORMATS:
        raise ConfigError(f"figures are {', '.join(_FORMATS)} files: found {suffix!r}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'beasy-sched[plot]'") from None
    return Figure(figsize=size, layout="constrained")


def figure_bytes(figure: Any, suffix: str) -> bytes:
    """Return the file of a figure: the same bytes for the same figure and matplotlib."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "beasy-sched"}):  # ids that are the same every time
        figure.savefig(buffer, format=_kind(suffix), dpi=120, metadata=_FORMATS[_kind(suffix)])
    return buffer.getvalue()


def for_notebooks(figure: Any) -> Any:
    """Return the figure, which a notebook now shows wherever it is a cell's result.

    Notebooks show figures by themselves only where pyplot, whose figures last as long as the program, was
    imported before.
    """
    figure._repr_png_ = lambda: figure_bytes(figure, ".png")
    return figure


def _kind(suffix: str) -> str:
    return suffix.lstrip(".").lower() or "png"
