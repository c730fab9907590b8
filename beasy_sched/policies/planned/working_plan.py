"""The policies' working copy of the offline plan, changed by their decisions, and derived values."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    IntArray,
    StateArray,
    all_of,
)
from beasy_sched.energy.devices.battery import BatterySpec, LevelProjection
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.energy.site_load import LoadAhead
from beasy_sched.errors import ConfigError
from beasy_sched.model.hosts import HostIds
from beasy_sched.planner.plan import PlanStore
from beasy_sched.planner.power_problem import PowerPlan
from beasy_sched.units import TIME_TOLERANCE_S


def runs_of_true(row: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the start index of the runs of true cells of a row, and the index after their last ones."""
    framed = np.zeros(len(row) + 2, dtype=np.bool_)
    framed[1:-1] = row
    edges = (framed[1:] != framed[:-1]).nonzero()[0]  # begins and ends alternate
    return edges[::2], edges[1::2]


class Runs(NamedTuple):
    """Runs of consecutive marked steps (such as planned on): one entry per run, by server and step."""

    host: HostIds
    begin: IntArray
    end: IntArray
    """Step after the last one of the run."""

    @classmethod
    def of(cls, marked: BoolArray) -> Runs:
        """Return the runs of the servers of a plan, (T, N)."""
        width = len(marked) + 1
        rows = np.zeros((marked.shape[1], width), dtype=np.bool_)  # a false cell ends each server's row
        rows[:, :-1] = marked.T
        begin, end = runs_of_true(rows.ravel())
        host = begin // width
        return cls(host, begin - host * width, end - host * width)


class _PlanPart(NamedTuple):
    """Part of the offline plan: P-states (T, N), powers of each step, W, and the PUE."""

    states: StateArray
    load_w: FloatArray
    renew_w: FloatArray
    envelope_w: FloatArray
    given_w: FloatArray
    always_w: FloatArray
    pue: FloatArray

    def beyond(self, steps: int) -> _PlanPart:
        """Return the part without its first ``steps`` steps."""
        first = max(steps, 0)
        powers = (self.load_w, self.renew_w, self.envelope_w, self.given_w, self.always_w, self.pue)
        return _PlanPart(self.states[first:], *(values[first:] for values in powers))

    @classmethod
    def of(cls, states: StateArray, power: PowerPlan) -> _PlanPart:
        """Return the part of one plan."""
        site_load = power.site_load
        always_w = np.zeros(power.steps) + site_load.always_w
        pue = np.ones(power.steps) if site_load.pue is None else site_load.pue
        return cls(states, power.load_w, power.renew_w, power.envelope_w, power.given_w, always_w, pue)

    @classmethod
    def nothing(cls, asleep: StateArray, steps: int) -> _PlanPart:
        """Return a part of ``steps`` steps without a plan, in which every server is ``asleep`` (N)."""
        none_w = np.zeros(steps)
        return cls(np.tile(asleep, (steps, 1)), none_w, none_w, none_w, none_w, none_w, np.ones(steps))


class _AsleepSums(NamedTuple):
    """Cumulative number of steps asleep of each server, as far as requested."""

    before: npt.NDArray[np.int32]
    """Number of steps asleep before each covered step and the one after them: [N, steps + 1]."""
    first: IntArray
    """First step in the sums of each server, [N]."""
    end: IntArray
    """Step up to which the sums of each server match its current states, [N]."""


class WorkingPlan:
    """Planned states of all servers over every known window, and values derived from them by step.

    Steps are numbered through all windows, from the start of the first. Ranges of steps are half open:
    ``first_step`` belongs to them, ``end_step`` does not. Derived values cover the current window
    and the next one, and more only if a job extends further, so the cost of a decision does not grow with the
    number of windows.
    """

    def __init__(self, plans: PlanStore, cells: CellEnergies, before: npt.NDArray[np.generic]) -> None:
        """Copy ``plans`` of the servers of ``cells``.

        ``before`` (N) holds their P-states as the first window begins.

        Raises ConfigError if the plans do not include servers.
        """
        self.start_s = plans.start_s
        self.step_s = plans[0].step_s
        self.battery: BatterySpec = plans[0].storage.battery
        self.cells = cells
        """Energies of the servers in each step."""
        self.sleep = cells.sleep_pstate
        """P-state in which each server sleeps (N), -1 if it cannot sleep."""
        self._projection = LevelProjection(self.battery, self.step_s)
        self._before = before.astype(np.int8)
        self._plans = plans
        self.version = 0
        """Counter that changes with every change of states or production."""
        self.changes = 0
        """Counter that changes with every change of states."""
        count = len(self.sleep)
        self.states: StateArray = np.empty((0, count), dtype=np.int8)
        """Planned P-state of each server in each step, of shape (T, N). Change it by `set_states`."""
        self.on: BoolArray = np.empty((0, count), dtype=np.bool_)
        """Whether each server is planned on, of shape (T, N)."""
        self.load_w = self.renew_w = self.envelope_w = self.given_w = np.empty(0)
        self.always_w = np.empty(0)
        """Base load and services, which `given_w` has subtracted, W."""
        self.pue: FloatArray = np.empty(0)
        """Power of servers and their cooling in each step, in units of the servers' power."""
        self.is_cooled = False
        """Whether any PUE differs from 1."""
        self.energy_j = np.empty(0)
        """Planned worst-case energy of all servers in each step, J (Eq. 3.17): busy, with transitions."""
        self.steps_s = np.empty(0)
        """Length of each step, s, all equal; read-only."""
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
        states, load_w, renew_w, envelope_w, given_w, always_w, pue = (
            np.concatenate(column) for column in zip(*later, strict=True)
        )
        energy_j = self.cells.plan_energy_j(states, self.before(step), self.step_s)
        self.states = np.concatenate((self.states[:step], states))
        self.on = np.concatenate((self.on[:step], states != self.sleep))
        self.load_w = np.concatenate((self.load_w[:step], load_w))
        self.renew_w = np.concatenate((self.renew_w[:step], renew_w))
        self.envelope_w = np.concatenate((self.envelope_w[:step], envelope_w))
        self.given_w = np.concatenate((self.given_w[:step], given_w))
        self.always_w = np.concatenate((self.always_w[:step], always_w))
        self.pue = np.concatenate((self.pue[:step], pue))
        self.is_cooled = bool(self.pue.max(initial=1.0) > 1.0)
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

    def _parts(self) -> list[_PlanPart]:
        """Return the consecutive plans, and the gaps between them. Raises ConfigError without servers."""
        parts: list[_PlanPart] = []
        end_s = self.start_s
        for plan in self._plans:
            if plan.servers is None:
                raise ConfigError("the plan has no servers: make a plan with a platform (--platform)")
            if gap := round((plan.start_s - end_s) / self.step_s):
                parts.append(_PlanPart.nothing(np.maximum(self.sleep, 0).astype(np.int8), gap))
            end_s = plan.end_s
            parts.append(_PlanPart.of(plan.servers.states, plan.power))
        return parts

    def renew(self, time_s: float) -> bool:
        """Adopt new plans for the time from ``time_s`` on; return whether there are any.

        Changes by the policies before ``time_s`` are kept; their changes to later steps are discarded.
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
        """Return the step at a time of the run; None outside the known windows."""
        step = math.floor((time_s - self.start_s + TIME_TOLERANCE_S) / self.step_s)
        return step if 0 <= step < self.steps else None

    def window_end(self, step: int) -> int:
        """Return the step after the last one of the window of ``step``."""
        return int(self._window_ends[self._window_of(step)])

    def window_start(self, step: int) -> int:
        """Return the first step of the window of ``step``."""
        window = self._window_of(step)
        return int(self._window_ends[window - 1]) if window else 0

    def horizon(self, step: int) -> int:
        """Return the step after the last one of the window after that of ``step``, the limit of decisions."""
        return int(self._window_ends[min(self._window_of(step) + 1, len(self._window_ends) - 1)])

    def _window_of(self, step: int) -> int:
        return bisect_right(self._window_ends, step)

    def start_of(self, step: int) -> float:
        """Return the start of a step, simulated time, s."""
        return self.start_s + step * self.step_s

    def end_step(self, time_s: float) -> int:
        """Return the first step that starts at ``time_s`` or later."""
        return math.ceil((time_s - self.start_s - TIME_TOLERANCE_S) / self.step_s)

    def end_steps(self, times_s: FloatArray) -> IndexArray:
        """Return the steps of several times; see `end_step`."""
        steps = np.ceil((times_s - self.start_s - TIME_TOLERANCE_S) / self.step_s)
        return steps.astype(np.intp)

    def has_on(self, hosts: HostIds, first: int, end: int) -> bool:
        """Whether ``hosts`` are planned on in all steps from ``first`` to ``end`` - 1."""
        return all_of(self.on[first:end, hosts])

    def steps_of(self, duration_s: float) -> int:
        """Return the number of steps that a duration can reach into."""
        return math.ceil(duration_s / self.step_s) + 1

    def offline(self, step: int) -> StateArray:
        """Return the P-states of the servers (N) in ``step``, as planned offline."""
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
            raise ValueError(f"steps {first_step} to {end_step} are outside the plan's {self.steps} steps")
        rows = slice(first_step, min(end_step + 1, self.steps))
        old = self._from_before(hosts, rows.start, rows.stop)
        both = np.empty((2, *old.shape[::-1]), dtype=np.int8).transpose(0, 2, 1)  # in memory as ``old`` is
        both[:] = old
        both[0, 1 : 1 + end_step - first_step] = pstate
        new_j, old_j = self._energy_j(both[:, 1:], both[:, :-1], hosts)
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

    def set_beside(self, step: int, site_load: LoadAhead) -> None:
        """Replace the load besides the servers, from ``step`` on, by that known now."""
        steps = next((len(each) for each in (site_load.services_w, site_load.pue) if each is not None), 0)
        rows = slice(step, step + steps)
        always_w = np.zeros(steps) + site_load.always_w
        self.given_w[rows] += self.always_w[rows] - always_w
        self.always_w[rows] = always_w
        if site_load.pue is not None:
            self.pue[rows] = site_load.pue
            self.is_cooled = True
        self.version += 1

    def weights(self, rows: slice) -> FloatArray | None:
        """Return the energy of the site per energy of servers in these steps; None without cooling."""
        return self.pue[rows] if self.is_cooled else None

    def site_j(self, rows: slice) -> FloatArray:
        """Return the planned energy of the servers and their cooling in these steps, J."""
        energy_j = self.energy_j[rows]
        return energy_j * self.pue[rows] if self.is_cooled else energy_j

    # --- derived values --------------------------------------------------------------------------------

    def server_energy_j(self, hosts: HostIds, first_step: int, end_step: int) -> FloatArray:
        """Return the planned worst-case energy of each of ``hosts`` in each step, J: (steps, hosts)."""
        states = self._from_before(hosts, first_step, end_step)
        return self._energy_j(states[1:], states[:-1], hosts)

    def _energy_j(self, states: StateArray, previous: StateArray, hosts: HostIds) -> FloatArray:
        """Return the worst-case energy in ``states``, J; ``previous``: states one step earlier."""
        return self.cells.energy_j(states, self.cells.asleep(previous, hosts), hosts, self.steps_s[:1])

    def _from_before(self, hosts: HostIds, first_step: int, end_step: int) -> StateArray:
        """Return the P-states of ``hosts`` from the step before ``first_step`` up to ``end_step``."""
        if first_step:
            return self.states[first_step - 1 : end_step, hosts]
        return np.concatenate([self._before[None, hosts], self.states[:end_step, hosts]])

    def before(self, step: int) -> StateArray:
        """Return the P-state of each server in the step before ``step``: planned, or initial."""
        return self.states[step - 1] if step > 0 else self._before

    def cover(self, step: int, end_step: int) -> None:
        """Prepare sums and runs from the current ``step`` to ``end_step``, and at least to the horizon.

        Whole windows are covered, so that this is rarely repeated within one.
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
        """Return the number of steps from ``first_step`` to ``end_step`` (exclusive) that ``hosts`` sleep.

        ``end_step`` may differ from host to host, and there may be several rows of them. Taken from sums
        along each server's steps, which are recomputed for servers whose states have changed.
        """
        end = end_step if isinstance(end_step, int) else int(end_step.max())
        if not self._covered.start <= first_step <= end <= self._covered.stop:
            self.cover(first_step, end)
        before, start = self._sums_of(hosts, first_step, end).before, self._covered.start
        return np.asarray(before[hosts, end_step - start] - before[hosts, first_step - start])

    def _sums_of(self, hosts: HostIds, first: int, end: int) -> _AsleepSums:
        """Return the sums, for ``hosts`` valid at least from ``first`` to ``end``."""
        start, stop, count = self._covered.start, self._covered.stop, self.states.shape[1]
        sums = self._sums
        if sums is None:
            before = np.zeros((count, len(self._covered) + 1), dtype=np.int32)
            sums = self._sums = _AsleepSums(before, np.zeros(count, np.intp), np.zeros(count, np.intp))
        stale = hosts[(sums.first[hosts] > first) | (sums.end[hosts] < end)]
        if len(stale):
            end = min(end + (end - first) // 4, stop)  # the next requests extend slightly further
            asleep = self.states[first:end, stale] == self.sleep[stale]
            sums.before[stale, first - start] = 0
            sums.before[stale, first - start + 1 : end - start + 1] = asleep.T.cumsum(axis=1, dtype=np.int32)
            sums.first[stale], sums.end[stale] = first, end
        return sums

    def runs_on(self, step: int, end_step: int = 0, first_before: int | None = None) -> Runs:
        """Return every server's runs of steps planned on, from ``step`` on, unordered.

        They extend to the horizon or to ``end_step``, whichever is later, and are cut off some time after it.
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
        """Return the battery energy (J) at the start of ``step``, and at its end and later ends (Eq. 1).

        Up to ``end_step``, which is not included. ``battery_j`` is the actual level at the start of ``step``;
        servers, production and hydrogen are as planned, except that the servers draw ``more_j`` more in
        ``step``.
        """
        rows = slice(step, end_step)
        net_w = self.renew_w[rows] + self.given_w[rows] - self.site_j(rows) / self.step_s
        net_w[0] -= more_j * self.pue.item(step) / self.step_s
        return self._projection.levels_j(step, battery_j, net_w)
