"""The bridge's journal: when it began, what it asked of the cluster, and what the storage held.

All else can be read from Slurm again. Each record is a length and a MessagePack map, appended and written to
disk at once; a record that a crash has cut is dropped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from beasy_sched.errors import InputError
from beasy_sched.formats.reading import read_bytes

_LENGTH: Final = struct.Struct("<I")


class Journal:
    """Appends records to a file; `records` are those that were there before."""

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it. Raises InputError for a file that is no journal."""
        raw = read_bytes(path) if path.exists() else b""
        self.records, whole = _records(path, raw)
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # closed by close()
            self._file.truncate(whole)
        except OSError as error:
            raise InputError(path, f"cannot be written: {error.strerror or error}") from None

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record, and wait until the disk has it."""
        raw = msgspec.msgpack.encode(record)
        self._file.write(_LENGTH.pack(len(raw)) + raw)
        os.fsync(self._file.fileno())

    def last(self, kind: str) -> dict[str, Any] | None:
        """Return the last record of a kind that was there when the journal was opened."""
        return next((record for record in reversed(self.records) if record.get("kind") == kind), None)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _records(path: Path, raw: bytes) -> tuple[list[dict[str, Any]], int]:
    """The records, and how many bytes of the file they take."""
    found: list[dict[str, Any]] = []
    at = 0
    while at + _LENGTH.size <= len(raw):
        (size,) = _LENGTH.unpack_from(raw, at)
        end = at + _LENGTH.size + size
        if end > len(raw):
            break
        try:
            found.append(msgspec.msgpack.decode(raw[at + _LENGTH.size : end], type=dict[str, Any]))
        except msgspec.MsgspecError:
            raise InputError(path, f"is no journal: byte {at} begins no record; name another file") from None
        at = end
    if raw and not found:
        raise InputError(path, "is no journal: name another file")
    return found, at
