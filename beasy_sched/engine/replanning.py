"""Plans that are made during a run: time and content of the requests, and handling of the answers.

The session does not plan. It issues a `PlanRequest` one step before the plan is to take effect; the caller of
the session has it solved (`beasy_sched.planner.process`) and passes the answer before the first message
of the time from which it applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.energy.site import Site
from beasy_sched.engine.agenda import Due
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import Open, PowerSide
from beasy_sched.engine.session_words import PLAN_FAILED, PLAN_LATE, PLAN_MADE, Rule
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import Plan, PlanStore, Rolled
from beasy_sched.planner.requests import (
    GIVEN_BEFORE,
    PLANNED_AHEAD,
    KnownJobs,
    PlanAnswer,
    PlanOutcome,
    PlanRequest,
    ServerStart,
    Span,
    WindowForecast,
    part_of,
)
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.planner.windows import ReplanRule

_RETRY_S: Final = SECONDS_PER_HOUR
"""Time between a planning that failed and the next attempt, s."""


PLAN_RULES: Final[dict[PlanOutcome, Rule]] = {
    "made": PLAN_MADE,
    "failed": PLAN_FAILED,
    "late": PLAN_LATE,
}
"""Rules under which the decision log records the outcomes."""


class Replanning:
    """Requests plans, one step ahead, and puts them into the store of plans that the run follows."""

    def __init__(
        self, rule: ReplanRule, plans: PlanStore, site: Site, platform: Platform, windows: int, due: Due
    ) -> None:
        """Begin with ``plans``, which cover the beginning of a run of ``windows``.

        The next plan is requested when ``due`` is, by a call of `look`.
        """
        self.rule, self.plans = rule, plans
        self.first = (*plans,)
        """The plans that the run began with."""
        self.done: list[PlanAnswer] = []
        """The answers to all requests so far."""
        self.request: PlanRequest | None = None
        """The requested plan that has not been answered."""
        self._site, self._platform, self._windows = site, platform, windows
        self._due_step = rule.every_steps
        """The step for which the next plan is requested."""
        self._due = due
        self._wait()

    def is_due(self, now: float) -> bool:
        """Return whether the requested plan applies from ``now``, so that its answer is needed."""
        return self.request is not None and now >= self.request.start_s - TIME_TOLERANCE_S

    # --- requests -------------------------------------------------------------------------------------

    def look(self, power: PowerSide, view: View, run_share: Callable[[], float | None]) -> None:
        """Request a plan if one is to take effect with the next step.

        ``run_share`` returns the share of their walltimes that jobs have run; None if unknown.
        """
        if self.request is not None or not isinstance(power.phase, Open):
            return
        step = power.phase.budget.step + 1
        if step < self._due_step:
            return
        self._due.move(math.inf)
        if step >= self._site.steps * self._windows:
            return
        self._due_step = (step // self.rule.every_steps + 1) * self.rule.every_steps
        self.request = self._request(step, power, view, run_share() or 1.0)

    def _wait(self) -> None:
        """Wait for the step before the one for which the next plan is requested."""
        self._due.move((self._due_step - 1) * self._site.step_s)

    def _request(self, step: int, power: PowerSide, view: View, share: float) -> PlanRequest:
        site, step_s = self._site, self._site.step_s
        window = step // site.steps
        end_step = min(window + PLANNED_AHEAD, self._windows) * site.steps
        span = Span(view.now, step * step_s, end_step - step, step_s)
        jobs = known_jobs(view, span, share)
        load_w = self.rule.demand.load_w(self._platform, jobs, span)
        quantiles = self.rule.demand.load_quantiles(self._platform, jobs, span)
        renew_w, source, age_s = self._production(power, span)
        rest, site_load = site.steps * (window + 1) - step, None
        edges_s = span.start_s + step_s * np.arange(span.steps + 1, dtype=np.float64)
        if site.has_load_ahead:
            site_load = site.load_ahead(view.now, edges_s)
        charge = GridCharge.ahead(site.grid, site.storage.battery, view.now, edges_s)
        parts = [
            WindowForecast(
                number,
                load_w[rows],
                renew_w[rows],
                quantiles and quantiles.during(rows),
                site_load and site_load.during(rows),
                charge and charge.during(rows),
            )
            for number, rows in ((window, slice(0, rest)), (window + 1, slice(rest, None)))
            if len(load_w[rows])
        ]
        rolled = Rolled(
            number=len(self.done) + 1,
            asked_s=view.now,
            battery_j=power.storage.battery_j,
            hydrogen_kg=power.storage.hydrogen_kg,
            jobs_running=len(view.running),
            jobs_waiting=len(view.queue),
            production=source,
            others_levels=power.storage.others or UNSET,
            forecast_age_s=UNSET if age_s is None else age_s,
        )
        level = power.expected_level(view.now)
        return PlanRequest(span.start_s, level, self._servers(view, step), tuple(parts), rolled)

    def _production(self, power: PowerSide, span: Span) -> tuple[FloatArray, str, float | None]:
        """The expected production, W for each step, its source, and its age if it is renewed, s."""
        if self.rule.renew_w is not None:
            return part_of(self.rule.renew_w, span), GIVEN_BEFORE, None
        forecast = self.rule.production or power.forecast
        if forecast is None:
            raise ConfigError("plans cannot be made: the run has no forecast of the production")
        present_s = span.start_s - span.step_s
        renew_w = forecast.renewable_w(present_s, span.step_s, span.steps + 1)[1:]
        age_s = forecast.age_s(span.asked_s)
        is_static = self.rule.production is not None and age_s is None
        return renew_w, GIVEN_BEFORE if is_static else forecast.name, age_s

    def _servers(self, view: View, step: int) -> ServerStart:
        """The present states of servers, with the minimum on-times that the plan in effect leaves to them."""
        platform, least_s, step_s = self._platform, self.rule.options.rules.minimum_on_s, self._site.step_s
        states = view.pstate.astype(np.int8)
        for number, kind in enumerate(platform.kinds):
            unplannable = (platform.kind_of == number) & ~np.isin(states, kind.plannable)
            states[unplannable] = kind.fastest
        rows = self._planned_states(step, math.ceil(least_s / step_s) + 1)
        if rows is None:
            return ServerStart(states, np.zeros(platform.size))
        before = ServerStart(rows[0], np.zeros(platform.size))
        obliged_s = (
            ServerStart.after(platform, rows[1:], step_s, least_s, before).obliged_s if len(rows) > 1 else 0.0
        )
        on = states != platform.sleep_pstate
        return ServerStart(states, np.where(on, obliged_s, 0.0))

    def _planned_states(self, step: int, count: int) -> StateArray | None:
        """States planned for up to ``count`` steps before ``step``; None where there are none."""
        rows = []
        for before in range(max(step - count, 0), step):
            place = self.plans.place(before * self._site.step_s)
            servers = None if place is None else self.plans[place.window].servers
            if place is not None and servers is not None:
                rows.append(servers.states[place.step])
        return np.stack(rows) if rows else None

    # --- answers ----------------------------------------------------------------------------------------

    def take(self, answer: PlanAnswer) -> PlanAnswer:
        """Put the requested plans into effect, or note why there are none; return the answer as used."""
        request, self.request = self.request, None
        if request is None:
            raise RuntimeError("a plan was given that was not requested")
        answer = replace(answer, request=request)
        if answer.plans:
            try:
                self.plans.renew(self._checked(answer.plans, request))
            except ConfigError as error:
                answer = replace(answer, plans=(), problem=f"it cannot be used: {error}")
        if not answer.plans:
            retry = round(request.start_s / self._site.step_s) + max(round(_RETRY_S / self._site.step_s), 1)
            self._due_step = min(self._due_step, retry)
        self._wait()
        self.done.append(answer)
        return answer

    def _checked(self, plans: tuple[Plan, ...], request: PlanRequest) -> list[Plan]:
        """The plans, with the servers as the run's first plan describes them.

        Those that a simulator sends may differ from a file's by rounding. Raises ConfigError unless the plans
        are the requested ones.
        """
        if abs(plans[0].start_s - request.start_s) > TIME_TOLERANCE_S:
            raise ConfigError(f"it does not begin at {request.start_s:g} s")
        for plan in plans:
            plan.check_platform(self._platform)
            plan.check_site(self._site)
        servers = self.plans[0].servers
        return [
            plan
            if servers is None or plan.servers is None
            else replace(plan, servers=replace(plan.servers, kinds=servers.kinds, kind_of=servers.kind_of))
            for plan in plans
        ]

    def count(self, outcome: PlanOutcome) -> int:
        """Return the number of plans with this outcome."""
        return sum(answer.outcome == outcome for answer in self.done)


def known_jobs(view: View, span: Span, share: float) -> KnownJobs:
    """The running and waiting jobs, which are expected to run for ``share`` of their walltimes.

    A running job is expected to run for this share of the rest of its walltime; a job without a walltime, to
    the end of the planned time.
    """
    longest_s = span.steps * span.step_s
    running = [*view.running.values()]
    start_s = np.array([job.start_s for job in running])
    left_s = np.array([job.expected_end_s for job in running]) - span.start_s
    lag_s = start_s - np.array([job.subtime_s for job in running])
    queue, places = view.queue, view.queue.places()
    walltime_s, waited_s = queue.walltime_s[places], span.start_s - queue.subtime_s[places]
    left_s = np.concatenate((np.maximum(left_s, 0.0), walltime_s))
    late_s = np.concatenate((lag_s, waited_s))
    full_s = np.concatenate(([job.walltime_s for job in running], walltime_s))
    hosts = np.concatenate((np.array([job.res for job in running], dtype=np.int64), queue.res[places]))
    left_s = np.minimum(np.where(np.isfinite(left_s), left_s * share, longest_s), longest_s)
    late_s = np.minimum(np.maximum(late_s, 0.0), np.where(np.isfinite(full_s), full_s * share, longest_s))
    return KnownJobs(hosts.astype(np.int64), left_s, np.minimum(late_s, left_s))
