"""Wire format common to all protocol versions: Batsim's JSON, and endpoints.

A message is decoded once, then each part is converted; errors name the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

import msgspec

from beasy_sched.errors import ProtocolError
from beasy_sched.limits import LONGEST_NAME, MOST_HOSTS_NAMED, MOST_UNKNOWN, shortened
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet

T = TypeVar("T", bound=msgspec.Struct)
Read = TypeVar("Read")

Unknown = list[str]
"""Paths of unknown fields, collected while a message is read."""


class WireEvent(msgspec.Struct):
    """Envelope of every event and decision, with the field names of Batsim 4."""

    timestamp: float
    type: str
    data: Any = None


class WireMessage(msgspec.Struct):
    """Envelope of a message in either direction."""

    now: float
    events: list[WireEvent]


class Envelope:
    """Reads the envelope of a protocol's messages; ``event`` has the fields of `WireEvent`, by its names."""

    def __init__(self, event: type[msgspec.Struct] = WireEvent) -> None:
        self._event = event
        strict_event = msgspec.defstruct("_StrictEvent", [], bases=(event,), forbid_unknown_fields=True)
        fields = [("now", float), ("events", list[event])]  # type: ignore[valid-type]
        strict_fields = [("now", float), ("events", list[strict_event])]  # type: ignore[valid-type]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("_Message", fields)).decode
        self._decode_strictly = msgspec.json.Decoder(
            msgspec.defstruct("_StrictMessage", strict_fields, forbid_unknown_fields=True)
        ).decode

    def decode(self, raw: bytes, unknown: Unknown) -> WireMessage:
        """Read the envelope, and append the paths of unknown fields to ``unknown``.

        Raises ProtocolError with the path of the first fault.
        """
        try:
            return self._decode_strictly(raw)  # type: ignore[return-value]  # the same fields
        except (msgspec.MsgspecError, UnicodeDecodeError):
            message: WireMessage = _explained(self._decode, raw)
        whole = _explained(msgspec.json.decode, raw)
        places: list[tuple[str, Any, type[msgspec.Struct]]] = [("$", whole, WireMessage)]
        places += [(f"$.events[{index}]", event, self._event) for index, event in enumerate(whole["events"])]
        for path, data, kind in places:
            expected = kind.__struct_encode_fields__
            unknown.extend(field_path(path, name) for name in data if name not in expected)
        return message


def _explained(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        text, path = split_path(str(error))
        raise fault(path, text) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        start = repr(raw[:40])[1:] + "..." * (len(raw) > 40)
        what = f"not JSON: {error} (it starts with {start})" if raw else "it is empty"
        raise fault("$", what) from None


def refuses_depth(decode: Callable[[bytes], Read]) -> Callable[[bytes], Read]:
    """Make a decoder raise ProtocolError if a message is nested too deeply to be read."""

    @wraps(decode)
    def guarded(raw: bytes) -> Read:
        try:
            return decode(raw)
        except RecursionError:
            raise fault("$", "nested too deeply") from None

    return guarded


def fault(path: str, text: str) -> ProtocolError:
    """Return the error for ``path``; a very long ``text`` is shortened, and kept on one line."""
    short = shortened(text)
    if not short.isprintable():
        short = "".join(each if each.isprintable() else repr(each)[1:-1] for each in short)
    return ProtocolError(path, short)


def split_path(error: str) -> tuple[str, str]:
    """Split msgspec's ``"text - at `$.path`"`` into the text and the path."""
    text, separator, path = error.rpartition(" - at `")
    return (text, path.rstrip("`")) if separator else (error, "$")


def field_path(path: str, name: str) -> str:
    """Return the path of a field, with its name quoted unless it is a plain identifier."""
    if len(name) <= LONGEST_NAME and name.isidentifier():
        return f"{path}.{name}"
    return f"{path}[{name[:LONGEST_NAME]!r}]"


def convert_at(data: Any, kind: type[T], path: str) -> T:
    """Turn a decoded object into ``kind``. Raises ProtocolError with the position below ``path``."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        text, where = split_path(str(error))
        raise fault(path + where[1:], text) from None


def reader(kind: type[T], more_fields: Iterable[str] = ()) -> Callable[[Any, str, Unknown], T]:
    """Return a function that turns a decoded object into ``kind``.

    The function takes the object, its JSON path, and a list to which it appends the paths of fields
    that ``kind`` does not have (except those in ``more_fields``).
    """
    expected = frozenset(kind.__struct_encode_fields__).union(more_fields)

    def read(data: Any, path: str, unknown: Unknown) -> T:
        value = convert_at(data, kind, path)
        if not expected.issuperset(data):
            unknown.extend(field_path(path, name) for name in data if name not in expected)
        return value

    return read


_encode = msgspec.json.encode


def dump(value: Any, real: Callable[[float], str] = "{:.6f}".format) -> str:
    """Write a JSON value like Batsim: reals by ``real``, with six decimals by default.

    Raises ValueError for NaN and infinities, which JSON does not allow.
    """
    if isinstance(value, str) or value is None or value is True or value is False:
        return _encode(value).decode()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be written as JSON")
        return real(value)
    if isinstance(value, Mapping):
        fields = (f"{_encode(str(name)).decode()}:{dump(item, real)}" for name, item in value.items())
        return "{" + ",".join(fields) + "}"
    return "[" + ",".join(dump(item, real) for item in value) + "]"


# --- sets of hosts ---


def read_hosts(text: str, path: str, *, some: bool = False) -> HostSet:
    """Read ``"0-3 5"``; with ``some``, an empty set is an error. Raises ProtocolError."""
    try:
        hosts = HostSet.parse(text)
    except ValueError as error:
        raise fault(path, str(error)) from None
    if some and not len(hosts):
        raise fault(path, "found no hosts, expected intervals such as '0-3 5'")
    return hosts


def add_hosts(count: int, part: e.Event | d.Decision, path: str) -> int:
    """Add the hosts named by an event or a decision to the total of its message.

    Raises ProtocolError above the limit.
    """
    if isinstance(part, e.JobCompleted | d.ExecuteJob):
        count += len(part.alloc)
    elif isinstance(part, e.ResourceStateChanged | d.SetResourceState):
        count += len(part.resources)
    if count > MOST_HOSTS_NAMED:
        raise fault(path, f"the message names more than {MOST_HOSTS_NAMED:,} hosts in total")
    return count


ReadEvent = Callable[[float, Any, str, Unknown], e.Event | None]
"""Function that makes an event of its timestamp and data, with the path in the message; unknown fields are
appended. None: it is not a typed event."""


def read_message(
    envelope: WireMessage, readers: Mapping[str, ReadEvent], member: str, unknown: Unknown
) -> e.Message:
    """Read the events of a message: ``readers`` of each type read their ``member``. Raises ProtocolError."""
    events: list[e.Event] = []
    hosts = 0
    for index, event in enumerate(envelope.events):
        read = readers.get(event.type)
        path = f"$.events[{index}].{member}"
        decoded = None if read is None else read(event.timestamp, event.data, path, unknown)
        if decoded is None:
            decoded = e.UnknownEvent(event.timestamp, shortened(event.type), event.data)
        events.append(decoded)
        hosts = add_hosts(hosts, decoded, path)
    return e.Message(envelope.now, events, tuple(unknown[: MOST_UNKNOWN + 1]))


_LONGEST_TIME_S = 1e300
"""Integer limit of times, because JSON integers may have any length."""


def check_submission(subtime_s: float, path: str) -> None:
    """Raise ProtocolError unless this can be the time of a submission."""
    if not -_LONGEST_TIME_S < subtime_s < _LONGEST_TIME_S:
        raise fault(path, f"found {subtime_s}, expected a time")


def read_walltime(told_s: float | int | None, path: str, none: str) -> float | int | None:
    """Return a job's walltime, None if it is -1 or None; errors name ``none`` for that.

    Raises ProtocolError.
    """
    walltime = None if told_s == -1 else told_s
    if walltime is not None and not 0 < walltime < _LONGEST_TIME_S:
        raise fault(path, f"found {walltime}, expected more than 0, or {none}")
    return walltime


ReadDecision = Callable[[float, Any, str], d.Decision]
"""Function that makes a decision of its timestamp and data; the string is their path in the message."""


def read_reply(
    envelope: WireMessage, reader: Callable[[WireMessage, int, str], ReadDecision], member: str
) -> d.Reply:
    """Read the decisions of a reply: ``reader`` checks each event, and returns what reads its ``member``.

    Raises ProtocolError.
    """
    decisions: list[d.Decision] = []
    hosts = 0
    for index, event in enumerate(envelope.events):
        path = f"$.events[{index}]"
        decision = reader(envelope, index, path)(event.timestamp, event.data, f"{path}.{member}")
        decisions.append(decision)
        hosts = add_hosts(hosts, decision, path)
    return d.Reply(envelope.now, decisions)


# --- ZeroMQ endpoints, such as ``tcp://*:28000`` or ``tcp://[::1]:28000`` ---

_LARGEST_PORT = 65535


def endpoint_problem(endpoint: str, *, any_port: bool) -> str | None:
    """Return the problem of an endpoint that ZeroMQ would misread, or None.

    ZeroMQ reads the leading digits of a port and takes them modulo 65536. ``any_port`` allows 0 and ``*``
    for any free port, as when listening.
    """
    transport, _, place = endpoint.partition("://")
    if transport == "inproc":
        return "it is not reachable by other processes"
    if transport != "tcp":
        return None
    host, _, port = place.rpartition(":")
    if any_port and port == "*":
        return None
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 10 else None
    if number is None:
        return f"its port, {port[:40]!r}, is not a number"
    if number > _LARGEST_PORT:
        return f"ports go up to {_LARGEST_PORT}"
    if number == 0 and not any_port:
        return "port 0 cannot be connected to"
    if ":" in host.rpartition(";")[2] and not host.endswith("]"):
        return "an IPv6 address must be in brackets: tcp://[::1]:28000"
    return None


def is_ipv6(endpoint: str) -> bool:
    """Whether an endpoint has an IPv6 address, which sockets support only if enabled."""
    return endpoint.startswith("tcp://[") or ";[" in endpoint


def reachable(endpoint: str) -> str:
    """Return the endpoint to connect to, on this machine, for a socket bound to ``endpoint``."""
    return endpoint.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def is_open_to_all(endpoint: str) -> bool:
    """Whether a socket bound to ``endpoint`` listens on every network interface."""
    return endpoint != reachable(endpoint)
