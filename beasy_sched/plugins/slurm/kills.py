"""Kills of running jobs on a cluster: which jobs come back, notices before kills, names of next lives."""

from __future__ import annotations

import math

from beasy_sched.model.restarts import NO_RESTART_SECTION, RestartSettings, next_id
from beasy_sched.plugins.slurm.live_settings import OnKill
from beasy_sched.plugins.slurm.records import STOPPED, SlurmJob


def stopped_comment(comment: str) -> str:
    """Return the administrator's comment of a job that was signalled, from that before."""
    return f"{comment} {STOPPED}".strip()


class ClusterKills:
    """The kills of a bridge.

    A kill with a notice has two parts: a signal, upon which the job writes a checkpoint, and later the
    requeue. An administrator's comment marks the job between them, for the case that the bridge is restarted.
    """

    def __init__(
        self,
        on_kill: OnKill = "drop",
        settings: RestartSettings = NO_RESTART_SECTION,
        *,
        names_lives: bool = False,
    ) -> None:
        """``names_lives``: the scheduler knows jobs that come back by the names of their lives."""
        self.names_lives = names_lives and on_kill != "drop"
        """Whether a job that comes back is submitted as the next life of the same job."""
        self.signals = on_kill == "checkpoint"
        """Whether a signal precedes a requeue."""
        self._requeues, self._settings = on_kill != "drop", settings
        self._due_s: dict[str, float] = {}
        """Times of the requeues of jobs that were signalled, by Slurm's id, s since the epoch."""
        self._counts: dict[str, int] = {}
        """Number of times that each job has come back."""
        self._revived: set[str] = set()
        """Jobs that the signal has ended, and that were requeued then."""

    def may_return(self, job: SlurmJob) -> bool:
        """Return whether a job comes back if it is killed while it runs."""
        most = self._settings.most
        is_below_most = most is None or self._counts.get(job.id, 0) < most
        return self._requeues and job.can_requeue and is_below_most

    def count(self, job_id: str) -> None:
        """Note that a job comes back."""
        self._counts[job_id] = self._counts.get(job_id, 0) + 1

    def next_name(self, name: str) -> str:
        """Return the name of the life after that of ``name``."""
        return next_id(name)

    # --- notices ------------------------------------------------------------------------------------------

    def announce(self, job_id: str, now_s: float) -> None:
        """Note that a job is signalled now."""
        self._due_s[job_id] = now_s + self._settings.notice_s

    def is_announced(self, job_id: str) -> bool:
        """Return whether a job was signalled, and is requeued later."""
        return job_id in self._due_s

    def take_due(self, now_s: float) -> list[str]:
        """Return the jobs whose notice is over, once."""
        due = [job_id for job_id, at_s in self._due_s.items() if at_s <= now_s]
        for job_id in due:
            del self._due_s[job_id]
        return due

    def forget(self, job_id: str) -> None:
        """Note that a job no longer runs."""
        self._due_s.pop(job_id, None)

    @property
    def next_s(self) -> float:
        """Time of the next requeue, s since the epoch; infinite if there is none."""
        return min(self._due_s.values(), default=math.inf)

    def revives(self, job: SlurmJob) -> bool:
        """Return, once for each job, whether the signal has ended it and it has to be requeued now."""
        if not self.signals or not job.died_of_signal or not job.can_requeue or job.id in self._revived:
            return False
        self._revived.add(job.id)
        return True

    def is_over(self, job: SlurmJob | None) -> bool:
        """Return whether a job that was to come back has ended for good; asked before `revives`."""
        if job is None:
            return True
        return bool(job.end) and not (job.died_of_signal and job.id not in self._revived)
