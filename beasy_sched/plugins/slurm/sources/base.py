"""Base class of measurement sources: buffering and messages."""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final

from beasy_sched.errors import InputError
from beasy_sched.plugins.slurm.readings import LONGEST_LINE, Damaged, LineReader, Quantity, Reading
from beasy_sched.run.programs import words_of

_MOST_LATER: Final = 10_000
"""Most readings kept for later; no more are read before some of them are due."""
_FORGIVEN_S: Final = 3600.0
"""Time after which a recurring problem is reported again, s."""


class Source(ABC):
    """A source of repeated readings of the production or the storage levels."""

    def __init__(self, label: str, quantity: Quantity, epoch_s: float | None) -> None:
        """``label`` names it in messages; ``epoch_s`` is that of `LineReader`."""
        self.label, self.quantity = label, quantity
        self.notes: list[str] = []
        """Notes for the user, in order; the reader clears the list."""
        self.damaged: Counter[str] = Counter()
        """Number of lines that could not be read, by the kind of error."""
        self._reader = LineReader(quantity, epoch_s)
        self._later: list[tuple[float, int, Reading]] = []
        """Readings that have not been returned, by their time and order of arrival (a heap)."""
        self._order = itertools.count()
        self._last: Reading | None = None
        self._reported_at: dict[str, float] = {}
        """Time of the report of each problem."""

    def read(self, now: float) -> Reading | None:
        """Return the newest reading that is due by ``now`` (s since 1970); None if there is no new one.

        Does not wait, and does not raise.
        """
        if len(self._later) < _MOST_LATER:
            try:
                self._look(now)
            except (OSError, InputError) as error:
                why = error.message if isinstance(error, InputError) else f"cannot be read: {words_of(error)}"
                self._trouble(now, "reading", why)
        newest = None
        while self._later and self._later[0][0] <= now:
            newest = heapq.heappop(self._later)[-1]
        last = self._last
        if newest is None or newest == last or (last is not None and newest.at < last.at <= now):
            return None
        self._last = newest
        self._forgive(now)
        return newest

    @property
    def next_s(self) -> float | None:
        """Return the time of the first later reading, s since 1970; None if there is none."""
        return self._later[0][0] if self._later else None

    @abstractmethod
    def close(self) -> None:
        """Stop everything that was started."""

    @abstractmethod
    def _look(self, now: float) -> None:
        """Take the lines that have arrived. Raises OSError and InputError if the source cannot be read."""

    def _take(self, line: bytes, now: float, written: float | None = None) -> bool:
        """Read a line, which was written at ``written``; return whether it is a reading."""
        try:
            reading = self._reader.read(line, now if written is None else written)
        except Damaged as error:
            self.damaged[error.kind] += 1
            if self.damaged[error.kind] == 1:
                self.notes.append(f"{self.label}: {error}; further such lines are ignored silently")
            return False
        if reading is not None:
            heapq.heappush(self._later, (reading.at, next(self._order), reading))
        return reading is not None

    def _trouble(self, now: float, kind: str, text: str) -> None:
        """Report a problem that may be temporary to the user, once."""
        if kind not in self._reported_at:
            self._reported_at[kind] = now
            self.notes.append(f"{self.label} {text}")

    def _forgive(self, now: float) -> None:
        self._reported_at = {
            kind: at for kind, at in self._reported_at.items() if abs(now - at) < _FORGIVEN_S
        }


class Lines:
    """Splitter of arriving bytes into lines; an incomplete line is kept until it is complete."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: LONGEST_LINE + 1]
        return lines
