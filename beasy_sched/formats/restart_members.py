"""The fields of a workload's jobs that concern their restarts, checked before a run."""

from __future__ import annotations

from collections.abc import Iterable

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.limits import shortened
from beasy_sched.model.jobs import TermsError
from beasy_sched.model.restarts import LINEAGE_MARK, Checkpoints, read_restart_terms


def check_restarts(workloads: Iterable[Workload], default: Checkpoints) -> None:
    """Check jobs that may come back; ``default`` are the checkpoints of those without own.

    Raises InputError for an id like that of a later life, and for a field that cannot be read.
    """
    for workload in workloads:
        jobs = workload.jobs
        for job_id in jobs.ids:
            if LINEAGE_MARK in job_id:
                raise InputError(
                    workload.path,
                    f"job {shortened(repr(job_id))}: its id contains {LINEAGE_MARK!r}, which marks jobs that"
                    " came back: choose another id, or use --on-kill drop",
                )
        for place, members in jobs.extras.items():
            try:
                read_restart_terms(members, default)
            except TermsError as error:
                raise InputError(workload.path, f"job {shortened(repr(jobs.ids[place]))}: {error}") from None
