"""The forecast of a moment from the outcomes of its continuations. A line of ``PREFIX_foresee.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from beasy_sched.formats.decoding import JsonDecoder
from beasy_sched.plugins.foresee.calibration import CLASS_ENDS_S, Calibration, class_of
from beasy_sched.plugins.foresee.continuation import ContinuedRun, ForkedMoment
from beasy_sched.units import SECONDS_PER_DAY, TIME_TOLERANCE_S

FAN: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the storage's quantiles."""


class StartForecast(msgspec.Struct, omit_defaults=True):
    """Start and end of a waiting job; times in simulated seconds."""

    id: str
    start_s: list[float] | None
    """The 10, 50 and 90 % quantiles over the futures in which it starts; None if it starts in none."""
    end_s: list[float] | None
    start_by_walltimes_s: float | None
    """Its start if every job took its walltime and no other were submitted; None: not up to the horizon."""
    never: float
    """Share of the futures in which it does not start up to the horizon."""
    killed: float
    started_s: float | None = None
    """Its actual start, once the run is over."""
    ended_s: float | None = None
    """Its actual end, once the run is over."""


class StepsForecast(msgspec.Struct, omit_defaults=True):
    """Levels of the storage at the end of each step, as quantiles of 5, 25, 50, 75 and 95 %."""

    time_s: list[float]
    soc_pct: list[list[float]] | None = None
    hydrogen_kg: list[list[float]] | None = None
    actual_soc_pct: list[float] | None = None
    """Actual levels, once the run is over."""
    actual_hydrogen_kg: list[float] | None = None


class MomentForecast(msgspec.Struct, omit_defaults=True):
    """The forecast of a moment."""

    time_s: float
    continuations: int
    horizon_s: float
    """Time up to which the run is foreseen, s."""
    jobs: list[StartForecast]
    steps: StepsForecast | None = None
    """Levels of the storage; None without one."""
    shortage: float | None = None
    """Probability that a job is killed or the battery falls below SoC_min; None without a site."""
    misses_target: float | None = None
    """Probability that a storage ends the run below its target; None if the horizon is before the end."""
    wasted_kwh: float | None = None
    """Expected energy of servers that no finished job used, up to the horizon."""
    curtailed_kwh: float | None = None
    lost: int = 0
    """Number of continuations without a result."""


ENCODER: Final = msgspec.json.Encoder()
DECODER: Final = msgspec.json.Decoder(MomentForecast)
LINES: Final = JsonDecoder(MomentForecast)
"""Reads a line of a file, with errors that name the field."""


class Storages(msgspec.Struct, frozen=True):
    """Storages of a site."""

    site: bool
    battery: bool
    hydrogen: bool
    to_the_end: bool
    """Whether the horizon is the end of the run."""
    tank_kg: float = 0.0


def forecast_of(
    moment: ForkedMoment,
    outcomes: Sequence[ContinuedRun],
    by_walltimes: ContinuedRun | None,
    storages: Storages,
    calibration: Calibration,
) -> MomentForecast:
    """Return what the outcomes of at least one continuation agree on."""
    jobs = []
    for place, job in enumerate(moment.jobs[: moment.waiting]):
        starts = [one.starts_s[place] for one in outcomes]
        ends = [one.ends_s[place] for one in outcomes]
        jobs.append(
            StartForecast(
                job.id,
                _quantiles("start", moment.time_s, starts, calibration),
                _quantiles("end", moment.time_s, ends, calibration),
                None if by_walltimes is None else _rounded(by_walltimes.starts_s[place]),
                _share([start is None for start in starts]),
                _share([one.killed[place] for one in outcomes]),
            )
        )
    forecast = MomentForecast(moment.time_s, len(outcomes), moment.until_s, jobs)
    if storages.site:
        totals = [one.totals for one in outcomes]
        forecast.shortage = _share([each.is_short for each in totals])
        if storages.to_the_end and (storages.battery or storages.hydrogen):
            forecast.misses_target = _share([each.misses_target for each in totals])
        forecast.wasted_kwh = round(float(np.mean([each.wasted_kwh for each in totals])), 6)
        forecast.curtailed_kwh = round(float(np.mean([each.curtailed_kwh for each in totals])), 6)
        forecast.steps = _steps(moment.time_s, outcomes, storages, calibration)
    return forecast


def _steps(
    now: float, outcomes: Sequence[ContinuedRun], storages: Storages, calibration: Calibration
) -> StepsForecast | None:
    if not (storages.battery or storages.hydrogen):
        return None
    times_s = min((one.times_s for one in outcomes), key=len)

    def fans(kind: str, series: Sequence[Sequence[float]], most: float) -> list[list[float]]:
        by_step = zip(times_s, zip(*series, strict=False), strict=False)
        fans = (calibration.fan(kind, time_s - now, levels) for time_s, levels in by_step)
        return [[round(min(max(level, 0.0), most), 6) for level in fan] for fan in fans]

    soc = fans("soc", [one.soc_pct for one in outcomes], 100.0) if storages.battery else None
    tank_kg = storages.tank_kg
    hydrogen = fans("hydrogen", [one.hydrogen_kg for one in outcomes], tank_kg) if storages.hydrogen else None
    return StepsForecast([round(at_s, 6) for at_s in times_s], soc, hydrogen)


def _quantiles(
    kind: str, now: float, times_s: Sequence[float | None], calibration: Calibration
) -> list[float] | None:
    known = [time_s for time_s in times_s if time_s is not None]
    if not known:
        return None
    return [round(time_s, 6) for time_s in calibration.interval(kind, now, known)]


def _rounded(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s, 6)


def _share(flags: Sequence[bool]) -> float:
    return round(sum(flags) / len(flags), 6)


class PromisedInterval(msgspec.Struct, frozen=True):
    """An interval whose truth is awaited."""

    kind: str
    horizon: int
    low_s: float
    high_s: float
    place: int
    """Position of the job in its moment."""


def promises(forecast: MomentForecast) -> list[PromisedInterval]:
    """Return the intervals of a forecast."""
    found = []
    for place, job in enumerate(forecast.jobs):
        for kind, interval in (("start", job.start_s), ("end", job.end_s)):
            if interval is not None:
                low, middle, high = interval
                found.append(PromisedInterval(kind, class_of(forecast.time_s, middle), low, high, place))
    return found


class PromisedLevel(msgspec.Struct, frozen=True):
    """A level of a fan whose truth is awaited."""

    kind: str
    horizon: int
    time_s: float
    """End of its step."""
    low: float
    high: float


def promised_levels(forecast: MomentForecast) -> list[PromisedLevel]:
    """Return a level of each class of horizons: at the end of the class, and two days ahead."""
    steps, found = forecast.steps, []
    if steps is None:
        return []
    for ahead_s in (*CLASS_ENDS_S, 2 * SECONDS_PER_DAY):
        place = (
            int(np.searchsorted(steps.time_s, forecast.time_s + ahead_s + TIME_TOLERANCE_S, side="right")) - 1
        )
        if place < 0 or steps.time_s[-1] < forecast.time_s + ahead_s - TIME_TOLERANCE_S:
            continue
        time_s = steps.time_s[place]
        horizon = class_of(forecast.time_s, time_s)
        for kind, fans in (("soc", steps.soc_pct), ("hydrogen", steps.hydrogen_kg)):
            if fans is not None:
                found.append(PromisedLevel(kind, horizon, time_s, fans[place][0], fans[place][-1]))
    return found
