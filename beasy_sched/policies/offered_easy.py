"""EASY within the offers of a policy: the substitute for Slurm in runs with external placement.

It places the jobs in order of submission, and backfills by walltimes. Jobs that take a part of their hosts
(`Terms.host_share`) are placed on hosts where other such jobs have left room first. Of each kind, no more
servers are on than offered, except for those that still run jobs or switch: idle servers beyond the offer
are put to sleep, servers are woken for jobs within it. No job starts that would run into a fall of the
offer, except if the offer is lowered afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.actions import Action, CallAt, FactDict, Offer, Postpone, SetPState, Start
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_actions import by_target, sleep
from beasy_sched.engine.session_words import (
    BEYOND_OFFER,
    NOT_OFFERED,
    PLACED,
    PLACED_AHEAD,
    SUSPENDED,
    WOKEN,
    WOKEN_FOR_JOBS,
)
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.policies.offering import SHARE_TOLERANCE
from beasy_sched.units import TIME_TOLERANCE_S


class OfferTable:
    """Number of servers of each kind that may be on, over time; it does not change."""

    def __init__(self, platform: Platform, offers: Sequence[Offer]) -> None:
        """Tabulate ``offers``; a time without one is not limited."""
        row_of = {kind.name: row for row, kind in enumerate(platform.kinds)}
        from_s = np.array([offer.from_s for offer in offers], dtype=np.float64)
        until_s = np.array([offer.until_s for offer in offers], dtype=np.float64)
        self.edge_s: FloatArray = np.unique(np.concatenate(([-np.inf], from_s, until_s)))
        """Times from which other numbers may apply, s; the first is minus infinity."""
        self.edge_s = self.edge_s[self.edge_s < np.inf]
        total = np.bincount(platform.kind_of, minlength=len(platform.kinds))
        self.counts: IntArray = np.repeat(total[:, None], len(self.edge_s), axis=1)
        """Number of servers, at most those that there are: [kind, edge]."""
        first, end = self.edge_s.searchsorted(from_s), self.edge_s.searchsorted(until_s)
        for offer, begin, stop in zip(offers, first.tolist(), end.tolist(), strict=True):
            cells = self.counts[row_of[offer.kind], begin:stop]
            np.minimum(cells, offer.count, out=cells)

    def place(self, at_s: float) -> int:
        """Return the index of the edge that applies at a time."""
        return int(self.edge_s.searchsorted(at_s + TIME_TOLERANCE_S, side="right")) - 1

    def next_s(self, at_s: float) -> float:
        """Return the next edge after a time, s; infinite without one."""
        place = self.place(at_s) + 1
        return float(self.edge_s[place]) if place < len(self.edge_s) else math.inf


class Capacity:
    """Servers of each kind that are offered and not taken, over the time from now on."""

    def __init__(self, view: View, table: OfferTable, parts: _Parts | None = None) -> None:
        """Count what the running jobs leave of the offers in ``table``; ``parts``: hosts that jobs share."""
        platform = view.platform
        self.kinds = len(platform.kinds)
        self._now = now = view.now
        taken_until = [(end_s, job.hosts.ids) for end_s, _, job in view.ends]
        if parts is not None:
            taken_until = parts.until()
        uses = [(max(end_s, now + 2 * TIME_TOLERANCE_S), ids) for end_s, ids in taken_until]
        ends_s = np.array([end_s for end_s, _ in uses if end_s < math.inf])
        place = table.place(now)
        self._edge_s: FloatArray = np.unique(np.concatenate(([now], table.edge_s[place + 1 :], ends_s)))
        at = table.edge_s.searchsorted(self._edge_s + TIME_TOLERANCE_S, side="right") - 1
        usable = view.available | (view.host_state == BUSY)
        total = np.bincount(platform.kind_of[usable], minlength=self.kinds)
        self._free: IntArray = np.minimum(table.counts[:, at], total[:, None])
        for end_s, ids in uses:
            taken = np.bincount(platform.kind_of[ids], minlength=self.kinds)
            self._free[:, self._cells(now, end_s)] -= taken[:, None]

    def _cells(self, from_s: float, until_s: float) -> slice:
        """Return the cells of the time from ``from_s`` to ``until_s``."""
        first = int(np.searchsorted(self._edge_s, from_s + TIME_TOLERANCE_S, side="right")) - 1
        end = int(np.searchsorted(self._edge_s, until_s - TIME_TOLERANCE_S, side="right"))
        return slice(max(first, 0), max(end, max(first, 0) + 1))

    def free(self, from_s: float, until_s: float) -> IntArray:
        """Return the number of servers of each kind that are free during the whole time."""
        return np.asarray(np.maximum(self._free[:, self._cells(from_s, until_s)].min(axis=1), 0))

    def take(self, counts: IntArray, from_s: float, until_s: float) -> None:
        """Take servers of each kind for a time."""
        self._split(from_s)
        self._split(until_s)
        self._free[:, self._cells(from_s, until_s)] -= counts[:, None]

    def _split(self, at_s: float) -> None:
        """Let a cell begin at a time."""
        if not self._now < at_s < math.inf:
            return
        place = int(np.searchsorted(self._edge_s, at_s + TIME_TOLERANCE_S, side="right"))
        if abs(self._edge_s[place - 1] - at_s) <= TIME_TOLERANCE_S:
            return
        self._edge_s = np.insert(self._edge_s, place, at_s)
        self._free = np.insert(self._free, place, self._free[:, place - 1], axis=1)

    def earliest_s(self, res: int, length_s: float) -> float:
        """Return the earliest time at which ``res`` servers are free for ``length_s``; infinite if never."""
        enough = np.maximum(self._free, 0).sum(axis=0) >= res
        for at_s in self._edge_s[enough].tolist():
            if self.free(at_s, at_s + length_s).sum() >= res:
                return float(at_s)
        return math.inf

    @property
    def free_now(self) -> int:
        """Number of servers that may be taken now."""
        return int(np.maximum(self._free[:, 0], 0).sum())


class _Parts:
    """Room that jobs sharing hosts leave on each host, and its latest end."""

    def __init__(self, view: View) -> None:
        """Count the running jobs."""
        used = np.zeros(view.platform.size)
        self.until_s: FloatArray = np.full(view.platform.size, -np.inf)
        """Latest end of the jobs on each host, s; minus infinity without one."""
        self.awaited: BoolArray = np.zeros(view.platform.size, dtype=np.bool_)
        """Hosts that are given to jobs of this pass, and are not on."""
        for end_s, _, job in view.ends:
            ids = job.hosts.ids
            used[ids] += job.terms.host_share
            self.until_s[ids] = np.maximum(self.until_s[ids], end_s)
        open_hosts = view.available & (view.host_state == BUSY)
        self.room: FloatArray = np.where(open_hosts, 1.0 - used, 0.0)
        """Share of each host that is not used by its jobs; 0 for one without a job."""

    def until(self) -> list[tuple[float, HostIds]]:
        """Return the hosts with jobs by the latest end of these."""
        taken = (self.until_s > -np.inf).nonzero()[0]
        ends_s = self.until_s[taken]
        return [(end_s, taken[ends_s == end_s]) for end_s in np.unique(ends_s).tolist()]

    def close(self, hosts: HostIds) -> None:
        """Let no further job start next to those on some hosts."""
        self.room[hosts] = 0.0

    def give(self, job: Job, hosts: HostIds, end_s: float) -> None:
        """Give a job its part of hosts until a time."""
        fresh = hosts[self.until_s[hosts] == -np.inf]
        self.room[fresh] = 1.0
        self.room[hosts] -= job.terms.host_share
        self.until_s[hosts] = np.maximum(self.until_s[hosts], end_s)


class OfferedEasy:
    """Places jobs within offers: EASY backfilling over the servers that may be on, now and ahead."""

    def __init__(self, suspend_s: float = math.inf) -> None:
        """Begin with no decision taken; servers that have been idle for ``suspend_s`` are put to sleep."""
        self._suspend_s = suspend_s
        self._offers: Sequence[Offer] | None = None
        self._table: OfferTable | None = None
        self._seen: tuple[int, ...] = ()

    def place(self, view: View, offers: Sequence[Offer]) -> Sequence[Action]:
        """Return the starts, wakes and sleeps to carry out now, and why the first waiting job waits."""
        if self._table is None or self._offers is not offers:
            self._offers, self._table, self._seen = offers, OfferTable(view.platform, offers), ()
        table = self._table
        present = (view.availability_version, len(view.running), len(view.queue), table.place(view.now))
        actions: list[Action] = []
        if present != self._seen or view.arrived:
            actions = _Pass(view, table, _Parts(view) if view.shares_hosts else None).run()
            self._seen = () if actions else present
        next_s = table.next_s(view.now)
        if self._suspend_s < math.inf:
            rested, due_s = self._rest(view, actions)
            actions, next_s = [*actions, *rested], min(next_s, due_s)
        return [*actions, CallAt(next_s)] if next_s < math.inf else actions

    def _rest(self, view: View, actions: Sequence[Action]) -> tuple[list[Action], float]:
        """Put servers to sleep that have been idle for long; return also when the next one has been."""
        idle = view.free_mask() & (view.host_state == IDLE)
        for action in actions:
            if isinstance(action, Start | SetPState):
                idle[action.hosts.ids] = False
        since_s = np.where(idle, view.state_since_s, np.inf)
        late = since_s <= view.now - self._suspend_s + TIME_TOLERANCE_S
        due_s = float(since_s[~late].min(initial=np.inf)) + self._suspend_s
        if not late.any() or not view.power_actions_allowed:
            return [], due_s
        return sleep(view, late.nonzero()[0], SUSPENDED, {"idle_s": self._suspend_s}), due_s


class _Pass:
    """One pass over the waiting jobs."""

    def __init__(self, view: View, table: OfferTable, parts: _Parts | None) -> None:
        self.view, self.table, self.parts = view, table, parts
        self.capacity = Capacity(view, table, parts)
        state = view.host_state
        self.idle = view.free_mask()
        """Servers on which jobs can start now."""
        self.waking = (state == SWITCHING_ON) & view.available & ~view.sleep_requested()
        self.asleep = (state == ASLEEP) & view.available & ~view.wake_requested()
        self.waking |= view.wake_requested() & view.available
        if not view.power_actions_allowed:
            self.asleep[:] = False
        self.wakes_s = float(view.power_model.on_s.max(initial=0.0))
        self.reserved: tuple[Job, float] | None = None
        self.to_wake: list[int] = []
        self.actions: list[Action] = []
        self.most = self._most()
        """Number of servers that a further job can have at most, if it does not share them."""
        if parts is not None:
            self._close_beyond_offer(parts)

    def _most(self) -> int:
        servers = int(np.count_nonzero(self.idle | self.waking | self.asleep))
        return min(servers, self.capacity.free_now)

    def run(self) -> list[Action]:
        """Start, reserve for the first job that cannot start, backfill; then wake and put to sleep."""
        view = self.view
        for job in view.queue if len(view.queue) else ():
            parts = self.parts if job.terms.host_share < 1.0 else None
            if self.reserved is not None and job.res > self.most and parts is None:
                if not self.most and self.parts is None:
                    break
                continue
            if (parts is not None and self._place_beside(parts, job)) or self._place(job):
                self.most = self._most()
            elif self.reserved is None:
                self._reserve(job)
                self.most = self._most()
        if self.to_wake:
            hosts = np.array(sorted(self.to_wake), dtype=np.intp)
            for group, pstate in by_target(view, hosts, view.platform.fastest_of_kind):
                self.actions.append(SetPState(HostSet(group), pstate, WOKEN_FOR_JOBS))
        return [*self.actions, *self._let_sleep()]

    def _place(self, job: Job) -> bool:
        """Give a job its servers if they are offered for its walltime: start it, or wake them for it."""
        view, now = self.view, self.view.now
        lead_s = 0.0
        fits = self.capacity.free(now, now + job.walltime_s)
        chosen = self._choose(job.res, fits)
        if chosen is None:
            return False
        hosts, awaited = chosen
        if awaited:
            lead_s = self.wakes_s
            fits = self.capacity.free(now, now + lead_s + job.walltime_s)
            chosen = self._choose(job.res, fits)
            if chosen is None:
                return False
            hosts, awaited = chosen
        counts = np.bincount(view.platform.kind_of[hosts], minlength=self.capacity.kinds)
        end_s = now + lead_s + job.walltime_s
        self.capacity.take(counts, now, end_s)
        self.to_wake += hosts[self.asleep[hosts]].tolist()
        self._give(job, hosts, awaited)
        if self.parts is not None and job.terms.host_share < 1.0:
            self.parts.awaited[hosts] = ~self.idle[hosts]
            self.parts.give(job, hosts, end_s)
        for mask in (self.idle, self.waking, self.asleep):
            mask[hosts] = False
        return True

    def _close_beyond_offer(self, parts: _Parts) -> None:
        """Let no further job start on the servers with jobs that are beyond the offer, free soonest."""
        busy = self.view.host_state == BUSY
        for row in range(self.capacity.kinds):
            mine = (busy & (self.view.platform.kind_of == row)).nonzero()[0]
            beyond = len(mine) - int(self.table.counts[row, self.table.place(self.view.now)])
            if beyond > 0:
                parts.close(mine[np.argsort(parts.until_s[mine], kind="stable")[:beyond]])

    def _place_beside(self, parts: _Parts, job: Job) -> bool:
        """Give a job parts of hosts that have other jobs, fullest first: start it, or let it wait for them.

        A host that it keeps on for longer than these must be offered for that time.
        """
        now = self.view.now
        fit = (parts.room >= job.terms.host_share - SHARE_TOLERANCE).nonzero()[0]
        order = fit[np.lexsort((fit, parts.room[fit], parts.awaited[fit]))]
        end_s = now + (self.wakes_s if parts.awaited[order[: job.res]].any() else 0.0) + job.walltime_s
        chosen = self._kept_on_until(parts, end_s, order, job.res)
        if len(chosen) < job.res:
            return False
        parts.give(job, chosen, end_s)
        self._give(job, chosen, int(np.count_nonzero(parts.awaited[chosen])))
        return True

    def _kept_on_until(self, parts: _Parts, end_s: float, hosts: HostIds, count: int) -> HostIds:
        """Take the first ``count`` hosts with jobs that are offered until a time, or as many as there are."""
        until_s, kind_of = parts.until_s, self.view.platform.kind_of
        chosen: list[int] = []
        later = np.zeros(self.capacity.kinds, dtype=np.intp)
        from_s = end_s
        for host in hosts.tolist():
            if len(chosen) == count:
                break
            if until_s[host] < end_s:
                first_s = min(from_s, float(until_s[host]))
                if self.capacity.free(first_s, end_s)[kind_of[host]] <= later[kind_of[host]]:
                    continue
                from_s = first_s
                later[kind_of[host]] += 1
            chosen.append(host)
        if len(chosen) == count and later.any():
            self.capacity.take(later, from_s, end_s)
        return np.array(chosen, dtype=np.intp)

    def _give(self, job: Job, hosts: HostIds, awaited: int) -> None:
        """Start a job on its hosts, or let it wait for those ``awaited``."""
        if not awaited:
            self._start(job, HostSet(np.sort(hosts)))
        elif self.view.wants_reason(job, WOKEN):
            facts: FactDict = {"hosts_asked": job.res, "hosts_awaited": awaited}
            self.actions.append(Postpone(job, WOKEN, facts))

    def _choose(self, res: int, fits: IntArray) -> tuple[HostIds, int] | None:
        """Return ``res`` servers, ``fits`` of each kind at most, and how many are not on; None if too few.

        Idle servers first, then waking, then sleeping ones; of each, the fastest.
        """
        view, kind_of = self.view, self.view.platform.kind_of
        left = fits.copy()
        parts, missing, awaited = [], res, 0
        for mask in (self.idle, self.waking, self.asleep):
            allowed = mask.copy()
            for kind in range(len(left)):
                of_kind = (allowed & (kind_of == kind)).nonzero()[0]
                allowed[of_kind[left[kind] :]] = False
            some = view.fastest(allowed, missing).ids
            left -= np.bincount(kind_of[some], minlength=len(left))
            missing -= len(some)
            awaited += len(some) if mask is not self.idle else 0
            parts.append(some)
            if not missing:
                return np.concatenate(parts), awaited
        return None

    def _start(self, job: Job, hosts: HostSet) -> None:
        facts: FactDict = {}
        if self.view.wants_facts:
            facts = {
                "waited_s": self.view.now - job.subtime_s,
                "hosts_free": int(np.count_nonzero(self.idle)),
            }
            if self.reserved is not None:
                first, start_s = self.reserved
                facts["reserved_for"] = first.id
                if start_s < math.inf:
                    facts["reserved_at_s"] = start_s
        rule = PLACED if self.reserved is None else PLACED_AHEAD
        self.actions.append(Start(job, hosts, rule, facts))

    def _reserve(self, job: Job) -> None:
        """Reserve servers for the first job that cannot start, from the earliest time on, and log it."""
        capacity, now = self.capacity, self.view.now
        start_s = capacity.earliest_s(job.res, job.walltime_s)
        if self.view.wants_reason(job, NOT_OFFERED):
            fits = int(capacity.free(now, now + job.walltime_s).sum())
            facts: FactDict = {"hosts_asked": job.res, "hosts_fit": fits}
            if start_s < math.inf:
                facts["reserved_at_s"] = start_s
            self.actions.append(Postpone(job, NOT_OFFERED, facts))
        self.reserved = job, start_s
        if start_s < math.inf:
            counts, missing = capacity.free(start_s, start_s + job.walltime_s), job.res
            for kind in np.argsort(-self._speeds(), kind="stable").tolist():
                counts[kind] = min(counts[kind], missing)
                missing -= int(counts[kind])
            capacity.take(counts, start_s, start_s + job.walltime_s)

    def _speeds(self) -> FloatArray:
        """Return the full speed of each kind, flops/s."""
        fastest = self.view.platform.fastest_of_kind
        return np.asarray(self.view.power_model.speed_flops[np.arange(len(fastest)), fastest])

    def _let_sleep(self) -> list[Action]:
        """Put idle servers beyond the offer to sleep that no job of this pass has got."""
        view, actions = self.view, []
        if not view.power_actions_allowed:
            return []
        for row in range(self.capacity.kinds):
            mine = view.platform.kind_of == row
            spare = (self.idle & mine & (view.host_state == IDLE)).nonzero()[0]
            limit = int(self.table.counts[row, self.table.place(view.now)])
            beyond = self._on(mine) - limit
            if beyond > 0 and len(spare):
                why: FactDict = {"servers_offered": limit}
                chosen = spare[::-1][:beyond][::-1]
                actions += sleep(view, chosen, BEYOND_OFFER, why)
        return actions

    def _on(self, mine: BoolArray) -> int:
        """Count the servers of a kind that are on or waking, or are to wake, and not to sleep."""
        state, view = self.view.host_state, self.view
        off = (state == ASLEEP) | (state == SWITCHING_OFF) | (view.sleep_requested() & (state == IDLE))
        count = int(np.count_nonzero(mine & ~off)) + int(np.count_nonzero(mine & view.wake_requested()))
        return count + sum(bool(mine[host]) for host in self.to_wake)
