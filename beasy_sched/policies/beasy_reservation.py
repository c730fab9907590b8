"""BEASY's reservation for the first job that cannot start: when, and on which servers (Algorithm 1, line 9).

A server can take a job from the moment at which it is free, awake and planned on, until so long before
the end of that run of steps that the job's walltime still fits. Each run is one such interval; in the
order of their ends the first moment at which enough of them are open is found by counting, without a look
at single steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.job import Job
from beasy_sched.model.power import HostState
from beasy_sched.policies.beasy_plan import LivePlan
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S


@dataclass(frozen=True)
class Promise:
    """The reservation of the first job that cannot start: when, and on which servers."""

    job: Job
    start_s: float
    """Infinite where the plan never has its servers on for its whole walltime."""
    hosts: HostIds


def reserve(
    view: View, live: LivePlan, step: int, job: Job, free: BoolArray, earliest_s: float = -np.inf
) -> Promise:
    """Find when enough servers are free, and planned on for the job's whole walltime.

    ``free`` servers (N) are free in the present ``step``. Servers that are busy now are promised first.
    """
    opens_s, closes_s, hosts = _openings(view, live, step, job.walltime_s, _ready_s(view, live, step, free))
    opens_s = np.maximum(opens_s, earliest_s)
    fits = opens_s <= closes_s
    opens_s, closes_s, hosts = opens_s[fits], closes_s[fits], hosts[fits]
    times_s = np.sort(opens_s)
    count = np.searchsorted(times_s, times_s + TIME_TOLERANCE_S, side="right")
    count -= np.searchsorted(np.sort(closes_s), times_s)
    enough = np.flatnonzero(count >= job.res)
    if not len(enough):
        return Promise(job, np.inf, np.empty(0, dtype=np.intp))
    start_s = float(times_s[enough[0]])
    ids = hosts[(opens_s <= start_s + TIME_TOLERANCE_S) & (closes_s >= start_s)]
    speeds = live.ladder.speed_flops(ids, view.pstate[ids].astype(np.int8))
    order = np.lexsort((ids, -speeds, free[ids]))
    return Promise(job, start_s, np.sort(ids[order[: job.res]]))


def _openings(
    view: View, live: LivePlan, step: int, walltime_s: float, ready_s: FloatArray
) -> tuple[FloatArray, FloatArray, HostIds]:
    """From when and until when servers can take a job of this length, s: one entry a run of steps."""
    plan = live.plan
    host, begin, end = plan.runs_on(step)
    on_s: FloatArray = np.where(begin > step, view.power_model.on_s[view.platform.kind_of[host]], 0.0)
    opens_s = np.maximum(plan.start_s + begin * plan.step_s + on_s, ready_s[host])
    closes_s = plan.start_s + end * plan.step_s - walltime_s + TIME_TOLERANCE_S
    able = np.asarray(view.available[host])
    return np.asarray(opens_s[able]), np.asarray(closes_s[able]), host[able]


def _ready_s(view: View, live: LivePlan, step: int, free: BoolArray) -> FloatArray:
    """When each server can take a job at the earliest, were it planned on, s."""
    on_s = view.power_model.on_s[view.platform.kind_of]
    waking = view.host_state == HostState.SWITCHING_ON
    ready_s = np.where(waking, view.state_since_s + on_s, live.plan.start_of(step + 1) + on_s)
    ready_s[free] = view.now
    return np.where(np.isfinite(live.ends_s), np.maximum(live.ends_s, view.now), ready_s)
