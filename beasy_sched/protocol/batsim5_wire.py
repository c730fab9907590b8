"""The envelope of Batsim 5's messages: JSON terminated by a NUL, read leniently or strictly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from beasy_sched.protocol.wire import Envelope, Unknown, WireMessage, dump, fault

Unsigned32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
"""Unsigned integer of 4 bytes."""

_END = b"\0"
"""End of each message; required by Batsim before rc2."""


class _Event(Struct, rename={"type": "event_type", "data": "event"}):
    timestamp: float
    type: str
    data: Any = None


_ENVELOPE = Envelope(_Event)


def decode_envelope(raw: bytes, unknown: Unknown) -> WireMessage:
    """Read the envelope, and append the paths of unknown fields to ``unknown``. Raises ProtocolError."""
    return _ENVELOPE.decode(raw.removesuffix(_END), unknown)


def _real(value: float) -> str:
    """Write a real number like Batsim 5: at most twelve decimals, at least one."""
    text = f"{value:.12f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def encode_envelope(now: float, events: Iterable[tuple[float, tuple[str, Any]]]) -> bytes:
    """Write a message: its time, and each event's time, type and contents."""
    texts = (
        f'{{"timestamp":{_real(at)},"event_type":{dump(kind)},"event":{dump(data, _real)}}}'
        for at, (kind, data) in events
    )
    return f'{{"now":{_real(now)},"events":[{",".join(texts)}]}}'.encode() + _END


def decode_strictly(raw: bytes) -> WireMessage:
    """Read the envelope of a scheduler's message.

    Raises ProtocolError also for unknown fields, and for unions whose type follows their value.
    """
    unknown: Unknown = []
    envelope = decode_envelope(raw, unknown)
    if unknown:
        raise fault(unknown[0], "unknown field: Batsim 5 aborts on it")
    for index, event in enumerate(msgspec.json.decode(raw.removesuffix(_END))["events"]):
        _check_unions(event, f"$.events[{index}]")
    return envelope


def _check_unions(value: Any, path: str) -> None:
    """Raise ProtocolError if a union's value precedes its type, except directly."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_unions(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    places = {name: place for place, name in enumerate(value)}
    for name, item in value.items():
        if places.get(f"{name}_type", 0) > places[name] + 1:
            raise fault(f"{path}.{name}", f"missing type field for this union value: {name}_type comes later")
        _check_unions(item, f"{path}.{name}")
