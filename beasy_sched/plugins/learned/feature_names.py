"""Names of the features of a learning agent."""

from __future__ import annotations

from typing import Final, NamedTuple


class Features(NamedTuple):
    """Features of a step."""

    comp: float
    """E_comp over the battery's capacity."""
    soc: float
    """State of charge between its minimum and maximum, 0 to 1."""
    left: float
    """Remaining share of the window, 0 to 1."""
    pressure: float
    """Hosts requested by waiting jobs, over those of the site."""
    danger: float
    """1 if more than half of the window's nine curves are below SoC_min in the step, else 0."""
    trend: float
    """Planned server energy, mean of the next two hours against now: (later - now) / (later + now)."""
    night: float
    """Production planned for six hours against the demand: (production - demand) / (both together)."""


FEATURES: Final = Features._fields
