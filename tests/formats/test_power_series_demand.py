"""Demand from a file: powers as in every file of powers, or quantiles and members."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.errors import InputError
from beasy_sched.formats.power_series import read_demand, read_power_series


def write(folder, *lines):
    path = folder / "demand.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def demand(folder, *lines, steps=2, step_s=300.0, unit=None):
    return read_demand(write(folder, *lines), steps=steps, step_s=step_s, unit=unit)


@pytest.mark.parametrize(
    ("lines", "unit"),
    [
        (["demand_kw", "0.5", "0.7"], None),
        (["time,demand", "0,0.5", "300,0.7"], "kW"),
        (["time,p50_kw", "0,0.5", "300,0.7"], None),
        (["m1", "0.5", "0.7"], "kW"),
        (
            [
                '{"type": "power", "timestamp": 0, "power_available": 500}',
                '{"type": "power", "timestamp": 300, "power_available": 700}',
            ],
            None,
        ),
    ],
)
def test_one_power_per_step_has_no_quantiles(tmp_path, lines, unit):
    load_w, quantiles = demand(tmp_path, *lines, unit=unit)
    assert quantiles is None
    same = read_power_series(tmp_path / "demand.csv", steps=2, step_s=300.0, unit=unit)
    assert load_w.tolist() == same.tolist() == [500.0, 700.0]


@pytest.mark.parametrize(
    ("lines", "unit"),
    [
        (["p10,p50,p90", "100,500,900", "0,700,800"], None),
        (["time,p90,p10_w,p50 [kW]", "0,900,100,0.5", "300,800,0,0.7"], None),
        (["p10,p50,p90", "0.1,0.5,0.9", "0,0.7,0.8"], "kW"),
        (["p90_kw,p10,p50", "0.9,0.1,0.5", "0.8,0,0.7"], "kW"),
        (
            ["time,p90_wh,p10,p50 [kWh]", "0,75,100,0.0416666666666667", "300,66.6666667,0,0.0583333333333"],
            None,
        ),
        (["time,p90,p10,p50", "0,270,30,150", "300,240,0,210"], "kJ"),
        (["time,p10,p50,p90", "300,0,700,800", "0,100,500,900"], "W"),
    ],
)
def test_quantiles(tmp_path, lines, unit):
    load_w, quantiles = demand(tmp_path, *lines, unit=unit)
    assert load_w == pytest.approx([500.0, 700.0])
    assert quantiles.levels.tolist() == [0.1, 0.5, 0.9]
    assert np.stack(quantiles.bounds(0.1)) == pytest.approx(
        np.array([[100.0, 0.0], [500.0, 700.0], [900.0, 800.0]])
    )


def test_members_of_an_ensemble(tmp_path):
    load_w, quantiles = demand(tmp_path, "time,m1,m2,m3", "0,300,100,200", "300,1,2,3")
    assert load_w.tolist() == [200.0, 2.0]
    assert quantiles.power_w.tolist() == [[100.0, 1.0], [200.0, 2.0], [300.0, 3.0]]


def test_quantiles_on_both_sides_are_enough_for_a_median(tmp_path):
    load_w, _ = demand(tmp_path, "p25,p75", "100,200", "0,50")
    assert load_w.tolist() == [150.0, 25.0]


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, 2000), min_size=3, max_size=3), min_size=4, max_size=12),
    st.sampled_from([300, 600, 900, 3600]),
)
def test_each_quantile_becomes_steps_as_one_column_does(tmp_path_factory, rows, step_s):
    """Finer and coarser than the file; the quantiles of steps never cross."""
    folder = tmp_path_factory.mktemp("demand")
    rows = [sorted(row) for row in rows]
    steps = max(len(rows) * 900 // step_s, 1)
    if steps * step_s > len(rows) * 900:
        return
    lines = [f"{900 * k},{','.join(map(str, row))}" for k, row in enumerate(rows)]
    load_w, quantiles = demand(folder, "time,p10,p50,p90", *lines, steps=steps, step_s=step_s)
    assert np.all(np.diff(quantiles.power_w, axis=0) >= 0.0)
    below = np.zeros(steps)
    for level in range(3):
        alone = write(folder, "time,demand_w", *[f"{900 * k},{row[level]}" for k, row in enumerate(rows)])
        below = np.maximum(below, read_power_series(alone, steps=steps, step_s=step_s))
        assert quantiles.power_w[level] == pytest.approx(below, rel=1e-12)
    assert load_w == pytest.approx(quantiles.power_w[1], rel=1e-12)


@pytest.mark.parametrize(
    ("lines", "unit", "said"),
    [
        (["p10,p50", "1,2", "5,4"], None, ":3: quantiles cross: p10 is 5 W, p50 4 W"),
        (["m1,m2", "1,2", "5,"], None, ":3: m2: the value is missing"),
        (["m1,m2", "1,2", "5"], None, ":3: has 1 value but the header has 2 columns"),
        (["p10,p90", "-1,2", "1,2"], None, ":2: p10: must not be negative"),
        (["p10,p50,m1", "1,2,3", "1,2,3"], None, "expected quantiles (p10 p50 p90) or members (m1 m2 m3)"),
        (["demand_kw,p10,p90", "2,1,3", "2,1,3"], None, "at least two of one kind"),
        (["p0,p50", "1,2", "1,2"], None, "p0 and p50: expected percentages above 0, below 100"),
        (["p10,p40", "1,2", "1,2"], None, "columns are p10, p40: expected the median (p50), or quantiles on"),
        (["time,p60,p90", "0,1,2", "300,1,2"], None, "columns are time, p60, p90: expected the median"),
        (
            ["p10,p90", "1,2", "1,2"],
            "%",
            "column 'p10': expected a demand in W, kW or MW, or in Wh, kWh or MWh",
        ),
        (["p10_kva,p90_kva", "1,2", "1,2"], None, "column 'p10_kva': unit 'kva' is apparent power"),
        (["p10_kw,p90_kw", "1,2", "1,2"], "MW", "column 'p10_kw' is in kw, but --unit is MW"),
        (
            ["p10,p90", "1,2", "1,2"],
            "VA",
            "--unit: unit 'VA' is apparent power, from which the power does not follow: expected W",
        ),
        (["time,p10,p90", "0,1,2", "300,1,2", "900,1,2"], None, "has no power for 600 s from the start"),
        (["p10,p90", "1,2", "1,2"], None, "covers 0.1667 h, the plan needs 0.25 h"),
        (["p10,p90"], None, "has 0 rows of data"),
        (["sun_kw,wind_kw", "1,2", "1,2"], None, "has several columns"),
    ],
)
def test_what_is_refused(tmp_path, lines, unit, said):
    with pytest.raises(InputError) as error:
        demand(tmp_path, *lines, steps=3, unit=unit)
    assert said in str(error.value)
