"""`bid-price`: receding-horizon bid-price admission with EASY backfilling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import Action, CallAt, Compensate, FactDict, Kill, Postpone, SetPState
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.model.cluster import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.policies.bid_price.estimators import (
    Arrivals,
    ProductionError,
    RunTimes,
    in_time,
    share_to_come,
)
from beasy_sched.policies.bid_price.fleet import Fleet, Speed
from beasy_sched.policies.bid_price.foresight import Foreseen, Foresight
from beasy_sched.policies.bid_price.horizon import BatteryAhead, Cells
from beasy_sched.policies.bid_price.price import Demand, Price, Pricing, ToCome, Waiting
from beasy_sched.policies.bid_price.progress import WorkDone
from beasy_sched.policies.easy import EasyPass, break_even_s, sleep, wake
from beasy_sched.units import TIME_TOLERANCE_S

TOO_DEAR: Final = "dearer than the price of energy"
TOO_LATE: Final = "cannot be sure to end in time"
NO_ENERGY_AHEAD: Final = "no energy for it ahead"
MISSES_TARGET: Final = "would cost the target"
PATIENT: Final = "waits for servers that are on"

RATIONING_SIGMAS: Final = 0.5
COMMITMENT_SIGMAS: Final = 2.0
RUN_SIGMAS: Final = 0.5
DEMAND_SIGMAS: Final = 1.0
CHEAP_SHARE: Final = 0.5
LEAST_COST_J: Final = 1e3
MISSES: Final = 4
MARGIN: Final = 0.005


class BidPriceOptions(Options, frozen=True):
    """Options of `bid-price`."""

    quick: bool = False
    """Whether servers are woken at once for jobs that may start; otherwise jobs wait a while for others'."""


@dataclass
class Step:
    """What was worked out at the start of a step, and what has been committed since."""

    start_s: float
    end_s: float
    """End of the horizon."""
    cells: Cells
    ahead: BatteryAhead
    price: Price
    hopeful_w: FloatArray
    """Supply with the price's doubts."""
    careful_w: FloatArray
    """Supply that commitments may count on."""
    base_w: FloatArray
    slack_j: float
    committed_w: FloatArray
    goals_j: FloatArray
    """Levels at the ends of windows below which nothing may be started."""

    def left_s(self, now: float) -> float:
        """Time to the end of the horizon, s."""
        return self.end_s - now


class BidPrice(Policy):
    """Starts the jobs that a price of energy lets through, which is solved anew at each step."""

    name = "bid-price"
    summary = "a price of energy, solved anew at each step, decides which jobs may start"
    needs_power = True
    needs_speeds = True
    needs_plan = True
    options_type = BidPriceOptions
    options: BidPriceOptions

    def begin(self, view: View) -> None:
        """Lay out powers and speeds; know nothing yet."""
        self.fleet = Fleet(view.platform, view.power_model)
        self.run_times = RunTimes()
        self.errors = ProductionError()
        self.arrivals = Arrivals()
        self.foresight = Foresight(view)
        self.work = WorkDone(view)
        self.step: Step | None = None
        self.urgent: set[str] = set()
        self.admitted_s: dict[str, float] = {}
        self._rest_s = np.array([break_even_s(kind) for kind in view.platform.kinds])

    # --- learning -----------------------------------------------------------------------------------------

    def _learn(self, view: View) -> None:
        for job in view.arrived:
            self.arrivals.add(view.now, job.res, job.walltime_s)
        view.arrived = []
        for job in view.ended:
            flops = self.work.end(job)
            self.urgent.discard(job.id)
            if flops is not None and job.state is JobState.FINISHED:
                self.run_times.add(flops / (job.walltime_s * self.fleet.reference_flops))
        view.ended = []

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Solve the price anew, and set the speed."""
        if view.budget is None or view.site is None or view.storage_state is None:
            return ()
        self._learn(view)
        self.work.advance(view)
        step = self.step = self._solve(view, view.budget.start_s)
        speed = step.price.speed
        targets = self.fleet.targets(speed)
        on = (view.host_state == IDLE) | (view.host_state == BUSY) | (view.host_state == SWITCHING_ON)
        for job_id in self.urgent:
            if job_id in view.running:
                on[view.running[job_id].hosts.ids] = False
        wrong = np.flatnonzero(on & (view.pstate != targets))
        actions = []
        for pstate in np.unique(targets[wrong]).tolist():
            actions.append(SetPState(HostSet(wrong[targets[wrong] == pstate]), pstate, "speed of the step"))
        return actions

    def _solve(self, view: View, start_s: float) -> Step:
        site, fleet = view.site, self.fleet
        end_s = self.foresight.end_s(start_s)
        steps = max(round((end_s - start_s) / site.step_s), 1)
        ends = [round((at - start_s) / site.step_s) for at in self.foresight.window_ends_s(start_s, end_s)]
        cells = Cells(steps, site.step_s, ends)
        foreseen = self.foresight.look(start_s, steps, view.budget.renew_w)
        self.errors.add(view.budget.renew_w, float(foreseen.renew_w[0]), float(foreseen.uncertainty[0]))
        hopeful_w, careful_w = (
            self._supply_w(foreseen, cells, sigmas, view.budget.renew_w)
            for sigmas in (RATIONING_SIGMAS, COMMITMENT_SIGMAS)
        )
        ahead = BatteryAhead(site.storage.battery, view.storage_state.battery_j, cells, MARGIN)
        runs = [self._running(view, speed, cells) for speed in Speed]
        waiting = self._waiting(view, end_s - start_s)
        to_come = self._to_come(cells, foreseen, end_s - start_s)
        demand = Demand(cells, fleet, (runs[0][0], runs[1][0]), waiting, to_come)
        energies_j = np.concatenate([to_come.energy_j, waiting.energy_j]) if len(to_come.energy_j) else to_come.energy_j
        price = Pricing(demand, ahead, hopeful_w, to_come.energy_j if len(to_come.energy_j) else energies_j).solve()
        mean_w, variance = runs[price.speed]
        committed_w = fleet.rest_w + mean_w + DEMAND_SIGMAS * np.sqrt(variance)
        idle = np.flatnonzero((view.host_state == IDLE) | (view.host_state == SWITCHING_ON))
        committed_w[0] += fleet.idle_w[price.speed, view.platform.kind_of[idle]].sum()
        _, asleep_j = ahead.stays_up(careful_w - fleet.rest_w)
        goals_j = np.minimum(ahead.target_j, asleep_j)
        self.trace.append((start_s, price.price_j, price.speed, price.slack.slack_j, price.slack.at_target, len(waiting.energy_j)))
        return Step(start_s, end_s, cells, ahead, price, hopeful_w, careful_w, price.demand_w,
                    price.slack.slack_j, committed_w, goals_j)

    trace: list = []

    def _supply_w(self, foreseen: Foreseen, cells: Cells, sigmas: float, present_w: float) -> FloatArray:
        ahead = np.maximum(np.arange(len(foreseen.renew_w)), 1.0)
        renew_w = self.errors.expected_w(foreseen.renew_w, foreseen.uncertainty, ahead, sigmas)
        renew_w[0] = present_w
        return cells.means(renew_w + foreseen.given_w)

    def _running(self, view: View, speed: Speed, cells: Cells) -> tuple[FloatArray, FloatArray]:
        fleet, jobs = self.fleet, list(view.running.values())
        if not jobs:
            return np.zeros(len(cells)), np.zeros(len(cells))
        full = np.array([job.walltime_s * fleet.reference_flops for job in jobs])
        done = np.array([self.work.done(job) for job in jobs]) / full
        speeds = [Speed.FAST if job.id in self.urgent else speed for job in jobs]
        busy_w = np.array([fleet.hosts_w(j.hosts.ids, s) for j, s in zip(jobs, speeds)])
        rate = np.array([fleet.hosts_flops(j.hosts.ids, s) for j, s in zip(jobs, speeds)]) / full
        chance = self.run_times.survival(done[:, None], done[:, None] + rate[:, None] * cells.middle_s)
        return busy_w @ chance, (busy_w**2) @ (chance * (1 - chance))

    def per_work_j(self) -> float:
        fleet = self.fleet
        return self.run_times.mean * fleet.reference_flops * fleet.busy_w[1] / fleet.flops[1]

    def surest_s(self, walltime_s: FloatArray, speed: Speed) -> FloatArray:
        return walltime_s * (self.run_times.surest * self.fleet.reference_flops / self.fleet.flops[speed])

    def _waiting(self, view: View, left_s: float) -> Waiting:
        queue = view.queue
        places = queue.places()
        walltime_s = queue.walltime_s[places]
        ok = in_time(self.surest_s(walltime_s, Speed.FAST), left_s)
        places, walltime_s = places[ok], walltime_s[ok]
        hosts = queue.res[places].astype(np.float64)
        return Waiting(hosts * walltime_s * self.per_work_j(), hosts,
                       walltime_s * self.run_times.mean * self.fleet.reference_flops)

    def _to_come(self, cells: Cells, foreseen: Foreseen, left_s: float) -> ToCome:
        flops = cells.means(foreseen.flops)
        if len(self.arrivals) < 10:
            return ToCome(flops, np.empty(0), np.ones((1, len(cells))))
        hosts, walltime_s = self.arrivals.hosts, self.arrivals.walltime_s
        mean_s = walltime_s * (self.run_times.mean * self.fleet.reference_flops / self.fleet.flops[1])
        energy_j = hosts * walltime_s * self.per_work_j()
        order = np.argsort(energy_j)
        share = share_to_come(hosts[order], mean_s[order], self.surest_s(walltime_s[order], Speed.FAST),
                              cells.middle_s, left_s - cells.middle_s)
        table = np.zeros((len(order) + 1, len(cells)))
        np.cumsum(share, axis=0, out=table[1:])
        return ToCome(flops, energy_j[order], table)

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what may start, wake servers for what has waited, let idle servers sleep."""
        self._learn(view)
        if self.step is None:
            return ()
        easy = BidPass(view, self, self.step)
        actions = [*easy.run()]
        for job in easy.started:
            self.admitted_s.pop(job.id, None)
            speed = self.step.price.speed
        if not view.power_actions_allowed:
            return actions
        actions += self._wake(view, easy)
        actions += self._let_sleep(view, easy)
        return actions

    def _wake(self, view: View, easy: BidPass) -> list[Action]:
        actions: list[Action] = []
        awaited = easy.free + sum(count for _, count in view.wakes)
        missing = easy.wanted - awaited
        asleep = np.flatnonzero((view.host_state == ASLEEP) & view.available & ~view.waking_wished())
        missing -= int(np.count_nonzero(view.waking_wished()))
        if missing > 0 and len(asleep):
            actions += wake(view, asleep[:missing], "waiting jobs want it", {"hosts_wanted": easy.wanted, "hosts_awaited": awaited},
                            pstates=self.fleet.pstate[self.step.price.speed])
        if math.isfinite(easy.next_due_s):
            actions.append(CallAt(easy.next_due_s))
        return actions

    def _let_sleep(self, view: View, easy: BidPass) -> list[Action]:
        spare = easy.free - easy.wanted
        idle = np.flatnonzero(easy.free_mask() & (view.host_state == IDLE))
        if spare <= 0 or not len(idle):
            return []
        rationed = self.step.price.rationed
        wait_s = self._rest_s[view.platform.kind_of[idle]] * (0.5 if rationed else 1.0)
        typical_s = float(wait_s.max())
        keep = math.ceil(self.arrivals.hosts_soon(view.now, typical_s)) if math.isfinite(typical_s) else len(idle)
        due_s = view.state_since_s[idle] + wait_s
        idle_down, due_down = idle[::-1], due_s[::-1]
        at_once = np.arange(len(idle)) < spare - keep
        ripe = (due_down <= view.now + TIME_TOLERANCE_S) | (at_once & np.isfinite(due_down))
        chosen = idle_down[ripe][:spare]
        actions: list[Action] = []
        if len(chosen):
            actions += sleep(view, np.sort(chosen), "idle, and not wanted soon", {})
        later = due_s[due_s > view.now + TIME_TOLERANCE_S]
        if np.isfinite(next_s := float(later.min(initial=np.inf))):
            actions.append(CallAt(next_s))
        return actions


class BidPass(EasyPass):
    """Starts jobs that the price lets through, cheapest first."""

    def __init__(self, view: View, policy: BidPrice, step: Step) -> None:
        super().__init__(view)
        self.policy, self.step = policy, step
        self.wanted = 0
        self.next_due_s = math.inf
        self._asleep = int(np.count_nonzero((view.host_state == ASLEEP) & view.available)) + sum(c for _, c in view.wakes)
        self._asleep *= view.power_actions_allowed

    def run(self) -> list[Action]:
        policy, step, queue = self.policy, self.step, self.view.queue
        if not len(queue):
            return self.actions
        places = queue.places()
        walltime_s = queue.walltime_s[places]
        left_s = step.left_s(self.view.now)
        ok = in_time(policy.surest_s(walltime_s, Speed.FAST), left_s)
        places, walltime_s = places[ok], walltime_s[ok]
        energy_j = queue.res[places] * walltime_s * policy.per_work_j()
        order = np.argsort(energy_j, kind="stable")
        dear = broke = 0
        jobs = [(queue.at(int(places[i])), float(energy_j[i])) for i in order]
        for job, job_j in jobs:
            late = False
            if self.reservation is not None:
                late = self.is_late(job, self.reservation)
                if job.res > self.free or (late and job.res > self.reservation.extra):
                    continue
            if job_j > step.price.price_j:
                if dear >= MISSES:
                    break
                if not self._cheap(job):
                    dear += 1
                    continue
            add_w = self._affordable(job)
            if add_w is None:
                broke += 1
                if broke >= MISSES:
                    break
                continue
            if job.res <= self.free:
                if self.start(job, late):
                    step.committed_w = step.committed_w + add_w
                    self._hurry(job)
            else:
                self._want(job, job_j)
        return self.actions

    def _profile(self, job: Job, speed: Speed) -> tuple[float, FloatArray]:
        policy, step = self.policy, self.step
        fleet = policy.fleet
        after_s = np.maximum(step.cells.middle_s - (self.view.now - step.start_s), 0.0)
        share = after_s * (fleet.flops[speed] / (job.walltime_s * fleet.reference_flops))
        return job.res * float(fleet.busy_w[speed]), policy.run_times.survival(np.zeros(1), share)

    def _cheap(self, job: Job) -> bool:
        step = self.step
        busy_w, chance = self._profile(job, step.price.speed)
        base_w = step.base_w + busy_w * chance
        slack_j = step.ahead.slack(step.hopeful_w - base_w).slack_j
        if step.slack_j - slack_j > max(CHEAP_SHARE * step.price.price_j, LEAST_COST_J):
            return False
        step.base_w, step.slack_j = base_w, slack_j
        return True

    def _affordable(self, job: Job) -> FloatArray | None:
        step = self.step
        busy_w, chance = self._profile(job, step.price.speed)
        add_w = busy_w * (chance + RUN_SIGMAS * np.sqrt(chance * (1.0 - chance)))
        fits, ends_j = step.ahead.stays_up(step.careful_w - step.committed_w - add_w)
        if not fits:
            return None
        if step.price.rationed and bool((ends_j < step.goals_j).any()):
            return None
        return add_w

    def _hurry(self, job: Job) -> None:
        policy, step = self.policy, self.step
        fleet = policy.fleet
        hosts = self.actions[-1].hosts
        late = not in_time(policy.surest_s(np.array([job.walltime_s]), Speed.THRIFTY), step.left_s(self.view.now))[0]
        speed = step.price.speed
        if late:
            policy.urgent.add(job.id)
            speed = Speed.FAST
            targets = fleet.targets(Speed.FAST)[hosts.ids]
            if (self.view.pstate[hosts.ids] != targets).any():
                for p in np.unique(targets).tolist():
                    self.actions.append(SetPState(HostSet(hosts.ids[targets == p]), p, "to end in time"))
        policy.work.start(self.view, job, fleet.hosts_flops(hosts.ids, speed))

    def _want(self, job: Job, job_j: float) -> None:
        policy, step, now = self.policy, self.step, self.view.now
        fleet = policy.fleet
        since_s = policy.admitted_s.setdefault(job.id, now)
        run_s = job.walltime_s * policy.run_times.mean * fleet.reference_flops / fleet.flops[step.price.speed]
        wake_s = float(self.view.power_model.on_s.max())
        patience_s = 0.0
        if not policy.options.quick:
            patience_s = run_s + wake_s if step.price.rationed else 0.1 * run_s
        due_s = since_s + patience_s
        surest_s = float(policy.surest_s(np.array([job.walltime_s]), Speed.FAST)[0])
        due_s = min(due_s, step.end_s - surest_s - 2 * wake_s)
        if now < due_s - TIME_TOLERANCE_S:
            self.next_due_s = min(self.next_due_s, due_s)
            return
        self.wanted += job.res
        if self._asleep <= 0 and self.reservation is None:
            self.reservation = self.reserve(job)
