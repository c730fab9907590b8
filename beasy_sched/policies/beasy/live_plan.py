"""BEASY's working plan: the servers that jobs hold in it, and the test whether it has energy for another job.

`EnergyTest` determines whether a job can be started and finished on given servers (Section IV-B, 1 and 2a-2c
of the paper). Upper bounds of what sleep saves (`SleepBound`) rule out hopeless cases, and give the minimum
number of steps to scan for idle servers. A failed test does not copy anything, and `EnergyTest.apply` writes
only the cells that change.

`LivePlan` is the plan together with the reservations of running jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray, StateArray, all_of, any_of
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.energy.storage import LevelProjection, project_levels_j
from beasy_sched.engine.policy import View
from beasy_sched.last_value_cache import LastValueCache
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.jobs import Job
from beasy_sched.policies.beasy.compensation import ROUNDING_J
from beasy_sched.policies.beasy.sleep_bound import KeptOn, SleepBound
from beasy_sched.policies.beasy.speed_prices import SpeedPrices
from beasy_sched.policies.long_jobs import BEYOND, LongJobs, planned_length_s
from beasy_sched.policies.planned.follower import battery_j, offline_plans
from beasy_sched.policies.planned.job_table import JobHosts, JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow
from beasy_sched.policies.planned.sleep_savings import SleepSavings, kept_on, worthwhile
from beasy_sched.policies.planned.working_plan import WorkingPlan
from beasy_sched.policies.risk import CalibratedRisk
from beasy_sched.units import TIME_TOLERANCE_S

LongJobsRule = Literal["plan", "set-aside"]
"""Handling of jobs whose end lies beyond every plan."""
WindowEnd = Literal["walltime", "work"]
"""Condition for a job at the end of the last known window: its walltime reached, or its work done."""
ENERGY_TOLERANCE_J = 1e-6
_start_order: Final = attrgetter("start_order")


@dataclass
class PlanAhead:
    """The plan from the current step (row 0) on: L rows, N servers."""

    states: StateArray
    """Planned P-states, [L, N]: the plan itself, not a copy."""
    now_states: StateArray
    """Current P-states: computing or sleep, [N]."""
    reserved_until: IndexArray
    """Row up to which each server belongs to a running or verified job, [N]; 0 without a job."""
    level_j: Callable[[], FloatArray]
    """Planned battery energy at the end of each row up to the horizon (Eq. 1): at most [L]."""
    min_j: float
    """Battery energy at SoC_min."""
    dt_s: FloatArray
    """Length of each row, [L]: the rest of the current step, then whole steps."""
    write: Callable[[HostIds, StateArray], object]
    """Function that plans servers in these states from row 0 on."""
    most_saved_j: Callable[[float, int], float]
    """Upper bound of the energy that all idle servers can save by sleeping before a row, J; it may stop at a
    given minimum."""

    _limit: tuple[FloatArray | None, int] = (None, 0)
    """Last result of `rows_to_limit`, with its levels."""

    @property
    def rows_to_limit(self) -> int:
        """Number of rows before the planned SoC first reaches SoC_min: energy may be moved within these."""
        level_j = self.level_j()
        if level_j is not self._limit[0]:
            low = level_j <= self.min_j * (1.0 + 1e-9)
            first = int(low.argmax())
            self._limit = level_j, first if low[first] else len(low)
        return self._limit[1]


@dataclass(frozen=True)
class Placement:
    """Changes to the plan that let a job run: states of its servers, and sleep of idle ones."""

    hosts: HostIds
    end: int
    """The job holds its servers in rows 0 to end - 1."""
    columns: StateArray
    """States of ``hosts`` in rows 0 to ``end`` - 1."""
    needed_j: float = 0.0
    asleep: tuple[IndexArray, IndexArray] | None = None
    """Rows and hosts of the idle cells that go to sleep."""
    saved_j: float = 0.0
    woken: int = 0
    """Number of cells of the job's servers that were planned asleep."""
    faster: bool = False
    """Whether the job's servers were planned slower than it needs them."""

    def paid_by(self, asleep: tuple[IndexArray, IndexArray], saved_j: float) -> Placement:
        """Return the placement with these rows and hosts of idle cells ``asleep``, which save ``saved_j``."""
        own = (self.hosts, self.end, self.columns, self.needed_j)
        return Placement(*own, asleep, saved_j, self.woken, self.faster)


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


class EnergyTest:
    """Verifications 1 and 2 on one outlook; `apply` changes it."""

    def __init__(self, savings: SleepSavings, outlook: PlanAhead) -> None:
        """Test against ``outlook``, which `apply` writes to."""
        self.savings = savings
        self.cells = savings.cells
        self.outlook = outlook
        self._kept: KeptOn | None = None
        self._refused: Placement | None = None

    def check(self, hosts: HostIds, end: int, speed: StateArray | None = None) -> Placement | None:
        """Return the changes needed for a job to hold ``hosts`` up to row ``end``; None if impossible.

        ``speed``: the P-state that each of them needs from the next step on; without it, any P-state.
        The plan does not change before `apply`.
        """
        outlook = self.outlook
        old = outlook.states[:end, hosts]
        asleep = self.cells.asleep(old, hosts)
        woken = int(np.count_nonzero(asleep))
        faster = speed is not None and any_of(old[1:] != speed)
        if not (woken or faster):
            return Placement(hosts, end, old)  # Verification 1
        columns = kept_on(old, asleep, outlook.now_states[hosts])
        if speed is not None:
            columns[1:] = speed
        needed_j = self._needed_j(hosts, columns)
        placement = Placement(hosts, end, columns, needed_j, woken=woken, faster=faster)
        return placement if placement.needed_j <= ENERGY_TOLERANCE_J else self._pay(placement)

    def apply(self, placement: Placement) -> None:
        """Write a placement into the plan (2c)."""
        outlook, own = self.outlook, placement.hosts
        if placement.asleep is not None:
            rows, sleepers = placement.asleep
            concerned = np.zeros(outlook.states.shape[1], dtype=np.bool_)
            concerned[own] = concerned[sleepers] = True
            hosts = concerned.nonzero()[0]
            states = outlook.states[: max(placement.end, int(np.maximum.reduce(rows)) + 1), hosts]
            states[rows, hosts.searchsorted(sleepers)] = self.cells.sleep_pstate[sleepers]
            states[: placement.end, hosts.searchsorted(own)] = placement.columns
            outlook.write(hosts, states)
        elif placement.woken or placement.faster:
            outlook.write(own, placement.columns)
        outlook.reserved_until[own] = placement.end

    def keep(self, hosts: BoolArray, first: int, end: int) -> None:
        """Never put reserved ``hosts`` (N) to sleep in rows ``first`` to ``end`` - 1."""
        self._kept = KeptOn(hosts, first, end)

    def short_j(self) -> tuple[float, float]:
        """Return the energy needed by the last rejected job, and the most that idle servers could save, J."""
        if self._refused is None:
            return (0.0, 0.0)
        limit, placement = self.outlook.rows_to_limit, self._refused
        found_j = 0.0
        if limit:
            found_j = float(self._savings(placement, self._idle_from(placement), limit, limit).total_j.max())
        return (placement.needed_j, found_j)

    def _needed_j(self, hosts: HostIds, columns: StateArray) -> float:
        """2a: sum of Ed' - Ed, including the transitions in and just after the job's rows."""
        outlook, cells, rows = self.outlook, self.cells, slice(0, len(columns) + 1)
        before, dt_s = cells.asleep(outlook.now_states[hosts], hosts), outlook.dt_s[rows]
        changes_j = cells.change_j(outlook.states[rows, hosts], columns, before, hosts, dt_s)
        return float(np.add.reduce(changes_j, axis=None))

    # --- 2b: savings of idle servers ------------------------------------------------------------------

    def _pay(self, placement: Placement) -> Placement | None:
        """Put idle servers to sleep, from the current step on, until this saves enough for the job."""
        outlook, least_j = self.outlook, placement.needed_j - ENERGY_TOLERANCE_J
        if self.most_payable_j(least_j) < least_j:
            self._refused = placement
            return None
        limit, first = outlook.rows_to_limit, self._idle_from(placement)
        bound = SleepBound(self.savings, outlook.states, first, float(outlook.dt_s[-1]), self._kept)
        rows = bound.rows_to(least_j, limit)
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

    def _idle_from(self, placement: Placement) -> IndexArray:
        """The row from which each server has no job, if that of ``placement`` starts: [N]."""
        first = self.outlook.reserved_until.copy()
        first[placement.hosts] = np.maximum(first[placement.hosts], placement.end)
        return first

    def most_payable_j(self, enough_j: float = math.inf) -> float:
        """Upper bound of the savings of idle servers for any job, J; it may stop at ``enough_j``."""
        return self.outlook.most_saved_j(enough_j, self.outlook.rows_to_limit)

    def least_needed_j(
        self, asleep: npt.NDArray[np.integer], count: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.floating]:
        """Lower bounds of the energy that jobs need to hold servers in this number of cells ``asleep``, J.

        ``count``: number of servers requested by each of them.
        """
        savings, dt_s = self.savings, float(self.outlook.dt_s[-1])
        whole = np.maximum(asleep - count, 0)  # the rest of the current step may be short
        return np.asarray(whole * savings.least_waking_j(dt_s) - count * savings.most_switched_j)

    def _idle(self, hosts: HostIds, states: StateArray, first: IndexArray, end: int) -> BoolArray:
        """Return the cells of ``hosts`` that may sleep, in rows from their ``first`` up to ``end``."""
        idle = ~self.cells.asleep(states, hosts)
        idle &= np.arange(len(states))[:, None] >= first
        idle &= self.cells.sleep_pstate[hosts] >= 0
        idle[end:] = False
        if self._kept is not None:
            self._kept.leave_out(idle, 0, hosts)
        return idle

    def _savings(self, placement: Placement, first: IndexArray, rows: int, limit: int) -> _Savings:
        """E_poss in the first ``rows`` of the rows before ``limit``: of servers idle from ``first`` on (N).

        Runs of idle steps that would save nothing in total are skipped. A few more rows than
        requested are examined, so that a run that continues beyond them does not appear short.
        """
        outlook, savings = self.outlook, self.savings
        break_even = savings.rows_to_break_even(float(outlook.dt_s[-1]))
        seen = min(rows + break_even + 1, limit)
        hosts = (first < rows).nonzero()[0]
        states = outlook.states[: seen + 1, hosts]  # one more, for the transition after the last
        if placement.end < rows:
            states[: placement.end, hosts.searchsorted(placement.hosts)] = placement.columns
        idle = self._idle(hosts, states, first[hosts], seen)
        some = np.logical_or.reduce(idle[:rows], axis=0)
        hosts, states, idle = hosts[some], states[:, some], idle[:, some]
        dt_s, before = outlook.dt_s[: seen + 1], self.cells.asleep(outlook.now_states[hosts], hosts)
        saved_j = savings.sleeping_j(states, before, hosts, dt_s, idle)
        good = worthwhile(saved_j, idle, break_even)
        if good is not idle:
            saved_j = savings.sleeping_j(states, before, hosts, dt_s, good)
        return _Savings(hosts, good[:rows], saved_j[:rows])


def _with_sleepers(placement: Placement, savings: _Savings, last: int) -> Placement:
    """Put servers to sleep in all rows before ``last``, and as few as necessary in row ``last``."""
    idle, by_host_j = savings.idle, savings.by_host_j
    before_j = by_host_j[last - 1] if last else np.zeros(idle.shape[1])
    gain_j = np.where(idle[last], by_host_j[last] - before_j, 0.0)
    fixed_j = float(np.where(idle[last], before_j, by_host_j[last]).sum())
    order = (-gain_j).argsort(kind="stable")
    reached_j = fixed_j + gain_j[order].cumsum()
    count = int(np.argmax(reached_j >= placement.needed_j - ENERGY_TOLERANCE_J)) + 1
    chosen = idle[: last + 1].copy()
    chosen[last] = False
    chosen[last, order[:count]] = idle[last, order[:count]]
    saved_j = float(reached_j[count - 1])
    rows, places = chosen.nonzero()
    return placement.paid_by((rows, savings.hosts[places]), saved_j)


@dataclass
class _Held:
    """Reservation of a running job: its servers from step ``first`` on, and their previous states."""

    job: Job
    hosts: HostIds
    first: int
    before: StateArray
    faster: bool
    """Whether the job's servers were made faster for it."""
    end_s: float
    """Time by which the job must end, s."""
    total_flops: float
    """Work that the job is assumed to need on each host (Eq. 3.29), flops."""

    @property
    def end(self) -> int:
        """Step up to which the job holds its servers."""
        return self.first + len(self.before)


class _HeldJobs:
    """Constant data of several running jobs."""

    def __init__(self, held: Sequence[_Held], ladder: PStateTable) -> None:
        """Tabulate the data of ``held``."""
        self.held = held
        if not held:
            return
        self.layout = JobHosts([each.hosts for each in held])
        self._jobs = [each.job for each in held]
        self._end_s = np.array([each.end_s for each in held])
        self._total_flops = np.array([each.total_flops for each in held])
        self._reference_flops = np.minimum.reduceat(
            ladder.reference_flops[self.layout.ids], self.layout.first
        )
        self._computes = np.array([job.computes for job in self._jobs])
        self._all_compute = all_of(self._computes)
        self._start_s = np.array([job.start_s for job in self._jobs])

    def table(self, view: View) -> JobTable:
        """Return the jobs with their remaining work."""
        done_flops = view.work_flops(self._jobs)
        if not self._all_compute:
            run_flops = (view.now - self._start_s) * self._reference_flops
            done_flops = np.where(self._computes, done_flops, run_flops)
        left_flops = np.maximum(self._total_flops - done_flops, 0.0)
        return JobTable(self.layout, self._end_s - view.now, left_flops)


class Promise(NamedTuple):
    """Time at which a waiting job will have its hosts, and these hosts."""

    job: Job
    start_s: float
    hosts: HostIds


class LivePlan:
    """Working plan with the reservations of running jobs."""

    def __init__(
        self,
        view: View,
        *,
        idle_power: bool,
        user_error: float,
        window_end: WindowEnd = "walltime",
        long_jobs: LongJobsRule = "plan",
    ) -> None:
        """Copy the plans of ``view``; see `Beasy`'s options for the others."""
        self.cells = CellEnergies(view.power_model, idle_power=idle_power)
        self.savings = SleepSavings(self.cells)
        self.ladder = PStateTable(view.power_model)
        self.plan = WorkingPlan(offline_plans(view), self.cells, view.pstate)
        self.until: IndexArray = np.zeros(view.platform.size, dtype=np.intp)
        """Step up to which each host belongs to a running job, [N]."""
        self.ends_s: FloatArray = np.full(view.platform.size, -np.inf)
        """Latest end of the job of each host, s; minus infinity without a job."""
        self.on_s: FloatArray = view.power_model.on_s[view.platform.kind_of]
        """Waking time of each host, s."""
        self.longest_wake_s = float(view.power_model.on_s.max())
        self.no_servers: BoolArray = np.zeros(view.platform.size, dtype=np.bool_)
        """Empty mask of servers; read-only."""
        self.no_servers.flags.writeable = False
        self._projection = LevelProjection(self.plan.battery, self.plan.step_s)
        """Projection of levels for compensation, without the energy drawn beyond the plan."""
        self._levels_j: LastValueCache[tuple[int, int, float], FloatArray] = LastValueCache()
        self._least_left_j: LastValueCache[tuple[int, int, float], FloatArray] = LastValueCache()
        self._beyond_plan = (-1, 0.0)
        """Number of a step, and the energy that servers draw in it beyond the plan, J."""
        self._user_error = user_error
        self.long_jobs = LongJobs(planned_length_s(view) if long_jobs == "plan" else math.inf)
        """Long jobs, whose end lies beyond every plan."""
        self._long_held: dict[str, None] = {}
        """Ids of the running long jobs."""
        self.by_work = window_end == "work"
        """Whether a job only needs to complete its work before the last known window ends."""
        self.fastest = view.platform.fastest_of_kind[view.platform.kind_of]
        """Fastest P-state of each host."""
        self._most_speed = float(self._speed(np.arange(view.platform.size), self.fastest).min())
        self.promised: Promise | None = None
        """Last reservation found."""
        self.hopeless: tuple[Job, int, int, int, int] | None = None
        """The job for which the last search found no reservation, the change counters of plan, jobs and hosts
        at that time, and the step up to which it searched. While these stay the same, later searches fail as
        well, because servers become ready later and the plan's runs of steps become shorter."""
        self._held: dict[str, _Held] = {}
        self.job_changes = 0
        """Counter that changes whenever jobs start or end."""
        self._all: LastValueCache[int, _HeldJobs] = LastValueCache()
        self._faster: LastValueCache[tuple[int, int, int], _HeldJobs] = LastValueCache()
        """Running jobs with a server that could run faster, by change counters of plan and jobs."""
        self._prices: LastValueCache[tuple[int, int, int], tuple[int, SpeedPrices]] = LastValueCache()
        """Cost of more speed for these jobs, and its first step, by the same counters."""
        self._lowest: LastValueCache[tuple[int, int, int], bool] = LastValueCache()
        """Whether no server could draw less, by change counters of plan and jobs."""
        self._bound: LastValueCache[tuple[int, int], tuple[int, SleepBound]] = LastValueCache()
        """Possible savings of idle servers, and their first step, by change counters of plan and jobs."""
        self._released: list[_Held] = []

    def renew(self, time_s: float) -> bool:
        """Adopt new plans from ``time_s`` on, except for the servers of running jobs.

        These keep their states planned for the job. Returns whether there were new plans.
        """
        plan, old, old_step = self.plan, self.plan.states, self.plan.steps
        if not plan.renew(time_s):
            return False
        step = round((time_s - plan.start_s) / plan.step_s)
        self._released = []
        for held in self._held.values():
            end = min(held.first + len(held.before), old_step, plan.steps)
            held.before = plan.states[step:end, held.hosts].copy()
            held.first = step
            if step < end:
                plan.set_states(held.hosts, step, end, old[step:end, held.hosts])
        return True

    # --- scheduling -----------------------------------------------------------------------------------

    def end_step(self, time_s: float) -> int:
        """Return the first step that starts at ``time_s`` or later."""
        return math.ceil((time_s - self.plan.start_s - TIME_TOLERANCE_S) / self.plan.step_s)

    def end_steps(self, times_s: FloatArray) -> IndexArray:
        """Return the steps of several times; see `end_step`."""
        steps = np.ceil((times_s - self.plan.start_s - TIME_TOLERANCE_S) / self.plan.step_s)
        return steps.astype(np.intp)

    def counted_s(self, view: View, step: int, walltime_s: FloatArray) -> FloatArray:
        """Return the walltimes used in the plan for jobs that start now in ``step``, s.

        They are the jobs' own, except for long jobs: the longest run of such jobs, at most to the horizon; if
        that is unknown, the rest of the window, or the longest run so far if that is longer.
        """
        is_long = self.long_jobs.among(walltime_s)
        if not any_of(is_long):
            return walltime_s
        return np.where(is_long, self._long_s(view, step), walltime_s)

    def counted_of(self, view: View, step: int, job: Job) -> float:
        """Return the walltime used in the plan for one job, s; see `counted_s`."""
        return self._long_s(view, step) if self.long_jobs.includes(job) else job.walltime_s

    def _long_s(self, view: View, step: int) -> float:
        plan, expected_s = self.plan, self.long_jobs.expected_s
        if expected_s == math.inf:
            expected_s = max(plan.start_of(plan.window_end(step)) - view.now, self.long_jobs.longest_s)
        return min(expected_s, plan.start_of(plan.horizon(step)) - view.now)

    def open_end(self, view: View, step: int, job: Job) -> int | None:
        """Return the step up to which ``job``, whose run time is unknown, is planned regardless of its start.

        None for a job with a known run time.
        """
        if not self.long_jobs.includes(job) or self.long_jobs.expected_s < math.inf:
            return None
        return self.end_step(view.now + self._long_s(view, step))

    def most_s(self, view: View, step: int, walltime_s: FloatArray) -> FloatArray:
        """Return the longest time that jobs of these walltimes take if the window's end demands it, s.

        By walltimes, or by work: free servers continue at their current speeds in the current ``step``, then
        all run at full speed (Eq. 3.28, 3.29). This holds for any servers that a job gets.
        """
        if not self.by_work:
            return walltime_s
        free = view.free_mask().nonzero()[0]
        now_speed = float(self._speed(free, view.pstate[free]).min()) if len(free) else 0.0
        rest_s = max(self.plan.start_of(step + 1) - view.now, 0.0)
        work_s = walltime_s * self._user_error
        later_s = rest_s + (work_s - now_speed * rest_s) / self._most_speed
        at_once = work_s <= now_speed * rest_s
        with np.errstate(divide="ignore", invalid="ignore"):
            most_s = np.where(at_once, work_s / now_speed, later_s)
        return np.asarray(np.minimum(walltime_s, most_s))

    def _speed(self, hosts: HostIds, pstates: npt.NDArray[np.integer]) -> FloatArray:
        """Speeds as shares of the reference speed."""
        return np.asarray(self.ladder.speed_flops(hosts, pstates) / self.ladder.reference_flops[hosts])

    def has_on(self, hosts: HostIds, first: int, end: int) -> bool:
        """Whether ``hosts`` are planned on in all steps from ``first`` to ``end`` - 1."""
        return all_of(self.plan.on[first:end, hosts])

    def rows_of(self, duration_s: float) -> int:
        """Return the number of steps that a duration can reach into."""
        return math.ceil(duration_s / self.plan.step_s) + 1

    def test(self, view: View, step: int) -> EnergyTest:
        """Return an energy test on the plan from the current step on.

        It covers the plan's horizon, or the end of the longest waiting job, plus one step.
        """
        plan = self.plan
        end_step = plan.horizon(step)
        if view.now + view.queue.longest_walltime_s > plan.start_of(end_step):
            end_step = max(end_step, self._last_end_step(view, step))
        plan.cover(step, end_step)
        rows = slice(step, min(end_step + 1, plan.steps))
        dt_s = plan.steps_s[rows].copy()
        dt_s[0] = max(plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)
        outlook = PlanAhead(
            states=plan.states[rows],
            now_states=view.pstate.astype(np.int8),
            reserved_until=np.maximum(self.until - step, 0),
            level_j=lambda: self.levels_j(view, step),
            min_j=plan.battery.min_j,
            dt_s=dt_s,
            write=lambda hosts, states: self._write(view, step, hosts, states),
            most_saved_j=lambda enough_j, rows: self._most_saved_j(step, enough_j, rows),
        )
        return EnergyTest(self.savings, outlook)

    def _most_saved_j(self, step: int, enough_j: float, rows: int) -> float:
        """Return the most that idle servers can save in ``rows`` from ``step`` on: see `SleepBound.most_j`.

        The bound is kept while neither the plan's states nor the running jobs change.
        """

        def from_here() -> tuple[int, SleepBound]:
            ahead = self.plan.states[step:]
            return step, SleepBound(self.savings, ahead, self.until - step, self.plan.step_s)

        first, bound = self._bound.get((self.plan.changes, self.job_changes), from_here)
        return bound.most_j(enough_j, step - first + rows, step - first)

    def _last_end_step(self, view: View, step: int) -> int:
        """Return the latest end step of the waiting jobs that can still end before the plan does."""
        walltimes_s = self.counted_s(view, step, view.queue.walltime_s[view.queue.places()])
        end_s = self.plan.end_s
        in_time = view.now + self.most_s(view, step, walltimes_s) <= end_s + TIME_TOLERANCE_S
        ends_s = np.minimum(view.now + walltimes_s[in_time], end_s)
        return self.end_step(float(ends_s.max(initial=view.now)))

    def levels_j(self, view: View, step: int) -> FloatArray:
        """Planned battery energy (J) at the end of the current step and of each one up to the horizon."""
        plan, level_j = self.plan, battery_j(view)

        def project() -> FloatArray:
            return plan.project_soc(step, plan.horizon(step), level_j, self._beyond_plan_j(step))[1:]

        return self._levels_j.get((plan.version, step, level_j), project)

    def least_left_j(self, view: View, step: int, risk: CalibratedRisk) -> FloatArray:
        """Least energy (J) above SoC_min and the reserve, up to the end of each step from ``step`` on.

        Servers are as planned; production is the quantile used for starts.
        """
        plan, level_j = self.plan, battery_j(view)

        def project() -> FloatArray:
            rows = slice(step, step + len(risk.careful_w))
            net_w = risk.careful_w + plan.given_w[rows] - plan.energy_j[rows] / plan.step_s
            net_w[0] -= self._beyond_plan_j(step) / plan.step_s
            levels_j = project_levels_j(plan.battery, level_j, net_w, plan.step_s)
            return np.minimum.accumulate(levels_j[1:] - plan.battery.min_j - risk.reserve_j)

        return self._least_left_j.get((plan.version, step, level_j), project)

    def _write(self, view: View, step: int, hosts: HostIds, states: StateArray) -> None:
        """Plan ``states`` for ``hosts`` from the current step on.

        The plan has whole steps: a server that falls asleep now is planned asleep from the step's start. The
        energy that it has already drawn is stored separately until the end of the step.
        """
        plan = self.plan
        changed = hosts[plan.states[step, hosts] != states[0]]
        if not len(changed):
            plan.set_states(hosts, step, step + len(states), states)
            return
        planned_j = -plan.server_energy_j(changed, step, step + 1).sum()
        rest_j = -self._rest_j(view, step, changed)
        plan.set_states(hosts, step, step + len(states), states)
        planned_j += plan.server_energy_j(changed, step, step + 1).sum()
        rest_j += self._rest_j(view, step, changed)
        self._beyond_plan = (step, self._beyond_plan_j(step) + float(rest_j - planned_j))

    def _rest_j(self, view: View, step: int, hosts: HostIds) -> float:
        """Return the energy of ``hosts`` in the rest of the current step as planned, J."""
        rest_s = np.array([max(self.plan.start_of(step + 1) - view.now, TIME_TOLERANCE_S)])
        was_asleep = (view.pstate[hosts] == self.plan.sleep[hosts])[None, :]
        states = self.plan.states[step, hosts][None, :]
        return float(self.cells.energy_j(states, was_asleep, hosts, rest_s).sum())

    def _beyond_plan_j(self, step: int) -> float:
        """Return the energy that the servers draw in the current step beyond the plan, J."""
        return self._beyond_plan[1] if self._beyond_plan[0] == step else 0.0

    def start(self, view: View, step: int, job: Job, test: EnergyTest, placement: Placement) -> None:
        """Give a job its servers up to its walltime, with the required changes."""
        hosts, end = placement.hosts, step + placement.end
        before = self.plan.states[step:end, hosts]
        test.apply(placement)
        self.until[hosts] = end
        self.ends_s[hosts] = view.now + job.walltime_s
        reference_flops = float(self.ladder.reference_flops[hosts].min())
        walltime_s = self.counted_of(view, step, job)
        total_flops = walltime_s * reference_flops * self._user_error
        end_s = view.now + walltime_s
        if self.by_work:
            end_s = min(end_s, self.plan.end_s)
        self.job_changes += 1
        self._held[job.id] = _Held(job, hosts, step, before, placement.faster, end_s, total_flops)
        if self.long_jobs.includes(job):
            self._long_held[job.id] = None

    def keep_long_jobs(self, step: int) -> None:
        """Extend the plan of running long jobs: to the end of the window, or to their expected end.

        There is no energy test: these jobs run, and compensation offsets their energy.
        """
        for held in [self._held[job_id] for job_id in self._long_held]:
            end = self._end_of_long(held, step)
            if end > held.end:
                self._keep(held, end)

    def _end_of_long(self, held: _Held, step: int) -> int:
        """Return the step up to which a running long job holds its servers."""
        plan, start_s, expected_s = self.plan, held.job.start_s, self.long_jobs.expected_s
        if expected_s == math.inf:
            latest_s = plan.start_of(plan.window_end(step))
        elif held.end > step:
            return held.end
        else:
            run_s = plan.start_of(step) - start_s
            latest_s = start_s + (expected_s if run_s < expected_s else BEYOND * run_s)
        latest_s = min(latest_s, start_s + held.job.walltime_s)
        return min(max(self.end_step(latest_s), step + 1), plan.horizon(step))

    def _keep(self, held: _Held, end: int) -> None:
        """Let a running job hold its servers up to step ``end``, in the states that they are planned in."""
        plan, hosts, first = self.plan, held.hosts, held.end
        before = plan.states[first:end, hosts]
        asleep = self.cells.asleep(before, hosts)
        plan.set_states(hosts, first, end, kept_on(before, asleep, plan.before(first)[hosts]))
        held.before = np.concatenate((held.before, before))
        held.total_flops *= (plan.start_of(end) - held.job.start_s) / (held.end_s - held.job.start_s)
        held.end_s = plan.start_of(end)
        self.until[hosts] = end
        self.job_changes += 1

    def settle_ends(self, view: View, step: int) -> None:
        """Free the servers of jobs that have ended; `give_back` handles those that no other job takes."""
        running, known = view.running, self._held
        if len(running) == len(known):
            return
        gone = [job.id for job in sorted(view.ended, key=_start_order) if job.id in known]
        if len(running) + len(gone) != len(known):  # others ended outside all windows
            gone = [key for key in known if key not in running]
        for key in gone:
            held = known.pop(key)
            self._long_held.pop(key, None)
            self.job_changes += 1
            self.until[held.hosts] = 0
            self.ends_s[held.hosts] = -np.inf
            if step < held.first + len(held.before):
                self._released.append(held)

    def give_back(self, view: View, step: int) -> None:
        """Plan released servers that no job has taken asleep again, as before the job."""
        plan, released, self._released = self.plan, self._released, []
        for held in released:
            end = held.first + len(held.before)
            mine = self.until[held.hosts] <= step
            hosts, before = held.hosts[mine], held.before[step - held.first :, mine]
            if not len(hosts) or not len(before):
                continue
            changed = self.cells.asleep(before, hosts) | held.faster
            if any_of(changed):
                self._write(view, step, hosts, np.where(changed, before, plan.states[step:end, hosts]))

    # --- compensation ---------------------------------------------------------------------------------

    def running_jobs(self, view: View) -> JobTable | None:
        """Return the running jobs with their estimated remaining work (Eq. 3.28, 3.29), if there are any."""
        return self._all.get(self.job_changes, self._held_jobs).table(view) if self._held else None

    def faster_jobs(self, view: View, step: int, end: int, energy_j: float) -> JobTable | None:
        """Return running jobs if ``energy_j`` may suffice for one of them to run faster before step ``end``.

        These have a server that could run faster. They may include jobs for which this was only true earlier;
        while neither plan nor jobs change, they are not examined again, and the prices are known.
        """
        if not self._held:
            return None
        key = self.plan.changes, self.job_changes, end
        jobs = self._faster.get(key, lambda: self._held_jobs(self._can_rise(step, end)))
        if not jobs.held:
            return None
        table = jobs.table(view)
        first, prices = self._prices.get(key, lambda: (step, self._speed_prices(table, step, end)))
        row_ends_s = self.plan.steps_s[: end - step].cumsum()
        return table if prices.least_j(table, step - first, row_ends_s) <= energy_j + ROUNDING_J else None

    def _speed_prices(self, jobs: JobTable, step: int, end: int) -> SpeedPrices:
        """Return the cost of more speed for ``jobs`` in steps from ``step`` on, before ``end``."""
        states = self.plan.states[step : min(end, int(self.until[jobs.hosts].max()) + 1), jobs.hosts]
        return SpeedPrices(jobs, self.ladder, states, self.cells.asleep(states, jobs.hosts))

    def _held_jobs(self, some: Sequence[bool] | None = None) -> _HeldJobs:
        """Return the running jobs, or ``some`` of them."""
        held = [*self._held.values()]
        return _HeldJobs(held if some is None else [*compress(held, some)], self.ladder)

    def _can_rise(self, step: int, end: int) -> list[bool]:
        """Whether each running job has a server that could run faster in one of its steps before ``end``."""
        of = self._all.get(self.job_changes, self._held_jobs).layout
        ends = self.until[of.ids] + 1  # a job that ends with a step may reach into the next by rounding
        rows = np.arange(step, min(end, int(np.maximum.reduce(ends))))
        rises = self.ladder.can_rise(of.ids, self.plan.states[step : step + len(rows), of.ids])
        rises &= rows[:, None] < ends
        by_host = np.logical_or.reduce(rises, axis=0)
        some: list[bool] = np.logical_or.reduceat(by_host, of.first).tolist()
        return some

    def is_lowest(self, step: int, end: int) -> bool:
        """Whether no server can draw less before ``end``: each sleeps, or has a job and is at its minimum.

        A true result is kept for later steps while neither plan nor jobs change.
        """
        return self._lowest.get(
            (self.plan.changes, self.job_changes, end), lambda: self._find_lowest(step, end)
        )

    def _find_lowest(self, step: int, end: int) -> bool:
        states, hosts = self.plan.states[step:end], np.arange(len(self.until))
        held = np.arange(step, end)[:, None] < self.until
        lowest = held & (self.ladder.thriftier(hosts, states) == states)
        return all_of(lowest | ~self.plan.on[step:end])

    def rest(self, view: View, step: int, end: int) -> RestOfWindow:
        """Return the rest of a window, from ``step`` up to ``end`` (exclusive)."""
        plan, rows = self.plan, slice(step, end)
        return RestOfWindow(
            states=plan.states[rows],
            now_asleep=np.asarray(view.pstate == plan.sleep),
            reserved_until=np.maximum(self.until - step, 0),
            dt_s=plan.steps_s[rows],
            supply_j=(plan.renew_w[rows] + plan.given_w[rows]) * plan.step_s,
            demand_j=plan.energy_j[rows],
            battery=plan.battery,
            start_j=battery_j(view),
            first_step=step,
            projection=self._projection,
        )

    def adopt(self, step: int, rest: RestOfWindow) -> None:
        """Copy the states of ``rest`` to the plan."""
        differs = rest.states != self.plan.states[step : step + len(rest.states)]
        hosts = np.logical_or.reduce(differs, axis=0).nonzero()[0]
        if len(hosts):
            rows = np.logical_or.reduce(differs, axis=1).nonzero()[0]
            first, end = int(rows[0]), int(rows[-1]) + 1
            self.plan.set_states(hosts, step + first, step + end, rest.states[first:end, hosts])
