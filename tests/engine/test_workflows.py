"""Jobs that wait for others: held by the session, under every policy."""

from __future__ import annotations

import pytest
from talk import Talk, completed, killed, start, submitted, waiting

from beasy_sched.engine.actions import Reject
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.jobs import JobState
from beasy_sched.model.workflow import PHASE_CAME_LATE
from beasy_sched.outputs.summary import brief_summary, summarize
from beasy_sched.protocol.notices import notice
from beasy_sched.run.settings import RunSettings


def came(now: float, name: str, **members: object) -> e.JobSubmitted:
    return e.JobSubmitted(now, e.JobRequest(f"w0!{name}", now, 1, "p", 100.0, members or None))


def no_more(now: float) -> e.Notify:
    return notice(now, "no_more_static_job_to_submit", {})


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
        "job w0!b was rejected: deadline_s: found 'soon', expected a number of 0 or more"
    ]


def test_a_job_that_waits_for_none_that_comes_is_postponed() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    assert talk.at(1.0, came(1.0, "b", after=["none"])) == []
    assert talk.at(2.0, no_more(2.0)) == [d.RejectJob(2.0, "w0!b")]
    assert talk.session.warnings == ["job w0!b depends on jobs that were never submitted: w0!none"]
    assert talk.session.outcomes.counts()[JobState.POSTPONED.value] == 1


def test_jobs_that_wait_for_each_other_are_postponed_when_nothing_else_is_left() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, came(1.0, "b", after=["c"]), came(1.0, "c", after=["b"]), no_more(1.0))
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


PHASE = {"workflow": "f", "phase": 0}


def test_the_phases_of_an_instant_may_come_in_any_order_and_in_several_messages() -> None:
    talk = Talk()
    assert talk.at(5.0, came(5.0, "high", **{**PHASE, "phase": 1})) == [d.CallMeLater(5.0, 5.001)]
    talk.at(5.0, came(5.0, "low", **PHASE))
    assert names(talk) == ["w0!low"]
    talk.at(5.001, e.RequestedCall(5.001))
    assert names(talk) == ["w0!low"]
    assert list(talk.session.view.held) == ["w0!high"]
    talk.ask(6.0, lambda view: [start(view, "low", "0")])
    talk.at(9.0, completed(9.0, "low"))
    assert names(talk) == ["w0!high"]


def test_no_call_is_needed_where_the_lower_phase_has_come_first() -> None:
    talk = Talk()
    assert talk.at(5.0, came(5.0, "low", **PHASE), came(5.0, "high", **{**PHASE, "phase": 1})) == []
    assert names(talk) == ["w0!low"]


def test_a_first_phase_above_0_is_queued_after_its_instant() -> None:
    talk = Talk()
    assert talk.at(5.0, came(5.0, "only", **{**PHASE, "phase": 3})) == [d.CallMeLater(5.0, 5.001)]
    talk.at(5.001, e.RequestedCall(5.001))
    assert names(talk) == ["w0!only"]


def test_a_lower_phase_that_comes_later_is_told() -> None:
    talk = Talk()
    talk.at(5.0, came(5.0, "high", **{**PHASE, "phase": 2}))
    talk.at(5.001, e.RequestedCall(5.001))
    talk.at(7.0, came(7.0, "low", **{**PHASE, "phase": 1}))
    assert talk.log == [(7.0, "queue", "w0!high", "", PHASE_CAME_LATE)]
    assert talk.facts == [{"lower_phase": 1}]
    (warning,) = talk.session.workflows.warnings
    assert warning.startswith("1 job was queued before jobs of lower phases of the workflow were submitted")
    settings = RunSettings("easy")
    assert summarize(talk.session, settings).warnings == [warning]
    assert brief_summary(talk.session, settings, "stopped").warnings == [warning]


def test_held_jobs_are_looked_at_again_when_the_policy_rejects_their_predecessor() -> None:
    """Nothing else may ever happen: without a call, the run would end in a deadlock."""
    talk = Talk()
    came_all = (came(1.0, "a"), came(1.0, "b", after=["a"]), no_more(1.0))
    found = talk.ask(1.0, lambda view: [Reject(waiting(view, "a"))], *came_all)
    assert found == [d.RejectJob(1.0, "w0!a"), d.CallMeLater(1.0, 1.001)]
    assert talk.at(1.001, e.RequestedCall(1.001)) == [d.RejectJob(1.001, "w0!b")]
