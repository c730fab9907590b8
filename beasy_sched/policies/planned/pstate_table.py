"""Speeds of servers and their neighbours, by kind and P-state."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    StateArray,
)
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import ServerKind


class PStateTable:
    """Speeds and their neighbours by kind and P-state; other P-states are their own neighbours."""

    def __init__(self, power: PowerModel) -> None:
        """Sort each kind's computing P-states by speed."""
        platform, full_w, speed_flops = power.platform, power.full_w, power.speed_flops
        kinds = platform.kinds
        width = full_w.shape[1]
        faster = np.tile(np.arange(width, dtype=np.int8), (len(kinds), 1))
        thriftier = faster.copy()
        thriftiest = []
        self.rising = True
        """Whether a faster P-state never draws less than the next slower one."""
        for row, kind in enumerate(kinds):
            by_speed = sorted(kind.computing, key=lambda p: (kind.speeds_flops[p], -p))
            for slow, fast in itertools.pairwise(by_speed):
                faster[row, slow] = fast
                self.rising &= kind.full_w[slow] <= kind.full_w[fast]
                if _joules_per_flop(kind, slow) < _joules_per_flop(kind, fast):
                    thriftier[row, fast] = slow
            thriftiest.append(
                min(kind.computing, key=lambda p: (_joules_per_flop(kind, p), -kind.speeds_flops[p]))
            )
        self._row_of: IndexArray = platform.kind_of * width
        """Index in the tables at which the P-states of each host's kind begin, [N]."""
        self._full_w, self._speed_flops = full_w.ravel(), speed_flops.ravel()
        self._faster, self._thriftier = faster.ravel(), thriftier.ravel()
        self._top = platform.fastest_of_kind[platform.kind_of].astype(np.int8)
        self._sleep = platform.sleep_pstate.astype(np.int8)
        self._raised_w = np.take_along_axis(full_w, faster.astype(np.intp), axis=1).ravel() - self._full_w
        self.thriftiest = np.array(thriftiest, dtype=np.int8)[platform.kind_of]
        """P-state of least energy per flop (the faster of equals), by host."""
        hosts = np.arange(platform.size)
        best_w, best_flops = self.full_w(hosts, self.thriftiest), self.speed_flops(hosts, self.thriftiest)
        self._place = np.lexsort((hosts, best_w / best_flops)).argsort()
        """Rank of each host by least energy per flop, then by id: [N]."""
        self.reference_flops = np.array([kind.reference_speed_flops for kind in kinds])[platform.kind_of]
        """F': the speed to which a walltime refers, by host (Eq. 3.29)."""

    def faster(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """Return the next faster P-state of each of ``hosts``; the same one at the top."""
        return np.asarray(self._faster.take(self._row_of[hosts] + pstates))

    def can_rise(self, hosts: HostIds, pstates: StateArray) -> BoolArray:
        """Whether there is a faster P-state, for P-states of a plan: computing or asleep."""
        return np.asarray((pstates != self._top[hosts]) & (pstates != self._sleep[hosts]))

    def thriftier(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """Return the next slower P-state if it needs less energy per flop; else the same one."""
        return np.asarray(self._thriftier.take(self._row_of[hosts] + pstates))

    def thriftiest_first(self, hosts: HostIds) -> HostIds:
        """Return ``hosts`` sorted by energy per flop in their most efficient P-states, then by id."""
        return hosts[self._place[hosts].argsort()]

    def speed_flops(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Return the speed of one core in these P-states, flops/s; 0 if they do not compute."""
        return np.asarray(self._speed_flops.take(self._row_of[hosts] + pstates))

    def full_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Return the full power in these P-states, W."""
        return np.asarray(self._full_w.take(self._row_of[hosts] + pstates))

    def raised_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Return the additional power of the next faster P-state at full load, W; 0 at the top."""
        return np.asarray(self._raised_w[self._row_of[hosts] + pstates])

    def saved_w(self, hosts: HostIds, old: StateArray, new: StateArray) -> FloatArray:
        """Return the power saved by running in ``new`` instead of ``old``, W, net of the longer run."""
        longer = self.speed_flops(hosts, old) / self.speed_flops(hosts, new)
        return self.full_w(hosts, old) - longer * self.full_w(hosts, new)


def _joules_per_flop(kind: ServerKind, pstate: int) -> float:
    return kind.full_w[pstate] / kind.speeds_flops[pstate]
