"""The newest forecast of a run's future, for those who show it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ForecastNews(Struct, frozen=True):
    """Summary of the newest forecast; times in s of the run."""

    time_s: float
    """Time of the forecast."""
    starts_s: Mapping[str, tuple[float, float]]
    """The 10 and 90 % quantiles of the start of each waiting job, by id; without those that more often than
    not do not start."""
    made: int
    """Number of forecasts so far."""
    dropped: int
    """Number of forecasts that were due and not made: too slow, failed, or another one was under way."""
    shortage: float | None = None
    """Probability that energy runs short; None without a site."""
    misses_target: float | None = None
    """Probability that a storage misses its target; None where the horizon is not the end of the run."""
