"""Sweeps in pictures and pages: maps over two axes, lines over one."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from plugins.reports.by_hand import row

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.campaign_html import campaign_html
from beasy_sched.plugins.campaigns.sweep_charts import (
    SWEEP_FIGURES,
    SweptAxis,
    curve,
    draw_sweep,
    slices,
    surface,
    sweep_charts,
)

pandas = pytest.importorskip("pandas", reason="reports need pandas")
BATTERY, SUN = SweptAxis("battery_kwh", "battery capacity [kWh]"), SweptAxis("pv_kw", "solar power [kW]")
JOBS = SWEEP_FIGURES[1]


def runs_of(*, policies: tuple[str, ...] = ("easy", "beasy"), **changes: Any) -> Any:
    """Two runs a point: 10 % of the jobs for each 10 kWh and each kW, less or more 1 %."""
    rows = [
        row(policy, seed, 5, battery_kwh=battery, pv_kw=sun, finished_pct=battery + 10 * sun + 2 * seed - 3,
            work_finished_pct=None, killed_pct=0.0, **changes)
        for policy in policies for seed in (1, 2) for battery in (10.0, 40.0, 70.0) for sun in (1.0, 3.0)
    ]  # fmt: skip
    return pandas.DataFrame(rows)


def test_a_surface_has_the_means_of_the_runs():
    found = surface(runs_of(), "easy", JOBS, BATTERY, SUN)
    assert found is not None
    assert (found.x.tolist(), found.y.tolist(), found.runs) == ([10, 40, 70], [1, 3], 2)
    assert found.means.tolist() == [[20, 50, 80], [40, 70, 100]]
    assert found.written
    assert [found.reaches(value) for value in (10, 60, 100, 101)] == [False, True, True, False]
    assert surface(runs_of(), "easy", SWEEP_FIGURES[0], BATTERY, SUN) is None


def test_a_point_without_a_run_is_a_gap():
    runs = runs_of()
    found = surface(runs[(runs.battery_kwh < 70) | (runs.pv_kw > 1)], "easy", JOBS, BATTERY, SUN)
    assert found is not None
    assert np.isnan(found.means).tolist() == [[False, False, True], [False, False, False]]


def test_a_curve_has_the_range_of_the_seeds():
    found = curve(runs_of().query("pv_kw == 1"), "easy", JOBS, BATTERY)
    assert found is not None
    assert [values.tolist() for values in (found.mean, found.low, found.high)] == [
        [20, 50, 80], [19, 49, 79], [21, 51, 81],
    ]  # fmt: skip


def test_a_third_axis_gives_a_map_for_each_of_its_values():
    runs = runs_of().assign(tank_kg=1.0)
    runs = pandas.concat([runs, runs.assign(tank_kg=2.0)])
    axes = [BATTERY, SUN, SweptAxis("tank_kg", "tank [kg]")]
    assert [name for name, _ in slices(runs, axes)] == ["tank_kg 1", "tank_kg 2"]
    charts, _ = sweep_charts(runs, axes, "k")
    assert "Finished jobs: easy, tank_kg 2" in [chart.title for chart in charts]
    assert len({chart.key for chart in charts}) == len(charts)


def test_the_charts_of_a_page():
    charts, absent = sweep_charts(runs_of(), [BATTERY, SUN], "k")
    assert [chart.title for chart in charts] == ["Finished jobs: easy", "Finished jobs: beasy"]
    assert absent == ["finished work", "killed jobs", "unserved energy", "lowest state of charge"]
    cells, line = charts[0].spec["traces"]
    assert cells["z"] == [[20, 50, 80], [40, 70, 100]]
    assert (cells["zmin"], cells["zmax"], line["contours"]["start"]) == (20, 100, 99)
    lines, _ = sweep_charts(runs_of().query("pv_kw == 1"), [BATTERY], "k")
    assert [trace["name"] for trace in lines[0].spec["traces"]] == ["easy", "beasy"]


@pytest.mark.slow
def test_a_page_has_maps_and_a_row_a_point():
    pytest.importorskip("plotly")
    swept, other = runs_of(), runs_of().assign(scenario="t")
    text = "".join(campaign_html("c", pandas.concat([swept, other]), 48, sweeps={"s": [BATTERY, SUN]}))
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["s: guard shed, with veto", "t: guard shed, with veto"]
    assert re.search(
        r'<th scope="row">easy, battery_kwh 40, pv_kw 3(<details>.*?</details>)?</th>'
        r'<td data-value="2.0">2</td>'
        r'<td data-value="70[.0-9]*">70.00 <span class="spread">\[57.29, 82.71\]</span></td>',
        text,
    )


@pytest.mark.sampled
@pytest.mark.parametrize(("axes", "suffix"), [([BATTERY, SUN], ".png"), ([BATTERY], ".svg")])
def test_a_picture(axes, suffix):
    pytest.importorskip("matplotlib")
    runs = runs_of() if len(axes) == 2 else runs_of().query("pv_kw == 1")
    made = [
        draw_sweep(runs, axes, SWEEP_FIGURES[1:2], title="s", wanted_pct=75.0, suffix=suffix) for _ in "ab"
    ]
    assert made[0] == made[1]
    if suffix == ".png":
        from matplotlib.image import imread

        assert imread(io.BytesIO(made[0])).std() > 0.05


def test_what_cannot_be_drawn():
    pytest.importorskip("matplotlib")
    with pytest.raises(ConfigError, match="expected png, svg, pdf"):
        draw_sweep(runs_of(), [BATTERY, SUN], SWEEP_FIGURES, title="s", wanted_pct=99, suffix=".gif")
    with pytest.raises(ConfigError, match="nothing to plot"):
        draw_sweep(runs_of(), [BATTERY, SUN], SWEEP_FIGURES[:1], title="s", wanted_pct=99)
