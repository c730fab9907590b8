"""Services: load that always runs in addition to jobs, such as storage, network, interactive services.

They are not jobs: they are served first, and compete with jobs for energy. A file gives their power over
time, which holds for each interval (`Signal`) or is a straight line between its values (`Line`).
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.grid import Rate


class Line(Rate):
    """`Rate` that is a straight line between its values."""

    def __init__(self, times_s: FloatArray, values: FloatArray) -> None:
        """Pass through ``values[i]`` at ``times_s[i]`` (s); the last value holds for one interval more.

        Raises ValueError unless there are two times at least, they ascend, and the values are finite.
        """
        times, given = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
        if times.shape != given.shape or len(times) < 2 or not np.all(np.diff(times) > 0.0):
            raise ValueError("times_s: expected at least two ascending times, as many as the values")
        if not np.all(np.isfinite(given)):
            raise ValueError("values: expected finite numbers")
        self.times_s = np.append(times, 2.0 * times[-1] - times[-2])
        self.values = np.append(given, given[-1])
        widths_s = np.diff(self.times_s)
        means = 0.5 * (self.values[1:] + self.values[:-1])
        self._integral = np.concatenate(([0.0], np.cumsum(means * widths_s)))

    def means(self, edges_s: FloatArray) -> FloatArray:
        """Return the means between ``edges_s``: the value in the middle, within one piece of the line."""
        edges = np.clip(np.asarray(edges_s, dtype=np.float64), self.times_s[0], self.times_s[-1])
        middles = np.interp(0.5 * (edges[1:] + edges[:-1]), self.times_s, self.values)
        first = self.times_s.searchsorted(edges[:-1], side="right")
        last = self.times_s.searchsorted(edges[1:], side="left")
        whole = np.diff(edges) > 0.0
        mixed = np.divide(np.diff(self._until(edges)), np.diff(edges), out=middles.copy(), where=whole)
        return np.asarray(np.where(first >= last, middles, mixed))

    @property
    def span_s(self) -> tuple[float, float]:
        """The first time, and one interval after the last."""
        return float(self.times_s[0]), float(self.times_s[-1])

    def _until(self, times_s: FloatArray) -> FloatArray:
        """Return the integral from the first time to each of ``times_s``."""
        place = np.clip(self.times_s.searchsorted(times_s, side="right") - 1, 0, len(self.times_s) - 2)
        since_s = times_s - self.times_s[place]
        mean = 0.5 * (self.values[place] + np.interp(times_s, self.times_s, self.values))
        return np.asarray(self._integral[place] + since_s * mean)
