"""Draws the production of a possible future, and the forecasts that are issued in it.

A forecast with quantiles, or with errors, gives the distribution of each step. The place of the production in
it is a normal score, which changes slowly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.plugins.foresee.known import KnownProduction, PresentKnowledge
from beasy_sched.protocol.notices import CARBON_FIELD, POWER_FIELD, PRICE_FIELD
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

_DAYS_OF_PRODUCTION: Final = 7
"""Without a forecast, each day repeats the production of one of so many past days."""
_KEPT_AN_HOUR: Final = 0.9
"""Correlation of the normal score of the production after an hour."""
_SUREST: Final = 1e-3
"""Level in place of 0, and 1 minus that in place of 1, where a score is needed."""

_NORMAL: Final = NormalDist()
_ERF: Final = np.vectorize(math.erf, otypes=[float])


@dataclass(frozen=True)
class ProducedFuture:
    """Production of a future."""

    events: list[ExternalEvent]
    """Events that announce it."""
    own_w: FloatArray | None = None
    """Power of the site's own sources in each step, W; None if nothing is replaced."""
    issues: IssuedTable | None = None
    """Forecasts that are issued in this future; None without any."""


def draw_production(
    known: PresentKnowledge, number: int | None, seed: int, rng: np.random.Generator
) -> ProducedFuture:
    """Draw the production of the future with a number; without a number, return the forecast's median."""
    production = known.production
    if production is None:
        return ProducedFuture([])
    if production.forecast_w is None:
        days = _days_of_production(known, rng)
        if known.has_own:
            return ProducedFuture([], _repeated(production, days))
        return ProducedFuture(_repeated_events(known, days))
    scores = None
    if number is None:
        power_w = production.forecast_w
    elif production.members_w is not None:
        power_w = _of_member(known, production.members_w, number, seed)
    else:
        quantiles = production.quantiles
        steps = len(production.forecast_w)
        first = None if quantiles is None else _present_score(quantiles, production.present_w)
        scores = _Scores(steps, production.step_s, first, rng)
        bias, variance = production.error.mean, production.error.variance
        at = _distribution(production.forecast_w, production.uncertainty, quantiles, bias, variance)
        power_w = at(scores.steps, slice(0, steps))
    issues = _later_issues(known, production, scores)
    if known.has_own:
        return ProducedFuture([], power_w, issues)
    return ProducedFuture(_events(known, power_w), None, issues)


def _of_member(known: PresentKnowledge, members_w: FloatArray, number: int, seed: int) -> FloatArray:
    """Return the power of a member of an ensemble, W; each is used as often as the others, or once more."""
    order = np.random.default_rng([seed, round(known.time_s * 1000.0)]).permutation(len(members_w))
    power_w: FloatArray = members_w[order[number % len(members_w)]]
    return power_w


# --- normal scores --------------------------------------------------------------------------------------


class _Scores:
    """Normal score of each step, which keeps most of its value from one to the next."""

    def __init__(self, steps: int, step_s: float, first: float | None, rng: np.random.Generator) -> None:
        """``first``: score before the first step; None: unknown."""
        self._step_s = step_s
        kept = _KEPT_AN_HOUR ** (step_s / SECONDS_PER_HOUR)
        news = rng.standard_normal(steps) * math.sqrt(1.0 - kept * kept)
        score = float(rng.standard_normal()) if first is None else first
        self._first = score
        self.steps: FloatArray = np.empty(steps)
        for step, new in enumerate(news.tolist()):
            score = kept * score + new
            self.steps[step] = score

    def expected(self, after_s: float, ahead_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of later scores, given those of the first ``after_s``.

        ``ahead_s``: time from then on, s.
        """
        step = min(round(after_s / self._step_s), len(self.steps)) - 1
        score = float(self.steps[step]) if step >= 0 else self._first
        kept = _KEPT_AN_HOUR ** (ahead_s / SECONDS_PER_HOUR)
        return kept * score, np.sqrt(1.0 - kept * kept)


def _present_score(quantiles: Quantiles, present_w: float) -> float | None:
    """Return the normal score of the present production in the next step; None where it has no spread."""
    powers = quantiles.power_w[:, 0]
    if powers[-1] - powers[0] <= 1e-3 * max(float(powers[-1]), 1.0):
        return None
    level = float(np.interp(present_w, powers, quantiles.levels))
    return _NORMAL.inv_cdf(min(max(level, 0.02), 0.98))


def _distribution(
    forecast_w: FloatArray,
    uncertainty: FloatArray,
    quantiles: Quantiles | None,
    bias: float,
    variance: float,
) -> Callable[[FloatArray, slice], FloatArray]:
    """Return a function from scores of some steps to their power, W.

    Without quantiles, ``bias`` and ``variance`` are those of the errors in units of the uncertainty.
    """
    if quantiles is not None:
        return lambda scores, steps: _at_levels(quantiles.during(steps), scores)
    spread = math.sqrt(variance)

    def with_error(scores: FloatArray, steps: slice) -> FloatArray:
        shift = uncertainty[steps] * (bias + spread * scores)
        return np.asarray(np.maximum(forecast_w[steps] * (1.0 + shift), 0.0))

    return with_error


def _at_levels(quantiles: Quantiles, scores: FloatArray) -> FloatArray:
    """Return the power of each step at the level of its normal score, W, as `Quantiles.at` does.

    Above the highest quantile, the power grows as between the two highest, in normal scores.
    """
    levels = 0.5 * (1.0 + _ERF(scores / math.sqrt(2.0)))
    rows = np.vstack((np.zeros(quantiles.power_w.shape[1]), quantiles.power_w))
    marks = np.concatenate(([0.0], quantiles.levels))
    if quantiles.levels[0] <= 0.0:
        rows, marks = quantiles.power_w, quantiles.levels
    above = np.clip(np.searchsorted(marks, levels), 1, len(marks) - 1)
    steps = np.arange(len(levels))
    low, high = rows[above - 1, steps], rows[above, steps]
    width = marks[above] - marks[above - 1]
    share = np.clip((levels - marks[above - 1]) / width, 0.0, 1.0)
    power_w: FloatArray = low + share * (high - low)
    if len(quantiles.levels) > 1 and (top := float(quantiles.levels[-1])) < 1.0:
        last, before = _NORMAL.inv_cdf(top), _NORMAL.inv_cdf(float(quantiles.levels[-2]))
        beyond = np.maximum(scores - last, 0.0) / (last - before)
        power_w += beyond * (quantiles.power_w[-1] - quantiles.power_w[-2])
    return power_w


# --- forecasts issued in a future -----------------------------------------------------------------------


def _later_issues(
    known: PresentKnowledge, production: KnownProduction, scores: _Scores | None
) -> IssuedTable | None:
    """Return the forecasts that are issued up to the end, as often as before; None without any.

    The distribution of each hour is that of the newest forecast, whose last day is repeated after its end. An
    issue knows the scores of the future until then; with an ensemble, nothing.
    """
    issues = production.issues
    if issues is None:
        return None
    table, levels = issues.newest, issues.newest.levels
    quantiles = None if levels is None or table.by_level is None else Quantiles(levels, table.by_level)
    at = _distribution(table.values, issues.uncertainty, quantiles, 0.0, production.error.variance)
    sure = () if levels is None else np.clip(levels, _SUREST, 1.0 - _SUREST).tolist()
    marks = [_NORMAL.inv_cdf(level) for level in sure] or [0.0]
    issued_s, valid_s, rows = [], [], []
    for at_s in issues.later_s(known.until_s):
        first, end = np.searchsorted(table.valid_s, [at_s - 1e-6, at_s + issues.ahead_s - 1e-6]).tolist()
        times_s = table.valid_s[first:end]
        if not len(times_s):
            continue
        if scores is None:
            mean, spread = np.zeros(len(times_s)), np.ones(len(times_s))
        else:
            # a step has its score at its end
            ahead_s = times_s - at_s + 0.5 * (table.interval_s + production.step_s)
            mean, spread = scores.expected(at_s - production.first_s, ahead_s)
        rows.append(np.array([at(mean + spread * mark, slice(first, end)) for mark in marks]))
        issued_s.append(np.full(len(times_s), at_s))
        valid_s.append(times_s)
    if not rows:
        return None
    power_w = np.maximum.accumulate(np.concatenate(rows, axis=1), axis=0)
    values, by_level = power_w[0], None
    if levels is not None:
        values, by_level = Quantiles(levels, power_w).at(0.5), power_w
    times = np.concatenate(issued_s), np.concatenate(valid_s)
    return IssuedTable(*times, values, table.interval_s, levels=levels, by_level=by_level)


def _days_of_production(known: PresentKnowledge, rng: np.random.Generator) -> list[float]:
    """Choose, for each day from now on, how long before it the day is that it repeats, s."""
    past_days = math.floor(known.time_s / SECONDS_PER_DAY)
    days = math.ceil((known.until_s - known.time_s) / SECONDS_PER_DAY)
    if past_days < 1:
        return []
    chosen = rng.integers(1, min(past_days, _DAYS_OF_PRODUCTION) + 1, size=max(days, 1))
    return [(day + int(back)) * SECONDS_PER_DAY for day, back in enumerate(chosen.tolist())]


def _repeated(production: KnownProduction, days: list[float]) -> FloatArray:
    """Return the power of each step as on the chosen past days; the present one before a day has passed."""
    steps = len(production.uncertainty)
    power_w = np.full(steps, production.present_w)
    for step in range(steps if days else 0):
        start_s = production.first_s + step * production.step_s
        day = min(int((start_s - production.first_s) // SECONDS_PER_DAY), len(days) - 1)
        place = int(np.searchsorted(production.starts_s, start_s - days[day] + 1e-6, side="right")) - 1
        power_w[step] = production.past_w[place] if place >= 0 else production.present_w
    return power_w


def _repeated_events(known: PresentKnowledge, days: list[float]) -> list[ExternalEvent]:
    """Return the power events of the chosen past days, at their times of the day."""
    times_s = np.array([event.timestamp for event in known.events])
    repeated: list[ExternalEvent] = []
    for day, back_s in enumerate(days):
        start_s = known.time_s + day * SECONDS_PER_DAY - back_s
        first, end = np.searchsorted(times_s, [start_s, start_s + SECONDS_PER_DAY], side="right").tolist()
        for event in known.events[first:end]:
            if event.timestamp + back_s < known.until_s:
                repeated.append(_moved(event, event.timestamp + back_s))
    return repeated


def _moved(event: ExternalEvent, time_s: float, **data: Any) -> ExternalEvent:
    return ExternalEvent(time_s, event.kind, {**event.data, "timestamp": time_s, **data})


def _events(known: PresentKnowledge, power_w: FloatArray) -> list[ExternalEvent]:
    """Return events that announce the power of each step; rates as a day before, if they were announced."""
    production, past = known.production, known.events
    if production is None or not past:
        return []
    rates = [event for event in past if PRICE_FIELD in event.data or CARBON_FIELD in event.data]
    times_s = np.array([event.timestamp for event in rates])
    events = []
    for step, power in enumerate(power_w.tolist()):
        at_s = production.first_s + step * production.step_s
        data: dict[str, Any] = {"type": past[-1].kind, "timestamp": at_s, POWER_FIELD: power}
        if rates:
            back_s = (math.floor((at_s - known.time_s) / SECONDS_PER_DAY) + 1) * SECONDS_PER_DAY
            place = max(int(np.searchsorted(times_s, at_s - back_s + 1e-6, side="right")) - 1, 0)
            of = rates[place].data
            data |= {name: of[name] for name in (PRICE_FIELD, CARBON_FIELD) if name in of}
        events.append(ExternalEvent(at_s, past[-1].kind, data))
    return events
