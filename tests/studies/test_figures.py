"""The figures for papers: axes, labels and legends, sizes, the same bytes each time."""

# ruff: noqa: E501 (a figure a line)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from studies.figures import (
    ONE_COLUMN_IN,
    OUTCOMES,
    TWO_COLUMNS_IN,
    BoxPanel,
    MeanBars,
    PowerCurves,
    SocCurve,
    box_figure,
    nine_curves_figure,
    outcome_figure,
    paper_style,
    power_figure,
    prediction_figure,
    save_figure,
    soc_figure,
    tuple_figure,
)

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.planner.forecast import CURVES, Forecast

POLICIES = ("follow-plan", "workload-reactive", "beasy")
HOURS = np.arange(1.0, 73.0)
WAVE_W = 3000.0 + 2000.0 * np.sin(HOURS / 4.0)
BATTERY = BatterySpec(3.6e8)


@pytest.fixture(autouse=True)
def style():
    with paper_style():
        yield


def bars(*means: float) -> MeanBars:
    mean = np.array(means)
    return MeanBars(mean, mean - 1.0, mean + 2.0)


def outcomes():
    shares = {
        "finished_pct": np.array([80.0, 90.0, 98.0]),
        "postponed_pct": np.array([5.0, 0.0, 2.0]),
        "reached_walltime_pct": np.array([1.0, 0.0, 0.0]),
        "not_completely_finished_pct": np.array([1.0, 1.0, 0.0]),
        "killed_pct": np.array([13.0, 9.0, 0.0]),
    }
    return outcome_figure(POLICIES, shares, bars(-12.0, 3.0, 0.0), bars(40.0, 20.0, 10.0))


def soc():
    wave = 50.0 + 25.0 * np.sin(HOURS / 6.0)
    curves = [
        SocCurve("workload-reactive", HOURS, wave, {30.0: 4, 31.0: 1}),
        SocCurve("beasy", HOURS, wave + 3.0),
    ]
    return soc_figure(curves, BATTERY)


def nine(danger: bool = True):
    curves = np.linspace(10, 80, 9)[:, None] + np.zeros((9, len(HOURS)))
    return nine_curves_figure(HOURS, curves, CURVES, (HOURS > 60) & danger, BATTERY)


def predictions():
    forecast = Forecast(WAVE_W, np.full(len(HOURS), 0.2))
    return prediction_figure(HOURS, forecast, forecast)


def powers(title: str) -> PowerCurves:
    return PowerCurves(title, WAVE_W, {"best case": 1.1 * WAVE_W, "worst case": 0.9 * WAVE_W})


def boxes():
    random = np.random.default_rng(1)
    panels = [
        BoxPanel(random.normal(90, 3, (20, 3)), "finished jobs [%]"),
        BoxPanel(random.normal(50, 9, (20, 3)), "SoC [%]", 50.0),
    ]
    return box_figure(POLICIES, panels)


FIGURES = {
    "outcomes": (outcomes, TWO_COLUMNS_IN, {"share of the jobs [%]", "final SoC less target [points]", "wasted energy [kWh]"}),
    "soc": (soc, ONE_COLUMN_IN, {"time [h]", "state of charge [%]", "workload-reactive kills jobs (5)", "beasy"}),
    "nine": (nine, ONE_COLUMN_IN, {"low production", "high demand", "dangerous steps", "time [h]"}),
    "predictions": (predictions, ONE_COLUMN_IN, {"production [kW]", "demand [kW]", "uncertainty"}),
    "power": (lambda: power_figure(HOURS, [powers("first")], powers("sun")), ONE_COLUMN_IN, {"without noise", "worst case", "power [kW]", "first"}),
    "tuples": (lambda: tuple_figure(HOURS, [(powers(f"pair {n}"), powers("p")) for n in range(3)]), TWO_COLUMNS_IN, {"pair 2", "time [h]", "demand: without"}),
    "boxes": (boxes, TWO_COLUMNS_IN, {"finished jobs [%]", "SoC [%]", "target SoC", "beasy"}),
}  # fmt: skip


def texts(figure) -> set[str]:
    from matplotlib.text import Text

    return {part.get_text() for part in figure.findobj(Text) if part.get_visible()}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FIGURES)
def test_what_is_said(name):
    make, width_in, said = FIGURES[name]
    figure = make()
    assert figure.get_size_inches()[0] == width_in
    assert said <= texts(figure)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FIGURES)
def test_nothing_reaches_beyond_the_paper(name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = FIGURES[name][0]()
    FigureCanvasAgg(figure).draw()
    inside = figure.bbox.padded(2.0)
    for axes in figure.axes:
        if axes.get_visible():
            box = axes.get_tightbbox()
            assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, name
            assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, name
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, name
        assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes), name


def test_outcomes_differ_by_more_than_colour():
    assert len({hatch for *_, hatch in OUTCOMES}) == len(OUTCOMES)


def test_a_target_that_is_met_but_for_rounding_has_no_minus():
    shares = {column: np.zeros(3) for column, *_ in OUTCOMES}
    shown = texts(outcome_figure(POLICIES, shares, bars(-7e-15, 3.0, -4.0), bars(40.0, 20.0, 10.0)))
    assert {"+0.0", "+3.0", "-4.0"} <= shown
    assert "-0.0" not in shown


def test_no_danger_no_shade():
    assert "dangerous steps" not in texts(nine(danger=False))


@pytest.mark.slow
def test_files(tmp_path: Path):
    written = save_figure(outcomes(), tmp_path / "figures", "fig09")
    assert [path.name for path in written] == ["fig09.pdf", "fig09.png"]
    first = [path.read_bytes() for path in written]
    assert first[0].startswith(b"%PDF")
    assert first[1].startswith(b"\x89PNG")
    assert [path.read_bytes() for path in save_figure(outcomes(), tmp_path / "figures", "fig09")] == first
