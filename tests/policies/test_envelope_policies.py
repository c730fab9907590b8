"""peak, next, last, workload: where the energy goes, and which servers it moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import ASLEEP, Talk, only, production, small_battery, submitted
from worlds import FAST, SLOW, plans_of

from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.model import decisions as d
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform
from beasy_sched.policies.envelope import ORDERS, TOLERANCE_J, EnvelopeRefit
from beasy_sched.policies.planned.working_plan import WorkingPlan
from beasy_sched.policies.registry import make_policy, policy_class
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings

Z = ASLEEP
FULL_J, HALF_J, SLEEP_J = 6000.0, 4200.0, 300.0
"""A fast server over a step of 60 s: 100 W in P-state 0, 70 W in P-state 1, 5 W asleep."""
WAKES_J = 20 * 80 + 40 * 100.0
FALLS_J = 7 * 60 + 53 * 5.0


def platform_of(*kinds: int) -> Platform:
    return Platform(
        (FAST, SLOW), np.array(kinds, dtype=np.intp), tuple(f"n{i:03}" for i in range(len(kinds)))
    )


def plan_of(*rows: Sequence[int], kinds: Sequence[int] = ()) -> tuple[WorkingPlan, EnvelopeRefit]:
    """A working plan of these states, a row a step of 60 s; servers start in the states of the first."""
    states = np.array(rows, dtype=np.int8)
    platform = platform_of(*(kinds or [0] * states.shape[1]))
    store = plans_of(small_battery(steps=len(rows)), platform, [states])
    plan = WorkingPlan(store, CellEnergies(PowerModel(platform)), states[0])
    return plan, EnvelopeRefit(plan)


NOBODY_BUSY = np.ones(3, dtype=bool)


# --- a step's servers ---


@pytest.mark.parametrize(
    ("energy_j", "after", "used_j"),
    [
        (1799.0, [1, 1, Z], 0.0),
        (1800.0, [0, 1, Z], 1800.0),
        (3599.0, [0, 1, Z], 1800.0),
        (3600.0, [0, 0, Z], 3600.0),
        (1e9, [0, 0, 0], 3600.0 + WAKES_J - SLEEP_J + FALLS_J - SLEEP_J),
    ],
)
def test_a_surplus_brings_speed(energy_j: float, after: list[int], used_j: float) -> None:
    """50 flops/s more for 30 W beat 100 for 95 W and the transitions."""
    plan, refit = plan_of([1, 1, Z], [1, 1, Z], [1, 1, Z])
    assert refit.change(1, energy_j, NOBODY_BUSY) == pytest.approx(used_j)
    assert plan.states.tolist() == [[1, 1, Z], after, [1, 1, Z]]


def test_of_two_sleepers_the_one_wakes_that_does_not_switch_for_it() -> None:
    plan, refit = plan_of([0, Z, Z], [0, Z, Z], [0, Z, 0])
    cost_j = WAKES_J - SLEEP_J - (WAKES_J - FULL_J)
    assert refit.change(1, cost_j, NOBODY_BUSY) == pytest.approx(cost_j)
    assert plan.states[1].tolist() == [0, Z, 0]


@pytest.mark.parametrize(
    ("energy_j", "idle", "after"),
    [
        (-1799.0, [1, 1, 1], [0, 0, 0]),
        (-1800.0, [1, 1, 1], [1, 0, 0]),
        (-1800.0, [0, 0, 1], [0, 0, 1]),
        (-3600.0, [0, 1, 0], [1, 1, 0]),
        (-5400.0, [1, 0, 0], [Z, 0, 0]),
        (-1e9, [1, 0, 0], [Z, Z, Z]),
    ],
    ids=["too little", "one slows", "the idle one", "then another", "idle sleeps", "all sleep"],
)
def test_a_lack_takes_the_idle_first(energy_j: float, idle: list[int], after: list[int]) -> None:
    """The last step: what falls asleep stays asleep. From P-state 1 sleep saves 4200 - 685 J more."""
    plan, refit = plan_of([0, 0, 0], [0, 0, 0])
    changed_j = refit.change(1, energy_j, np.array(idle, dtype=bool))
    assert energy_j <= changed_j <= 0
    assert plan.states[1].tolist() == after


@st.composite
def steps_to_change(draw: st.DrawFn) -> tuple[WorkingPlan, EnvelopeRefit, int, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, steps = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    kinds = rng.integers(0, 2, count).tolist()
    plan, refit = plan_of(*rng.integers(0, 3, (steps, count)).tolist(), kinds=kinds)
    return plan, refit, draw(st.integers(0, steps - 1)), rng.random(count) < 0.5


@given(steps_to_change(), st.floats(-30_000, 30_000))
def test_never_beyond_what_is_asked_and_as_much_as_there_is_a_move_for(
    drawn: tuple[WorkingPlan, EnvelopeRefit, int, np.ndarray], energy_j: float
) -> None:
    plan, refit, step, idle = drawn
    before_j, states = plan.energy_j.sum(), plan.states.copy()
    changed_j = refit.change(step, energy_j, idle)
    assert plan.energy_j.sum() - before_j == pytest.approx(changed_j, abs=1e-6)
    assert abs(changed_j) <= abs(energy_j) + TOLERANCE_J
    assert changed_j * energy_j >= 0
    others = np.arange(plan.steps) != step
    assert (plan.states[others] == states[others]).all()
    assert refit.change(step, energy_j - changed_j, idle) == 0.0


@given(steps_to_change(), st.floats(1.0, 30_000), st.sampled_from([1, -1]))
def test_a_step_can_change_exactly_where_a_server_has_a_move(
    drawn: tuple[WorkingPlan, EnvelopeRefit, int, np.ndarray], energy_j: float, sign: int
) -> None:
    plan, refit, step, idle = drawn
    for again in (step, plan.steps - 1, step):
        (can,) = refit.can_change(np.array([again]), sign * energy_j)
        assert can == (refit.change(again, sign * energy_j, idle) != 0.0)


# --- the policies ---


def talk_of(
    name: str, *rows: Sequence[int], soc_pct: float, options: dict[str, str] | None = None, **changes: object
) -> Talk:
    """A run's plan holds the battery at 50 %, the target; it really starts with ``soc_pct``."""
    states = np.array(rows, dtype=np.int8)
    count = states.shape[1]
    site = small_battery(**{"capacity_j": 1e6, "steps": len(rows), **changes})
    platform = Platform((FAST,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
    plans = plans_of(site, platform, [states])
    policy = make_policy(name, options)
    talk = Talk(policy, count=count, site=site, plans=plans, energy=EnergySource.MODEL)
    first_w = float(plans[0].power.renew_w[0])
    talk.begun = talk.at(0.0, production(0.0, first_w + (soc_pct - 50) / 100 * 1e6 / 60))
    return talk


ROWS = ([1, 1, Z], [1, 1, Z], [0, 1, Z], [1, Z, Z], [1, Z, Z])
MORE = 50 + 0.18
"""1800 J beyond the target: one server faster for one step."""


@pytest.mark.parametrize(
    ("name", "step", "states"),
    [
        ("peak", 2, [0, 0, Z]),
        ("next", 0, [0, 1, Z]),
        ("last", 4, [0, Z, Z]),
    ],
)
def test_where_a_surplus_goes(name: str, step: int, states: list[int]) -> None:
    talk = talk_of(name, *ROWS, soc_pct=MORE + 1e-6)
    expected = [list(row) for row in ROWS]
    expected[step] = states
    assert talk.policy.plan.states.tolist() == expected


@pytest.mark.parametrize(
    ("name", "step", "states"),
    [
        ("peak", 2, [1, 0, Z]),
        ("next", 0, [1, 1, Z]),
        ("last", 3, [1, Z, Z]),
    ],
)
def test_where_a_lack_is_taken(name: str, step: int, states: list[int]) -> None:
    """One server slower for a step, in the first step of the order that has one to slow down."""
    rows = [[0, 1, Z], [1, 1, Z], [0, 0, Z], [0, Z, Z], [1, Z, Z]]
    talk = talk_of(name, *rows, soc_pct=50 - 0.18 - 1e-6)
    expected = [list(row) for row in rows]
    expected[step] = states
    assert talk.policy.plan.states.tolist() == expected


@pytest.mark.parametrize(("surplus", "order"), [(True, [2, 0, 1]), (False, [1, 0, 2])])
def test_workload_looks_at_demand_and_envelope(surplus: bool, order: list[int]) -> None:
    talk = talk_of("workload", [0], [0], [0], soc_pct=50.0)
    talk.policy.plan.load_w[:] = [120.0, 80.0, 150.0]
    assert ORDERS["workload"](talk.policy.plan, np.arange(3), surplus).tolist() == order


def test_on_the_way_to_the_target_nothing_changes() -> None:
    for name in ("peak", "next", "last", "workload"):
        assert talk_of(name, *ROWS, soc_pct=50.0).policy.plan.states.tolist() == [list(row) for row in ROWS]


def test_what_one_step_cannot_take_goes_on_to_the_following() -> None:
    talk = talk_of("next", [1], [1], [1], [1], soc_pct=50 + 3 * 0.18 + 1e-6)
    assert talk.policy.plan.states.tolist() == [[0], [0], [0], [1]]


def test_a_server_that_the_refitted_plan_puts_to_sleep_kills_its_job() -> None:
    """The 12 kJ that did not arrive come out of the step itself."""
    talk = talk_of("next", *[[0, 0]] * 6, soc_pct=50.0)
    talk.at(1.0, submitted(1.0, "a", 2))
    talk.at(60.0, production(60.0, 0.0))
    assert talk.policy.plan.states.tolist() == [[0, 0], [Z, Z], *[[0, 0]] * 4]
    assert only(d.KillJobs, talk.at(60.001)) == [d.KillJobs(60.001, ("w0!a",))]


BUSY_TO_SLEEP = ([0, 0], [Z, 0], [Z, Z], [Z, Z])
"""Server 0 is to sleep from step 1 on, server 1 from step 2 on."""


def busy_talk(soc_pct: float, step_w: float, **options: str) -> Talk:
    """A job runs on server 0 when step 1 of `BUSY_TO_SLEEP` begins, in which ``step_w`` arrive."""
    talk = talk_of("next", *BUSY_TO_SLEEP, soc_pct=soc_pct, options=options)
    talk.at(1.0, submitted(1.0, "a", 1))
    talk.decided = talk.at(60.0, production(60.0, step_w))
    return talk


def compensation(talk: Talk) -> dict[str, object]:
    return [why for row, why in zip(talk.log, talk.facts, strict=True) if row[1] == "compensate"][-1]


@pytest.mark.parametrize(
    ("keep", "step_w", "kept"),
    [
        ("always", 1000.0, True),
        ("always", 0.0, True),
        ("surplus", 1000.0, True),
        ("surplus", 0.0, False),
        ("never", 0.0, False),
    ],
)
def test_the_server_of_a_running_job_stays_on(keep: str, step_w: float, kept: bool) -> None:
    """It is written into the plan, and the job is not killed; a shortage puts the idle server to sleep."""
    talk = busy_talk(50.0, step_w, keep=keep)
    assert bool(talk.policy.plan.on[1, 0]) is kept
    assert (only(d.KillJobs, talk.at(60.001)) == []) is kept


def test_how_many_servers_are_kept_is_told() -> None:
    assert compensation(busy_talk(50.0, 105.0, keep="always"))["hosts_kept"] == 1
    assert "hosts_kept" not in compensation(busy_talk(50.0, 105.0, keep="never"))


@pytest.mark.parametrize(
    ("shortage", "untouched"),
    [("idle-first", True), ("by-step", False)],
)
def test_a_shortage_lowers_the_idle_servers_of_all_steps_before_busy_ones(
    shortage: str, untouched: bool
) -> None:
    """Server 0 has a job. What is missing takes the other server's sleep in more than one step."""
    talk = talk_of("next", *[[0, 0]] * 6, soc_pct=50.0, options={"shortage": shortage})
    talk.at(1.0, submitted(1.0, "a", 1))
    talk.at(60.0, production(60.0, 0.0))
    assert (talk.policy.plan.states[:, 0] == 0).all() == untouched


def test_it_follows_what_it_has_refitted() -> None:
    talk = talk_of("next", *ROWS, soc_pct=MORE + 1e-6)
    assert [(str(x.resources), x.state) for x in only(d.SetResourceState, talk.begun)] == [("1", 1), ("2", Z)]


@pytest.mark.parametrize("name", ["peak", "next", "last", "workload"])
def test_they_need_a_plan(name: str) -> None:
    assert policy_class(name).needs_power
    with pytest.raises(ConfigError, match="pass --plan FILE"):
        build_session(RunSettings(name, site="[battery]\ncapacity_kwh = 1\n"))
