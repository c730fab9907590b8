"""The work of one life of a job with checkpoints, and what of it is saved when the life ends early.

Work is counted in the unit of the job's profile (`profile_rest`): seconds or flops.
"""

from __future__ import annotations

import math

from msgspec import Struct

from beasy_sched.model.restarts import Checkpoints


class Saved(Struct, frozen=True, gc=False):
    """Work saved by a life."""

    work: float
    """Work that the next life continues."""
    costs: float
    """Work for which reading and writing the checkpoints counts."""
    checkpoints: int
    """Number of checkpoints written."""


class LifePlan(Struct, frozen=True, gc=False):
    """The work of one life: it reads a checkpoint, and then works and writes checkpoints in turn."""

    per_s: float
    """Work done in a second."""
    total: float
    """Work of the whole job; infinite if unknown."""
    before: float
    """Work that the lives before have saved."""
    checkpoints: Checkpoints | None
    """Checkpoints of the job; None if it writes none."""

    @property
    def left(self) -> float:
        """Work that the lives before have not saved."""
        return max(self.total - self.before, 0.0)

    @property
    def read(self) -> float:
        """Work for which reading the checkpoint at the start counts: 0 if there is none."""
        return self.checkpoints.read_s * self.per_s if self.checkpoints is not None and self.before else 0.0

    @property
    def dumps(self) -> int:
        """Number of checkpoints that the life writes if it ends by itself: none at its end."""
        if self.checkpoints is None or math.isinf(self.left):
            return 0
        return max(math.ceil(self.left / (self.checkpoints.interval_s * self.per_s)) - 1, 0)

    @property
    def costs(self) -> float:
        """Work for which reading and writing all its checkpoints counts."""
        return self.read + self._dump * self.dumps

    @property
    def _dump(self) -> float:
        return 0.0 if self.checkpoints is None else self.checkpoints.dump_s * self.per_s

    def saved(self, done: float, noticed: float | None = None) -> Saved:
        """Return what is saved if the life ends when ``done`` of its work, costs included, are done.

        ``noticed``: work done when the end was announced, if it was early enough for a last checkpoint.
        """
        read = min(done, self.read)
        if self.checkpoints is None:
            return Saved(0.0, read, 0)
        each = self.checkpoints.interval_s * self.per_s
        count, _ = self._written(done, each)
        work = count * each
        if noticed is not None:
            before, since = self._written(noticed, each)
            if before * each + since > work:
                count, work = before + 1, before * each + since
        return Saved(min(work, self.left), read + count * self._dump, count)

    @classmethod
    def of_life(cls, per_s: float, before: float, checkpoints: Checkpoints | None, work: float) -> LifePlan:
        """Return the plan of a life that takes ``work`` altogether, with reading and writing checkpoints."""
        unknown = cls(per_s, math.inf, before, checkpoints)
        if checkpoints is None:
            return cls(per_s, before + work, before, None)
        each = checkpoints.interval_s * per_s
        count, since = unknown._written(work, each)
        return cls(per_s, before + count * each + since, before, checkpoints)

    def _written(self, done: float, each: float) -> tuple[int, float]:
        """Return the number of checkpoints written by then, and the work done since the last one."""
        inside = max(done - self.read, 0.0)
        cycle = each + self._dump
        count = int(inside // cycle)
        if not math.isinf(self.left):
            count = min(count, self.dumps)
        return count, min(inside - count * cycle, each)
