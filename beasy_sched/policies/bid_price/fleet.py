"""What jobs cost on the servers: two speeds of each kind, the fastest and the thriftiest.

Before a job has hosts it is counted on a mean server; afterwards, on its hosts.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.model.cluster import PowerModel
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import Platform, ServerKind


class Speed(IntEnum):
    """At which of its two speeds a server runs."""

    FAST = 0
    """Its highest speed."""
    THRIFTY = 1
    """The speed with the least energy above that of sleep for each flop."""


class TwoSpeedFleet:
    """Powers above those of sleep (W) and speeds (flops/s) of all servers at both speeds."""

    def __init__(self, platform: Platform, power: PowerModel) -> None:
        """Choose the two P-states of each kind."""
        kinds = platform.kinds
        self.size = platform.size
        self._kind_of = platform.kind_of
        rest_w = np.where(power.can_sleep, power.sleep_w, _idle_w(kinds))
        fast = [kind.fastest for kind in kinds]
        thrifty = [_thriftiest(kind, float(rest)) for kind, rest in zip(kinds, rest_w, strict=True)]
        self.pstate: StateArray = np.array([fast, thrifty], dtype=np.int8)
        """P-state of each kind: [speed, kind]."""
        rows = np.arange(len(kinds))
        self._busy_w = power.full_w[rows, self.pstate] - rest_w
        self._flops = np.array([[k.speeds_flops[p] for k, p in zip(kinds, row, strict=True)]
                                for row in self.pstate.tolist()])  # fmt: skip
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
        self.most_share: float = max(float(self._flops[Speed.FAST, present].max(initial=0.0))
                                     / self.reference_flops, 1.0)  # fmt: skip
        """The largest share of its walltime at F_ref that a job can do before that is over."""
        self.idle_w: FloatArray = power.idle_w[rows, self.pstate] - rest_w
        """Power of an idle server above its sleep, W: [speed, kind]."""
        self.mean_idle_w: FloatArray = self.idle_w @ share
        """The same of a mean server, W: [speed]."""
        self.one_kind = len(kinds) == 1

    def hosts_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of busy ``hosts`` above their sleep, W."""
        if self.one_kind:
            return float(self._busy_w[speed, 0]) * len(hosts)
        return float(self._busy_w[speed, self._kind_of[hosts]].sum())

    def hosts_idle_w(self, hosts: HostIds, speed: Speed) -> float:
        """Power of idle ``hosts`` above their sleep, W."""
        return float(self.idle_w[speed, self._kind_of[hosts]].sum())

    def hosts_flops(self, hosts: HostIds, speed: Speed) -> float:
        """Speed of a job on ``hosts``, flops/s on each: that of the slowest."""
        if self.one_kind:
            return float(self._flops[speed, 0])
        return float(self._flops[speed, self._kind_of[hosts]].min())

    def best(self, hosts: HostIds, count: int, speed: Speed) -> HostIds:
        """Choose ``count`` of ``hosts``, those with the least energy per flop first, then the lower ids."""
        if self.one_kind or len(hosts) <= count:
            return hosts[:count]
        per_flop_j = (self._busy_w[speed] / self._flops[speed])[self._kind_of[hosts]]
        return np.sort(hosts[np.argsort(per_flop_j, kind="stable")[:count]])

    def targets(self, speed: Speed) -> StateArray:
        """P-state of each server at ``speed``."""
        targets: StateArray = self.pstate[speed, self._kind_of]
        return targets


def _idle_w(kinds: tuple[ServerKind, ...]) -> FloatArray:
    return np.array([min(kind.idle_w[p] for p in kind.computing) for kind in kinds])


def _thriftiest(kind: ServerKind, rest_w: float) -> int:
    """The P-state with the least energy per flop, among those at which no job outlives its walltime."""
    fast_enough = [p for p in kind.computing if kind.speeds_flops[p] >= kind.reference_speed_flops]
    return min(fast_enough, key=lambda p: ((kind.full_w[p] - rest_w) / kind.speeds_flops[p], p))
