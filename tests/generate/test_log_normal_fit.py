"""The log-normal fit: parameters, and the Kolmogorov-Smirnov distance by brute force."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.generate.log_normal_fit import fit_log_normal


def test_it_finds_what_was_drawn() -> None:
    fit = fit_log_normal(np.random.default_rng(1).lognormal(math.log(1800.0), 1.3, 20_000))
    assert fit is not None
    assert fit.median_s == pytest.approx(1800.0, rel=0.05)
    assert fit.log_sd == pytest.approx(1.3, rel=0.02)
    assert fit.distance < 0.01


def test_what_is_far_from_log_normal_is_far() -> None:
    fit = fit_log_normal(np.array([1.0] * 500 + [1e6] * 500))
    assert fit is not None
    assert fit.distance > 0.3


@given(st.lists(st.integers(0, 50), min_size=2, max_size=30))
def test_the_distance_is_the_largest_difference_of_the_distribution_functions(times: list[int]) -> None:
    above = [time for time in times if time > 0]
    fit = fit_log_normal(np.array(times, dtype=float))
    if len(set(above)) < 2:
        assert fit is None
        return
    assert fit is not None
    normal = NormalDist(math.log(fit.median_s), fit.log_sd)
    apart = 0.0
    for value in above:
        expected = normal.cdf(math.log(value))
        for share in (sum(t <= value for t in above), sum(t < value for t in above)):
            apart = max(apart, abs(share / len(above) - expected))
    assert fit.distance == pytest.approx(apart, abs=1e-9)
    assert fit.count == len(above)
