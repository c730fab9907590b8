"""A run continued from a moment in a copy of its process, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from beasy_sched.engine.lives import DrawnWork
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.engine.session import Session
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.plugins.foresee.drawing import DrawnFuture
from beasy_sched.simulator import Simulation
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S, j_to_kwh

_DONE = (JobState.FINISHED, JobState.FAILED)
_LONGEST_S = 7 * SECONDS_PER_DAY
"""Time ahead without a site, which limits the run, s."""


class Totals(msgspec.Struct, array_like=True):
    """Figures of a run from a moment on, up to the horizon."""

    finished: int = 0
    killed: int = 0
    waited_s: float = 0.0
    """Sum of the waits of the jobs that started."""
    started: int = 0
    wasted_kwh: float = 0.0
    curtailed_kwh: float = 0.0
    unserved_kwh: float = 0.0
    import_kwh: float = 0.0
    cost: float = 0.0
    """Import, with the cost of higher peaks, minus export, in the site's currency."""
    soc_pct: float = 0.0
    """State of charge at the end."""
    hydrogen_kg: float = 0.0
    is_short: bool = False
    """Whether a job was killed, or the battery fell below SoC_min."""
    misses_target: bool = False


class ContinuedRun(msgspec.Struct, array_like=True):
    """Outcome of a continuation: of each job present at the moment, and of each step."""

    starts_s: list[float | None]
    """Start of each job; None if it did not start by the horizon."""
    ends_s: list[float | None]
    killed: list[bool]
    times_s: list[float]
    """Ends of the steps."""
    soc_pct: list[float]
    hydrogen_kg: list[float]
    totals: Totals


ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(ContinuedRun)


@dataclass(frozen=True)
class ForkedMoment:
    """A moment of a run, from which it is continued."""

    time_s: float
    until_s: float
    """Horizon, s."""
    jobs: tuple[Job, ...]
    """Jobs that wait, then those that run."""
    waiting: int
    """Number of jobs that wait."""
    first_row: int
    """Number of steps settled before."""
    used_j: float
    done_j: float
    counts: tuple[int, int, int]
    """Numbers of jobs that had finished, were killed, and had left altogether."""
    peak_cost: float
    """Cost of the peaks so far."""


def horizon_s(session: Session, time_s: float) -> float:
    """Return the time up to which a run is foreseen at ``time_s``: one window, or to the run's end, s."""
    power = session.power
    return time_s + _LONGEST_S if power is None else min(power.end_s, time_s + power.site.window_s)


def moment_of(session: Session, time_s: float, until_s: float) -> ForkedMoment:
    """Describe the present moment of a session."""
    waiting, running = session.waiting_jobs(), [*session.cluster.running.values()]
    power, counts = session.power, session.outcomes.counts()
    finished = counts[JobState.FINISHED.value] + counts[JobState.FAILED.value]
    return ForkedMoment(
        time_s,
        until_s,
        (*waiting, *running),
        len(waiting),
        0 if power is None else len(power.trace),
        0.0 if power is None else power.settled.used_j,
        0.0 if power is None else session.outcomes.energy_j(*_DONE),
        (finished, counts[JobState.KILLED.value], len(session.outcomes)),
        0.0 if power is None or power.peak is None else power.peak.cost,
    )


def continued(
    simulation: Simulation, running: ObservedSession, moment: ForkedMoment, drawn: DrawnFuture | None
) -> bytes:
    """Continue a paused run to the horizon, in a drawn future or (None) its own; return the outcome.

    Call it in a copy of the run's process.
    """
    session, world = running.session, simulation.world
    copy = running.detached()
    world.stop_tracing()
    if drawn is not None:
        replace_future(simulation, session, moment, drawn)
    goes_on = _UpToHorizon(simulation, session, moment)
    simulation.resume(copy.step, goes_on, lambda: session.over)
    return ENCODER.encode(outcome(session, moment))


def replace_future(
    simulation: Simulation, session: Session, moment: ForkedMoment, drawn: DrawnFuture
) -> None:
    """Replace everything that is unknown at the moment, in the simulation and in the session."""
    future = drawn.future
    if session.lives.is_open:  # what a kill leaves must not be that of the actual work
        future = replace(future, own_profiles=True)
        simulation.replace_future(future)
        runs_s = {**future.runs_s, **{each.job.id: each.run_s for each in future.arrivals}}
        session.replace_work(
            {job_id: DrawnWork(*simulation.own_profile(job_id), run_s) for job_id, run_s in runs_s.items()}
        )
    else:
        simulation.replace_future(future)
    power = session.power
    if power is None:
        return
    if drawn.own_w is not None:
        power.inputs.replace_own(drawn)
    if power.forecast is not None:
        power.forecast.forget_later(moment.time_s)
        if drawn.issues is not None:
            power.forecast.issue(drawn.issues)
    site, last_s = power.site, moment.until_s + SECONDS_PER_DAY
    grid, cooling = site.grid, site.cooling
    rates = () if grid is None else (grid.price, grid.carbon)
    loads = (site.services, None if cooling is None else cooling.temperature)
    for limited in (*rates, *loads):
        if limited is not None:
            limited.limit_to(moment.time_s, last_s, site.step_s)


class _UpToHorizon:
    """Condition to continue: up to the horizon, without a site until the present jobs have ended."""

    def __init__(self, simulation: Simulation, session: Session, moment: ForkedMoment) -> None:
        self._world, self._moment = simulation.world, moment
        self._jobs = moment.jobs if session.power is None else ()
        self._ended, self._power = 0, session.power

    def __call__(self) -> bool:
        if self._world.now >= self._moment.until_s:
            return self._power is not None and self._lacks_steps(self._power.settled.time_s)
        if self._power is not None:
            return True
        jobs = self._jobs
        while self._ended < len(jobs) and (
            jobs[self._ended].end_s == jobs[self._ended].end_s or _left(jobs[self._ended])
        ):
            self._ended += 1
        return self._ended < len(jobs)

    def _lacks_steps(self, settled_s: float) -> bool:
        """Whether the last step has not been settled; it is a little later."""
        late_s = self._world.now - self._moment.until_s
        return settled_s < self._moment.until_s - TIME_TOLERANCE_S and late_s < 60.0


def _left(job: Job) -> bool:
    """Whether a job has left without running."""
    return job.state in (JobState.POSTPONED, JobState.REJECTED)


def outcome(session: Session, moment: ForkedMoment) -> ContinuedRun:
    """Return what happened from a moment to its horizon, in a session that has gone so far."""
    last_s = moment.until_s + TIME_TOLERANCE_S
    starts_s = [_by(job.start_s, last_s) for job in moment.jobs]
    ends_s = [_by(job.end_s, last_s) for job in moment.jobs]
    killed = [
        job.state is JobState.KILLED and end_s is not None
        for job, end_s in zip(moment.jobs, ends_s, strict=True)
    ]
    rows = [] if session.power is None else session.power.trace[moment.first_row :]
    rows = [row for row in rows if row.start_s + row.record.dt_s <= last_s + 1.0]
    return ContinuedRun(
        starts_s,
        ends_s,
        killed,
        [row.start_s + row.record.dt_s for row in rows],
        [row.record.soc_after_pct for row in rows],
        [row.record.hydrogen_after_kg for row in rows],
        _totals(session, moment),
    )


def _by(time_s: float, last_s: float) -> float | None:
    return time_s if time_s <= last_s else None


def _totals(session: Session, moment: ForkedMoment) -> Totals:
    last_s = moment.until_s + TIME_TOLERANCE_S
    columns = session.outcomes.columns()
    new = slice(moment.counts[2], None)
    in_time = columns["end_s"][new] <= last_s
    state, start_s, subtime_s = (columns[name][new] for name in ("state", "start_s", "subtime_s"))
    started = (start_s > moment.time_s) & (start_s <= last_s)
    killed = int((in_time & (state == JobState.KILLED.value)).sum())
    totals = Totals(
        finished=int((in_time & (state == JobState.FINISHED.value)).sum()),
        killed=killed,
        waited_s=float((start_s - subtime_s)[started].sum()),
        started=int(started.sum()),
        is_short=killed > 0,
    )
    if session.power is not None:
        _add_energy(totals, session, moment, last_s)
    return totals


def _add_energy(totals: Totals, session: Session, moment: ForkedMoment, last_s: float) -> None:
    power = session.power
    if power is None:
        return
    storage = power.site.storage
    rows = [row for row in power.trace[moment.first_row :] if row.start_s + row.record.dt_s <= last_s + 1.0]
    for row in rows:
        record = row.record
        totals.curtailed_kwh += j_to_kwh(record.curtailed_w * record.dt_s)
        totals.unserved_kwh += j_to_kwh(record.unserved_w * record.dt_s)
        totals.import_kwh += j_to_kwh(record.import_w * record.dt_s)
        if row.metered is not None:
            totals.cost += row.metered.cost - row.metered.revenue
    if power.peak is not None:
        totals.cost += power.peak.cost - moment.peak_cost
    used_j = sum(row.record.consumed_j for row in rows)
    done_j = session.outcomes.energy_j(*_DONE, until_s=last_s) - moment.done_j
    totals.wasted_kwh = j_to_kwh(max(used_j - done_j, 0.0))
    if not rows:
        return
    last = rows[-1].record
    totals.soc_pct, totals.hydrogen_kg = last.soc_after_pct, last.hydrogen_after_kg
    battery, hydrogen = storage.battery, storage.hydrogen
    if battery.capacity_j > 0.0:
        totals.is_short |= any(row.record.battery_after_j < battery.min_j * (1.0 - 1e-9) for row in rows)
    if moment.until_s >= power.end_s - TIME_TOLERANCE_S:
        totals.misses_target = last.battery_after_j < battery.least_end_j * (1.0 - 1e-9) or (
            hydrogen is not None and last.hydrogen_after_kg < hydrogen.target * (1.0 - 1e-9)
        )


def level_quantiles(series: Sequence[Sequence[float]], levels: Sequence[float]) -> list[list[float]]:
    """Return quantiles of each step over continuations, [step][level]."""
    if not series or not series[0]:
        return []
    steps = min(map(len, series))
    values = np.array([one[:steps] for one in series])
    found = np.quantile(values, levels, axis=0).T
    return [[round(float(value), 6) for value in row] for row in found]


def is_number(value: float | None) -> bool:
    """Whether a time is given."""
    return value is not None and math.isfinite(value)
