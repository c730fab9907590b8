"""Failures of hosts, for the embedded simulator: one JSON object per line.

    {"timestamp": 3600, "type": "breaks", "resources": "3"}
    {"timestamp": 7200, "type": "repaired", "resources": "3"}
    {"timestamp": 0, "type": "wakes_fail", "resources": "0-9", "percent": 20, "seed": 1}

``breaks``: from then on the hosts are out of service; what runs there fails, and those that are being woken
fail to wake. ``wakes_fail``: from then on, so many percent of the wake-ups of the hosts fail (all without
``percent``), drawn with the ``seed`` (0 without). ``repaired`` ends both.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated, Final

import msgspec

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.batsim_events import named_machines
from beasy_sched.formats.decoding import JsonDecoder, Malformed
from beasy_sched.formats.reading import read_lines
from beasy_sched.limits import LATEST_S, MOST_HOSTS_NAMED
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol.json_numbers import as_batsim_reads


class HostFailureKind(str, Enum):
    """Kinds of failures of hosts."""

    BREAKS = "breaks"
    WAKES_FAIL = "wakes_fail"
    REPAIRED = "repaired"


class HostFailure(msgspec.Struct, frozen=True):
    """One line of the file."""

    timestamp: float
    """Time of the failure, s; read as that of an event in Batsim's files."""
    kind: HostFailureKind
    hosts: HostSet
    percent: float = 100.0
    """Share of the wake-ups that fail from then on, %."""
    seed: int = 0
    where: str = ""
    """File and line, for messages."""


class _FailureLine(msgspec.Struct, forbid_unknown_fields=True):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
    type: HostFailureKind
    resources: str
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] | msgspec.UnsetType = msgspec.UNSET
    seed: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] | msgspec.UnsetType = msgspec.UNSET


_LINE: Final[JsonDecoder[_FailureLine]] = JsonDecoder(_FailureLine)


def read_failures(path: PathLike) -> list[HostFailure]:
    """Read a file of failures, in the order of time. Raises InputError with file and line."""
    failures: list[HostFailure] = []
    named = 0
    for number, line in read_lines(path):
        text = line.strip()
        if not text:
            continue
        try:
            failures.append(_failure(text, f"{os.fspath(path)}:{number}"))
        except ValueError as error:
            raise InputError(path, str(error), line=number) from None
        named += len(failures[-1].hosts)
        if named > MOST_HOSTS_NAMED:
            raise InputError(path, f"names more than {MOST_HOSTS_NAMED:,} hosts altogether", line=number)
    return sorted(failures, key=lambda failure: failure.timestamp)


def _failure(text: bytes, where: str) -> HostFailure:
    """Read one line. Raises ValueError."""
    try:
        line = _LINE.decode(text)
    except Malformed as error:
        raise ValueError(
            'a failure could not be read: expected such as {"timestamp": 3600, "type": "breaks",'
            f' "resources": "3"}} ({error})'
        ) from None
    hosts = named_machines(line.resources)
    chances = line.percent, line.seed
    if line.type is not HostFailureKind.WAKES_FAIL and chances != (msgspec.UNSET, msgspec.UNSET):
        raise ValueError(f"'percent' and 'seed' belong to 'wakes_fail', not to {line.type.value!r}")
    percent = 100.0 if line.percent is msgspec.UNSET else line.percent
    seed = 0 if line.seed is msgspec.UNSET else line.seed
    return HostFailure(as_batsim_reads(line.timestamp), line.type, hosts, percent, seed, where)
