"""States of servers."""

from __future__ import annotations

from enum import IntEnum


class HostState(IntEnum):
    """State of a server."""

    IDLE = 0
    BUSY = 1
    ASLEEP = 2
    SWITCHING_OFF = 3
    SWITCHING_ON = 4


IDLE, BUSY, ASLEEP, SWITCHING_OFF, SWITCHING_ON = (int(state) for state in HostState)
"""Members of `HostState` as plain integers, with which arrays are compared several times faster."""

USES = ("idle", "computing", "sleeping", "switching off", "switching on")
"""Names of the energy uses, by `HostState`."""
