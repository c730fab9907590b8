"""Forecasts during a run: at its moments, the run is continued several times in copies of the process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import BeasyError, InputError
from beasy_sched.formats import run_files
from beasy_sched.model.jobs import Job
from beasy_sched.plugins.foresee.calibration import Calibration
from beasy_sched.plugins.foresee.children import LIMIT_S, Lost, check_platform, default_at_once, run_children
from beasy_sched.plugins.foresee.continuation import (
    DECODER,
    ContinuedRun,
    ForkedMoment,
    continued,
    horizon_s,
    moment_of,
)
from beasy_sched.plugins.foresee.drawing import by_walltimes, draw
from beasy_sched.plugins.foresee.drawn_failures import FailureModel
from beasy_sched.plugins.foresee.forecast import (
    ENCODER,
    MomentForecast,
    PromisedInterval,
    PromisedLevel,
    Storages,
    forecast_of,
    promised_levels,
    promises,
)
from beasy_sched.plugins.foresee.judgement import figures, table
from beasy_sched.plugins.foresee.known import known_at
from beasy_sched.run.following import RunFollower
from beasy_sched.simulator import Simulation
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.outputs.files import RunFiles

CONTINUATIONS: Final = 30
_SAME_STEP_S: Final = 1.0
"""Difference of the ends of the same step in different futures, s."""
_WALLTIMES_S: Final = 30 * SECONDS_PER_DAY
"""Time ahead of the continuation by walltimes without a site, s."""


@dataclass(frozen=True)
class Moments:
    """The moments of a run at which it is foreseen."""

    every_s: float | None = None
    at_s: tuple[float, ...] = ()

    def next_s(self, after_s: float) -> float:
        """Return the first moment after ``after_s``; infinite if there is none."""
        single = min((at_s for at_s in self.at_s if at_s > after_s), default=math.inf)
        if self.every_s is None:
            return single
        return min(single, (math.floor(max(after_s, 0.0) / self.every_s + 1e-9) + 1) * self.every_s)


class ForecastFollower(RunFollower):
    """Forecasts of a run at some moments; the run itself is not changed."""

    def __init__(
        self,
        moments: Moments,
        *,
        continuations: int = CONTINUATIONS,
        at_once: int | None = None,
        seed: int = 0,
        limit_s: float = LIMIT_S,
        failures: FailureModel | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``at_once`` None: one continuation for each processor. Raises ConfigError without fork."""
        check_platform()
        self.forecasts: list[MomentForecast] = []
        self.calibration = Calibration()
        self._moments, self._count, self._seed = moments, continuations, seed
        self._at_once = at_once or default_at_once()
        self._limit_s, self._failures, self._warn = limit_s, failures, warn
        self._awaited: list[tuple[PromisedInterval, Job]] = []
        self._levels: list[PromisedLevel] = []
        """Levels that are awaited."""
        self._jobs: list[tuple[Job, ...]] = []
        """Jobs that waited at each moment."""
        self._last_s = -1.0
        self._stopped_at_s = math.inf

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        """Wait for the first moment."""
        self._simulation, self._running = simulation, running
        self._wait()

    def _wait(self) -> None:
        self._next_s = self._moments.next_s(self._last_s)
        if self._next_s < math.inf:
            self._simulation.pause_at(self._next_s, self._at_moment)

    def _at_moment(self) -> None:
        session, power = self._running.session, self._running.session.power
        if session.begun and not (power is not None and self._next_s >= power.end_s - TIME_TOLERANCE_S):
            self._last_s = self._next_s
            try:
                self._foresee(self._last_s)
            except (BeasyError, OSError, MemoryError) as error:
                self._warn(f"no forecast at {self._last_s:g} s: {error}")
            self._wait()

    def _foresee(self, time_s: float) -> None:
        session = self._running.session
        self._learn(time_s)
        self._learn_levels(time_s)
        until_s = horizon_s(session, time_s)
        moment = moment_of(session, time_s, until_s)
        known = known_at(time_s, until_s, self._simulation, session, self._failures)
        ahead = partial(continued, self._simulation, self._running)
        tasks: list[Callable[[], bytes]] = [
            lambda number=number: ahead(moment, draw(known, number, self._seed))  # type: ignore[misc]
            for number in range(self._count)
        ]
        longer = moment if session.power else replace(moment, until_s=time_s + _WALLTIMES_S)
        tasks.append(lambda: ahead(longer, by_walltimes(replace(known, until_s=longer.until_s))))
        results = run_children(tasks, self._at_once, self._limit_s)
        outcomes, limits, lost = _decoded(results)
        self._report(time_s, lost)
        if not outcomes:
            return
        forecast = forecast_of(moment, outcomes, limits, self._storages(moment), self.calibration)
        forecast.lost = len(lost)
        self.forecasts.append(forecast)
        waiting = moment.jobs[: moment.waiting]
        self._jobs.append(waiting)
        self._awaited += [(promise, waiting[promise.place]) for promise in promises(forecast)]
        self._levels += promised_levels(forecast)

    def _storages(self, moment: ForkedMoment) -> Storages:
        power = self._running.session.power
        if power is None:
            return Storages(False, False, False, False)
        storage = power.site.storage
        to_the_end = moment.until_s >= power.end_s - TIME_TOLERANCE_S
        hydrogen = storage.hydrogen
        tank_kg = 0.0 if hydrogen is None else hydrogen.tank_kg
        has_battery = storage.battery.capacity_j > 0.0
        return Storages(True, has_battery, hydrogen is not None, to_the_end, tank_kg)

    def _learn(self, now: float) -> None:
        """Adapt the intervals to the promises whose truth is known at ``now``."""
        still: list[tuple[PromisedInterval, Job]] = []
        for promise, job in self._awaited:
            time_s = job.start_s if promise.kind == "start" else job.end_s
            if time_s <= now:
                self.calibration.learn(
                    promise.kind, promise.horizon, promise.low_s - 1e-3 <= time_s <= promise.high_s + 1e-3
                )
            elif now > promise.high_s + 1e-3:
                self.calibration.learn(promise.kind, promise.horizon, False)
            else:
                still.append((promise, job))
        self._awaited = still

    def _learn_levels(self, now: float) -> None:
        """Adapt the fans to the levels that are known at ``now``."""
        power, still = self._running.session.power, []
        if power is None:
            return
        ends_s = np.array([row.start_s + row.record.dt_s for row in power.trace])
        for promise in self._levels:
            place = int(np.searchsorted(ends_s, promise.time_s - _SAME_STEP_S))
            if promise.time_s > now or place == len(ends_s):
                still.append(promise)
                continue
            record = power.trace[place].record
            level = record.soc_after_pct if promise.kind == "soc" else record.hydrogen_after_kg
            hit = promise.low - 1e-6 <= level <= promise.high + 1e-6
            self.calibration.learn(promise.kind, promise.horizon, hit)
        self._levels = still

    def _report(self, time_s: float, lost: Sequence[Lost]) -> None:
        """Warn of continuations without a result, by reason."""
        for problem in dict.fromkeys(each.problem for each in lost):
            count = sum(each.problem == problem for each in lost)
            which = "one continuation" if count == 1 else f"{count} continuations"
            rest = "the others count" if len(lost) <= self._count else "no forecast"
            self._warn(f"forecast at {time_s:g} s: {which} of {self._count + 1} {problem}; {rest}")

    def end(self, files: RunFiles) -> None:
        """Add what happened to the forecasts, and the file of forecasts to those of the run."""
        self._add_truth()
        if late := sorted({at_s for at_s in self._moments.at_s if at_s > self._last_s}):
            times = ", ".join(f"{at_s:g} s" for at_s in late)
            self._warn(f"no forecast at {times}: the run ended at {max(self._running.session.now, 0.0):g} s")
        text = "".join(f"{ENCODER.encode(forecast).decode()}\n" for forecast in self.forecasts)
        try:
            files.add(run_files.FORESEE, text)
        except InputError as error:
            self._warn(f"the forecasts could not be written: {error}")

    def lines(self) -> Iterable[str]:
        """Return a table of the quality of the forecasts."""
        return table(self.forecasts)

    def figures(self) -> Mapping[str, object]:
        """Return the quality of the forecasts for JSON."""
        return {"forecasts": figures(self.forecasts)}

    def _add_truth(self) -> None:
        power = self._running.session.power
        step_s = 1.0 if power is None else power.site.step_s
        rows = () if power is None else power.trace
        levels = {round((row.start_s + row.record.dt_s) / step_s): row.record for row in rows}
        for forecast, jobs in zip(self.forecasts, self._jobs, strict=True):
            for foreseen, job in zip(forecast.jobs, jobs, strict=True):
                foreseen.started_s = round(job.start_s, 6) if job.start_s == job.start_s else None
                foreseen.ended_s = (
                    round(job.end_s, 6) if job.end_s == job.end_s and foreseen.started_s is not None else None
                )
            if (steps := forecast.steps) is not None:
                records = [levels.get(round(at_s / step_s)) for at_s in steps.time_s]
                whole = [record for record in records if record is not None]
                if len(whole) == len(records):
                    if steps.soc_pct is not None:
                        steps.actual_soc_pct = [round(record.soc_after_pct, 6) for record in whole]
                    if steps.hydrogen_kg is not None:
                        steps.actual_hydrogen_kg = [round(record.hydrogen_after_kg, 6) for record in whole]


def _decoded(results: Sequence[bytes | Lost]) -> tuple[list[ContinuedRun], ContinuedRun | None, list[Lost]]:
    """Return the outcomes, that by walltimes, and the continuations without one."""
    lost = [result for result in results if isinstance(result, Lost)]
    *drawn, last = results
    outcomes = [DECODER.decode(result) for result in drawn if not isinstance(result, Lost)]
    return outcomes, None if isinstance(last, Lost) else DECODER.decode(last), lost
