"""The storage guard: the same for every policy, so that comparisons are fair.

When the servers in their present states would take the battery below SoC_min in the coming step, pending
wakes are cancelled first, then idle servers are put to sleep, then jobs are killed and their servers put to
sleep. Only the sleep floor may take the battery below SoC_min.
"""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray, PStateArray
from beasy_sched.energy.server_energy import stretch_energy_j
from beasy_sched.energy.site import GuardMode, GuardSettings
from beasy_sched.engine.actions import Action, Facts, Kill, SetPState
from beasy_sched.engine.budget import energy_tolerance_j
from beasy_sched.model.cluster import ASLEEP, IDLE, SWITCHING_OFF, SWITCHING_ON, Cluster, PowerAccount
from beasy_sched.model.hosts import HostIds, HostSet

NO_ENERGY = "guard: no energy for it"


def committed_energy_j(cluster: Cluster, wish: PStateArray, now: float, dt_s: float) -> FloatArray:
    """Energy of each server over the next ``dt_s`` seconds if nothing more is decided, J.

    Assumes that jobs keep running, at the requested speeds, except those about to be killed, and that
    transitions under way or requested are completed. ``wish`` is the P-state requested of each server, -1
    where there is none.
    """
    hosts = np.arange(cluster.size)
    power, kinds, state = cluster.power, cluster.platform.kind_of, cluster.state
    pstate, load = _speeds_to_come(cluster, wish)
    energy_j = power.draw_w(hosts, state, pstate, load) * dt_s
    idle_w = power.idle_w[kinds, pstate]
    off, on = state == SWITCHING_OFF, state == SWITCHING_ON
    if off.any():
        energy_j = np.where(off, resting_energy_j(cluster, hosts, now, dt_s), energy_j)
    if on.any():
        left_s = np.clip(cluster.switch_end_s - now, 0.0, dt_s)
        energy_j = np.where(on, stretch_energy_j(power, kinds, idle_w, dt_s, on_s=left_s), energy_j)
    energy_j = np.where(cluster.leaving, idle_w * dt_s, energy_j)
    switchable = (wish >= 0) & cluster.available
    if not switchable.any():
        return energy_j
    to_sleep = switchable & cluster.held & ((state == IDLE) | cluster.leaving)
    energy_j = np.where(to_sleep, sleep_energy_j(cluster, hosts, dt_s), energy_j)
    to_wake = np.flatnonzero(switchable & ~cluster.held & ((state == ASLEEP) | off))
    energy_j[to_wake] = waking_energy_j(cluster, to_wake, wish[to_wake], now, dt_s)
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


def _falling_s(cluster: Cluster, hosts: HostIds, now: float, dt_s: float) -> FloatArray:
    """How much of ``dt_s`` servers that are falling asleep still need for it, s; 0 for others."""
    falling = cluster.state[hosts] == SWITCHING_OFF
    return np.where(falling, np.clip(cluster.switch_end_s[hosts] - now, 0.0, dt_s), 0.0)


def _speeds_to_come(cluster: Cluster, wish: PStateArray) -> tuple[PStateArray, FloatArray]:
    """P-state and load of each server once those that are on have the speeds wished for."""
    on = (cluster.state != ASLEEP) & (cluster.state != SWITCHING_OFF)
    changed = (wish >= 0) & ~cluster.held & on & (wish != cluster.pstate)
    if not changed.any():
        return cluster.pstate, cluster.load
    pstate, load = np.where(changed, wish, cluster.pstate), cluster.load.copy()
    for job in cluster.running.values():
        hosts = job.hosts.ids
        if changed[hosts].any():
            load[hosts] = cluster.load_of(job, hosts, pstate[hosts])
    return pstate, load


class Guard:
    """Sheds load until the supply of the coming step is sufficient."""

    def __init__(
        self, settings: GuardSettings, cluster: Cluster, account: PowerAccount, *, power_actions: bool = True
    ) -> None:
        """Guard ``cluster`` in the way of ``settings``; without ``power_actions`` it can only kill."""
        self.settings = settings
        self.cluster, self.account = cluster, account
        sleep = cluster.platform.sleep_pstate
        self.sleep = sleep if power_actions else np.full_like(sleep, -1)
        """The P-state in which each host sleeps, -1 where it cannot."""

    def shed(
        self,
        supply_j: float,
        wish: PStateArray,
        now: float,
        dt_s: float,
        soc_pct: float | None = None,
    ) -> tuple[list[Action], float]:
        """Return the actions after which the coming step needs at most ``supply_j``, and the headroom, J.

        The headroom is what is then left: negative if even sleeping needs too much. ``soc_pct`` is
        the battery's state of charge, for the decision log.
        """
        step = _Shedding(self, supply_j, wish, now, dt_s, {} if soc_pct is None else {"soc_pct": soc_pct})
        for way in (step.cancel_wakes, step.put_to_sleep, step.kill):
            if step.missing_j > step.tolerance_j:
                step.missing_j -= way()
        return step.actions, -step.missing_j


class _Shedding:
    """The shedding of one step: its actions and what is missing. Each method returns what it saves, J."""

    def __init__(
        self, guard: Guard, supply_j: float, wish: PStateArray, now: float, dt_s: float, known: Facts
    ) -> None:
        self.cluster, self.account = guard.cluster, guard.account
        self.mode, self.sleep = guard.settings.mode, guard.sleep
        self.wish, self.now, self.dt_s = wish, now, dt_s
        self.energy_j = committed_energy_j(self.cluster, wish, now, dt_s)
        needed_j = float(self.energy_j.sum())
        self.missing_j = needed_j - supply_j
        self.tolerance_j = energy_tolerance_j(supply_j, needed_j)
        self.facts: dict[str, float | int | str] = {
            "supply_j": supply_j,
            "needed_j": needed_j,
            "missing_j": self.missing_j,
            **known,
        }
        self.actions: list[Action] = []

    def cancel_wakes(self) -> float:
        """Servers wished awake stay asleep; those already waking go back as soon as they can."""
        cluster, state = self.cluster, self.cluster.state
        down = (state == ASLEEP) | (state == SWITCHING_OFF)
        pending = np.flatnonzero((self.wish >= 0) & ~cluster.held & down)
        waking = np.flatnonzero(state == SWITCHING_ON)
        resting_j = resting_energy_j(cluster, pending, self.now, self.dt_s)
        saved_j = float((self.energy_j[pending] - resting_j).sum())
        why = {**self.facts, "saves_j": saved_j}
        self._to_sleep(np.concatenate([pending, waking]), "guard: wake cancelled, no energy for it", why)
        return saved_j

    def put_to_sleep(self) -> float:
        """Put servers that are (or will be) idle to sleep, the best savers first, until enough is saved."""
        cluster = self.cluster
        unused = ((cluster.state == IDLE) | cluster.leaving) & ~cluster.held
        idle = np.flatnonzero(unused & (self.sleep >= 0) & cluster.available)
        saves_j = self.energy_j[idle] - sleep_energy_j(cluster, idle, self.dt_s)
        order = np.lexsort((-idle, -saves_j))
        order = order[saves_j[order] > 0]
        total_j = np.cumsum(saves_j[order])
        chosen = order[: int(np.searchsorted(total_j, self.missing_j - self.tolerance_j)) + 1]
        saved_j = float(saves_j[chosen].sum())
        self._to_sleep(idle[chosen], NO_ENERGY, {**self.facts, "saves_j": saved_j})
        return saved_j

    def kill(self) -> float:
        """Kill jobs, those that have spent least first, until enough is saved; all of them by `kill-all`."""
        cluster = self.cluster
        jobs = [job for job in cluster.running.values() if not cluster.leaving[job.hosts.ids].any()]
        victims = [(self.account.job_spent_j(job.hosts.ids, self.now), job) for job in jobs]
        victims.sort(key=lambda victim: (victim[0], victim[1].start_order))
        saves_j = [self._kill_saves_j(job.hosts.ids) for _, job in victims]
        chosen = list(range(len(victims)))
        if self.mode is GuardMode.SHED:
            chosen = _fewest(saves_j, self.missing_j - self.tolerance_j)
        known = {**self.facts, "mode": self.mode.value}
        if self.missing_j != known["missing_j"]:
            known["still_missing_j"] = self.missing_j
        for place in chosen:
            spent_j, job = victims[place]
            self.actions.append(
                Kill(job, NO_ENERGY, {**known, "spent_j": spent_j, "saves_j": saves_j[place]})
            )
            self._to_sleep(job.hosts.ids, NO_ENERGY, {"killed": job.id})
        return sum(saves_j[place] for place in chosen)

    def _kill_saves_j(self, hosts: HostIds) -> float:
        """What the end of a job on ``hosts`` saves, J: they sleep, or idle where they cannot."""
        cluster = self.cluster
        idle_w = cluster.power.idle_w[cluster.platform.kind_of[hosts], cluster.pstate[hosts]]
        sleeps = (self.sleep[hosts] >= 0) & cluster.available[hosts]
        after_j = np.where(sleeps, sleep_energy_j(cluster, hosts, self.dt_s), idle_w * self.dt_s)
        return float((self.energy_j[hosts] - after_j).sum())

    def _to_sleep(self, hosts: HostIds, rule: str, facts: Facts) -> None:
        targets = self.sleep[hosts]
        for pstate in np.unique(targets[targets >= 0]).tolist():
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
