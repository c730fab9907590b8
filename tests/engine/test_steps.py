"""When a step begins and ends, and the production that counts for it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from talk import Talk, completed, only, production, small_battery, start, submitted
from worlds import FAST, plans_of

from beasy_sched.energy.devices.hydrogen import Hold, HydrogenSpec
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import SetPState
from beasy_sched.engine.power_side import EnergySource, Open, Over, Waiting
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.forecast.outlook import PerfectForecast
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform, ServerKind

IDLE_W = 4 * 50.0


def talk_of(energy: EnergySource = EnergySource.MODEL, **options: object) -> Talk:
    return Talk(site=small_battery(), energy=energy, **options)


def record(talk: Talk, step: int = 0):
    return talk.session.power.trace[step].record


# --- the first step ---


def test_nothing_is_decided_before_the_production_is_known() -> None:
    talk = talk_of()
    talk.at(0.0, submitted(0.0, "a"))
    assert talk.policy.asked == []
    talk.at(0.0, production(0.0, 500.0))
    assert (talk.policy.steps, talk.policy.asked) == ([0.0], [0.0])


def test_production_missing_at_time_0_is_taken_as_0_with_a_warning() -> None:
    talk = talk_of()
    talk.at(0.0005)
    assert talk.policy.asked == []
    talk.at(0.001, e.RequestedCall(0.001))
    assert talk.policy.asked == [0.001]
    assert "no power event at time 0" in talk.session.power.warnings[0]
    assert talk.session.view.budget.renew_w == 0.0
    talk.at(60.001, e.RequestedCall(60.001))
    assert record(talk).renew_w == 0.0
    assert record(talk).dt_s == pytest.approx(60.001)


# --- boundaries ---


def test_a_step_is_settled_with_its_own_production() -> None:
    """What is announced at the boundary belongs to the next step."""
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(60.0, production(60.0, 100.0))
    assert (record(talk).renew_w, record(talk).demand_w) == (500.0, IDLE_W)
    assert record(talk).charge_w == 300.0
    assert talk.session.view.budget.renew_w == 100.0
    assert talk.session.view.budget.step == 1
    assert talk.session.view.budget.soc_pct == pytest.approx(50 + 100 * 300 * 60 / 100_000)


def test_batsim_is_asked_and_its_answer_settles_the_step() -> None:
    talk = talk_of(EnergySource.BATSIM)
    talk.at(0.0, production(0.0, 500.0))
    assert talk.at(60.0, production(60.0, 100.0)) == [d.QueryEnergy(60.0)]
    assert talk.session.power.trace == []
    assert talk.policy.asked == [0.0]
    talk.at(60.0, e.EnergyAnswer(60.0, 9_000.0))
    assert record(talk).demand_w == 150.0
    assert talk.policy.asked == [0.0, 60.0]


def test_a_boundary_without_a_notice_comes_a_moment_late_and_goes_on_with_the_old_production() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(60.001, e.RequestedCall(60.001))
    talk.at(120.0, production(120.0, 300.0))
    assert [row.start_s for row in talk.session.power.trace] == [0.0, 60.001]
    assert record(talk).renew_w == pytest.approx(500.0)
    assert record(talk, 1).renew_w == pytest.approx(500.0)
    assert record(talk).dt_s + record(talk, 1).dt_s == pytest.approx(120.0)


@pytest.mark.parametrize("energy", EnergySource)
def test_a_notice_that_comes_in_a_later_message_of_the_instant_still_counts(energy: EnergySource) -> None:
    """Night falls at 60 s, and a job's end in that instant is told first: no decision on old production."""
    talk = talk_of(energy)
    talk.at(0.0, production(0.0, 500.0))
    talk.run_job(1.0, "a", "0")
    asked = len(talk.policy.asked)
    assert talk.at(60.0, completed(60.0, "a"), submitted(60.0, "b")) == []
    assert len(talk.policy.asked) == asked
    talk.at(60.0, production(60.0, 0.0))
    if energy is EnergySource.BATSIM:
        talk.at(60.0, e.EnergyAnswer(60.0, 15_000.0))
    assert talk.session.view.budget.renew_w == 0.0
    assert talk.policy.asked[-1] == 60.0
    assert talk.policy.steps == [0.0, 60.0]


@pytest.mark.parametrize("early_s", [0.0, 5e-7, 1e-6])
def test_six_decimals_are_near_enough_to_a_boundary(early_s: float) -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(60.0 - early_s, production(60.0 - early_s, 100.0))
    assert len(talk.session.power.trace) == 1
    assert talk.session.view.budget.step == 1
    assert talk.session.view.budget.end_s == 120.0


# --- production within a step ---


def test_production_that_changes_within_a_step_counts_by_its_time() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(15.0, production(15.0, 100.0))
    talk.at(45.0, production(45.0, 300.0))
    talk.at(60.0, production(60.0, 0.0))
    assert record(talk).renew_w == pytest.approx((15 * 500 + 30 * 100 + 15 * 300) / 60)


def test_the_headroom_follows_production_within_a_step() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    headroom_j = 500 * 60 + 30_000 - IDLE_W * 60
    assert talk.session.view.budget.headroom_j == pytest.approx(headroom_j)
    talk.at(15.0, production(15.0, 100.0))
    assert talk.session.view.budget.headroom_j == pytest.approx(headroom_j - 400 * 45)
    assert talk.session.view.budget.renew_w == 100.0
    talk.at(45.0, production(45.0, 700.0))
    assert talk.session.view.budget.headroom_j == pytest.approx(headroom_j - 400 * 45 + 600 * 15)


def test_the_policy_acts_on_power_at_steps_only() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(15.0, production(15.0, 100.0))
    assert talk.policy.steps == [0.0]


@pytest.mark.parametrize("watts", [0, 460, 460.4, 1e9])
def test_power_available_is_an_integer_or_a_float(watts: float) -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, watts))
    assert talk.session.view.budget.renew_w == float(watts)


@pytest.mark.parametrize("watts", [-1, float("nan"), float("inf"), "460", None, True, [1], 10**400])
def test_anything_else_is_refused_with_what_was_found(watts: object) -> None:
    with pytest.raises(PeerError, match=r"NOTIFY power: found power_available .*, expected watts"):
        talk_of().at(0.0, production(0.0, watts))  # type: ignore[arg-type]


# --- where the energy is known from ---


def test_without_power_actions_no_energy_is_asked_for() -> None:
    """Without -E Batsim aborts on the question."""
    talk = talk_of(EnergySource.BATSIM, power_actions=False)
    found = talk.at(0.0, production(0.0, 500.0))
    found += talk.at(60.0, production(60.0, 0.0)) + talk.at(120.0, production(120.0, 0.0))
    assert only(d.QueryEnergy, found) == []
    assert only(d.SetResourceState, found) == []
    assert [row.record.demand_w for row in talk.session.power.trace] == [IDLE_W, IDLE_W]
    assert "energy queries are disabled" in talk.session.warnings[0]


def test_the_own_account_knows_what_a_delay_job_draws() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    job = e.JobRequest("w0!a", 1.0, 1, "p", 100)
    talk.policy.say = lambda view: [start(view, "a", "0")]
    talk.at(0.0, e.JobSubmitted(0.0, job, {"type": "delay", "delay": 5}))
    talk.at(60.0, production(60.0, 0.0))
    assert record(talk).demand_w == IDLE_W


def test_the_own_account_knows_what_a_parallel_job_draws_at_each_speed() -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    talk.run_job(0.0, "a", "0-1")
    talk.ask(30.0, lambda view: [SetPState(view.running["w0!a"].hosts, 1)])
    talk.at(60.0, production(60.0, 0.0))
    assert record(talk).demand_w == pytest.approx(2 * 50 + 2 * (100 + 70) / 2)


def test_a_site_needs_powers() -> None:
    session = Session(talk_of().policy, SessionOptions(site=small_battery()))
    begins = e.SimulationBegins(0.0, (e.Resource(0, "n0"),))
    with pytest.raises(ConfigError, match="no wattage_per_state"):
        session.step(e.Message(0.0, [begins]))


def test_kinds_that_cannot_sleep_do() -> None:
    plain = ServerKind("plain", (100.0,), (50.0,), (50.0,), (100.0,))
    talk = Talk(kinds=[plain, plain], site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 500.0))
    talk.run_job(0.0, "a", "0")
    talk.at(60.0, production(60.0, 0.0))
    assert record(talk).demand_w == 150.0


# --- the plan's hydrogen ---


def test_a_step_is_settled_with_the_hydrogen_planned_for_it() -> None:
    """The fuel cell gives 100 W in the first step, the electrolyzer takes 50 W in the second."""
    hydrogen = HydrogenSpec(1.0, 0.5, 0.0, electrolyzer_max_w=200.0, fuel_cell_max_w=200.0, hold=Hold.NEVER)
    site = small_battery()
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, hydrogen))
    platform = Platform((FAST,), np.zeros(4, dtype=np.intp), tuple(f"n{i:03}" for i in range(4)))
    plans = plans_of(site, platform, [np.zeros((3, 4), dtype=np.int8)], [100.0, -50.0, 0.0])
    talk = Talk(site=site, energy=EnergySource.MODEL, plans=plans)
    supplies_j = []
    for now in (0.0, 60.0, 120.0):
        talk.at(now, production(now, 200.0))
        supplies_j.append(talk.session.power.budget.supply_j - 60 * 200.0)
    talk.at(180.0, production(180.0, 200.0))
    records = [record(talk, step) for step in range(3)]
    assert [each.planned_fuel_cell_w for each in records] == [100.0, 0.0, 0.0]
    assert [each.planned_electrolyzer_w for each in records] == [0.0, 50.0, 0.0]
    assert [each.charge_w - each.discharge_w for each in records] == [100.0, -50.0, 0.0]
    above_min_j = [each.battery_before_j - 20_000.0 for each in records]
    assert supplies_j == pytest.approx([above_min_j[0] + 6000, above_min_j[1] - 3000, above_min_j[2]])


@pytest.mark.parametrize("over", [False, True])
def test_the_clock_never_goes_back(over: bool) -> None:
    talk = talk_of()
    talk.at(0.0, production(0.0, 500.0))
    power = talk.session.power
    if over:
        power._enter(Over())
    for phase in (Waiting(), Open(talk.session.view.budget) if over else Waiting()):
        with pytest.raises(RuntimeError, match="cannot go from"):
            power._enter(phase)


def test_the_level_expected_within_a_step_is_the_one_at_its_end() -> None:
    """What has been used by then counts, and what the running job and the idle servers still use."""
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 250.0))
    talk.run_job(15.0, "a", "0")
    power = talk.session.power
    expected_j = power.expected_level(40.0).battery_j
    talk.at(60.0, production(60.0, 250.0))
    assert expected_j == pytest.approx(power.storage.battery_j)
    assert expected_j != pytest.approx(50_000.0)


def test_a_step_s_prediction_is_the_one_made_an_hour_before() -> None:
    site = dataclasses.replace(small_battery(), step_s=1800.0, window_s=9000.0)
    foreseen_w = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    talk = Talk(site=site, energy=EnergySource.MODEL, forecast=PerfectForecast(foreseen_w, 1800.0))
    for step in range(6):
        talk.at(step * 1800.0, production(step * 1800.0, 200.0))
    found = [row.predicted_w for row in talk.session.power.trace]
    assert found == [None, None, 30.0, 40.0, 50.0]


@pytest.mark.parametrize(("steps", "short"), [(3, False), (4, True)])
def test_the_last_announcement_lasts_as_long_as_the_one_before(steps: int, short: bool) -> None:
    talk = Talk(site=small_battery(steps=steps), energy=EnergySource.MODEL)
    for now in (0.0, 60.0, 120.0):
        talk.at(now, production(now, 500.0))
    for now in np.arange(180.0, 60.0 * steps + 1.0, 60.0).tolist():
        talk.at(now + 0.001)
    assert (talk.session.power.short_production() is not None) == short
