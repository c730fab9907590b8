"""What became of deadlines: the table of jobs and the summary's figures."""

from __future__ import annotations

import csv
import io
import math

import pytest

from beasy_sched.formats.run_summary import DueJobsPart
from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job, JobState, read_terms
from beasy_sched.outputs.deadline_table import deadlines_csv, deadlines_part, lateness_s, outcome


def job(
    name: str, state: JobState, start_s: float = math.nan, end_s: float = math.nan, **members: object
) -> Job:
    made = Job(JobRequest(f"w0!{name}", 0.0, 1, "p", 900.0, dict(members)))
    made.terms = read_terms(made.id, members, 0.0)
    made.state, made.start_s, made.end_s = state, start_s, end_s
    return made


JOBS = [
    job("a", JobState.FINISHED, 0.0, 900.0, deadline_s=3600, workflow="x", phase=0),
    job("b", JobState.FINISHED, 900.0, 3700.0, deadline_s=3600, workflow="x", phase=1),
    job("c", JobState.FINISHED, 0.0, 1000.0, deadline_s=1000.0),
    job("d", JobState.REJECTED, deadline_s=2000.0, workflow="y"),
    job("e", JobState.KILLED, 0.0, 500.0, deadline_s=2000.0, workflow='z,"q"'),
    job("f", JobState.POSTPONED, deadline_s=2000.0),
]


def test_the_table() -> None:
    rows = list(csv.DictReader(io.StringIO(deadlines_csv(JOBS))))
    assert [row["outcome"] for row in rows] == ["met", "missed", "met", "refused", "missed", "missed"]
    assert [row["lateness_s"] for row in rows] == ["0.0", "100.0", "0.0", "", "", ""]
    assert [row["internal_deadline_s"] for row in rows[:2]] == ["2700.0", "3600.0"]
    assert (rows[0]["workflow"], rows[0]["phase"], rows[2]["phase"]) == ("w0!x", "0", "")
    assert rows[4]["workflow"] == 'w0!z,"q"'
    assert (rows[3]["start_s"], rows[3]["end_s"], rows[3]["deadline_s"]) == ("", "", "2000.0")


def test_the_figures() -> None:
    assert deadlines_part(JOBS) == DueJobsPart(
        jobs=6,
        jobs_met=2,
        jobs_missed=3,
        jobs_refused=1,
        workflows=3,
        workflows_met=0,
        workflows_missed=2,
        workflows_refused=1,
        lateness_s_sum=100.0,
        lateness_s_mean=100.0,
        lateness_s_max=100.0,
    )


def test_without_a_late_job_there_is_no_mean() -> None:
    part = deadlines_part(JOBS[:1])
    assert (part.lateness_s_sum, part.lateness_s_mean, part.lateness_s_max) == (0.0, None, None)


@pytest.mark.parametrize(("end_s", "late_s"), [(1000.0, 0.0), (1000.0000005, 0.0), (1001.0, 1.0)])
def test_rounding_is_no_lateness(end_s: float, late_s: float) -> None:
    made = job("g", JobState.FINISHED, 0.0, end_s, deadline_s=1000.0)
    assert lateness_s(made) == pytest.approx(late_s)
    assert outcome(made) == ("missed" if late_s else "met")
