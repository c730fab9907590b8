"""P-state commands: none is lost, and none makes Batsim abort."""

from __future__ import annotations

import pytest
from talk import ASLEEP, Talk, changed, completed, hosts, machines, only, submitted
from worlds import FAST, SLOW

from beasy_sched.engine.actions import SetPState
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.model.decisions import SetResourceState
from beasy_sched.model.host_states import HostState


def request(where: str, pstate: int):
    return lambda view: [SetPState(hosts(where), pstate)]


def command(now: float, where: str, pstate: int) -> SetResourceState:
    return SetResourceState(now, hosts(where), pstate)


def test_a_busy_host_sleeps_only_after_its_job() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0-1")
    assert talk.ask(5.0, request("0-2", ASLEEP)) == [command(5.0, "2", ASLEEP)]
    assert talk.session.view.free_count == 1
    assert talk.at(9.0, completed(9.0, "a", "0-1")) == [command(9.0, "0-1", ASLEEP)]
    assert not talk.session.view.free_mask()[:3].any()


def test_a_request_during_a_transition_is_held_back_and_only_the_newest_is_sent() -> None:
    talk = Talk()
    assert talk.ask(0.0, request("0", ASLEEP)) == [command(0.0, "0", ASLEEP)]
    for now, pstate in ((1.0, 0), (2.0, ASLEEP), (3.0, 1)):
        assert talk.ask(now, request("0", pstate)) == []
    assert talk.at(7.0, changed(7.0, "0", ASLEEP)) == [command(7.0, "0", 1)]
    assert talk.session.cluster.state[0] == HostState.SWITCHING_ON
    assert talk.ask(8.0, request("0", ASLEEP)) == []
    assert talk.at(27.0, changed(27.0, "0", 1)) == [command(27.0, "0", ASLEEP)]
    assert talk.session.view.free_count == 3


def test_never_asks_for_sleep_from_sleep() -> None:
    talk = Talk()
    talk.put_to_sleep(0.0, "0-1")
    assert talk.ask(10.0, request("0-2", ASLEEP)) == [command(10.0, "2", ASLEEP)]
    assert talk.ask(11.0, request("0-1", 0)) == [command(11.0, "0-1", 0)]


def test_a_request_that_is_fulfilled_already_sends_nothing_and_holds_nobody() -> None:
    talk = Talk()
    assert talk.ask(0.0, request("0-3", 0)) == []
    assert talk.session.view.free_count == 4
    assert not talk.session.commander.busy


def test_one_command_for_what_finishes_together() -> None:
    talk = Talk(kinds=[FAST, SLOW, FAST, SLOW])
    assert talk.ask(0.0, request("0-3", ASLEEP)) == [command(0.0, "0 2", ASLEEP), command(0.0, "1 3", ASLEEP)]


def test_speed_changes_go_apart_from_switches() -> None:
    """Hosts that only change their speed would else be known to be free 20 s late."""
    talk = Talk()
    talk.put_to_sleep(0.0, "0-1")
    talk.run_job(1.0, "a", "2")
    found = talk.ask(2.0, request("0-3", 1))
    assert found == [command(2.0, "2-3", 1), command(2.0, "0-1", 1)]
    talk.at(2.0, changed(2.0, "2-3", 1))
    assert talk.session.cluster.state.tolist() == [4, 4, HostState.BUSY, HostState.IDLE]


def test_a_speed_and_then_sleep_in_one_instant() -> None:
    """The answer to the speed change must not be taken for the end of the transition."""
    talk = Talk()
    talk.ask(0.0, request("0", 1))
    assert talk.ask(0.0, request("0", ASLEEP)) == [command(0.0, "0", ASLEEP)]
    talk.at(0.0, changed(0.0, "0", 1))
    assert talk.session.cluster.state[0] == HostState.SWITCHING_OFF
    talk.at(7.0, changed(7.0, "0", ASLEEP))
    assert talk.session.cluster.state[0] == HostState.ASLEEP


def test_two_speeds_in_one_instant_have_two_answers() -> None:
    talk = Talk()
    talk.ask(0.0, request("0", 1))
    talk.ask(0.0, request("0", 0))
    talk.at(0.0, changed(0.0, "0", 1), changed(0.0, "0", 0))
    assert talk.session.cluster.pstate[0] == 0
    assert not talk.session.commander.busy


@pytest.mark.parametrize(("where", "pstate"), [("1", ASLEEP), ("0", 0), ("0-1", ASLEEP)])
def test_an_answer_to_nothing_is_the_peers_fault(where: str, pstate: int) -> None:
    talk = Talk()
    talk.ask(0.0, request("0", ASLEEP))
    with pytest.raises(PeerError, match=f"hosts {where} reached P-state {pstate}, which was not requested"):
        talk.at(7.0, changed(7.0, where, pstate))


@pytest.mark.parametrize("pstate", [3, 4, 9, -1])
def test_transition_pstates_cannot_be_requested(pstate: int) -> None:
    with pytest.raises(PolicyError, match="neither a computing nor the sleep state of n000"):
        Talk().ask(0.0, request("0", pstate))


def test_hosts_beyond_the_platform_cannot_be_requested() -> None:
    with pytest.raises(PolicyError, match="expected some of 0 to 3"):
        Talk().ask(0.0, request("3-4", 1))


def test_no_power_actions_sends_none() -> None:
    talk = Talk(power_actions=False)
    assert talk.ask(0.0, request("0-3", ASLEEP)) == []
    assert talk.session.view.free_count == 4
    assert not talk.session.view.power_actions_allowed


# --- hosts out of service ---


def test_hosts_out_of_service_leave_every_choice_and_come_back() -> None:
    talk = Talk()
    talk.at(0.0, machines(0.0, "1-2", "unavailable"))
    assert talk.session.view.free_mask().tolist() == [True, False, False, True]
    with pytest.raises(PolicyError, match=r"not free: 1 \(unavailable\)"):
        talk.run_job(1.0, "a", "0-1")


def test_hosts_that_come_back_may_be_used() -> None:
    talk = Talk()
    talk.at(0.0, machines(0.0, "1-2", "unavailable"))
    talk.at(5.0, machines(5.0, "1-2", "available"))
    talk.run_job(5.0, "a", "0-3")


def test_hosts_out_of_service_are_not_switched_until_they_are_back() -> None:
    """Batsim would take a host that is switched for being back, and abort when it really comes back."""
    talk = Talk()
    talk.put_to_sleep(0.0, "2")
    talk.at(1.0, machines(1.0, "1-2", "unavailable"))
    assert talk.ask(2.0, lambda view: [*request("0-1", ASLEEP)(view), *request("2", 0)(view)]) == [
        command(2.0, "0", ASLEEP)
    ]
    assert talk.at(5.0, machines(5.0, "1-2", "available")) == [
        command(5.0, "2", 0),
        command(5.0, "1", ASLEEP),
    ]


def test_a_busy_host_out_of_service_keeps_its_job_and_may_change_speed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, machines(1.0, "0", "unavailable"))
    assert talk.ask(2.0, request("0", 1)) == [command(2.0, "0", 1)]
    talk.at(3.0, completed(3.0, "a"), submitted(3.0, "b"))
    assert talk.session.view.free_count == 3


@pytest.mark.parametrize("back_first", [False, True])
def test_a_host_that_leaves_while_it_switches_on_gets_no_job_until_it_is_back_and_on(
    back_first: bool,
) -> None:
    """A Batsim 4 aborts at its return after the switch; before that, the run goes on."""
    talk = Talk()
    talk.put_to_sleep(0.0, "1-2")
    assert talk.ask(10.0, request("1-2", 0)) == [command(10.0, "1-2", 0)]
    talk.at(12.0, machines(12.0, "0-1", "unavailable"))
    (warning,) = talk.session.warnings
    assert warning.startswith(
        "hosts 1 went out of service at 12 s while they were switched on or off: Batsim 4"
    )
    events = [changed(30.0, "1-2", 0), machines(30.0, "0-1", "available")]
    talk.at(30.0, events[back_first])
    assert talk.session.view.free_mask().tolist() == [back_first, False, not back_first, True]
    talk.at(31.0, events[not back_first])
    assert talk.session.view.free_mask().all()
    talk.at(40.0, machines(40.0, "0-3", "unavailable"))
    assert talk.session.warnings == [warning]


def test_a_host_that_left_while_it_fell_asleep_is_woken_only_when_it_is_back() -> None:
    talk = Talk()
    assert talk.ask(0.0, request("1", ASLEEP)) == [command(0.0, "1", ASLEEP)]
    talk.at(1.0, machines(1.0, "1", "unavailable"))
    assert talk.ask(2.0, request("1", 0)) == []
    assert talk.at(7.0, changed(7.0, "1", ASLEEP)) == []
    assert talk.at(9.0, machines(9.0, "1", "available")) == [command(9.0, "1", 0)]


@pytest.mark.parametrize("where", ["4", "x", "3-1"])
def test_a_notice_about_unknown_hosts_is_the_peers_fault(where: str) -> None:
    with pytest.raises(PeerError, match="expected hosts such as"):
        Talk().at(0.0, machines(0.0, where, "unavailable"))


def test_only_finds_commands() -> None:
    assert only(SetResourceState, Talk().ask(0.0, request("0", ASLEEP))) != []
