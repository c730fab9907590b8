"""Differences between forecast and actual values (Section V of the BEASY paper): noise, production cases.

Noise is Gaussian: a value times 1 + sigma*z, z standard normal, cut so that the factor stays within
0.05 to 1.95. The cut is symmetric, so the mean stays 1, and no time gets to 0; at sigma = 0.2 it lies at
4.75 standard deviations. One uniform number per value, from its own stream: workload, weather and
noise of one seed are independent, and the same seed gives the same values.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.generate.random_streams import Stream, grouped_walltimes, normals, to_microseconds, uniforms
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.model.choices import SIGMA, ProductionCase, WalltimeRule
from beasy_sched.planner.forecast import Forecast

_SMALLEST_FACTOR: Final = 0.05
_LAST_ARRIVAL_BEFORE_END_S: Final = 1.0


def gaussian_factors(uniform: FloatArray, sigma: float) -> FloatArray:
    """Turn uniform numbers in [0, 1) into factors of mean 1 and standard deviation ``sigma``, 0.05 to 1.95.

    Raises ConfigError for a sigma that is not a share from 0 to 1.
    """
    if not 0.0 <= sigma <= 1.0:
        raise ConfigError(f"sigma: found {sigma!r}, expected a number from 0 to 1 (20 % is 0.2)")
    if sigma == 0.0:
        return np.ones(len(uniform))
    tail = NormalDist().cdf((_SMALLEST_FACTOR - 1.0) / sigma)
    shares = np.minimum(tail + uniform * (1.0 - 2.0 * tail), 1.0 - 2.0**-53)
    return np.clip(1.0 + sigma * np.array([*normals(shares)]), _SMALLEST_FACTOR, 2.0 - _SMALLEST_FACTOR)


def noisy_arrivals(submit_s: FloatArray, window_s: float, *, sigma: float = SIGMA, seed: int) -> FloatArray:
    """Noise on the times between arrivals (s, rising), the first counted from the window's start.

    Arrivals that are pushed out of the window are moved to a second before its end.
    """
    gaps_s = np.diff(submit_s, prepend=0.0)
    factors = gaussian_factors(uniforms(seed, Stream.NOISE_ARRIVALS, len(submit_s)), sigma)
    arrivals_s = np.round(np.cumsum(gaps_s * factors), 6)
    return np.minimum(arrivals_s, max(window_s - _LAST_ARRIVAL_BEFORE_END_S, 0.0))


def noisy_run_times(run_s: FloatArray, *, sigma: float = SIGMA, seed: int) -> FloatArray:
    """Noise on run times (s); always above 0, to the microsecond."""
    factors = gaussian_factors(uniforms(seed, Stream.NOISE_RUN_TIMES, len(run_s)), sigma)
    return to_microseconds(run_s * factors)


def noisy_workload(
    workload: GeneratedWorkload,
    *,
    seed: int,
    arrivals_sigma: float = SIGMA,
    run_sigma: float = SIGMA,
    walltimes: WalltimeRule = "groups",
) -> GeneratedWorkload:
    """Return the actual workload where ``workload`` had been forecast.

    ``walltimes``: ``groups``, five equal groups of overestimation of the run time that will happen, drawn
    by ``seed``; ``keep``, those of the forecast (a job may now run into its own); ``none``, no limit.
    """
    run_s = noisy_run_times(workload.run_s, sigma=run_sigma, seed=seed)
    walltime_s = workload.walltime_s
    if walltimes == "groups":
        walltime_s = grouped_walltimes(run_s, seed)
    elif walltimes == "none":
        walltime_s = np.full(workload.size, np.nan)
    return replace(
        workload,
        submit_s=noisy_arrivals(workload.submit_s, workload.window_s, sigma=arrivals_sigma, seed=seed),
        run_s=run_s,
        walltime_s=walltime_s,
    )


def real_production(
    forecast_w: FloatArray,
    case: ProductionCase,
    *,
    step_s: float = 300.0,
    uncertainty: Uncertainty | None = None,
    window_steps: int | None = None,
    seed: int = 0,
) -> FloatArray:
    """Return the actual power (W) in each step where ``forecast_w`` had been forecast.

    u is that of the plans: it grows from the start of each window of ``window_steps`` steps (None: one
    window). ``seed`` is for `ProductionCase.BETWEEN`. Raises ConfigError for powers that cannot be.
    """
    per_window = max(window_steps or len(forecast_w), 1)
    windows = -(-len(forecast_w) // per_window)
    u = np.tile((uncertainty or Uncertainty()).over(per_window, step_s), windows)[: len(forecast_w)]
    forecast = Forecast(forecast_w, u)
    low_w, high_w = forecast.low_w, forecast.high_w
    by_case = {"best": high_w, "worst": low_w, "exact": forecast.value_w}
    if case.value in by_case:
        return by_case[case.value]
    drawn = uniforms(seed, Stream.NOISE_PRODUCTION, len(forecast_w))
    return np.clip(low_w + drawn * (high_w - low_w), low_w, high_w)
