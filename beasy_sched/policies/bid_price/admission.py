"""Which jobs start: the EASY pass with the price as its gate."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.engine.actions import Action, FactDict, Facts, Postpone, SetPState
from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import ASLEEP
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobQueue
from beasy_sched.policies.bid_price.jobs import Expected, Speed
from beasy_sched.policies.bid_price.step import BidPriceOptions, Step
from beasy_sched.policies.easy import EasyPass, Order, Places, Reservation
from beasy_sched.units import TIME_TOLERANCE_S

TOO_DEAR: Final = "dearer than the price of energy"
"""Its expected energy is above the price, and would be missed."""
TOO_LATE: Final = "not sure to end in time"
TOO_LOW: Final = "the battery would fall too low"
MISSES_TARGET: Final = "the target would be missed"
PATIENT: Final = "waits for servers that are on"
WAKING: Final = "its servers are woken"
HURRIED: Final = "its job ends in time only at full speed"

_RUN_SIGMAS: Final = 0.5
"""Standard deviations by which a job that starts may draw more than expected."""
_CHEAP_SHARE: Final = 0.5
"""A job above the price may start if it costs no more than this share of the price where it counts."""
_LEAST_COST_SHARE: Final = 3e-6
"""Share of the battery's capacity that is nothing: 1 kJ of 100 kWh."""
_ROUNDING: Final = 1e-9
"""Relative error of energies that are the same."""
_MISSES: Final = 4
"""After this number of refusals for energy, the rest of the queue, which is dearer still, is not tried."""
_TRIED_ABOVE: Final = 4 * _MISSES
"""Most jobs above the price that one pass looks at."""
_IMPATIENT: Final = 0.1
"""Share of its expected run that a job waits for others' servers while energy is enough."""


@dataclass
class LackingHosts:
    """Jobs that may start but lack hosts, from one pass to the next, by id."""

    since_s: dict[str, float] = field(default_factory=dict)
    """Since when they may."""
    reserved: set[str] = field(default_factory=set)
    """Those that have had a reservation on hosts of running jobs: they keep one while servers are woken."""

    def forget(self, job: Job) -> None:
        """Forget a job that starts."""
        self.since_s.pop(job.id, None)
        self.reserved.discard(job.id)


class BidPass(EasyPass):
    """Starts the jobs that the price lets through, those that need least energy first."""

    def __init__(
        self,
        view: View,
        step: Step,
        expected: Expected,
        options: BidPriceOptions,
        lacking: LackingHosts,
        *,
        tells: bool,
    ) -> None:
        """``lacking``: jobs that lacked hosts before; ``tells``: whether to report jobs set aside."""
        super().__init__(view, priority := self._order(step, expected), priority)
        self.step, self._expected, self._options, self._lacking = step, expected, options, lacking
        self._left_s = step.left_s(view.now)
        loads = expected.delaying, expected.computing
        self._surest = [load.surest_share(Speed.FAST) for load in loads]
        self.hosts_wanted = 0
        """Hosts for which waiting jobs should have servers woken."""
        self.hosts_held = 0
        """Hosts of a job that waits for running ones to end: idle servers may sleep until then."""
        self.due_s = math.inf
        """When the next job will have waited long enough for others' servers, s."""
        self._dear = self._short = 0
        self._closed = False
        """Whether energy has been refused so often that the rest, which is dearer, need not be tried."""
        self._tells = tells
        self.waking = sum(count for _, count in view.wakes)
        """Hosts that are waking."""
        self._wakeable = self.waking
        self._asleep = 0
        if view.power_actions_allowed:
            self._asleep = int(np.count_nonzero((view.host_state == ASLEEP) & view.available))
            self._wakeable += self._asleep
        self._wake_s = float(view.power_model.on_s.max(initial=0.0))
        self._hoping = 0
        """Hosts that jobs ask for that wait for others' servers, or for their own to be woken."""
        self._add_w: FloatArray = np.empty(0)
        self._only: list[Job] | None = None
        """The jobs to try; None: all that wait."""

    @staticmethod
    def _order(step: Step, expected: Expected) -> Order:
        """Order in which jobs are tried: those that need least energy first."""

        def least_energy(queue: JobQueue, places: Places, now: float) -> Places:
            energy_j = _energies_j(queue, places, now, step, expected)
            if step.price.rationed:
                kept = _worth_trying(energy_j, step.price.price_j)
                places, energy_j = places[kept], energy_j[kept]
            return places[np.argsort(energy_j, kind="stable")]

        return least_energy

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

    def _count_refusal(self, *, dear: bool) -> None:
        """Count a job that is too dear (or for which there is no energy ahead)."""
        if dear:
            self._dear += 1
        else:
            self._short += 1
        self._closed = max(self._dear, self._short) >= _MISSES

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

    def _passes_price(self, job: Job, walltime_s: float) -> bool:
        """Whether ``job`` costs no more than the price, or its energy is not missed."""
        step, price = self.step, self.step.price
        if not price.rationed:
            return True
        energy_j = self._expected.energy_of_j(job, walltime_s)
        at_margin = energy_j <= price.margin_j * (1.0 + _ROUNDING)
        if energy_j <= price.price_j or self._is_cheap(job, walltime_s, at_margin):
            return True
        self._count_refusal(dear=True)
        if self.view.wants_reason(job, TOO_DEAR):
            facts: FactDict = {"job_j": energy_j, "price_j": max(price.price_j, 0.0)}
            facts |= {"binding_at_s": step.binding_s, "bound": step.bound}
            self._say(job, TOO_DEAR, facts)
        return False

    def _is_cheap(self, job: Job, walltime_s: float, at_margin: bool) -> bool:
        """Whether ``job`` takes little of what is binding, or leaves some of it and is ``at_margin``.

        It is added to the demand then.
        """
        step, price = self.step, self.step.price
        if job.id in step.counted:
            return True
        if self._dear >= _MISSES or job.id in step.dear:
            return False
        power_w, chance = self._profile(job, walltime_s, price.speed)
        base_w = step.base_w + power_w * chance
        slack_j = step.ahead.slack(step.hopeful_w - base_w).slack_j
        least_j = _LEAST_COST_SHARE * step.ahead.battery.capacity_j
        cheap = step.slack_j - slack_j <= max(_CHEAP_SHARE * price.price_j, least_j)
        if not cheap and not (at_margin and slack_j >= 0.0):
            step.dear.add(job.id)
            return False
        step.base_w, step.slack_j = base_w, slack_j
        step.counted.add(job.id)
        step.dear.clear()
        return True

    def _is_affordable(self, job: Job, walltime_s: float) -> bool:
        """Whether the battery stays above the floor, and does not miss its target, with ``job``.

        What is committed in a step only grows: a job that is refused stays so until the next.
        """
        step = self.step
        if self._short >= _MISSES or job.id in step.short:
            self._count_refusal(dear=False)
            return False
        speed = Speed.FAST if self._hurries(job, walltime_s) else step.price.speed
        power_w, chance = self._profile(job, walltime_s, speed)
        sigmas = _RUN_SIGMAS if self._options.margins else 0.0
        self._add_w = power_w * (chance + sigmas * np.sqrt(chance * (1.0 - chance)))
        after = step.ahead.stays_up(step.careful_w - step.committed_w - self._add_w)
        lowest_s = step.start_s + float(step.cells.edge_s[after.edge])
        if not after.fits:
            rule, facts = TOO_LOW, {"lowest_at_s": lowest_s}
        elif step.price.scarce and bool((after.ends_j < step.goals_j).any()):
            rule, facts = MISSES_TARGET, {"window_end_s": step.end_s}
        else:
            return True
        self._count_refusal(dear=False)
        step.short.add(job.id)
        self._say(job, rule, {**facts})
        return False

    def _hurries(self, job: Job, walltime_s: float) -> bool:
        """Whether a job that starts now ends in time only at full speed."""
        thrifty_s = walltime_s * self._expected.computing.surest_share(Speed.THRIFTY)
        return job.computes and thrifty_s > self._left_s - 1.0

    def _profile(self, job: Job, walltime_s: float, speed: Speed) -> tuple[float, FloatArray]:
        """Power of ``job`` above sleep (W), and the part of each cell in which it is expected to run."""
        cells = self.step.cells
        edges_s = np.maximum(cells.edge_s - (self.view.now - self.step.start_s), 0.0)
        load = self._expected.load_of(job)
        chance = load.chance(job.res, walltime_s, speed, edges_s, cells.width_s)
        return job.res * load.host_w[speed], chance

    # --- hosts --------------------------------------------------------------------------------------------

    def _insists(self, job: Job, walltime_s: float) -> bool:
        """Whether a job that lacks hosts is to have a reservation: when not enough can be woken for it.

        Before that it waits a while for hosts of jobs that end, then for servers that are woken for it.
        """
        now = self.view.now
        since_s = self._lacking.since_s.setdefault(job.id, now)
        late_s = self.step.end_s - walltime_s * self._surest[job.computes] - 2.0 * self._wake_s
        due_s = min(since_s + self._patience_s(job, walltime_s), late_s)
        self._hoping += job.res
        if now < due_s - TIME_TOLERANCE_S and job.id not in self._lacking.reserved:
            self.due_s = min(self.due_s, due_s)
            if self.view.wants_reason(job, PATIENT):
                self._say(job, PATIENT, self._lack(job) | {"wakes_at_s": due_s})
            return False
        if job.res > self.free + self._wakeable:
            self._hoping -= job.res
            self.hosts_held += job.res
            self._lacking.reserved.add(job.id)
            return True
        self.hosts_wanted += job.res
        if job.id in self._lacking.reserved:
            return True
        if self.view.wants_reason(job, WAKING):
            self._say(job, WAKING, self._lack(job))
        return False

    def _releases(self) -> Iterable[tuple[float, int]]:
        """Count servers that sleep as free after a wake-up."""
        releases = super()._releases()
        if not self._asleep:
            return releases
        return heapq.merge(releases, [(self.view.now + self._wake_s, self._asleep)])

    def fill(self, promise: Reservation) -> None:
        """Have servers woken, too, for jobs that do not delay the reservation."""
        super().fill(promise)
        if not self._asleep or self._closed:
            return
        queue = self.view.queue
        places = queue.places()
        places = self.priority(queue, places[self._sure(places)], self.view.now)
        places = places[~self.late(places, promise) | (queue.res[places] <= promise.extra)]
        barred = self.placed() | self.unwanted | {promise.job}
        for place, res in zip(places.tolist(), queue.res[places].tolist(), strict=True):
            if self._closed or self._hoping >= self._wakeable:
                return
            if self.free < res <= self.free + self._wakeable and (job := queue.at(place)) not in barred:
                self._wants(job)

    def _lack(self, job: Job) -> FactDict:
        return {"hosts_asked": job.res, "hosts_free": self.free}

    def _patience_s(self, job: Job, walltime_s: float) -> float:
        """How long a job waits for hosts of others before servers are woken for it, s."""
        if self._options.quick:
            return 0.0
        run_s = self._expected.run_of_s(job, walltime_s, self.step.price.speed)
        if not self.step.price.rationed:
            return _IMPATIENT * self._options.patience * run_s
        return self._options.patience * (run_s + self._wake_s)

    def give(self, job: Job, hosts: HostSet, rule: str, facts: Facts) -> None:
        """Start ``job``, and commit its energy; speed up its hosts if it ends in time only so."""
        super().give(job, hosts, rule, facts)
        self.step.committed_w = self.step.committed_w + self._add_w
        self._lacking.forget(job)
        if not self._hurries(job, self._expected.walltime_of_s(job, self._left_s)):
            return
        self._expected.hurry(job)
        targets = self._expected.fleet.targets(Speed.FAST)[hosts.ids]
        slow = self.view.pstate[hosts.ids] != targets
        if self.view.power_actions_allowed and slow.any():
            for pstate in np.unique(targets[slow]).tolist():
                some = HostSet(hosts.ids[slow & (targets == pstate)])
                self.actions.append(SetPState(some, pstate, HURRIED, {"window_end_s": self.step.end_s}))

    def facts(self, job: Job, free: int | None = None) -> FactDict:
        """Add what the job is expected to need, and the price."""
        facts = super().facts(job, free)
        walltime_s = self._expected.walltime_of_s(job, self._left_s)
        facts["job_j"] = self._expected.energy_of_j(job, walltime_s)
        if self.step.price.rationed:
            facts["price_j"] = max(self.step.price.price_j, 0.0)
        return facts

    def _say(self, job: Job, rule: str, facts: FactDict) -> None:
        """Report why ``job`` waits."""
        if self.view.wants_reason(job, rule):
            self.actions.append(Postpone(job, rule, facts | {"waited_s": self.view.now - job.subtime_s}))


def _worth_trying(energy_j: FloatArray, price_j: float) -> IndexArray:
    """Positions of jobs up to the price, and of the cheapest above it: more of them are never tried."""
    below = energy_j <= price_j
    above = np.flatnonzero(~below)
    if len(above) > _TRIED_ABOVE:
        above = above[np.argpartition(energy_j[above], _TRIED_ABOVE)[:_TRIED_ABOVE]]
    return np.sort(np.concatenate((np.flatnonzero(below), above)))


def _energies_j(queue: JobQueue, places: Places, now: float, step: Step, expected: Expected) -> FloatArray:
    """Expected energy of waiting jobs, J."""
    walltime_s = expected.walltime_s(queue.walltime_s[places], step.left_s(now))
    energy_j: FloatArray = queue.res[places] * walltime_s * expected.host_second_j(queue, places)
    return energy_j
