"""The modes of hosts: one small integer for (kind, P-state, machine state), and tables indexed by it.

A job's allocation is nearly always of one mode, so that one comparison of an array finds everything
about its hosts: whether they are free, how fast they are, and what they draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray
from beasy_sched.model.platform import ServerKind

SLEEPING, SWITCHING_ON, SWITCHING_OFF, IDLE, COMPUTING, UNAVAILABLE = range(6)
"""Machine states, the first five in the order of Batsim's machine-states file."""

STATE_NAMES = ("sleeping", "switching_on", "switching_off", "idle", "computing", "unavailable")
STATES = len(STATE_NAMES)

COMPUTATION, SLEEP, TRANSITION = range(3)
"""Sorts of P-states."""


class ModeTable:
    """Every mode of a platform's kinds, with what a host in it does.

    Attributes ending in ``_of`` are lists for single modes, the others arrays for many.
    """

    def __init__(self, kinds: Sequence[ServerKind], energy: bool) -> None:
        """Lay out ``kinds``; without ``energy`` powers are 0 and every P-state computes."""
        self.base: list[int] = []
        rows: list[tuple[int, int, int, int, float, int, float, float, float]] = []
        for index, kind in enumerate(kinds):
            self.base.append(len(rows))
            for pstate, speed in enumerate(kind.speeds_flops):
                sort = _sort(kind, pstate) if energy else COMPUTATION
                powers = _powers(kind, pstate) if energy else (0.0, 0.0, 0.0)
                rows += [(index, pstate, sort, s, speed, kind.cores, *powers) for s in range(STATES)]
        columns = list(zip(*rows, strict=True))
        self.kind_of: list[int] = list(columns[0])
        self.pstate_of: list[int] = list(columns[1])
        self.sort_of: list[int] = list(columns[2])
        self.state_of: list[int] = list(columns[3])
        self.speed_of: list[float] = list(columns[4])
        self.cores_of: list[int] = list(columns[5])
        self.idle_of: list[float] = list(columns[6])
        self.epsilon_of: list[float] = list(columns[7])
        self.full_of: list[float] = list(columns[8])
        self.ready_of = [
            state == IDLE and sort == COMPUTATION
            for state, sort in zip(self.state_of, self.sort_of, strict=True)
        ]
        """Whether a job may start."""
        self.ready = np.array(self.ready_of)
        self.one_core_of = [
            e + (f - e) / n for e, f, n in zip(self.epsilon_of, self.full_of, self.cores_of, strict=True)
        ]
        """Power with one core busy, W."""
        self.states: IndexArray = np.array(columns[3], dtype=np.intp)
        self.pstates: IndexArray = np.array(columns[1], dtype=np.intp)
        self.speeds: FloatArray = np.array(columns[4], dtype=np.float64)
        self.cores: FloatArray = np.array(columns[5], dtype=np.float64)
        self.idle_w: FloatArray = np.array(columns[6], dtype=np.float64)
        self.epsilon_w: FloatArray = np.array(columns[7], dtype=np.float64)
        self.full_w: FloatArray = np.array(columns[8], dtype=np.float64)
        self.switching = np.array(self.sort_of) == TRANSITION
        self.resting_w: FloatArray = np.where(self.switching, self.one_core_of, self.idle_w)
        """Power of a host without a job, W: one core runs the flop of a transition."""
        self.kinds = tuple(kinds)

    def with_state(self, mode: int, state: int) -> int:
        """Return ``mode`` with another machine state."""
        return mode - self.state_of[mode] + state

    def with_pstate(self, mode: int, pstate: int, state: int) -> int:
        """Return ``mode``'s kind in another P-state and machine state."""
        return self.base[self.kind_of[mode]] + pstate * STATES + state

    def pstate_count(self, mode: int) -> int:
        """Return how many P-states hosts of ``mode`` have."""
        return len(self.kinds[self.kind_of[mode]].speeds_flops)

    def sort_of_pstate(self, mode: int, pstate: int) -> int:
        """Return the sort of another P-state of the same kind; unknown ones count as computing."""
        if not 0 <= pstate < self.pstate_count(mode):
            return COMPUTATION
        return self.sort_of[self.with_pstate(mode, pstate, IDLE)]

    def transition(self, mode: int, sleep_pstate: int) -> tuple[int, int]:
        """Return the switch-off and switch-on P-states that go with a sleep P-state."""
        for sleep in self.kinds[self.kind_of[mode]].sleeps:
            if sleep.pstate == sleep_pstate:
                return sleep.off_pstate, sleep.on_pstate
        raise AssertionError(f"P-state {sleep_pstate} is not a sleep P-state")


def common_mode(modes: IndexArray) -> int:
    """Return the mode that all of some hosts have, or -1."""
    listed: list[int] = modes.tolist()
    first = listed[0]
    return first if listed.count(first) == len(listed) else -1


def _sort(kind: ServerKind, pstate: int) -> int:
    if any(pstate == s.pstate for s in kind.sleeps):
        return SLEEP
    return COMPUTATION if pstate in kind.computing else TRANSITION


def _powers(kind: ServerKind, pstate: int) -> tuple[float, float, float]:
    if not kind.idle_w:
        return 0.0, 0.0, 0.0
    return kind.idle_w[pstate], kind.epsilon_w[pstate], kind.full_w[pstate]
