"""The storage guard: the same for every policy, so that comparisons are fair.

When the servers as they are would take the battery below SoC_min in the coming step, there is no
energy for them: pending wakes are cancelled first, idle servers sleep next, then jobs are killed and
their servers sleep. The sleep floor may cross SoC_min; nothing else may.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beasy_sched.energy.site import GuardMode, GuardSettings
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.job import Job
from beasy_sched.model.power import HostState
from beasy_sched.policies.actions import Action, Kill, SetPState
from beasy_sched.policies.budget import ENERGY_TOLERANCE_J

NO_ENERGY = "guard: no energy for it"


def committed_energy_j(
    cluster: Cluster, wish: npt.NDArray[np.int16], now: float, dt_s: float
) -> npt.NDArray[np.float64]:
    """Energy of each server over the next ``dt_s`` seconds if nothing more is decided, J.

    Jobs are taken to run on, at full load, and transitions under way or wished for are completed.
    ``wish`` is the P-state that each server is to go to, -1 where there is none.
    """
    hosts = np.arange(cluster.size)
    power, kinds, state = cluster.power, cluster.platform.kind_of, cluster.state
    energy_j = power.draw_w(hosts, state, cluster.pstate) * dt_s
    left_s = np.clip(cluster.switch_end_s - now, 0.0, dt_s)
    idle_w = power.idle_w[kinds, cluster.pstate]
    off, on = state == HostState.SWITCHING_OFF, state == HostState.SWITCHING_ON
    energy_j = np.where(off, power.off_w[kinds] * left_s + power.sleep_w[kinds] * (dt_s - left_s), energy_j)
    energy_j = np.where(on, power.on_w[kinds] * left_s + idle_w * (dt_s - left_s), energy_j)
    asleep = state == HostState.ASLEEP
    to_sleep = (wish >= 0) & cluster.held & (state == HostState.IDLE)
    to_wake = (wish >= 0) & ~cluster.held & asleep
    energy_j = np.where(to_sleep, sleep_energy_j(cluster, hosts, dt_s), energy_j)
    on_s = np.minimum(power.on_s[kinds], dt_s)
    wake_j = power.on_w[kinds] * on_s + power.idle_w[kinds, np.maximum(wish, 0)] * (dt_s - on_s)
    return np.where(to_wake, wake_j, energy_j)


def sleep_energy_j(cluster: Cluster, hosts: HostIds, dt_s: float) -> npt.NDArray[np.float64]:
    """Energy over ``dt_s`` seconds of servers that begin to fall asleep now, J."""
    power, kinds = cluster.power, cluster.platform.kind_of[hosts]
    off_s = np.minimum(power.off_s[kinds], dt_s)
    energy_j: npt.NDArray[np.float64] = power.off_w[kinds] * off_s + power.sleep_w[kinds] * (dt_s - off_s)
    return energy_j


class Guard:
    """Sheds load until the coming step's energy suffices."""

    def __init__(self, settings: GuardSettings, cluster: Cluster) -> None:
        """Guard ``cluster`` in the way of ``settings``."""
        self.settings = settings
        self.cluster = cluster
        kinds = cluster.platform.kinds
        self._sleep = np.array([kind.sleep.pstate if kind.sleep else -1 for kind in kinds])

    def shed(
        self, supply_j: float, wish: npt.NDArray[np.int16], now: float, dt_s: float
    ) -> tuple[list[Action], float]:
        """Return what must go so that the coming step needs at most ``supply_j``, and what is then left.

        The second value is the headroom, J: never negative, and 0 where even sleeping is too much.
        """
        energy_j = committed_energy_j(self.cluster, wish, now, dt_s)
        missing_j = float(energy_j.sum()) - supply_j
        actions: list[Action] = []
        if missing_j > ENERGY_TOLERANCE_J:
            missing_j -= self._cancel_wakes(actions, wish, energy_j, dt_s)
        if missing_j > ENERGY_TOLERANCE_J:
            idle = np.flatnonzero((self.cluster.state == HostState.IDLE) & ~self.cluster.held)
            missing_j -= self._put_to_sleep(actions, idle, energy_j, missing_j, dt_s)
        if missing_j > ENERGY_TOLERANCE_J:
            missing_j -= self._kill(actions, energy_j, missing_j, now, dt_s)
        return actions, max(-missing_j, 0.0)

    def _cancel_wakes(
        self,
        actions: list[Action],
        wish: npt.NDArray[np.int16],
        energy_j: npt.NDArray[np.float64],
        dt_s: float,
    ) -> float:
        """Servers wished awake stay asleep; those already waking go back as soon as they can."""
        state = self.cluster.state
        pending = np.flatnonzero((wish >= 0) & ~self.cluster.held & (state == HostState.ASLEEP))
        waking = np.flatnonzero(state == HostState.SWITCHING_ON)
        hosts = np.concatenate([pending, waking])
        saved_j = (
            energy_j[pending] - self.cluster.power.sleep_w[self.cluster.platform.kind_of[pending]] * dt_s
        )
        self._sleep_actions(actions, hosts, "guard: wake cancelled, no energy for it")
        return float(saved_j.sum())

    def _put_to_sleep(
        self,
        actions: list[Action],
        idle: HostIds,
        energy_j: npt.NDArray[np.float64],
        missing_j: float,
        dt_s: float,
    ) -> float:
        """Put idle servers to sleep, those that save most first, until enough is saved."""
        idle = idle[self._sleep[self.cluster.platform.kind_of[idle]] >= 0]
        saves_j = energy_j[idle] - sleep_energy_j(self.cluster, idle, dt_s)
        order = np.lexsort((-idle, -saves_j))
        order = order[saves_j[order] > 0]
        total_j = np.cumsum(saves_j[order])
        enough = int(np.searchsorted(total_j, missing_j - ENERGY_TOLERANCE_J)) + 1
        chosen = order[:enough]
        self._sleep_actions(actions, idle[chosen], NO_ENERGY)
        return float(saves_j[chosen].sum())

    def _kill(
        self,
        actions: list[Action],
        energy_j: npt.NDArray[np.float64],
        missing_j: float,
        now: float,
        dt_s: float,
    ) -> float:
        """Kill jobs, those that have spent least first, until enough is saved; all of them by `kill-all`."""
        saved_j = 0.0
        for job in sorted(
            self.cluster.running.values(), key=lambda job: (self._spent_j(job, now), job.start_order)
        ):
            if self.settings.mode is GuardMode.SHED and saved_j >= missing_j - ENERGY_TOLERANCE_J:
                break
            assert job.hosts is not None
            hosts = job.hosts.ids
            actions.append(Kill(job, NO_ENERGY))
            self._sleep_actions(actions, hosts, NO_ENERGY)
            saved_j += float((energy_j[hosts] - sleep_energy_j(self.cluster, hosts, dt_s)).sum())
        return saved_j

    def _spent_j(self, job: Job, now: float) -> float:
        assert job.hosts is not None
        assert self.cluster.account is not None
        return self.cluster.account.job_spent_j(job.hosts.ids, now)

    def _sleep_actions(self, actions: list[Action], hosts: HostIds, rule: str) -> None:
        targets = self._sleep[self.cluster.platform.kind_of[hosts]]
        for pstate in np.unique(targets[targets >= 0]).tolist():
            actions.append(SetPState(HostSet(np.sort(hosts[targets == pstate])), pstate, rule))
