"""Writing a power profile as Batsim's external events: one JSON object a line, one line a step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum

import numpy as np
import numpy.typing as npt

POWER_FIELD = "power_available"
"""Field of an event (and of the NOTIFY that forwards it) that tells the production, W."""
EVENT_TYPE = "user_specific_type"
"""The type of the thesis's example; Batsim 4 forwards any type it does not know."""


class EventsFormat(str, Enum):
    """Whose events file to write."""

    BATSIM4 = "batsim4"
    """``--forward-unknown-events``; the power is a field of the event."""
    BATSIM5 = "batsim5"
    """Only generic events, whose data is a JSON text."""


def power_event_lines(
    power_w: npt.ArrayLike, step_s: float, events_format: EventsFormat = EventsFormat.BATSIM4
) -> Iterator[str]:
    """One line (with its line end) a step: the power (W) from ``step * step_s`` seconds on.

    Numbers are written so that they read back as the same doubles. Raises ValueError for a power that
    is negative or not finite.
    """
    powers = np.asarray(power_w, dtype=np.float64)
    if not np.all(np.isfinite(powers) & (powers >= 0)):
        raise ValueError("power_w must be finite and not negative")
    for step, power in enumerate(powers.tolist()):
        moment = round(step * step_s, 6)
        if events_format is EventsFormat.BATSIM5:
            data = json.dumps({POWER_FIELD: power})
            yield json.dumps({"type": "generic", "timestamp": float(moment), "data": data}) + "\n"
            continue
        timestamp = int(moment) if moment == int(moment) else moment
        event = {"type": EVENT_TYPE, "timestamp": timestamp, POWER_FIELD: power}
        yield json.dumps(event) + "\n"
