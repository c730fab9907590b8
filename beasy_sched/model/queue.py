"""The waiting jobs, in order of arrival, with arrays beside them for whole-queue arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, IntArray
from beasy_sched.errors import PolicyError
from beasy_sched.model.hosts import read_only
from beasy_sched.model.job import Job

_GONE = np.iinfo(np.int64).max
"""Hosts "asked for" by a place whose job has left: it never fits."""


class JobQueue:
    """Waiting jobs by order of arrival.

    A job keeps its place until the queue is compacted, which happens when most places are empty:
    adding, removing and finding the first job take constant time on average.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._jobs: list[Job | None] = []
        self._res = np.empty(64, dtype=np.int64)
        self._walltime_s = np.empty(64, dtype=np.float64)
        self._subtime_s = np.empty(64, dtype=np.float64)
        self._seen = self._read_only()
        """The three arrays as others see them."""
        self._head = 0
        self._count = 0

    def _read_only(self) -> tuple[IntArray, FloatArray, FloatArray]:
        return read_only(self._res), read_only(self._walltime_s), read_only(self._subtime_s)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        for place in range(self._head, len(self._jobs)):
            job = self._jobs[place]
            if job is not None:
                yield job

    @property
    def first(self) -> Job | None:
        """The job that has waited longest, or None."""
        return self._jobs[self._head] if self._count else None

    def append(self, job: Job) -> None:
        """Add a job at the end."""
        place = len(self._jobs)
        if place == len(self._res):
            self._res = np.resize(self._res, 2 * place)
            self._walltime_s = np.resize(self._walltime_s, 2 * place)
            self._subtime_s = np.resize(self._subtime_s, 2 * place)
            self._seen = self._read_only()
        self._res[place] = job.res
        self._walltime_s[place] = job.walltime_s
        self._subtime_s[place] = job.subtime_s
        self._jobs.append(job)
        self._count += 1
        job.place = place

    def check_holds(self, job: Job) -> None:
        """Raise PolicyError unless this very job waits here: not a copy, nor one that has left."""
        place = job.place
        if not (type(place) is int and 0 <= place < len(self._jobs) and self._jobs[place] is job):
            raise PolicyError(f"job {job.id} is not in the queue: was it copied, or made by the policy?")

    def remove(self, job: Job) -> None:
        """Take a job out."""
        jobs = self._jobs
        jobs[job.place] = None
        self._res[job.place] = _GONE
        job.place = -1
        self._count -= 1
        if not self._count:
            jobs.clear()
            self._head = 0
            return
        while jobs[self._head] is None:
            self._head += 1
        if len(jobs) > 64 and 2 * self._count < len(jobs):
            self._compact()

    def _compact(self) -> None:
        places = np.flatnonzero(self._res[: len(self._jobs)] != _GONE)
        for array in (self._res, self._walltime_s, self._subtime_s):
            array[: len(places)] = array[places]
        self._jobs = [job for job in self._jobs if job is not None]
        for place, job in enumerate(self._jobs):
            assert job is not None
            job.place = place
        self._head = 0

    def at(self, place: int) -> Job:
        """Return the job at a place of the arrays."""
        job = self._jobs[self._head + place]
        assert job is not None
        return job

    @property
    def res(self) -> IntArray:
        """Hosts asked for, by place; an empty place asks for more than any platform has."""
        return self._seen[0][self._head : len(self._jobs)]

    @property
    def walltime_s(self) -> FloatArray:
        """Walltimes by place, s."""
        return self._seen[1][self._head : len(self._jobs)]

    @property
    def subtime_s(self) -> FloatArray:
        """Submission times by place, s."""
        return self._seen[2][self._head : len(self._jobs)]

    def places(self) -> IndexArray:
        """Return the places that hold a job, in order of arrival."""
        return np.flatnonzero(self.res != _GONE)
