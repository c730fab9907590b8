"""BEASY's energy test: can a job be started and finished on these servers? (Section IV-B, 1 and 2a-2c)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from beasy_sched.model.hosts import HostIds
from beasy_sched.model.platform import FloatArray
from beasy_sched.policies.beasy_cells import (
    BoolArray,
    CellPowers,
    StateArray,
    kept_on,
    shifted,
    sleep_savings_j,
    worthwhile,
)

ENERGY_TOLERANCE_J = 1e-6


@dataclass
class Outlook:
    """The plan from the present step on: L rows, row 0 the present step, N servers."""

    states: StateArray
    """Planned P-states, [L, N]; the test writes its changes here."""
    now_states: StateArray
    """What the servers are in now: a computing P-state or that of sleep, [N]."""
    reserved_until: npt.NDArray[np.intp]
    """Rows before this one are taken by a running or verified job, [N]; 0 for a server without one."""
    level_j: FloatArray
    """Planned battery energy at the end of each row, [L] (Eq. 1)."""
    min_j: float
    """Battery energy at SoC_min."""
    dt_s: FloatArray
    """Length of each row, [L]: what is left of the present step, then whole steps."""
    kept: BoolArray | None = None
    """More cells that may not be put to sleep (the head job's reservation), [L, N]."""

    @property
    def rows_to_limit(self) -> int:
        """Rows before the first whose planned SoC is at SoC_min or below: energy may be moved in these."""
        low = self.level_j <= self.min_j * (1.0 + 1e-9)
        return int(np.argmax(low)) if low.any() else len(self.level_j)


@dataclass(frozen=True)
class Change:
    """New states that let a job run: of its own servers, and of idle ones that pay for them."""

    hosts: HostIds
    end: int
    """The job holds its servers in rows 0 to end - 1."""
    columns: StateArray
    """States of ``hosts`` in these rows."""
    needed_j: float = 0.0
    asleep: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None = None
    """(rows, hosts) of the idle cells that go to sleep."""
    saved_j: float = 0.0
    woken: int = 0
    """Steps of its servers, counted over all of them, that were planned asleep."""


@dataclass
class _Savings:
    """E_poss of all servers, as long as the plan stays as it is."""

    idle: BoolArray
    by_host_j: FloatArray
    total_j: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.total_j = self.by_host_j.sum(axis=1)


class EnergyTest:
    """Verifications 1 and 2 on one outlook; `apply` changes it."""

    def __init__(self, cells: CellPowers, outlook: Outlook) -> None:
        """Test against ``outlook``, whose arrays are the test's to change."""
        self.cells = cells
        self.outlook = outlook
        self._savings: _Savings | None = None
        self.short_j = (0.0, 0.0)
        """What the job last refused needed, and all that idle servers could save for it, J."""

    def asleep_rows(self, hosts: HostIds, end: int) -> npt.NDArray[np.intp]:
        """In how many of the rows 0 to ``end`` - 1 each of ``hosts`` is planned asleep."""
        asleep = self.cells.asleep(self.outlook.states[:end, hosts], hosts)
        return np.asarray(asleep.sum(axis=0))

    def check(self, hosts: HostIds, end: int) -> Change | None:
        """Return what must change for a job to hold ``hosts`` to row ``end``; None where it cannot.

        The plan stays as it is until `apply`.
        """
        outlook = self.outlook
        old = outlook.states[:end, hosts]
        asleep = self.cells.asleep(old, hosts)
        if not asleep.any():
            return Change(hosts, end, old)  # Verification 1
        columns = kept_on(old, asleep, outlook.now_states[hosts])
        needed_j = self._needed_j(hosts, columns)
        change = Change(hosts, end, columns, needed_j, woken=int(asleep.sum()))
        return change if needed_j <= ENERGY_TOLERANCE_J else self._pay(change)

    def apply(self, change: Change) -> None:
        """Write a change into the outlook (2c). The caller recomputes the planned levels."""
        outlook = self.outlook
        if change.asleep is not None:
            rows, hosts = change.asleep
            outlook.states[rows, hosts] = self.cells.sleep_pstate[hosts]
        outlook.states[: change.end, change.hosts] = change.columns
        outlook.reserved_until[change.hosts] = change.end
        self.forget()

    def forget(self) -> None:
        """The outlook has changed: what idle servers would save must be worked out anew."""
        self._savings = None

    def _needed_j(self, hosts: HostIds, columns: StateArray) -> float:
        """2a: sum of Ed' - Ed, the transitions in and just after the job's rows included."""
        outlook, cells = self.outlook, self.cells
        rows = slice(0, len(columns) + 1)
        old = outlook.states[rows, hosts]
        new = old.copy()
        new[: len(columns)] = columns
        before = cells.asleep(outlook.now_states[hosts], hosts)
        energies = [
            cells.energy_j(states, shifted(cells.asleep(states, hosts), before), hosts, outlook.dt_s[rows])
            for states in (new, old)
        ]
        return float((energies[0] - energies[1]).sum())

    def _pay(self, change: Change) -> Change | None:
        """2b: put idle servers to sleep, from the present step forward, until that pays for the job."""
        limit = self.outlook.rows_to_limit
        self.short_j = (change.needed_j, 0.0)
        if limit == 0:
            return None
        if self._savings is None:
            self._savings = self._savings_of(np.arange(len(self.outlook.now_states)), limit)
        every = self._savings
        own = self._own_savings(change, limit)
        total_j = every.total_j - every.by_host_j[:, change.hosts].sum(axis=1) + own.total_j
        enough = total_j >= change.needed_j - ENERGY_TOLERANCE_J
        if not enough.any():
            self.short_j = (change.needed_j, float(total_j.max()))
            return None
        idle, by_host_j = every.idle.copy(), every.by_host_j.copy()
        idle[:, change.hosts], by_host_j[:, change.hosts] = own.idle, own.by_host_j
        return _with_sleepers(change, idle, by_host_j, int(np.argmax(enough)))

    def _own_savings(self, change: Change, limit: int) -> _Savings:
        """What the job's own servers would save after its end."""
        outlook, end = self.outlook, change.end
        if end >= limit:
            nothing = np.zeros((limit, len(change.hosts)))
            return _Savings(nothing.astype(np.bool_), nothing)
        states = outlook.states[: limit + 1, change.hosts].copy()
        states[:end] = change.columns
        return self._savings_of(change.hosts, limit, states, end)

    def _savings_of(
        self, hosts: HostIds, limit: int, states: StateArray | None = None, taken: int = 0
    ) -> _Savings:
        outlook, cells = self.outlook, self.cells
        rows = slice(0, limit + 1)  # one more, for the transition after the last row
        if states is None:
            states = outlook.states[rows, hosts]
        dt_s, before = outlook.dt_s[rows], cells.asleep(outlook.now_states[hosts], hosts)
        first_free = np.maximum(outlook.reserved_until[hosts], taken)
        row = np.arange(len(states))[:, None]
        idle = ~cells.asleep(states, hosts) & (cells.sleep_pstate[hosts] >= 0)
        idle &= (row >= first_free) & (row < limit)
        if outlook.kept is not None:
            idle &= ~outlook.kept[rows][:, hosts]
        saved_j = sleep_savings_j(cells, states, before, hosts, dt_s, idle)
        good = worthwhile(saved_j, idle)
        if good is not idle:
            saved_j = sleep_savings_j(cells, states, before, hosts, dt_s, good)
        return _Savings(good[:limit], saved_j[:limit])


def _with_sleepers(change: Change, idle: BoolArray, by_host_j: FloatArray, last: int) -> Change:
    """Sleep in all rows before ``last``, and in row ``last`` as few servers as are needed."""
    before_j = by_host_j[last - 1] if last else np.zeros(idle.shape[1])
    gain_j = np.where(idle[last], by_host_j[last] - before_j, 0.0)
    fixed_j = float(np.where(idle[last], before_j, by_host_j[last]).sum())
    order = np.argsort(-gain_j, kind="stable")
    reached_j = fixed_j + np.cumsum(gain_j[order])
    count = int(np.argmax(reached_j >= change.needed_j - ENERGY_TOLERANCE_J)) + 1
    chosen = idle[: last + 1].copy()
    chosen[last] = False
    chosen[last, order[:count]] = idle[last, order[:count]]
    saved_j = float(reached_j[count - 1])
    rows, hosts = np.nonzero(chosen)
    return replace(change, asleep=(rows, hosts), saved_j=saved_j)
