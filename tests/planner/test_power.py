"""The power decisions: optima known by hand or by trying everything, properties, and ways to end."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import HOUR_S, battery, hydrogen, problem, three_days

from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec, LossConvention
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.model.choices import Surplus
from beasy_sched.planner import power_plan as power_module
from beasy_sched.planner.plan import INFEASIBLE, NO_PLAN, OPTIMAL
from beasy_sched.planner.power_plan import PowerDecision, plan_power
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem, power_violations
from beasy_sched.planner.solver import Solver
from beasy_sched.planner.solver_limits import SolverLimits
from beasy_sched.units import kwh_to_j

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

SITE = BatterySpec(kwh_to_j(100.0), charge_limit_w=25e3, discharge_limit_w=50e3, self_discharge_per_day=0.002)
TANK = HydrogenSpec(10.0, 5.0, 5.0, 5e3, 3e3, 500.0)


def solved(power_problem: PowerProblem) -> PowerPlan:
    decision = plan_power(power_problem)
    assert decision.solved.status == OPTIMAL, decision.solved
    assert decision.solved.gap <= 1e-4
    assert decision.plan is not None
    assert power_violations(decision.plan, power_problem) == ()
    return decision.plan


class TestKnownOptima:
    def test_sun_covers_all(self) -> None:
        plan = solved(problem([2, 3, 1], [4, 3, 5], battery()))
        assert plan.relax_factor == 0.0
        np.testing.assert_array_equal(plan.charge_w + plan.discharge_w, 0.0)
        np.testing.assert_allclose(plan.envelope_w, [4e3, 3e3, 5e3])

    def test_night_with_a_small_battery(self) -> None:
        """5 of 10 kWh for two hours of 4 kW: 5/8 of the demand can be served."""
        plan = solved(problem([4, 4], [0, 0], battery()))
        assert plan.relax_factor == pytest.approx(3 / 8, abs=1e-6)
        np.testing.assert_allclose(plan.discharge_w, 2500.0, atol=1e-2)

    def test_night_with_losses_and_self_discharge(self) -> None:
        """E = 5 kWh, kept 0.9 a step: x in both hours takes ((5 * 0.9 - x/0.8) * 0.9 - x/0.8) to 1 kWh."""
        spec = battery(discharge_efficiency=0.8, self_discharge_per_day=1 - 0.9**24, soc_target_pct=10.0)
        plan = solved(problem([4, 4], [0, 0], spec))
        served_kw = (5 * 0.81 - 1.0) * 0.8 / 1.9
        assert plan.relax_factor == pytest.approx(1 - served_kw / 4, abs=1e-6)

    def test_shortfalls_only_where_they_must_be(self) -> None:
        """The first hour limits rf to 1/2; the least sum of shortfalls serves the others fully."""
        plan = solved(problem([4, 4, 4], [0, 4, 4], battery(discharge_limit_w=2e3)))
        assert plan.relax_factor == pytest.approx(0.5)
        np.testing.assert_allclose(plan.shortfall_w, [2e3, 0, 0], atol=1e-2)

    def test_target_costs_what_it_takes(self) -> None:
        """SoC must rise from 50 to 70 %: 2 kWh of the 4 that arrive, at an efficiency of 0.8, are 2.5."""
        plan = solved(problem([2, 2], [2, 2], battery(charge_efficiency=0.8, soc_target_pct=70.0)))
        assert plan.relax_factor == pytest.approx(2.5 / 4, abs=1e-6)
        assert plan.battery_j[-1] == pytest.approx(kwh_to_j(7.0))

    def test_no_more_throughput_than_needed(self) -> None:
        """The surplus stays with the servers, and only the 1 kWh of the last hour is moved."""
        spec = battery(soc_start_pct=50, soc_target_pct=50)
        plan = solved(problem([1, 1, 2], [5, 1, 1], spec))
        np.testing.assert_allclose(plan.charge_w, [1e3, 0, 0], atol=1e-2)
        np.testing.assert_allclose(plan.discharge_w, [0, 0, 1e3], atol=1e-2)
        np.testing.assert_allclose(plan.envelope_w, [4e3, 1e3, 2e3], atol=1e-2)

    def test_surplus_into_the_battery_first(self) -> None:
        spec = battery(soc_max_pct=80.0, charge_limit_w=2e3)
        plan = solved(problem([1, 1, 2], [5, 3, 1], spec, surplus=Surplus.STORE))
        np.testing.assert_allclose(plan.charge_w, [2e3, 1e3, 0])
        np.testing.assert_allclose(plan.envelope_w, [3e3, 2e3, 2e3])

    def test_what_the_servers_cannot_draw_is_curtailed(self) -> None:
        plan = solved(problem([1, 1], [5, 2], battery(), most_w=3e3))
        np.testing.assert_allclose(plan.curtailed_w, [2e3, 0])
        np.testing.assert_allclose(plan.envelope_w, [3e3, 2e3])

    def test_sleep_floor_is_kept_where_no_demand_is(self) -> None:
        plan = solved(problem([0, 0], [0, 0], battery(), floor_w=500.0))
        np.testing.assert_allclose(plan.discharge_w, 500.0)

    def test_electrolyzer_off_or_at_its_minimum(self) -> None:
        """0.5 kWh would do for the target, but the electrolyzer runs at 2 kW or not at all."""
        gain_kg = hydrogen().produced_kg(500.0, HOUR_S)
        spec = hydrogen(electrolyzer_min_w=2e3, level_target_kg=1.0 + gain_kg)
        decision = plan_power(problem([1, 1], [4, 4], Storage(battery(), spec)))
        assert decision.plan is not None
        assert decision.whole_numbers == {"hydrogen"}
        assert sorted(decision.plan.electrolyzer_w) == pytest.approx([0.0, 2e3])

    def test_printed_losses_that_create_energy_need_whole_numbers(self) -> None:
        """Charging at 1.0 and discharging at 0.5 at once would fill the battery from nothing."""
        spec = battery(discharge_efficiency=0.5, loss=LossConvention.PRINTED, soc_target_pct=100.0)
        decision = plan_power(problem([4] * 4, [4] * 4, replace(spec, discharge_limit_w=4e3)))
        assert decision.whole_numbers == {"battery"}
        assert decision.plan is not None
        assert np.all(np.minimum(decision.plan.charge_w, decision.plan.discharge_w) == 0.0)


def grid_best(
    power_problem: PowerProblem, kilowatts: list[float], electrolyzer_kw: list[float]
) -> tuple[float, float]:
    """Least rf, and the least shortfall (W) at that rf, over every plan on a grid of powers."""
    spec, tank = power_problem.storage.battery, power_problem.storage.hydrogen
    best = (np.inf, np.inf)
    for flows in itertools.product(itertools.product(kilowatts, electrolyzer_kw), repeat=power_problem.steps):
        energy, level = power_problem.start_state.battery_j, power_problem.start_state.hydrogen_kg
        relax = short = 0.0
        for (net, into), load, renew in zip(flows, power_problem.load_w, power_problem.renew_w, strict=True):
            energy += max(-net, 0) * 1e3 * HOUR_S * spec.charge_efficiency
            energy -= max(net, 0) * 1e3 * HOUR_S / spec.discharge_efficiency
            if tank is not None:
                level += tank.produced_kg(into * 1e3, HOUR_S)
            produced = renew + 1e3 * (net - into)
            if not spec.min_j - 1 <= energy <= spec.max_j + 1 or produced < 0:
                break
            relax = max(relax, 1 - produced / load)
            short += max(load - produced, 0.0)
        else:
            if energy >= power_problem.target_j - 1 and level >= power_problem.target_kg - 1e-9:
                best = min(best, (round(relax, 9), short))
    return best


class TestAgainstEverything:
    @pytest.mark.sampled
    @pytest.mark.parametrize("seed", range(4))
    def test_battery_alone(self, seed: int) -> None:
        """Demands are powers of 2 and the grid is fine enough to hold good plans, if not the best."""
        rng = np.random.default_rng(seed)
        spec = battery(4.0, soc_target_pct=50.0, discharge_efficiency=0.8, charge_efficiency=0.8)
        case = problem(rng.choice([1, 2, 4], 3), rng.integers(0, 4, 3), spec)
        steps = [k / 8 for k in range(-24, 25)]
        relax, short = grid_best(case, steps, [0.0])
        plan = solved(case)
        assert plan.relax_factor <= relax + 1e-6
        assert plan.relax_factor >= relax - 0.125 / case.load_w.min() * 1e3
        if plan.relax_factor > relax - 1e-6:
            assert plan.shortfall_w.sum() <= short + 0.1

    @pytest.mark.sampled
    @pytest.mark.parametrize("seed", range(4))
    def test_with_an_electrolyzer(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        gain_kg = hydrogen().produced_kg(2500.0, HOUR_S)
        tank = hydrogen(electrolyzer_min_w=1.5e3, level_target_kg=1.0 + gain_kg, fuel_cell_max_w=0.0)
        case = problem(rng.choice([1, 2, 4], 2), rng.integers(1, 5, 2), Storage(battery(2.0), tank))
        runs = [0.0, *(k / 8 for k in range(12, 33))]
        relax, _ = grid_best(case, [k / 8 for k in range(-8, 9)], runs)
        plan = solved(case)
        assert relax - 0.25 / case.load_w.min() * 1e3 <= plan.relax_factor <= relax + 1e-6


class TestProperties:
    @settings(max_examples=examples(25), deadline=None)
    @given(
        kilowatts=st.lists(st.tuples(st.floats(0, 8), st.floats(0, 8)), min_size=2, max_size=12),
        sizes=st.tuples(st.floats(1, 20), st.floats(1.0, 5.0)),
        start_pct=st.floats(40, 80),
    )
    def test_larger_battery_never_raises_rf(
        self, kilowatts: list[tuple[float, float]], sizes: tuple[float, float], start_pct: float
    ) -> None:
        """Both start at the same SoC, at or above the target."""
        load, renew = zip(*kilowatts, strict=True)
        small = battery(sizes[0], soc_start_pct=start_pct, soc_target_pct=40.0, charge_efficiency=0.9)
        large = replace(small, capacity_j=small.capacity_j * sizes[1])
        first = solved(problem(load, renew, small)).relax_factor
        assert solved(problem(load, renew, large)).relax_factor <= first + 1e-5

    @pytest.mark.sampled
    @pytest.mark.parametrize("demand_kw", [3.0, 6.0, 8.0])
    @pytest.mark.parametrize("surplus", list(Surplus))
    @pytest.mark.parametrize("tank", [None, TANK], ids=["battery", "hydrogen"])
    def test_three_days_hold_every_constraint(
        self, demand_kw: float, surplus: Surplus, tank: HydrogenSpec | None
    ) -> None:
        load, renew = three_days(demand_kw=demand_kw)
        case = PowerProblem(Storage(SITE, tank), load, renew, floor_w=200.0, most_w=10e3, surplus=surplus)
        plan = solved(case)
        assert plan.envelope_w.max() <= 10e3 * (1 + 1e-9)

    @pytest.mark.slow
    def test_surplus_changes_no_shortfall(self) -> None:
        load, renew = three_days(demand_kw=8.0)
        plans = [solved(PowerProblem(Storage(SITE), load, renew, surplus=surplus)) for surplus in Surplus]
        assert plans[0].shortfall_w.sum() == pytest.approx(plans[1].shortfall_w.sum(), rel=1e-6)
        assert plans[1].battery_j[-1] >= plans[0].battery_j[-1] - 1.0

    @pytest.mark.slow
    def test_same_input_same_plan(self) -> None:
        load, renew = three_days(demand_kw=8.0)
        plans = [solved(PowerProblem(Storage(SITE, TANK), load, renew)) for _ in range(2)]
        assert plans[0].charge_w.tobytes() == plans[1].charge_w.tobytes()
        assert plans[0].hydrogen_kg.tobytes() == plans[1].hydrogen_kg.tobytes()

    @pytest.mark.sampled
    @pytest.mark.parametrize("demand_kw", [6.0, 8.0])
    def test_one_plan_however_it_is_solved(self, demand_kw: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of many plans of equal throughput without the tilt, one is left: other machines find it too."""
        load, renew = three_days(demand_kw=demand_kw)
        tank = replace(TANK, level_target_kg=5.2, electrolyzer_min_w=0.0)
        case = PowerProblem(Storage(replace(SITE, self_discharge_per_day=0.0), tank), load, renew)
        first = solved(case)
        for options in ({"presolve": "off", "random_seed": 7}, {"simplex_strategy": 4}):

            class Otherwise(Solver):
                def __init__(self, *arguments: Any, **more: Any) -> None:
                    super().__init__(*arguments, **more)
                    for name, value in options.items():  # noqa: B023 - used within the loop
                        self._highs.setOptionValue(name, value)

            monkeypatch.setattr(power_module, "Solver", Otherwise)
            other = solved(case)
            for name in ("charge_w", "discharge_w", "electrolyzer_w", "fuel_cell_w"):
                np.testing.assert_allclose(getattr(other, name), getattr(first, name), atol=0.1)

    @pytest.mark.slow
    @pytest.mark.parametrize("demand_kw", [6.0, 8.0])
    def test_three_days_where_the_electrolyzer_minimum_binds(self, demand_kw: float) -> None:
        load, renew = three_days(demand_kw=demand_kw)
        tank = replace(TANK, level_target_kg=5.5, electrolyzer_min_w=2e3)
        case = PowerProblem(Storage(SITE, tank), load, renew)
        decision = plan_power(case)
        assert decision.whole_numbers == {"hydrogen"}
        assert decision.solved.gap <= 1e-4
        assert decision.plan is not None
        assert power_violations(decision.plan, case) == ()


class TestOtherEndings:
    """Each way to end without the best plan is an outcome of its own, with a message for people."""

    @staticmethod
    def message(power_problem: PowerProblem) -> str:
        decision = plan_power(power_problem)
        assert decision.solved.status == INFEASIBLE
        assert decision.plan is None
        return decision.solved.message

    def test_soc_target_out_of_reach(self) -> None:
        text = self.message(problem([1, 1], [1, 1], battery(soc_target_pct=90.0)))
        assert text == (
            "soc_target_pct: the battery cannot reach 90.00 % after 2 h: even without serving any load, "
            "it reaches at most 70.00 % (2 kWh short)"
        )

    def test_hydrogen_target_out_of_reach(self) -> None:
        text = self.message(problem([1, 1], [0, 0], Storage(battery(), hydrogen(level_target_kg=1.9))))
        assert "level_target_kg: the tank cannot reach 1.900 kg after 2 h" in text
        assert "at most 1." in text

    def test_both_targets_only_one_at_a_time(self) -> None:
        gain_kg = hydrogen().produced_kg(3e3, HOUR_S)
        storage = Storage(
            battery(soc_target_pct=70.0), hydrogen(level_target_kg=1.0 + gain_kg, fuel_cell_max_w=0)
        )
        text = self.message(problem([1, 1], [2, 2], storage))
        assert "soc_target_pct and level_target_kg cannot both be met" in text
        assert "the battery reaches at most 60.00 %" in text

    def test_sleep_floor_takes_the_battery_below_its_minimum(self) -> None:
        text = self.message(
            problem([1] * 4, [0] * 4, battery(soc_min_pct=30, soc_target_pct=30), floor_w=900.0)
        )
        assert "even with all servers asleep, the battery falls below 30 %, first at hour 3" in text
        assert "by up to 1.6 kWh" in text

    def test_sleep_floor_without_any_energy(self) -> None:
        text = self.message(problem([1] * 8, [0] * 8, battery(), floor_w=900.0))
        assert "the sleeping servers alone need 0.9 kW" in text
        assert "2.2 kWh are missing" in text

    def test_electrolyzer_minimum_alone_is_in_the_way(self) -> None:
        gain_kg = hydrogen().produced_kg(1.9e3, HOUR_S)
        spec = hydrogen(
            electrolyzer_min_w=3.9e3,
            level_target_kg=1.0 + gain_kg,
            tank_kg=1.0 + gain_kg,
            fuel_cell_max_w=0.0,
        )
        text = self.message(problem([1], [4], Storage(battery(), spec)))
        assert "level_target_kg: the tank cannot reach 1.031 kg after 1 h" in text
        assert "at most 1.000 kg" in text

    def test_no_time_at_all(self) -> None:
        decision = plan_power(problem([1], [1], battery()), SolverLimits(time_s=0.0))
        assert decision.solved.status == NO_PLAN
        assert "the time limit ended the search before a plan was found" in decision.solved.message

    def test_start_given_by_the_window_before(self) -> None:
        case = problem([1], [0], battery(), start=StorageState(kwh_to_j(0.5)))
        assert solved(case).relax_factor == pytest.approx(0.5)


# --- a grid and a base load ---------------------------------------------------------------------------------


def with_grid(
    load_w: list[float],
    renew_w: list[float],
    limit_w: float,
    base_w: float = 0.0,
    capacity_kwh: float = 10.0,
    **more: Any,
) -> tuple[PowerProblem, PowerDecision]:
    """Hours of a site with a grid up to ``limit_w``."""
    storage = Storage(battery(capacity_kwh) if capacity_kwh else NO_BATTERY)
    asked = PowerProblem(
        storage, np.array(load_w, dtype=float), np.array(renew_w, dtype=float), 3600.0,
        import_limit_w=limit_w, base_w=base_w, **more,
    )  # fmt: skip
    return asked, plan_power(asked)


def test_the_grid_gives_what_sun_and_battery_do_not() -> None:
    asked, found = with_grid([1000, 1000], [0, 0], 300.0, capacity_kwh=0.0)
    assert found.plan is not None
    assert found.plan.import_w == pytest.approx([300, 300])
    assert found.plan.relax_factor == pytest.approx(0.7)
    asked, found = with_grid([1000] * 6, [0] * 6, 600.0)  # 5 kWh in the battery, 6 kWh asked for
    assert found.plan is not None
    assert found.plan.relax_factor == 0.0
    assert found.plan.import_w.sum() == pytest.approx(1000)
    assert not power_violations(found.plan, asked)


def test_the_grid_charges_nothing_and_is_not_used_without_need() -> None:
    _, found = with_grid([100, 100], [5000, 5000], np.inf)
    assert found.plan is not None
    assert found.plan.import_w == pytest.approx([0, 0])
    _, found = with_grid([100, 100], [0, 0], np.inf, surplus=Surplus.STORE)
    assert found.plan is not None
    assert found.plan.charge_w == pytest.approx([0, 0])


def test_a_base_load_is_served_before_the_servers() -> None:
    asked, found = with_grid([1000, 1000], [800, 800], 0.0, base_w=300.0, capacity_kwh=0.0)
    assert found.plan is not None
    assert found.plan.envelope_w == pytest.approx([500, 500])
    assert not power_violations(found.plan, asked)
    _, found = with_grid([1000], [200], 0.0, base_w=300.0, capacity_kwh=0.0)
    assert found.plan is None
    _, found = with_grid([1000], [200], 400.0, base_w=300.0, capacity_kwh=0.0)
    assert found.plan is not None
    assert found.plan.envelope_w == pytest.approx([300])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5),
    st.integers(0, 15), st.integers(0, 5), st.sampled_from([0.0, 0.3, 10.0]),
)  # fmt: skip
def test_plans_with_a_grid_break_no_constraint(
    steps: list[tuple[int, int]], limit: int, base: int, capacity_kwh: float
) -> None:
    load, renew = ([100.0 * each for each in column] for column in zip(*steps, strict=True))
    asked, found = with_grid(load, renew, 100.0 * limit, 100.0 * base, capacity_kwh)
    if found.plan is None:
        return
    assert not power_violations(found.plan, asked)
    if not capacity_kwh:  # without a storage each step stands alone
        most = np.maximum(asked.renew_w + asked.import_limit_w - asked.base_w, 0.0)
        short = np.maximum(asked.load_w - most, 0.0)
        shares = np.divide(short, asked.load_w, out=np.zeros_like(short), where=short > 0)
        assert found.plan.relax_factor == pytest.approx(shares.max(), abs=1e-5)
