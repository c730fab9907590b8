"""The decision log: one JSON object a line, one line an action, with the rule that led to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec

from beasy_sched.formats.atomic import atomic_file

_encode = msgspec.json.encode
_CHUNK = 1 << 16


class DecisionLogFile:
    """Writes ``{"time", "action", "job", "hosts", "rule"}`` lines; the file gets its name when closed."""

    def __init__(self, path: Path) -> None:
        """Begin to write beside ``path``."""
        self.path = path
        self._open = ExitStack()
        self._file = self._open.enter_context(atomic_file(path))
        self._buffer = bytearray()

    def __call__(self, time_s: float, action: str, job: str, hosts: str, rule: str) -> None:
        """Add a line; the times are simulated seconds."""
        entry = {"time": time_s, "action": action, "job": job, "hosts": hosts, "rule": rule}
        self._buffer += _encode({key: value for key, value in entry.items() if value != ""})
        self._buffer += b"\n"
        if len(self._buffer) > _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._buffer.clear()

    def close(self) -> None:
        """Finish the file and give it its name."""
        if not self._file.closed:
            self._flush()
            self._open.close()
