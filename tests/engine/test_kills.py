"""Kills: sent a moment after the decision, never for a job that may just have ended."""

from __future__ import annotations

import math

import pytest
from talk import ASLEEP, Talk, completed, hosts, killed, only, start, submitted

from beasy_sched.engine.actions import Kill, SetPState
from beasy_sched.engine.agenda import Agenda, Turn
from beasy_sched.engine.policy import View
from beasy_sched.engine.pstate_commands import Kills
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.jobs import Job, JobState


def kill(job: str):
    return lambda view: [Kill(view.running[f"w0!{job}"], "test")]


def call(now: float) -> e.RequestedCall:
    return e.RequestedCall(now)


def test_a_kill_comes_a_moment_after_its_decision() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0-1")
    assert talk.ask(10.0, kill("a")) == [d.CallMeLater(10.0, 10.001)]
    assert talk.at(10.001, call(10.001)) == [d.KillJobs(10.001, ("w0!a",))]
    assert talk.at(10.001, killed(10.001, "a", "0-1"), e.JobsKilled(10.001, ("w0!a",))) == []
    assert talk.session.outcomes.counts()["killed"] == 1
    assert talk.session.view.free_count == 4


def test_a_message_in_between_does_not_bring_it_forward() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.ask(10.0, kill("a"))
    assert talk.at(10.0, submitted(10.0, "b")) == []
    assert talk.at(10.0005, submitted(10.0005, "c")) == []
    assert talk.at(10.001, call(10.001)) == [d.KillJobs(10.001, ("w0!a",))]


@pytest.mark.parametrize("when", [10.0, 10.0005, 10.001])
def test_a_job_that_ends_in_between_is_not_killed(when: float) -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.ask(10.0, kill("a"))
    talk.at(when, completed(when, "a"))
    assert talk.at(10.001, call(10.001)) == []
    assert talk.session.outcomes.counts()["finished"] == 1


def test_nothing_starts_from_a_kills_decision_to_the_jobs_end() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.ask(10.0, kill("a"))
    say_b = lambda view: [start(view, "b", "1")]  # noqa: E731
    assert talk.ask(10.0, say_b, submitted(10.0, "b")) == []
    talk.at(10.001, call(10.001))
    assert talk.at(10.001, killed(10.001, "a")) == [d.ExecuteJob(10.001, "w0!b", hosts("1"))]


def test_it_is_killed_once_however_often_it_is_asked_for() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")

    def twice(view: View) -> list[Kill]:
        return [*kill("a")(view), *kill("a")(view)]

    talk.ask(10.0, twice)
    assert len(only(d.KillJobs, talk.at(10.001, call(10.001)))) == 1
    assert talk.at(10.002) == []
    assert [row[1] for row in talk.log] == ["start", "kill"]


def test_a_kill_under_way_is_not_sent_again_with_a_later_one() -> None:
    due = Agenda().enter(Turn.KILLS)
    kills = Kills(due)
    jobs = [Job(e.JobRequest(f"w0!{name}", 0.0, 1)) for name in "ab"]
    kills.add(jobs[0], "rule", 10.0)
    assert kills.due(10.001) == ("w0!a",)
    kills.add(jobs[1], "rule", 10.001)
    assert due.at_s == pytest.approx(10.002)
    assert kills.due(10.002) == ("w0!b",)
    assert due.at_s == math.inf
    for job in jobs:
        kills.ended(job.id)
    assert not kills.jobs


def test_a_job_that_does_not_run_is_not_killed() -> None:
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"))
    assert talk.ask(1.0, lambda view: [Kill(view.queue.first)]) == []


@pytest.mark.parametrize("decided_at", [9.998, 9.9985, 9.9995, 10.0])
def test_no_kill_near_the_walltime(decided_at: float) -> None:
    """Batsim itself ends the job at 10 s; a kill within 2 ms of that could come after the end."""
    talk = Talk()
    talk.run_job(0.0, "a", "0", walltime=10.0)
    decisions = talk.ask(decided_at, kill("a"))
    seen = list(decisions)
    now = decided_at
    while now < 10.004:
        asked = only(d.CallMeLater, decisions)
        now = asked[-1].at if asked else now + 0.001
        decisions = talk.at(round(now, 6), call(round(now, 6)))
        seen += decisions
    kills = only(d.KillJobs, seen)
    assert all(abs(each.timestamp - 10.0) > 2e-3 - 1e-9 for each in kills)


def test_the_hosts_of_a_killed_job_sleep_after_its_end() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0-1")
    found = talk.ask(5.0, lambda view: [*kill("a")(view), SetPState(hosts("0-1"), ASLEEP)])
    assert not only(d.SetResourceState, found)
    assert not only(d.SetResourceState, talk.at(5.001, call(5.001)))
    assert talk.at(5.001, killed(5.001, "a", "0-1")) == [d.SetResourceState(5.001, hosts("0-1"), ASLEEP)]


def test_a_kill_by_the_peer_counts_as_killed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(3.0, killed(3.0, "a"))
    assert talk.session.outcomes.columns()["state"].tolist() == [JobState.KILLED.value]
