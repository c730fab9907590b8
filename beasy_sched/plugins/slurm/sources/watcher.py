"""Values to use while a source is silent."""

from __future__ import annotations

from beasy_sched.plugins.slurm.readings import Reading
from beasy_sched.plugins.slurm.sources.base import Source


class Watcher:
    """A source with the value to use while it is silent: the last reading for some time, then an assumption.

    For power, 0 W is assumed; for a battery, the run uses its computed state of charge.
    """

    def __init__(self, source: Source, stale_s: float, started_s: float) -> None:
        """``stale_s``: validity of a reading, s. ``started_s``: start of the run, s since 1970."""
        self.source, self.quantity, self._stale_s = source, source.quantity, stale_s
        self.is_silent = False
        """Whether the last reading is no longer valid."""
        self.notes = source.notes
        """Notes for the user; the reader clears the list."""
        self._heard_s = started_s

    def read(self, now: float) -> Reading | None:
        """Return the value from now on (`Source.read`); None if nothing has changed.

        Once the last reading is too old, the assumption is returned, once.
        """
        reading = self.source.read(now)
        before_s = self.staleness_s(now)
        if reading is not None:
            self._heard_s = reading.at
        if self.staleness_s(now) > self._stale_s:
            return None if self.is_silent else self._fall_silent(now)
        if self.is_silent and reading is not None:
            self.is_silent = False
            self.notes.append(f"{self._name} is available again after {before_s:.0f} s")
        return reading

    def staleness_s(self, now: float) -> float:
        """Seconds since the time of the last reading, or since the run began; at least 0."""
        return max(0.0, now - self._heard_s)

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    @property
    def _name(self) -> str:
        return f"the {self.quantity.name} source {self.source.label}"

    def _fall_silent(self, now: float) -> Reading | None:
        self.is_silent = True
        quantity, next_s = self.quantity, self.source.next_s
        later = f" (its next reading is for {next_s - now:.0f} s from now)" if next_s is not None else ""
        silence = f"has sent no reading for {self.staleness_s(now):.0f} s{later}"
        self.notes.append(f"{self._name} {silence}: {quantity.assumption}")
        return None if quantity.assumed is None else Reading(now, dict(quantity.assumed))
