"""The energy of the present step: what is left of it for starts and wakes, and the storage guard.

The guard is the same for every policy, so that comparisons are fair.

When the servers in their present states would take the battery below SoC_min in the coming step, pending
wakes are cancelled first, then idle servers are put to sleep, then jobs are killed and their servers put to
sleep. Only the sleep floor may take the battery below SoC_min.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, PStateArray, all_of, any_of, distinct, total
from beasy_sched.energy.server_energy import stretch_energy_j
from beasy_sched.energy.site import GuardMode, GuardSettings
from beasy_sched.energy.site_load import StepLoad
from beasy_sched.engine.actions import Action, Facts, Kill, SetPState
from beasy_sched.engine.session_words import NO_ENERGY, NO_ENERGY_FOR_HOSTS, NO_ENERGY_TO_WAKE, Rule
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.host_power import PowerAccount
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.host_table import NOT_REQUESTED
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.jobs import Job

ENERGY_TOLERANCE: Final = 1e-9
"""Energies that differ by this share of the largest of them are the same.

The last digits of measured energies are rounding: Batsim prints six decimals, adds host by host and
interval by interval, and its clock differs by up to half a microsecond from the times that it prints. Over a
week that is 1e-13 of the energy used since time 0, or 1e-3 J of an energy computed from printed times.
Decisions at the limit are common and must not depend on it: a budget that is used up exactly, or a supply
that equals the demand.
"""
_LEAST_TOLERANCE_J: Final = 1e-6
"""The resolution of Batsim's six decimals, however small the energies are."""
_NO_LOAD: Final = StepLoad()


def energy_tolerance_j(*energies_j: float) -> float:
    """Return the difference (J) up to which energies of the size of ``energies_j`` count as equal.

    Infinite energies are ignored.
    """
    largest_j = 0.0
    for energy_j in energies_j:
        if largest_j < abs(energy_j) < math.inf:
            largest_j = abs(energy_j)
    return ENERGY_TOLERANCE * largest_j + _LEAST_TOLERANCE_J


@dataclass
class StepBudget:
    """The energy that the guard left for a step. Without ``veto``, it is counted but never denied."""

    cluster: Cluster
    step: int
    """Number of the step since the start of the run."""
    start_s: float
    end_s: float
    renew_w: float
    """Production of the step as known now, W."""
    soc_pct: float
    """State of charge at the start of the step, %."""
    supply_j: float
    """Energy that servers may draw in the whole step without taking the battery below SoC_min, J.

    Like the other energies of a budget, it is that of the servers alone: the base load, services and the
    servers' cooling (`load`) are subtracted.
    """
    headroom_j: float
    """Energy left of the supply after the servers' present use and everything granted since.

    Negative if even sleeping servers need more than the supply.
    """
    veto: bool
    now: float = 0.0
    load: StepLoad = _NO_LOAD
    """Load of the site besides the servers in the step."""

    @property
    def remaining_s(self) -> float:
        """Seconds to the end of the step."""
        return max(self.end_s - self.now, 0.0)

    def grant_start(self, hosts: HostIds, *, computes: bool = True) -> bool:
        """Take the energy that a job on idle ``hosts`` adds to this step, if there is enough."""
        return not computes or self._take(self.start_cost_j(hosts))

    def grant_wakes(self, hosts: HostIds, pstate: int) -> int:
        """Take the energy that waking sleeping ``hosts`` adds to this step, for as many as it suffices."""
        if not len(hosts):
            return 0
        most_j = self.headroom_j + self._tolerance_j if self.veto else math.inf
        if self._wake_cost_j(self.cluster.platform.kind_of.item(hosts[0]), pstate) > most_j:
            return 0
        total_j = self.wake_cost_j(hosts, pstate).cumsum()
        fits = total_j <= most_j
        count = len(hosts) if all_of(fits) else int(fits.argmin())
        self.headroom_j -= float(total_j[count - 1])
        return count

    @property
    def _tolerance_j(self) -> float:
        return energy_tolerance_j(self.supply_j)

    def start_cost_j(self, hosts: HostIds) -> float:
        """Energy that a job on idle ``hosts`` adds until the end of the step at most, J."""
        return self.cluster.power.job_w(hosts, self.cluster.pstate[hosts]) * self.remaining_s

    def wake_cost_j(self, hosts: HostIds, pstate: int) -> FloatArray:
        """Energy that waking each of ``hosts`` adds in this step, J: the transition, then idling."""
        platform = self.cluster.platform
        costs_j = np.array([self._wake_cost_j(kind, pstate) for kind in range(len(platform.kinds))])
        return costs_j[platform.kind_of[hosts]]

    def _wake_cost_j(self, kind: int, pstate: int) -> float:
        """Energy that waking one server of a kind adds in this step, J."""
        power, left_s = self.cluster.power, self.remaining_s
        waking_s, idle_w = min(power.on_s.item(kind), left_s), power.idle_w[kind, pstate]
        awake_j = stretch_energy_j(power, kind, idle_w, left_s, on_s=waking_s)
        return float(awake_j - power.sleep_w[kind] * left_s)

    def release(self, hosts: HostIds) -> None:
        """Give back what the job that is leaving ``hosts`` will not use. Call it before they become idle."""
        cluster = self.cluster
        idle_w = cluster.power.idle_w[cluster.platform.kind_of[hosts], cluster.pstate[hosts]]
        self.headroom_j += total(cluster.draw_w[hosts] - idle_w) * self.remaining_s

    def _take(self, cost_j: float) -> bool:
        if self.veto and cost_j > self.headroom_j and cost_j > self.headroom_j + self._tolerance_j:
            return False
        self.headroom_j -= cost_j
        return True


def committed_energy_j(cluster: Cluster, now: float, dt_s: float) -> FloatArray:
    """Energy of each server over the next ``dt_s`` seconds if nothing more is decided, J.

    Assumes that jobs keep running, at the requested speeds, except those with a kill pending, and that
    transitions under way or requested are completed.
    """
    power, kinds, state = cluster.power, cluster.platform.kind_of, cluster.state
    pstate, draw_w = _speeds_to_come(cluster) if cluster.requests else (cluster.pstate, cluster.draw_w)
    energy_j = draw_w * dt_s
    if cluster.any_in(SWITCHING_OFF):
        off = (state == SWITCHING_OFF).nonzero()[0]
        energy_j[off] = resting_energy_j(cluster, off, now, dt_s)
    if cluster.any_in(SWITCHING_ON):
        on = (state == SWITCHING_ON).nonzero()[0]
        left_s = np.minimum(np.maximum(cluster.switch_end_s[on] - now, 0.0), dt_s)
        idle_w = power.idle_w[kinds[on], pstate[on]]
        energy_j[on] = stretch_energy_j(power, kinds[on], idle_w, dt_s, on_s=left_s)
    if any_of(cluster.kill_pending):
        leaving = cluster.kill_pending.nonzero()[0]
        energy_j[leaving] = power.idle_w[kinds[leaving], pstate[leaving]] * dt_s
    if not cluster.requests:
        return energy_j
    switchable = (cluster.requested_pstate != NOT_REQUESTED) & cluster.available
    to_sleep = (switchable & cluster.sleep_requested & ((state == IDLE) | cluster.kill_pending)).nonzero()[0]
    if len(to_sleep):
        energy_j[to_sleep] = sleep_energy_j(cluster, to_sleep, dt_s)
    down = (state == ASLEEP) | (state == SWITCHING_OFF)
    to_wake = (switchable & ~cluster.sleep_requested & down).nonzero()[0]
    if len(to_wake):
        energy_j[to_wake] = waking_energy_j(cluster, to_wake, cluster.requested_pstate[to_wake], now, dt_s)
    return energy_j


def waking_energy_j(
    cluster: Cluster, hosts: HostIds, pstate: PStateArray, now: float, dt_s: float
) -> FloatArray:
    """Energy over ``dt_s`` seconds of servers that wake to ``pstate`` as soon as they can, then idle, J.

    Those that are falling asleep wake when they have fallen asleep.
    """
    power, kinds = cluster.power, cluster.platform.kind_of[hosts]
    off_s = _falling_s(cluster, hosts, now, dt_s)
    on_s = np.minimum(power.on_s[kinds], dt_s - off_s)
    return stretch_energy_j(power, kinds, power.idle_w[kinds, pstate], dt_s, off_s=off_s, on_s=on_s)


def resting_energy_j(cluster: Cluster, hosts: HostIds, now: float, dt_s: float) -> FloatArray:
    """Energy over ``dt_s`` seconds of servers that are asleep or falling asleep, and stay so, J."""
    power, kinds = cluster.power, cluster.platform.kind_of[hosts]
    off_s = _falling_s(cluster, hosts, now, dt_s)
    return stretch_energy_j(power, kinds, power.sleep_w[kinds], dt_s, off_s=off_s)


def sleep_energy_j(cluster: Cluster, hosts: HostIds, dt_s: float) -> FloatArray:
    """Energy over ``dt_s`` seconds of servers that begin to fall asleep now, J."""
    power, kinds = cluster.power, cluster.platform.kind_of[hosts]
    off_s = np.minimum(power.off_s[kinds], dt_s)
    return stretch_energy_j(power, kinds, power.sleep_w[kinds], dt_s, off_s=off_s)


def servers_fed(cluster: Cluster, headroom_j: float, now: float, dt_s: float) -> BoolArray:
    """Return the servers that the supply of a step can feed at full load: those with jobs first, [N].

    ``headroom_j``: what the step has left after its commitment, J. A server that is not fed keeps its job,
    but may not get another, and sleeps if it has none. Servers that are on come first, then the lower ids.
    """
    power, kinds, state = cluster.power, cluster.platform.kind_of, cluster.state
    busy = (state == BUSY) & ~cluster.kill_pending
    candidates = (busy | cluster.available).nonzero()[0]
    kinds, busy = kinds[candidates], busy[candidates]
    committed_j = committed_energy_j(cluster, now, dt_s)[candidates]
    on = ~busy & ((state[candidates] == IDLE) | (state[candidates] == SWITCHING_ON))
    rests = on & (cluster.platform.sleep_of_kind[kinds] >= 0)
    least_j = np.where(rests, np.minimum(sleep_energy_j(cluster, candidates, dt_s), committed_j), committed_j)
    pstate = np.where(busy | on, cluster.pstate[candidates], cluster.platform.fastest_of_kind[kinds])
    full_j = np.maximum(power.full_w[kinds, pstate], np.where(busy | on, 0.0, power.on_w[kinds])) * dt_s
    order = np.lexsort((candidates, ~on, ~busy))
    left_j = headroom_j + float((committed_j - least_j).sum())
    cost_j = np.maximum(full_j - least_j, 0.0)[order].cumsum()
    count = int(cost_j.searchsorted(left_j + energy_tolerance_j(left_j), side="right"))
    fed = np.zeros(cluster.size, dtype=np.bool_)
    fed[candidates[order[:count]]] = True
    return fed


def _falling_s(cluster: Cluster, hosts: HostIds, now: float, dt_s: float) -> FloatArray:
    """Part of ``dt_s`` that servers still need to fall asleep, s; 0 for others."""
    falling = cluster.state[hosts] == SWITCHING_OFF
    if not any_of(falling):
        return np.zeros(len(hosts))
    return np.where(falling, np.minimum(np.maximum(cluster.switch_end_s[hosts] - now, 0.0), dt_s), 0.0)


def _speeds_to_come(cluster: Cluster) -> tuple[PStateArray, FloatArray]:
    """P-state and draw (W) of each server once those that are on have the requested speeds."""
    requested = cluster.requested_pstate
    on = (cluster.state != ASLEEP) & (cluster.state != SWITCHING_OFF)
    to_speed = (requested != NOT_REQUESTED) & ~cluster.sleep_requested & on
    changed = to_speed & (requested != cluster.pstate)
    if not any_of(changed):
        return cluster.pstate, cluster.draw_w
    pstate, load = np.where(changed, requested, cluster.pstate), cluster.load.copy()
    for job in cluster.running.values():
        hosts = job.hosts.ids
        if any_of(changed[hosts]):
            load[hosts] = cluster.load_of(job, hosts, pstate[hosts])
    return pstate, cluster.power.draw_w(np.arange(cluster.size), cluster.state, pstate, load)


class Restarts(Protocol):
    """Cost of kills where jobs come back (`engine.lives`)."""

    def losses_s(self, jobs: Sequence[Job]) -> list[float]:
        """Return the time that a kill of each of ``jobs`` costs now, s."""

    def notice_s(self, job: Job) -> float:
        """Return the time between the guard's decision to kill a job and the kill, s."""


class Guard:
    """Sheds load until the supply of the coming step is sufficient."""

    def __init__(
        self,
        settings: GuardSettings,
        cluster: Cluster,
        account: PowerAccount,
        *,
        power_actions: bool = True,
        kills: bool = True,
    ) -> None:
        """Guard ``cluster`` according to ``settings``; without ``power_actions`` it can only kill.

        ``kills``: whether it may kill jobs.
        """
        self.settings, self._kills = settings, kills
        self.cluster, self.account = cluster, account
        sleep = cluster.platform.sleep_pstate
        self.sleep = sleep if power_actions else np.full_like(sleep, -1)
        """The P-state in which each host sleeps, -1 where it cannot."""
        self.restarts: Restarts | None = None
        """Cost of kills where jobs come back; None if they do not."""

    def shed(
        self,
        supply_j: float,
        now: float,
        dt_s: float,
        soc_pct: float | None = None,
        energy_j: FloatArray | None = None,
        load: StepLoad = _NO_LOAD,
    ) -> tuple[list[Action], float]:
        """Return the actions after which the coming step needs at most ``supply_j``, and the headroom, J.

        The headroom is what is then left: negative if even sleeping needs too much. ``soc_pct`` is the
        battery's state of charge, and ``load`` that besides the servers, for the log; ``energy_j`` is
        the committed energy of each server where it is known.
        """
        self.now, self.dt_s = now, dt_s
        self.energy_j = committed_energy_j(self.cluster, now, dt_s) if energy_j is None else energy_j
        needed_j = float(self.energy_j.sum())
        self.missing_j = needed_j - supply_j
        self.tolerance_j = energy_tolerance_j(supply_j, needed_j)
        self.actions: list[Action] = []
        if self.missing_j <= self.tolerance_j:
            return self.actions, -self.missing_j
        self.facts: dict[str, float | int | str] = {
            "supply_j": supply_j,
            "needed_j": needed_j,
            "missing_j": self.missing_j,
        }
        if soc_pct is not None and math.isfinite(soc_pct):  # there is a battery
            self.facts["soc_pct"] = soc_pct
        if load.pue > 1.0:
            self.facts["pue"] = load.pue
        if load.services_w > 0.0:
            self.facts["services_w"] = load.services_w
        for way in (self._cancel_wakes, self._put_to_sleep, self._kill):
            if self.missing_j > self.tolerance_j and (self._kills or way != self._kill):
                self.missing_j -= way()
        return self.actions, -self.missing_j

    # --- the ways to shed, each of which returns what it saves, J -----------------------------------------

    def _cancel_wakes(self) -> float:
        """Servers requested to wake stay asleep; those already waking go back as soon as they can."""
        cluster, state = self.cluster, self.cluster.state
        down = (state == ASLEEP) | (state == SWITCHING_OFF)
        requested = cluster.requested_pstate != NOT_REQUESTED
        pending = (requested & ~cluster.sleep_requested & down).nonzero()[0]
        waking = (state == SWITCHING_ON).nonzero()[0]
        if not len(pending) and not len(waking):
            return 0.0
        resting_j = resting_energy_j(cluster, pending, self.now, self.dt_s)
        saved_j = float((self.energy_j[pending] - resting_j).sum())
        why = {**self.facts, "saves_j": saved_j}
        self._to_sleep(np.concatenate([pending, waking]), NO_ENERGY_TO_WAKE, why)
        return saved_j

    def _put_to_sleep(self) -> float:
        """Put servers that are (or will be) idle to sleep, the best savers first, until enough is saved."""
        cluster = self.cluster
        unused = ((cluster.state == IDLE) | cluster.kill_pending) & ~cluster.sleep_requested
        idle = (unused & (self.sleep >= 0) & cluster.available).nonzero()[0]
        if not len(idle):
            return 0.0
        saves_j = self.energy_j[idle] - sleep_energy_j(cluster, idle, self.dt_s)
        order = np.lexsort((-idle, -saves_j))
        order = order[saves_j[order] > 0]
        total_j = saves_j[order].cumsum()
        chosen = order[: int(total_j.searchsorted(self.missing_j - self.tolerance_j)) + 1]
        saved_j = float(saves_j[chosen].sum())
        self._to_sleep(idle[chosen], NO_ENERGY_FOR_HOSTS, {**self.facts, "saves_j": saved_j})
        return saved_j

    def _kill(self) -> float:
        """Kill jobs, those that have spent least first, until enough is saved; all of them by `kill-all`."""
        cluster = self.cluster
        jobs = [job for job in cluster.running.values() if not any_of(cluster.kill_pending[job.hosts.ids])]
        victims = [(self.account.job_spent_j(job.hosts.ids, self.now), job) for job in jobs]
        victims.sort(key=lambda victim: (victim[0], victim[1].start_order))
        saves_j = [self._saves_j(job) for _, job in victims]
        losses_s: list[float] = []
        if self.restarts is not None:
            losses_s = self.restarts.losses_s([job for _, job in victims])
            loss = [
                loss_s * len(job.hosts) / saved_j if saved_j > 0.0 else math.inf  # host-seconds/J
                for (_, job), loss_s, saved_j in zip(victims, losses_s, saves_j, strict=True)
            ]
            order = sorted(range(len(victims)), key=loss.__getitem__)
            victims, saves_j = [victims[place] for place in order], [saves_j[place] for place in order]
            losses_s = [losses_s[place] for place in order]
        chosen = list(range(len(victims)))
        if self.settings.mode is GuardMode.SHED:
            chosen = _fewest(saves_j, self.missing_j - self.tolerance_j)
        facts = {**self.facts, "mode": self.settings.mode.value}
        if self.missing_j != facts["missing_j"]:
            facts["still_missing_j"] = self.missing_j
        for place in chosen:
            spent_j, job = victims[place]
            cost = {"loses_s": losses_s[place]} if losses_s else {"spent_j": spent_j}
            self.actions.append(Kill(job, NO_ENERGY, {**facts, **cost, "saves_j": saves_j[place]}))
            self._to_sleep(job.hosts.ids, NO_ENERGY_FOR_HOSTS, {"killed": job.id})
        return math.fsum(saves_j[place] for place in chosen)

    def _saves_j(self, job: Job) -> float:
        """Energy that the kill of a job saves, J, which may have a notice."""
        return self._kill_saves_j(
            job.hosts.ids, 0.0 if self.restarts is None else self.restarts.notice_s(job)
        )

    def _kill_saves_j(self, hosts: HostIds, notice_s: float = 0.0) -> float:
        """Energy that the end of a job on ``hosts`` saves, J: they sleep, or idle where they cannot.

        ``notice_s``: time for which the job continues before, s.
        """
        cluster, dt_s = self.cluster, self.dt_s
        until_j: FloatArray | float = 0.0
        if notice_s:
            until_j = self.energy_j[hosts] * (min(notice_s, dt_s) / dt_s)
            dt_s = max(dt_s - notice_s, 0.0)
        idle_w = cluster.power.idle_w[cluster.platform.kind_of[hosts], cluster.pstate[hosts]]
        sleeps = (self.sleep[hosts] >= 0) & cluster.available[hosts]
        after_j = np.where(sleeps, sleep_energy_j(cluster, hosts, dt_s), idle_w * dt_s)
        return total(self.energy_j[hosts] - (until_j + after_j))

    def _to_sleep(self, hosts: HostIds, rule: Rule, facts: Facts) -> None:
        targets = self.sleep[hosts]
        for pstate in distinct(targets[targets >= 0]):
            self.actions.append(SetPState(HostSet(np.sort(hosts[targets == pstate])), pstate, rule, facts))


def _fewest(saves_j: list[float], missing_j: float) -> list[int]:
    """Choose places in order until they save enough, then spare, from the last, each that is not needed."""
    chosen: list[int] = []
    saved_j = 0.0
    for place, saving_j in enumerate(saves_j):
        if saved_j >= missing_j:
            break
        if saving_j > 0.0:
            chosen.append(place)
            saved_j += saving_j
    for place in reversed(chosen[:]):
        if saved_j - saves_j[place] >= missing_j:
            chosen.remove(place)
            saved_j -= saves_j[place]
    return chosen
