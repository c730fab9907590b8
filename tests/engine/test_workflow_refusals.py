"""Jobs of workflows that are refused as they come, and treatment of those that wait for them."""

from __future__ import annotations

from talk import Talk, only, submitted

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.policies.registry import make_policy


def of_workflow(job: str, phase: int, res: int = 1) -> e.JobSubmitted:
    members = {"workflow": "f", "phase": phase, "deadline_s": 500.0}
    return e.JobSubmitted(0.0, e.JobRequest(f"w0!{job}", 0.0, res, "p", 100.0, members))


def test_a_phase_that_asks_for_too_many_hosts_takes_the_later_ones_with_it() -> None:
    """And a job of the same phase runs."""
    talk = Talk(make_policy("easy"), count=4)
    found = talk.at(0.0, of_workflow("big", 0, 5), of_workflow("next", 1), of_workflow("other", 0))
    assert [x.job_id for x in only(d.RejectJob, found)] == ["w0!big", "w0!next"]
    assert [x.job_id for x in only(d.ExecuteJob, found)] == ["w0!other"]
    rules = [line[4] for line in talk.log if line[1] == "reject"]
    assert rules == ["asks for more hosts than there are", "its predecessor did not finish"]


def test_a_refused_job_has_missed_its_deadline_too() -> None:
    talk = Talk(make_policy("easy"), count=4)
    talk.at(0.0, of_workflow("big", 0, 5), submitted(0.0, "a"))
    assert [job.id for job in talk.session.workflows.with_deadline] == ["w0!big"]
