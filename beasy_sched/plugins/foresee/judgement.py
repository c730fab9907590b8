"""Quality of forecasts: coverage and errors, once the truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.outputs.quantities import span
from beasy_sched.plugins.foresee.calibration import CLASSES, class_of
from beasy_sched.plugins.foresee.forecast import FAN, MomentForecast

_TOLERANCE_S: Final = 1e-3
AHEAD_H: Final = (6.0, 24.0)
"""Hours ahead for which the storage's levels are judged."""
PROMISED_PCT: Final = 80.0
"""Promised coverage of the intervals of starts, percent."""


@dataclass(frozen=True)
class StartsJudged:
    """Forecasts of starts next to the actual ones; errors in s."""

    jobs: int
    covered: int
    """Number of them in their intervals."""
    errors_s: Sequence[float]
    """Distance of each start from the median of its forecast."""
    both_s: Sequence[tuple[float, float]]
    """Distances from the forecast and from the start by walltimes, of the jobs that have both."""

    @property
    def coverage_pct(self) -> float | None:
        """Share of starts in their intervals, percent; None without jobs."""
        return 100.0 * self.covered / self.jobs if self.jobs else None

    @property
    def median_error_s(self) -> float | None:
        """Median error of the forecasts, s."""
        return float(np.median(self.errors_s)) if self.errors_s else None

    @property
    def median_errors_of_both_s(self) -> tuple[float, float] | None:
        """Median errors of the forecasts and of walltimes alone, on the same jobs, s."""
        if not self.both_s:
            return None
        ours, walltimes = np.median(np.array(self.both_s), axis=0).tolist()
        return ours, walltimes


def judge_starts(forecasts: Sequence[MomentForecast], horizon: int | None = None) -> StartsJudged:
    """Judge the starts, of one class of horizons or (None) of all, without jobs that never started."""
    covered, errors, both = 0, [], []
    for forecast in forecasts:
        for job in forecast.jobs:
            if job.start_s is None or job.started_s is None or job.started_s > forecast.horizon_s:
                continue
            low, middle, high = job.start_s
            if horizon is not None and class_of(forecast.time_s, middle) != horizon:
                continue
            covered += low - _TOLERANCE_S <= job.started_s <= high + _TOLERANCE_S
            errors.append(abs(job.started_s - middle))
            if job.start_by_walltimes_s is not None:
                both.append((errors[-1], abs(job.started_s - job.start_by_walltimes_s)))
    return StartsJudged(len(errors), covered, errors, both)


def judge_levels(
    forecasts: Sequence[MomentForecast], ahead_h: float, same_pct: float = 1e-6
) -> tuple[int, int]:
    """Return how many battery levels were forecast some hours ahead, and how many were in the 90 % fan.

    A level whose distance from the fan is at most ``same_pct`` (percentage points) counts as in it.
    """
    inside = judged = 0
    for forecast in forecasts:
        steps = forecast.steps
        if steps is None or steps.soc_pct is None or steps.actual_soc_pct is None:
            continue
        place = int(np.searchsorted(steps.time_s, forecast.time_s + ahead_h * 3600.0 - 1.0))
        if place < len(steps.time_s):
            judged += 1
            low, high = steps.soc_pct[place][0], steps.soc_pct[place][len(FAN) - 1]
            inside += low - same_pct <= steps.actual_soc_pct[place] <= high + same_pct
    return judged, inside


def rows(forecasts: Sequence[MomentForecast]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table on a terminal."""
    starts = judge_starts(forecasts)
    yield "forecasts", f"{len(forecasts):,}"
    yield "  starts foreseen", f"{starts.jobs:,}"
    if starts.coverage_pct is None or starts.median_error_s is None:
        return
    yield "  in their intervals", f"{starts.coverage_pct:.0f} % (promised {PROMISED_PCT:.0f} %)"
    for number, name in enumerate(CLASSES):
        some = judge_starts(forecasts, number)
        if some.coverage_pct is not None:
            yield f"    {name} ahead", f"{some.coverage_pct:.0f} % of {some.jobs:,}"
    yield "  median error", span(starts.median_error_s)
    if (both := starts.median_errors_of_both_s) is not None:
        yield "  median error by walltimes", f"{span(both[1])} (of the same jobs, forecast: {span(both[0])})"
    for ahead_h in AHEAD_H:
        judged, inside = judge_levels(forecasts, ahead_h)
        if judged:
            yield f"  battery {ahead_h:g} h ahead", f"{inside:,} of {judged:,} in the fan of 90 %"
    lost = sum(forecast.lost for forecast in forecasts)
    if lost:
        yield "  continuations lost", f"{lost:,}"


def table(forecasts: Sequence[MomentForecast]) -> list[str]:
    """Return the table as lines."""
    pairs = [*rows(forecasts)]
    width = max((len(label) for label, _ in pairs), default=0)
    return [f"{label:<{width}}  {text}" for label, text in pairs]


def figures(forecasts: Sequence[MomentForecast]) -> dict[str, object]:
    """Return the quality of the forecasts for JSON; None where there is nothing to judge."""
    starts = judge_starts(forecasts)
    both = starts.median_errors_of_both_s
    levels = []
    for ahead_h in AHEAD_H:
        judged, inside = judge_levels(forecasts, ahead_h)
        if judged:
            levels.append({"ahead_h": ahead_h, "levels": judged, "in_fan": inside})
    return {
        "count": len(forecasts),
        "starts": starts.jobs,
        "in_intervals_pct": starts.coverage_pct,
        "median_error_s": starts.median_error_s,
        "median_error_by_walltimes_s": None if both is None else both[1],
        "soc": levels,
        "continuations_lost": sum(forecast.lost for forecast in forecasts),
    }
