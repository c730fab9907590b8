"""The coarse plan of a whole horizon: optima by hand and by brute force, balance and limits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import HOUR_S, battery, hydrogen, two_kinds

from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec, LossConvention
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError
from beasy_sched.planner import season as season_module
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import Provenance
from beasy_sched.planner.season import NoSeason, Season, SeasonProblem, plan_season
from beasy_sched.planner.windows import plan_windows
from beasy_sched.units import kwh_to_j

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

DAY_S = 86_400.0
MADE_BY = Provenance("a test")
IN_KWH, OUT_KWH = 39.4, 33.3
"""Energy of a kilogram, into an electrolyzer and out of a fuel cell without losses."""


def tank(**changes: Any) -> HydrogenSpec:
    """An empty tank of 2 kg; electrolyzer and fuel cell of 10 kW, without losses."""
    values = {
        "tank_kg": 2.0,
        "level_start_kg": 0.0,
        "level_target_kg": 0.0,
        "electrolyzer_max_w": 1e4,
        "fuel_cell_max_w": 1e4,
        "electrolyzer_efficiency": 1.0,
        "fuel_cell_efficiency": 1.0,
    }
    return HydrogenSpec(**{**values, **changes})


def planned(load_w: Any, renew_w: Any, storage: Storage, step_s: float = DAY_S, **more: Any) -> Season:
    window_s = more.pop("window_s", step_s)
    problem = SeasonProblem(
        storage, np.array(load_w, float), np.array(renew_w, float), step_s, window_s, **more
    )
    return plan_season(problem, provenance=MADE_BY)


class TestTwoDaysOfSunAndTwoWithout:
    """1 kW is wanted on all four days; 6 kW arrive on the first two, nothing on the last two."""

    LOAD_W, SUN_W = (1e3,) * 4, (6e3, 6e3, 0.0, 0.0)

    def test_everything_is_met_and_the_tank_is_filled_at_once(self) -> None:
        """24 kWh a day need 24 / 33.3 kg; the first day's surplus of 120 kWh would make more than 2 kg."""
        season = planned(self.LOAD_W, self.SUN_W, Storage(NO_BATTERY, tank()))
        a_day = 24.0 / OUT_KWH
        np.testing.assert_allclose(
            season.hydrogen_kg, [0.0, 2.0, 2.0, 2.0 - a_day, 2.0 - 2 * a_day], atol=1e-7
        )
        year = season.years[0]
        np.testing.assert_allclose(year.unmet_w, 0.0, atol=1e-6)
        np.testing.assert_allclose(year.electrolyzer_w * 0.024, [2.0 * IN_KWH, 0.0, 0.0, 0.0], atol=1e-5)
        np.testing.assert_allclose(year.curtailed_w * 0.024, [120 - 2.0 * IN_KWH, 120.0, 0.0, 0.0], atol=1e-5)
        assert season.targets_kg == pytest.approx(season.hydrogen_kg[1:])

    def test_a_shortage_is_spread_in_tenths(self) -> None:
        """An electrolyzer of 1 kW makes 48 / 39.4 kg: 40.6 of the 48 kWh of the dark days are there.

        Each of these days gives up a tenth (2.4 kWh) first, then the first of them another tenth, since the
        hydrogen is worth more the longer it is kept; the last day gives up the rest.
        """
        season = planned(self.LOAD_W, self.SUN_W, Storage(NO_BATTERY, tank(electrolyzer_max_w=1e3)))
        missing = 48.0 - 48.0 / IN_KWH * OUT_KWH
        kwh = season.years[0].unmet_w * 0.024
        np.testing.assert_allclose(kwh, [0.0, 0.0, 4.8, missing - 4.8], atol=1e-5)
        made = 24.0 / IN_KWH
        after_third = 2 * made - (24.0 - 4.8) / OUT_KWH
        np.testing.assert_allclose(season.hydrogen_kg, [0.0, made, 2 * made, after_third, 0.0], atol=1e-7)

    def test_the_tank_ends_as_it_starts(self) -> None:
        """Half a kilogram is there, and stays: 1.5 kg serve the dark days."""
        season = planned(self.LOAD_W, self.SUN_W, Storage(NO_BATTERY, tank(level_start_kg=1.0)))
        assert season.hydrogen_kg[-1] == pytest.approx(1.0)
        assert season.years[0].unmet_w.sum() * 0.024 == pytest.approx(48.0 - OUT_KWH)

    def test_an_end_that_is_asked_for(self) -> None:
        storage = Storage(NO_BATTERY, tank(level_start_kg=1.0))
        season = planned(self.LOAD_W, self.SUN_W, storage, end_kg=0.0)
        assert season.hydrogen_kg[-1] == pytest.approx(2.0 - 48.0 / OUT_KWH)
        with pytest.raises(NoSeason, match=r"cannot reach 2 kg: .* at most 1.21827 kg"):
            planned(self.LOAD_W, self.SUN_W, Storage(NO_BATTERY, tank(electrolyzer_max_w=1e3)), end_kg=2.0)

    def test_several_years(self) -> None:
        """Each is planned for itself; targets are the means."""
        problem = SeasonProblem(
            Storage(NO_BATTERY, tank()), np.array(self.LOAD_W), np.array(self.SUN_W), DAY_S, DAY_S
        )
        dark = np.full(4, 1e3)
        season = plan_season(problem, (dark,), provenance=MADE_BY)
        assert season.years[1].hydrogen_kg.max() == pytest.approx(0.0, abs=1e-9)
        assert season.targets_kg[0] == pytest.approx(1.0)
        assert [solved.name for solved in season.provenance.solved] == ["year 0", "year 1"]
        with pytest.raises(ConfigError, match="expected the same number"):
            plan_season(problem, (dark[:3],), provenance=MADE_BY)


@pytest.mark.parametrize(("drawn", "stored"), [(1.2, True), (39.5, True), (40.4, True), (41.2, False)])
def test_what_is_left_at_the_end_has_its_worth(drawn: float, stored: bool) -> None:
    """Only the last of 48 hours has a surplus: it is stored where its worth, 0.4 (1 + 1/48) of what the fuel
    cell makes of it, exceeds the throughput's price of 0.01. The fuel cell draws ``drawn`` times the
    hydrogen that the electrolyzer makes of the same energy.
    """
    load_w = np.full(48, 1e3)
    sun_w = load_w + 1e3 * (np.arange(48) == 47)
    efficiency = (IN_KWH / OUT_KWH / drawn) ** 0.5
    spec = tank(electrolyzer_efficiency=efficiency, fuel_cell_efficiency=efficiency)
    season = planned(load_w, sun_w, Storage(NO_BATTERY, spec), HOUR_S)
    assert season.hydrogen_kg[-1] == pytest.approx(efficiency / IN_KWH if stored else 0.0, abs=1e-9)
    np.testing.assert_allclose(season.hydrogen_kg[:-1], 0.0, atol=1e-9)


LOSSLESS = {"charge_efficiency": 1.0, "discharge_efficiency": 1.0, "self_discharge_per_day": 0.0}


@pytest.mark.parametrize(
    ("sun_kw", "unmet_kw", "stored_kwh"),
    [
        ([0, 2, 0, 2], [0, 0, 0, 0], [5, 4, 5, 4, 5]),  # within a window, the battery may give
        ([0, 1, 0, 1], [1, 0, 1, 0], [5, 5, 5, 5, 5]),  # at its end, the target comes before the demand
    ],
)
def test_the_battery_has_its_target_at_the_end_of_each_window(
    sun_kw: list[float], unmet_kw: list[float], stored_kwh: list[float]
) -> None:
    cells = battery(10.0, soc_start_pct=50.0, soc_target_pct=50.0, **LOSSLESS)
    sun_w = 1e3 * np.array(sun_kw)
    season = planned([1e3] * 4, sun_w, Storage(cells, tank()), HOUR_S, window_s=2 * HOUR_S)
    np.testing.assert_allclose(season.years[0].battery_j[::2], kwh_to_j(1.0) * np.array(stored_kwh)[::2])
    windows_kw = season.years[0].unmet_w.reshape(2, 2).sum(axis=1) / 1e3
    np.testing.assert_allclose(windows_kw, np.array(unmet_kw).reshape(2, 2).sum(axis=1), atol=1e-6)


def test_what_a_battery_loses_at_its_least_is_missing_before_the_charger() -> None:
    """Nothing arrives: to keep the battery at SoC_min, twice its loss would have to be charged."""
    changes = LOSSLESS | {"charge_efficiency": 0.5, "self_discharge_per_day": 0.1}
    cells = battery(10.0, soc_min_pct=50.0, soc_start_pct=50.0, soc_target_pct=50.0, **changes)
    season = planned([0.0] * 2, [0.0] * 2, Storage(cells, tank()), DAY_S)
    lost_w = 0.1 * kwh_to_j(5.0) / DAY_S
    np.testing.assert_allclose(season.years[0].unmet_w, lost_w / 0.5, rtol=1e-6)
    np.testing.assert_allclose(season.years[0].battery_j, kwh_to_j(5.0))


@pytest.mark.parametrize("end_kg", [None, 0.0])
def test_a_battery_that_cannot_stay_at_its_least(end_kg: float | None) -> None:
    """At 20 kWh it loses 0.2 kWh a day, 8.3 W; a charger of 5 W does not make up for that."""
    weak = BatterySpec(
        kwh_to_j(100), soc_start_pct=20, soc_target_pct=20, charge_limit_w=5.0, self_discharge_per_day=0.01
    )
    with pytest.raises(NoSeason, match=r"cannot stay at soc_min_pct \(20 %\): .* loses 8\.333 W .* 4\.75 W"):
        planned([100.0] * 4, [1e3] * 4, Storage(weak, tank()), end_kg=end_kg)


@pytest.mark.parametrize("end_kg", [None, 0.0])
@pytest.mark.parametrize(
    ("load_w", "soc_pct", "loss_per_day", "changes"),
    [
        ([0.0, 0.0], 90.0, 0.9, {"charge_efficiency": 0.5}),  # a loss of 1.6 kW beside no demand at all
        ([1.0, 1.0], 50.0, 0.9, {"charge_efficiency": 0.001}),  # a charger that loses nearly everything
    ],
)
def test_a_battery_that_loses_much_is_held_at_its_least(
    load_w: list[float], soc_pct: float, loss_per_day: float, changes: dict[str, float], end_kg: float | None
) -> None:
    """Nothing arrives: the demand and what holds the battery are missing, hour by hour."""
    cells = BatterySpec(
        kwh_to_j(10.0),
        soc_min_pct=soc_pct,
        soc_max_pct=95.0,
        soc_start_pct=soc_pct,
        soc_target_pct=soc_pct,
        self_discharge_per_day=loss_per_day,
        **changes,
    )
    season = planned(load_w, np.zeros(len(load_w)), Storage(cells, tank()), HOUR_S, end_kg=end_kg)
    lost_w = (1.0 - (1.0 - loss_per_day) ** (1 / 24)) * 1e4 * soc_pct / 100.0
    year = season.years[0]
    np.testing.assert_allclose(year.unmet_w, np.array(load_w) + lost_w / cells.charge_efficiency, rtol=1e-4)
    np.testing.assert_allclose(year.battery_j, kwh_to_j(10.0) * soc_pct / 100.0, rtol=1e-5)


def test_a_charger_that_only_just_makes_up_for_the_loss() -> None:
    """The presolve of HiGHS takes the single level that is left for none."""
    cells = BatterySpec(
        kwh_to_j(10.0),
        soc_min_pct=50.0,
        charge_limit_w=2.20378,
        discharge_limit_w=100.0,
        discharge_efficiency=0.5,
        self_discharge_per_day=0.01,
    )
    h2 = tank(tank_kg=0.1, fuel_cell_efficiency=0.5)
    season = planned([2e3, 5e3, 0.0, 2e3], [0.0, 0.0, 0.0, 1e3], Storage(cells, h2), HOUR_S)
    np.testing.assert_allclose(season.years[0].unmet_w, np.array([2e3, 5e3, 0.0, 1e3]) + 2.2036, rtol=1e-3)


def test_a_discharger_that_loses_nearly_everything() -> None:
    """It takes a thousand times what it gives: what the solver rounds would empty the battery."""
    cells = battery(1.0, soc_start_pct=100.0, soc_target_pct=100.0, self_discharge_per_day=0.05)
    cells = replace(cells, discharge_efficiency=0.001)
    h2 = hydrogen(tank_kg=10.0, level_start_kg=5.0, electrolyzer_max_w=1e3, fuel_cell_max_w=1e4)
    load_w, renew_w = [5e3, 1e5, 1e5, 1e3, 1e3], [3e3, 3e3, 0.0, 0.0, 3e3]
    season = planned(load_w, renew_w, Storage(cells, h2), 6 * HOUR_S)  # its levels are checked
    lost_w = (1.0 - 0.95**0.25) * 1e3 / 6.0
    missing_w = np.maximum(np.array(load_w) + lost_w - renew_w, 0.0)
    stored_w = 1e3 * 0.65 * 0.5 * OUT_KWH / IN_KWH  # of the surplus of the last step
    assert season.years[0].unmet_w.sum() == pytest.approx(missing_w.sum() - stored_w, rel=1e-6)


def test_a_battery_fills_the_tank_where_nothing_else_happens() -> None:
    """No demand and no production: 90 % of the battery's energy through an electrolyzer of 29 kW."""
    cells = battery(1e6, soc_start_pct=100.0, discharge_efficiency=0.9)
    h2 = tank(tank_kg=1e4, electrolyzer_max_w=29e3)
    season = planned([0.0] * 4, [0.0] * 4, Storage(cells, h2), end_kg=96 * 29.0 / IN_KWH * 0.999)
    assert season.hydrogen_kg[-1] == pytest.approx(96 * 29.0 / IN_KWH, rel=2e-3)
    np.testing.assert_allclose(season.years[0].discharge_w, season.years[0].electrolyzer_w, atol=1.0)


def test_what_the_tank_reaches_is_told_only_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(season_module._SeasonModel, "most_kg", lambda model, limits: None)
    with pytest.raises(NoSeason, match=r"cannot reach 2 kg$"):
        planned([1e3] * 4, [0.0] * 4, Storage(NO_BATTERY, tank()), end_kg=2.0)


def test_sleeping_servers_come_before_demand() -> None:
    """Nothing arrives; 10 kWh of hydrogen are there, and the sleeping servers need 4 kWh in each hour."""
    spec = tank(level_start_kg=10.0 / OUT_KWH)
    season = planned([10e3, 10e3], [0.0, 0.0], Storage(NO_BATTERY, spec), HOUR_S, floor_w=4e3, end_kg=0.0)
    assert np.all(season.years[0].fuel_cell_w >= 4e3 - 1e-3)
    assert season.years[0].fuel_cell_w.sum() == pytest.approx(10e3)


def test_a_grid_gives_what_the_sun_does_not_but_fills_no_tank() -> None:
    storage = Storage(NO_BATTERY, tank())
    season = planned([1e3] * 4, [0.0] * 4, storage, import_limit_w=600.0, base_w=200.0)
    year = season.years[0]
    np.testing.assert_allclose(year.import_w, 600.0, atol=1e-6)
    np.testing.assert_allclose(year.unmet_w, 600.0, atol=1e-6)
    assert season.hydrogen_kg.max() < 1e-9
    sunny = planned([1e3] * 4, [6e3, 6e3, 0.0, 0.0], storage, import_limit_w=np.inf).years[0]
    np.testing.assert_allclose(sunny.import_w, 0.0, atol=1e-6)  # the tank's energy first


def test_targets_of_the_first_windows() -> None:
    season = planned((1e3,) * 4, (6e3, 6e3, 0.0, 0.0), Storage(NO_BATTERY, tank()))
    assert season.targets_for(2) == season.targets_kg[:2]
    with pytest.raises(ConfigError, match="covers 4 windows, the plan has 5"):
        season.targets_for(5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"storage": Storage(battery())}, "no hydrogen, so a seasonal plan is not possible"),
            ({"window_s": 3 * DAY_S}, "at least two windows of 72 h"),
            (
                {"window_s": 1.5 * DAY_S},
                "--season-step 1 d: .* windows of 1.5 d must be a whole number",
            ),
            ({"renew_w": np.ones(3)}, "the demand has 4 steps and the production 3"),
            ({"renew_w": np.array([1, np.nan, 1, 1])}, "the production is nan W at step 1"),
            ({"end_kg": 5.0}, "--season-end: found 5 kg, expected 0 to tank_kg"),
        ],
    )
    def test_what_is_wrong_is_named(self, changes: dict[str, Any], message: str) -> None:
        values: dict[str, Any] = {
            "storage": Storage(NO_BATTERY, tank()),
            "load_w": np.ones(4),
            "renew_w": np.ones(4),
            "step_s": DAY_S,
            "window_s": DAY_S,
        }
        with pytest.raises(ConfigError, match=message):
            SeasonProblem(**{**values, **changes})

    def test_another_site(self) -> None:
        season = planned((1e3,) * 4, (6e3, 6e3, 0.0, 0.0), Storage(NO_BATTERY, tank()))
        season.check_site(Storage(battery(), tank(level_target_kg=1.0)), DAY_S)
        with pytest.raises(ConfigError, match="a tank of 2 kg, the site has a tank of 3 kg"):
            season.check_site(Storage(NO_BATTERY, tank(tank_kg=3.0)), DAY_S)
        with pytest.raises(ConfigError, match="windows of 24 h, the site has windows of 48 h"):
            season.check_site(season.storage, 2 * DAY_S)


def least_unmet(load: list[int], renew: list[int], size: int, start: int, stock: int) -> int:
    """Least energy that is not met, by trying all: a lossless battery, and a stock that is only used up.

    Whole numbers are enough, since those of an optimum follow from sums of the inputs.
    """

    @cache
    def from_hour(hour: int, level: int, left: int) -> int:
        if hour == len(load):
            return 0
        best = 10**9
        for used in range(left + 1):
            net = level + renew[hour] + used - load[hour]
            missing = max(0, -net)
            # It may also leave some demand unmet to keep energy, which the later hours show the worth of.
            for more in range(load[hour] - missing + 1):
                after = min(size, net + missing + more)
                best = min(best, missing + more + from_hour(hour + 1, after, left - used))
        return best

    return from_hour(0, start, stock)


HOURS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(HOURS, st.integers(1, 4), st.integers(0, 3))
def test_no_more_is_unmet_than_brute_force_finds(hours: list[tuple[int, int]], size: int, stock: int) -> None:
    load, renew = [hour[0] for hour in hours], [hour[1] for hour in hours]
    spec = battery(float(size), soc_start_pct=100.0)
    h2 = tank(tank_kg=1.0, level_start_kg=stock / OUT_KWH, electrolyzer_max_w=0.0)
    season = planned(1e3 * np.array(load), 1e3 * np.array(renew), Storage(spec, h2), HOUR_S, end_kg=0.0)
    unmet_kwh = season.years[0].unmet_w.sum() / 1e3
    assert unmet_kwh == pytest.approx(least_unmet(load, renew, size, size, stock), abs=1e-5)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(
    powers=st.lists(st.tuples(st.floats(0, 9e3), st.floats(0, 2e4)), min_size=4, max_size=24),
    loss=st.sampled_from(list(LossConvention)),
    limit_w=st.sampled_from([500.0, 3e3, np.inf]),
    floor_w=st.sampled_from([0.0, 300.0]),
    base_w=st.sampled_from([0.0, 150.0]),
    import_w=st.sampled_from([0.0, 1e3]),
    sleepy=st.sampled_from([0.0, 0.05]),
    window=st.integers(1, 2),
)
def test_energy_is_balanced_and_limits_are_kept(
    powers: list[tuple[float, float]],
    loss: LossConvention,
    limit_w: float,
    floor_w: float,
    base_w: float,
    import_w: float,
    sleepy: float,
    window: int,
) -> None:
    """Counted here from the powers alone, hour by hour."""
    load_w, renew_w = (np.array(values) for values in zip(*powers, strict=True))
    cells = BatterySpec(
        kwh_to_j(8.0),
        charge_limit_w=limit_w,
        discharge_limit_w=limit_w,
        self_discharge_per_day=sleepy,
        loss=loss,
    )
    h2 = hydrogen(electrolyzer_max_w=2e3, fuel_cell_max_w=900.0)
    season = planned(
        load_w,
        renew_w,
        Storage(cells, h2),
        HOUR_S,
        window_s=window * HOUR_S,
        floor_w=floor_w,
        base_w=base_w,
        import_limit_w=import_w,
    )
    year = season.years[0]
    level_j, level_kg = cells.start_j, h2.level_start_kg
    for at in range(len(load_w)):
        gave = (
            renew_w[at] + year.discharge_w[at] + year.fuel_cell_w[at] + year.import_w[at] + year.unmet_w[at]
        )
        took = load_w[at] + base_w + year.charge_w[at] + year.electrolyzer_w[at] + year.curtailed_w[at]
        assert gave == pytest.approx(took, abs=0.05)
        level_j = level_j * (1 - sleepy) ** (1 / 24) + 3600 * 0.95 * year.charge_w[at]
        out = 0.95 if loss is LossConvention.PRINTED else 1 / 0.95
        level_j -= 3600 * out * year.discharge_w[at]
        level_kg += year.electrolyzer_w[at] / 1e3 * 0.65 / IN_KWH - year.fuel_cell_w[at] / 1e3 / (
            0.5 * OUT_KWH
        )
        assert year.battery_j[at + 1] == pytest.approx(level_j, abs=100.0)
        assert year.hydrogen_kg[at + 1] == pytest.approx(level_kg, abs=1e-5)
    assert year.battery_j.min() >= cells.min_j - 100.0
    assert year.battery_j.max() <= cells.max_j + 100.0
    assert year.hydrogen_kg.min() >= -1e-6
    assert year.hydrogen_kg.max() <= 2.0 + 1e-6
    assert year.hydrogen_kg[-1] >= 1.0 - 1e-5
    assert max(year.charge_w.max(), year.discharge_w.max()) <= limit_w + 0.01
    assert year.electrolyzer_w.max() <= 2e3 + 0.01
    assert year.fuel_cell_w.max() <= 900.0 + 0.01
    assert np.all(year.unmet_w <= load_w + base_w + 0.05 * 8e3)


class TestWindowsWithTargets:
    """Three windows of six hours; the tank's 1 kg is worth 16.65 kWh."""

    PLATFORM = two_kinds(6)
    SITE = Site(Storage(battery(0.5), hydrogen()), step_s=300.0, window_s=6 * HOUR_S)
    LOAD_W = np.full(72 * 3, 300.0)

    def levels(self, renew_w: float, targets_kg: tuple[float, ...]) -> tuple[list[float], float]:
        """The tank's level at the end of each window, and the demand that is not met, kWh."""
        plans = plan_windows(
            self.SITE,
            self.PLATFORM,
            self.LOAD_W,
            np.full(72 * 3, renew_w),
            options=OfflineOptions(tank_targets_kg=targets_kg),
            provenance=MADE_BY,
        )
        unmet_kwh = sum(plan.power.shortfall_w.sum() for plan in plans) * 300.0 / 3.6e6
        if targets_kg:
            specs = [plan.storage.hydrogen for plan in plans]
            assert [spec.level_target_kg for spec in specs if spec] == list(targets_kg)
        return [float(plan.power.hydrogen_kg[-1]) for plan in plans], unmet_kwh

    def test_the_fuel_cell_leaves_the_target(self) -> None:
        levels, unmet_kwh = self.levels(150.0, (0.96, 0.95, 0.90))
        assert levels == pytest.approx([0.96, 0.95, 0.90], abs=2e-3)
        _, unmet_with_site_target = self.levels(150.0, ())
        assert unmet_kwh < unmet_with_site_target - 1.0

    def test_surplus_fills_the_tank_as_far_as_it_goes(self) -> None:
        levels, unmet_kwh = self.levels(700.0, (1.02, 1.05, 2.0))
        assert levels[:2] == pytest.approx([1.02, 1.05], abs=1e-4)
        filled_kwh = 6 * 0.4 - 0.25  # the battery, which loses nothing, is filled first
        assert levels[2] == pytest.approx(1.05 + filled_kwh * 0.65 / IN_KWH, abs=1e-4)
        assert unmet_kwh == pytest.approx(0.0, abs=1e-3)

    @pytest.mark.slow
    def test_no_demand_is_given_up_to_fill_the_tank(self) -> None:
        _, unmet_kwh = self.levels(290.0, (1.0, 1.0, 1.0))
        levels, no_more_kwh = self.levels(290.0, (2.0, 2.0, 2.0))
        assert no_more_kwh == pytest.approx(unmet_kwh, abs=0.02)
        assert levels == pytest.approx([1.0] * 3, abs=1e-3)

    def test_sleeping_servers_come_before_the_target(self) -> None:
        """5 x 5 W asleep and 50 W that never sleep: darkness takes from what should be held."""
        levels, _ = self.levels(0.0, (1.0, 1.0, 1.0))
        assert 0.0 < levels[2] < levels[1] < levels[0] < 1.0

    def test_fewer_targets_than_windows(self) -> None:
        with pytest.raises(ConfigError, match="targets for 2 windows, expected 3"):
            self.levels(300.0, (1.0, 1.0))
