"""The price of energy: cells, the projected battery, the demand, and the level that is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import FAST, GEARED, PLAIN, SLOW

from beasy_sched.energy.devices.battery import BatterySpec, project_levels_j, project_need_j
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.policies.bid_price.battery import Backup, BatteryAhead
from beasy_sched.policies.bid_price.bid_price_jobs import Jobs
from beasy_sched.policies.bid_price.fleet import Speed, TwoSpeedFleet
from beasy_sched.policies.bid_price.horizon import Cells
from beasy_sched.policies.bid_price.price import Demand, Price, limited_by_value, solve

BATTERY = BatterySpec(1e6, discharge_limit_w=2000.0, self_discharge_per_day=0.1)


def fleet_of(*kinds: ServerKind) -> TwoSpeedFleet:
    unique = tuple(dict.fromkeys(kinds))
    platform = Platform(
        unique, np.array([unique.index(kind) for kind in kinds]), tuple(f"n{i}" for i in range(len(kinds)))
    )
    return TwoSpeedFleet(platform, PowerModel(platform))


GEARED_FLEET = fleet_of(*[GEARED] * 6)


# --- the fleet ---


def test_the_thriftiest_speed_is_never_slower_than_the_reference() -> None:
    """Below it, a job that needs its whole walltime would be killed by it."""
    fleet = fleet_of(GEARED, FAST, SLOW, PLAIN)
    assert fleet.pstate.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    assert fleet.reference_flops == 100.0
    assert fleet.hosts_flops(np.array([0, 1]), Speed.THRIFTY) == 80.0
    assert fleet.hosts_flops(np.array([0, 1, 2]), Speed.FAST) == 60.0
    assert fleet.hosts_w(np.array([0, 3]), Speed.THRIFTY) == (60.0 - 5.0) + (60.0 - 20.0)
    assert fleet.rest_w == 5.0 + 5.0 + 5.0 + 20.0


def test_servers_that_need_least_energy_are_woken_first() -> None:
    fleet = fleet_of(FAST, GEARED, FAST, GEARED)
    assert fleet.best(np.arange(4), 2, Speed.THRIFTY).tolist() == [1, 3]
    assert fleet.best(np.arange(4), 3, Speed.THRIFTY).tolist() == [0, 1, 3]


# --- cells ---


@given(st.integers(1, 3000), st.lists(st.integers(1, 3000), max_size=4))
def test_cells_cover_the_horizon_with_whole_steps(steps: int, ends: list[int]) -> None:
    ends = sorted({end for end in ends if end < steps})
    cells = Cells(steps, 300.0, ends)
    assert cells.bounds[0] == 0
    assert cells.edge_s[-1] == steps * 300.0
    assert len(cells) <= 24 + 144 + 97 + len(ends)
    assert cells.bounds[cells.goals].tolist() == [*ends, steps]
    values = np.arange(steps, dtype=np.float64)
    assert float(cells.means(values) @ cells.width_s) == pytest.approx(float(values.sum()) * 300.0)


@given(st.integers(1, 400), st.lists(st.tuples(st.integers(1, 9), st.floats(0.0, 2e5)), max_size=20))
def test_filled_keeps_the_host_seconds(steps: int, runs: list[tuple[int, float]]) -> None:
    cells = Cells(steps, 300.0)
    hosts = np.array([float(run[0]) for run in runs])
    ends_s = np.array([run[1] for run in runs])
    filled = cells.filled(hosts, ends_s)
    inside_s = np.minimum(ends_s, steps * 300.0)
    assert float(filled @ cells.width_s) == pytest.approx(float(hosts @ inside_s))
    assert (np.diff(filled) <= 1e-9).all()


# --- the battery ahead ---


@settings(max_examples=examples(60))
@given(st.lists(st.floats(-4000.0, 4000.0), min_size=1, max_size=80), st.floats(0.2, 0.9))
def test_the_projection_without_a_loop_is_equation_1(net: list[float], level: float) -> None:
    """As long as nothing is missing; from then on it counts what is."""
    net_w, step_s = np.array(net), np.full(len(net), 300.0)
    left = BATTERY.kept_fraction(300.0) ** np.arange(1, len(net) + 1)
    found = project_need_j(BATTERY, level * 1e6, net_w, step_s, left)
    naive, level_j = [level * 1e6], level * 1e6
    for power_w in net_w.tolist():
        charge_w, drawn_w = min(max(power_w, 0.0), np.inf), min(max(-power_w, 0.0), 2000.0)
        level_j = level_j * BATTERY.kept_fraction(300.0) + 300.0 * (0.95 * charge_w - drawn_w / 0.95)
        level_j = min(level_j, BATTERY.max_j)
        naive.append(level_j)
    assert found == pytest.approx(naive, rel=1e-9, abs=1e-3)
    if min(naive) > 0.0:
        assert found == pytest.approx(
            project_levels_j(BATTERY, level * 1e6, net_w, 300.0), rel=1e-9, abs=1e-3
        )


def test_slack_is_to_the_floor_or_to_the_target() -> None:
    cells = Cells(4, 300.0)
    ahead = BatteryAhead(BatterySpec(1e6), 5e5, cells, margin=0.01)
    down = ahead.slack(np.array([-950.0, 0.0, 1000.0, 0.0]))  # 300 kJ down, 285 kJ up again
    assert (down.at_target, down.edge) == (True, 4)
    assert down.slack_j == pytest.approx(5e5 - 3e5 + 2.85e5 - 5.1e5)
    deep = ahead.slack(np.array([-950.0, 0.0, 1000.0, 1000.0]))
    assert (deep.at_target, deep.edge) == (False, 1)
    assert deep.slack_j == pytest.approx(2e5 - 2.1e5)


def test_a_margin_raises_floor_and_target_but_not_beyond_the_full_battery() -> None:
    for target_pct, goal_j in ((50.0, 5.5e5), (90.0, 9.5e5), (98.0, 1e6)):
        battery = BatterySpec(1e6, soc_min_pct=20.0, soc_max_pct=100.0, soc_target_pct=target_pct)
        ahead = BatteryAhead(battery, 9e5, Cells(3, 300.0), margin=0.05)
        assert (ahead.floor_j, ahead.goal_j) == (pytest.approx(2.5e5), pytest.approx(goal_j))


def test_what_the_battery_cannot_give_at_a_time_is_missing() -> None:
    battery = BatterySpec(1e6, discharge_limit_w=2000.0, soc_target_pct=20.0)
    ahead = BatteryAhead(battery, 9e5, Cells(3, 300.0), margin=0.0)
    assert ahead.slack(np.array([0.0, -2500.0, 0.0])).slack_j == pytest.approx(-500.0 * 300.0)
    assert ahead.project(np.array([0.0, -2500.0, 0.0])).left_j == pytest.approx(-500.0 * 300.0)


def test_a_target_counts_at_the_end_of_every_window() -> None:
    ahead = BatteryAhead(BatterySpec(1e6), 5e5, Cells(6, 300.0, [2]), margin=0.0)
    slack = ahead.slack(np.array([-100.0, -100.0, 500.0, 500.0, 0.0, 0.0]))
    assert (slack.at_target, slack.edge) == (True, 2)


def test_a_grid_gives_what_the_battery_does_not_and_nothing_for_the_target() -> None:
    battery, cells = BatterySpec(1e6, soc_start_pct=50.0), Cells(4, 300.0)
    net_w = np.full(4, -1000.0)
    none, low_j = np.zeros(4), np.zeros(4)
    enough = BatteryAhead(battery, 5e5, cells, Backup(none, low_j, np.full(4, 1000.0)))
    assert enough.slack(net_w).slack_j >= 0.0
    assert enough.project(net_w).left_j >= 0.0
    weak = BatteryAhead(battery, 5e5, cells, Backup(none, low_j, np.full(4, 300.0)))
    assert weak.slack(net_w).slack_j == pytest.approx(-700.0 * 300.0)  # once the battery is at SoC_min


def test_a_fuel_cell_is_held_above_the_planned_level() -> None:
    """500 W of it: nothing while the battery is above 460 kJ, then what keeps it there, then all of it."""
    battery = BatterySpec(1e6, charge_efficiency=1.0, discharge_efficiency=1.0)
    backup = Backup(np.full(4, 500.0), np.full(4, 4.6e5))
    ends_j = []
    for steps in range(1, 5):
        ahead = BatteryAhead(battery, 5e5, Cells(steps, 300.0), Backup(*(c[:steps] for c in backup[:2])))
        ends_j.append(float(ahead.project(np.array([-100.0, -100.0, -100.0, -600.0][:steps])).ends_j[-1]))
    assert ends_j == pytest.approx([4.7e5, 4.6e5, 4.6e5, 4.3e5])


def test_a_site_without_a_battery_has_what_arrives() -> None:
    ahead = BatteryAhead(BatterySpec(0.0, soc_min_pct=0.0, soc_max_pct=100.0), 0.0, Cells(2, 300.0))
    assert ahead.slack(np.array([10.0, 10.0])).slack_j == 0.0
    assert ahead.slack(np.array([10.0, -1.0])).slack_j < 0.0


# --- the price ---


def demand_of(
    waiting: list[tuple[int, float]], fleet: TwoSpeedFleet, arriving: float = 0.0, overhead: float = 0.05
) -> Demand:
    """Jobs of (hosts, seconds at the thriftiest speed) wait, and jobs like them arrive."""
    cells = Cells(48, 300.0)
    hosts = np.array([float(job[0]) for job in waiting])
    run_s = np.array([job[1] for job in waiting])
    energy_j = hosts * run_s * fleet.busy_w[Speed.THRIFTY]
    servers = arriving / fleet.flops[Speed.THRIFTY]
    return Demand(
        cells=cells,
        fleet=fleet,
        running_w=dict.fromkeys(Speed, np.zeros(len(cells))),
        waiting=Jobs(
            hosts, run_s, run_s * (fleet.flops[Speed.THRIFTY] / fleet.flops)[:, None], run_s, energy_j
        ),
        seen_j=np.sort(energy_j),
        coming=np.repeat(servers * np.linspace(0.0, 1.0, len(hosts) + 1)[:, None], len(cells), axis=1),
        overhead=overhead,
    )


def ahead_of(demand: Demand) -> BatteryAhead:
    return BatteryAhead(BatterySpec(1e6), 5e5, demand.cells)


def slack_j(demand: Demand, supply_w: float, price_j: float) -> float:
    """What jobs up to a price leave with as much sun all day."""
    return ahead_of(demand).slack(supply_w - demand.power_w(price_j, Speed.THRIFTY)).slack_j


def price_of(
    waiting: list[tuple[int, float]], supply_w: float, arriving: float = 0.0
) -> tuple[Price, Demand]:
    demand = demand_of(waiting, GEARED_FLEET, arriving)
    supply = np.full(len(demand.cells), supply_w)
    return solve(demand, ahead_of(demand), supply), demand


waiting_jobs = st.lists(st.tuples(st.integers(1, 3), st.floats(60.0, 9000.0)), min_size=1, max_size=25)


@settings(max_examples=examples(80))
@given(waiting_jobs, st.floats(30.0, 400.0), st.floats(0.0, 400.0))
def test_the_price_is_the_first_at_which_not_all_can_be_served(
    jobs: list[tuple[int, float]], supply_w: float, arriving: float
) -> None:
    """Against the energy of every job, one by one."""
    price, demand = price_of(jobs, supply_w, arriving)
    if slack_j(demand, supply_w, np.inf) >= 0.0:
        assert (price.price_j, price.rationed) == (np.inf, False)
        return
    levels_j = np.unique(demand.seen_j).tolist()
    paid = [level for level in levels_j[:-1] if slack_j(demand, supply_w, level) >= 0.0]
    assert price.rationed
    assert price.price_j == levels_j[len(paid)]
    assert price.slack.slack_j == slack_j(demand, supply_w, np.inf)
    assert price.binding.slack_j == slack_j(demand, supply_w, price.price_j)


@settings(max_examples=examples(40))
@given(waiting_jobs, st.floats(30.0, 300.0), st.floats(1.0, 100.0))
def test_more_supply_never_raises_the_bar(
    jobs: list[tuple[int, float]], supply_w: float, more_w: float
) -> None:
    less, more = (price_of(jobs, power_w)[0] for power_w in (supply_w, supply_w + more_w))
    assert less.price_j <= more.price_j


def test_of_jobs_with_the_same_energy_some_may_start() -> None:
    """A small one can be paid, and not all of the six large ones, which are at the price all the same."""
    price, demand = price_of([(1, 600.0), *[(2, 6000.0)] * 6], 110.0)
    busy_w = GEARED_FLEET.busy_w[Speed.THRIFTY]
    assert price.price_j == 2 * 6000.0 * busy_w
    assert slack_j(demand, 110.0, np.nextafter(price.price_j, 0.0)) > 0.0 > price.binding.slack_j


def test_there_is_no_price_before_a_job_has_arrived() -> None:
    price, _ = price_of([], 10.0)
    assert price.slack.slack_j < 0.0
    assert (price.rationed, price.speed) == (False, Speed.THRIFTY)


def test_full_speed_is_taken_where_there_is_energy_for_all() -> None:
    """With sun enough for all: full speed. With too little: the thriftiest."""
    jobs = [(2, 1000.0 * size) for size in range(1, 9)]
    rich, poor = (price_of(jobs, watts)[0] for watts in (900.0, 100.0))
    assert (rich.rationed, rich.speed) == (False, Speed.FAST)
    assert (poor.rationed, poor.speed) == (True, Speed.THRIFTY)


def test_demand_beyond_the_servers_waits() -> None:
    """Nine servers' worth for an hour on six servers: six for an hour and a half, the same energy."""
    fleet = GEARED_FLEET
    demand = demand_of([(9, 3600.0)], fleet, overhead=0.0)
    above_w = demand.power_w(np.inf, Speed.THRIFTY) - fleet.rest_w
    assert above_w.max() == pytest.approx(6 * 55.0)
    assert float(above_w @ demand.cells.width_s) == pytest.approx(9 * 3600.0 * 55.0)
    assert above_w[demand.cells.edge_s[1:] <= 5400.0].min() == pytest.approx(6 * 55.0)


# --- the target's band, and the value of energy left ---


def test_the_target_ends_at_the_lower_edge_of_its_band() -> None:
    cells = Cells(12, 3600.0)
    exact = replace(BATTERY, soc_target_pct=50.0)
    wide = replace(exact, target_band_pct=5.0)
    goals_j = [BatteryAhead(each, 6e5, cells, margin=0.0).goal_j for each in (exact, wide)]
    assert goals_j == pytest.approx([5e5, 4.5e5])


VALUED: Final = [(1, 300.0), (1, 600.0), (1, 900.0), (1, 2200.0)]
"""Jobs whose mean is 1000 host-seconds."""


def limits(supply_w: float, *worths: float) -> tuple[list[Price], Demand]:
    price, demand = price_of(VALUED, supply_w)
    assert not price.rationed
    supply = np.full(len(demand.cells), supply_w)
    return [limited_by_value(price, demand, ahead_of(demand), supply, worth) for worth in worths], demand


def test_a_job_worth_less_than_the_charge_it_takes_waits() -> None:
    """Of a supply a little above the demand, what jobs do not use is stored at 0.95.

    At a worth of 1, a job up to the mean energy / 0.95, or a little more, is worth its charge.
    """
    demand = demand_of(VALUED, GEARED_FLEET)
    mean_w = float(demand.power_w(np.inf, Speed.THRIFTY) @ demand.cells.width_s) / float(
        demand.cells.edge_s[-1]
    )
    found, demand = limits(mean_w + 2.0, 0.0, 1e-3, 1.0, 2.0)
    mean_j = float(demand.seen_j.mean())
    assert [price.by_value for price in found] == [False, False, True, True]
    assert found[2].speed is Speed.THRIFTY
    assert 0.95 * mean_j <= found[2].price_j <= 1.2 * mean_j
    assert found[3].price_j == pytest.approx(found[2].price_j / 2.0, rel=0.2)


def test_energy_that_would_not_be_stored_costs_nothing() -> None:
    found, _ = limits(1e5, 1.0)
    assert not found[0].by_value
