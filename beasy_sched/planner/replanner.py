"""Plans made during a run: settings, initial plans, and calls of the planner.

`replanned` prepares a run: the rule and first plans for the session's options, and the `Replanner`, an
observer that exchanges requests and answers between session and planner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from beasy_sched.engine import Session
from beasy_sched.engine.observed import Observer
from beasy_sched.errors import BeasyError, ConfigError, PathLike
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import PlanStore
from beasy_sched.run.settings import RunSettings

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.forecast.outlook import ForecastSource
    from beasy_sched.planner.process import PlannerInPlace, PlannerProcess
    from beasy_sched.planner.requests import PlanAnswer, PlanRequest
    from beasy_sched.planner.windows import ReplanRule

LIMIT_IN_PROCESS_S: Final = 600.0
"""Time that a simulation waits for a plan by default, s: long enough that ordinary plans are never late,
which would make its results depend on the machine."""
LIMIT_SERVING_S: Final = 60.0
"""Time that the daemon waits for a plan by default, s."""


class Replanner(Observer):
    """Exchanges requests and answers between session and planner."""

    def __init__(
        self,
        rule: ReplanRule | None,
        plans: PlanStore | None,
        planner: Callable[[Platform], PlannerProcess],
        limit_s: float,
        stopped: Callable[[], bool] | None = None,
    ) -> None:
        """``planner`` creates the planner for a platform; plans that take over ``limit_s`` are late."""
        self.rule = rule
        """Rule for the session's options; None if no plans are made during the run."""
        self.plans = plans
        """Initial plans of the run; None if the settings name them."""
        self._start_planner = planner
        self._process: PlannerProcess | PlannerInPlace | None = None
        self._limit_s, self._stopped = limit_s, stopped
        self._asked: PlanRequest | None = None
        self._problem = ""

    continues = True

    def detach(self, session: Session) -> None:
        """Leave the planner process to the process that this one was copied from, and plan in this one."""
        from beasy_sched.planner.process import PlannerInPlace

        platform = session.cluster.platform
        planner = self._start_planner(platform) if self._process is None else self._process
        self._process = PlannerInPlace(planner.setup)
        if self._asked is not None:
            self._ask(self._asked, platform)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Observers that the run needs; none if no plans are made during it."""
        return () if self.rule is None else (self,)

    def before(self, session: Session, message: Message) -> None:
        """Pass the plan that takes effect with this message to the session."""
        replanning = session.replanning
        if replanning is not None and replanning.request is not None and replanning.is_due(message.now):
            session.take_plan(self._answer(replanning.request))

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Request the plan that the session has asked for."""
        replanning = session.replanning
        if replanning is not None and replanning.request is not self._asked:
            self._asked = replanning.request
            if self._asked is not None:
                self._ask(self._asked, session.cluster.platform)

    def _ask(self, request: PlanRequest, platform: Platform) -> None:
        if self._process is None:
            self._process = self._start_planner(platform)
        try:
            self._problem = ""
            self._process.ask(request)
        except BeasyError as error:
            self._problem = str(error)

    def _answer(self, request: PlanRequest) -> PlanAnswer:
        if self._process is None or self._problem:
            from beasy_sched.planner.requests import PlanAnswer

            return PlanAnswer(request, problem=self._problem or "no plan was requested")
        return self._process.answer(self._limit_s, self._stopped)

    def first(self, request: PlanRequest, platform: Platform) -> PlanStore:
        """Make the initial plans of the run. Raises NoPlan if there are none."""
        self._ask(request, platform)
        answer = self._answer(request)
        if not answer.plans:
            from beasy_sched.planner.replan_sources import no_first_plan

            raise no_first_plan(answer.problem)
        self.plans = PlanStore(answer.plans)
        return self.plans

    def close(self) -> None:
        """End the planner's process."""
        if self._process is not None:
            self._process.close()


def with_own_inputs(
    settings: RunSettings, workloads: Sequence[PathLike], events: Sequence[PathLike]
) -> RunSettings:
    """Use a simulation's own files as forecasts if the settings do not name others.

    Raises ConfigError unless there is one events file then.
    """
    replan = settings.replan
    if replan is None or settings.plan is not None:
        return settings
    if not replan.workloads and replan.demand is None:
        replan = msgspec.structs.replace(replan, workloads=tuple(os.fspath(path) for path in workloads))
    if replan.production is None and settings.forecast is None:
        if len(events) != 1:
            found = f"the run has {len(events)} files of --events" if events else "the run has no --events"
            raise ConfigError(
                f"--replan requires the expected production, but {found}: use --replan-production,"
                " --forecast or --plan"
            )
        replan = msgspec.structs.replace(replan, production=os.fspath(events[0]))
    return msgspec.structs.replace(settings, replan=replan)


@contextmanager
def replanned(
    settings: RunSettings,
    platform: Callable[[], Platform | None],
    *,
    first: PlanStore | None = None,
    limit_s: float = LIMIT_SERVING_S,
    stopped: Callable[[], bool] | None = None,
    site_now: Callable[[Site], Site] | None = None,
    forecast: ForecastSource | None = None,
    production: ForecastSource | None = None,
    hashes: Mapping[str, str] | None = None,
) -> Iterator[Replanner]:
    """Prepare a run that may make plans, and end the planner afterwards.

    ``platform`` reads the platform, if it is known before the run; ``first`` has the initial plans, if they
    have been made. ``limit_s`` is used if the settings have no limit; ``stopped`` is polled to stop early.
    ``site_now`` changes the site of the settings to its state now. ``forecast`` and ``production`` replace
    the run's forecast and the expected production of the settings; ``hashes`` has the SHA-256 of the latter.
    Raises ConfigError, InputError and NoPlan.
    """
    replan = settings.replan
    if replan is None:
        yield Replanner(None, None, _no_planner, limit_s)
        return
    from beasy_sched.planner.process import PlannerProcess, PlannerSetup
    from beasy_sched.planner.replan_sources import first_request, replan_rule, site_of, source_hashes

    rule = replan_rule(settings, replan, platform, production)
    known, site = platform(), site_of(settings)
    if site_now is not None:
        site = site_now(site)

    def start(found: Platform) -> PlannerProcess:
        inputs = source_hashes(settings, replan, hashes or {})
        return PlannerProcess(PlannerSetup.of(site, known or found, rule.options, inputs))

    limit_s = limit_s if replan.limit_s is None else replan.limit_s
    begin = first if rule.plans is None else rule.plans
    replanner = Replanner(rule, None if begin is None else PlanStore([*begin]), start, limit_s, stopped)
    try:
        if begin is None:
            if known is None:
                raise ConfigError(
                    "--replan requires an initial plan (--plan), or the platform to make one (-p)"
                )
            replanner.first(first_request(rule, site, known, settings, forecast), known)
        yield replanner
    finally:
        replanner.close()


def _no_planner(_: Platform) -> PlannerProcess:
    raise RuntimeError("this run does not make plans")
