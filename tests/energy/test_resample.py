import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.energy.production_sources import resample
from beasy_sched.model.choices import Interpolation

HOUR = 3600.0
means = st.lists(st.just(0.0) | st.floats(1e-9, 1e6) | st.floats(1e-6, 1), min_size=1, max_size=30)
methods = st.sampled_from(Interpolation)


@given(means, methods, st.sampled_from([60, 300, 450, 900, 1800, 3600]))
def test_each_hour_keeps_its_energy(hourly, method, dt):
    power = resample(hourly, interval_s=HOUR, step_s=dt, method=method)
    assert power.min() >= 0
    energy = power.reshape(len(hourly), -1).sum(axis=1) * dt
    np.testing.assert_allclose(energy, np.array(hourly) * HOUR, rtol=1e-9)


@given(means, methods, st.sampled_from([7, 500, 1000, 2000, 2400, 5400, 7200, 333.3]))
def test_steps_that_do_not_divide_the_hour_agree_with_steps_that_do(hourly, method, dt):
    hourly = hourly * 3  # long enough for the longest step
    fine = resample(hourly, interval_s=HOUR, step_s=0.1 * HOUR / 36, method=method)
    coarse = resample(hourly, interval_s=HOUR, step_s=dt, method=method)
    assert len(coarse) == int(len(hourly) * HOUR / dt + 1e-9)
    curve = np.concatenate(([0.0], np.cumsum(fine) * 10.0))
    edges = np.arange(len(coarse) + 1) * dt
    expected = np.diff(np.interp(edges, np.arange(len(curve)) * 10.0, curve))
    tolerance = 1e-2 * max(hourly) * 20 + 1e-12  # interp is linear inside 10 s
    np.testing.assert_allclose(coarse * dt, expected, atol=tolerance)


def test_whole_spans_keep_their_energy_whatever_the_step():
    hourly = [0, 3, 10, 7, 0, 1]
    power = resample(hourly, interval_s=HOUR, step_s=2400)  # 3 steps are 2 hours
    np.testing.assert_allclose(power.reshape(3, 3).sum(axis=1) * 2400, [10800, 61200, 3600], rtol=1e-12)


@given(st.lists(st.just(0.0) | st.floats(1e-9, 100), min_size=1, max_size=30))
def test_a_ceiling_is_kept_with_the_energy(hourly):
    power = resample(hourly, interval_s=HOUR, step_s=300, ceiling_w=100)
    assert power.max() <= 100 * (1 + 1e-12)
    np.testing.assert_allclose(power.reshape(len(hourly), 12).mean(axis=1), hourly, rtol=1e-9)


def test_without_a_ceiling_a_lone_hour_peaks_above_its_mean():
    power = resample([0, 100, 0], interval_s=HOUR, step_s=300)
    assert power[:12].max() == 0
    assert power.max() == pytest.approx(150, rel=0.01)


def test_an_offset_cuts_the_same_curve():
    hourly = [1, 5, 2, 8, 3]
    whole = resample(hourly, interval_s=HOUR, step_s=300)
    part = resample(hourly, interval_s=HOUR, step_s=300, offset_s=900, steps=20)
    np.testing.assert_allclose(part, whole[3:23], rtol=1e-12)


def test_constant_hours_stay_constant():
    np.testing.assert_allclose(resample([4, 4, 4], interval_s=HOUR, step_s=700), 4.0)


def test_a_step_may_be_finer_or_coarser_than_the_interval():
    np.testing.assert_allclose(resample([2, 4, 6, 8], interval_s=300, step_s=600), [3, 7])


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean_w": [1, -1]},
        {"mean_w": [1, float("nan")]},
        {"steps": 13},
        {"offset_s": 3600.0},
        {"step_s": 0},
        {"step_s": 7200},
    ],
)
def test_bad_values_and_steps_outside_the_series_are_refused(wrong):
    values = {"mean_w": [1.0], "interval_s": HOUR, "step_s": 300, **wrong}
    with pytest.raises(ValueError, match=r"mean_w|do not fit|must be"):
        resample(values.pop("mean_w"), **values)
