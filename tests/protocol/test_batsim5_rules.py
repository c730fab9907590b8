"""What Batsim 5 would abort on, or take although it is wrong, is refused before it is sent."""

from __future__ import annotations

import pytest

from beasy_sched.errors import DecisionRefused
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.protocol.batsim5_rules import Rules
from beasy_sched.protocol.notices import notice

SLEEP, OFF, ON = 2, 3, 4
"""The P-states of sleep and its transitions; 0 and 1 compute."""


def hosts(text: str) -> HostSet:
    return HostSet.parse(text)


def state(text: str, pstate: int, at: float = 1.0) -> d.SetResourceState:
    return d.SetResourceState(at, hosts(text), pstate)


def run(job: str, text: str, at: float = 1.0) -> d.ExecuteJob:
    return d.ExecuteJob(at, f"w0!{job}", hosts(text))


class Heard:
    """Rules of a run with four hosts that sleep and one that cannot; jobs a (1 host) and b (2 hosts) wait."""

    def __init__(self) -> None:
        self.rules = Rules()
        speeds = (2e9, 1e9, 0.01, 0.5, 0.2)
        all_hosts = tuple(
            e.Resource(i, f"n{i}", "idle", {"sleep_pstates": "2:3:4"}, {}, 0, speeds) for i in range(4)
        )
        fixed = e.Resource(4, "n4", "idle", {}, {}, 0, (1e9,))
        self.hear(0.0, e.SimulationBegins(0.0, (*all_hosts, fixed)))
        self.hear(
            1.0, *(e.JobSubmitted(1.0, e.JobRequest(f"w0!{job}", 1.0, n)) for job, n in (("a", 1), ("b", 2)))
        )

    def hear(self, now: float, *events: e.Event) -> e.Message:
        return self.rules.hear(e.Message(now, list(events)))

    def say(self, *decisions: d.Decision, now: float = 1.0) -> list[d.Decision]:
        return self.rules.allow(d.Reply(now, list(decisions))).decisions

    def asleep(self, text: str, now: float = 1.0) -> None:
        """Put hosts to sleep."""
        self.say(state(text, SLEEP, now), now=now)
        self.hear(now, e.ResourceStateChanged(now, hosts(text), SLEEP, switch=True))


REFUSED = {
    "too few hosts": ([run("b", "1")], "1 hosts: it requests 2"),
    "too many hosts": ([run("a", "0-2")], "3 hosts: it requests 1"),
    "a busy host": ([run("a", "0"), run("b", "0-1")], "host 0, which is busy"),
    "an unknown host": ([run("b", "4-5")], "only 0 to 4"),
    "no host": ([d.ExecuteJob(1.0, "w0!a", NO_HOSTS)], "no host"),
    "a sleeping host": ([run("b", "2-3")], "host 3, which is not in a computing P-state"),
    "a host that is being switched": ([state("1", SLEEP), run("b", "0-1")], "host 1, which is switching"),
    "an unknown job": ([run("x", "0")], "was not submitted"),
    "a job twice": ([run("a", "0"), run("a", "1")], "already running"),
    "a rejected job": ([d.RejectJob(1.0, "w0!a"), run("a", "0")], "was not submitted, or has ended"),
    "the rejection of a running job": ([run("a", "0"), d.RejectJob(1.0, "w0!a")], "already running"),
    "the rejection of an unknown job": ([d.RejectJob(1.0, "w0!x")], "was not submitted"),
    "the kill of a waiting job": ([d.KillJobs(1.0, ("w0!a",))], "is not running"),
    "the kill of no job": ([d.KillJobs(1.0, ())], "does not name a job"),
    "two kills": ([run("a", "0"), *[d.KillJobs(1.0, ("w0!a",))] * 2], "a second time"),
    "the same job twice in a kill": ([run("a", "0"), d.KillJobs(1.0, ("w0!a", "w0!a"))], "a second time"),
    "off with a job": ([run("a", "0"), state("0-1", SLEEP)], "a job runs on host 0"),
    "off in transition": ([state("0", SLEEP), state("0", SLEEP)], "switching on or off"),
    "on in transition": ([state("0", SLEEP), state("0", 0)], "switching on or off"),
    "another speed in transition": ([state("3", 0), state("3", 1)], "switching on or off"),
    "sleep in sleep": ([state("3", SLEEP)], "cannot change to it from P-state 2"),
    "a transition P-state": ([state("0", OFF)], "cannot change to it"),
    "a transition P-state from sleep": ([state("3", ON)], "cannot change to it"),
    "a P-state that there is not": ([state("0", 17)], "cannot change to it"),
    "a negative P-state": ([state("0", -1)], "cannot change to it"),
    "the sleep of one that cannot": ([state("4", SLEEP)], "cannot change to it"),
    "hosts of which some sleep": ([state("2-3", 0)], "in different P-states"),
    "hosts for which it is not the same": (
        [d.SetResourceState(1.0, hosts("0 4"), SLEEP)],
        "in different P-states",
    ),
    "a P-state of no host": ([d.SetResourceState(1.0, NO_HOSTS, 0)], "no host"),
    "a P-state of an unknown host": ([state("5", 0)], "only 0 to 4"),
    "a call for now": ([d.CallMeLater(1.0, 1.0)], "a call was requested for 1 s"),
    "a call for never": ([d.CallMeLater(1.0, float("inf"))], "a call was requested for inf"),
    "a time after the reply's": ([d.RejectJob(2.0, "w0!a")], "for 2 s, in a reply for 1 s"),
    "a time before the last": ([d.RejectJob(1.0, "w0!a"), d.RejectJob(0.5, "w0!b")], "in time order"),
    "a query": ([d.QueryEnergy(1.0)], "a QueryEnergy"),
    "metadata": ([d.SetJobMetadata(1.0, "w0!a", "x")], "a SetJobMetadata"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    decisions, text = REFUSED[name]
    heard = Heard()
    heard.asleep("3")
    with pytest.raises(DecisionRefused, match=f"decision blocked because Batsim 5.*{text}"):
        heard.say(*decisions)


def test_switches_and_changes_of_speed_are_told_apart() -> None:
    heard = Heard()
    assert heard.say(state("0-1", 1)) == [d.SetResourceState(1.0, hosts("0-1"), 1, switch=False)]
    assert heard.say(state("0", 1)) == [d.SetResourceState(1.0, hosts("0"), 1, switch=False)]
    assert heard.say(state("2-3", SLEEP)) == [d.SetResourceState(1.0, hosts("2-3"), SLEEP, switch=True)]
    heard.hear(3.0, e.ResourceStateChanged(1.0, hosts("2-3"), SLEEP, switch=True))
    assert heard.say(state("2", 1)) == [d.SetResourceState(1.0, hosts("2"), 1, switch=True)]
    heard.hear(9.0, e.ResourceStateChanged(3.0, hosts("2"), 1, switch=True))
    assert heard.say(run("b", "0 2")) == [run("b", "0 2")]
    assert heard.say(state("2", 0)) == [d.SetResourceState(1.0, hosts("2"), 0, switch=False)]  # while it runs


def test_a_refusal_names_the_speed_that_was_asked_for_last() -> None:
    """A change of speed counts at once, before the simulator answers."""
    heard = Heard()
    heard.say(state("0", 1))
    with pytest.raises(DecisionRefused, match="cannot change to it from P-state 1"):
        heard.say(state("0", 17))


def test_the_end_of_the_registration_is_passed_on() -> None:
    assert Heard().say(d.FinishRegistration(1.0)) == [d.FinishRegistration(1.0)]


def test_hosts_start_where_the_simulator_says() -> None:
    rules = Rules()
    properties = {"sleep_pstates": "2:3:4"}
    asleep = e.Resource(0, "n0", "idle", properties, {}, SLEEP, (2e9, 1e9, 0.01, 0.5, 0.2))
    rules.hear(e.Message(0.0, [e.SimulationBegins(0.0, (asleep,))]))
    (decision,) = rules.allow(d.Reply(0.0, [state("0", 0, 0.0)])).decisions
    assert decision == d.SetResourceState(0.0, hosts("0"), 0, switch=True)


def test_hosts_are_free_once_the_end_of_their_job_is_announced() -> None:
    heard = Heard()
    heard.say(run("a", "0"), d.KillJobs(1.0, ("w0!a",)))
    with pytest.raises(DecisionRefused, match="is busy"):
        heard.say(run("b", "0-1"))
    heard.hear(2.0, e.JobCompleted(2.0, "w0!a", e.JobEnd.KILLED, NO_HOSTS))
    heard.say(run("b", "0-1"))
    with pytest.raises(DecisionRefused, match="its end was announced"):
        heard.say(d.KillJobs(1.0, ("w0!a",)))


def test_events_with_the_time_of_the_message_before_get_their_own() -> None:
    heard = Heard()
    stale = [
        e.ResourceStateChanged(20.0, hosts("0"), SLEEP, switch=True),
        notice(20.0, "generic", {"data": "x"}),
        e.JobsKilled(20.0, ()),
    ]
    completed = e.JobCompleted(21.0, "w0!a", e.JobEnd.SUCCESS, NO_HOSTS)
    message = heard.hear(22.0, *stale, completed)
    assert [event.timestamp for event in message.events] == [22.0, 22.0, 22.0, 21.0]


def test_after_the_end_nothing_is_said() -> None:
    heard = Heard()
    heard.hear(2.0, e.SimulationEnds(2.0))
    assert heard.say(now=2.0) == []
    with pytest.raises(DecisionRefused, match="after the end of the simulation"):
        heard.say(d.RejectJob(2.0, "w0!a"), now=2.0)


def test_a_platform_without_speeds_or_with_odd_properties() -> None:
    rules = Rules()
    odd = e.Resource(0, "n0", "idle", {"sleep_pstates": "so"}, {}, 0)
    rules.hear(e.Message(0.0, [e.SimulationBegins(0.0, (odd,))]))
    (decision,) = rules.allow(d.Reply(0.0, [state("0", 7, 0.0)])).decisions
    assert decision == d.SetResourceState(0.0, hosts("0"), 7, switch=False)
