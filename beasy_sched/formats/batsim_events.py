"""Batsim's external events, one JSON object per line: reading them, and writing a power profile as events."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.batsim_versions import (
    DEFAULT_EVENT_TYPE,
    event_for_batsim5,
    event_from_batsim5,
    is_generic_event,
)
from beasy_sched.formats.decoding import JSON_OBJECT, Malformed, check_names
from beasy_sched.formats.reading import read_lines
from beasy_sched.limits import LATEST_S, MOST_HOSTS_NAMED
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.json_numbers import as_batsim_reads, as_batsim_tells
from beasy_sched.protocol.notices import POWER_FIELD
from beasy_sched.structs import check_numbers, has_usual_numbers

_ORDER = {"machine_available": 0, "machine_unavailable": 1}
"""Batsim 4 sorts events of one timestamp so, and all others after these; Batsim 5 leaves their order."""
_KEPT_IN_ORDER = 16
"""Most events whose equal ones Batsim 4 keeps in order: its sort, C++'s ``std::sort``, is not stable."""


class ExternalEvent(Struct, gc=False):
    """One event of an events file."""

    timestamp: float
    kind: str
    data: dict[str, Any]
    """The line's object; its reals are as Batsim 4 prints them when it forwards the event."""
    hosts: HostSet | None = None
    """The machines of a machine event."""
    where: str = ""
    """File and line of the event, for messages."""
    text: str | None = None
    """The data of a generic event, as Batsim 5 forwards it; None in files of Batsim 4."""
    number: int = 0
    """Number of the event in its file, from 0: part of the name that Batsim 5 gives it."""


def read_external_events(
    path: PathLike, *, forward_unknown: bool = False, translate: bool = True
) -> list[ExternalEvent]:
    """Read an events file, sorted as Batsim plays it.

    Types other than ``machine_available`` and ``machine_unavailable`` need ``forward_unknown``, except for
    the generic events of Batsim 5: these become what they would be for Batsim 4 (`event_from_batsim5`),
    unless ``translate`` is False: to Batsim 4 itself they are events of one more unknown type.
    Raises InputError.
    """
    return parse_external_events(path, read_lines(path), forward_unknown, translate)


def parse_external_events(
    path: PathLike, lines: Iterable[tuple[int, bytes]], forward_unknown: bool = False, translate: bool = True
) -> list[ExternalEvent]:
    """Read numbered lines as `read_external_events` does; ``path`` names them in errors."""
    events: list[ExternalEvent] = []
    hosts = 0
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        try:
            event = _event(text, forward_unknown, f"{os.fspath(path)}:{number}", translate)
            event.number = len(events)
            hosts += 0 if event.hosts is None else len(event.hosts)
            if hosts > MOST_HOSTS_NAMED:
                raise ValueError(f"the events name more than {MOST_HOSTS_NAMED:,} hosts in total")
        except ValueError as error:
            raise InputError(path, str(error), line=number) from None
        events.append(event)
    events.sort(key=order_of_play)
    return events


def order_of_play(event: ExternalEvent) -> tuple[float, int]:
    """Sort events by this in the order in which Batsim plays those of a file."""
    return event.timestamp, _ORDER.get(event.kind, 2) if event.text is None else 0


def _decoded(line: bytes) -> dict[str, Any]:
    """Read one line, and check what every event has. Raises ValueError."""
    try:
        data = JSON_OBJECT.decode(line)
        check_names(line, len(data))
    except Malformed as error:
        message = (
            f"an event could not be parsed: expected one JSON object per line ({error});"
            " 'beasy-sched generate power' makes events of weather and power"
        )
        raise ValueError(message) from None
    if not has_usual_numbers(data):
        try:
            check_numbers(data)
        except ConfigError as error:
            raise ValueError(str(error)) from None
    kind, timestamp = data.get("type"), data.get("timestamp")
    if not isinstance(kind, str):
        raise ValueError("the event has no 'type' text")
    if isinstance(timestamp, bool) or not isinstance(timestamp, (int, float)):
        raise ValueError("the event has no 'timestamp' number")
    if timestamp < 0:
        raise ValueError(f"the event's timestamp is {timestamp:g}: expected 0 or more")
    if timestamp > LATEST_S:
        raise ValueError(f"the event's timestamp is {timestamp:g}: expected at most {LATEST_S:g} s")
    return data


def _event(line: bytes, forward_unknown: bool, where: str, translate: bool) -> ExternalEvent:
    """Read one line. Raises ValueError."""
    data = _decoded(line)
    kind, timestamp = data["type"], data["timestamp"]
    text: str | None = None
    if translate and is_generic_event(data):
        text, data = data["data"], event_from_batsim5(data)
        kind, timestamp = data["type"], data["timestamp"]
    elif kind not in _ORDER and not forward_unknown:
        raise ValueError(
            f"unknown event type {kind!r}: use --forward-unknown-events to send it to the scheduler"
        )
    else:
        data = as_batsim_tells(data)
    hosts = named_machines(data.get("resources")) if kind in _ORDER else None
    return ExternalEvent(as_batsim_reads(timestamp), kind, data, hosts, where, text)


def named_machines(text: object) -> HostSet:
    """Read the ``resources`` of an event, one machine at least. Raises ValueError."""
    with contextlib.suppress(ValueError):
        if isinstance(text, str) and len(hosts := HostSet.parse(text)):
            return hosts
    raise ValueError(f"'resources' is {text!r}: expected machine ids such as '0-3 5'")


def merge_events(files: Sequence[Sequence[ExternalEvent]]) -> list[ExternalEvent]:
    """Put the events of several files, each sorted as Batsim plays it, into the order of a run.

    Each file has its own sender, which waits from one of its timestamps to the next; of events with the
    same timestamp, those come first whose senders have waited longest.
    """
    positions = [0] * len(files)
    waiting = [(events[0].timestamp, number, number) for number, events in enumerate(files) if events]
    heapq.heapify(waiting)
    waits = len(files)
    merged: list[ExternalEvent] = []
    while waiting:
        timestamp, _, number = waiting[0]
        events, first = files[number], positions[number]
        after = first + 1
        while after < len(events) and events[after].timestamp == timestamp:
            after += 1
        merged += events[first:after]
        positions[number] = after
        if after < len(events):
            waits += 1
            heapq.heapreplace(waiting, (events[after].timestamp, waits, number))
        else:
            heapq.heappop(waiting)
    return merged


def mixed_up(events: Sequence[ExternalEvent]) -> tuple[ExternalEvent, ExternalEvent] | None:
    """Return two different events that Batsim 4 may play in another order than their file has, if any.

    ``events`` are those of one or more files, in the order of a run (`merge_events`).
    """
    for first, second in itertools.pairwise(events):
        tied = first.timestamp == second.timestamp and order_of_play(first) == order_of_play(second)
        if tied and first.text is None and first.data != second.data:
            file = _file_of(first)
            if file == _file_of(second) and sum(file == _file_of(event) for event in events) > _KEPT_IN_ORDER:
                return first, second
    return None


def _file_of(event: ExternalEvent) -> str:
    return event.where.rpartition(":")[0]


def power_event_lines(
    power_w: npt.ArrayLike,
    step_s: float,
    events_format: BatsimFormat = BatsimFormat.BATSIM4,
    rates: Mapping[str, npt.NDArray[np.float64]] | None = None,
) -> Iterator[str]:
    """One line (with its line end) per step: the power (W) from ``step * step_s`` seconds on.

    ``rates`` are further numbers of each step, by their fields: `PRICE_FIELD`, `CARBON_FIELD`, `SUN_FIELD`.
    Numbers are written so that they read back as the same doubles. Raises ValueError for a power that is
    negative or not finite.
    """
    powers = np.asarray(power_w, dtype=np.float64)
    if not np.all(np.isfinite(powers) & (powers >= 0)):
        raise ValueError("power_w must be finite and not negative")
    columns = {name: values.tolist() for name, values in (rates or {}).items()}
    for step, power in enumerate(powers.tolist()):
        parts = {POWER_FIELD: power, **{name: values[step] for name, values in columns.items()}}
        moment = round(step * step_s, 6)
        timestamp = int(moment) if moment == int(moment) else moment
        event: dict[str, Any] = {"type": DEFAULT_EVENT_TYPE, "timestamp": timestamp, **parts}
        if events_format is BatsimFormat.BATSIM5:
            event = event_for_batsim5(event)
        yield json.dumps(event) + "\n"


def event_lines_for(form: BatsimFormat, path: PathLike, data: bytes) -> Iterator[str]:
    """Convert an events file whose contents are ``data``, line by line (each with its line end).

    Lines already of that form stay unchanged. If machines leave and return, lines for Batsim 5 are in the
    order in which Batsim 4 plays them, since Batsim 5 keeps that of the file. Raises InputError.
    """
    events = [*_lines(path, data)]
    if form is BatsimFormat.BATSIM5 and any(event["type"] in _ORDER for event in events):
        events.sort(key=lambda event: (event["timestamp"], _ORDER.get(event["type"], 2)))
    for event in events:
        if form is BatsimFormat.BATSIM5:
            event = event_for_batsim5(event)
        elif is_generic_event(event):
            event = event_from_batsim5(event)
        yield json.dumps(event, ensure_ascii=False) + "\n"


def _lines(path: PathLike, data: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield _decoded(line)
        except ValueError as error:
            raise InputError(path, str(error), line=number) from None
