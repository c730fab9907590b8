"""What the session tells the decision log of P-states and postponements."""

from __future__ import annotations

import pytest
from talk import ASLEEP, Talk, changed, hosts, submitted, waiting

from beasy_sched.engine.actions import Compensate, Postpone, SetPState
from beasy_sched.errors import PolicyError


def test_where_the_servers_go() -> None:
    """Servers 0 and 1 sleep, then 0 falls awake again; P-state 1 wakes it and slows 2 down."""
    talk = Talk()
    talk.put_to_sleep(0.0, "0-1")
    talk.ask(10.0, lambda view: [SetPState(hosts("0 2"), 1, "because", {"planned_w": 5.0})])
    talk.ask(11.0, lambda view: [SetPState(hosts("1 3"), ASLEEP)])
    assert talk.log[1:] == [(10.0, "P-state 1", "", "0 2", "because"), (11.0, "P-state 2", "", "1 3", "")]
    assert talk.facts[1:] == [
        {"hosts_to_wake": 1, "hosts_to_speed": 1, "planned_w": 5.0},
        {"hosts_to_sleep": 2},
    ]


def test_a_server_that_is_falling_asleep_is_woken() -> None:
    talk = Talk()
    talk.ask(0.0, lambda view: [SetPState(hosts("0"), ASLEEP)])
    talk.ask(1.0, lambda view: [SetPState(hosts("0"), 0)])
    assert talk.facts[-1] == {"hosts_to_wake": 1}
    talk.at(7.0, changed(7.0, "0", ASLEEP))


def test_a_postponement_is_logged_when_its_rule_is_new() -> None:
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"), submitted(0.0, "b"))
    for now, job, rule in ((1, "a", "x"), (2, "a", "x"), (3, "b", "x"), (4, "a", "y"), (5, "a", "x")):
        assert talk.ask(now, lambda view, job=job, rule=rule: [Postpone(waiting(view, job), rule)]) == []
    told = [(row[0], row[2], row[4]) for row in talk.log]
    assert told == [(1, "w0!a", "x"), (3, "w0!b", "x"), (4, "w0!a", "y"), (5, "w0!a", "x")]


def test_only_a_waiting_job_is_postponed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    with pytest.raises(PolicyError, match="w0!a is running: it cannot be postponed"):
        talk.ask(1.0, lambda view: [Postpone(view.running["w0!a"], "why")])


def test_a_reason_is_wanted_when_someone_listens_and_it_is_new() -> None:
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"))
    view = talk.session.view
    job = waiting(view, "a")
    assert view.wants_reason(job, "x")
    talk.ask(1.0, lambda view: [Postpone(job, "x")])
    assert not view.wants_reason(job, "x")
    assert view.wants_reason(job, "y")
    view.wants_facts = False
    assert not view.wants_reason(job, "y")


def test_compensation_is_only_told() -> None:
    talk = Talk()
    assert talk.ask(1.0, lambda view: [Compensate("surplus", {"diff_j": 1.0})]) == []
    assert (talk.log[-1], talk.facts[-1]) == ((1.0, "compensate", "", "", "surplus"), {"diff_j": 1.0})
