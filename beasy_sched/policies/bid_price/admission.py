"""Which jobs start: the EASY pass with the price as its gate."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import Action, FactDict, Facts, Postpone
from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import ASLEEP
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.policies.bid_price.jobs import Expected
from beasy_sched.policies.bid_price.step import BidPriceOptions, Step
from beasy_sched.policies.easy import EasyPass, Places, Reservation
from beasy_sched.units import TIME_TOLERANCE_S

TOO_DEAR: Final = "dearer than the price of energy"
TOO_LATE: Final = "not sure to end in time"
TOO_LOW: Final = "the battery would fall too low"
MISSES_TARGET: Final = "the target would be missed"
PATIENT: Final = "waits for servers that are on"
WAKING: Final = "its servers are woken"

_RUN_SIGMAS: Final = 0.5
"""Standard deviations by which a job that starts may draw more than expected."""
_ROUNDING: Final = 1e-9
"""Relative error of energies that are the same."""
_MISSES: Final = 4
"""Number of refusals for lack of energy after which the rest of the queue, which is dearer, is not tried; and
number of jobs above the price that are looked at, to tell why they wait."""
_IMPATIENT: Final = 0.1
"""Share of its expected run that a job waits for others' servers while energy is enough."""


class BidPass(EasyPass):
    """Starts the jobs that the price lets through, those that need least energy first."""

    def __init__(
        self,
        view: View,
        step: Step,
        expected: Expected,
        options: BidPriceOptions,
        lacking_s: dict[str, float],
        *,
        tells: bool,
    ) -> None:
        """``lacking_s``: since when jobs may start but lack hosts, by id, kept from one pass to the next;
        ``tells``: whether to report jobs that are not sure to end in time."""
        super().__init__(view, self._least_energy, self._least_energy)
        self.step, self._expected, self._options, self._lacking_s = step, expected, options, lacking_s
        self._left_s = step.left_s(view.now)
        self.hosts_wanted = 0
        """Hosts for which waiting jobs should have servers woken."""
        self.hosts_held = 0
        """Hosts of a job that waits for running ones to end: idle servers may sleep until then."""
        self.due_s = math.inf
        """When the next job will have waited long enough for others' servers, s."""
        self._short = 0
        """Jobs for which there was no energy ahead."""
        self._tells = tells
        self.waking = sum(count for _, count in view.wakes)
        """Hosts that are waking."""
        self._asleep = 0
        if view.power_actions_allowed:
            self._asleep = int(np.count_nonzero((view.host_state == ASLEEP) & view.available))
        self._wakeable = self.waking + self._asleep
        self._wake_s = float(view.power_model.on_s.max(initial=0.0))
        self._hoping = 0
        """Hosts that jobs ask for that wait for others' servers, or for their own to be woken."""
        self._add_w: FloatArray = np.empty(0)
        self._only: list[Job] | None = None
        """The jobs to try; None: all that wait."""

    @property
    def _closed(self) -> bool:
        """Whether energy has been refused so often that the rest, which is dearer, need not be tried."""
        return self._short >= _MISSES

    def still_holds(self, later: BidPass, openings: int) -> bool:
        """Whether nothing but arrivals has happened until a ``later`` pass.

        ``openings``: the counter of what may let a job start, as it was after this pass.
        """
        same = self.step is later.step and openings == later.view.availability_version
        return same and later.view.now < self.due_s - TIME_TOLERANCE_S

    def go_on(self, last: BidPass) -> list[Action]:
        """Try only the jobs that have just arrived: nothing else has changed since the ``last`` pass."""
        self.hosts_wanted, self.hosts_held = last.hosts_wanted, last.hosts_held
        self.due_s, self._hoping = last.due_s, last._hoping
        self._only = [job for job in self.view.arrived if job.place >= 0]
        if last.reservation is None:
            return self.run()
        self.resume(last.reservation, self.heads())
        return self.actions

    # --- which jobs ---------------------------------------------------------------------------------------

    def heads(self) -> Iterable[Job]:
        """Waiting jobs that are sure to end in time, in order, as long as there may be hosts and energy."""
        queue = self.view.queue
        if not len(queue):
            return
        places = self.priority(queue, self.candidates(), self.view.now)
        for place, res in zip(places.tolist(), queue.res[places].tolist(), strict=True):
            all_asked = self._hoping >= self._wakeable > 0
            if self._closed or (all_asked and not self.free):
                return
            if res <= self.free or not all_asked:
                yield queue.at(place)

    def candidates(self) -> Places:
        """Leave out and report jobs that are not sure to end before the horizon does."""
        first = self.view.queue.first
        if self._only is None or first is None:
            places = super().candidates()
        else:
            places = np.array([job.place - first.place for job in self._only], dtype=np.intp)
        sure = self._sure(places)
        if self._tells:
            why: FactDict = {"window_end_s": self.step.end_s}
            for place in places[~sure].tolist():
                self._say(self.view.queue.at(place), TOO_LATE, why)
        return places[sure]

    def fitting(self, places: Places, promise: Reservation) -> Places:
        """Leave out jobs that are not sure to end in time."""
        if self._closed:
            return places[:0]
        places = super().fitting(places, promise)
        return places[self._sure(places)]

    def _sure(self, places: Places) -> BoolArray:
        return self._expected.in_time(self.view.queue, places, self._left_s)

    def _least_energy(self, queue: JobQueue, places: Places, now: float) -> Places:
        """Order in which jobs are tried: those that need least energy first, up to a few above the price."""
        walltime_s = self._expected.walltime_s(queue.walltime_s[places], self._left_s)
        energy_j = self._expected.energy_j(queue.res[places], walltime_s, queue.computes[places])
        order = np.argsort(energy_j, kind="stable")
        paid = int(np.count_nonzero(energy_j <= self.step.price.price_j))
        return places[order[: paid + _MISSES]]

    def wanted(self, job: Job) -> bool:
        """Whether there is energy for ``job``, now and ahead, and whether it is to have hosts now."""
        walltime_s = self._expected.walltime_of_s(job, self._left_s)
        if not self._passes_price(job, walltime_s):
            return False
        if job.res <= self.free:
            return self._is_affordable(job, walltime_s)
        return self._is_payable(job, walltime_s) and self._insists(job, walltime_s)

    def _is_payable(self, job: Job, walltime_s: float) -> bool:
        """Whether it was affordable when it was first asked in this step for a job that lacks hosts."""
        payable = self.step.payable
        if job.id not in payable and self._is_affordable(job, walltime_s):
            payable.add(job.id)
        return job.id in payable

    # --- energy -------------------------------------------------------------------------------------------

    def _energy_j(self, job: Job, walltime_s: float) -> float:
        return float(self._expected.energy_j(job.res, walltime_s, job.computes))

    def _passes_price(self, job: Job, walltime_s: float) -> bool:
        """Whether ``job`` costs no more than the price."""
        step, price_j = self.step, self.step.price.price_j
        energy_j = self._energy_j(job, walltime_s)
        if energy_j <= price_j * (1.0 + _ROUNDING):
            return True
        facts: FactDict = {"job_j": energy_j, "price_j": price_j}
        self._say(job, TOO_DEAR, facts | {"binding_at_s": step.binding_s, "bound": step.bound})
        return False

    def _is_affordable(self, job: Job, walltime_s: float) -> bool:
        """Whether the battery stays above the floor, and does not miss its target, with ``job``.

        What is committed in a step only grows: a job that is refused stays so until the next.
        """
        step = self.step
        if self._short >= _MISSES or job.id in step.short:
            self._short += 1
            return False
        power_w, chance = self._profile(job, walltime_s)
        sigmas = _RUN_SIGMAS if self._options.margins else 0.0
        self._add_w = power_w * (chance + sigmas * np.sqrt(chance * (1.0 - chance)))
        after = step.ahead.stays_up(step.careful_w - step.committed_w - self._add_w)
        if not after.fits:
            lowest_s = step.start_s + float(step.cells.edge_s[after.edge])
            rule, facts = TOO_LOW, {"lowest_at_s": lowest_s}
        elif step.price.scarce and bool((after.ends_j < step.goals_j).any()):
            rule, facts = MISSES_TARGET, {"window_end_s": step.end_s}
        else:
            return True
        self._short += 1
        step.short.add(job.id)
        self._say(job, rule, {**facts})
        return False

    def _profile(self, job: Job, walltime_s: float) -> tuple[float, FloatArray]:
        """Power of ``job`` above sleep (W), and the part of each cell in which it is expected to run."""
        cells, speed = self.step.cells, self.step.price.speed
        edges_s = np.maximum(cells.edge_s - (self.view.now - self.step.start_s), 0.0)
        chance = self._expected.chance(job, walltime_s, speed, edges_s, cells.width_s)
        return job.res * float(self._expected.fleet.busy_w[speed]), chance

    # --- hosts --------------------------------------------------------------------------------------------

    def _insists(self, job: Job, walltime_s: float) -> bool:
        """Whether a job that lacks hosts is to have a reservation: when not enough can be woken for it.

        Before that it waits a while for hosts of jobs that end, then for servers that are woken for it.
        """
        now = self.view.now
        since_s = self._lacking_s.setdefault(job.id, now)
        surest_s = walltime_s * float(self._expected.surest_share(job.computes))
        late_s = self.step.end_s - surest_s - 2.0 * self._wake_s
        due_s = min(since_s + self._patience_s(job, walltime_s), late_s)
        self._hoping += job.res
        lacks: FactDict = {"hosts_asked": job.res, "hosts_free": self.free}
        if now < due_s - TIME_TOLERANCE_S:
            self.due_s = min(self.due_s, due_s)
            self._say(job, PATIENT, lacks | {"wakes_at_s": due_s})
            return False
        if job.res > self.free + self._wakeable:
            self._hoping -= job.res
            self.hosts_held += job.res
            return True
        self.hosts_wanted += job.res
        self._say(job, WAKING, lacks)
        return False

    def _patience_s(self, job: Job, walltime_s: float) -> float:
        """How long a job waits for hosts of others before servers are woken for it, s."""
        price = self.step.price
        run_s = float(self._expected.run_s(walltime_s, price.speed, job.computes))
        waits_s = run_s + self._wake_s if price.rationed else _IMPATIENT * run_s
        return self._options.patience * waits_s

    def _releases(self) -> Iterable[tuple[float, int]]:
        """Count servers that sleep as free after a wake-up."""
        releases = super()._releases()
        if not self._asleep:
            return releases
        return heapq.merge(releases, [(self.view.now + self._wake_s, self._asleep)])

    def give(self, job: Job, hosts: HostSet, rule: str, facts: Facts) -> None:
        """Start ``job``, and commit its energy."""
        super().give(job, hosts, rule, facts)
        self.step.committed_w = self.step.committed_w + self._add_w
        self._lacking_s.pop(job.id, None)

    def facts(self, job: Job, free: int | None = None) -> FactDict:
        """Add what the job is expected to need, and the price."""
        facts = super().facts(job, free)
        facts["job_j"] = self._energy_j(job, self._expected.walltime_of_s(job, self._left_s))
        if self.step.price.rationed:
            facts["price_j"] = self.step.price.price_j
        return facts

    def _say(self, job: Job, rule: str, facts: FactDict) -> None:
        """Report why ``job`` waits."""
        if self.view.wants_reason(job, rule):
            self.actions.append(Postpone(job, rule, facts | {"waited_s": self.view.now - job.subtime_s}))
