"""Rules that a plan of servers follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beasy_sched.errors import ConfigError


@dataclass(frozen=True)
class ServerRules:
    """Rules that keep a plan from following every spike of the envelope, and limits of the search."""

    minimum_on_s: float = 3600.0
    """A server that wakes stays on for at least this long, including the time to wake."""
    switch_cost_s: float = 300.0
    """Time at the kind's highest speed whose flops a wake-up must gain beyond its cost, s."""
    gap: float = 0.005
    """Proven relative distance to the best plan at which the search may stop."""
    sketch: bool = False
    """Whether a quickly made plan without a proven distance to the best suffices."""
    time_s: float = math.inf
    """Last resort: time limit of each optimization, s. The result states whether it ended a search."""

    def __post_init__(self) -> None:
        for name in ("minimum_on_s", "switch_cost_s", "gap"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name}: found {value!r}, expected a number >= 0")
