"""BEASY's compensation on plans small enough to check by hand.

Servers compute at 100, 80 or 40 flops/s with 100, 60 or 50 W: 1, 0.75 or 1.25 J a flop. Steps of 100 s;
asleep 5 W, falling asleep 7 s at 60 W (885 J in its step), waking 20 s at 80 W.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from beasy_sched.energy.devices.battery import BatterySpec, LossConvention
from beasy_sched.energy.server_energy import CellEnergies, shifted
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.policies.beasy.cover_shortage import CoverShortage, Shortage
from beasy_sched.policies.beasy.speed_prices import SpeedPrices
from beasy_sched.policies.beasy.spend_surplus import SpendSurplus
from beasy_sched.policies.planned.job_table import JobHosts, JobTable
from beasy_sched.policies.planned.pstate_table import PStateTable
from beasy_sched.policies.planned.rest_of_window import RestOfWindow, compensation_j
from beasy_sched.policies.planned.sleep_savings import SleepSavings

_WATTS = (100.0, 60.0, 50.0, 5.0, 60.0, 80.0)
KIND = ServerKind(
    "three speeds",
    speeds_flops=(100.0, 80.0, 40.0, 100.0, 1 / 7, 1 / 20),
    idle_w=_WATTS,
    epsilon_w=_WATTS,
    full_w=_WATTS,
    sleeps=(SleepState(3, 4, 5),),
)
LETTERS = {"f": 0, "m": 1, "s": 2, ".": 3}


def platform(count: int, kind: ServerKind = KIND) -> Platform:
    return Platform((kind,), np.zeros(count, dtype=np.intp), tuple(f"n{i}" for i in range(count)))


def savings(count: int, kind: ServerKind = KIND) -> SleepSavings:
    return SleepSavings(CellEnergies(PowerModel(platform(count, kind))))


def ladder(count: int) -> PStateTable:
    return PStateTable(PowerModel(platform(count)))


def rest(
    *plans: str, missing_j: float = 0.0, reserved: dict[int, int] | None = None, **battery
) -> RestOfWindow:
    """A letter a step: f(ast), m(edium), s(low), "." asleep. Supply feeds the plan, so that the battery
    stays where it is, ``missing_j`` below its target (above it where negative)."""
    states = np.array([[LETTERS[each] for each in plan] for plan in plans], dtype=np.int8).T.copy()
    until = np.zeros(len(plans), dtype=np.intp)
    for host, end in (reserved or {}).items():
        until[host] = end
    cells, dt_s, hosts = (
        savings(len(plans)).cells,
        np.full(len(states), 100.0),
        np.arange(len(plans)),
    )
    asleep = cells.asleep(states, hosts)
    now_asleep = asleep[0].copy()
    demand_j = cells.energy_j(states, shifted(asleep, now_asleep), hosts, dt_s).sum(axis=1)
    values = {"charge_efficiency": 1.0, "discharge_efficiency": 1.0, **battery}
    spec = BatterySpec(1e6, **values)
    start_j = spec.target_j - missing_j
    return RestOfWindow(states, now_asleep, until, dt_s, demand_j.copy(), demand_j, spec, start_j)


def drawn(left: RestOfWindow) -> list[str]:
    return ["".join("fms."[state] for state in column) for column in left.states.T]


def spending(left: RestOfWindow) -> SpendSurplus:
    count = left.states.shape[1]
    return SpendSurplus(left, savings(count), ladder(count))


def saving(left: RestOfWindow, violation: int, shortage: Shortage = "sleep-first") -> CoverShortage:
    count = left.states.shape[1]
    return CoverShortage(left, savings(count).cells, ladder(count), violation, shortage=shortage)


def job(*hosts: int, left_s: float = 300.0, flops: float = 0.0) -> tuple[tuple[int, ...], float, float]:
    return hosts, left_s, flops


def table(*jobs: tuple[tuple[int, ...], float, float]) -> JobTable:
    hosts, left_s, flops = zip(*jobs, strict=True)
    return JobTable(JobHosts([np.array(each) for each in hosts]), np.array(left_s), np.array(flops))


@pytest.mark.parametrize(
    ("loss", "diff_j", "expected_j"),
    [
        (LossConvention.PHYSICAL, 90.0, 100.0),
        (LossConvention.PRINTED, 90.0, 100.0),
        (LossConvention.PRINTED, -80.0, -100.0),
        (LossConvention.PHYSICAL, -100.0, -80.0),
        (LossConvention.PHYSICAL, 0.0, 0.0),
    ],
)
def test_equation_3_31(loss, diff_j, expected_j):
    battery = BatterySpec(1e6, charge_efficiency=0.9, discharge_efficiency=0.8, loss=loss)
    assert compensation_j(battery, diff_j) == pytest.approx(expected_j)


def test_ladder():
    one, host = ladder(1), np.array([0])
    assert [int(one.faster(host, np.array([p], dtype=np.int8))[0]) for p in range(4)] == [0, 0, 1, 3]
    assert [int(one.thriftier(host, np.array([p], dtype=np.int8))[0]) for p in range(4)] == [1, 1, 2, 3]
    assert one.thriftiest.tolist() == [1]
    assert one.reference_flops.tolist() == [80.0]


def price_j(states: np.ndarray) -> float:
    """What the next faster P-state costs at least in these rows, by host; at full speed, it is infinite."""
    cells = ["fms."[state] for state in states.ravel().tolist()]
    if not {"m", "s"} & {*cells}:
        return math.inf
    if "." in cells:
        return -math.inf
    full_w = dict(zip("fms", KIND.full_w, strict=False))
    faster = {"f": "f", "m": "f", "s": "m"}
    return sum((full_w[faster[cell]] - full_w[cell]) * 100.0 for cell in cells)


@pytest.mark.parametrize("seed", range(60))
def test_sums_kept_from_step_to_step_tell_the_price_of_more_speed(seed):
    """In each later step, they are the sums over the rows from there to each job's end."""
    rng = np.random.default_rng(seed)
    steps, letters = int(rng.integers(2, 9)), list("fms." if seed % 2 else "fm")
    plans = ["".join(rng.choice(letters, size=steps)) for _ in range(4)]
    jobs, whole = ((0,), (1, 3), (2,)), rest(*plans)
    layout = table(*(job(*hosts) for hosts in jobs))
    asleep = whole.states[:, layout.hosts] == LETTERS["."]
    prices = SpeedPrices(layout, ladder(4), whole.states[:, layout.hosts], asleep)
    for row in range(steps):
        left_s = rng.choice([50.0, 100.0, 250.0, 1e4], size=3)
        flops = rng.choice([0.0, 8_000.0, 20_000.0, 1e6], size=3)
        now = table(*(job(*h, left_s=s, flops=f) for h, s, f in zip(jobs, left_s, flops, strict=True)))
        later = spending(rest(*(plan[row:] for plan in plans)))
        ends = prices.ends(now, row, later.rest.dt_s.cumsum())
        assert (ends - row).tolist() == later._ends(now).tolist()
        found_j = [
            price_j(whole.states[row:end, hosts]) for hosts, end in zip(jobs, ends.tolist(), strict=True)
        ]
        assert prices.prices_j(row, ends, 100.0) == pytest.approx(found_j)


@pytest.mark.parametrize("seed", range(80))
def test_waking_costs_at_least_its_bound(seed):
    """Whatever the transitions cost, and whatever is planned around the steps."""
    rng = np.random.default_rng(seed)
    watts = (
        *_WATTS[:4],
        float(rng.choice([0.0, 5.0, 60.0, 300.0])),
        float(rng.choice([0.0, 5.0, 80.0, 300.0])),
    )
    kind = replace(KIND, idle_w=watts, epsilon_w=watts, full_w=watts)
    count, steps = 3, int(rng.integers(1, 9))
    bounds, hosts = savings(count, kind), np.arange(count)
    cells = bounds.cells
    states = rng.choice([0, 1, 2, 3, 3, 3], (steps, count)).astype(np.int8)
    rows = int(rng.integers(1, steps + 1))
    asleep = cells.asleep(states[:rows], hosts)
    woken = np.where(asleep, rng.integers(0, 3, count), states[:rows]).astype(np.int8)
    before, dt_s = rng.random(count) < 0.5, np.full(steps, 100.0)
    cost_j = float(cells.change_j(states, woken, before, hosts, dt_s).sum())
    assert cost_j >= bounds.least_woken_j(asleep, 100.0) - 1e-6


# --- more energy than the target needs ---------------------------------------------------------------


def test_only_what_lies_above_soc_min_may_be_spent():
    """The level ends 100 kJ above the target, but dips to 30 kJ above SoC_min on the way."""
    left = rest("fff", missing_j=-100_000.0)
    left.supply_j[1] -= 370_000.0
    left.supply_j[2] += 370_000.0
    assert spending(left).left_j == pytest.approx(30_000.0)


def test_nothing_is_spent_where_the_battery_runs_dry_before_the_end():
    left = rest("fff", missing_j=-100_000.0)
    left.supply_j[1] -= 450_000.0
    left.supply_j[2] += 450_000.0
    assert spending(left).left_j == 0.0


def test_without_the_bound_all_of_the_surplus_may_be_spent():
    """Two steps at full speed cost 8 kJ; the level dips to 3 kJ above SoC_min before they are over."""
    for bounded, expected in ((True, ["mmm"]), (False, ["ffm"])):
        left = rest("mmm", missing_j=-100_000.0, reserved={0: 3})
        left.supply_j[0] -= 397_000.0
        left.supply_j[2] += 397_000.0
        spent = SpendSurplus(left, savings(3), ladder(3), bounded=bounded)
        assert spent.left_j == pytest.approx(3_000.0 if bounded else 100_000.0)
        spent.speed_up(table(job(0, left_s=300.0, flops=16_000.0)))
        assert drawn(left) == expected


def test_running_jobs_speed_up_to_their_expected_end_and_no_further():
    """16000 flops at 80 flops/s: 200 s, two steps."""
    left = rest("mmmm", missing_j=-50_000.0, reserved={0: 4})
    spending(left).speed_up(table(job(0, left_s=400.0, flops=16_000.0)))
    assert drawn(left) == ["ffmm"]


def test_the_job_closest_to_its_walltime_speeds_up_first():
    left = rest("mm", "mm", missing_j=-8_000.0, reserved={0: 2, 1: 2})
    more = spending(left)
    more.speed_up(table(job(0, left_s=200.0, flops=12_000.0), job(1, left_s=200.0, flops=15_500.0)))
    assert drawn(left) == ["mm", "ff"]
    assert more.left_j == pytest.approx(0.0)


def test_speed_rises_level_by_level_as_far_as_it_is_paid_for():
    """From slow to medium costs 1000 J a step, on to fast 4000 J a step."""
    for surplus_j, expected in ((1_500.0, "ss"), (2_500.0, "mm"), (10_000.0, "ff")):
        left = rest("ss", missing_j=-surplus_j, reserved={0: 2})
        spending(left).speed_up(table(job(0, left_s=200.0, flops=16_000.0)))
        assert drawn(left) == [expected]


def test_all_servers_of_a_job_speed_up_together():
    left = rest("mm", "mm", missing_j=-8_000.0, reserved={0: 2, 1: 2})
    spending(left).speed_up(table(job(0, 1, left_s=200.0, flops=16_000.0)))
    assert drawn(left) == ["mm", "mm"]


def test_servers_wake_at_the_thriftiest_speed_for_waiting_jobs():
    left = rest("...", "...", missing_j=-50_000.0)
    spending(left).wake([(1, 2)], 0, np.array([0, 1]))
    assert drawn(left) == ["mm.", "..."]


def test_idle_servers_are_not_woken_twice():
    left = rest("fff", "...", "...", missing_j=-50_000.0)
    spending(left).wake([(1, 2), (1, 2)], 1, np.array([1, 2]))
    assert drawn(left) == ["fff", "mm.", "..."]


def test_waking_stops_where_it_cannot_be_paid_for():
    """One server for two steps: 20 s at 80 W, 180 s at 60 W and the way back to sleep, less 1000 J asleep."""
    first_j = (1600.0 - 500.0 + 80 * 60.0) + (6000.0 - 500.0) + (885.0 - 500.0)
    for surplus_j, expected in ((first_j - 1.0, ["...", "..."]), (2 * first_j - 1.0, ["mm.", "..."])):
        left = rest("...", "...", missing_j=-surplus_j)
        spending(left).wake([(1, 2), (1, 2)], 0, np.array([0, 1]))
        assert drawn(left) == expected


def test_a_full_battery_takes_no_more_so_that_spending_before_does_not_cost_the_end():
    """What arrives while the battery is full is lost anyway: the trajectory is projected anew."""
    left = rest("mmm", missing_j=-400_000.0, reserved={0: 3})
    left.supply_j[0] += 50_000.0
    assert left.levels_j().tolist() == [900_000.0] * 3
    spending(left).speed_up(table(job(0, left_s=300.0, flops=30_000.0)))
    assert left.levels_j()[0] == 900_000.0


@pytest.mark.parametrize(
    ("more_w", "levels_j"),
    [
        (30.0, [503_000.0, 506_000.0]),
        (80.0, [505_000.0, 510_000.0]),
        (-30.0, [497_000.0, 494_000.0]),
        (-80.0, [496_000.0, 492_000.0]),
    ],
)
def test_levels_keep_to_the_limits_of_charging_and_discharging(more_w, levels_j):
    """At most 50 W in and 40 W out."""
    left = rest("ff", charge_limit_w=50.0, discharge_limit_w=40.0)
    left.supply_j += 100.0 * more_w
    assert left.levels_j() == pytest.approx(levels_j)
    left.supply_j -= 100.0 * more_w
    assert left.levels_j(-100.0 * more_w) == pytest.approx(levels_j)


# --- less energy than the target needs ------------------------------------------------------------------


def test_idle_servers_sleep_before_the_violation_first_and_only_as_many_as_needed():
    left = rest("ffff", "ffff", missing_j=9_000.0)
    saving(left, 1).lower(None)
    assert drawn(left) == ["ffff", "..ff"]


def test_then_idle_servers_after_the_violation():
    """Each saves 9115 + 9500 J and 400 J by waking in the step after; past the violation 18615 J more."""
    left = rest("ffff", missing_j=25_000.0)
    saving(left, 1).lower(None)
    assert drawn(left) == ["...."]


def test_of_equal_servers_the_last_sleeps_first_after_the_violation_too():
    """Both sleep in the first step, which saves 9515 J each; one of them is enough for the rest."""
    left = rest("ffff", "ffff", missing_j=25_000.0)
    saving(left, 0).lower(None)
    assert drawn(left) == [".fff", "...."]


def test_whole_runs_nearest_to_the_violation_first():
    left = rest("fff.fff", missing_j=5_000.0)
    saving(left, 6).lower(None)
    assert drawn(left) == ["fff...."]


def test_idle_servers_come_before_running_ones():
    left = rest("ffff", "ffff", missing_j=9_000.0, reserved={0: 4})
    saving(left, 3).lower(table(job(0, left_s=400.0)))
    assert drawn(left) == ["ffff", "...."]


def test_running_servers_slow_down_after_the_violation_first():
    """A step at medium instead of fast saves 10000 - 100/80 * 6000 = 2500 J, net of the longer run."""
    left = rest("ffff", missing_j=5_000.0, reserved={0: 4})
    saving(left, 1).lower(table(job(0, left_s=400.0)))
    assert drawn(left) == ["fmmf"]


def test_then_before_it_backward():
    left = rest("ffff", missing_j=7_000.0, reserved={0: 4})
    saving(left, 2).lower(table(job(0, left_s=400.0)))
    assert drawn(left) == ["fmmm"]


def test_never_below_the_thriftiest_speed():
    left = rest("ff", missing_j=400_000.0 - 100_000.0, reserved={0: 2})
    saving(left, 0).lower(table(job(0, left_s=200.0)))
    assert drawn(left) == ["mm"]


def test_speed_that_the_walltime_asks_for_is_kept_while_another_job_can_give_way():
    """Job 0 needs 39000 of its 40000 flops: it has no 2000 to spare. Job 1 has all the time."""
    left = rest("ffff", "ffff", missing_j=9_000.0, reserved={0: 4, 1: 4})
    saving(left, 0).lower(table(job(0, left_s=400.0, flops=39_000.0), job(1, left_s=400.0)))
    assert drawn(left) == ["ffff", "mmmm"]


def test_work_that_can_be_done_after_the_window_gives_a_job_time():
    """Job 0 has 300 s more after the window, at its last speed. Job 1 has 500 of its 20000 flops to spare."""
    left = rest("ff", "ff", missing_j=4_000.0, reserved={0: 2, 1: 2})
    saving(left, 0).lower(table(job(0, left_s=500.0, flops=30_000.0), job(1, left_s=200.0, flops=19_500.0)))
    assert drawn(left) == ["mm", "ff"]


def test_it_is_given_up_where_nothing_else_is_left():
    left = rest("ffff", missing_j=2_000.0, reserved={0: 4})
    saving(left, 0).lower(table(job(0, left_s=400.0, flops=39_000.0)))
    assert drawn(left) == ["mfff"]


def test_nothing_is_lowered_where_the_target_is_reached():
    left = rest("ffff", "ffff")
    saving(left, 2).lower(table(job(0, left_s=400.0)))
    assert drawn(left) == ["ffff", "ffff"]


@pytest.mark.parametrize(
    ("missing_j", "running", "idle"),
    [
        (9_000.0, "ffff", "mmmf"),  # 4000 J a step, from the violation backward
        (13_000.0, "ffff", "mmmm"),  # then after it
        (17_000.0, "ffmf", "mmmm"),  # then the running server, 2500 J a step
        (26_000.0, "mmmm", "mmmm"),
        (30_000.0, "mmmm", "...m"),  # asleep only where speeds do not suffice
    ],
)
def test_speed_first_all_servers_get_slower_before_any_falls_asleep(missing_j, running, idle):
    left = rest("ffff", "ffff", missing_j=missing_j, reserved={0: 4})
    saving(left, 2, "speed-first").lower(table(job(0, left_s=400.0)))
    assert drawn(left) == [running, idle]


@pytest.mark.parametrize("shortage", ["sleep-first", "speed-first"])
@pytest.mark.parametrize("seed", range(15))
def test_planned_demand_is_that_of_the_states(seed, shortage):
    """After spending, and after putting idle servers to sleep, the account agrees with the states."""
    rng = np.random.default_rng(seed)
    plans = ["".join(rng.choice(list("fms."), size=8)) for _ in range(4)]
    left = rest(*plans, missing_j=float(rng.choice([-40_000.0, 30_000.0])))
    if left.diff_j > 0:
        more = spending(left)
        more.speed_up(table(job(1, left_s=500.0, flops=30_000.0)))
        more.wake([(1, 3), (2, 5)], 0, np.flatnonzero(left.states[0] == LETTERS["."]))
        assert left.diff_j >= -1e-6
    else:
        saving(left, int(rng.integers(0, 8)), shortage).lower(None)
    cells, hosts = savings(4).cells, np.arange(4)
    was_asleep = shifted(cells.asleep(left.states, hosts), left.now_asleep)
    energy_j = cells.energy_j(left.states, was_asleep, hosts, left.dt_s)
    np.testing.assert_allclose(left.demand_j, energy_j.sum(axis=1), atol=1e-6)
