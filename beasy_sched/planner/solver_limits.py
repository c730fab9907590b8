"""Limits of a solver's search."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SolverLimits:
    """Limits of the solver. Only ``time_s`` makes a result depend on the machine."""

    relative_gap: float = 5e-5
    nodes: int = 20_000
    """Maximum number of branch-and-bound nodes of one optimization."""
    time_s: float = math.inf
    """Seconds for all optimizations of one model together."""
