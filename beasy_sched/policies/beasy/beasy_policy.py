"""BEASY (Section IV of the paper): energy tests before starts, and compensation at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.actions import Action, Compensate, FactDict
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.engine.power_actions import sleep
from beasy_sched.engine.run_findings import KnownInputs
from beasy_sched.findings import Finding
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import IDLE
from beasy_sched.planner.plan import BOUNDS_LEVEL
from beasy_sched.policies.beasy.beasy_pass import BeasyPass, ServerSearch
from beasy_sched.policies.beasy.beasy_words import BEASY_WORDS
from beasy_sched.policies.beasy.cover_shortage import CoverShortage, Shortage
from beasy_sched.policies.beasy.job_lengths import LongJobsRule, WindowEnd
from beasy_sched.policies.beasy.live_plan import LivePlan
from beasy_sched.policies.beasy.spend_surplus import AskedServers, SpendSurplus
from beasy_sched.policies.easy import (
    largest_slowdown,
    one_by_one,
    smallest_size,
)
from beasy_sched.policies.envelope import PLANNED_ASLEEP, SHORTAGE, SURPLUS
from beasy_sched.policies.long_jobs import never_started
from beasy_sched.policies.planned.follower import CurrentWindow, PlanFollower, enter_window, know_step
from beasy_sched.policies.planned.offered_plan import follow_speeds, offer_plan
from beasy_sched.policies.planned.rest_of_window import RestOfWindow, compensation_j
from beasy_sched.policies.risk import CalibratedRisk


class BeasyOptions(Options, frozen=True):
    """Options of `beasy`, for ablation studies."""

    idle_power: bool = False
    """Whether the energy test counts idle servers at idle power instead of the plan's worst case."""
    release: Literal["offer", "at-once"] = "offer"
    """Whether servers of a job that ends early are offered to the queue first, or return to their planned
    states immediately."""
    compensate: bool = True
    """Whether to compensate at every step."""
    user_error: float = 1.0
    """Share of its walltime that a job is assumed to need at the reference speed (epsilon_u, Eq. 3.29)."""
    spend: Literal["bounded", "all"] = "bounded"
    """Limit of the surplus that compensation may spend: E_comp, but not more than the battery can lose before
    the window's end without falling below SoC_min; or all of E_comp, as printed."""
    shortage: Shortage = "speed-first"
    """First action of compensation in a shortage: give all servers slower P-states, idle ones and then those
    of running jobs, before any falls asleep; or put idle servers to sleep."""
    risk: str | float | None = None
    """Limit on the share of windows (``"5%"``) in which a job is killed for lack of energy, or the battery
    falls below SoC_min. A job starts only if the battery stays above SoC_min up to its walltime with the
    production of a quantile of the forecast; the nine curves use the quantiles of the forecast, and of the
    demand if the plan has any. None: no limit."""
    window_end: WindowEnd = "walltime"
    """Whether a job must be able to end within the known windows by its walltime, or by its work: the work
    that fits into its walltime at the reference speed (Eq. 3.29), done at full speed (Eq. 3.28)."""
    long_jobs: LongJobsRule = "plan"
    """Handling of a job without a walltime, or with one longer than the planned horizon: ``plan`` it up to
    the end of the window and, after 20 such jobs have ended, for their longest run; or ``set-aside``, so that
    it never starts."""


class Beasy(Policy):
    """BEASY (Section IV of the paper)."""

    name = "beasy"
    summary = "EASY that starts only jobs for which the plan has energy; compensates at every step"
    words = BEASY_WORDS
    needs_power = True
    needs_plan = True
    needs_speeds = True
    can_offer = True
    options_type = BeasyOptions
    options: BeasyOptions

    def check_inputs(self, inputs: KnownInputs) -> Sequence[Finding]:
        """Report jobs that cannot start."""
        return [*never_started(inputs, self.name, self.options.long_jobs == "plan")]

    def begin(self, view: View) -> None:
        """Copy the plan."""
        options = self.options
        self.live = LivePlan(
            view,
            idle_power=options.idle_power,
            user_error=options.user_error,
            window_end=options.window_end,
            long_jobs=options.long_jobs,
        )
        self._follower = PlanFollower(view, self.live.plan)
        self._window: CurrentWindow | None = None
        self._seen: tuple[int, int] = (-1, -1)
        self._settled: tuple[int, int, int, int] | None = None
        """Result of `_situation` at the last message without changes."""
        self._search = ServerSearch()
        self._last_pass_s = 0.0
        self._risk = None if options.risk is None else CalibratedRisk(options.risk, view)

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results of the risk limit, if there is one."""
        return {} if self._risk is None else {"risk": self._risk.results()}

    # --- every step ---------------------------------------------------------------------------------------

    def power_actions(self, view: View) -> Sequence[Action]:
        """Compensate, then bring the servers to their states in the changed plan."""
        if view.budget is not None and self.live.renew(view.budget.start_s):
            self._window = None
        step = None if view.budget is None else self.live.plan.step_at(view.budget.start_s)
        if view.budget is None or step is None:
            return ()
        expected, level = None, BOUNDS_LEVEL
        if (risk := self._risk) is not None:
            risk.open_step(view.budget, self.live.plan.horizon(step) - step)
            expected, level = risk.quantiles.bounds(risk.level), risk.level
        window = self._window = enter_window(view, self.live.plan, step, self._window, expected, level)
        know_step(view, self.live.plan, step)
        self.live.held.settle_ends(view, step)
        self.live.held.keep_long_jobs(step)
        self._seen = (-1, -1)
        is_external = view.placement is Placement.EXTERNAL
        if is_external:
            self.live.held.take_all(view, step)
        elif not view.power_actions_allowed:
            return ()
        notes: list[Action] = []
        if self.options.compensate and window is not None:
            notes.append(self._compensate(view, step, window))
        if is_external:
            notes += follow_speeds(view, self._follower, step)
            return [*notes, *offer_plan(view, self.live.plan, step)]
        may_change = np.logical_and(view.available, self.live.plan.on[step] | (self.live.held.until <= step))
        return [*notes, *self._follower.follow(view, step, may_change)]  # busy servers never sleep

    def _compensate(self, view: View, step: int, window: CurrentWindow) -> Compensate:
        """Spend a surplus or save for a shortage, and report it."""
        live = self.live
        window_end = window.start_step + len(window.predictions.below)
        rest = live.rest.of_window(view, step, window_end)
        levels_j = rest.levels_j()
        diff_j = levels_j.item(-1) - rest.battery.least_end_j
        why: FactDict = {
            "diff_j": diff_j,
            "comp_j": compensation_j(rest.battery, diff_j),
            "window_end_s": live.plan.start_of(window_end),
            "dangerous": int(window.dangerous(step)),
            **rest.battery.band_facts(),
        }
        if diff_j > 0.0:
            why |= self._spend(view, step, window, rest, levels_j)
        else:
            why |= self._save(view, step, window, rest, diff_j)
        if rest.changed:
            live.rest.adopt(step, rest)
        return Compensate(SURPLUS if diff_j > 0.0 else SHORTAGE, why)

    def _spend(
        self, view: View, step: int, window: CurrentWindow, rest: RestOfWindow, levels_j: FloatArray
    ) -> FactDict:
        """Spend a surplus in ``rest``, whose levels are known; return the energies for the log."""
        live, rows = self.live, len(rest.states)
        spending = SpendSurplus(
            rest, live.savings, live.pstates, levels_j, bounded=self.options.spend == "bounded"
        )
        spendable_j = spending.left_j
        if spending.has_left():
            spending.speed_up(live.rest.faster_jobs(view, step, step + rows, spending.left_j))
        spent_on_jobs_j = spendable_j - spending.left_j
        free = np.logical_and(live.held.until <= step, view.available)
        idle = int(np.count_nonzero(free & live.plan.on[step]))
        asleep = (free & ~live.plan.on[step]).nonzero()[0]
        if spending.may_wake(asleep):
            asked = self._asked_for(view, window.dangerous(step), step, rows, idle + len(asleep))
            spending.wake(asked, idle, asleep)
        return {
            "spendable_j": spendable_j,
            "spent_on_jobs_j": spent_on_jobs_j,
            "spent_on_wakes_j": spendable_j - spent_on_jobs_j - spending.left_j,
        }

    def _save(
        self, view: View, step: int, window: CurrentWindow, rest: RestOfWindow, diff_j: float
    ) -> FactDict:
        """Save for a shortage in ``rest``; return the energy and the violation step for the log."""
        live, predictions = self.live, window.predictions
        planned_j = float(np.add.reduce(rest.demand_j))
        present = step - window.start_step
        violation = predictions.violation_step(present)
        if not live.rest.is_lowest(step, step + len(rest.states)):
            shortage = self.options.shortage
            covering = CoverShortage(rest, live.cells, live.pstates, violation - present, shortage=shortage)
            covering.lower(live.rest.running_jobs(view), diff_j)
        return {
            "saved_j": planned_j - float(rest.demand_j.sum()),
            "violation_at_s": live.plan.start_of(window.start_step + violation),
            "curves_below": int(predictions.below[violation]),
        }

    def _asked_for(
        self, view: View, dangerous: bool, step: int, steps_left: int, most_hosts: int
    ) -> Iterator[AskedServers]:
        """Yield what the waiting jobs ask for, in order P_R, with the number of steps that they need.

        A job that can end in the ``steps_left`` of the window needs at most these; jobs that cannot, or that
        need more than ``most_hosts`` hosts, are excluded.
        """
        queue, live, step_s = view.queue, self.live, self.live.plan.step_s
        places = (queue.res <= most_hosts).nonzero()[0]
        own_s = queue.walltime_s[places]
        walltime_s = live.lengths.counted_s(view, step, own_s)
        most_s = live.lengths.most_s(view, step, walltime_s)
        in_time = np.ceil((live.longest_wake_s + most_s) / step_s) <= steps_left
        in_time &= walltime_s < np.inf
        in_time |= live.lengths.long_jobs.among(own_s)
        places, walltime_s = places[in_time], walltime_s[in_time]
        if not len(places):
            return
        rows = np.minimum(np.ceil((live.longest_wake_s + walltime_s) / step_s), steps_left)
        rows_of = dict(zip(places.tolist(), rows.tolist(), strict=True))
        order = smallest_size if dangerous else largest_slowdown
        for place in one_by_one(order, queue, places, view.now):
            yield AskedServers(queue.at(place).res, int(rows_of[place]))

    # --- every event --------------------------------------------------------------------------------------

    def schedule(self, view: View) -> Sequence[Action]:
        """Run Algorithm 1 if something has changed, and put idle servers to sleep for starts."""
        if self._risk is not None:
            self._risk.look()
        self.live.lengths.long_jobs.learn(view.ended)
        step = self.live.plan.step_at(view.now)
        if step is None or self._window is None or view.placement is Placement.EXTERNAL:
            return ()
        self.live.held.settle_ends(view, step)
        has_news = len(view.queue) and (view.arrived or self._seen != (step, view.availability_version))
        if not has_news and self._settled == self._situation(view, step):
            return ()
        if self.options.release == "at-once":
            self.live.held.give_back(view, step)
        actions: list[Action] = []
        if has_news:
            dangerous = self._window.dangerous(step)
            actions = BeasyPass(
                view, self.live, self._search, step, dangerous, self._last_pass_s, self._risk
            ).run()
            self._last_pass_s = view.now
        self._seen = (step, view.availability_version)
        self.live.held.give_back(view, step)
        actions += self._let_sleep(view, step)
        self._settled = None if actions else self._situation(view, step)
        return actions

    def _situation(self, view: View, step: int) -> tuple[int, int, int, int]:
        """Return a key that changes with the step, the free servers, the plan, and the jobs in it."""
        return step, view.availability_version, self.live.plan.changes, self.live.held.changes

    def _let_sleep(self, view: View, step: int) -> list[Action]:
        """Put idle servers to sleep that are asleep in the changed plan in the current step."""
        if not view.power_actions_allowed:
            return []
        if not view.free_count:
            return []
        plan = self.live.plan
        done = view.free_mask() > plan.on[step]
        done &= self.live.held.until <= step
        done &= view.host_state == IDLE
        hosts = done.nonzero()[0]
        if not len(hosts):
            return []
        self._follower.asked[hosts] = plan.sleep[hosts]
        return sleep(view, hosts, PLANNED_ASLEEP)
