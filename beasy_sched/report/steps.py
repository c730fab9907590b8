"""Quantities that change at instants: counted from changes, thinned without changing their sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray


@dataclass(frozen=True)
class StepCurve:
    """A value (row i of ``values``, of shape (n,) or (n, k)) from each time to the next; n times, rising."""

    times_s: FloatArray
    values: FloatArray

    def mean_over(self, edges_s: FloatArray) -> StepCurve:
        """The time-weighted means between ``edges_s``: sums over time stay what they were.

        Before the first time the value is 0; after the last it stays.
        """
        values = self.values.reshape(len(self.times_s), -1)
        lengths_s = np.diff(self.times_s)[:, None]
        sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values[:-1] * lengths_s, axis=0)])
        at = np.searchsorted(self.times_s, edges_s, "right") - 1
        since_s = np.where(at >= 0, edges_s - self.times_s[at], 0.0)[:, None]
        reached = np.where(at[:, None] >= 0, sums[at] + values[at] * since_s, 0.0)
        means = np.diff(reached, axis=0) / np.diff(edges_s)[:, None]
        return StepCurve(edges_s[:-1], means.reshape(-1, *self.values.shape[1:]))

    def thinned(self, end_s: float, most: int) -> StepCurve:
        """Itself where it has at most ``most`` times, means over that many equal spans elsewhere."""
        if len(self.times_s) <= most or end_s <= self.times_s[0]:
            return self
        return self.mean_over(np.linspace(self.times_s[0], end_s, most + 1))


def count_changes(times_s: FloatArray, changes: FloatArray) -> StepCurve:
    """Add up ``changes`` in the order of their times; several at one time count as one."""
    at, place = np.unique(times_s, return_inverse=True)
    return StepCurve(at, np.cumsum(np.bincount(place, weights=changes, minlength=len(at))))


def last_of_each_time(times_s: FloatArray, values: FloatArray) -> StepCurve:
    """Keep the last row of each time; the times must not fall."""
    last = np.append(np.diff(times_s) > 0, True) if len(times_s) else np.zeros(0, bool)
    return StepCurve(times_s[last], values[last])
