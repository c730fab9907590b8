"""Jobs that wait for others: held by the session, under every policy."""

from __future__ import annotations

import pytest
from talk import Talk, completed, killed, submitted, waiting

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.jobs import JobState


def came(now: float, name: str, **members: object) -> e.JobSubmitted:
    return e.JobSubmitted(now, e.JobRequest(f"w0!{name}", now, 1, "p", 100.0, members or None))


NO_MORE = e.Notify(0.0, "no_more_static_job_to_submit", {})


def names(talk: Talk) -> list[str]:
    return [job.id for job in talk.session.view.queue]


def test_a_job_is_in_the_queue_when_its_predecessor_has_finished() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    assert talk.at(1.0, came(1.0, "b", after=["a"])) == []
    assert names(talk) == []
    assert list(talk.session.view.held) == ["w0!b"]
    talk.at(50.0, completed(50.0, "a"))
    assert names(talk) == ["w0!b"]
    assert not talk.session.view.held
    assert [job.id for job in talk.session.view.arrived] == ["w0!b"]


def test_successors_of_a_killed_job_are_rejected() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, came(1.0, "b", after=["a"]), came(1.0, "c", after=["b"]))
    assert talk.at(50.0, killed(50.0, "a")) == [d.RejectJob(50.0, "w0!b"), d.RejectJob(50.0, "w0!c")]
    assert talk.session.outcomes.counts()[JobState.REJECTED.value] == 2


def test_the_session_asks_for_a_call_when_the_think_time_is_over() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, came(1.0, "b", after=["a"], think_time_s=30.0))
    assert talk.at(50.0, completed(50.0, "a")) == [d.CallMeLater(50.0, 80.0)]
    assert names(talk) == []
    talk.at(80.0, e.RequestedCall(80.0))
    assert names(talk) == ["w0!b"]


def test_a_member_that_cannot_be_read_refuses_the_job() -> None:
    talk = Talk()
    assert talk.at(1.0, came(1.0, "b", deadline_s="soon")) == [d.RejectJob(1.0, "w0!b")]
    assert talk.session.warnings == [
        "job w0!b was refused: deadline_s: found 'soon', expected a number of 0 or more"
    ]


def test_a_job_that_waits_for_none_that_comes_is_postponed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    assert talk.at(1.0, came(1.0, "b", after=["none"])) == []
    assert talk.at(2.0, NO_MORE) == [d.RejectJob(2.0, "w0!b")]
    assert talk.session.warnings == ["job w0!b waits for jobs that never come: w0!none"]
    assert talk.session.outcomes.counts()[JobState.POSTPONED.value] == 1


def test_jobs_that_wait_for_each_other_are_postponed_when_nothing_else_is_left() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, came(1.0, "b", after=["c"]), came(1.0, "c", after=["b"]), NO_MORE)
    assert list(talk.session.view.held) == ["w0!b", "w0!c"]
    assert talk.at(9.0, completed(9.0, "a")) == [d.RejectJob(9.0, "w0!b"), d.RejectJob(9.0, "w0!c")]


def test_what_is_held_at_the_end_is_postponed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, came(1.0, "b", after=["a"]))
    talk.at(9.0, e.SimulationEnds(9.0))
    assert talk.session.outcomes.counts()[JobState.POSTPONED.value] == 1


def test_the_view_cannot_change_who_waits() -> None:
    talk = Talk()
    talk.at(1.0, came(1.0, "b", after=["a"]))
    with pytest.raises(TypeError):
        talk.session.view.held["x"] = waiting  # type: ignore[index]
    assert submitted(1.0, "c")
