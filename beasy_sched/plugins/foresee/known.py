"""Everything that is known at a moment of a run, from which futures are drawn: the past, and forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.engine.session import Session
from beasy_sched.forecast.outlook import ForecastSource
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.model.jobs import JobState
from beasy_sched.model.restarts import first_id
from beasy_sched.plugins.foresee.drawn_failures import FailureModel
from beasy_sched.policies.bid_price.estimators import ProductionError
from beasy_sched.protocol.notices import POWER_FIELD
from beasy_sched.simulator import Simulation
from beasy_sched.simulator.simulated_jobs import RUNNING, SUBMITTED
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, TIME_TOLERANCE_S

_COMPLETE = (JobState.FINISHED.value, JobState.FAILED.value, JobState.WALLTIME_REACHED.value)
"""States of jobs that ran as long as they needed, or as they may."""


@dataclass(frozen=True)
class PresentJob:
    """A job that runs or waits."""

    id: str
    user: str
    """User, or workload if the workload does not name users."""
    walltime_s: float
    """Infinite without a walltime."""
    used_s: float
    """Time that it has run, s; below 0 if it waits."""


@dataclass(frozen=True)
class EndedJobs:
    """Jobs that ran as long as they needed, in the order of their ends."""

    users: tuple[str, ...]
    walltime_s: FloatArray
    run_s: FloatArray


@dataclass(frozen=True)
class KnownProduction:
    """Knowledge of the production; powers in W."""

    step_s: float
    first_s: float
    """Start of the next step, from which the production is unknown, s."""
    starts_s: FloatArray
    """Starts of the past steps."""
    past_w: FloatArray
    """Mean power of the past steps."""
    present_w: float
    forecast_w: FloatArray | None
    """Forecast power of each step from the next one on; None without a forecast."""
    uncertainty: FloatArray
    """Uncertainty of a forecast without quantiles, as a share of the power, for each of these steps."""
    quantiles: Quantiles | None
    """Quantiles of these steps; None if the forecast has none."""
    error: ProductionError
    """Errors of the forecast so far, in units of its uncertainty."""
    members_w: FloatArray | None = None
    """Power of each member of an ensemble in these steps, [members, steps]; None without one."""
    issues: PresentIssues | None = None
    """Forecasts issued so far; None if no more are expected."""


@dataclass(frozen=True)
class PresentIssues:
    """Newest forecast at a moment, from which those that will be issued are drawn; times in s."""

    newest: IssuedTable
    """One value of each interval from the present one on, to the end of the last issue to be drawn."""
    uncertainty: FloatArray
    """Uncertainty of a forecast without quantiles, as a share of the power, by interval ahead."""
    last_s: float
    """Time of the newest issue."""
    every_s: float
    """Time from one issue to the next."""
    ahead_s: float
    """Time from an issue to its end."""

    def later_s(self, until_s: float) -> FloatArray:
        """Return the times of later issues up to ``until_s``."""
        return np.arange(self.last_s + self.every_s, until_s, self.every_s)


@dataclass(frozen=True)
class PresentKnowledge:
    """Everything known at a moment."""

    time_s: float
    until_s: float
    """Time up to which futures are drawn, s."""
    present: tuple[PresentJob, ...]
    ended: EndedJobs
    submitted: Sequence[tuple[str, WorkloadJob]]
    """Jobs submitted so far, with their workloads, in the order of time."""
    events: Sequence[ExternalEvent]
    """External events so far that announce power."""
    production: KnownProduction | None
    """Past and forecast production; None without a site."""
    has_own: bool
    """Whether sources of the site file produce, and not only announced ones."""
    in_service: BoolArray
    """Whether each server is in service."""
    failures: FailureModel | None = None
    """Model of the servers' failures; None: they do not fail, and those out of service stay so."""


def known_at(
    time_s: float,
    until_s: float,
    simulation: Simulation,
    session: Session,
    failures: FailureModel | None = None,
) -> PresentKnowledge:
    """Return everything known at ``time_s``, at which the simulation pauses."""
    past = simulation.arrivals.past_jobs()
    users = {job.id: _user(job, name) for name, jobs in past.items() for job in jobs}
    first = first_id if session.lives.is_on else str
    submitted = [(name, job) for name, jobs in past.items() for job in jobs]
    submitted.sort(key=lambda pair: pair[1].subtime)
    present = tuple(
        PresentJob(
            job.request.id,
            users.get(first(job.request.id), job.workload),
            job.walltime if job.walltime >= 0.0 else math.inf,
            time_s - job.start if job.state == RUNNING else -1.0,
        )
        for job in simulation.world.jobs.values()
        if job.state in (SUBMITTED, RUNNING)
    )
    power = session.power
    return PresentKnowledge(
        time_s,
        until_s,
        present,
        _ended(session, users, first),
        submitted,
        [event for event in simulation.arrivals.past_events() if POWER_FIELD in event.data],
        None if power is None else _production(time_s, until_s, power),
        power is not None and power.inputs.has_own,
        session.cluster.in_service,
        failures,
    )


def _user(job: WorkloadJob, workload: str) -> str:
    user = None if job.extras is None else job.extras.get("user")
    return f"{workload}!" if user is None else f"{workload}!{user}"


def _ended(session: Session, users: Mapping[str, str], first: Callable[[str], str]) -> EndedJobs:
    columns = session.outcomes.columns()
    chosen = np.isin(columns["state"], _COMPLETE)
    rows = np.flatnonzero(chosen).tolist()
    ids = session.outcomes.ids
    return EndedJobs(
        tuple(users.get(first(ids[row]), "") for row in rows),
        columns["walltime_s"][chosen],
        (columns["end_s"] - columns["start_s"])[chosen],
    )


def _production(time_s: float, until_s: float, power: PowerSide) -> KnownProduction:
    step_s = power.site.step_s
    first_s = (math.floor((time_s + TIME_TOLERANCE_S) / step_s) + 1) * step_s
    steps = max(math.ceil((until_s - first_s) / step_s), 1)
    rows = power.trace
    error, source = ProductionError(), power.forecast
    forecast_w, quantiles, uncertainty = None, None, np.zeros(steps)
    members_w, issues = None, None
    if source is not None:
        # the first slot is the step under way, of which the production is announced
        ahead = source.quantiles(first_s - step_s, step_s, steps + 1).during(slice(1, None))
        forecast_w = source.renewable_w(first_s - step_s, step_s, steps + 1)[1:]
        quantiles = ahead if source.has_quantiles(time_s) else None
        members_w = source.members_w(first_s - step_s, step_s, steps + 1)
        if (issued := source.issued(time_s)) is not None:
            issues = _issues(time_s, until_s, issued, source)
            repeated = _day_repeated(steps, (_end_s(issued) - first_s) / step_s, SECONDS_PER_DAY / step_s)
            forecast_w = forecast_w[repeated]
            quantiles = None if quantiles is None else _of_steps(quantiles, repeated)
            members_w = None if members_w is None else members_w[:, 1:][:, repeated]
        uncertainty = source.band.over(steps, step_s)
        hour_ahead = float(source.band.over(2, SECONDS_PER_HOUR)[1])
        for row in rows:
            if row.predicted_w is not None:
                error.add(row.record.renew_w, row.predicted_w, hour_ahead)
    return KnownProduction(
        step_s,
        first_s,
        np.array([row.start_s for row in rows]),
        np.array([row.record.renew_w for row in rows]),
        power.inputs.production_w,
        forecast_w,
        uncertainty,
        quantiles,
        error,
        members_w,
        issues,
    )


def _end_s(issued: IssuedTable) -> float:
    return float(issued.valid_s.max()) + issued.interval_s


def _day_repeated(count: int, known: float, per_day: float) -> IntArray:
    """Return the positions of ``count`` values, where those from ``known`` on repeat the day before.

    Less than a day is not repeated.
    """
    places, end, day = np.arange(count), math.floor(known + 1e-6), round(per_day)
    if end < day:
        return places
    return np.where(places < end, places, end - day + (places - end) % day)


def _of_steps(quantiles: Quantiles, places: IntArray) -> Quantiles:
    return Quantiles(quantiles.levels, quantiles.power_w[:, places])


def _issues(
    time_s: float, until_s: float, issued: IssuedTable, source: ForecastSource
) -> PresentIssues | None:
    """Return what is known for later issues; None without two so far, or less than a day ahead."""
    times_s = np.unique(issued.issued_s)
    if len(times_s) < 2:
        return None
    last_s, interval_s = float(times_s[-1]), issued.interval_s
    ahead_s = _end_s(issued) - last_s
    first_s = issued.start_of_interval_s(time_s)
    count = math.ceil((until_s + ahead_s - first_s) / interval_s)
    covered, per_day = (_end_s(issued) - first_s) / interval_s, SECONDS_PER_DAY / interval_s
    if covered < per_day - 1e-6:
        return None
    valid_s: FloatArray = first_s + interval_s * np.arange(count, dtype=np.float64)
    middles_s = valid_s[_day_repeated(count, covered, per_day)] + 0.5 * interval_s
    newest = IssuedTable(
        np.full(count, last_s),
        valid_s,
        np.nan_to_num(issued.latest(time_s, middles_s), nan=0.0),
        interval_s,
        levels=issued.levels,
        by_level=issued.latest_by_level(time_s, middles_s),
    )
    every_s = float(times_s[-1] - times_s[-2])
    uncertainty = source.band.over(count, interval_s)
    return PresentIssues(newest, uncertainty, last_s, every_s, ahead_s)
