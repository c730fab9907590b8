"""Plans with a band of the battery's target, and with a value of the energy left: optima known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import battery, problem

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.end_value import MOST_WORTH, planned_worth, worth_at_price
from beasy_sched.energy.grid import Foreseen, Grid, Signal
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import parse_site
from beasy_sched.planner.plan import OPTIMAL
from beasy_sched.planner.power_plan import plan_power
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem, power_violations

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")


def solved(power_problem: PowerProblem) -> PowerPlan:
    decision = plan_power(power_problem)
    assert decision.solved.status == OPTIMAL, decision.solved
    assert decision.plan is not None
    assert power_violations(decision.plan, power_problem) == ()
    return decision.plan


def end_pct(plan: PowerPlan, spec: BatterySpec) -> float:
    return spec.soc_pct(float(plan.battery_j[-1]))


class TestBand:
    def test_a_dark_hour_ends_at_the_lower_edge(self) -> None:
        """Half of 10 kWh, target 50 %, a band of 5 points: 0.5 of the 2 kWh asked for are served."""
        spec = battery(soc_target_pct=50.0, target_band_pct=5.0)
        plan = solved(problem([2], [0], spec))
        assert end_pct(plan, spec) == pytest.approx(45.0, abs=1e-4)
        assert plan.relax_factor == pytest.approx(0.75, abs=1e-6)

    def test_the_band_serves_one_more_job(self) -> None:
        """Jobs of 1 kWh: without the band, the target allows one, with 10 points of 10 kWh two."""
        exact = battery(soc_start_pct=60.0, soc_target_pct=50.0)
        wide = replace(exact, target_band_pct=10.0)
        served_kwh = [
            float(np.minimum(plan.load_w, plan.envelope_w).sum()) / 1e3
            for plan in (solved(problem([2], [0], spec)) for spec in (exact, wide))
        ]
        assert served_kwh == pytest.approx([1.0, 2.0], abs=1e-4)

    def test_the_lower_edge_is_never_below_the_least_level(self) -> None:
        spec = battery(soc_min_pct=20.0, soc_target_pct=22.0, soc_start_pct=30.0, target_band_pct=10.0)
        assert spec.least_end_j == spec.min_j
        assert end_pct(solved(problem([9], [0], spec)), spec) == pytest.approx(20.0, abs=1e-4)

    def test_a_level_below_the_edge_gets_a_target_of_its_own(self) -> None:
        storage = Storage(battery(soc_target_pct=50.0, target_band_pct=5.0))
        within = StorageState(storage.battery.energy_j(46.0), 0.0)
        assert storage.with_targets_from(within) == storage
        lower = storage.with_targets_from(StorageState(storage.battery.energy_j(40.0), 0.0)).battery
        assert lower.soc_target_pct == pytest.approx(39.2)
        assert lower.least_end_j == lower.target_j

    @settings(max_examples=examples(60), deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8),
        st.floats(0.0, 30.0),
        st.floats(30.0, 70.0),
    )
    def test_a_plan_ends_in_the_band_or_above_and_serves_no_less(
        self, steps: list[tuple[int, int]], band: float, target: float
    ) -> None:
        load, renew = ([float(each[i]) for each in steps] for i in (0, 1))
        exact = battery(soc_start_pct=70.0, soc_target_pct=target, charge_efficiency=0.9)
        wide = replace(exact, target_band_pct=band)
        plans = [solved(problem(load, renew, spec)) for spec in (exact, wide)]
        assert end_pct(plans[1], wide) >= target - band - 1e-3
        assert plans[1].relax_factor <= plans[0].relax_factor + 1e-5


@pytest.mark.parametrize(
    ("final_pct", "off_points"), [(44.0, -1.0), (45.0, 0.0), (50.0, 0.0), (55.0, 0.0), (57.0, 2.0)]
)
def test_the_distance_counts_from_the_nearer_edge(final_pct: float, off_points: float) -> None:
    spec = battery(soc_target_pct=50.0, target_band_pct=5.0)
    assert spec.off_target_points(final_pct) == pytest.approx(off_points)
    figures = spec.figures(spec.energy_j(final_pct), 0.0)
    assert figures["soc_distance_points"] == pytest.approx(off_points)
    assert figures["target_band_pct"] == 5.0
    assert "target_band_pct" not in battery().figures(0.0, 0.0)


class TestEndValue:
    @pytest.mark.parametrize(("worth", "left_kwh"), [(0.7, 1.0), (0.9, 5.0)])
    def test_energy_is_kept_where_it_is_worth_more_than_what_it_serves(
        self, worth: float, left_kwh: float
    ) -> None:
        """A kWh left serves 0.8 kWh: below a worth of 0.8 the battery serves down to its target of 1 kWh."""
        spec = battery(discharge_efficiency=0.8, soc_target_pct=10.0)
        plan = solved(problem([9], [0], spec, end_worth=worth))
        assert plan.battery_j[-1] / 3.6e6 == pytest.approx(left_kwh, abs=1e-4)

    @pytest.mark.parametrize(("worth", "import_kw"), [(0.0, 0.0), (0.9, 0.0), (1.1, 3.0)])
    @pytest.mark.parametrize("pue", [1.0, 1.25])
    def test_the_grid_serves_where_the_charge_is_worth_more(
        self, worth: float, import_kw: float, pue: float
    ) -> None:
        spec = battery(soc_target_pct=10.0)
        given = problem([3], [0], spec, import_limit_w=5e3, end_worth=worth, pue=np.array([pue]))
        plan = solved(given)
        assert isinstance(plan.import_w, np.ndarray)
        assert plan.import_w[0] / 1e3 == pytest.approx(import_kw * pue, abs=1e-4)
        assert plan.relax_factor == 0.0

    def test_no_value_leaves_the_plan_as_it_is(self) -> None:
        spec = battery(soc_target_pct=10.0)
        plain, valued = (
            solved(problem([4, 2], [0, 3], each)) for each in (spec, replace(spec, end_value_per_kwh=0.0))
        )
        np.testing.assert_array_equal(plain.battery_j, valued.battery_j)

    def test_money_counts_at_the_mean_price(self) -> None:
        """A day at 0.1 and 0.3: 0.2 on average; 0.3 for a kWh left is worth 1.5 kWh of jobs."""
        price = Foreseen(Signal(np.array([0.0, 43_200.0, 86_400.0]), np.array([0.1, 0.3])))
        storage = Storage(battery(end_value_per_kwh=0.3))
        assert planned_worth(Site(storage, grid=Grid(price=price)), 0.0, 86_400.0) == pytest.approx(1.5)
        assert planned_worth(Site(storage), 0.0, 86_400.0) == 0.3
        assert planned_worth(Site(Storage(battery())), 0.0, 86_400.0) == 0.0

    def test_free_energy_makes_any_value_the_greatest(self) -> None:
        assert worth_at_price(0.1, 0.0) == worth_at_price(0.1, -1.0) == MOST_WORTH
        assert worth_at_price(0.0, 0.0) == 0.0


SITE = """
[battery]
capacity_kwh = 100
charge_limit_kw = 25
discharge_limit_kw = 50
"""
TARIFF = (
    '[grid]\ncurrency = "EUR"\n[[grid.tariff]]\nper_kwh = 0.2\n[time]\nstart = "2024-07-01T00:00:00+02:00"\n'
)


def test_the_fields_of_a_site_file() -> None:
    spec = parse_site(SITE + "target_band_pct = 5\nend_value_per_kwh = 0.5").storage.battery
    assert (spec.target_band_pct, spec.end_value_per_kwh) == (5.0, 0.5)
    assert spec.least_end_j == pytest.approx(162e6)
    assert parse_site(SITE + "end_value_per_kwh = 0.3\n" + TARIFF).storage.battery.end_value == 0.3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("target_band_pct = -1", "battery.target_band_pct: found -1, expected percentage points from 0 to"),
        ("target_band_pct = 101", "battery.target_band_pct: found 101, expected percentage points from 0 to"),
        ("target_band_pct = 50.5", "found 50.5, expected percentage points from 0 to soc_target_pct (50)"),
        ("target_band_pct = nan", "target_band_pct"),
        ('target_band_pct = "5"', "battery.target_band_pct"),
        ("end_value_per_kwh = -0.1", "battery.end_value_per_kwh: found -0.1, expected a finite number >= 0"),
        ("end_value_per_kwh = inf", "end_value_per_kwh"),
        (
            "end_value_per_kwh = 300",
            "found 300, expected at most 100 kWh of finished jobs (money counts only",
        ),
        (
            "end_value_per_kwh = 0.3\n[grid]",
            "found 0.3, in money, but the grid has no price: add price or tariff",
        ),
        ("end_value_per_kwh = 300\n" + TARIFF, "found 300 EUR, expected at most"),
    ],
)
def test_fields_that_are_wrong(text: str, told: str) -> None:
    with pytest.raises(InputError, match=r"site\.toml") as error:
        parse_site(SITE + text)
    assert told in str(error.value)
