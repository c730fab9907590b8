"""What a server plan must keep to beside the envelope, and how good it must be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beasy_sched.errors import ConfigError


@dataclass(frozen=True)
class ServerRules:
    """What keeps a plan from following every spike of the envelope, and when the search may stop."""

    minimum_on_s: float = 3600.0
    """A server that wakes stays on at least so long, its waking included."""
    switch_cost_s: float = 300.0
    """A wake-up must bring as many flops as this time at the kind's highest speed, beside what it costs."""
    gap: float = 0.005
    """Proven relative distance to the best plan at which the search may stop."""
    time_s: float = math.inf
    """Last resort: time for each optimization, s. A plan that it ended says so."""

    def __post_init__(self) -> None:
        for name in ("minimum_on_s", "switch_cost_s", "gap"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name}: {value!r} must be a number of 0 or more")
