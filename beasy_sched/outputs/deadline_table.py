"""Deadlines of a run: a table of jobs, and figures for the summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from beasy_sched.formats.run_summary import DueJobsPart
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.model.workflow import due_times
from beasy_sched.units import TIME_TOLERANCE_S

_SLOT_S: Final = 900.0
"""Length of the whole slots that internal deadlines leave to each phase, s, as in GreenSlot's program."""
_HEADER: Final = (
    "job", "workflow", "phase", "submitted_s", "start_s", "end_s", "internal_deadline_s", "deadline_s",
    "lateness_s", "outcome",
)  # fmt: skip


OUTCOMES: Final = ("met", "missed", "refused")
"""Outcomes of a deadline."""


def deadlines_csv(jobs: Iterable[Job]) -> str:
    """Write a row for each job with a deadline, in order of submission; missing values are empty.

    ``internal_deadline_s`` is the time by which the job must end so that its successors can meet their
    deadlines; ``lateness_s`` is 0 for a job that ended in time. Times are simulated seconds.
    """
    jobs = [*jobs]
    due_s = due_times([(job.id, job.terms, job.terms.deadline_s, job.walltime_s) for job in jobs], _SLOT_S)
    lines = [",".join(_HEADER)]
    for job in jobs:
        times_s = (
            job.subtime_s,
            job.start_s,
            job.end_s,
            due_s[job.id],
            job.terms.deadline_s,
            lateness_s(job),
        )
        phase = "" if job.terms.phase is None else str(job.terms.phase)
        cells = (job.id, job.terms.workflow, phase, *map(_cell, times_s))
        lines.append(",".join((*map(_quoted, cells), outcome(job))))
    return "\n".join(lines) + "\n"


def lateness_s(job: Job) -> float:
    """Return the lateness of a finished job, s: 0 if it met its deadline, NaN if it never finished."""
    if job.state is not JobState.FINISHED:
        return math.nan
    late_s = job.end_s - job.terms.deadline_s
    return late_s if late_s > TIME_TOLERANCE_S else 0.0


def outcome(job: Job) -> str:
    """Return "met", "refused", or "missed", which includes every other job that has not finished."""
    if job.state is JobState.REJECTED:
        return "refused"
    return "met" if lateness_s(job) == 0.0 else "missed"


def deadlines_part(jobs: Iterable[Job]) -> DueJobsPart:
    """Return the summary's section: the number of jobs and workflows that met their deadlines, and lateness.

    A workflow meets its deadline if all its jobs do, and is rejected if one of its jobs is. Lateness counts
    jobs that finished late, s.
    """
    by_job = {job.id: outcome(job) for job in jobs}
    workflows: dict[str, list[str]] = {}
    for job in jobs:
        if job.terms.workflow:
            workflows.setdefault(job.terms.workflow, []).append(by_job[job.id])
    late_s = [late for job in jobs if (late := lateness_s(job)) > 0.0]
    return DueJobsPart(
        **_counts("jobs", by_job),
        **_counts("workflows", {name: _worst(outcomes) for name, outcomes in workflows.items()}),
        lateness_s_sum=math.fsum(late_s),
        lateness_s_mean=math.fsum(late_s) / len(late_s) if late_s else None,
        lateness_s_max=max(late_s, default=None),
    )


def _worst(outcomes: Iterable[str]) -> str:
    present = set(outcomes)
    return next(outcome for outcome in ("refused", "missed", "met") if outcome in present)


def _counts(what: str, outcomes: Mapping[str, str]) -> dict[str, int]:
    values = [*outcomes.values()]
    return {
        what: len(values),
        **{f"{what}_{name}": values.count(name) for name in OUTCOMES},
    }


def _cell(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _quoted(text: str) -> str:
    """Return a user's string as a cell of a CSV file."""
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if set(text) & set(',"\n\r') else text
