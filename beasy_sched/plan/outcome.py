"""What came out of a solver: a status, how far from the optimum at most, and a message for people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class SolverStatus(str, Enum):
    """How an optimization ended."""

    OPTIMAL = "optimal"
    """A point within the gap that was asked for."""
    FEASIBLE = "feasible"
    """A point that a node or time limit ended before the gap was closed; the message says which."""
    NO_POINT = "no point"
    """A limit was hit before any point was found: nothing is known about the problem."""
    INFEASIBLE = "infeasible"
    """No point exists; the message names what cannot be met."""


@dataclass(frozen=True)
class SolverOutcome:
    """The result of an optimization, without its point. Raises ValueError where the parts disagree.

    Everything here is the same on any machine unless a time limit ended the solver, and then the
    message says so. Timings are kept elsewhere.
    """

    status: SolverStatus
    message: str = ""
    """In the user's terms; never empty unless the status is `OPTIMAL`."""
    objective: float = math.nan
    """Value of the point found; NaN without one."""
    gap: float = math.inf
    """Proven relative distance to the best possible objective; infinite without a point."""

    def __post_init__(self) -> None:
        if self.has_point != (math.isfinite(self.objective) and self.gap >= 0.0):
            raise ValueError(f"{self.status.value}: objective {self.objective}, gap {self.gap}")
        if self.status is not SolverStatus.OPTIMAL and not self.message:
            raise ValueError(f"{self.status.value}: needs a message")

    @property
    def has_point(self) -> bool:
        """Whether there is a point that can be used."""
        return self.status in (SolverStatus.OPTIMAL, SolverStatus.FEASIBLE)
