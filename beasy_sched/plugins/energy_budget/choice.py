"""Choice of hosts for jobs, and the time when enough hosts will be free for the first waiting job."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.plugins.energy_budget.projection import Commitments
from beasy_sched.policies.planned.working_plan import runs_of_true
from beasy_sched.units import TIME_TOLERANCE_S


class Fleet:
    """State of hosts beyond the view: their jobs, until when, and which hosts are kept awake."""

    def __init__(self, view: View, switches: bool) -> None:
        """``switches``: whether idle hosts are switched off, so that jobs can be given sleeping ones."""
        size = view.platform.size
        self.switches = switches
        self.jobs = Commitments()
        """Jobs that have hosts."""
        self.claims: dict[Job, HostIds] = {}
        """Hosts of jobs that wait for some of them to wake."""
        self.kept: BoolArray = np.zeros(size, dtype=np.bool_)
        """Hosts that stay on or wake for the first waiting job."""
        self.taken: BoolArray = np.zeros(size, dtype=np.bool_)
        """Hosts of the jobs that start in the current decision."""
        self._end_s: FloatArray = np.zeros(size)
        self._view = view
        model = view.power_model
        self._on_s, self._off_s = float(model.on_s.max(initial=0.0)), float(model.off_s.max(initial=0.0))

    @property
    def lead_s(self) -> float:
        """Maximum time until a host is on, s."""
        if not self.switches:
            return 0.0
        return self._on_s + (self._off_s if self._view.state_counts[:, SWITCHING_OFF].any() else 0.0)

    def usable(self) -> BoolArray:
        """Return the mask of hosts that a job can be given, including sleeping ones that it may wake."""
        free = self._view.free_mask()
        if not self.switches:
            return free
        sleeping = (self._view.host_state >= ASLEEP) & self._view.available
        return (free | sleeping) & ~(self.claimed | self.taken)

    def idle_now(self, hosts: HostIds) -> BoolArray:
        """Whether each of some usable hosts is on."""
        return np.asarray(self._view.host_state[hosts] == IDLE)

    def commit(self, job: Job, hosts: HostIds, end_s: float, extra_w: float) -> None:
        """Record that a job has ``hosts`` until ``end_s`` at the latest and adds ``extra_w`` of power."""
        self.jobs.add(job.id, end_s, extra_w, len(hosts))
        self._end_s[hosts] = end_s

    @property
    def claimed(self) -> BoolArray:
        """The mask of all claimed hosts."""
        mask = np.zeros(len(self.kept), dtype=np.bool_)
        for hosts in self.claims.values():
            mask[hosts] = True
        return mask

    def free_at(self, usable: BoolArray) -> FloatArray:
        """Return when each host can be given to a job, by walltimes, s; infinite if unknown."""
        view = self._view
        busy = (view.host_state == BUSY) | self.claimed | self.taken
        times = np.where(busy & view.available, self._end_s, np.inf)
        times[usable] = view.now
        return times


class AnyHosts:
    """Choice of any hosts: those that are on first, then the faster ones, then the lower ids."""

    def __init__(self, view: View, fleet: Fleet) -> None:
        """Read the current state of the hosts."""
        self._view, self._fleet = view, fleet
        self.free = int(np.count_nonzero(self._usable)) if fleet.switches else view.free_count
        """Number of hosts that can still be given to a job."""
        self._extra = 0
        self._needs = 0

    @cached_property
    def _usable(self) -> BoolArray:
        return self._fleet.usable()

    @cached_property
    def _idle(self) -> BoolArray:
        """The usable hosts that are on."""
        if not self._fleet.switches:
            return self._usable
        return np.asarray(self._usable & (self._view.host_state == IDLE))

    def fits(self, job: Job) -> bool:
        """Whether there are enough hosts for ``job`` now."""
        return job.res <= self.free

    def take(self, job: Job, late: bool) -> HostIds:
        """Give hosts to a job that fits; a ``late`` job does not get hosts that the reservation needs."""
        ids = self._pick(job.res)
        self._usable[ids] = self._idle[ids] = False
        self.free -= job.res
        if late:
            self._extra -= job.res
        return ids

    def give_back(self, hosts: HostIds, late: bool) -> None:
        """Undo `take` for a job that does not start."""
        self._usable[hosts] = True
        self._idle[hosts] = self._fleet.idle_now(hosts)
        self.free += len(hosts)
        if late:
            self._extra += len(hosts)

    def _pick(self, count: int) -> HostIds:
        """Choose hosts, preferably those that need not wake."""
        first = self._view.fastest(self._idle, count).ids
        if len(first) == count:
            return first
        return np.union1d(first, self._view.fastest(self._usable & ~self._idle, count - len(first)).ids)

    def earliest(self, job: Job) -> float:
        """Return when there will be enough hosts for ``job``, by walltimes, s; infinite for never."""
        need = job.res - self.free
        if need <= 0:
            return self._view.now
        times_s, freed = self._releases()
        place = int(freed.searchsorted(need))
        return float(times_s[place]) if place < len(freed) else np.inf

    def _releases(self) -> tuple[FloatArray, FloatArray]:
        """Return the times at which hosts become free, and their cumulative number."""
        times_s, hosts = self._fleet.jobs.end_s, self._fleet.jobs.hosts
        wakes = [] if self._fleet.switches else self._view.wakes
        if wakes:
            waking = np.array(wakes, dtype=np.float64)
            times_s, hosts = np.concatenate((times_s, waking[:, 0])), np.concatenate((hosts, waking[:, 1]))
            order = np.argsort(times_s, kind="stable")
            times_s, hosts = times_s[order], hosts[order]
        return times_s, np.cumsum(hosts)

    def reserve(self, job: Job, at_s: float) -> None:
        """Reserve hosts for ``job`` from ``at_s`` on, which is not before `earliest`."""
        if np.isinf(at_s):
            self._extra = self._needs = self.free
            return
        times_s, freed = self._releases()
        by_then = int(times_s.searchsorted(at_s + TIME_TOLERANCE_S, side="right"))
        released = int(freed[by_then - 1]) if by_then else 0
        self._extra = self.free + released - job.res
        self._needs = max(0, job.res - released)

    def fitting(self, res: IntArray, late: BoolArray) -> BoolArray:
        """Whether each job fits now; ``late`` ones must leave the reservation its hosts."""
        return (res <= self.free) & (~late | (res <= self._extra))

    def reserved(self) -> HostIds:
        """Return the hosts that the reservation needs and that are usable now."""
        return self._pick(min(self._needs, self.free))


class ContiguousHosts:
    """Choice of hosts with consecutive numbers: the first run of free ones that is long enough."""

    def __init__(self, view: View, fleet: Fleet) -> None:
        """Read the current state of the hosts."""
        self._fleet = fleet
        self._usable = fleet.usable()
        self.free = int(np.count_nonzero(self._usable))
        self._reserved = slice(0)
        self._runs = _Runs(self._usable)
        self._outside: _Runs | None = None

    def fits(self, job: Job) -> bool:
        """Whether a run of free hosts is long enough."""
        return job.res <= self._runs.longest

    def take(self, job: Job, late: bool) -> HostIds:
        """Give the first hosts of the first run that is long enough."""
        first = (self._outside_runs() if late else self._runs).cut(job.res)
        ids = np.arange(first, first + job.res)
        self._usable[ids] = False
        self.free -= job.res
        if late:
            self._runs = _Runs(self._usable)
        else:
            self._outside = None
        return ids

    def give_back(self, hosts: HostIds, late: bool) -> None:
        """Put hosts back."""
        self._usable[hosts] = True
        self.free += len(hosts)
        self._runs, self._outside = _Runs(self._usable), None

    def earliest(self, job: Job) -> float:
        """Find the consecutive hosts that will all be free earliest."""
        self._best, at_s = earliest_window(self._fleet.free_at(self._usable), job.res)
        return at_s

    def reserve(self, job: Job, at_s: float) -> None:
        """Reserve the hosts that `earliest` found."""
        self._reserved = slice(0) if np.isinf(at_s) else slice(self._best, self._best + job.res)
        self._outside = None

    def _outside_runs(self) -> _Runs:
        """Return the runs without the reserved hosts."""
        if self._outside is None:
            outside = self._usable.copy()
            outside[self._reserved] = False
            self._outside = _Runs(outside)
        return self._outside

    def fitting(self, res: IntArray, late: BoolArray) -> BoolArray:
        """Whether each job fits; late ones must stay outside the reserved hosts."""
        longest = self._runs.longest
        if not late.any():
            return np.asarray(res <= longest)
        return res <= np.where(late, self._outside_runs().longest, longest)

    def reserved(self) -> HostIds:
        """Return the reserved hosts that are usable."""
        return (self._reserved.start or 0) + np.flatnonzero(self._usable[self._reserved])


HostChoice = AnyHosts | ContiguousHosts
"""The usable hosts of one scheduling pass."""


class _Runs:
    """Runs of free hosts with consecutive numbers."""

    def __init__(self, mask: BoolArray) -> None:
        self._starts, ends = runs_of_true(mask)
        self._lengths = ends - self._starts

    @property
    def longest(self) -> int:
        """Length of the longest run."""
        return int(self._lengths.max(initial=0))

    def cut(self, count: int) -> int:
        """Take ``count`` hosts from the first run that is long enough; return the first of them."""
        place = int(np.argmax(self._lengths >= count))
        first = int(self._starts[place])
        self._starts[place] += count
        self._lengths[place] -= count
        return first


def earliest_window(free_at_s: FloatArray, width: int) -> tuple[int, float]:
    """Find the first of the ``width`` consecutive hosts that are all free earliest, and the time, s.

    A window is free earlier than the one before it only where a run of equal times begins, so that only these
    are compared: each by the maximum of its runs, from a table of the maxima of 1, 2, 4, ... runs.
    """
    size = len(free_at_s)
    if width > size:
        return 0, np.inf
    changes = (free_at_s[1:] != free_at_s[:-1]).nonzero()[0]
    begins = np.zeros(len(changes) + 1, dtype=np.intp)
    begins[1:] = changes + 1
    count = int(begins.searchsorted(size - width, side="right"))
    firsts, place = begins[:count], np.arange(count)
    runs = begins.searchsorted(firsts + width) - place
    level = np.frexp(runs)[1] - 1
    maxima = [free_at_s[begins]]
    for power in range(int(level.max())):
        half, wider = 1 << power, maxima[power].copy()
        np.maximum(wider[:-half], wider[half:], out=wider[:-half])
        maxima.append(wider)
    table = np.array(maxima)
    highest = np.maximum(table[level, place], table[level, place + runs - (1 << level)])
    best = int(highest.argmin())
    return int(firsts[best]), float(highest[best])
