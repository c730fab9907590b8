"""The decision log: one JSON object a line, one line an action, with the rule that led to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from beasy_sched.errors import PolicyError
from beasy_sched.formats.atomic import PartFile
from beasy_sched.policies.actions import NO_FACTS, Facts

_CHUNK = 1 << 16


class _Line(msgspec.Struct, omit_defaults=True, gc=False):
    time: float
    action: str
    job: str = ""
    hosts: str = ""
    rule: str = ""
    facts: dict[str, float | int | str] | None = None


def _plain(value: Any) -> Any:
    """A number of numpy, as a policy may hand it over, as Python's."""
    try:
        return value.item()
    except AttributeError:
        raise PolicyError(f"facts are numbers and short texts: found {value!r}") from None


_encode_into = msgspec.json.Encoder(enc_hook=_plain).encode_into


class DecisionLogFile:
    """Writes lines of time, action, job, hosts, rule and facts; the file gets its name when closed."""

    def __init__(self, path: Path) -> None:
        """Begin to write beside ``path``."""
        self._file = PartFile(path)
        self._buffer = bytearray()

    def __call__(
        self, time_s: float, action: str, job: str, hosts: str, rule: str, facts: Facts = NO_FACTS
    ) -> None:
        """Add a line; the times are simulated seconds. What is empty is left out, an infinite fact is null.

        Raises PolicyError for facts that are neither numbers nor texts.
        """
        known = (facts if type(facts) is dict else dict(facts)) if facts else None
        buffer = self._buffer
        try:
            _encode_into(_Line(time_s, action, job, hosts, rule, known), buffer, -1)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PolicyError(
                f"{action} of {job or hosts}: its rule or facts cannot be logged: {error}"
            ) from None
        buffer += b"\n"
        if len(buffer) > _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            self._file.write(self._buffer)
            self._buffer.clear()

    def close(self) -> Path:
        """Finish the file, give it its name, and return that."""
        self._flush()
        return self._file.finish()

    def discard(self) -> None:
        """Throw away what has been written, unless it is finished."""
        self._file.discard()
