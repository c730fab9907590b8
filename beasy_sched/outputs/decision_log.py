"""The decision log: one JSON object a line, one line an action, with the rule that led to it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from beasy_sched.outputs.growing import GrowingFile
from beasy_sched.policies.actions import NO_FACTS, Facts

_encode = msgspec.json.encode
_CHUNK = 1 << 16


class DecisionLogFile:
    """Writes lines of time, action, job, hosts, rule and facts; the file gets its name when closed."""

    def __init__(self, path: Path) -> None:
        """Begin to write beside ``path``."""
        self._file = GrowingFile(path)
        self._buffer = bytearray()

    def __call__(
        self, time_s: float, action: str, job: str, hosts: str, rule: str, facts: Facts = NO_FACTS
    ) -> None:
        """Add a line; the times are simulated seconds. What is empty is left out."""
        entry: dict[str, object] = {"time": time_s}
        texts = {"action": action, "job": job, "hosts": hosts, "rule": rule}
        entry.update((key, value) for key, value in texts.items() if value)
        if facts:
            entry["facts"] = dict(facts)
        self._buffer += _encode(entry)
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
