"""The reply by which a scheduler that cannot continue ends the simulator.

A simulator whose scheduler has gone waits forever for the reply. One that receives an unreadable reply aborts
immediately, and names the unreadable part: Batsim 4 an unknown type of event, Batsim 5 an unknown
field. That name is the reason.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from beasy_sched.limits import shortened

_BEGIN: Final = "the scheduler has ended: "
_LONGEST: Final = 400
"""Maximum number of characters of a reason, so that Batsim prints one readable line."""


def farewell4(reason: str) -> bytes:
    """Write a reply at which Batsim 4 aborts, naming the reason."""
    return msgspec.json.encode({"now": 0, "events": [{"timestamp": 0, "type": _told(reason), "data": {}}]})


def farewell5(reason: str) -> bytes:
    """Write a reply at which Batsim 5 aborts, naming the reason."""
    return msgspec.json.encode({_told(reason): 0}) + b"\0"


def reason_of(reply: bytes) -> str | None:
    """Return the reason in a farewell; None for any other reply."""
    if _BEGIN.encode() not in reply[: len(_BEGIN) + 64]:
        return None
    try:
        message: Any = msgspec.json.decode(reply.rstrip(b"\0"))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not isinstance(message, dict):
        return None
    events = message.get("events")
    if isinstance(events, list) and len(events) == 1 and isinstance(events[0], dict):
        text = events[0].get("type")
    else:
        text = next(iter(message), None)
    return text.removeprefix(_BEGIN) if isinstance(text, str) and text.startswith(_BEGIN) else None


def _told(reason: str) -> str:
    """Return the reason as one printable line."""
    line = " ".join(reason.split())
    return _BEGIN + shortened("".join(c for c in line if c.isprintable()), _LONGEST)
