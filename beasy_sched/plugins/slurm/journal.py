"""The bridge's journal: its start, the actions that it requested, and the storage levels.

Everything else can be read from Slurm again. Each record is a length and a MessagePack map, appended and
written to disk at once; a record that was truncated by a crash is dropped.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import Malformed, decode_msgpack
from beasy_sched.formats.held_folder import HeldFolder, kind_of

_LENGTH: Final = struct.Struct("<I")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


class Journal:
    """A file to which records are appended; `records` are those of earlier runs."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises InputError for another file, a link or a pipe in its place."""
        try:
            with HeldFolder(path.parent) as folder:
                mode = folder.mode(path.name)
                if mode is not None and not stat.S_ISREG(mode):
                    raise InputError(path, f"is {kind_of(mode)}, expected a journal: remove it")
                self._file = folder.open(path.name, _FLAGS)
        except OSError as error:
            raise InputError(path, f"cannot be written: {error.strerror or error}") from None
        try:
            self.records, whole = _records(path, os.pread(self._file, os.fstat(self._file).st_size, 0))
            os.ftruncate(self._file, whole)
        except BaseException:
            self.close()
            raise

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record, and wait until it is on disk."""
        raw = msgspec.msgpack.encode(record)
        os.write(self._file, _LENGTH.pack(len(raw)) + raw)
        os.fsync(self._file)

    def last(self, kind: str) -> dict[str, Any] | None:
        """Return the last record of a kind from before the journal was opened."""
        return next((record for record in reversed(self.records) if record.get("kind") == kind), None)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _records(path: Path, raw: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the records, and their size in the file in bytes."""
    records: list[dict[str, Any]] = []
    at = 0
    while at + _LENGTH.size <= len(raw):
        (size,) = _LENGTH.unpack_from(raw, at)
        end = at + _LENGTH.size + size
        if end > len(raw):
            break
        try:
            records.append(decode_msgpack(raw[at + _LENGTH.size : end], dict[str, Any]))
        except Malformed:
            raise InputError(
                path, f"is not a journal file: no record at byte {at}; choose another file"
            ) from None
        at = end
    if raw and not records:
        raise InputError(path, "is not a journal file: choose another file")
    return records, at
