"""Hosts that do not come when they are woken, vanish, and return."""

from __future__ import annotations

import math

import pytest
from talk import ASLEEP, Scripted, Talk, changed, completed, hosts, machines, only, start, submitted
from worlds import FAST, SLOW

from beasy_sched.engine.actions import SetPState
from beasy_sched.engine.lost import (
    GIVEN_UP,
    IN_SERVICE,
    MAY_BE_ASKED,
    MOST_FAILURES,
    NOT_COME,
    OUT_OF_SERVICE,
    RETRY_S,
    retry_after_s,
)
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PeerError, PolicyError
from beasy_sched.model.decisions import CallMeLater, SetResourceState
from beasy_sched.model.events import JobEnd, ResourceStateChanged
from beasy_sched.model.host_states import HostState
from beasy_sched.policies.registry import make_policy


def waking(where: str, *, now: float = 10.0, **options: object) -> Talk:
    """A conversation in which hosts are being woken since ``now``."""
    talk = Talk(**options)  # type: ignore[arg-type]
    talk.put_to_sleep(0.0, where)
    wake(talk, now, where)
    return talk


def wake(talk: Talk, now: float, where: str) -> None:
    found = talk.ask(now, lambda view: [SetPState(hosts(where), 0)])
    assert SetResourceState(now, hosts(where), 0) in found


def rows(talk: Talk) -> list[tuple[float, str, str, str]]:
    """Lines of the log on hosts that are lost and back: when, what, hosts, rule."""
    return [(now, what, where, rule) for now, what, _, where, rule in talk.log if what in ("lost", "back")]


def test_a_host_that_does_not_come_is_asleep_and_out_of_use() -> None:
    talk = waking("1-3")
    talk.at(30.0, changed(30.0, "2", ASLEEP), changed(30.0, "1 3", 0))
    cluster = talk.session.cluster
    assert cluster.state.tolist() == [HostState.IDLE, HostState.IDLE, HostState.ASLEEP, HostState.IDLE]
    assert cluster.pstate[2] == ASLEEP
    assert talk.session.view.free_mask().tolist() == [True, True, False, True]
    assert talk.session.view.available.tolist() == [True, True, False, True]
    assert talk.session.view.wakes == []
    assert not talk.session.commander.busy
    assert rows(talk) == [(30.0, "lost", "2", NOT_COME)]
    assert talk.facts[-1] == {"failures": 1, "waited_s": 20.0, "retry_after_s": RETRY_S}
    assert (talk.session.lost.failed_wakes, talk.session.lost.hosts) == (1, 1)


def test_the_rest_of_a_group_may_be_told_later() -> None:
    talk = waking("0-3")
    talk.at(20.0, changed(20.0, "1", ASLEEP))
    talk.at(25.0, changed(25.0, "3", ASLEEP))
    assert talk.session.commander.busy
    talk.at(30.0, changed(30.0, "0 2", 0))
    assert talk.session.view.free_mask().tolist() == [True, False, True, False]


def test_a_group_of_which_nobody_comes_needs_no_other_answer() -> None:
    talk = waking("0-1")
    talk.at(30.0, changed(30.0, "0-1", ASLEEP))
    assert not talk.session.commander.busy
    with pytest.raises(PeerError, match="hosts 0-1 reached P-state 0, which was not requested"):
        talk.at(31.0, changed(31.0, "0-1", 0))


@pytest.mark.parametrize("where", ["0", "0-1", "1-4", "3"])
def test_only_hosts_that_are_being_woken_can_fail_to_come(where: str) -> None:
    talk = waking("1-2")
    with pytest.raises(PeerError, match="which was not requested"):
        talk.at(30.0, changed(30.0, where, ASLEEP))


@pytest.mark.parametrize("where", ["1", "2-3"])
def test_the_answer_for_those_that_came_must_name_them_all(where: str) -> None:
    """Hosts of which nothing was said are still awaited."""
    talk = waking("1-3")
    talk.at(30.0, changed(30.0, "2", ASLEEP))
    with pytest.raises(PeerError, match="which was not requested"):
        talk.at(31.0, changed(31.0, where, 0))


def test_a_lost_host_may_be_asked_on_again_after_a_while() -> None:
    talk = waking("1")
    talk.at(30.0, changed(30.0, "1", ASLEEP))
    assert talk.ask(100.0, lambda view: [SetPState(hosts("1"), 0)]) == []
    assert talk.at(30.0 + RETRY_S - 1) == []
    assert talk.at(30.0 + RETRY_S) == [SetResourceState(30.0 + RETRY_S, hosts("1"), 0)]
    assert rows(talk)[1:] == [(30.0 + RETRY_S, "back", "1", MAY_BE_ASKED)]
    talk.at(400.0, changed(400.0, "1", 0))
    assert talk.session.view.free_mask().all()


def test_nobody_is_woken_whom_no_policy_wants() -> None:
    talk = waking("1")
    talk.at(30.0, changed(30.0, "1", ASLEEP))
    assert talk.at(1000.0) == []
    assert talk.session.cluster.available.all()
    assert talk.session.cluster.state[1] == HostState.ASLEEP


def test_the_wait_grows_with_each_failure_in_a_row_and_ends_with_a_success() -> None:
    talk, now = waking("1", retry_s=10.0), 10.0
    waits = []
    for failures in range(1, 8):
        talk.at(now + 20.0, changed(now + 20.0, "1", ASLEEP))
        assert talk.facts[-1]["failures"] == failures
        waits.append(talk.facts[-1]["retry_after_s"])
        now += 20.0 + waits[-1]
        wake(talk, now, "1")
    assert waits == [10.0, 20.0, 40.0, 80.0, 120.0, 120.0, 120.0]
    talk.at(now + 20.0, changed(now + 20.0, "1", 0))
    talk.put_to_sleep(now + 21.0, "1")
    wake(talk, now + 22.0, "1")
    talk.at(now + 42.0, changed(now + 42.0, "1", ASLEEP))
    assert talk.facts[-1]["failures"] == 1


def test_a_host_that_never_comes_is_given_up_until_it_is_said_to_be_in_service() -> None:
    talk, now = waking("1", retry_s=10.0), 10.0
    for failures in range(1, MOST_FAILURES + 1):
        talk.at(now + 20.0, changed(now + 20.0, "1", ASLEEP))
        now += 20.0 + 120.0
        if failures < MOST_FAILURES:
            wake(talk, now, "1")
    assert rows(talk)[-1][1:] == ("lost", "1", GIVEN_UP)
    assert "retry_after_s" not in talk.facts[-1]
    talk.at(now + 1e6)
    assert not talk.session.cluster.available[1]
    talk.at(now + 2e6, machines(now + 2e6, "1", "available"))
    assert rows(talk)[-1][1:] == ("back", "1", IN_SERVICE)
    wake(talk, now + 3e6, "1")
    talk.at(now + 3e6 + 20.0, changed(now + 3e6 + 20.0, "1", ASLEEP))
    assert talk.facts[-1]["failures"] == 1


def test_hosts_that_failed_in_different_numbers_are_told_apart() -> None:
    talk = waking("0", retry_s=10.0)
    talk.at(30.0, changed(30.0, "0", ASLEEP))
    talk.put_to_sleep(40.0, "1")
    wake(talk, 41.0, "0-1")
    talk.at(61.0, changed(61.0, "0-1", ASLEEP))
    assert rows(talk)[-2:] == [(61.0, "lost", "1", NOT_COME), (61.0, "lost", "0", NOT_COME)]
    assert [facts["failures"] for facts in talk.facts[-2:]] == [1, 2]
    assert talk.at(71.0) == []
    assert talk.session.cluster.available.tolist() == [False, True, True, True]


def test_jobs_that_wait_have_a_call_at_the_time_at_which_hosts_may_be_asked_again() -> None:
    """Nothing else may ever happen; without a job that waits, a call would only delay the end."""
    talk = waking("1")
    assert only(CallMeLater, talk.at(30.0, changed(30.0, "1", ASLEEP))) == []
    found = talk.at(40.0, submitted(40.0, "a", 4))
    assert only(CallMeLater, found) == [CallMeLater(40.0, 30.0 + RETRY_S)]
    assert only(CallMeLater, talk.at(50.0, submitted(50.0, "b", 4))) == []


def test_a_host_that_is_out_of_service_is_not_back_when_it_may_be_asked_again() -> None:
    talk = waking("1")
    talk.at(20.0, machines(20.0, "1", "unavailable"))
    talk.at(30.0, changed(30.0, "1", ASLEEP))
    talk.at(1000.0)
    assert not talk.session.cluster.available[1]
    talk.at(1001.0, machines(1001.0, "1", "available"))
    assert talk.session.cluster.available[1]
    assert rows(talk) == [
        (20.0, "lost", "1", OUT_OF_SERVICE),
        (30.0, "lost", "1", NOT_COME),
        (1001.0, "back", "1", IN_SERVICE),
    ]


def test_a_wish_to_sleep_that_came_while_the_host_was_waking_is_fulfilled() -> None:
    talk = waking("1")
    talk.ask(12.0, lambda view: [SetPState(hosts("1"), ASLEEP)])
    assert talk.at(30.0, changed(30.0, "1", ASLEEP)) == []
    assert talk.session.cluster.requests == 0


def test_a_host_that_vanishes_under_a_job_is_not_given_to_the_next() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0-1")
    talk.at(5.0, machines(5.0, "0", "unavailable"), completed(5.0, "a", "0-1", JobEnd.FAILED))
    assert talk.session.view.free_mask().tolist() == [False, True, True, True]
    assert rows(talk) == [(5.0, "lost", "0", OUT_OF_SERVICE)]
    assert talk.facts[-1] == {"hosts_busy": 1}
    assert talk.session.outcomes.counts()["failed"] == 1
    talk.at(6.0, machines(6.0, "0", "unavailable"))
    assert len(rows(talk)) == 1
    talk.at(7.0, machines(7.0, "0-3", "available"))
    assert rows(talk)[-1] == (7.0, "back", "0", IN_SERVICE)
    talk.run_job(8.0, "b", "0-3")
    assert talk.session.lost.breakdowns == 1


def test_only_the_energy_of_the_attempt_is_spent() -> None:
    """FAST: 5 W asleep, 80 W while it is woken; no idle power before it is on."""
    talk = Talk(count=1, energy=EnergySource.MODEL)
    account = talk.session.cluster.open_account()
    talk.put_to_sleep(0.0, "0")
    wake(talk, 10.0, "0")
    talk.at(30.0, changed(30.0, "0", ASLEEP))
    account.advance(100.0)
    assert account.energy_by_use_j.tolist() == pytest.approx([0.0, 0.0, 10 * 5.0 + 70 * 5.0, 0.0, 20 * 80.0])


def test_a_reservation_that_counted_on_a_lost_host_is_made_anew() -> None:
    """The two waking hosts are promised to the wide job; one does not come, and the narrow one may start."""
    talk = Talk(make_policy("workload-reactive"), count=2)
    cluster = talk.session.cluster
    cluster.request(hosts("0-1").ids, ASLEEP)
    talk.at(0.0)
    talk.at(7.0, changed(7.0, "0-1", ASLEEP))
    found = talk.at(10.0, submitted(10.0, "wide", 2), submitted(10.0, "narrow", 1, 1e5))
    assert only(SetResourceState, found) == [SetResourceState(10.0, hosts("0-1"), 0)]
    talk.at(29.0, changed(29.0, "1", ASLEEP))
    talk.at(30.0, changed(30.0, "0", 0))
    assert [job.id for job in cluster.running.values()] == ["w0!narrow"]
    talk.at(30.0 + RETRY_S)
    assert cluster.state[1] == HostState.SWITCHING_ON
    talk.at(400.0, changed(400.0, "1", 0))
    talk.at(500.0, completed(500.0, "narrow", "0"))
    assert [job.id for job in cluster.running.values()] == ["w0!wide"]


def test_hosts_of_other_kinds_have_switches_of_their_own() -> None:
    talk = Talk(kinds=[FAST, SLOW, FAST, SLOW])
    for where in ("0 2", "1 3"):
        talk.put_to_sleep(0.0, where)
    talk.ask(10.0, lambda view: [SetPState(hosts("0-3"), 0)])
    talk.at(30.0, changed(30.0, "2", ASLEEP), changed(30.0, "0", 0))
    talk.at(31.0, changed(31.0, "1 3", 0))
    assert talk.session.view.free_mask().tolist() == [True, True, False, True]


@pytest.mark.parametrize("switch", [True, False])
def test_a_batsim_5_says_that_hosts_were_turned_off(switch: bool) -> None:
    """A change of P-state alone, of which it tells apart, is no answer to a switch."""
    talk = waking("1-2")
    told = ResourceStateChanged(30.0, hosts("1"), ASLEEP, switch=switch)
    if switch:
        talk.at(30.0, told, ResourceStateChanged(30.0, hosts("2"), 0, switch=True))
        assert rows(talk) == [(30.0, "lost", "1", NOT_COME)]
        assert not talk.session.commander.busy
    else:
        with pytest.raises(PeerError, match="which was not requested"):
            talk.at(30.0, told)


def test_how_long_a_host_is_left_alone() -> None:
    waits = [retry_after_s(300.0, failures) for failures in range(1, MOST_FAILURES + 1)]
    assert waits == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0, 3600.0, 3600.0, 3600.0, math.inf]


def test_the_scripted_policy_starts_nothing_on_a_lost_host() -> None:
    talk = waking("1")
    talk.at(30.0, changed(30.0, "1", ASLEEP))
    assert isinstance(talk.policy, Scripted)
    with pytest.raises(PolicyError, match=r"not free: 1 \(asleep\)"):
        talk.ask(31.0, lambda view: [start(view, "a", "1")], submitted(31.0, "a", 1))
