"""A simulator that answers no energy queries, as Batsim 5: the daemon's own account takes their place."""

from __future__ import annotations

import pytest
from talk import ASLEEP, Scripted, small_battery
from worlds import FAST

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, MeasureEnergy, Start
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError, PeerError, PolicyError
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform, platform_of
from beasy_sched.outputs.summary import brief_summary
from beasy_sched.protocol.notices import notice
from beasy_sched.run.settings import RunSettings

IDLE_W, FULL_W = FAST.idle_w[0], FAST.full_w[0]


def told(count: int = 4, **fields: object) -> e.SimulationBegins:
    hosts = tuple(e.Resource(i, f"n{i}", "idle", host_properties(FAST), **fields) for i in range(count))  # type: ignore[arg-type]
    return e.SimulationBegins(0.0, hosts, answers_queries=False)


def begun(policy: Scripted, **options: object) -> Session:
    session = Session(policy, SessionOptions(**options))  # type: ignore[arg-type]
    session.step(e.Message(0.0, [told()]))
    return session


def arrival(now: float, res: int = 1) -> e.JobSubmitted:
    return e.JobSubmitted(now, e.JobRequest("w0!a", now, res, "p", 100.0))


@pytest.mark.parametrize("power_actions", [True, False])
def test_a_measurement_is_answered_at_once_and_the_policy_is_asked_again(power_actions: bool) -> None:
    policy = Scripted()
    session = begun(policy, power_actions=power_actions)
    seen: list[object] = []

    def start(view: View) -> list[Action]:
        seen.append((view.now, view.measured, [job.id for job in view.arrived]))
        return [Start(next(iter(view.queue)), HostSet.of([0, 1]))]

    def measure(view: View) -> list[Action]:
        seen.append((view.now, view.measured, [job.id for job in view.arrived]))
        policy.say = start
        return [MeasureEnergy()]

    policy.say = measure
    reply = session.step(e.Message(10.0, [arrival(10.0, 2)]))
    assert seen == [(10.0, None, ["w0!a"]), (10.0, (10.0, 10 * 4 * IDLE_W), [])]
    assert reply.decisions == [d.ExecuteJob(10.0, "w0!a", HostSet.of([0, 1]))]
    policy.say = lambda view: [MeasureEnergy()]
    assert session.step(e.Message(20.0, [e.RequestedCall(20.0)])).decisions == []
    assert session.view.measured == (20.0, pytest.approx(10 * 4 * IDLE_W + 10 * (2 * IDLE_W + 2 * FULL_W)))


def test_a_policy_that_does_nothing_but_measure_is_stopped() -> None:
    class Curious(Scripted):
        name = "curious"

        def schedule(self, view: View) -> list[Action]:
            return [MeasureEnergy()]

    with pytest.raises(PolicyError, match=r"measured energy.*endless loop"):
        begun(Curious())


@pytest.mark.parametrize("source", EnergySource)
def test_steps_are_settled_by_the_own_account(source: EnergySource) -> None:
    session = begun(Scripted(), site=small_battery(), energy=source)
    session.step(e.Message(0.0, [notice(0.0, "generic", {"power_available": 400.0})]))
    reply = session.step(e.Message(60.0, [notice(60.0, "generic", {"power_available": 300.0})]))
    assert not any(isinstance(decision, d.QueryEnergy) for decision in reply.decisions)
    assert session.power is not None
    assert [row.record.consumed_j for row in session.power.trace] == [60 * 4 * IDLE_W]
    assert not any("energy" in warning for warning in session.warnings)
    assert brief_summary(session, RunSettings("scripted"), "").settings.energy == "model"


def test_a_measurement_beside_a_site_is_that_of_its_account() -> None:
    policy = Scripted()
    session = begun(policy, site=small_battery())
    session.step(e.Message(0.0, [notice(0.0, "generic", {"power_available": 400.0})]))
    policy.say = lambda view: [MeasureEnergy()]
    session.step(e.Message(30.0, [arrival(30.0)]))
    assert session.view.measured == (30.0, 30 * 4 * IDLE_W)


def test_a_job_that_asks_for_no_host_is_refused() -> None:
    session = begun(Scripted())
    reply = session.step(e.Message(1.0, [arrival(1.0, 0)]))
    assert reply.decisions == [d.RejectJob(1.0, "w0!a")]
    assert session.outcomes.counts()["rejected"] == 1


# --- hosts that tell more ---

SPEEDS = FAST.speeds_flops


def bare(**fields: object) -> Platform:
    properties = {name: text for name, text in host_properties(FAST).items() if name != "speed_per_state"}
    host = e.Resource(0, "n0", "idle", properties, **fields)  # type: ignore[arg-type]
    return platform_of(e.SimulationBegins(0.0, (host,)))


def test_speeds_and_cores_that_are_told() -> None:
    platform = bare(speeds_flops=SPEEDS, cores=4, pstate=ASLEEP)
    assert platform.kinds[0].speeds_flops == SPEEDS
    assert platform.kinds[0].cores == 4
    assert platform.initial_pstates.tolist() == [ASLEEP]
    assert not bare().has_speeds


def test_the_property_counts_where_it_says_the_same_with_more_digits() -> None:
    rounded = tuple(round(speed, 12) for speed in SPEEDS)
    (kind,) = platform_of(told(1, speeds_flops=rounded)).kinds
    assert kind.speeds_flops == SPEEDS
    others = tuple(2 * speed for speed in SPEEDS)
    (kind,) = platform_of(told(1, speeds_flops=others)).kinds
    assert kind.speeds_flops == others


def test_hosts_of_other_speeds_are_of_another_kind() -> None:
    begins = told(3)
    slower = e.Resource(
        3, "n3", "idle", begins.resources[0].properties, {}, None, tuple(s / 2 for s in SPEEDS)
    )
    assert platform_of(e.SimulationBegins(0.0, (*begins.resources, slower))).kind_of.tolist() == [0, 0, 0, 1]


def test_the_start_that_is_told_counts_before_the_platform_file() -> None:
    known = platform_of(told(2))
    hosts = told(2).resources
    first = e.Resource(0, "n0", "idle", {}, {}, ASLEEP)
    assert platform_of(e.SimulationBegins(0.0, (first, hosts[1])), known).initial_pstates.tolist() == [
        ASLEEP,
        0,
    ]


@pytest.mark.parametrize("known", [None, platform_of(told(1))])
def test_a_told_start_that_is_no_p_state_is_refused(known: Platform | None) -> None:
    with pytest.raises(PeerError, match="host 'n0' starts in P-state 9, but it has only 0 to 4"):
        platform_of(told(1, pstate=9), known)


def test_an_answer_that_names_its_kind_must_be_one_to_that_kind() -> None:
    from beasy_sched.engine.actions import SetPState

    policy = Scripted()
    session = begun(policy)
    policy.say = lambda view: [SetPState(HostSet.of([0]), ASLEEP)]
    session.step(e.Message(1.0, [arrival(1.0)]))
    wrong = e.ResourceStateChanged(1.0, HostSet.of([0]), ASLEEP, switch=False)
    with pytest.raises(PeerError, match="not requested"):
        session.step(e.Message(1.0, [wrong]))


def test_the_error_of_a_query_is_that_of_batsim4_only() -> None:
    policy = Scripted()
    session = Session(policy, SessionOptions(power_actions=False))
    answering = e.SimulationBegins(0.0, told().resources)
    policy.say = lambda view: [MeasureEnergy()]
    with pytest.raises(ConfigError, match="requires Batsim's -E"):
        session.step(e.Message(0.0, [answering]))
