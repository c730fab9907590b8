"""The policies' own copy of the offline plan, which their decisions change: what it costs, and following it.

A cell of the plan is one server in one step: `CellPowers` has its energies, which rules 2a to 2c of BEASY add
up. `Rest` is what compensation works on: how much energy (Section IV-C; Eq. 3.30, 3.31), which jobs, which
rows. `PlanFollower` brings the servers into the planned states.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    IntArray,
    StateArray,
    all_of,
    any_of,
    distinct,
)
from beasy_sched.energy.server_energy import ServerSteps, StepEnergies
from beasy_sched.energy.storage import BatterySpec, LevelProjection
from beasy_sched.engine.actions import Action, FactDict, SetPState
from beasy_sched.engine.guard import energy_tolerance_j
from beasy_sched.engine.policy import View
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_states import SWITCHING_ON
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.model.power import PowerModel
from beasy_sched.planner.forecast import Predictions
from beasy_sched.planner.plan import PlanStore
from beasy_sched.units import TIME_TOLERANCE_S


def runs_of_true(row: BoolArray) -> tuple[IntArray, IntArray]:
    """Where the runs of true cells of a row begin, and the places after their last ones."""
    framed = np.zeros(len(row) + 2, dtype=np.bool_)
    framed[1:-1] = row
    edges = (framed[1:] != framed[:-1]).nonzero()[0]  # begins and ends alternate
    return edges[::2], edges[1::2]


class Runs(NamedTuple):
    """Runs of marked steps without a break (planned on, say): one entry per run, by server and step."""

    host: HostIds
    begin: IntArray
    end: IntArray
    """The step after the last one of the run."""

    @classmethod
    def of(cls, marked: BoolArray) -> Runs:
        """The runs of the servers of a plan, (T, N)."""
        width = len(marked) + 1
        rows = np.zeros((marked.shape[1], width), dtype=np.bool_)  # a false cell ends each server's row
        rows[:, :-1] = marked.T
        begin, end = runs_of_true(rows.ravel())
        host = begin // width
        return cls(host, begin - host * width, end - host * width)


class _Part(NamedTuple):
    """A stretch of the offline plan: P-states (T, N), and powers of each step, W."""

    states: StateArray
    load_w: FloatArray
    renew_w: FloatArray
    envelope_w: FloatArray
    given_w: FloatArray

    def beyond(self, steps: int) -> _Part:
        """The stretch without its first ``steps`` steps."""
        first = max(steps, 0)
        powers = (self.load_w, self.renew_w, self.envelope_w, self.given_w)
        return _Part(self.states[first:], *(values[first:] for values in powers))

    @classmethod
    def nothing(cls, asleep: StateArray, steps: int) -> _Part:
        """So many steps without a plan, in which every server is ``asleep`` (N)."""
        none_w = np.zeros(steps)
        return cls(np.tile(asleep, (steps, 1)), none_w, none_w, none_w, none_w)


class _AsleepSums(NamedTuple):
    """How many steps each server sleeps, summed up along its steps as far as this has been asked for."""

    before: npt.NDArray[np.int32]
    """The sum of earlier steps, for each covered step and the one after them: [N, steps + 1]."""
    first: IntArray
    """Sums count from this step on, [N]."""
    end: IntArray
    """Up to this step, sums are those of the present states, [N]."""


class WorkingPlan:
    """Planned states of all servers over every known window, and what follows from them step by step.

    Steps are numbered through all windows, from the start of the first. Ranges of steps are half open:
    ``first_step`` belongs to them, ``end_step`` does not. What is derived from the states covers the present
    window and the next one, and more only where a job reaches further: the cost of a decision does not grow
    with the number of windows.
    """

    def __init__(self, plans: PlanStore, platform: Platform, before: npt.NDArray[np.generic]) -> None:
        """Copy ``plans``; ``before`` (N) holds the P-states of the servers as the first window begins.

        Raises ConfigError where the plans leave the servers out.
        """
        self.start_s = plans.start_s
        self.step_s = plans[0].step_s
        self.battery: BatterySpec = plans[0].storage.battery
        self.sleep = platform.sleep_pstate
        """P-state in which each server sleeps (N), -1 where it cannot."""
        self._projection = LevelProjection(self.battery, self.step_s)
        self._steps = ServerSteps(platform, self.step_s)
        self._before = before.astype(np.int8)
        self._plans = plans
        self.version = 0
        """Changes with every change of states or production."""
        self.changes = 0
        """Changes with every change of states."""
        count = platform.size
        self.states: StateArray = np.empty((0, count), dtype=np.int8)
        """Planned P-state of each server in each step, of shape (T, N). Change it by `set_states`."""
        self.on: BoolArray = np.empty((0, count), dtype=np.bool_)
        """Whether each server is planned on, of shape (T, N)."""
        self.load_w = self.renew_w = self.envelope_w = self.given_w = np.empty(0)
        self.energy_j = np.empty(0)
        """Planned worst-case energy of all servers in each step, J (Eq. 3.17): busy, with transitions."""
        self.steps_s = np.empty(0)
        """Length of each step, s: all the same; for others to read only."""
        self._lay_out(0)

    def _lay_out(self, step: int) -> None:
        """Copy the plans from ``step`` on; steps without a plan have all servers asleep, and no power."""
        parts = self._parts()
        self._known = self._plans.version
        self.end_s = self._plans.end_s
        self._offline = [part.states for part in parts]
        ends = np.cumsum([len(states) for states in self._offline])
        self._window_ends: Sequence[int] = ends.tolist()
        starts = ends - [len(states) for states in self._offline]
        later = [part.beyond(step - start) for part, start in zip(parts, starts.tolist(), strict=True)]
        states, load_w, renew_w, envelope_w, given_w = (
            np.concatenate(column) for column in zip(*later, strict=True)
        )
        energy_j = self._steps.plan_energy_j(states, self.before(step))
        self.states = np.concatenate((self.states[:step], states))
        self.on = np.concatenate((self.on[:step], states != self.sleep))
        self.load_w = np.concatenate((self.load_w[:step], load_w))
        self.renew_w = np.concatenate((self.renew_w[:step], renew_w))
        self.envelope_w = np.concatenate((self.envelope_w[:step], envelope_w))
        self.given_w = np.concatenate((self.given_w[:step], given_w))
        self.energy_j = np.concatenate((self.energy_j[:step], energy_j))
        self.steps_s = np.full(len(self.states), self.step_s)
        self.steps_s.flags.writeable = False
        count = states.shape[1]
        self._covered = range(0)
        self._sums: _AsleepSums | None = None
        self._runs, self._runs_from = Runs.of(self.on[:0]), 0
        self._run_known = np.zeros(count, dtype=np.bool_)
        self.version += 1
        self.changes += 1

    def _parts(self) -> list[_Part]:
        """The plans one after the other, and the gaps between them. Raises ConfigError without servers."""
        parts: list[_Part] = []
        end_s = self.start_s
        for plan in self._plans:
            if plan.servers is None:
                raise ConfigError("the plan covers power only, not servers: make a plan with a platform")
            if gap := round((plan.start_s - end_s) / self.step_s):
                parts.append(_Part.nothing(np.maximum(self.sleep, 0).astype(np.int8), gap))
            power, end_s = plan.power, plan.end_s
            parts.append(
                _Part(plan.servers.states, power.load_w, power.renew_w, power.envelope_w, power.given_w)
            )
        return parts

    def renew(self, time_s: float) -> bool:
        """Take over what has been planned anew for the time from ``time_s`` on; tell whether anything has.

        What the policies changed before ``time_s`` stays as it was; their changes to later steps are gone.
        """
        if self._plans.version == self._known:
            return False
        self._lay_out(min(round((time_s - self.start_s) / self.step_s), self.steps))
        return True

    @property
    def steps(self) -> int:
        """T, over all windows."""
        return len(self.states)

    def step_at(self, time_s: float) -> int | None:
        """The step at a time of the run; None outside the known windows."""
        step = math.floor((time_s - self.start_s + TIME_TOLERANCE_S) / self.step_s)
        return step if 0 <= step < self.steps else None

    def window_end(self, step: int) -> int:
        """The step after the last one of the window that ``step`` belongs to."""
        return int(self._window_ends[self._window_of(step)])

    def window_start(self, step: int) -> int:
        """The first step of the window that ``step`` belongs to."""
        window = self._window_of(step)
        return int(self._window_ends[window - 1]) if window else 0

    def horizon(self, step: int) -> int:
        """The step after the last one of the window after that of ``step``: decisions look no further."""
        return int(self._window_ends[min(self._window_of(step) + 1, len(self._window_ends) - 1)])

    def _window_of(self, step: int) -> int:
        return bisect_right(self._window_ends, step)

    def start_of(self, step: int) -> float:
        """When a step starts, on the run's clock, s."""
        return self.start_s + step * self.step_s

    def offline(self, step: int) -> StateArray:
        """P-states of the servers (N) in ``step``, as planned offline."""
        window = self._window_of(step)
        states = self._offline[window]
        return np.asarray(states[step - int(self._window_ends[window])])  # counted from the window's end

    # --- changes ------------------------------------------------------------------------------------

    def set_states(self, hosts: HostIds, first_step: int, end_step: int, pstate: int | StateArray) -> None:
        """Plan ``hosts`` in ``pstate`` from ``first_step`` up to ``end_step``.

        ``pstate`` is one P-state or an array that fits the shape (steps, hosts). ``hosts`` are distinct.
        Raises ValueError for steps outside the plan.
        """
        if not 0 <= first_step <= end_step <= self.steps:
            raise ValueError(f"steps {first_step} to {end_step} are not within the {self.steps} of the plan")
        rows = slice(first_step, min(end_step + 1, self.steps))
        old = self._from_before(hosts, rows.start, rows.stop)
        both = np.empty((2, *old.shape[::-1]), dtype=np.int8).transpose(0, 2, 1)  # in memory as ``old`` is
        both[:] = old
        both[0, 1 : 1 + end_step - first_step] = pstate
        new_j, old_j = self._steps.server_energy_j(both[:, 1:], both[:, :-1], hosts)
        change_j = new_j - old_j
        self.energy_j[rows] += np.add.reduce(change_j, axis=1)
        self.states[first_step:end_step, hosts] = pstate
        self.on[first_step:end_step, hosts] = pstate != self.sleep[hosts]
        if self._sums is not None:
            self._sums.end[hosts] = 0
        self._run_known[hosts] = False
        self.version += 1
        self.changes += 1

    def set_production(self, step: int, renew_w: float) -> None:
        """Replace a step's predicted production (W) by the known one."""
        self.renew_w[step] = renew_w
        self.version += 1

    # --- what follows from the states ------------------------------------------------------------------

    def server_energy_j(self, hosts: HostIds, first_step: int, end_step: int) -> FloatArray:
        """Planned worst-case energy of each of ``hosts`` in each step, J: (steps, hosts)."""
        states = self._from_before(hosts, first_step, end_step)
        return self._steps.server_energy_j(states[1:], states[:-1], hosts)

    def _from_before(self, hosts: HostIds, first_step: int, end_step: int) -> StateArray:
        """P-states of ``hosts`` from the step before ``first_step`` up to ``end_step``."""
        if first_step:
            return self.states[first_step - 1 : end_step, hosts]
        return np.concatenate([self._before[None, hosts], self.states[:end_step, hosts]])

    def before(self, step: int) -> StateArray:
        """P-state of each server in the step before ``step``: as planned, or as it was before the first."""
        return self.states[step - 1] if step > 0 else self._before

    def cover(self, step: int, end_step: int) -> None:
        """Prepare sums and runs from the present ``step`` to ``end_step``, and at least to the horizon.

        Whole windows are covered, so that this is rarely done again within one.
        """
        window = self._window_of(step)
        first = int(self._window_ends[window - 1]) if window else 0
        if first == self._covered.start and end_step <= self._covered.stop:
            return
        end = max(self.horizon(step), self.window_end(end_step - 1))
        self._covered = range(first, end)
        self._sums = None
        self._runs, self._runs_from = Runs.of(self.on[:0]), 0
        self._run_known[:] = False

    def asleep_steps(
        self, hosts: HostIds, first_step: int, end_step: IntArray | int
    ) -> npt.NDArray[np.int32]:
        """In how many steps from ``first_step`` up to ``end_step`` (not included) ``hosts`` sleep.

        ``end_step`` may differ from host to host, and there may be several rows of them. Taken from sums
        along each server's steps, which are made again for servers whose states have changed.
        """
        end = end_step if isinstance(end_step, int) else int(end_step.max())
        if not self._covered.start <= first_step <= end <= self._covered.stop:
            self.cover(first_step, end)
        before, start = self._sums_of(hosts, first_step, end).before, self._covered.start
        return np.asarray(before[hosts, end_step - start] - before[hosts, first_step - start])

    def _sums_of(self, hosts: HostIds, first: int, end: int) -> _AsleepSums:
        """The sums, those of ``hosts`` known at least from ``first`` to ``end``."""
        start, stop, count = self._covered.start, self._covered.stop, self.states.shape[1]
        sums = self._sums
        if sums is None:
            before = np.zeros((count, len(self._covered) + 1), dtype=np.int32)
            sums = self._sums = _AsleepSums(before, np.zeros(count, np.intp), np.zeros(count, np.intp))
        stale = hosts[(sums.first[hosts] > first) | (sums.end[hosts] < end)]
        if len(stale):
            end = min(end + (end - first) // 4, stop)  # the next questions reach a little further
            asleep = self.states[first:end, stale] == self.sleep[stale]
            sums.before[stale, first - start] = 0
            sums.before[stale, first - start + 1 : end - start + 1] = asleep.T.cumsum(axis=1, dtype=np.int32)
            sums.first[stale], sums.end[stale] = first, end
        return sums

    def runs_on(self, step: int, end_step: int = 0, first_before: int | None = None) -> Runs:
        """Every server's runs of steps planned on, from ``step`` on, in no particular order.

        They are known to the horizon or to ``end_step``, whichever is later, and cut off some time after it.
        With ``first_before``, only those that begin before this step.
        """
        self.cover(step, end_step or self.horizon(step))
        if step < self._runs_from:
            self._run_known[:], self._runs_from = False, 0
        if not all_of(self._run_known):
            self._runs_from = max(self._runs_from, step)
            again = (~self._run_known).nonzero()[0]
            stay = self._run_known[self._runs.host]
            changed = Runs.of(self.on[step : self._covered.stop, again])
            new = Runs(again[changed.host], changed.begin + step, changed.end + step)
            self._runs = Runs(*(np.concatenate([a[stay], b]) for a, b in zip(self._runs, new, strict=True)))
            self._run_known[again] = True
        host, begin, end = self._runs
        left = end > step
        if first_before is not None:
            left &= begin < first_before
        places = left.nonzero()[0]
        return Runs(host[places], np.maximum(begin[places], step), end[places])

    def project_soc(self, step: int, end_step: int, battery_j: float, more_j: float = 0.0) -> FloatArray:
        """Battery energy (J) at the start of ``step`` and at the end of it and of each later one (Eq. 1).

        Up to ``end_step``, which is not included. ``battery_j`` is the true level at the start of ``step``;
        servers, production and hydrogen are as planned, except that ``step`` draws ``more_j`` more.
        """
        rows = slice(step, end_step)
        net_w = self.renew_w[rows] + self.given_w[rows] - self.energy_j[rows] / self.step_s
        net_w[0] -= more_j / self.step_s
        return self._projection.levels_j(step, battery_j, net_w)


_Cell = TypeVar("_Cell", bound=np.generic)
_TABLES_KEPT: Final = 16
_NEVER: Final = 1_000_000
"""Rows to break even, where sleeping saves nothing."""


class CellPowers:
    """Energies of cells, by kind of server, for rows of steps.

    A cell's energy follows from its state, from whether the server was asleep in the step before, and
    from the length of the step. An outlook has two lengths (the rest of the present step, and a whole
    step), so that all energies come from small tables, one per length.
    """

    def __init__(self, platform: Platform, *, idle_power: bool = False) -> None:
        """Take the powers of a platform's servers.

        ``idle_power`` counts servers without a job at idle power, not at the plan's worst case (busy).
        """
        self.power = PowerModel(platform)
        self.sleep_pstate = platform.sleep_pstate
        """P-state number of sleep by host, -1 where it cannot sleep: [N]."""
        self.idle_power = idle_power
        self._width = self.power.full_w.shape[1]
        powers_w = (self.power.full_w, self.power.idle_w) if idle_power else (self.power.full_w,)
        self._energies = [StepEnergies(self.power, awake_w) for awake_w in powers_w]
        self._row_of: IndexArray = self.power.kind_of * (2 * len(powers_w) * self._width)
        """Where a host's cells begin in a table: its kind's part of it, [N]."""
        self._savings_row_of: IndexArray = self.power.kind_of * (8 * self._width)
        """The same in tables of savings."""
        self._tables: dict[float, FloatArray] = {}
        self._savings_tables: dict[float, tuple[FloatArray, FloatArray]] = {}
        self._sleep_saves(platform)
        least_w = self._least_w[self.power.can_sleep]
        self._least_on_w = float(least_w.min()) if len(least_w) else 0.0
        """The least that a server which can sleep draws more when it is on, W; 0 if none can."""
        self.most_switched_j = float(self.most_switching_j.max())
        """The greatest ``most_switching_j`` of all kinds."""
        self.most_added_j = np.ceil(self.most_switching_j)[self.power.kind_of]
        """``most_switching_j`` by host, in whole joules: [N]."""
        self._saved_row_of: IndexArray = self.power.kind_of * self._width
        self._most_saved: tuple[float, FloatArray] = (0.0, np.zeros(self.saved_w.size))

    def _sleep_saves(self, platform: Platform) -> None:
        """What sleep saves of each kind at most and at least (W), and what its transitions cost (J)."""
        power = self.power
        tables_w = (power.full_w, power.idle_w) if self.idle_power else (power.full_w,)
        pstates = [list(kind.computing) for kind in platform.kinds]
        on_w = [np.concatenate([w[row, found] for w in tables_w]) for row, found in enumerate(pstates)]
        least_w = np.array([watts.min(initial=np.inf) for watts in on_w])
        most_w = np.array([watts.max(initial=0.0) for watts in on_w])
        self._least_w = least_w - power.sleep_w
        falling_j = power.off_s * np.maximum(power.off_w - power.sleep_w, 0.0)
        self._switching_j = falling_j + power.on_s * np.maximum(power.on_w - least_w, 0.0)
        spared_j = power.on_s * np.maximum(most_w - power.on_w, 0.0)
        spared_j += power.off_s * np.maximum(power.sleep_w - power.off_w, 0.0)
        self.most_switching_j = np.where(power.can_sleep, self._switching_j + spared_j, 0.0)
        """Upper bound of what the transitions around a run of sleep can add to its savings, J, by kind."""
        awake_w = power.idle_w if self.idle_power else power.full_w
        saved_w = np.maximum(awake_w - power.sleep_w[:, None], 0.0)
        self.saved_w = np.where(power.can_sleep[:, None], saved_w, 0.0)
        """What sleep saves of an idle server, W: [kind, P-state], 0 where it cannot sleep."""

    def asleep(self, states: StateArray, hosts: HostIds | slice) -> BoolArray:
        """Which cells are asleep."""
        return np.asarray(states == self.sleep_pstate[hosts])

    def energy_j(
        self,
        states: StateArray,
        was_asleep: BoolArray,
        hosts: HostIds | slice,
        dt_s: FloatArray,
        idle: BoolArray | None = None,
    ) -> FloatArray:
        """Energy of each cell, J: [L, n] (Eq. 3.18 to 3.21).

        ``states`` and ``was_asleep`` (the step before) are [L, n], columns in the order of ``hosts``, or
        several such arrays at once: [.., L, n]; all steps but the first are equally long. A transition stands
        at the beginning of its step.
        ``idle`` marks cells without a job, which count at idle power with the option ``idle_power``.
        """
        code = np.multiply(was_asleep, self._width, dtype=np.int16)
        code += states
        if self.idle_power and idle is not None:
            code += np.multiply(idle, 2 * self._width, dtype=np.int16)
        if not len(dt_s):
            return np.empty(code.shape)
        place = self._row_of[hosts] + code
        energy_j = np.asarray(self._table(float(dt_s[-1]))[place])  # in the order of ``states``, as sums are
        if dt_s[0] != dt_s[-1]:
            energy_j[..., 0, :] = self._table(float(dt_s[0])).take(place[..., 0, :])
        return energy_j

    def most_saved_j(self, states: StateArray, dt_s: float) -> FloatArray:
        """The most that sleep saves of each cell that is on, in whole joules: [L, N], rows of ``dt_s``."""
        if dt_s != self._most_saved[0]:
            self._most_saved = dt_s, np.ceil(self.saved_w * dt_s).ravel()
        return np.asarray(self._most_saved[1].take(self._saved_row_of + states))

    def least_waking_j(self, dt_s: float) -> float:
        """Lower bound of what each step costs for which a server is woken, J; steps of ``dt_s``."""
        return self._least_on_w * dt_s - self.most_switched_j

    def least_woken_j(self, asleep: BoolArray, dt_s: float) -> float:
        """Lower bound of what it costs to wake servers in all cells in which they are ``asleep``, J.

        ``asleep`` is [L, n], with rows of ``dt_s``.
        """
        runs = np.count_nonzero(asleep[0]) + np.count_nonzero(asleep[1:] > asleep[:-1])
        return np.count_nonzero(asleep) * self._least_on_w * dt_s - runs * self.most_switched_j

    def rows_to_break_even(self, dt_s: float) -> int:
        """Number of consecutive steps that are always worth sleeping through, for every kind."""
        saved_j, rows = self._least_w * dt_s, np.full(len(self._least_w), float(_NEVER))
        np.divide(self._switching_j, saved_j, out=rows, where=saved_j > 0.0)
        return 1 + int(min(rows[self.power.can_sleep].max(initial=0.0), _NEVER))

    def change_j(
        self, old: StateArray, columns: StateArray, before: BoolArray, hosts: HostIds, dt_s: FloatArray
    ) -> FloatArray:
        """What ``columns`` in the place of the first rows of ``old`` add to the energy of each cell, J.

        ``before``: which of ``hosts`` were asleep in the step before the first row.
        """
        both = np.empty((2, *old.shape), dtype=np.int8)
        both[:] = old
        both[0, : len(columns)] = columns
        was_asleep = np.empty(both.shape, dtype=np.bool_)
        was_asleep[:, 0] = before
        was_asleep[:, 1:] = self.asleep(both[:, :-1], hosts)
        new_j, old_j = self.energy_j(both, was_asleep, hosts, dt_s)
        return np.asarray(new_j - old_j)

    def _table(self, length_s: float) -> FloatArray:
        """Energies of all cells of one length: by kind, idle or not, asleep before or not, P-state."""
        table = self._tables.get(length_s)
        if table is None:
            tables = [energies.table_j(length_s) for energies in self._energies]
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            table = self._tables[length_s] = np.stack(tables, axis=1).ravel()
        return table

    def savings_place(
        self,
        states: StateArray,
        slept: tuple[BoolArray, BoolArray],
        before: BoolArray,
        hosts: HostIds | slice,
        idle: BoolArray,
    ) -> IndexArray:
        """Where each cell stands in the tables of `savings_j`: [L, n].

        ``slept``: which cells sleep without, and with, the sleep of ``idle`` ones; ``before``: which servers
        slept in the step before row 0.
        """
        code = np.multiply(idle, 4 * self._width, dtype=np.int16)
        code += states
        code[1:] += np.multiply(slept[0][:-1], self._width, dtype=np.int16)
        code[1:] += np.multiply(slept[1][:-1], 2 * self._width, dtype=np.int16)
        code[0] += np.multiply(before, 3 * self._width, dtype=np.int16)
        return np.asarray(self._savings_row_of[hosts] + code)

    def savings_j(self, length_s: float) -> tuple[FloatArray, FloatArray]:
        """What sleep saves in cells of one length, and what their servers' waking again takes of it, J.

        By kind, idle or not, asleep in the step before with and without the sleep, P-state.
        """
        tables = self._savings_tables.get(length_s)
        if tables is None:
            by_use_j = self._table(length_s).reshape(len(self._least_w), -1, 2, self._width)
            awake_j = by_use_j[:, [0, -1]]  # by kind, idle or not, asleep before or not, P-state
            slept_j = by_use_j[:, :1].repeat(2, axis=1)
            sleep = np.maximum(self.power.sleep_pstate, 0)
            slept_j[:, 1] = np.take_along_axis(by_use_j[:, 0], sleep[:, None, None], axis=2)
            saved_j = awake_j[:, :, None] - slept_j[:, :, :, None]
            again_j = awake_j[:, :, None] - awake_j[:, :, :, None]
            tables = self._savings_tables[length_s] = saved_j.ravel(), again_j.ravel()
        return tables


def shifted(rows: npt.NDArray[_Cell], first: npt.NDArray[_Cell]) -> npt.NDArray[_Cell]:
    """The rows one step earlier: ``first`` before them, the last left out."""
    return np.concatenate([first[None, :], rows])[:-1]


def kept_on(states: StateArray, asleep: BoolArray, before: StateArray) -> StateArray:
    """Fill sleeping cells with the state of the step before (2a); ``before`` stands before row 0."""
    rows = np.concatenate([before[None, :], states])
    awake = np.concatenate([np.ones((1, states.shape[1]), dtype=np.bool_), ~asleep])
    source = np.maximum.accumulate(np.where(awake, np.arange(len(rows))[:, None], 0), axis=0)
    return np.asarray(rows[source[1:], np.arange(rows.shape[1])])


def sleep_savings_j(
    cells: CellPowers,
    states: StateArray,
    before_asleep: BoolArray,
    hosts: HostIds | slice,
    dt_s: FloatArray,
    idle: BoolArray,
) -> FloatArray:
    """What putting ``idle`` cells to sleep in rows 0 to k saves, for every k: [L, n], J.

    Net of the transitions, that of waking again after row k among them (none after the last row).
    """
    old = cells.asleep(states, hosts)
    place = cells.savings_place(states, (old, old | idle), before_asleep, hosts, idle)
    by_cell_j, again_j = cells.savings_j(float(dt_s[-1]))
    saved_j: FloatArray = by_cell_j.take(place)
    if dt_s[0] != dt_s[-1]:
        now, was, first_s = slice(1), before_asleep[None, :], dt_s[:1]
        slept = np.where(idle[now], cells.sleep_pstate[hosts], states[now])
        old_j = cells.energy_j(states[now], was, hosts, first_s, idle[now])
        saved_j[0] = (old_j - cells.energy_j(slept, was, hosts, first_s))[0]
    saved_j.cumsum(axis=0, out=saved_j)
    saved_j[:-1] += again_j.take(place[1:])
    return saved_j


def worthwhile(saved_j: FloatArray, idle: BoolArray, break_even: int = _NEVER) -> BoolArray:
    """The idle cells less the runs whose sleep as a whole saves nothing (`sleep_savings_j` says).

    ``break_even`` or more whole steps in a row always pay off. If that is one, only the rest of the present
    step can be too short, and only this step is checked.
    """
    if break_even <= 1:
        poor = idle[0] & (saved_j[0] <= 0.0)
        if len(idle) > 1:
            poor &= ~idle[1]
        if not any_of(poor):
            return idle
        good = idle.copy()
        good[0] &= ~poor
        return good
    hosts, starts, ends = Runs.of(idle)
    before_j = np.where(starts > 0, saved_j[np.maximum(starts - 1, 0), hosts], 0.0)
    poor = saved_j[ends - 1, hosts] - before_j <= 0.0
    if not any_of(poor):
        return idle
    edges = np.zeros((len(idle) + 1, idle.shape[1]), dtype=np.int8)
    np.add.at(edges, (starts[poor], hosts[poor]), 1)
    np.add.at(edges, (ends[poor], hosts[poor]), -1)
    return np.asarray(idle & (edges.cumsum(axis=0)[:-1] == 0))


class Ladder:
    """Speeds and their neighbours by kind and P-state; for P-states that do not compute, they stay."""

    def __init__(self, platform: Platform) -> None:
        """Sort each kind's computing P-states by speed."""
        kinds = platform.kinds
        full_w = PowerModel(platform).full_w
        width = full_w.shape[1]
        speed_flops = np.zeros_like(full_w)
        faster = np.tile(np.arange(width, dtype=np.int8), (len(kinds), 1))
        thriftier = faster.copy()
        thriftiest = []
        self.rising = True
        """Whether a faster P-state never draws less than the next slower one."""
        for row, kind in enumerate(kinds):
            speed_flops[row, list(kind.computing)] = [kind.speeds_flops[p] for p in kind.computing]
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
        """Where the P-states of a host's kind begin in the tables below, [N]."""
        self._full_w, self._speed_flops = full_w.ravel(), speed_flops.ravel()
        self._faster, self._thriftier = faster.ravel(), thriftier.ravel()
        self._top = platform.fastest_of_kind[platform.kind_of].astype(np.int8)
        self._sleep = platform.sleep_pstate.astype(np.int8)
        self._raised_w = np.take_along_axis(full_w, faster.astype(np.intp), axis=1).ravel() - self._full_w
        self.thriftiest = np.array(thriftiest, dtype=np.int8)[platform.kind_of]
        """P-state of least energy per flop (the faster of equals), by host."""
        self.reference_flops = np.array([kind.reference_speed_flops for kind in kinds])[platform.kind_of]
        """F': the speed that a walltime is taken to stand for, by host (Eq. 3.29)."""

    def faster(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next faster P-state of each of ``hosts``; the same one at the top."""
        return np.asarray(self._faster.take(self._row_of[hosts] + pstates))

    def can_rise(self, hosts: HostIds, pstates: StateArray) -> BoolArray:
        """Whether there is a faster P-state, for P-states of a plan: computing or asleep."""
        return np.asarray((pstates != self._top[hosts]) & (pstates != self._sleep[hosts]))

    def thriftier(self, hosts: HostIds, pstates: StateArray) -> StateArray:
        """The next slower P-state where it needs less energy per flop; else the same one."""
        return np.asarray(self._thriftier.take(self._row_of[hosts] + pstates))

    def speed_flops(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Speed of one core in these P-states, flops/s; 0 where they do not compute."""
        return np.asarray(self._speed_flops.take(self._row_of[hosts] + pstates))

    def full_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Full power in these P-states, W."""
        return np.asarray(self._full_w.take(self._row_of[hosts] + pstates))

    def raised_w(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """What the next faster P-state draws more at full power, W; 0 at the top."""
        return np.asarray(self._raised_w[self._row_of[hosts] + pstates])

    def saved_w(self, hosts: HostIds, old: StateArray, new: StateArray) -> FloatArray:
        """What running in ``new`` instead of ``old`` saves, W, net of the longer run that the work takes."""
        longer = self.speed_flops(hosts, old) / self.speed_flops(hosts, new)
        return self.full_w(hosts, old) - longer * self.full_w(hosts, new)


def _joules_per_flop(kind: ServerKind, pstate: int) -> float:
    return kind.full_w[pstate] / kind.speeds_flops[pstate]


def compensation_j(battery: BatterySpec, diff_j: float) -> float:
    """E_comp of E_diff (both J): Eq. 3.31.

    A shortage counts by the loss convention: the thesis divides it by the discharge efficiency, which
    is what saving a joule of demand keeps in the cells if losses are counted as printed.
    """
    if diff_j > 0.0:
        return diff_j / battery.charge_efficiency
    return diff_j / battery.drawn_per_delivered()


@dataclass
class Rest:
    """What is left of a window: rows from the present step to its last one, N servers."""

    states: StateArray
    """Planned P-states, [L, N]; compensation writes its changes here."""
    now_asleep: BoolArray
    """Which servers were asleep in the step before, [N]."""
    reserved_until: IndexArray
    """Rows before this one are taken by running jobs, [N]."""
    dt_s: FloatArray
    """Length of each row, [L]."""
    supply_j: FloatArray
    """Production and hydrogen of each row, [L]."""
    demand_j: FloatArray
    """Planned energy of the servers in each row, [L]; kept up with the changes."""
    battery: BatterySpec
    start_j: float
    """The true level of the battery now."""
    changed: bool = False
    """Whether compensation has changed states."""
    first_step: int = 0
    """The number of the present step: row 0."""
    projection: LevelProjection | None = None
    """What has projected the levels of the steps before, if anything."""

    @cached_property
    def tolerance_j(self) -> float:
        """Levels that derive from measured ones count as equal up to this difference, J."""
        return energy_tolerance_j(self.battery.capacity_j)

    def levels_j(self, extra_j: FloatArray | None = None) -> FloatArray:
        """Battery energy at the end of each row (Eq. 1), with ``extra_j`` more demand by row."""
        net_j = self.supply_j - self.demand_j
        net_w = (net_j if extra_j is None else net_j - extra_j) / self.dt_s
        if self.projection is None:
            self.projection = LevelProjection(self.battery, float(self.dt_s[-1]))
        return self.projection.levels_j(self.first_step, self.start_j, net_w)[1:]

    @property
    def diff_j(self) -> float:
        """E_diff: the estimated level at the end less the target, J (Eq. 3.30)."""
        return float(self.levels_j()[-1]) - self.battery.target_j


class JobHosts:
    """The hosts of several jobs, one job after the other."""

    def __init__(self, hosts: Sequence[HostIds]) -> None:
        """Lay out the hosts of each job, of one at least."""
        self.ids = np.concatenate(hosts)
        self.counts = np.array([len(mine) for mine in hosts])
        """The number of hosts of each job."""
        self.first = self.counts.cumsum() - self.counts
        """Where the hosts of each job begin."""

    @cached_property
    def job_of(self) -> IntArray:
        """The job of each host."""
        return np.arange(len(self.first)).repeat(self.counts)

    def only(self, job: int) -> JobHosts:
        """The hosts of one job."""
        begin = int(self.first[job])
        return JobHosts([self.ids[begin : begin + int(self.counts[job])]])


class JobTable:
    """Running jobs as compensation sees them: arrays with one entry per job, and one per host of all jobs."""

    def __init__(self, layout: JobHosts, left_s: FloatArray, remaining_flops: FloatArray) -> None:
        """Keep the arrays."""
        self.layout = layout
        self.hosts, self.first = layout.ids, layout.first
        self.left_s = left_s
        """Time of each job to its walltime, s."""
        self.remaining_flops = remaining_flops
        """Estimated remaining work of each host (Dfl' - Gfl of Eq. 3.28) by job, never negative."""

    def only(self, job: int) -> JobTable:
        """The table of one job."""
        entry = slice(job, job + 1)
        return JobTable(self.layout.only(job), self.left_s[entry], self.remaining_flops[entry])

    def least(self, values: FloatArray) -> FloatArray:
        """The least value among each job's hosts; ``values``' last axis is that of the hosts."""
        return np.minimum.reduceat(values, self.first, axis=-1)

    def needed_s(self, speeds_flops: FloatArray) -> FloatArray:
        """How long each job needs at the slowest of its hosts' speeds, s."""
        slowest = self.least(speeds_flops)
        needed_s = np.full(slowest.shape, np.inf)
        np.divide(self.remaining_flops, slowest, out=needed_s, where=slowest > 0.0)
        return needed_s


PLANNED = "planned"


def offline_plans(view: View) -> PlanStore:
    """Return the offline plans of the run's windows. Raises ConfigError if there are none."""
    if view.plans is None:
        raise ConfigError("the policy requires an offline plan: pass --plan FILE")
    return view.plans


def battery_j(view: View) -> float:
    """True level of the battery at the start of the present step, J. Raises ConfigError without a site."""
    if view.storage_state is None:
        raise ConfigError("the policy requires a site: pass --site FILE")
    return view.storage_state.battery_j


class CurrentWindow(NamedTuple):
    """The present window, with its nine curves."""

    number: int
    start_step: int
    predictions: Predictions

    def dangerous(self, step: int) -> bool:
        """Whether ``step`` of the plan is dangerous: more than half of the curves are below SoC_min."""
        return bool(self.predictions.dangerous[step - self.start_step])


def enter_window(
    view: View, plan: WorkingPlan, step: int, known: CurrentWindow | None
) -> CurrentWindow | None:
    """The window of ``step``: ``known`` if it is still that one, else a new one from the present level.

    Outside all windows, ``known``.
    """
    plans = offline_plans(view)
    place = plans.place(plan.start_of(step))
    if place is None or (known is not None and place.window == known.number):
        return known
    predictions = plans[place.window].predictions(battery_j(view))
    return CurrentWindow(place.window, step - place.step, predictions)


class PlanFollower:
    """Brings servers into the states of a working plan."""

    def __init__(self, view: View, plan: WorkingPlan) -> None:
        """Follow ``plan``, a copy of the offline plan that others may change."""
        self.plan = plan
        self.asked = view.pstate.copy()
        """The state last asked for, by host."""

    def follow(self, view: View, step: int, may_change: BoolArray) -> list[Action]:
        """Bring servers that ``may_change`` to their states in ``step``: one action per P-state.

        Its facts tell for how many of them this differs from the offline plan.
        """
        plan = self.plan
        planned, on = plan.states[step], plan.on[step]
        pending = np.where(on, view.sleep_requested(), view.wake_requested())
        differs = (view.pstate != planned) | (self.asked != planned) | pending
        differs &= may_change
        hosts = differs.nonzero()[0]
        if not len(hosts):
            return []
        states = planned[hosts]
        self.asked[hosts] = states
        replanned = states != plan.offline(step)[hosts]
        planned_w = float(plan.energy_j[step]) / plan.step_s
        actions: list[Action] = []
        for pstate in distinct(states):
            mine = states == pstate
            why: FactDict = {"planned_w": planned_w}
            changed = int(np.count_nonzero(replanned & mine))
            if changed:
                why["hosts_replanned"] = changed
            actions.append(SetPState(HostSet(hosts[mine]), pstate, PLANNED, why))
        return actions


def ready_s(view: View, plan: WorkingPlan, step: int, free: BoolArray, ends_s: FloatArray) -> FloatArray:
    """When each server could take a job at the earliest if it is planned on, s.

    ``free`` servers (N) can now, others when their jobs end (``ends_s``, minus infinity without a job). A
    server that is asleep because energy was short wakes at the next step at the earliest.
    """
    on_s = view.power_model.on_s[view.platform.kind_of]
    times_s = plan.start_of(step + 1) + on_s
    if np.count_nonzero(view.state_counts[:, SWITCHING_ON]):
        times_s = np.where(view.host_state == SWITCHING_ON, view.state_since_s + on_s, times_s)
    times_s[free] = view.now
    return np.where(ends_s > -np.inf, np.maximum(ends_s, view.now), times_s)
