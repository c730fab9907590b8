"""Admission of jobs: the EASY pass, gated by the price."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import FactDict, Facts
from beasy_sched.engine.policy import View
from beasy_sched.engine.session_words import Rule
from beasy_sched.model.host_states import ASLEEP
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.policies.bid_price.bid_price_jobs import Expected, Jobs
from beasy_sched.policies.bid_price.bid_price_words import (
    MISSES_TARGET,
    PATIENT,
    TOO_DEAR,
    TOO_LATE,
    TOO_LOW,
    WAKING,
)
from beasy_sched.policies.bid_price.fleet import Speed
from beasy_sched.policies.bid_price.step import Step
from beasy_sched.policies.easy import EasyPass, Places
from beasy_sched.units import TIME_TOLERANCE_S

_ROUNDING: Final = 1e-9
"""Relative error of energies that are the same."""
_MISSES: Final = 4
"""Number of rejections for lack of energy after which the rest of the queue, which needs more, is not tried;
and number of jobs above the price that are examined, to report why they wait."""
_IMPATIENT: Final = 0.1
"""Share of its expected run that a job waits for other jobs' servers while there is enough energy."""


class BidPass(EasyPass):
    """Starts the jobs admitted by the price, those that need least energy first."""

    def __init__(
        self, view: View, step: Step, expected: Expected, patience: float, lacking_s: dict[str, float]
    ) -> None:
        """``patience``: how long a job waits for other jobs' servers, in expected run times.

        ``lacking_s``: time since which admitted jobs lack hosts, by id, kept from one pass to the next.
        """
        super().__init__(view, self._least_energy, self._least_energy)
        self.step, self._expected, self._patience, self._lacking_s = step, expected, patience, lacking_s
        self.hosts_wanted = 0
        """Number of servers to wake for waiting jobs."""
        self.due_s = math.inf
        """Time at which the next job will have waited long enough for other jobs' servers, s."""
        self._refused = 0
        """Jobs rejected for lack of energy."""
        self.waking = sum(count for _, count in view.wakes)
        """Hosts that are waking."""
        can_wake = view.power_actions_allowed
        self._asleep = int(np.count_nonzero((view.host_state == ASLEEP) & view.available)) if can_wake else 0
        self._wake_s = float(view.power_model.on_s.max(initial=0.0))

    @cached_property
    def _jobs(self) -> Jobs:
        """Expected run times and energies of the waiting jobs, by queue position."""
        return self._expected.waiting(self.view.queue)

    @cached_property
    def _in_time(self) -> BoolArray:
        """Whether each of them is certain to end before the horizon does."""
        return self._jobs.end_within(self.step.end_s - self.view.now)

    def _place(self, job: Job) -> int:
        first = self.view.queue.first
        return 0 if first is None else job.place - first.place

    def _least_energy(self, queue: JobQueue, places: Places, now: float) -> Places:
        """Order in which jobs are tried: those that need least energy first, up to a few above the price."""
        energy_j = self._jobs.energy_j[places]
        paid = int(np.count_nonzero(energy_j <= self.step.price.price_j))
        return places[np.argsort(energy_j, kind="stable")[: paid + _MISSES]]

    def wanted(self, job: Job) -> bool:
        """Whether ``job`` ends in time, is worth its energy, has enough of it, and should get hosts now."""
        if self._refused >= _MISSES:
            return False
        place = self._place(job)
        passes = (
            self._ends_in_time(job, place) and self._is_cheap(job, place) and self._is_payable(job, place)
        )
        return passes and (job.res <= self.free or self._insists(job, place))

    # --- energy -------------------------------------------------------------------------------------------

    def _ends_in_time(self, job: Job, place: int) -> bool:
        """Whether ``job`` is certain to end before the horizon does."""
        if self._in_time.item(place):
            return True
        self._say(job, TOO_LATE, {"window_end_s": self.step.end_s})
        return False

    def _is_cheap(self, job: Job, place: int) -> bool:
        """Whether ``job`` costs no more than the price."""
        job_j, price_j = self._jobs.energy_j.item(place), self.step.price.price_j
        if job_j <= price_j * (1.0 + _ROUNDING):
            return True
        self._say(job, TOO_DEAR, {"job_j": job_j, "price_j": price_j, **self.step.bound()})
        return False

    def _is_payable(self, job: Job, place: int) -> bool:
        """Whether the battery stays above the floor, and does not miss its target, with ``job``.

        Commitments only grow within a step, so a rejected job stays rejected until the next step. A job that
        lacks hosts is tested once per step.
        """
        payable = self.step.payable
        if job.id not in payable or (payable[job.id] and job.res <= self.free):
            payable[job.id] = self._pays(job, place)
        self._refused += not payable[job.id]
        return payable[job.id]

    def _pays(self, job: Job, place: int) -> bool:
        step = self.step
        after = step.battery.project(step.left_w - self._draw_w(job, place))
        if after.left_j < 0.0:
            self._say(job, TOO_LOW, {"lowest_at_s": step.start_s + float(step.cells.edge_s[after.edge])})
            return False
        if (after.ends_j < step.goals_j).any():
            self._say(job, MISSES_TARGET, {"window_end_s": step.end_s, **step.battery.battery.band_facts()})
            return False
        return True

    def _draw_w(self, job: Job, place: int) -> FloatArray:
        """Return the power above sleep, with cooling, assumed for ``job`` if it starts now, W by cell."""
        step, walltime_s = self.step, self._jobs.walltime_s.item(place)
        draw_w = self._expected.draw_w(job, walltime_s, step.price.speed, step.edges_from(self.view.now))
        return step.cells.cooled_w(draw_w)

    # --- hosts --------------------------------------------------------------------------------------------

    def _insists(self, job: Job, place: int) -> bool:
        """Whether a job that lacks hosts gets a reservation: if not enough servers can be woken for it.

        Before that it waits a while for hosts of jobs that end, then for servers that are woken for it.
        """
        now, jobs, lacks = self.view.now, self._jobs, {"hosts_asked": job.res, "hosts_free": self.free}
        since_s = self._lacking_s.setdefault(job.id, now)
        late_s = self.step.end_s - jobs.surest_s.item(place) - 2.0 * self._wake_s
        due_s = min(since_s + self._patience_s(jobs.run_s.item(Speed.THRIFTY, place)), late_s)
        if now < due_s - TIME_TOLERANCE_S:
            self.due_s = min(self.due_s, due_s)
            self._say(job, PATIENT, {**lacks, "wakes_at_s": due_s})
            return False
        if job.res > self.free + self.waking + self._asleep:
            return True
        self.hosts_wanted += job.res
        self._say(job, WAKING, {**lacks})
        return False

    def _patience_s(self, run_s: float) -> float:
        """Return how long a job waits for other jobs' hosts before servers are woken for it, s."""
        return self._patience * (run_s + self._wake_s if self.step.price.rationed else _IMPATIENT * run_s)

    def _releases(self) -> Iterable[tuple[float, int]]:
        """Count servers that sleep as free after a wake-up."""
        asleep = [(self.view.now + self._wake_s, self._asleep)] if self._asleep else []
        return heapq.merge(super()._releases(), asleep)

    # --- actions and facts ----------------------------------------------------------------------------------

    def give(self, job: Job, hosts: HostSet, rule: str, facts: Facts) -> None:
        """Start ``job``, and commit its energy."""
        super().give(job, hosts, rule, facts)
        self.step.left_w = self.step.left_w - self._draw_w(job, self._place(job))
        self._lacking_s.pop(job.id, None)

    def facts(self, job: Job, free: int | None = None) -> FactDict:
        """Add the job's expected energy, and the price."""
        facts = super().facts(job, free) | {"job_j": self._jobs.energy_j.item(self._place(job))}
        return facts | {"price_j": self.step.price.price_j} if self.step.price.rationed else facts

    def _say(self, job: Job, rule: Rule, facts: FactDict) -> None:
        """Report why ``job`` waits."""
        self.postpone(job, rule, facts | {"waited_s": self.view.now - job.subtime_s})
