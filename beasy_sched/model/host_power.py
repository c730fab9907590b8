"""Powers of servers: tables by kind, state and P-state, and energy accounting by use."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

import numpy as np

from beasy_sched.arrays import FloatArray, PStateArray, StateArray, any_of, distinct, total
from beasy_sched.model.host_states import BUSY, USES
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind


class PowerModel:
    """Powers, speeds and transition times of every kind, as tables: [kind, P-state], [kind] for transitions.

    A job computes on one core of each of its hosts, so it draws full power only on hosts with one core.
    """

    def __init__(self, platform: Platform) -> None:
        """Build the tables; kinds without powers draw 0 W."""
        kinds = platform.kinds
        self.kind_of = platform.kind_of
        self.sleep_pstate = platform.sleep_of_kind
        self.idle_w = by_kind_and_pstate(platform, [kind.idle_w for kind in kinds])
        self.epsilon_w = by_kind_and_pstate(platform, [kind.epsilon_w or kind.idle_w for kind in kinds])
        self.full_w = by_kind_and_pstate(platform, [kind.full_w for kind in kinds])
        self.speed_flops = by_kind_and_pstate(platform, [_computing_flops(kind) for kind in kinds])
        """Speed of one core, flops/s; 0 if it does not compute, or if speeds are unknown."""
        self.sleep_w = np.array([k.idle_w[k.sleep.pstate] if k.sleep and k.idle_w else 0.0 for k in kinds])
        self.off_w = np.array([_transition_w(kind, "off_pstate") for kind in kinds])
        self.on_w = np.array([_transition_w(kind, "on_pstate") for kind in kinds])
        self.off_s = np.array([kind.off_duration_s() for kind in kinds])
        self.on_s = np.array([kind.on_duration_s() for kind in kinds])
        self.can_sleep = np.array([kind.sleep is not None for kind in kinds])
        by_kind = [
            np.broadcast_to(w[:, None], self.idle_w.shape) for w in (self.sleep_w, self.off_w, self.on_w)
        ]
        self._unloaded_w = np.stack([self.idle_w, self.idle_w, *by_kind])
        """Power by state, kind and P-state, without a job's load."""
        cores = np.array([kind.cores for kind in kinds], dtype=np.float64)
        self._core_w = (self.full_w - self.epsilon_w) / cores[:, None]
        """Power that one core adds at full load, W."""
        self._loaded_w = self.epsilon_w + self._core_w
        """Power with one core at full load, as summed by `busy_w`."""
        self._full_job_w = self._loaded_w - self.idle_w
        for table in vars(self).values():
            table.flags.writeable = False
        self.platform = platform

    def state_w(self, hosts: HostIds, state: int, pstate: PStateArray) -> FloatArray:
        """Return the power of ``hosts`` that are all in one state without a job, W."""
        return np.asarray(self._unloaded_w[state, self.kind_of[hosts], pstate])

    def draw_w(
        self,
        hosts: HostIds,
        state: StateArray,
        pstate: PStateArray,
        load: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Power of ``hosts`` in these states (arrays of the same length), W; ``load`` of the busy, 0 to 1."""
        busy = state == BUSY
        draw_w: FloatArray = self._unloaded_w[state, self.kind_of[hosts], pstate]
        if any_of(busy):
            loads = load if isinstance(load, float) else load[busy]
            draw_w[busy] = self.busy_w(hosts[busy], pstate[busy], loads)
        return draw_w

    def busy_w(self, hosts: HostIds, pstate: PStateArray, load: FloatArray | float = 1.0) -> FloatArray:
        """Power of ``hosts`` at a share of one core's full load, W: idle at 0, epsilon or more above."""
        kinds = self.kind_of[hosts]
        if isinstance(load, float) and load == 1.0:
            return np.asarray(self._loaded_w[kinds, pstate])
        least_w = self.epsilon_w[kinds, pstate]
        loaded_w = least_w + self._core_w[kinds, pstate] * load
        return np.where(np.asarray(load) > 0.0, loaded_w, self.idle_w[kinds, pstate])

    def job_w(self, hosts: HostIds, pstate: PStateArray) -> float:
        """Return the power that a job adds to the idle power of its hosts at full load, W."""
        return total(self._full_job_w[self.kind_of[hosts], pstate])


class PowerAccount:
    """Energy of every use since time 0, and of each busy host for its current job."""

    def __init__(self, model: PowerModel, state: StateArray, pstate: PStateArray) -> None:
        """Begin at time 0 with the hosts in these states."""
        size = len(state)
        self.model = model
        self.now_s = 0.0
        self._energy_by_use_j = [0.0] * len(USES)
        self._power_by_use_w = [0.0] * len(USES)
        self._hosts_by_use = [0] * len(USES)
        self.draw_w = model.draw_w(np.arange(size), state, pstate)
        """Current power of each host, W."""
        self._since_s = np.zeros(size)
        self._job_j = np.zeros(size)
        for use in distinct(state):
            self._add_up(use, self.draw_w[state == use], operator.add, 1)

    @property
    def power_w(self) -> float:
        """Current power of all servers, W."""
        return float(np.sum(self._power_by_use_w))

    @property
    def energy_by_use_j(self) -> FloatArray:
        """Energy of every use from time 0 to `now_s`, J."""
        return np.array(self._energy_by_use_j)

    def advance(self, now: float) -> None:
        """Advance to ``now`` (s)."""
        if now > self.now_s:
            for use, power_w in enumerate(self._power_by_use_w):
                self._energy_by_use_j[use] += power_w * (now - self.now_s)
            self.now_s = now

    def change(
        self,
        hosts: HostIds,
        before: int,
        after: int,
        pstate: PStateArray,
        now: float,
        load: FloatArray | float = 1.0,
    ) -> None:
        """Change hosts at ``now`` from one `HostState` to another, or from busy to busy in other P-states.

        ``load`` is the share of full load of busy ones. Hosts that are no longer busy have finished their
        job.
        """
        self.advance(now)
        old_w = self.draw_w[hosts]
        if after == BUSY:
            new_w = self.model.busy_w(hosts, pstate, load)
        else:
            new_w = self.model.state_w(hosts, after, pstate)
        if before == BUSY:
            spent_j = old_w * (now - self._since_s[hosts])
            self._job_j[hosts] = self._job_j[hosts] + spent_j if after == BUSY else 0.0
        self._add_up(before, old_w, operator.sub, -1)
        self._add_up(after, new_w, operator.add, 1)
        for use in (before, after):
            # Remove rounding errors: power is never negative, and 0 without hosts.
            if self._power_by_use_w[use] < 0.0 or not self._hosts_by_use[use]:
                self._power_by_use_w[use] = 0.0
        self.draw_w[hosts] = new_w
        self._since_s[hosts] = now

    def _add_up(
        self, use: int, draw_w: FloatArray, apply: Callable[[float, float], float], sign: int
    ) -> None:
        """Add the powers of hosts to that of their ``use`` one by one, or subtract them, and count them."""
        self._power_by_use_w[use] = reduce(apply, draw_w.tolist(), self._power_by_use_w[use])
        self._hosts_by_use[use] += sign * len(draw_w)

    def spent_j(self, now: float) -> FloatArray:
        """Energy that each busy host has spent on its current job, J; undefined for other hosts."""
        return np.asarray(self._job_j + self.draw_w * (now - self._since_s))

    def job_spent_j(self, hosts: HostIds, now: float) -> float:
        """Return the energy that busy hosts have spent since their job started, J; valid before its end."""
        return total(self._job_j[hosts] + self.draw_w[hosts] * (now - self._since_s[hosts]))


def by_kind_and_pstate(platform: Platform, rows: list[tuple[float, ...]]) -> FloatArray:
    """Tabulate values of each kind by P-state, [kind, P-state]; 0 if unknown."""
    table = np.zeros((len(rows), max((kind.pstates for kind in platform.kinds), default=1)))
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def _computing_flops(kind: ServerKind) -> tuple[float, ...]:
    computing = set(kind.computing)
    return tuple(speed if pstate in computing else 0.0 for pstate, speed in enumerate(kind.speeds_flops))


def _transition_w(kind: ServerKind, which: str) -> float:
    """Return the power of a transition: 1 flop keeps one of the cores busy."""
    if kind.sleep is None or not kind.full_w:
        return 0.0
    pstate: int = getattr(kind.sleep, which)
    if kind.cores == 1:
        return kind.full_w[pstate]
    return kind.epsilon_w[pstate] + (kind.full_w[pstate] - kind.epsilon_w[pstate]) / kind.cores
