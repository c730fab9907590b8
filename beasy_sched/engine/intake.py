"""The intake of jobs: submissions are accepted within limits on what a peer may send."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from beasy_sched.errors import PeerError
from beasy_sched.limits import LONGEST_ID, LONGEST_JOB, MOST_JOBS, MOST_JOBS_AT_ONCE, MOST_KEPT, shortened
from beasy_sched.model.events import JobRequest, JobSubmitted
from beasy_sched.model.jobs import NO_TERMS, Job, Outcomes, read_terms


def _waits(profile: Mapping[str, Any], waiting: Collection[str]) -> bool:
    """Return whether a profile loads no host: a delay, or a sequence of profiles that are all ``waiting``."""
    if profile.get("type") != "composed":
        return profile.get("type") == "delay"
    parts = profile.get("seq")
    return isinstance(parts, list) and bool(parts) and all(part in waiting for part in map(str, parts))


class Intake:
    """All jobs submitted so far, by id, and the amount of data kept of them."""

    def __init__(self, outcomes: Outcomes, present: Callable[[], Iterable[Job]]) -> None:
        """``outcomes`` are those of all ended jobs; ``present`` returns the jobs that wait or run."""
        self.ids: set[str] = set()
        self.is_complete = False
        """Whether all jobs have been submitted."""
        self.has_delays = False
        """Whether a job may have a profile that loads no host."""
        self._outcomes, self._present = outcomes, present
        self._characters = self._characters_for_good = 0
        """Upper bound of the characters of all jobs' ids and fields, and the characters of fields that are
        kept to the end of the run."""
        self._with_terms = 0
        """Number of jobs that had terms, which are kept to the end."""
        self._delays: dict[str, set[str]] = {}
        """Names of the profiles that load no host, by workload that has any."""

    def learn_profiles(self, profiles: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        """Note which profiles load no host; ``profiles`` are by workload and name."""
        for workload, described in profiles.items():
            names: set[str] = set()
            while more := {name for name in described.keys() - names if _waits(described[name], names)}:
                names |= more
            if names:
                self._delays[workload] = names
        self.has_delays = bool(self._delays)

    def learn_profile(self, workload: str, name: str, profile: Mapping[str, Any]) -> None:
        """Note whether one more profile loads no host."""
        if _waits(profile, self._delays.get(workload, ())):
            self._delays.setdefault(workload, set()).add(name)
            self.has_delays = True

    def admit(self, request: JobRequest) -> Job:
        """Return the job of a submission.

        Raises PeerError for a job that was submitted before, is too large, or exceeds the number of jobs.
        """
        ids, job_id = self.ids, request.id
        if job_id in ids:
            raise PeerError(f"job {job_id} was submitted twice")
        size, submitted = len(job_id), len(ids)
        if size > LONGEST_ID or len(request.profile) > LONGEST_ID:
            raise PeerError(
                f"job {shortened(job_id)}: its id or profile has more than {LONGEST_ID:,} characters"
            )
        if submitted >= MOST_JOBS or submitted >= MOST_JOBS_AT_ONCE:
            self._check_number(submitted)
        if request.extras is not None:
            size += self._size_of(request.extras, request)
        self._characters += size
        if self._characters > MOST_KEPT:
            self._count_characters()
        ids.add(job_id)
        return Job(request)

    def give_terms(self, job: Job, extras: Mapping[str, Any]) -> None:
        """Read the fields of a job that Batsim does not use. Raises TermsError."""
        job.terms = read_terms(job.id, extras, job.subtime_s)
        if job.terms is not NO_TERMS:
            self._with_terms += 1
            self._characters_for_good += len(repr(extras))

    def computes(self, event: JobSubmitted) -> bool:
        """Return whether a job loads its hosts; of its profile, only types are read."""
        workload, _, _ = event.job.id.partition("!")
        if event.profile:
            return not _waits(event.profile, self._delays.get(workload, ()))
        return not self.has_delays or self.profile_computes(workload, event.job.profile)

    def profile_computes(self, workload: str, profile: str) -> bool:
        """Return whether a profile of a workload loads the hosts of its jobs."""
        return profile not in self._delays.get(workload, ())

    def _check_number(self, submitted: int) -> None:
        """Raise PeerError if there are too many jobs for one more."""
        if submitted >= MOST_JOBS:
            raise PeerError(f"more than {MOST_JOBS:,} jobs were submitted: no simulation has that many")
        if max(submitted - len(self._outcomes), self._with_terms) >= MOST_JOBS_AT_ONCE:
            raise PeerError(
                f"more than {MOST_JOBS_AT_ONCE:,} jobs wait, run or have terms: no simulation has that many"
            )

    @staticmethod
    def _size_of(extras: Mapping[str, Any], request: JobRequest) -> int:
        """Return the number of characters of a job's own fields. Raises PeerError if there are too many."""
        size = len(repr(extras))
        if len(request.id) + size > LONGEST_JOB:
            raise PeerError(
                f"job {shortened(request.id)} has more than {LONGEST_JOB:,} characters in its fields"
            )
        return size

    def _count_characters(self) -> None:
        """Recount the characters kept of jobs. Raises PeerError if there are too many."""
        kept = (job.request for job in self._present())
        members = sum(len(repr(request.extras)) for request in kept if request.extras is not None)
        self._characters = self._characters_for_good + members + sum(map(len, self.ids))
        if self._characters > MOST_KEPT // 2:
            raise PeerError(
                f"the ids and fields of jobs have more than {MOST_KEPT // 2:,} characters together: no"
                " simulation has that many"
            )
