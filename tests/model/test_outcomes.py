"""What became of the jobs: counts, and metrics worked out by hand."""

from __future__ import annotations

import math

import pytest

from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job, JobState, Outcomes

S = JobState


def ended(
    name: str, state: JobState, start: float = math.nan, end: float = math.nan, energy_j: float = math.nan
) -> Job:
    job = Job(JobRequest(f"w0!{name}", 10.0, 2, "p", 100.0))
    job.state, job.start_s, job.end_s, job.energy_j = state, start, end, energy_j
    return job


def four() -> Outcomes:
    """Waits of 0, 10 and 30 s, runs of 20, 2 and 30 s, and one that never started."""
    outcomes = Outcomes()
    outcomes.add(ended("a", S.FINISHED, 10.0, 30.0, 500.0))
    outcomes.add(ended("b", S.FINISHED, 20.0, 22.0, 70.0))
    outcomes.add(ended("c", S.KILLED, 40.0, 70.0, 900.0))
    outcomes.add(ended("d", S.POSTPONED))
    return outcomes


def test_counts_have_every_outcome() -> None:
    assert four().counts() == {
        "finished": 2,
        "failed": 0,
        "reached walltime": 0,
        "killed": 1,
        "not completely finished": 0,
        "postponed": 1,
        "rejected": 0,
    }
    assert sum(Outcomes().counts().values()) == 0


def test_energy_by_outcome() -> None:
    assert four().energy_j(S.FINISHED) == 570.0
    assert four().energy_j(*S) == 1470.0
    assert four().energy_j(S.POSTPONED) == 0.0
    assert Outcomes().energy_j(S.FINISHED) == 0.0


def test_metrics_over_the_jobs_that_started() -> None:
    """Slowdowns: 20/20 = 1, (10 + 2)/10 = 1.2 by the bound of 10 s, (30 + 30)/30 = 2."""
    metrics = four().metrics()
    assert metrics["started"] == 3
    assert metrics["host_seconds"] == 2 * (20 + 2 + 30)
    assert metrics["waiting_s_mean"] == pytest.approx(40 / 3)
    assert (metrics["waiting_s_p50"], metrics["waiting_s_max"]) == (10.0, 30.0)
    assert metrics["bounded_slowdown_mean"] == pytest.approx(4.2 / 3)
    assert metrics["bounded_slowdown_p50"] == pytest.approx(1.2)
    assert metrics["bounded_slowdown_max"] == pytest.approx(2.0)


def test_no_slowdown_is_below_one() -> None:
    """A job of 1 s that does not wait: 1/10 by the bound."""
    outcomes = Outcomes()
    outcomes.add(ended("a", S.FINISHED, 10.0, 11.0))
    assert outcomes.metrics()["bounded_slowdown_mean"] == 1.0


def test_of_no_job_there_are_no_means() -> None:
    metrics = Outcomes().metrics()
    assert metrics["started"] == 0
    assert metrics["waiting_s_mean"] is None
    assert metrics["bounded_slowdown_p95"] is None
