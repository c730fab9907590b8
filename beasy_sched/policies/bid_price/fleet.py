"""Server model of `bid-price`: two speeds, the fastest and the most efficient of each kind."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind

_LEAST_BUSY_W: Final = 1e-6
"""Minimum power of a busy server above its sleep, W: some servers draw the same in all states."""


class Speed(IntEnum):
    """The two speeds of a server."""

    FAST = 0
    """Highest speed."""
    THRIFTY = 1
    """Speed with the least energy above sleep per flop."""


class TwoSpeedFleet:
    """Powers above those of sleep (W) and speeds (flops/s) of all servers at both speeds."""

    def __init__(self, platform: Platform, power: PowerModel) -> None:
        """Choose the two P-states of each kind."""
        kinds = platform.kinds
        self.size = platform.size
        self._kind_of = platform.kind_of
        least_idle_w = [min(kind.idle_w[p] for p in kind.computing) for kind in kinds]
        rest_w = np.where(power.can_sleep, power.sleep_w, least_idle_w)
        thrifty = [_thriftiest(kind, float(rest)) for kind, rest in zip(kinds, rest_w, strict=True)]
        self.pstate: StateArray = np.array([[kind.fastest for kind in kinds], thrifty], dtype=np.int8)
        """P-state of each kind: [speed, kind]."""
        rows = np.arange(len(kinds))
        self._busy_w = np.maximum(power.full_w[rows, self.pstate] - rest_w, _LEAST_BUSY_W)
        self._idle_w = power.idle_w[rows, self.pstate] - rest_w
        speeds = [
            [k.speeds_flops[p] for k, p in zip(kinds, row, strict=True)] for row in self.pstate.tolist()
        ]
        self._flops = np.array(speeds)
        share = np.bincount(self._kind_of, minlength=len(kinds)) / max(self.size, 1)
        self.busy_w: FloatArray = self._busy_w @ share
        """Power of a mean busy server above its sleep, W: [speed]."""
        self.flops: FloatArray = self._flops @ share
        """Speed of a mean server, flops/s: [speed]."""
        self.rest_w = float(rest_w[self._kind_of].sum())
        """Power of all servers asleep, W; those that cannot sleep idle."""
        present = np.unique(self._kind_of).tolist()
        self.reference_flops = max((kinds[row].reference_speed_flops for row in present), default=1.0)
        """F_ref, the speed that walltimes refer to, flops/s."""
        fastest_flops = float(self._flops[Speed.FAST, present].max(initial=0.0))
        self.most_share = max(fastest_flops / self.reference_flops, 1.0)
        """Maximum share of its walltime at F_ref that a job can do within its walltime."""

    def hosts_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of busy ``hosts`` above their sleep, W."""
        return float(self._busy_w[speed, self._kind_of[hosts]].sum())

    def hosts_idle_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of idle ``hosts`` above their sleep, W."""
        return float(self._idle_w[speed, self._kind_of[hosts]].sum())

    def hosts_flops(self, hosts: HostIds, speed: Speed) -> float:
        """Speed of a job on ``hosts``, flops/s on each: that of the slowest."""
        return float(self._flops[speed, self._kind_of[hosts]].min())

    def best(self, hosts: HostIds, count: int, speed: Speed) -> HostIds:
        """Choose ``count`` of ``hosts``, those with the least energy per flop first, then the lower ids."""
        per_flop_j = (self._busy_w[speed] / self._flops[speed])[self._kind_of[hosts]]
        return np.sort(hosts[np.argsort(per_flop_j, kind="stable")[:count]])


def _thriftiest(kind: ServerKind, rest_w: float) -> int:
    """Return the P-state with the least energy per flop among those at which no job exceeds its walltime."""
    fast_enough = [p for p in kind.computing if kind.speeds_flops[p] >= kind.reference_speed_flops]
    return min(fast_enough, key=lambda p: ((kind.full_w[p] - rest_w) / kind.speeds_flops[p], p))
