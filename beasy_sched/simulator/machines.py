"""The hosts: their modes, their jobs, the time spent in each state, and their powers.

A *mode* is one small integer for (kind, P-state, machine state), and indexes tables. A job's hosts are nearly
always of one mode, so that one comparison of an array determines everything about them: whether they are
free, their speed, and their power.

Times in s, power in W, energy in J.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, IntArray, distinct, total
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform, ServerKind

SLEEPING, SWITCHING_ON, SWITCHING_OFF, IDLE, COMPUTING, UNAVAILABLE = range(6)
"""Machine states, the first five in the order of Batsim's machine-states file."""

STATE_NAMES = ("sleeping", "switching_on", "switching_off", "idle", "computing", "unavailable")
STATES = len(STATE_NAMES)

COMPUTATION, SLEEP, TRANSITION = range(3)
"""Sorts of P-states."""

NOBODY = -1
"""Owner of a free host."""

_FEW = 32
"""Number up to which numbers are summed faster as a list."""


class ModeTable:
    """All modes of a platform's kinds, with the properties of a host in each.

    Attributes ending in ``_of`` are lists for single modes, the others arrays for many.
    """

    def __init__(self, kinds: Sequence[ServerKind], *, metered: bool, sleeps: bool) -> None:
        """Lay out ``kinds``: with powers if ``metered``; every P-state computes unless one ``sleeps``.

        A P-state with speed 0 draws full power, as SimGrid has it.
        """
        self.kinds = tuple(kinds)
        self.base: list[int] = []
        rows: list[tuple[float, ...]] = []
        for index, kind in enumerate(kinds):
            self.base.append(len(rows))
            sleeping = [sleep.pstate for sleep in kind.sleeps]
            for pstate, speed in enumerate(kind.speeds_flops):
                sort, powers = COMPUTATION, (0.0, 0.0, 0.0)
                if sleeps and (pstate in sleeping or pstate not in kind.computing):
                    sort = SLEEP if pstate in sleeping else TRANSITION
                if metered and kind.idle_w:
                    idle_w = kind.idle_w[pstate] if speed > 0.0 else kind.full_w[pstate]
                    powers = idle_w, kind.epsilon_w[pstate], kind.full_w[pstate]
                rows += [(index, pstate, sort, s, speed, kind.cores, *powers) for s in range(STATES)]
        columns: FloatArray = np.array(list(zip(*rows, strict=True)), dtype=np.float64)
        codes: list[IndexArray] = [*columns[:4].astype(np.intp)]
        numbers: list[FloatArray] = [*columns[4:]]
        kind_of, self.pstates, sorts, self.states = codes
        self.speeds, self.cores, self.idle_w, self.epsilon_w, self.full_w = numbers
        self.ready = (self.states == IDLE) & (sorts == COMPUTATION)
        """Whether a job may start on a host in each mode."""
        self.switching = sorts == TRANSITION
        one_core_w = self.epsilon_w + (self.full_w - self.epsilon_w) / self.cores
        self.resting_w: FloatArray = np.where(self.switching, one_core_w, self.idle_w)
        """Power of a host without a job, W: one core runs the flop of a transition."""
        self.kind_of: list[int] = kind_of.tolist()
        self.pstate_of: list[int] = self.pstates.tolist()
        self.sort_of: list[int] = sorts.tolist()
        self.state_of: list[int] = self.states.tolist()
        self.ready_of: list[bool] = self.ready.tolist()
        self.speed_of: list[float] = self.speeds.tolist()
        self.idle_of: list[float] = self.idle_w.tolist()
        self.one_core_of: list[float] = one_core_w.tolist()
        """Power with one core busy, W."""

    def with_pstate(self, mode: int, pstate: int, state: int) -> int:
        """Return ``mode``'s kind in another P-state and machine state."""
        return self.base[self.kind_of[mode]] + pstate * STATES + state

    def pstate_count(self, mode: int) -> int:
        """Return the number of P-states of hosts of ``mode``."""
        return len(self.kinds[self.kind_of[mode]].speeds_flops)

    def sort_of_pstate(self, mode: int, pstate: int) -> int:
        """Return the sort of another P-state of the same kind; unknown ones count as computing."""
        if not 0 <= pstate < self.pstate_count(mode):
            return COMPUTATION
        return self.sort_of[self.with_pstate(mode, pstate, IDLE)]

    def slept_in(self, mode: int) -> int:
        """Return the sleep P-state from which hosts in a switch-on P-state are being woken."""
        sleeps = self.kinds[self.kind_of[mode]].sleeps
        return next(s.pstate for s in sleeps if s.on_pstate == self.pstate_of[mode])

    def transition(self, mode: int, sleep_pstate: int) -> tuple[int, int]:
        """Return the switch-off and switch-on P-states that go with a sleep P-state."""
        sleeps = self.kinds[self.kind_of[mode]].sleeps
        return next((s.off_pstate, s.on_pstate) for s in sleeps if s.pstate == sleep_pstate)


class Machines:
    """State of every host, in arrays; counts and times are kept incrementally."""

    __slots__ = ("compute_hosts", "counts", "last_change", "mode", "owner", "size", "table", "time_in")

    def __init__(self, platform: Platform, table: ModeTable, compute_hosts: int) -> None:
        """Start with every host idle in its initial P-state; those after the compute hosts store data."""
        self.compute_hosts = compute_hosts
        self.size = platform.size
        self.table = table
        base = np.array(table.base, dtype=np.intp)[platform.kind_of]
        self.mode: IntArray = base + platform.initial_pstates * STATES + IDLE
        self.owner: IndexArray = np.full(self.size, NOBODY, dtype=np.intp)
        """Slot of the job on each host (of one of them, if hosts are shared)."""
        self.last_change: FloatArray = np.zeros(self.size)
        self.counts = [0] * STATES
        self.counts[IDLE] = compute_hosts  # Batsim excludes storage hosts, and yet counts their changes
        self.time_in = [0.0] * STATES
        """Machine-seconds of closed periods in each state."""

    def common_mode(self, hosts: HostSet) -> int:
        """Return the mode that all of some hosts have, or -1."""
        index = hosts.index
        if type(index) is int:
            return self.mode.item(index)
        listed: list[int] = self.mode[index].tolist()
        first = listed[0]
        return first if listed.count(first) == hosts.ids.size else -1

    def occupy(self, hosts: HostSet, uniform: int, slot: int, now: float) -> None:
        """Put a job on idle hosts, which are all in mode ``uniform``, unless that is below 0."""
        index, size, counts = hosts.index, hosts.ids.size, self.counts
        if type(index) is int:
            since = self.last_change.item(index)
        elif size <= _FEW:
            since = sum(self.last_change[index].tolist())
        else:
            since = float(self.last_change[index].sum())
        self.time_in[IDLE] += size * now - since
        counts[IDLE] -= size
        counts[COMPUTING] += size
        self.mode[index] = (uniform if uniform >= 0 else self.mode[index]) + (COMPUTING - IDLE)
        self.last_change[index] = now
        self.owner[index] = slot

    def release(self, hosts: HostSet, uniform: int, since: float, now: float) -> None:
        """Take a job off hosts that it has had to itself, computing in mode ``uniform``, since ``since``."""
        index, size, counts = hosts.index, hosts.ids.size, self.counts
        self.time_in[COMPUTING] += size * (now - since)
        counts[COMPUTING] -= size
        counts[IDLE] += size
        self.mode[index] = uniform + (IDLE - COMPUTING)
        self.last_change[index] = now
        self.owner[index] = NOBODY

    def change_state(self, ids: IntArray, state: int, now: float) -> None:
        """Bring hosts of any states to ``state``."""
        old = self.table.states[self.mode[ids]]
        for was in distinct(old):
            some = ids[old == was]
            self.time_in[was] += len(some) * now - total(self.last_change[some])
            self.counts[was] -= len(some)
        self.counts[state] += len(ids)
        self.mode[ids] += state - old
        self.last_change[ids] = now

    def change_pstate(self, ids: IntArray, pstate: int) -> None:
        """Bring hosts to a P-state."""
        modes = self.mode[ids]
        self.mode[ids] = modes + (pstate - self.table.pstates[modes]) * STATES

    def state_name(self, host: int) -> str:
        """Return Batsim's word for a host's state."""
        return STATE_NAMES[self.table.state_of[int(self.mode[host])]]


class Fallible:
    """Broken hosts, and the probability that each host fails to wake."""

    def __init__(self, size: int) -> None:
        """Begin with no host broken and no failures expected."""
        self.broken: BoolArray = np.zeros(size, dtype=np.bool_)
        self._chance = np.zeros(size)
        self._draws: list[Any] = [None] * size
        """Generator that the chance of each host is drawn from."""

    def expect(self, ids: IntArray, percent: float, seed: int) -> None:
        """Let ``percent`` of the wake-ups of hosts fail from now on."""
        draws = np.random.default_rng(seed)
        self._chance[ids] = percent / 100.0
        for host in ids.tolist():
            self._draws[host] = draws

    def repair(self, ids: IntArray) -> None:
        """Repair hosts, and let their wake-ups succeed."""
        self.broken[ids] = False
        self._chance[ids] = 0.0

    def expect_none(self) -> None:
        """Let all wake-ups succeed from now on, except those of broken hosts."""
        self._chance[:] = 0.0

    def stay_away(self, ids: IntArray) -> BoolArray:
        """Return a mask of the woken hosts that fail to wake."""
        away = self.broken[ids].copy()
        for place, host in enumerate(ids.tolist()):
            chance = self._chance[host]
            if chance > 0.0 and self._draws[host].random() < chance:
                away[place] = True
        return away


class Meter:
    """Power and energy of all hosts together, and when Batsim last metered every host.

    Batsim meters hosts lazily, which shows in two cases: hosts that do not start in P-state 0 (``settle``
    here), and tasks that follow a delay within a composed job (see `execution`).
    """

    __slots__ = ("_at", "_settle", "energy_j", "metered_at", "power_w", "wattmin_w")

    def __init__(self, power_w: float, wattmin_w: float, settle: Callable[[float], float] | None) -> None:
        """Start at time 0.

        ``settle``, if there is one, is called at the first metering after time 0, and returns energy to
        add: SimGrid charges a host by P-state 0's table until it is first metered.
        """
        self.power_w = power_w
        self.wattmin_w = wattmin_w
        """Sum of the powers at the least load above zero, in the present P-states."""
        self.energy_j = 0.0
        self.metered_at = 0.0
        self._at = 0.0
        self._settle = settle

    def accrue(self, now: float) -> None:
        """Charge for the time since the last change of power."""
        if now > self._at:
            self.energy_j += self.power_w * (now - self._at)
            self._at = now

    def change(self, now: float, by_w: float, wattmin_by_w: float = 0.0) -> None:
        """Charge for the time until now, and continue with another power."""
        if now > self._at:
            self.accrue(now)
        self.power_w += by_w
        self.wattmin_w += wattmin_by_w

    def meter_all(self, now: float) -> float:
        """Meter every host, as Batsim does at rows of its energy file and at queries; return the energy."""
        if now > self.metered_at:
            self.accrue(now)
            self.metered_at = now
            if self._settle is not None:
                settle, self._settle = self._settle, None
                self.energy_j += settle(now)
        return self.energy_j
