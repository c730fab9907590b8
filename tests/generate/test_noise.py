"""Noise on workloads, and the cases of production."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.generate.noise import (
    gaussian_factors,
    noisy_arrivals,
    noisy_run_times,
    noisy_workload,
    real_production,
)
from beasy_sched.generate.random_streams import GROUP_FACTORS, Stream, uniforms
from beasy_sched.generate.workload import synthetic_workload
from beasy_sched.generate.workload_options import SyntheticOptions
from beasy_sched.model.choices import ProductionCase

DAY_S = 86_400.0

seeds = st.integers(0, 2**32)
sigmas = st.floats(0.0, 1.0)


def workload(seed: int = 3, jobs: int = 100):
    return synthetic_workload(SyntheticOptions(reference_speed_flops=1e9, jobs=jobs, seed=seed))


@given(seeds, sigmas, st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=50))
def test_run_times_stay_positive(seed, sigma, runs):
    noisy = noisy_run_times(np.array(runs), sigma=sigma, seed=seed)
    assert np.all(noisy > 0)
    assert np.all(noisy <= 1.95 * np.array(runs) + 1e-6)
    assert np.all(noisy >= 0.05 * np.array(runs) - 1e-6)


@given(seeds, sigmas, st.lists(st.floats(0.0, DAY_S), min_size=1, max_size=50))
def test_arrivals_rise_inside_the_window(seed, sigma, moments):
    noisy = noisy_arrivals(np.sort(moments), DAY_S, sigma=sigma, seed=seed)
    assert np.all(np.diff(noisy) >= 0)
    assert noisy[0] >= 0
    assert noisy[-1] < DAY_S


def test_late_arrivals_come_a_second_before_the_end():
    noisy = noisy_arrivals(np.full(200, DAY_S - 2), DAY_S, sigma=0.2, seed=0)
    assert set(noisy.tolist()) <= {DAY_S - 1, noisy[0]}
    late = noisy_arrivals(np.arange(86_000.0, 86_400.0), DAY_S, sigma=1.0, seed=4)
    assert late.max() <= DAY_S - 1


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.3])
def test_the_noise_is_gaussian(sigma):
    factors = gaussian_factors(uniforms(7, Stream.NOISE_RUN_TIMES, 40_000), sigma)
    assert factors.mean() == pytest.approx(1.0, abs=0.01)
    assert factors.std() == pytest.approx(sigma, rel=0.02)
    within_one_sd = np.mean(np.abs(factors - 1.0) < sigma)
    assert within_one_sd == pytest.approx(0.6827, abs=0.01)


def test_a_large_sigma_is_cut_on_both_sides_and_keeps_the_mean():
    factors = gaussian_factors(uniforms(7, Stream.NOISE_RUN_TIMES, 40_000), 1.0)
    assert factors.min() >= 0.05
    assert factors.max() <= 1.95
    assert factors.mean() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("sigma", [-0.1, 1.1, 20, float("nan")])
def test_a_sigma_that_is_no_share_is_refused(sigma):
    with pytest.raises(ConfigError, match="number from 0 to 1"):
        gaussian_factors(np.zeros(1), sigma)


def test_without_noise_nothing_changes():
    forecast = workload()
    real = noisy_workload(forecast, seed=1, arrivals_sigma=0.0, run_sigma=0.0, walltimes="keep")
    assert b"".join(real.json_pieces()) == b"".join(forecast.json_pieces())


def test_walltimes_are_groups_of_the_run_time_that_will_happen():
    forecast = workload(jobs=103)
    real = noisy_workload(forecast, seed=9)
    assert not np.array_equal(real.run_s, forecast.run_s)
    factors = real.walltime_s / real.run_s
    nearest = np.abs(factors[:, None] - np.array(GROUP_FACTORS)).argmin(axis=1)
    np.testing.assert_allclose(factors, np.array(GROUP_FACTORS)[nearest], rtol=1e-5)
    sizes = np.bincount(nearest, minlength=5)
    assert sizes.max() - sizes.min() <= 1
    assert real.beyond_walltime == 0


def test_other_walltimes():
    forecast = workload()
    kept = noisy_workload(forecast, seed=9, walltimes="keep")
    np.testing.assert_array_equal(kept.walltime_s, forecast.walltime_s)
    assert np.isnan(noisy_workload(forecast, seed=9, walltimes="none").walltime_s).all()


def test_the_same_seed_gives_the_same_bytes_and_another_one_others():
    one, again, other = (b"".join(noisy_workload(workload(), seed=s).json_pieces()) for s in (5, 5, 6))
    assert one == again
    assert one != other


def test_streams_of_one_seed_are_independent():
    size = 4000
    drawn = [uniforms(5, stream, size) for stream in Stream]
    correlations = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(correlations).max() < 4 / np.sqrt(size)


POWERS = np.linspace(0.0, 10e3, 12)
U = Uncertainty(0.05, 0.30, horizon_s=12 * 300.0)


def test_the_cases_of_production_lie_in_the_plans_band():
    u = U.over(12, 300.0)
    best, worst, between, exact = (
        real_production(POWERS, case, uncertainty=U, seed=2)
        for case in (
            ProductionCase.BEST,
            ProductionCase.WORST,
            ProductionCase.BETWEEN,
            ProductionCase.EXACT,
        )
    )
    np.testing.assert_array_equal(best, POWERS * (1 + u))
    np.testing.assert_array_equal(worst, POWERS * (1 - u))
    np.testing.assert_array_equal(exact, POWERS)
    assert np.all((worst <= between) & (between <= best))
    assert len(np.unique(between)) == 12


def test_between_is_uniform():
    flat = np.full(20_000, 1e3)
    real = real_production(
        flat, ProductionCase.BETWEEN, uncertainty=Uncertainty(0.3, 0.3), seed=1, window_steps=100
    )
    share = (real - 700.0) / 600.0
    assert share.mean() == pytest.approx(0.5, abs=0.01)
    assert share.std() == pytest.approx(np.sqrt(1 / 12), abs=0.01)


def test_u_starts_anew_with_each_window():
    flat = np.full(24, 1e3)
    best = real_production(flat, ProductionCase.BEST, uncertainty=U, window_steps=12)
    np.testing.assert_array_equal(best[:12], best[12:])
    assert best[0] == 1050.0
