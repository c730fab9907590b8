"""Running jobs as the policies look ahead on them: until when, on how many hosts, at what power."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray

_END, _KEY, _EXTRA_W, _HOSTS = range(4)


class Commitments:
    """Rows (latest end, extra power, hosts), sorted by end."""

    def __init__(self) -> None:
        """None yet."""
        self._rows: FloatArray = np.empty((4, 0))
        self._at: dict[str, tuple[float, float]] = {}
        self._keys = 0.0

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._at

    def add(self, job_id: str, end_s: float, extra_w: float, hosts: int) -> None:
        """Add a job that runs until ``end_s`` at the latest; it replaces what was known of it."""
        if job_id in self._at:
            self.remove(job_id)
        self._keys += 1
        self._at[job_id] = (end_s, self._keys)
        place = int(self.end_s.searchsorted(end_s, side="right"))
        self._rows = np.insert(self._rows, place, (end_s, self._keys, extra_w, hosts), axis=1)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is known."""
        end_s, key = self._at.pop(job_id, (0.0, 0.0))
        if not key:
            return
        first = int(self.end_s.searchsorted(end_s))
        place = first + int(np.flatnonzero(self._rows[_KEY, first:] == key)[0])
        self._rows = np.delete(self._rows, place, axis=1)

    def recount(self, job_id: str, hosts: int) -> None:
        """Correct how many hosts a job will leave to others."""
        end_s, key = self._at[job_id]
        first = int(self.end_s.searchsorted(end_s))
        self._rows[_HOSTS, first + int(np.flatnonzero(self._rows[_KEY, first:] == key)[0])] = hosts

    @property
    def end_s(self) -> FloatArray:
        """Latest ends, rising, s."""
        ends: FloatArray = self._rows[_END]
        return ends

    @property
    def extra_w(self) -> FloatArray:
        """What each job adds to its hosts' power at rest, W."""
        powers: FloatArray = self._rows[_EXTRA_W]
        return powers

    @property
    def hosts(self) -> FloatArray:
        """How many hosts each job has."""
        hosts: FloatArray = self._rows[_HOSTS]
        return hosts
