"""The figure of a plan: every format, every panel, the same bytes each time."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from plan_cases import hand_plan, hand_season, hydrogen

from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugins.reports.plan_figures import draw_plan, draw_season

pytest.importorskip("matplotlib", reason="figures need matplotlib")

PLAN = hand_plan()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF"), ("", b"\x89PNG")]
)
def test_formats(suffix: str, begins: bytes) -> None:
    drawn = draw_plan(PlanStore([PLAN]), suffix)
    assert drawn.startswith(begins)
    assert draw_plan(PlanStore([PLAN]), suffix) == drawn


def test_unknown_format() -> None:
    with pytest.raises(ConfigError, match=r"figure format: found '.gif', expected png, svg, pdf"):
        draw_plan(PlanStore([PLAN]), ".gif")


def text_of(plans: PlanStore, monkeypatch: pytest.MonkeyPatch) -> str:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    return draw_plan(plans, ".svg").decode()


def test_clip_paths_are_named_by_their_order() -> None:
    """Not by sizes, whose last digits differ between processes."""
    drawn = draw_season(SEASON, ".svg")
    names = re.findall(rb'clipPath id="(.*?)"', drawn)
    assert len(names) > 1
    assert set(names) == {b"p%d" % number for number in range(len(names))}
    assert set(re.findall(rb"url\(#(.*?)\)", drawn)) == set(names)


@pytest.mark.slow
def test_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(PlanStore([PLAN]), monkeypatch)
    for part in ("up to 50.0 % of a step", "production", "demand and its band", "servers on", "battery [%]"):
        assert part in text
    assert "hydrogen" not in text


@pytest.mark.slow
def test_a_grid_and_no_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    power = replace(
        PLAN.power,
        charge_w=np.zeros(3),
        discharge_w=np.zeros(3),
        battery_j=np.zeros(4),
        import_w=np.full(3, 5e3),
    )
    plan = replace(PLAN, power=power, storage=Storage(NO_BATTERY), servers=None)
    text = text_of(PlanStore([plan]), monkeypatch)
    assert "grid, storage [kW]" in text
    assert "battery" not in text
    assert "grid" not in text_of(PlanStore([PLAN]), monkeypatch).replace("gridlines", "")


@pytest.mark.slow
def test_demand_that_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    power = replace(PLAN.power, load_w=np.array([2e3, 2e3, 1e3]))
    text = text_of(PlanStore([replace(PLAN, power=power)]), monkeypatch)
    assert "all demand is met" in text
    assert "demand not met" not in text


@pytest.mark.slow
def test_hydrogen_and_unmet_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    power = replace(PLAN.power, load_w=np.array([2e3, 2e3, 2e3]), hydrogen_kg=np.ones(4))
    power = replace(power, load_w=np.array([2e3, 4e3, 2e3]))
    plan = replace(PLAN, power=power, storage=Storage(PLAN.storage.battery, hydrogen()))
    text = text_of(PlanStore([plan, replace(plan, start_s=plan.end_s)]), monkeypatch)
    assert "hydrogen [kg]" in text
    assert "demand not met" in text
    assert "up to 50.0 %, 50.0 %" in text


SEASON = hand_season(years=2, repeat=10, start="2019-12-20T00:00:00+01:00")


def test_unknown_format_of_a_season() -> None:
    with pytest.raises(ConfigError, match=r"found '.gif'"):
        draw_season(SEASON, ".gif")


@pytest.mark.slow
def test_panels_and_months(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    drawn = draw_season(SEASON, ".svg")
    for part in ("Dec 2019", "Jan 2020", "production", "curtailed", "battery [%]", "all years", "mean of 2"):
        assert part in drawn.decode()
    assert "45.0 % of the demand is not met" in drawn.decode()
    assert draw_season(SEASON, ".svg") == drawn


@pytest.mark.slow
def test_days_where_no_date_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    assert "time [days]" in draw_season(hand_season(), ".svg").decode()


@pytest.mark.slow
def test_what_is_not_lost_has_no_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    year = hand_season().years[0]
    nothing = np.zeros_like(year.unmet_w)
    for unmet_w, shown in ((year.unmet_w + 1.0, True), (nothing, False)):
        season = replace(hand_season(), years=(replace(year, curtailed_w=nothing, unmet_w=unmet_w),))
        drawn = draw_season(season, ".svg").decode()
        assert (">demand not met<" in drawn) == shown
        assert ">curtailed<" not in drawn
        assert "nothing is curtailed" in drawn
        assert drawn.count('id="axes_') == 3 + shown


@pytest.mark.slow
def test_a_season_within_a_month_is_marked_by_days(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    drawn = draw_season(hand_season(start="2019-12-20T00:00:00+01:00"), ".svg").decode()
    assert "time [days]" in drawn
    assert "Dec" not in drawn


@pytest.mark.slow
def test_servers_are_counted_in_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PLAN.servers is not None
    four_times = {name: np.tile(getattr(PLAN.servers, name), 4) for name in ("kind_of", "states")}
    twelve = replace(PLAN, servers=replace(PLAN.servers, **four_times))
    numbers = re.findall(r">([\d.]+)</text>", text_of(PlanStore([twelve]), monkeypatch))
    assert "10" in numbers
    assert not {"2.5", "7.5", "10.0", "12.5"} & {*numbers}
