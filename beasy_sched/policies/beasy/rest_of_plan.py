"""The rest of BEASY's plan, as compensation needs it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from beasy_sched.arrays import all_of
from beasy_sched.energy.devices.battery import LevelProjection
from beasy_sched.engine.policy import View
from beasy_sched.last_value_cache import LastValueCache
from beasy_sched.policies.beasy.held_servers import HeldServers, RunningJobs
from beasy_sched.policies.beasy.speed_prices import ROUNDING_J, SpeedPrices
from beasy_sched.policies.planned.follower import battery_j
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow


class _Unchanged(NamedTuple):
    """Counters and the window's end: while they are the same, results for the window stay valid."""

    plan_changes: int
    job_changes: int
    window_end: int


class _PricesFrom(NamedTuple):
    """Prices of speed in rows of the plan, the first of which is ``step``."""

    step: int
    prices: SpeedPrices


class RestOfPlan:
    """The rest of the plan's current window, for compensation.

    What is found in one step is kept for later ones, as long as neither plan nor jobs change.
    """

    def __init__(self, held: HeldServers, pstates: PStateTable) -> None:
        """Look at the plan of ``held``."""
        self.plan, self.cells = held.plan, held.cells
        self._held, self._pstates = held, pstates
        self._projection = LevelProjection(self.plan.battery, self.plan.step_s)
        """Projection of levels for compensation, without the energy drawn beyond the plan."""
        self._all: LastValueCache[int, RunningJobs] = LastValueCache()
        """All running jobs, by the counter of changes of jobs."""
        self._faster: LastValueCache[_Unchanged, RunningJobs] = LastValueCache()
        """Running jobs with a server that could run faster."""
        self._prices: LastValueCache[_Unchanged, _PricesFrom] = LastValueCache()
        """Cost of more speed for these jobs."""
        self._lowest: LastValueCache[_Unchanged, bool] = LastValueCache()
        """Whether no server could draw less."""

    def _unchanged(self, end: int) -> _Unchanged:
        return _Unchanged(self.plan.changes, self._held.changes, end)

    def running_jobs(self, view: View) -> JobTable | None:
        """Return the running jobs with their estimated remaining work (Eq. 3.28, 3.29), if there are any."""
        return self._all.get(self._held.changes, self._held_jobs).table(view) if len(self._held) else None

    def faster_jobs(self, view: View, step: int, end: int, energy_j: float) -> JobTable | None:
        """Return running jobs if ``energy_j`` may suffice for one of them to run faster before step ``end``.

        These have a server that could run faster. They may include jobs for which this was only true earlier;
        while neither plan nor jobs change, they are not examined again, and the prices are known.
        """
        if not len(self._held):
            return None
        unchanged = self._unchanged(end)
        jobs = self._faster.get(unchanged, lambda: self._held_jobs(self._can_rise(step, end)))
        if not jobs.held:
            return None
        table = jobs.table(view)
        priced = self._prices.get(unchanged, lambda: _PricesFrom(step, self._speed_prices(table, step, end)))
        row = step - priced.step
        ends = priced.prices.ends(table, row, self.plan.steps_s[: end - step].cumsum())
        prices_j = priced.prices.prices_j(row, ends, self.plan.step_s)
        weights = self.plan.weights(slice(step, end))
        least_weight = 1.0 if weights is None else float(weights.min())
        return table if np.minimum.reduce(prices_j) * least_weight <= energy_j + ROUNDING_J else None

    def _speed_prices(self, jobs: JobTable, step: int, end: int) -> SpeedPrices:
        """Return the cost of more speed for ``jobs`` in steps from ``step`` on, before ``end``."""
        states = self.plan.states[step : min(end, int(self._held.until[jobs.hosts].max()) + 1), jobs.hosts]
        return SpeedPrices(jobs, self._pstates, states, self.cells.asleep(states, jobs.hosts))

    def _held_jobs(self, some: Sequence[bool] | None = None) -> RunningJobs:
        """Return the running jobs, or ``some`` of them."""
        held = self._held.reservations
        return RunningJobs(held if some is None else [*compress(held, some)], self._pstates)

    def _can_rise(self, step: int, end: int) -> list[bool]:
        """Whether each running job has a server that could run faster in one of its steps before ``end``."""
        layout = self._all.get(self._held.changes, self._held_jobs).layout
        hosts = layout.ids
        ends = self._held.until[hosts] + 1  # a job that ends with a step may reach into the next by rounding
        steps = np.arange(step, min(end, int(np.maximum.reduce(ends))))
        rises = self._pstates.can_rise(hosts, self.plan.states[step : step + len(steps), hosts])
        rises &= steps[:, None] < ends
        by_host = np.logical_or.reduce(rises, axis=0)
        some: list[bool] = np.logical_or.reduceat(by_host, layout.first).tolist()
        return some

    def is_lowest(self, step: int, end: int) -> bool:
        """Whether no server can draw less before ``end``: each sleeps, or has a job and is at its minimum.

        A true result is kept for later steps while neither plan nor jobs change.
        """
        return self._lowest.get(self._unchanged(end), lambda: self._find_lowest(step, end))

    def _find_lowest(self, step: int, end: int) -> bool:
        states, hosts = self.plan.states[step:end], np.arange(len(self._held.until))
        held = np.arange(step, end)[:, None] < self._held.until
        lowest = held & (self._pstates.thriftier(hosts, states) == states)
        return all_of(lowest | ~self.plan.on[step:end])

    def of_window(self, view: View, step: int, end: int) -> RestOfWindow:
        """Return the rest of a window, from ``step`` up to ``end`` (exclusive)."""
        plan, rows = self.plan, slice(step, end)
        return RestOfWindow(
            states=plan.states[rows],
            now_asleep=np.asarray(view.pstate == plan.sleep),
            reserved_until=np.maximum(self._held.until - step, 0),
            dt_s=plan.steps_s[rows],
            supply_j=(plan.renew_w[rows] + plan.given_w[rows]) * plan.step_s,
            demand_j=plan.site_j(rows),
            battery=plan.battery,
            start_j=battery_j(view),
            first_step=step,
            projection=self._projection,
            weights=plan.weights(rows),
        )

    def adopt(self, step: int, rest: RestOfWindow) -> None:
        """Copy the states of ``rest`` to the plan."""
        differs = rest.states != self.plan.states[step : step + len(rest.states)]
        hosts = np.logical_or.reduce(differs, axis=0).nonzero()[0]
        if len(hosts):
            rows = np.logical_or.reduce(differs, axis=1).nonzero()[0]
            first, end = int(rows[0]), int(rows[-1]) + 1
            self.plan.set_states(hosts, step + first, step + end, rest.states[first:end, hosts])
