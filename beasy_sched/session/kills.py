"""Kills, a moment late: killing a job that has just ended, unannounced, would abort Batsim."""

from __future__ import annotations

import math

from beasy_sched.model.job import Job
from beasy_sched.session.calls import MOMENT_S
from beasy_sched.units import TIME_TOLERANCE_S


class Kills:
    """The jobs that are to be killed, from the decision until the simulator says that they have ended."""

    def __init__(self) -> None:
        """None."""
        self._jobs: dict[str, Job] = {}
        self._sent: set[str] = set()
        self._counted: set[str] = set()
        self._at_s = math.inf

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def add(self, job: Job, now: float) -> None:
        """Kill ``job`` a moment after ``now`` (s), unless it ends before."""
        self._jobs[job.id] = job
        self._at_s = now + MOMENT_S

    def count(self) -> None:
        """Note that a step's budget takes it as given that the jobs added so far are gone."""
        self._counted.update(self._jobs)

    def is_counted(self, job_id: str) -> bool:
        """Whether a step's budget already has what the job's end saves."""
        return job_id in self._counted

    def ended(self, job_id: str) -> None:
        """Forget a job that has ended, in whatever way."""
        self._jobs.pop(job_id, None)
        self._sent.discard(job_id)
        self._counted.discard(job_id)

    def due(self, now: float) -> tuple[str, ...]:
        """Return the jobs to kill at ``now`` (s): not those that are just reaching their walltime."""
        if now < self._at_s - TIME_TOLERANCE_S:
            return ()
        waiting = self._waiting()
        ids = tuple(job.id for job in waiting if abs(job.expected_end_s - now) > 2 * MOMENT_S)
        self._sent.update(ids)
        self._at_s = now + MOMENT_S if len(ids) < len(waiting) else math.inf
        return ids

    @property
    def next_call_s(self) -> float | None:
        """When a call is needed for the next kill, s."""
        return self._at_s if self._waiting() else None

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.id not in self._sent]
