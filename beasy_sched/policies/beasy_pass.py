"""One scheduling pass of BEASY: Algorithm 1, with its orders, its reservation and its one backfilling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.job import Job
from beasy_sched.model.platform import FloatArray
from beasy_sched.model.power import HostState
from beasy_sched.policies.actions import Action, Start
from beasy_sched.policies.beasy_cells import BoolArray
from beasy_sched.policies.beasy_plan import LivePlan
from beasy_sched.policies.orders import Order, Places, largest_slowdown, smallest_size
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S

_CANDIDATES_A_PIECE = 64


@dataclass(frozen=True)
class Promise:
    """The reservation of the first job that cannot start: when, and on which servers."""

    job: Job
    start_s: float
    """Infinite where the plan never has its servers on for its whole walltime."""
    hosts: HostIds


class BeasyPass:
    """Starts jobs on servers that the plan keeps on, or can keep on, to their walltimes."""

    def __init__(self, view: View, live: LivePlan, step: int, *, dangerous: bool) -> None:
        """Begin a pass in the present ``step``; ``dangerous`` says which P_R holds in it."""
        self.view = view
        self.live = live
        self.step = step
        self.actions: list[Action] = []
        self.promise: Promise | None = None
        self._priority: Order = smallest_size if dangerous else largest_slowdown
        self._free = view.free_mask()
        self._started: set[Job] = set()
        self._vetoed = False
        self._test = live.test(view, step)

    def run(self) -> list[Action]:
        """Start heads while they can be started and finished; reserve for the next; backfill once."""
        queue, now = self.view.queue, self.view.now
        places = self._in_time(queue.places())
        for place in self._priority(queue, places, now).tolist():
            job = queue.at(place)
            if not self._start(job, "head of the queue"):
                self.promise = self._reserve(job)
                self._backfill(places)
                break
        return self.actions

    def _in_time(self, places: Places) -> Places:
        """Leave out jobs that cannot end inside the last known window: they are postponed."""
        ends_s = self.view.now + self.view.queue.walltime_s[places]
        return places[ends_s <= self.live.plan.end_s + TIME_TOLERANCE_S]

    def _start(self, job: Job, rule: str, barred: BoolArray | None = None) -> bool:
        """Start ``job`` if it can be started and finished on servers that are not ``barred``."""
        free = self._free if barred is None else self._free & ~barred
        ids = np.flatnonzero(free)
        if len(ids) < job.res:
            return False
        end = self.live.end_step(self.view.now + job.walltime_s) - self.step
        hosts = self._select_servers(ids, job.res, end)
        change = self._test.check(hosts, end)
        if change is None:
            return False
        budget = self.view.budget
        if budget is not None and not budget.grant_start(hosts, computes=job.computes):
            self._vetoed = True
            return False
        self.live.start(self.view, self.step, job, self._test, change)
        self._free[hosts] = False
        self._started.add(job)
        paid = rule if change.asleep is None else f"{rule}; idle servers sleep for it"
        self.actions.append(Start(job, HostSet(hosts), paid))
        return True

    def _select_servers(self, ids: HostIds, count: int, end: int) -> HostIds:
        """Fewest changes to the plan over the walltime first, then the faster, then the lower id."""
        if len(ids) > count:
            speeds = self.live.ladder.speed_flops(ids, self.view.pstate[ids].astype(np.int8))
            order = np.lexsort((ids, -speeds, self._test.asleep_rows(ids, end)))
            ids = np.sort(ids[order[:count]])
        return ids

    # --- reservation and backfilling ----------------------------------------------------------------------

    def _backfill(self, places: Places) -> None:
        """Start every other job that fits without delaying the promise, in order P_B."""
        assert self.promise is not None
        queue, promise = self.view.queue, self.promise
        self._keep(promise)
        places = places[queue.res[places] <= int(self._free.sum())]
        reserved = np.zeros(len(self._free), dtype=np.bool_)
        reserved[promise.hosts] = True
        for place in smallest_size(queue, places, self.view.now).tolist():
            job = queue.at(place)
            if job is promise.job or job in self._started:
                continue
            late = self.view.now + job.walltime_s > promise.start_s + TIME_TOLERANCE_S
            self._start(job, "backfilled", reserved if late else None)

    def _keep(self, promise: Promise) -> None:
        """The promised servers are not put to sleep for others while they are promised."""
        if not len(promise.hosts):
            return
        outlook = self._test.outlook
        kept = np.zeros(outlook.states.shape, dtype=np.bool_)
        first = int((promise.start_s - self.live.plan.start_s + TIME_TOLERANCE_S) / self.live.plan.step_s)
        end = self.live.end_step(promise.start_s + promise.job.walltime_s)
        kept[max(first - self.step, 0) : end - self.step, promise.hosts] = True
        outlook.kept = kept
        self._test.forget()

    def _reserve(self, job: Job) -> Promise:
        """Find when enough servers are free, and planned on for the job's whole walltime."""
        live, plan, now = self.live, self.live.plan, self.view.now
        ready_s, starts = self._ready_s(), plan.start_s + np.arange(self.step + 1, plan.steps) * plan.step_s
        wakes = [starts + each for each in np.unique(self.view.power_model.on_s)]
        times_s = np.unique(np.concatenate([[now], ready_s[np.isfinite(ready_s)], starts, *wakes]))
        earliest_s = now
        if self._vetoed and self.view.budget is not None:
            earliest_s = self.view.budget.end_s
        latest_s = plan.end_s - job.walltime_s + TIME_TOLERANCE_S
        times_s = times_s[(times_s >= earliest_s) & (times_s <= latest_s)]
        asleep_before = np.zeros((plan.steps + 1, len(ready_s)), dtype=np.intp)
        np.cumsum(~plan.on, axis=0, out=asleep_before[1:])
        for first in range(0, len(times_s), _CANDIDATES_A_PIECE):
            piece_s = times_s[first : first + _CANDIDATES_A_PIECE]
            fits = self._fits(piece_s, job, ready_s, asleep_before)
            enough = np.flatnonzero(fits.sum(axis=1) >= job.res)
            if len(enough):
                at = int(enough[0])
                ids = np.flatnonzero(fits[at])
                speeds = live.ladder.speed_flops(ids, self.view.pstate[ids].astype(np.int8))
                order = np.lexsort((ids, -speeds, self._free[ids]))
                return Promise(job, float(piece_s[at]), np.sort(ids[order[: job.res]]))
        return Promise(job, np.inf, np.empty(0, dtype=np.intp))

    def _fits(self, times_s: FloatArray, job: Job, ready_s: FloatArray, asleep_before: HostIds) -> BoolArray:
        """Which servers can take ``job`` at each of these times: [times, N]."""
        plan = self.live.plan
        first = ((times_s - plan.start_s + TIME_TOLERANCE_S) / plan.step_s).astype(np.intp)
        end = np.ceil((times_s + job.walltime_s - plan.start_s - TIME_TOLERANCE_S) / plan.step_s)
        awake = asleep_before[np.minimum(end.astype(np.intp), plan.steps)] == asleep_before[first]
        woken = ~plan.on[np.maximum(first - 1, 0)] & (first > self.step)[:, None]
        on_s = self.view.power_model.on_s[self.view.platform.kind_of]
        on_at_s = (plan.start_s + first * plan.step_s)[:, None] + np.where(woken, on_s, 0.0)
        late_s = np.maximum(on_at_s, ready_s)
        return np.asarray(awake & (late_s <= times_s[:, None] + TIME_TOLERANCE_S) & self.view.available)

    def _ready_s(self) -> FloatArray:
        """When each server can take a job at the earliest, were it planned on, s."""
        view = self.view
        on_s = view.power_model.on_s[view.platform.kind_of]
        next_s = self.live.plan.start_of(self.step + 1)
        waking = view.host_state == HostState.SWITCHING_ON
        ready_s = np.where(waking, view.state_since_s + on_s, next_s + on_s)
        ready_s[self._free] = view.now
        for end_s, _, job in view.ends:
            assert job.hosts is not None
            ready_s[job.hosts.ids] = max(end_s, view.now)
        for action in self.actions:
            assert isinstance(action, Start)
            ready_s[action.hosts.ids] = view.now + action.job.walltime_s
        return ready_s
