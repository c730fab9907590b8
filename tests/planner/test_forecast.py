"""Forecasts and their bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.planner.forecast import Forecast, mean_over


def test_uncertainty_grows_over_three_days_and_no_further() -> None:
    shares = Uncertainty().over(2016, 300.0)
    assert shares[0] == 0.05
    assert shares[432] == pytest.approx(0.175)
    assert shares[864] == pytest.approx(0.30)
    np.testing.assert_allclose(shares[864:], 0.30)


def test_band() -> None:
    forecast = Forecast(np.array([100.0, 200.0]), np.array([0.1, 0.5]))
    np.testing.assert_allclose(forecast.low_w, [90, 100])
    np.testing.assert_allclose(forecast.high_w, [110, 300])


@pytest.mark.parametrize(
    ("values", "shares", "message"),
    [
        ([1.0, -1.0], [0.1, 0.1], "the forecast is -1.0 W at step 1"),
        ([1.0], [0.1, 0.1], "uncertainties: found shape"),
        ([1.0, 1.0], [0.1, np.nan], "the uncertainty is nan at step 1"),
        ([1.0], [5.0], "the uncertainty is 5.0 at step 0, expected a share from 0 to 1"),
    ],
)
def test_bad_forecasts(values: list[float], shares: list[float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Forecast(np.array(values), np.array(shares))
    assert message in str(caught.value)


@pytest.mark.parametrize("change", [{"at_once": -0.1}, {"at_horizon": 30.0}, {"horizon_s": 0.0}])
def test_bad_uncertainty(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        Uncertainty(**change)


@given(st.lists(st.floats(0, 1e6), max_size=40), st.integers(0, 50))
def test_means_over_a_time_keep_the_energy(values: list[float], steps: int) -> None:
    powers_w = np.array(values)
    means_w = mean_over(powers_w, steps)
    assert means_w.shape == powers_w.shape
    assert means_w.sum() == pytest.approx(powers_w.sum())
    for first in range(0, len(values), max(steps, 1)):
        block = slice(first, first + max(steps, 1))
        assert means_w[block] == pytest.approx(powers_w[block].mean())
