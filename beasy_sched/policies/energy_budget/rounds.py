"""Algorithm 2 of the paper: EASY backfilling that also asks whether the energy suffices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.job import Job
from beasy_sched.policies.energy_budget.choice import Choice
from beasy_sched.policies.energy_budget.projection import EnergyTest
from beasy_sched.policies.orders import Places
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S


class JobCost(Struct, frozen=True):
    """What one more host costs a job, at most, whichever host that is."""

    power_w: float
    """What a job adds to a resting host's power."""
    switching_j: float
    """Energy of switching the host off again."""
    lead_s: float
    """How long a host may need to wake."""

    def extra_w(self, res: FloatArray, lasts_s: FloatArray) -> FloatArray:
        """Power that jobs add; the switching is spread over their time."""
        extra: FloatArray = res * (self.power_w + self.switching_j / np.maximum(lasts_s, TIME_TOLERANCE_S))
        return extra


FREE = JobCost(0.0, 0.0, 0.0)
"""Where there is no budget."""


def admitted(
    energy: EnergyTest, cost: JobCost, now: float, res: IntArray, walltime_s: FloatArray
) -> BoolArray:
    """Tell for which jobs the energy suffices now, whatever hosts are free."""
    lasts_s, hosts = walltime_s + cost.lead_s, res.astype(np.float64)
    return energy.admits(cost.extra_w(hosts, lasts_s), now + lasts_s, hosts)


def suffices(energy: EnergyTest | None, cost: JobCost, now: float, job: Job) -> bool:
    """Tell whether the energy suffices for one job."""
    if energy is None:
        return True
    return bool(admitted(energy, cost, now, np.array([job.res]), np.array([job.walltime_s]))[0])


class Blocked(Struct, frozen=True):
    """The first job that cannot start, and what it is promised."""

    job: Job
    lacks_energy: bool
    """Whether it has hosts, but no energy."""
    refused: bool = False
    """Whether it was refused only when its hosts were known: by the guard, or for what the others draw."""
    ready_s: float = np.inf
    """When it will have its hosts, by walltimes."""
    begin_s: float = np.inf
    """When it will have its energy, too: from then on hosts wake for it."""
    start_s: float = np.inf
    """When it starts at the latest; infinite if that is not known."""
    reserved: float = 0.0
    """What is reserved for it, J (or W under a power limit)."""


class Round:
    """One pass over the queue."""

    def __init__(
        self,
        view: View,
        choice: Choice,
        energy: EnergyTest | None,
        cost: JobCost,
        grant: Callable[[Job, HostIds, int, Blocked | None], bool],
        barred: set[str],
    ) -> None:
        """``grant`` starts a job on hosts of so many free ones, or refuses; ``barred`` jobs have theirs."""
        self._view, self._choice, self._energy, self._cost = view, choice, energy, cost
        self._grant = grant
        self._barred = barred
        self.blocked: Blocked | None = None

    def run_heads(self) -> None:
        """Start jobs in order of arrival, until one lacks hosts or energy."""
        for job in self._view.queue:
            if job.id in self._barred:
                continue
            fits = self._choice.fits(job)
            if not fits or not suffices(self._energy, self._cost, self._view.now, job):
                self.blocked = Blocked(job, lacks_energy=fits)
                return
            if not self._start(job, late=False):
                self.blocked = Blocked(job, lacks_energy=self._energy is not None, refused=True)
                return

    def _start(self, job: Job, *, late: bool) -> bool:
        free = self._choice.free
        hosts = self._choice.take(job, late)
        if not self._grant(job, hosts, free, self.blocked):
            self._choice.give_back(hosts, late)
            return False
        self._barred.add(job.id)
        return True

    def reserve(self, keep: Callable[[float, float, float], float]) -> None:
        """Promise hosts and energy to the first job that cannot start.

        ``keep`` sets energy aside for a job: it is told from when, the power added, and for how long, and
        returns how much that is.
        """
        assert self.blocked is not None
        job, now, lead_s = self.blocked.job, self._view.now, self._cost.lead_s
        ready_s = self._choice.earliest(job)
        begin_s = max(now, ready_s - lead_s)
        reserved = 0.0
        start_s = ready_s
        if self._energy is not None and np.isfinite(ready_s):
            lasts_s = job.walltime_s + lead_s
            extra_w = float(self._cost.extra_w(np.array([float(job.res)]), np.array([lasts_s]))[0])
            begin_s = self._energy.earliest(begin_s, extra_w, lasts_s)
            start_s = max(ready_s, begin_s + lead_s)
            reserved = keep(begin_s, extra_w, start_s - begin_s + job.walltime_s)
        self._choice.reserve(job, start_s)
        lacks_energy, refused = self.blocked.lacks_energy, self.blocked.refused
        self.blocked = Blocked(job, lacks_energy, refused, ready_s, begin_s, start_s, reserved)

    def backfill(self) -> None:
        """Start every other job that does not delay the reservation, in order of arrival."""
        if self.blocked is None or not self._choice.free:
            return
        self._barred.add(self.blocked.job.id)
        queue = self._view.queue
        places = self._fitting(np.flatnonzero(queue.res <= self._choice.free))
        tried = 0
        while tried < len(places):
            job = queue.at(int(places[tried]))
            tried += 1
            late = bool(self._late(np.array([job.walltime_s]))[0])
            if job.id not in self._barred and self._start(job, late=late):
                places, tried = self._fitting(places[tried:]), 0

    def _late(self, walltime_s: FloatArray) -> BoolArray:
        """Tell which jobs would run past the reservation's start."""
        assert self.blocked is not None
        ends_s = self._view.now + self._cost.lead_s + walltime_s
        late: BoolArray = ends_s > self.blocked.start_s + TIME_TOLERANCE_S
        return late

    def _fitting(self, places: Places) -> Places:
        """Return those places whose job fits now: its hosts, its energy, the reservation."""
        queue = self._view.queue
        res, walltime_s = queue.res[places], queue.walltime_s[places]
        fits = self._choice.fitting(res, self._late(walltime_s))
        places = places[fits]
        if self._energy is None or not len(places):
            return places
        return places[admitted(self._energy, self._cost, self._view.now, res[fits], walltime_s[fits])]
