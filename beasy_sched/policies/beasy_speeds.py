"""The computing P-states of servers as a ladder: the next faster, the next slower, the thriftiest."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind


class Ladder:
    """Speeds and their neighbours by kind and P-state; for P-states that do not compute, they stay."""

    def __init__(self, platform: Platform) -> None:
        """Sort each kind's computing P-states by speed."""
        kinds = platform.kinds
        width = max((kind.pstates for kind in kinds), default=1)
        self._kind_of = platform.kind_of
        self._speed_flops = np.zeros((len(kinds), width))
        self._full_w = np.zeros((len(kinds), width))
        self._faster = np.tile(np.arange(width, dtype=np.int8), (len(kinds), 1))
        self._thriftier = self._faster.copy()
        self.thriftiest = np.zeros(platform.size, dtype=np.int8)
        """P-state of least energy per flop (the faster of equals), by host."""
        self.reference_flops = np.zeros(platform.size)
        """F': the speed that a walltime is taken to stand for, by host (Eq. 3.29)."""
        self.rising = True
        """Whether a faster P-state never draws less than the next slower one."""
        for row, kind in enumerate(kinds):
            self._fill(row, kind)
            mine = platform.kind_of == row
            self.thriftiest[mine] = min(
                kind.computing, key=lambda p: (_joules_per_flop(kind, p), -kind.speeds_flops[p])
            )
            self.reference_flops[mine] = kind.reference_speed_flops

    def _fill(self, row: int, kind: ServerKind) -> None:
        for pstate in kind.computing:
            self._speed_flops[row, pstate] = kind.speeds_flops[pstate]
            self._full_w[row, pstate] = kind.full_w[pstate]
        by_speed = sorted(kind.computing, key=lambda p: (kind.speeds_flops[p], -p))
        for slow, fast in itertools.pairwise(by_speed):
            self._faster[row, slow] = fast
            self.rising &= kind.full_w[slow] <= kind.full_w[fast]
            if _joules_per_flop(kind, slow) < _joules_per_flop(kind, fast):
                self._thriftier[row, fast] = slow

    def faster(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next faster P-state of each of ``hosts``; the same one at the top."""
        return self._faster[self._kind_of[hosts], pstates]

    def thriftier(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next slower P-state where it needs less energy per flop; else the same one."""
        return self._thriftier[self._kind_of[hosts], pstates]

    def speed_flops(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Speed of one core in these P-states, flops/s; 0 where they do not compute."""
        speeds: FloatArray = self._speed_flops[self._kind_of[hosts], pstates]
        return speeds

    def full_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Full power in these P-states, W; 0 where they do not compute."""
        watts: FloatArray = self._full_w[self._kind_of[hosts], pstates]
        return watts

    def saved_w(self, hosts: HostIds, old: StateArray, new: StateArray) -> FloatArray:
        """What running in ``new`` instead of ``old`` saves, W, net of the longer run that the work takes."""
        kinds = self._kind_of[hosts]
        longer = self._speed_flops[kinds, old] / self._speed_flops[kinds, new]
        saved_w: FloatArray = self._full_w[kinds, old] - longer * self._full_w[kinds, new]
        return saved_w


def _joules_per_flop(kind: ServerKind, pstate: int) -> float:
    return kind.full_w[pstate] / kind.speeds_flops[pstate]
