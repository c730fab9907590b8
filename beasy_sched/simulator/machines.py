"""The compute hosts: modes, owners, and the time they spend in each machine state."""

from __future__ import annotations

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray
from beasy_sched.model.platform import Platform
from beasy_sched.simulator.modes import COMPUTING, IDLE, STATE_NAMES, STATES, ModeTable

_FEW = 32
"""Up to so many numbers are summed faster as a list."""

NOBODY = -1
"""Owner of a free host."""


class Machines:
    """State of every host, in arrays; counts and times are kept incrementally."""

    __slots__ = ("counts", "last_change", "mode", "owner", "size", "table", "time_in")

    def __init__(self, platform: Platform, table: ModeTable) -> None:
        """Start with every host idle in its initial P-state."""
        self.size = platform.size
        self.table = table
        base = np.array(table.base, dtype=np.intp)[platform.kind_of]
        pstates = (
            np.zeros(self.size, np.intp) if platform.initial_pstates is None else platform.initial_pstates
        )
        self.mode: IntArray = base + pstates * STATES + IDLE
        self.owner: IndexArray = np.full(self.size, NOBODY, dtype=np.intp)
        """Slot of the job on each host (of one of them, if hosts are shared)."""
        self.last_change: FloatArray = np.zeros(self.size)
        self.counts = [0] * STATES
        self.counts[IDLE] = self.size
        self.time_in = [0.0] * STATES
        """Machine-seconds of closed periods in each state."""

    def occupy(self, ids: IntArray, modes: IntArray, uniform: int, slot: int, now: float) -> None:
        """Put a job on idle hosts, whose modes are ``modes`` (all ``uniform``, unless that is below 0)."""
        size = len(ids)
        since = self.last_change[ids]
        self.time_in[IDLE] += size * now - (sum(since.tolist()) if size <= _FEW else float(since.sum()))
        self.counts[IDLE] -= size
        self.counts[COMPUTING] += size
        self.mode[ids] = (uniform if uniform >= 0 else modes) + (COMPUTING - IDLE)
        self.last_change[ids] = now
        self.owner[ids] = slot

    def release(self, ids: IntArray, uniform: int, since: float, now: float) -> None:
        """Take a job off hosts that it has had to itself, computing, since ``since``."""
        size = len(ids)
        self.time_in[COMPUTING] += size * (now - since)
        self.counts[COMPUTING] -= size
        self.counts[IDLE] += size
        self.mode[ids] = (uniform if uniform >= 0 else self.mode[ids]) + (IDLE - COMPUTING)
        self.last_change[ids] = now
        self.owner[ids] = NOBODY

    def change_state(self, ids: IntArray, state: int, now: float) -> None:
        """Bring hosts of any states to ``state``."""
        old = self.table.states[self.mode[ids]]
        for was in np.unique(old).tolist():
            some = ids[old == was]
            self.time_in[was] += len(some) * now - float(self.last_change[some].sum())
            self.counts[was] -= len(some)
        self.counts[state] += len(ids)
        self.mode[ids] += state - old
        self.last_change[ids] = now

    def change_pstate(self, ids: IntArray, pstate: int) -> float:
        """Bring hosts to a P-state; return by how much that changes the sum of their epsilon powers, W."""
        epsilon = self.table.epsilon_w
        modes = self.mode[ids]
        changed = modes + (pstate - self.table.pstates[modes]) * STATES
        self.mode[ids] = changed
        return float((epsilon[changed] - epsilon[modes]).sum())

    def state_name(self, host: int) -> str:
        """Return Batsim's word for a host's state."""
        return STATE_NAMES[self.table.state_of[int(self.mode[host])]]
