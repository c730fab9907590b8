"""Typed reading of JSON: one decode, then each part converted with the place of any error named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from beasy_sched.errors import ProtocolError

T = TypeVar("T", bound=msgspec.Struct)


class WireEvent(msgspec.Struct):
    """The envelope that every event and decision shares."""

    timestamp: float
    type: str
    data: Any = None


class WireMessage(msgspec.Struct):
    """The envelope of a message in either direction."""

    now: float
    events: list[WireEvent]


_decoder = msgspec.json.Decoder(WireMessage)


def decode_envelope(raw: bytes) -> WireMessage:
    """Read the envelope. Raises ProtocolError with the path of the first fault."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:
        text, path = split_path(str(error))
        raise ProtocolError(path, text) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError("$", f"not JSON: {error} (it begins with {_shorten(raw)})") from None
    except RecursionError:
        raise ProtocolError("$", "nested too deeply") from None


def split_path(error: str) -> tuple[str, str]:
    """Split msgspec's ``"text - at `$.path`"`` into the text and the path."""
    text, found, path = error.rpartition(" - at `")
    return (text, path.rstrip("`")) if found else (error, "$")


def reader(kind: type[T], known: tuple[str, ...] = ()) -> Callable[[Any, str, list[str]], T]:
    """Return a function that turns a decoded object into ``kind``.

    The function takes the object, its JSON path, and a list to which it appends the paths of fields
    that ``kind`` does not have (``known`` names some more that are no surprise).
    """
    fields = frozenset(kind.__struct_encode_fields__)
    expected = fields | set(known)

    def read(data: Any, path: str, unknown: list[str]) -> T:
        try:
            value = msgspec.convert(data, kind)
        except msgspec.ValidationError as error:
            text, where = split_path(str(error))
            raise ProtocolError(path + where[1:], text) from None
        if len(data) > len(fields) or not expected.issuperset(data):
            unknown.extend(f"{path}.{name}" for name in data if name not in expected)
        return value

    return read


def _shorten(raw: bytes) -> str:
    text = repr(raw[:40])[1:]
    return text + "..." if len(raw) > 40 else text
