"""The working plan: energies kept change by change, projections of the battery, runs of steps."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import HOUR_S, battery, hand_plan, two_kinds

from beasy_sched.energy.balance import settle_step
from beasy_sched.energy.devices.battery import BatterySpec, LossConvention
from beasy_sched.energy.server_energy import CellEnergies
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import ConfigError
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform
from beasy_sched.planner.plan import Plan, PlannedServers, PlanStore, Provenance
from beasy_sched.planner.power_problem import PowerPlan
from beasy_sched.policies.planned.working_plan import WorkingPlan

AWAKE = np.zeros(3, dtype=np.int16)
ALL = np.arange(3)


def hosts(*ids: int) -> np.ndarray:
    return np.array(ids, dtype=np.intp)


def by_hand() -> WorkingPlan:
    """Three hours; two sleepers (0, 1) and one that is always on (2)."""
    return WorkingPlan(PlanStore([hand_plan()]), cells_of(two_kinds()), AWAKE)


def cells_of(platform: Platform) -> CellEnergies:
    return CellEnergies(PowerModel(platform))


def made(
    states: np.ndarray,
    *,
    before: np.ndarray = AWAKE,
    renew_w: np.ndarray | float = 0.0,
    spec: BatterySpec | None = None,
    hydrogen_w: float = 0.0,
) -> WorkingPlan:
    """A working plan of any states: its envelope is what the servers draw."""
    steps = len(states)
    platform = two_kinds(states.shape[1])
    energy_j = cells_of(platform).plan_energy_j(states, before.astype(np.int8), HOUR_S)
    nothing, renew = np.zeros(steps), np.broadcast_to(np.asarray(renew_w, dtype=float), steps).copy()
    storage = Storage(spec or battery())
    level_j = np.full(steps + 1, storage.battery.start_j)
    power = PowerPlan(
        energy_j / HOUR_S,
        renew,
        *(nothing, nothing),
        np.full(steps, max(-hydrogen_w, 0.0)),
        np.full(steps, max(hydrogen_w, 0.0)),
        renew,
        level_j,
        np.zeros(steps + 1),
    )
    servers = PlannedServers(platform.kinds, platform.kind_of, states, energy_j)
    plan = Plan(0.0, HOUR_S, storage, power, nothing, nothing, servers, Provenance("a test"))
    store = PlanStore.__new__(PlanStore)  # its checks are of the power plan, which is not looked at here
    store._plans = [plan]
    return WorkingPlan(store, cells_of(platform), before)


# --- the copy ---


def test_it_holds_what_was_planned() -> None:
    plan = by_hand()
    assert (plan.steps, plan.step_s, plan.start_s, plan.end_s) == (3, HOUR_S, 0.0, 3 * HOUR_S)
    assert plan.states.tolist() == [[0, 1, 0], [2, 1, 0], [2, 2, 0]]
    assert plan.on.tolist() == [[True, True, True], [False, True, True], [False, False, True]]
    assert plan.load_w.tolist() == [2e3, 2e3, 2e3]
    assert plan.renew_w.tolist() == [6e3, 1e3, 0.0]
    assert plan.envelope_w.tolist() == [2e3, 2e3, 1e3]
    assert plan.sleep.tolist() == [2, 2, -1]


def test_the_offline_plan_stays_as_it_was() -> None:
    offline = hand_plan()
    plan = WorkingPlan(PlanStore([offline]), cells_of(two_kinds()), AWAKE)
    plan.set_states(hosts(0), 0, 3, 1)
    plan.set_production(0, 1.0)
    assert offline.servers is not None
    assert offline.servers.states[:, 0].tolist() == [0, 2, 2]
    assert offline.power.renew_w[0] == 6e3


def test_windows_are_one_row_of_steps() -> None:
    first = hand_plan()
    second = hand_plan(5.0)
    later = Plan(3 * HOUR_S, *(getattr(second, n) for n in list(second.__dataclass_fields__)[1:]))
    plan = WorkingPlan(PlanStore([first, later]), cells_of(two_kinds()), AWAKE)
    assert plan.steps == 6
    runs = sorted(zip(*(column.tolist() for column in plan.runs_on(2)), strict=True))
    assert [run for run in runs if run[0] == 2] == [(2, 2, 6)]
    assert [next(begin for host, begin, _ in runs if host == each) for each in (0, 1)] == [3, 3]


@pytest.mark.parametrize(
    ("time_s", "step"),
    [(-1.0, None), (0.0, 0), (3599.0, 0), (3600.0 - 1e-9, 1), (10799.0, 2), (10800.0, None)],
)
def test_steps_by_the_clock(time_s: float, step: int | None) -> None:
    assert by_hand().step_at(time_s) == step


def test_a_plan_of_power_alone_is_refused() -> None:
    offline = hand_plan()
    power_only = Plan(
        0.0, HOUR_S, offline.storage, offline.power, *(np.zeros(3),) * 2, None, offline.provenance
    )
    with pytest.raises(ConfigError, match="the plan has no servers"):
        WorkingPlan(PlanStore([power_only]), cells_of(two_kinds()), AWAKE)


# --- energy ---


def test_energy_by_hand() -> None:
    """Busy at 120, 100 or 90 W, 5 W asleep; 6 s at 101 W to fall asleep, 150 s at 125 W to wake."""
    plan = by_hand()
    falls = 6 * 101 + (HOUR_S - 6) * 5
    expected = [310 * HOUR_S, falls + 190 * HOUR_S, 5 * HOUR_S + falls + 90 * HOUR_S]
    assert plan.energy_j == pytest.approx(expected)
    plan.set_states(hosts(0), 2, 3, 1)
    woken = 150 * 125 + (HOUR_S - 150) * 100
    assert plan.energy_j == pytest.approx([*expected[:2], woken + falls + 90 * HOUR_S])


def test_a_change_reaches_the_step_after_it() -> None:
    plan = by_hand()
    before = plan.energy_j.copy()
    plan.set_states(hosts(0), 1, 2, 0)
    falls = 6 * 101 + (HOUR_S - 6) * 5
    assert plan.energy_j[0] == before[0]
    assert plan.energy_j[2] - before[2] == pytest.approx(falls - 5 * HOUR_S)


def test_servers_that_sleep_as_the_run_begins_wake_in_the_first_step() -> None:
    plan = WorkingPlan(PlanStore([hand_plan()]), cells_of(two_kinds()), np.array([2, 0, 0]))
    assert plan.energy_j[0] == pytest.approx(150 * 125 + (HOUR_S - 150) * 120 + 190 * HOUR_S)


@st.composite
def changed_plans(draw: st.DrawFn) -> tuple[WorkingPlan, list[tuple[np.ndarray, int, int, np.ndarray]]]:
    """A random plan and random changes: of some servers in some steps, to any states they have."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, steps = draw(st.integers(1, 5)), draw(st.integers(1, 8))

    def states(rows: int, ids: np.ndarray) -> np.ndarray:
        return np.where(ids == count - 1, 0, rng.integers(0, 3, (rows, len(ids)))).astype(np.int8)

    plan = made(states(steps, np.arange(count)), before=states(1, np.arange(count))[0])
    changes = []
    for _ in range(draw(st.integers(1, 6))):
        ids = np.flatnonzero(rng.random(count) < 0.6)
        first, end = np.sort(rng.integers(0, steps + 1, 2)).tolist()
        changes.append((ids, first, end, states(end - first, ids)))
    return plan, changes


def recomputed_j(plan: WorkingPlan) -> np.ndarray:
    return plan.cells.plan_energy_j(plan.states, plan._before, HOUR_S)


@given(changed_plans())
def test_energy_is_kept_as_if_counted_anew(
    drawn: tuple[WorkingPlan, list[tuple[np.ndarray, int, int, np.ndarray]]],
) -> None:
    plan, changes = drawn
    for ids, first, end, states in changes:
        plan.set_states(ids, first, end, states)
        assert (plan.states[first:end, ids] == states).all()
        assert (plan.on == (plan.states != plan.sleep)).all()
        np.testing.assert_allclose(plan.energy_j, recomputed_j(plan), rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize(("first", "end"), [(-1, 2), (0, 4), (2, 1)])
def test_steps_outside_the_plan_are_refused_and_change_nothing(first: int, end: int) -> None:
    plan = by_hand()
    with pytest.raises(ValueError, match="outside the plan's 3"):
        plan.set_states(ALL, first, end, 0)
    assert plan.states.tolist() == by_hand().states.tolist()


# --- runs of steps ---


@given(changed_plans())
def test_sleeping_steps_and_runs_are_counted_anew_where_states_change(
    drawn: tuple[WorkingPlan, list[tuple[np.ndarray, int, int, np.ndarray]]],
) -> None:
    plan, changes = drawn
    every = np.arange(plan.states.shape[1])
    for ids, first, end, states in changes:
        plan.set_states(ids, first, end, states)
        counted = plan.asleep_steps(every, first, np.full(len(every), end))
        assert counted.tolist() == (~plan.on[first:end]).sum(axis=0).tolist()
        ends = np.array([[(first + end) // 2], [end]])
        counted = plan.asleep_steps(every, first, ends)
        assert counted.tolist() == [(~plan.on[first:stop]).sum(axis=0).tolist() for stop in ends.ravel()]
        again = np.zeros_like(plan.on)
        for host, begin, stop in zip(*plan.runs_on(first), strict=True):
            assert not again[begin:stop, host].any()
            assert begin == first or not plan.on[begin - 1, host]
            again[begin:stop, host] = True
        assert (again[first:] == plan.on[first:]).all()
        assert not again[:first].any()


@given(changed_plans(), st.data())
def test_nothing_is_derived_beyond_the_next_window_unless_asked_for(
    drawn: tuple[WorkingPlan, list[tuple[np.ndarray, int, int, np.ndarray]]], data: st.DataObject
) -> None:
    plan, changes = drawn
    every, length = np.arange(plan.states.shape[1]), data.draw(st.integers(1, 3))
    plan._window_ends = np.unique([*range(length, plan.steps, length), plan.steps])
    for step, (ids, first, end, states) in enumerate(changes[: plan.steps]):
        plan.set_states(ids, first, end, states)
        horizon = plan.horizon(step)
        assert horizon == min((step // length + 2) * length, plan.steps)
        until = data.draw(st.integers(step + 1, plan.steps))
        plan.cover(step, horizon)
        new = step % length == 0
        assert plan._covered.stop == horizon if new else plan._covered.stop >= horizon
        counted = plan.asleep_steps(every, step, np.full(len(every), until))
        assert counted.tolist() == (~plan.on[step:until]).sum(axis=0).tolist()
        known = np.zeros_like(plan.on)
        for host, begin, stop in zip(*plan.runs_on(step, until), strict=True):
            known[begin:stop, host] = True
        sure = max(horizon, until)
        assert (known[step:sure] == plan.on[step:sure]).all()


# --- projection ---


def test_projection_by_hand() -> None:
    """Always-on servers of 90 W; 5 kWh less 90 Wh; then 4.5 kW for an hour fills the battery to 9 kWh."""
    spec = battery(soc_max_pct=90.0)
    plan = made(
        np.zeros((3, 1), dtype=np.int8), before=AWAKE[:1], renew_w=np.array([0.0, 4590.0, 0.0]), spec=spec
    )
    assert (plan.project_soc(0, plan.steps, 5 * 3.6e6) / 3.6e6).tolist() == pytest.approx(
        [5.0, 4.91, 9.0, 8.91]
    )
    assert (plan.project_soc(1, plan.steps, 1 * 3.6e6) / 3.6e6).tolist() == pytest.approx([1.0, 5.5, 5.41])
    assert (plan.project_soc(2, plan.steps, 0.05 * 3.6e6) / 3.6e6).tolist() == pytest.approx([0.05, 0.0])


def test_projection_with_hydrogen_and_known_production() -> None:
    plan = made(np.zeros((2, 1), dtype=np.int8), before=AWAKE[:1], hydrogen_w=-500.0)
    plan.set_production(0, 1090.0)
    assert (plan.project_soc(0, plan.steps, 5 * 3.6e6) / 3.6e6).tolist() == pytest.approx([5.0, 5.5, 4.91])


def test_a_level_above_the_maximum_only_falls() -> None:
    spec = battery(soc_max_pct=50.0, self_discharge_per_day=0.24)
    plan = made(np.zeros((2, 1), dtype=np.int8), before=AWAKE[:1], renew_w=np.array([1e3, 1e3]), spec=spec)
    kept = 0.76 ** (1 / 24)
    assert (plan.project_soc(0, plan.steps, 8 * 3.6e6) / 3.6e6).tolist() == pytest.approx(
        [8, 8 * kept, 8 * kept**2]
    )


@pytest.mark.parametrize("loss", LossConvention)
@given(seed=st.integers(0, 2**32 - 1))
def test_projection_is_what_the_balance_makes_of_it(loss: LossConvention, seed: int) -> None:
    """With the floor at 0 the real battery, fed and drawn from as planned, goes the same way."""
    rng = np.random.default_rng(seed)
    spec = battery(
        0.5,
        soc_max_pct=80.0,
        soc_start_pct=50.0,
        charge_limit_w=150.0,
        discharge_limit_w=170.0,
        charge_efficiency=0.9,
        discharge_efficiency=0.8,
        self_discharge_per_day=0.02,
        loss=loss,
    )
    steps = 12
    states = np.where(np.arange(3) == 2, 0, rng.integers(0, 3, (steps, 3))).astype(np.int8)
    plan = made(states, renew_w=rng.uniform(0, 500, steps), spec=spec)
    state, levels = StorageState(spec.start_j), [spec.start_j]
    for energy_j, renew_w in zip(plan.energy_j, plan.renew_w, strict=True):
        _, state = settle_step(Storage(spec), state, dt_s=HOUR_S, consumed_j=energy_j, renew_w=renew_w)
        levels.append(state.battery_j)
    np.testing.assert_allclose(plan.project_soc(0, plan.steps, spec.start_j), levels, rtol=1e-12, atol=1e-6)


def test_no_solver_is_loaded() -> None:
    code = (
        "import sys, beasy_sched.policies.planned.working_plan\n"
        "print([name for name in ('scipy', 'highspy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
