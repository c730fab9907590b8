"""The decision log: one JSON object a line, one line an action, with the rule that led to it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from beasy_sched.outputs.growing import GrowingFile

_encode = msgspec.json.encode
_CHUNK = 1 << 16


class DecisionLogFile:
    """Writes ``{"time", "action", "job", "hosts", "rule"}`` lines; the file gets its name when closed."""

    def __init__(self, path: Path) -> None:
        """Begin to write beside ``path``."""
        self._file = GrowingFile(path)
        self._buffer = bytearray()

    def __call__(self, time_s: float, action: str, job: str, hosts: str, rule: str) -> None:
        """Add a line; the times are simulated seconds."""
        entry = {"time": time_s, "action": action, "job": job, "hosts": hosts, "rule": rule}
        self._buffer += _encode({key: value for key, value in entry.items() if value != ""})
        self._buffer += b"\n"
        if len(self._buffer) > _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._file.write(self._buffer)
            self._buffer.clear()

    def close(self) -> Path:
        """Finish the file, give it its name, and return that."""
        self._flush()
        return self._file.close()

    def discard(self) -> None:
        """Throw away what has been written, unless it is finished."""
        self._file.discard()
