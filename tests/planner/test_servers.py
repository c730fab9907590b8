"""Server plans: inside the envelope, legal, steady, the same every time; what cannot be planned is told."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from planner.server_cases import (
    ALWAYS,
    QUICK,
    STEP_S,
    asleep_pstate,
    brute_force,
    keeps_on_time,
    tiny_platform,
)

from beasy_sched.errors import ConfigError
from beasy_sched.generate.platform_file import PState, ServerSpec, build_platform, preset_platform
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.planner import server_search
from beasy_sched.planner.plan import FEASIBLE, INFEASIBLE, OPTIMAL
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.server_search import fill
from beasy_sched.planner.servers import ServerPlan, ServerSetup, ServerStart, least_power_w, plan_servers

SLEEP = 3  # QUICK's sleep state


def on(platform: Platform, plan: ServerPlan) -> np.ndarray:
    asleep = np.array([asleep_pstate(platform.kind(host)) for host in range(platform.size)])
    return (plan.states != asleep).sum(axis=1)


def test_an_envelope_above_everything_runs_all_at_top_speed() -> None:
    platform = preset_platform({"gros": 20, "parasilo": 10, "taurus": 5})
    plan = plan_servers(platform, np.full(30, np.inf), STEP_S)
    assert (plan.states == 0).all()
    assert plan.wakeups == 0
    assert plan.solved.status == OPTIMAL
    assert plan.solved.gap == pytest.approx(0.0, abs=1e-9)
    assert plan.objective_flops == pytest.approx(30 * 300 * (20 * 35.2e9 + 10 * 38.4e9 + 5 * 18.4e9))


def test_no_power_at_all_is_told_with_hour_and_watts() -> None:
    plan = plan_servers(tiny_platform(quick=2), np.zeros(3), STEP_S)
    assert plan.solved.status == INFEASIBLE
    assert (plan.states == SLEEP).all()
    falling_w = 2 * (10 * 70.0 + 290 * 5.0) / 300
    assert plan.shortfall_w == pytest.approx([falling_w, 10.0, 10.0])
    assert "3 steps; first: step 0 (hour 0.00)" in plan.solved.message
    assert f"draw at least {falling_w:.1f} W, {falling_w:.1f} W more" in plan.solved.message


def test_a_step_below_the_sleep_floor_is_named_and_the_rest_is_planned() -> None:
    platform = tiny_platform(quick=3)
    envelope_w = np.full(24, 400.0)
    envelope_w[18] = 12.5
    plan = plan_servers(platform, envelope_w, STEP_S)
    assert plan.solved.status == INFEASIBLE
    assert "1 step: step 18 (hour 1.50): the servers draw at least 15.0 W, 2.5 W more" in plan.solved.message
    assert np.flatnonzero(plan.shortfall_w).tolist() == [18]
    assert on(platform, plan)[18] == 0
    assert on(platform, plan)[:17].min() == 3
    assert (plan.energy_j <= (envelope_w + plan.shortfall_w) * STEP_S * (1 + 1e-9)).all()


def test_an_envelope_at_the_sleep_floor_is_enough() -> None:
    platform = preset_platform({"gros": 30, "taurus": 4})
    floor_w = least_power_w(platform, 12, STEP_S)
    plan = plan_servers(platform, floor_w, STEP_S)
    assert plan.solved.status == OPTIMAL
    assert plan.energy_j == pytest.approx(floor_w * STEP_S)
    assert on(platform, plan).tolist() == [0] * 12


def test_servers_that_cannot_sleep_stay_on() -> None:
    platform = tiny_platform(always=2, quick=1)
    assert least_power_w(platform, 2, STEP_S)[1] == 2 * 50.0 + 5.0
    plan = plan_servers(platform, np.full(4, 130.0), STEP_S)
    always = platform.kind_of == platform.kinds.index(ALWAYS.kind())
    assert plan.solved.status == OPTIMAL
    assert set(plan.states[:, always].ravel().tolist()) == {0}
    assert (plan.states[1:, ~always] == SLEEP).all()


def test_what_is_left_buys_speeds_off_the_best_line() -> None:
    """From 50 W to 100 W is the best bargain, but where 45 W are left, 90 W are better than 50 W."""
    speeds = PState(10.0, 100.0), PState(6.5, 90.0), PState(5.0, 50.0)
    platform = build_platform([(ServerSpec(name="bent", idle_w=30.0, pstates=speeds), 2)])
    setup = ServerSetup.of(platform, ServerStart.all_on(platform), ServerRules(), STEP_S, 0)
    problem = setup.problem(np.array([100.0, 145.0, 195.0, 200.0]) * STEP_S)
    none = np.zeros(4, dtype=np.int64)
    (counts,) = fill(problem, (np.array([none + 2, none, none]),))
    assert counts.whole.tolist() == [[2, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 2]]


def test_a_short_spike_is_not_followed_unless_the_rules_let_it() -> None:
    platform = preset_platform({"gros": 50})
    envelope_w = np.full(60, 3000.0)
    envelope_w[30] = 5000.0
    steady = plan_servers(platform, envelope_w, STEP_S)
    assert steady.wakeups == 0
    assert len(set(on(platform, steady).tolist())) == 1
    free = plan_servers(
        platform, envelope_w, STEP_S, rules=ServerRules(minimum_on_s=0.0, switch_cost_s=0.0, gap=1e-3)
    )
    assert free.wakeups > 5
    assert free.flops.sum() > steady.flops.sum()


def test_power_that_comes_to_stay_is_followed() -> None:
    platform = preset_platform({"gros": 50})
    envelope_w = np.where(np.arange(60) < 20, 2000.0, 5500.0)
    servers = on(platform, plan_servers(platform, envelope_w, STEP_S))
    assert servers[:20].max() < 20
    assert servers[22:].min() > 40


def test_a_wakeup_across_windows_keeps_its_on_time() -> None:
    platform = tiny_platform(quick=2)
    asleep = ServerStart(np.array([SLEEP, SLEEP], dtype=np.int8), np.zeros(2))
    envelope_w = np.array([10.0, 10.0, 10.0, 300.0, 300.0])
    first = plan_servers(platform, envelope_w, STEP_S, start=asleep)
    assert on(platform, first).tolist() == [0, 0, 0, 2, 2]
    assert first.end.obliged_s.tolist() == [3000.0, 3000.0]
    # Enough for two at the lowest P-state for 10 steps, then for none.
    later_w = np.array([160.0] * 10 + [50.0] * 2)
    second = plan_servers(platform, later_w, STEP_S, start=first.end)
    assert second.solved.status == OPTIMAL
    assert on(platform, second).tolist() == [2] * 10 + [0] * 2


def test_on_times_that_the_new_envelope_cannot_carry_are_dropped_and_told() -> None:
    platform = tiny_platform(quick=2)
    start = ServerStart(np.zeros(2, dtype=np.int8), np.array([3000.0, 0.0]))
    plan = plan_servers(platform, np.full(4, 60.0), STEP_S, start=start)
    assert plan.solved.status == OPTIMAL
    assert "dropped" in plan.solved.message
    assert on(platform, plan).tolist() == [0, 0, 0, 0]


def test_the_end_of_a_plan_counts_on_times_of_its_start() -> None:
    platform = tiny_platform(quick=2)
    start = ServerStart(np.zeros(2, dtype=np.int8), np.array([3000.0, 0.0]))
    plan = plan_servers(platform, np.full(4, 260.0), STEP_S, start=start)
    assert plan.end.obliged_s.tolist() == [3000.0 - 4 * STEP_S, 0.0]


@pytest.mark.slow
def test_windows_turn_round_which_servers_sleep() -> None:
    platform = preset_platform({"gros": 10})
    envelope_w = np.full(20, 700.0)
    plans = [plan_servers(platform, envelope_w, STEP_S, window=window) for window in range(4)]
    sleepers = {tuple(np.flatnonzero((p.states == 13).all(axis=0)).tolist()) for p in plans}
    assert len(sleepers) == 4
    assert len({p.objective_flops for p in plans}) == 1


@pytest.mark.parametrize(("one_pstate", "gap"), [(False, 0.005), (True, 0.02)])
def test_three_kinds_are_planned_to_a_small_gap(one_pstate: bool, gap: float) -> None:
    platform = preset_platform({"gros": 40, "parasilo": 40, "taurus": 40}, one_pstate=one_pstate)
    hours = np.arange(96) / 12
    envelope_w = 9000.0 + 6000.0 * np.sin(hours) + 500.0 * np.cos(17 * hours)
    plan = plan_servers(platform, envelope_w, STEP_S)
    assert plan.solved.gap <= gap
    assert (plan.solved.status == OPTIMAL) == (plan.solved.gap <= 0.005)
    assert (plan.energy_j <= envelope_w * STEP_S * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("envelope_w", "step_s", "message"),
    [
        (np.full(4, 500.0), 50.0, "take 60 s to switch on .* steps of at least 60 s"),
        (np.array([1.0, -2.0]), 300.0, "step 1: -2 W"),
        (np.array([1.0, np.nan]), 300.0, "step 1: nan W"),
        (np.array([]), 300.0, "at least one step"),
        (np.full(4, 500.0), 0.0, "expected a number > 0"),
    ],
)
def test_what_cannot_be_planned_with_is_refused(envelope_w: np.ndarray, step_s: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_servers(tiny_platform(quick=2), envelope_w, step_s)


def test_unknown_powers_and_wrong_starts_are_refused() -> None:
    bare = Platform((ServerKind("bare", (1e9,)),), np.array([0]), ("bare",))
    with pytest.raises(ConfigError, match="speed and power"):
        plan_servers(bare, np.ones(2), STEP_S)
    platform = tiny_platform(quick=2)
    switching_off = ServerStart(np.array([0, QUICK.kind().sleeps[0].off_pstate], dtype=np.int8), np.zeros(2))
    with pytest.raises(ConfigError, match="quick-2 is in P-state 4, expected one of"):
        plan_servers(platform, np.ones(2), STEP_S, start=switching_off)
    with pytest.raises(ConfigError, match="switch_cost_s"):
        ServerRules(switch_cost_s=-1.0)


def test_a_time_limit_still_gives_a_plan_and_says_so() -> None:
    platform = preset_platform({"gros": 30, "taurus": 30})
    envelope_w = np.full(100, 3000.0)
    plan = plan_servers(platform, envelope_w, STEP_S, rules=ServerRules(time_s=1e-9))
    assert plan.solved.status == FEASIBLE
    assert "unknown distance" in plan.solved.message
    assert "stopped by the time limit" in plan.solved.message
    assert (plan.energy_j <= envelope_w * STEP_S * (1 + 1e-9)).all()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Platform, np.ndarray, ServerStart, ServerRules]:
    names = draw(st.sets(st.sampled_from(["quick", "slow", "single", "always"]), min_size=1, max_size=3))
    platform = tiny_platform(**{name: draw(st.integers(1, 5)) for name in sorted(names)})
    steps = draw(st.integers(1, 20))
    start = ServerStart.all_on(platform)
    for host in range(platform.size):
        if platform.kind(host).sleep and draw(st.booleans()):
            start.states[host] = asleep_pstate(platform.kind(host))
        elif draw(st.booleans()):
            start.obliged_s[host] = draw(st.sampled_from([1.0, 300.0, 900.0]))
    floor_w = float(least_power_w(platform, steps, STEP_S, start).max())
    shares = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=steps, max_size=steps)))
    rules = ServerRules(
        minimum_on_s=draw(st.sampled_from([0.0, 300.0, 1200.0, 3600.0])),
        switch_cost_s=draw(st.sampled_from([0.0, 300.0])),
    )
    return platform, floor_w + shares * 110.0 * platform.size, start, rules


@pytest.mark.slow
@given(cases(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_plans_keep_every_rule(case, whole: bool) -> None:
    platform, envelope_w, start, rules = case
    with pytest.MonkeyPatch.context() as patch:
        if not whole:
            patch.setattr(server_search, "SMALL_COLUMNS", 0)
        plan = plan_servers(platform, envelope_w, STEP_S, rules=rules, start=start)
        again = plan_servers(platform, envelope_w, STEP_S, rules=rules, start=start)
    assert (plan.states == again.states).all()
    assert plan.solved == again.solved
    assert plan.solved.status != INFEASIBLE
    assert (plan.energy_j <= envelope_w * STEP_S * (1 + 1e-9)).all()
    least_steps = max(1, int(rules.minimum_on_s / STEP_S))
    wakeups, value = 0, plan.flops.sum()
    for host in range(platform.size):
        kind, path = platform.kind(host), plan.states[:, host].tolist()
        asleep = asleep_pstate(kind)
        assert set(path) <= {*kind.computing, asleep}
        assert keeps_on_time(path, int(start.states[host]), asleep, least_steps)
        states = [int(start.states[host]), *path]
        woken = sum(a == asleep != b for a, b in zip(states, path, strict=False))
        wakeups += woken
        value -= woken * rules.switch_cost_s * max(kind.speeds_flops[p] for p in kind.computing)
        if "dropped" not in plan.solved.message:
            obliged = min(least_steps - 1, int(np.ceil(start.obliged_s[host] / STEP_S)))
            assert asleep not in path[:obliged]
    assert plan.wakeups == wakeups
    assert plan.objective_flops == pytest.approx(value, rel=1e-9, abs=1.0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("counts", [{"quick": 2}, {"slow": 2, "single": 1}, {"single": 3}], ids=str)
def test_the_bound_of_rounded_plans_holds(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], seed: int
) -> None:
    monkeypatch.setattr(server_search, "SMALL_COLUMNS", 0)
    platform = tiny_platform(**counts)
    random = np.random.default_rng(seed)
    envelope_w = 100.0 * platform.size * random.uniform(0.3, 1.1, 4)
    start = ServerStart.all_on(platform)
    best = brute_force(platform, envelope_w, start.states, 2, 0.0)
    rules = ServerRules(minimum_on_s=600.0, switch_cost_s=0.0, gap=0.0)
    plan = plan_servers(platform, envelope_w, STEP_S, rules=rules)
    assert plan.objective_flops <= best * (1 + 1e-9)
    assert best * (1.0 - plan.solved.gap) <= plan.objective_flops * (1 + 1e-6)
