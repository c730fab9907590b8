"""A job's terms, its life cycle with all transitions, and its figures."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from beasy_sched.errors import PeerError
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.jobs import (
    ENDS,
    NO_TERMS,
    Job,
    JobState,
    Terms,
    TermsError,
    bounded_slowdown,
    read_terms,
)

S = JobState
LEGAL = {
    S.WAITING: {S.RUNNING, S.POSTPONED, S.REJECTED, S.UNFINISHED},
    S.RUNNING: {S.FINISHED, S.FAILED, S.WALLTIME_REACHED, S.KILLED, S.UNFINISHED, S.CAME_BACK},
}


def job(walltime: float | None = 10.0, res: int = 2) -> Job:
    return Job(JobRequest("w0!1", 5, res, "p", walltime))


@pytest.mark.parametrize(("now", "then"), [*itertools.product(S, S)])
def test_every_transition(now: JobState, then: JobState) -> None:
    moving = job()
    moving.state = now
    if then in LEGAL.get(now, ()):
        moving.move(then)
        assert moving.state is then
    else:
        with pytest.raises(PeerError, match=rf"w0!1 is {now.value}: it cannot become {then.value}"):
            moving.move(then)
        assert moving.state is now


def test_each_end_of_batsim_leads_to_a_final_state() -> None:
    assert set(ENDS) == set(JobEnd)
    assert set(ENDS.values()) == LEGAL[S.RUNNING] - {S.UNFINISHED, S.CAME_BACK}


@pytest.mark.parametrize(("walltime", "size"), [(10.0, 20.0), (None, math.inf)])
def test_size(walltime: float | None, size: float) -> None:
    assert job(walltime).size == size


@pytest.mark.parametrize(
    ("wait", "duration", "expected"),
    [(0, 100, 1), (100, 100, 2), (30, 10, 4), (30, 1, 3.1), (0, 1, 1), (5, 1, 1), (9, 1, 1), (10, 1, 1.1)],
)
def test_bounded_slowdown(wait: float, duration: float, expected: float) -> None:
    assert bounded_slowdown(wait, duration) == pytest.approx(expected)


def test_jobs_without_members_have_no_terms() -> None:
    assert read_terms("w0!1", None, 0.0) is NO_TERMS
    assert read_terms("w0!1", {"user": "ann", "deadline": 3}, 0.0) is NO_TERMS


def test_members() -> None:
    members = {"deadline_s": 100, "workflow": "blast", "phase": 2, "think_time_s": 5.5, "estimate_s": 60,
               "power_w": 140, "user": 7}  # fmt: skip
    assert read_terms("w0!1", members, 0.0) == Terms(100.0, "w0!blast", 2, (), 5.5, 60.0, 140.0)
    assert read_terms("w0!1", {"after": [2, "3", "w1!4", 2]}, 0.0).after == ("w0!2", "w0!3", "w1!4")
    assert read_terms("w0!1", {"workflow": 12}, 0.0).workflow == "w0!12"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"deadline_s": "soon"}, "deadline_s: found 'soon', expected a number of 0 or more"),
        ({"deadline_s": True}, "deadline_s: found True, expected a number"),
        ({"deadline_s": math.nan}, "deadline_s: found nan, expected a number"),
        ({"deadline_s": 9}, "deadline_s: found 9, before the submission at 10 s"),
        ({"think_time_s": -1}, "think_time_s: found -1, expected a number of 0 or more"),
        ({"workflow": ["a"]}, r"workflow: found \['a'\], expected a string"),
        ({"workflow": "a", "phase": -1}, "phase: found -1, expected an integer of 0 or more"),
        ({"workflow": "a", "phase": 1.5}, "phase: found 1.5, expected an integer"),
        ({"phase": 1}, "phase: found 1 without a workflow"),
        ({"after": "2"}, "after: found '2', expected a list of job ids"),
        ({"after": [[2]]}, r"after: found \[2\], expected a string"),
        ({"after": [1]}, "after: the job waits for itself"),
    ],
)
def test_wrong_members(members: dict[str, Any], message: str) -> None:
    with pytest.raises(TermsError, match=f"^{message}"):
        read_terms("w0!1", members, 10.0)
