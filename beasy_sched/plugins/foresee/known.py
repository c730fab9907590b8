"""Everything that is known at a moment of a run, from which futures are drawn: the past, and forecasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.power_side import PowerSide
from beasy_sched.engine.session import Session
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.model.jobs import JobState
from beasy_sched.model.restarts import first_id
from beasy_sched.policies.bid_price.estimators import ProductionError
from beasy_sched.protocol.notices import POWER_FIELD
from beasy_sched.simulator import Simulation
from beasy_sched.simulator.simulated_jobs import RUNNING, SUBMITTED
from beasy_sched.units import SECONDS_PER_HOUR, TIME_TOLERANCE_S

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


def known_at(time_s: float, until_s: float, simulation: Simulation, session: Session) -> PresentKnowledge:
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
    if source is not None:
        # the first slot is the step under way, of which the production is announced
        ahead = source.quantiles(first_s - step_s, step_s, steps + 1).during(slice(1, None))
        forecast_w = source.renewable_w(first_s - step_s, step_s, steps + 1)[1:]
        quantiles = ahead if source.has_quantiles(time_s) else None
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
    )
