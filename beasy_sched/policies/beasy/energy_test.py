"""BEASY's energy test: can a job be started and finished on given servers? (Section IV-B, 1 and 2a-2c).

Upper bounds of what sleep saves (`SleepBound`) rule out hopeless cases, and give the minimum number of steps
to scan for idle servers. A failed test does not copy anything, and `EnergyTest.apply` writes only the cells
that change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray, any_of
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.beasy.sleep_bound import KeptOn, SleepBound
from beasy_sched.policies.planned.sleep_savings import SleepSavings, kept_on, worthwhile

ENERGY_TOLERANCE_J = 1e-6


class IdleCells(NamedTuple):
    """Cells of the plan, one entry each: a server in a row."""

    rows: IndexArray
    hosts: HostIds


class Shortfall(NamedTuple):
    """Energy that a job needs, and the most that idle servers can save for it, J."""

    needed_j: float
    found_j: float


@dataclass(frozen=True)
class JobPlacement:
    """Changes to the plan that let a job run: states of its servers, and sleep of idle ones."""

    hosts: HostIds
    end: int
    """The job holds its servers in rows 0 to end - 1."""
    columns: StateArray
    """States of ``hosts`` in rows 0 to ``end`` - 1, [end, hosts]."""
    needed_j: float = 0.0
    """Energy that the changes of the states of ``hosts`` need, J."""
    asleep: IdleCells | None = None
    """The idle cells that go to sleep."""
    saved_j: float = 0.0
    """Energy that this saves, J."""
    woken: int = 0
    """Number of cells of the job's servers that were planned asleep."""
    faster: bool = False
    """Whether the job's servers were planned slower than it needs them."""


@dataclass
class _Savings:
    """E_poss in the first rows, of servers that are idle in any of them."""

    hosts: HostIds
    idle: BoolArray
    """Whether each cell may be put to sleep: [rows, hosts]."""
    by_host_j: FloatArray
    """Energy that sleeping in rows 0 to k would save, for every k and host, J."""

    @property
    def total_j(self) -> FloatArray:
        """Energy that sleeping in rows 0 to k would save in total, for every k, J."""
        return np.asarray(np.add.reduce(self.by_host_j, axis=1))


class EnergyTest(ABC):
    """Verifications 1 and 2 on the plan from the current step on: L rows (row 0 is this step), N servers.

    `apply` changes the plan.
    """

    def __init__(
        self,
        savings: SleepSavings,
        states: StateArray,
        now_states: StateArray,
        reserved_until: IndexArray,
        dt_s: FloatArray,
        min_j: float,
        weights: FloatArray | None = None,
    ) -> None:
        """Test against ``states``, the plan itself, not a copy."""
        self.savings = savings
        self.cells = savings.cells
        self.states = states
        """Planned P-states, [L, N]."""
        self.now_states = now_states
        """Current P-states: computing or sleep, [N]."""
        self.reserved_until = reserved_until
        """Row up to which each server belongs to a running or verified job, [N]; 0 without a job."""
        self.dt_s = dt_s
        """Length of each row, [L]: the rest of the current step, then whole steps."""
        self.min_j = min_j
        """Battery energy at SoC_min."""
        self.weights = weights
        """Energy of servers and cooling per energy of servers in each row, [L]; None without cooling."""
        self._least_weight, self._most_weight = 1.0, 1.0
        if weights is not None:
            self._least_weight, self._most_weight = float(weights.min()), float(weights.max())
        self._limit: tuple[FloatArray, int] | None = None
        """The levels for which `rows_to_limit` was last computed, and its result."""
        self._kept: KeptOn | None = None
        self._refused: JobPlacement | None = None

    @abstractmethod
    def levels_j(self) -> FloatArray:
        """Return the planned battery energy at the end of each row up to the horizon (Eq. 1): at most [L].

        The same array, as long as the plan is the same.
        """

    @abstractmethod
    def write(self, hosts: HostIds, states: StateArray) -> None:
        """Plan ``hosts`` in ``states``, [rows, hosts], from row 0 on."""

    @abstractmethod
    def most_saved_j(self, enough_j: float, rows: int) -> float:
        """Return an upper bound of the savings of idle servers that sleep in the first ``rows``, J.

        It may stop at ``enough_j``.
        """

    @property
    def rows_to_limit(self) -> int:
        """Number of rows before the planned SoC first reaches SoC_min: energy may be moved within these."""
        levels_j = self.levels_j()
        if self._limit is None or levels_j is not self._limit[0]:
            low = levels_j <= self.min_j * (1.0 + 1e-9)
            first_low = int(low.argmax())
            self._limit = levels_j, first_low if low[first_low] else len(low)
        return self._limit[1]

    def check(self, hosts: HostIds, end: int, speed: StateArray | None = None) -> JobPlacement | None:
        """Return the changes needed for a job to hold ``hosts`` up to row ``end``; None if impossible.

        ``speed``: the P-state that each of them needs from the next step on; without it, any P-state.
        The plan does not change before `apply`.
        """
        old = self.states[:end, hosts]
        asleep = self.cells.asleep(old, hosts)
        woken = int(np.count_nonzero(asleep))
        faster = speed is not None and any_of(old[1:] != speed)
        if not (woken or faster):
            return JobPlacement(hosts, end, old)  # Verification 1
        columns = kept_on(old, asleep, self.now_states[hosts])
        if speed is not None:
            columns[1:] = speed
        needed_j = self._needed_j(hosts, columns)
        placement = JobPlacement(hosts, end, columns, needed_j, woken=woken, faster=faster)
        return placement if placement.needed_j <= ENERGY_TOLERANCE_J else self._pay(placement)

    def apply(self, placement: JobPlacement) -> None:
        """Write a placement into the plan (2c)."""
        own = placement.hosts
        if placement.asleep is not None:
            rows, sleepers = placement.asleep.rows, placement.asleep.hosts
            # One write for the job's servers and the sleepers: a server may be both, in different rows.
            concerned = np.zeros(self.states.shape[1], dtype=np.bool_)
            concerned[own] = concerned[sleepers] = True
            hosts = concerned.nonzero()[0]
            last_sleeping = int(np.maximum.reduce(rows))
            states = self.states[: max(placement.end, last_sleeping + 1), hosts]
            states[rows, hosts.searchsorted(sleepers)] = self.cells.sleep_pstate[sleepers]
            states[: placement.end, hosts.searchsorted(own)] = placement.columns
            self.write(hosts, states)
        elif placement.woken or placement.faster:
            self.write(own, placement.columns)
        self.reserved_until[own] = placement.end

    def keep(self, hosts: BoolArray, first: int, end: int) -> None:
        """Never put reserved ``hosts`` (N) to sleep in rows ``first`` to ``end`` - 1."""
        self._kept = KeptOn(hosts, first, end)

    def shortfall(self) -> Shortfall:
        """Return the shortfall of the last rejected job."""
        if self._refused is None:
            return Shortfall(0.0, 0.0)
        limit, placement = self.rows_to_limit, self._refused
        found_j = 0.0
        if limit:
            found_j = float(self._savings(placement, self._idle_from(placement), limit, limit).total_j.max())
        return Shortfall(placement.needed_j, found_j)

    def _needed_j(self, hosts: HostIds, columns: StateArray) -> float:
        """2a: sum of Ed' - Ed, including the transitions in and just after the job's rows."""
        cells, rows = self.cells, slice(0, len(columns) + 1)
        before, dt_s = cells.asleep(self.now_states[hosts], hosts), self.dt_s[rows]
        changes_j = cells.change_j(self.states[rows, hosts], columns, before, hosts, dt_s)
        if self.weights is not None:
            changes_j *= self.weights[rows][: len(changes_j), None]
        return float(np.add.reduce(changes_j, axis=None))

    # --- 2b: savings of idle servers ------------------------------------------------------------------

    def _pay(self, placement: JobPlacement) -> JobPlacement | None:
        """Put idle servers to sleep, from the current step on, until this saves enough for the job."""
        least_j = placement.needed_j - ENERGY_TOLERANCE_J
        if self.most_payable_j(least_j) < least_j:
            self._refused = placement
            return None
        limit, first = self.rows_to_limit, self._idle_from(placement)
        bound = SleepBound(self.savings, self.states, first, float(self.dt_s[-1]), self._kept)
        rows = bound.rows_to(least_j / self._most_weight, limit)
        rows = min(rows + rows // 8, limit)  # the bound is slightly higher than the savings
        while rows:
            savings = self._savings(placement, first, rows, limit)
            enough = savings.total_j >= least_j
            row = int(enough.argmax())
            if enough[row]:
                return _with_sleepers(placement, savings, row)
            rows = min(2 * rows, limit) if rows < limit else 0
        self._refused = placement
        return None

    def _idle_from(self, placement: JobPlacement) -> IndexArray:
        """The row from which each server has no job, if that of ``placement`` starts: [N]."""
        first = self.reserved_until.copy()
        first[placement.hosts] = np.maximum(first[placement.hosts], placement.end)
        return first

    def most_payable_j(self, enough_j: float = math.inf) -> float:
        """Upper bound of the savings of idle servers for any job, J; it may stop at ``enough_j``."""
        weight = self._most_weight
        return self.most_saved_j(enough_j / weight, self.rows_to_limit) * weight

    def least_needed_j(
        self, asleep: npt.NDArray[np.integer], count: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.floating]:
        """Lower bounds of the energy that jobs need to hold servers in this number of cells ``asleep``, J.

        ``count``: number of servers requested by each of them.
        """
        savings, dt_s = self.savings, float(self.dt_s[-1])
        whole = np.maximum(asleep - count, 0)  # the rest of the current step may be short
        waking_j = savings.least_waking_j(dt_s)
        waking_j *= self._least_weight if waking_j > 0.0 else self._most_weight
        return np.asarray(whole * waking_j - count * (savings.most_switched_j * self._most_weight))

    def _idle(self, hosts: HostIds, states: StateArray, first: IndexArray, end: int) -> BoolArray:
        """Return the cells of ``hosts`` that may sleep, in rows from their ``first`` up to ``end``."""
        idle = ~self.cells.asleep(states, hosts)
        idle &= np.arange(len(states))[:, None] >= first
        idle &= self.cells.sleep_pstate[hosts] >= 0
        idle[end:] = False
        if self._kept is not None:
            self._kept.leave_out(idle, 0, hosts)
        return idle

    def _savings(self, placement: JobPlacement, first: IndexArray, rows: int, limit: int) -> _Savings:
        """E_poss in the first ``rows`` of the rows before ``limit``: of servers idle from ``first`` on (N).

        Runs of idle steps that would save nothing in total are skipped. A few more rows than
        requested are examined, so that a run that continues beyond them does not appear short.
        """
        savings = self.savings
        break_even = savings.rows_to_break_even(float(self.dt_s[-1]))
        seen = min(rows + break_even + 1, limit)
        hosts = (first < rows).nonzero()[0]
        states = self.states[: seen + 1, hosts]  # one more, for the transition after the last
        if placement.end < rows:
            states[: placement.end, hosts.searchsorted(placement.hosts)] = placement.columns
        idle = self._idle(hosts, states, first[hosts], seen)
        some = np.logical_or.reduce(idle[:rows], axis=0)
        hosts, states, idle = hosts[some], states[:, some], idle[:, some]
        dt_s, before = self.dt_s[: seen + 1], self.cells.asleep(self.now_states[hosts], hosts)
        weights = None if self.weights is None else self.weights[: seen + 1]
        saved_j = savings.sleeping_j(states, before, hosts, dt_s, idle, weights)
        good = worthwhile(saved_j, idle, break_even) if weights is None else worthwhile(saved_j, idle)
        if good is not idle:
            saved_j = savings.sleeping_j(states, before, hosts, dt_s, good, weights)
        return _Savings(hosts, good[:rows], saved_j[:rows])


def _with_sleepers(placement: JobPlacement, savings: _Savings, last_row: int) -> JobPlacement:
    """Put all idle cells before ``last_row`` to sleep, and as few as necessary in this row.

    Savings are counted up to the row's end: a server that also sleeps in it saves its amount of this row, one
    that does not, that of the row before, with the waking at its end.
    """
    idle, by_host_j = savings.idle, savings.by_host_j
    idle_last = idle[last_row]
    before_j = by_host_j[last_row - 1] if last_row else np.zeros(len(idle_last))
    gain_j = np.where(idle_last, by_host_j[last_row] - before_j, 0.0)
    """Additional savings of each host if it also sleeps in the last row, J: [hosts]."""
    without_j = float(np.where(idle_last, before_j, by_host_j[last_row]).sum())
    best_first = (-gain_j).argsort(kind="stable")
    reached_j = without_j + gain_j[best_first].cumsum()
    count = int(np.argmax(reached_j >= placement.needed_j - ENERGY_TOLERANCE_J)) + 1
    sleepers = best_first[:count]
    chosen = idle[: last_row + 1].copy()
    chosen[last_row] = False
    chosen[last_row, sleepers] = idle_last[sleepers]
    rows, columns = chosen.nonzero()
    asleep = IdleCells(rows, savings.hosts[columns])
    return replace(placement, asleep=asleep, saved_j=float(reached_j[count - 1]))
