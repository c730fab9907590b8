"""Figures of studies, drawn coarsely and not kept: `studies/test_figures.py` looks at the files."""

from __future__ import annotations

import io

from studies.figures import Figures, paper_style


def drawn(figures: Figures) -> list[str]:
    """Draw all figures; return their names."""
    names = []
    with paper_style():
        for name, figure in figures:
            figure.savefig(io.BytesIO(), format="png", dpi=30)
            names.append(name)
    return names
