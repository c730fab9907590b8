"""A job's life cycle, all transitions of it, and its figures."""

from __future__ import annotations

import itertools
import math

import pytest

from beasy_sched.errors import PeerError
from beasy_sched.model.events import JobEnd, JobRequest
from beasy_sched.model.jobs import ENDS, Job, JobState, bounded_slowdown

S = JobState
LEGAL = {
    S.WAITING: {S.RUNNING, S.POSTPONED, S.REJECTED},
    S.RUNNING: {S.FINISHED, S.FAILED, S.WALLTIME_REACHED, S.KILLED, S.UNFINISHED},
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
    assert set(ENDS.values()) == LEGAL[S.RUNNING] - {S.UNFINISHED}


@pytest.mark.parametrize(("walltime", "size"), [(10.0, 20.0), (None, math.inf)])
def test_size(walltime: float | None, size: float) -> None:
    assert job(walltime).size == size


@pytest.mark.parametrize(
    ("wait", "duration", "expected"),
    [(0, 100, 1), (100, 100, 2), (30, 10, 4), (30, 1, 3.1), (0, 1, 1), (5, 1, 1), (9, 1, 1), (10, 1, 1.1)],
)
def test_bounded_slowdown(wait: float, duration: float, expected: float) -> None:
    assert bounded_slowdown(wait, duration) == pytest.approx(expected)
