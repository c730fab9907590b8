"""What the servers draw: power by state, energy by use, kept up to date change by change."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from beasy_sched.arrays import FloatArray, PStateArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind


class HostState(IntEnum):
    """What a server is doing."""

    IDLE = 0
    BUSY = 1
    ASLEEP = 2
    SWITCHING_OFF = 3
    SWITCHING_ON = 4


IDLE, BUSY, ASLEEP, SWITCHING_OFF, SWITCHING_ON = (int(state) for state in HostState)
"""The same as plain integers: arrays compare with them several times as fast as with an enum's members."""

USES = ("idle", "computing", "sleeping", "switching off", "switching on")
"""Names of the energy uses, by `HostState`."""


class PowerModel:
    """Powers and transition times of every kind, as tables: [kind, P-state] in W, [kind] in s and W."""

    def __init__(self, platform: Platform) -> None:
        """Lay out the tables; kinds without powers draw nothing."""
        kinds = platform.kinds
        width = max((kind.pstates for kind in kinds), default=1)
        self.kind_of = platform.kind_of
        self.sleep_pstate = platform.sleep_of_kind
        self.idle_w = _table([kind.idle_w for kind in kinds], width)
        self.epsilon_w = _table([kind.epsilon_w or kind.idle_w for kind in kinds], width)
        self.full_w = _table([kind.full_w for kind in kinds], width)
        self.sleep_w = np.array([_sleep_w(kind) for kind in kinds])
        self.off_w = np.array([_transition_w(kind, "off_pstate") for kind in kinds])
        self.on_w = np.array([_transition_w(kind, "on_pstate") for kind in kinds])
        self.off_s = np.array([kind.off_duration_s() for kind in kinds])
        self.on_s = np.array([kind.on_duration_s() for kind in kinds])
        self.can_sleep = np.array([kind.sleep is not None for kind in kinds])
        by_kind = [
            np.broadcast_to(w[:, None], self.idle_w.shape) for w in (self.sleep_w, self.off_w, self.on_w)
        ]
        self._unloaded_w = np.stack([self.idle_w, self.idle_w, *by_kind])
        """Power by what a server does, kind and P-state, a job's load aside."""
        for table in vars(self).values():
            table.flags.writeable = False
        self._full_job_w = self.epsilon_w + (self.full_w - self.epsilon_w) - self.idle_w

    def draw_w(
        self,
        hosts: HostIds,
        state: StateArray,
        pstate: PStateArray,
        load: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Power of ``hosts`` in these states (arrays of the same length), W; ``load`` of the busy, 0 to 1."""
        draw_w: FloatArray = self._unloaded_w[state, self.kind_of[hosts], pstate]
        busy = state == BUSY
        if busy.all():
            return self.busy_w(hosts, pstate, load)
        if busy.any():
            loads = load if isinstance(load, float) else load[busy]
            draw_w[busy] = self.busy_w(hosts[busy], pstate[busy], loads)
        return draw_w

    def busy_w(self, hosts: HostIds, pstate: PStateArray, load: FloatArray | float = 1.0) -> FloatArray:
        """Power of ``hosts`` at a share of full load, W: idle at 0, Epsilon to full above."""
        kinds = self.kind_of[hosts]
        least_w = self.epsilon_w[kinds, pstate]
        loaded_w = least_w + (self.full_w[kinds, pstate] - least_w) * load
        return np.where(np.asarray(load) > 0.0, loaded_w, self.idle_w[kinds, pstate])

    def job_w(self, hosts: HostIds, pstate: PStateArray, load: FloatArray | None = None) -> float:
        """What a job adds to the idle power of its hosts, W; at full load where ``load`` is not given."""
        if load is None:
            return float(self._full_job_w[self.kind_of[hosts], pstate].sum())
        idle_w = self.idle_w[self.kind_of[hosts], pstate]
        return float((self.busy_w(hosts, pstate, load) - idle_w).sum())


class PowerAccount:
    """Energy of every use since time 0, and of what each busy host has spent on its present job."""

    def __init__(self, model: PowerModel, state: StateArray, pstate: PStateArray) -> None:
        """Start at time 0 with the hosts in these states."""
        size = len(state)
        self.model = model
        self.now_s = 0.0
        self.energy_by_use_j = np.zeros(len(USES))
        self._power_by_use_w = np.zeros(len(USES))
        self._use = state.copy()
        self._hosts_by_use = np.bincount(state, minlength=len(USES))
        self._draw_w = np.zeros(size)
        self._since_s = np.zeros(size)
        self._job_j = np.zeros(size)
        self.change(np.arange(size), state, pstate, 0.0)

    @property
    def power_w(self) -> float:
        """Present power of all servers, W."""
        return float(self._power_by_use_w.sum())

    def advance(self, now: float) -> None:
        """Let time pass to ``now`` (s)."""
        if now > self.now_s:
            self.energy_by_use_j += self._power_by_use_w * (now - self.now_s)
            self.now_s = now

    def change(
        self,
        hosts: HostIds,
        state: StateArray,
        pstate: PStateArray,
        now: float,
        load: FloatArray | float = 1.0,
    ) -> None:
        """Hosts go to new states at ``now``; ``load`` is the share of full load of the busy ones."""
        self.advance(now)
        old_w = self._draw_w[hosts]
        self._job_j[hosts] += np.where(self._use[hosts] == BUSY, old_w * (now - self._since_s[hosts]), 0.0)
        np.subtract.at(self._power_by_use_w, self._use[hosts], old_w)
        new_w = self.model.draw_w(hosts, state, pstate, load)
        np.add.at(self._power_by_use_w, state, new_w)
        self._hosts_by_use += np.bincount(state, minlength=len(USES)) - np.bincount(
            self._use[hosts], minlength=len(USES)
        )
        # What sums and differences leave behind is rounding: no power is below 0, nor that of no host above.
        self._power_by_use_w[(self._power_by_use_w < 0.0) | (self._hosts_by_use == 0)] = 0.0
        self._draw_w[hosts] = new_w
        self._use[hosts] = state
        self._since_s[hosts] = now

    def spent_j(self, now: float) -> FloatArray:
        """Energy that each busy host has spent on its present job, J; means nothing of the others."""
        return np.asarray(self._job_j + self._draw_w * (now - self._since_s))

    def job_spent_j(self, hosts: HostIds, now: float) -> float:
        """Energy that busy hosts have spent since their job started, J."""
        return float((self._job_j[hosts] + self._draw_w[hosts] * (now - self._since_s[hosts])).sum())

    def close_job(self, hosts: HostIds, now: float) -> float:
        """Return a job's energy (J) and begin its hosts' next count. Call it before the hosts change."""
        spent_j = self.job_spent_j(hosts, now)
        self._job_j[hosts] = -(self._draw_w[hosts] * (now - self._since_s[hosts]))
        return spent_j


def _table(rows: list[tuple[float, ...]], width: int) -> FloatArray:
    table = np.zeros((len(rows), width))
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def _sleep_w(kind: ServerKind) -> float:
    return kind.idle_w[kind.sleep.pstate] if kind.sleep and kind.idle_w else 0.0


def _transition_w(kind: ServerKind, which: str) -> float:
    """Power of a transition: 1 flop keeps one of the cores busy."""
    if kind.sleep is None or not kind.full_w:
        return 0.0
    pstate: int = getattr(kind.sleep, which)
    if kind.cores == 1:
        return kind.full_w[pstate]
    return kind.epsilon_w[pstate] + (kind.full_w[pstate] - kind.epsilon_w[pstate]) / kind.cores
