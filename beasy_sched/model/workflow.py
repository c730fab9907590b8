"""Workflows: dependencies of jobs, and the deadlines that their successors imply.

Batsim submits every job at its time; the scheduler holds jobs with unfinished predecessors, and jobs of a
higher phase until all jobs of their instant have been submitted.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from beasy_sched.model.jobs import Job, JobState, Outcomes, Terms
from beasy_sched.units import TIME_TOLERANCE_S


def predecessors_of(jobs: Iterable[tuple[str, Terms]]) -> dict[str, tuple[str, ...]]:
    """Return the direct predecessors of each job (id, terms): those named, and all of the previous phase.

    ``after`` replaces ``phase``. An id that is not among the jobs is kept.
    """
    jobs = [*jobs]
    by_phase: dict[str, dict[int, list[str]]] = {}
    for job_id, terms in jobs:
        if terms.phase is not None and not terms.after:
            by_phase.setdefault(terms.workflow, {}).setdefault(terms.phase, []).append(job_id)
    before: dict[tuple[str, int], tuple[str, ...]] = {}
    for workflow, phases in by_phase.items():
        earlier: tuple[str, ...] = ()
        for phase in sorted(phases):
            before[workflow, phase] = earlier
            earlier = tuple(phases[phase])
    return {
        job_id: terms.after if terms.after or terms.phase is None else before[terms.workflow, terms.phase]
        for job_id, terms in jobs
    }


def in_order(predecessors: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ids with every predecessor before its successors, without those of cycles."""
    missing = {job: sum(before in predecessors for before in some) for job, some in predecessors.items()}
    successors: dict[str, list[str]] = {}
    for job, some in predecessors.items():
        for before in some:
            successors.setdefault(before, []).append(job)
    ready = deque(job for job, count in missing.items() if not count)
    order = []
    while ready:
        order.append(job := ready.popleft())
        for after in successors.get(job, ()):
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    return order


def due_times(jobs: Iterable[tuple[str, Terms, float, float]], slot_s: float) -> dict[str, float]:
    """Return the time by which each job must end so that its successors can meet their deadlines, s.

    ``jobs`` are (id, terms, deadline in s, reserved duration in s). A successor needs its duration rounded up
    to whole slots of ``slot_s`` seconds, as in GreenSlot's program; exactly its duration if ``slot_s`` is 0.
    The result may lie in the past. Takes O(jobs + edges).
    """
    jobs = [*jobs]
    due_s = {job_id: deadline_s for job_id, _, deadline_s, _ in jobs}
    needed_s = {
        job_id: whole_slots(duration_s, slot_s) * slot_s if slot_s and duration_s < math.inf else duration_s
        for job_id, _, _, duration_s in jobs
    }
    predecessors = predecessors_of((job_id, terms) for job_id, terms, _, _ in jobs)
    for job_id in reversed(in_order(predecessors)):
        if due_s[job_id] < math.inf:
            latest_s = due_s[job_id] - needed_s[job_id]
            for before in predecessors[job_id]:
                if latest_s < due_s.get(before, -math.inf):
                    due_s[before] = latest_s
    return due_s


def whole_slots(duration_s: float, slot_s: float) -> int:
    """Return the number of slots of a finite duration (s), rounded up, at least 1."""
    return max(1, math.ceil((duration_s - TIME_TOLERANCE_S) / slot_s))


PREDECESSOR_LOST: Final = "its predecessor did not finish"
"""Rule that rejects the successors of a job that was killed, failed or reached its walltime."""

PHASE_CAME_LATE: Final = "a lower phase was submitted later"
"""Rule of a job that was queued without waiting for all lower phases of its workflow."""
_NAMED: Final = 5
"""Maximum number of jobs named in a warning."""

SETTLED_S: Final = 1e-3
"""Time after a submission until all jobs of its instant are known, s, because messages may be split."""


class Workflows:
    """Holds submitted jobs until their predecessors have finished and their think time is over.

    Jobs without predecessors pass through. The events of a message may be in any order: call `release` after
    all of them. A job with a phase above 0 is held for `SETTLED_S` at least: jobs of lower phases that were
    submitted at the same time may still arrive.
    """

    def __init__(self, outcomes: Outcomes) -> None:
        """Begin without jobs; ``outcomes`` are those of all ended jobs of the run."""
        self.held: dict[str, Job] = {}
        """Held jobs, by id, in order of submission."""
        self.with_deadline: list[Job] = []
        """Jobs that have a deadline, in order of submission."""
        self._outcomes = outcomes
        self.watches_all = False
        """Whether the end of every job must be recorded, because a job has named its predecessors."""
        self._ended_s: dict[str, float] = {}
        """End of each job, s; not recorded before a job has named its predecessors."""
        self._lost: set[str | tuple[str, int]] = set()
        """Jobs, and phases of workflows, that have ended without having finished."""
        self._phases: dict[str, Counter[int]] = {}
        """Number of unfinished jobs of each phase of a workflow."""
        self._phase_end_s: dict[tuple[str, int], float] = {}
        """End of the last job of a phase of a workflow, s."""
        self._successors: dict[str, list[Job]] = {}
        """Held jobs by the ids of the jobs for which they wait."""
        self._members: dict[str, list[Job]] = {}
        """Held jobs with a phase by workflow."""
        self._changed: list[Job] = []
        """Held jobs that may be free since the last call of `release`."""
        self._timers: list[tuple[float, str]] = []
        """Times at which held jobs without unfinished predecessors may be free: (time in s, job)."""
        self._settled_s: dict[str, float] = {}
        """Time at which all jobs of the instant of a held job with a phase are known, s."""
        self._highest: dict[str, int] = {}
        """The highest phase of each workflow of which a job was released."""
        self.early: dict[str, Job] = {}
        """Jobs by id that were released before a job of a lower phase of their workflow was submitted."""

    def submit(self, job: Job, now: float) -> bool:
        """Add a job submitted at ``now`` (s); return whether it may be queued immediately, or is held."""
        terms = job.terms
        if terms.deadline_s < math.inf:
            self.with_deadline.append(job)
        if terms.phase is not None and not terms.after:
            if terms.phase < self._highest.get(terms.workflow, 0):
                self._note_early(terms.workflow, terms.phase)
            if terms.phase > 0:
                self._settled_s[job.id] = now + SETTLED_S
            self._phases.setdefault(terms.workflow, Counter())[terms.phase] += 1
            self._members.setdefault(terms.workflow, []).append(job)
        elif terms.after:
            if not self.watches_all:
                self._look_back()
            for job_id in terms.after:
                self._successors.setdefault(job_id, []).append(job)
        else:
            return True
        self.held[job.id] = job
        self._changed.append(job)
        return False

    def end(self, job: Job, at_s: float, *, finished: bool) -> None:
        """Record that a job ended or was rejected at ``at_s``; ``finished``: its successors may start.

        Not to be called for a life after which the job comes back.
        """
        terms, job_id = job.terms, job.first_id
        self.held.pop(job_id, None)
        self._settled_s.pop(job_id, None)
        if self.watches_all:
            self._note(job_id, at_s, finished)
            self._changed += self._successors.pop(job_id, ())
        if terms.phase is not None and not terms.after:
            self._phases[terms.workflow][terms.phase] -= 1
            self._phase_end_s[terms.workflow, terms.phase] = at_s
            if not finished:
                self._lost.add((terms.workflow, terms.phase))
            if self.held and not (finished and self._phases[terms.workflow][terms.phase]):
                members = self._members.get(terms.workflow, ())
                self._changed += [member for member in members if member.id in self.held]

    def replace(self, before: Job, after: Job) -> None:
        """Let the next life of a job that came back take the place of the one before, with its terms."""
        if before.terms.deadline_s < math.inf:
            self.with_deadline[self.with_deadline.index(before)] = after

    def release(self, now: float) -> Iterator[tuple[Job, str]]:
        """Yield jobs that are no longer held, with the reason why they can never start, or "" if they can."""
        while self._timers and self._timers[0][0] <= now + TIME_TOLERANCE_S:
            job = self.held.get(heapq.heappop(self._timers)[1])
            if job is not None:  # meanwhile, more predecessors may have been submitted
                self._changed.append(job)
        while self._changed:
            changed, self._changed = dict.fromkeys(self._changed), []
            for job in changed:
                if job.id not in self.held:
                    continue
                if self._is_lost(job.terms):
                    yield job, PREDECESSOR_LOST
                elif not self._waits(job.terms):
                    start_s = max(self.earliest_s(job), self._settled_s.get(job.id, -math.inf))
                    if start_s > now + TIME_TOLERANCE_S:
                        heapq.heappush(self._timers, (start_s, job.id))
                    else:
                        self._free(job)
                        yield job, ""

    def hopeless(self, submitted: Container[str], *, nothing_else: bool) -> list[Job]:
        """Return the held jobs that will never be free, once no more jobs will be submitted.

        They name a job that was not ``submitted``, or, if there is ``nothing_else`` to run or to wait for,
        they wait for each other.
        """
        if nothing_else and self.next_s == math.inf:
            return [*self.held.values()]
        return [job for job in self.held.values() if any(each not in submitted for each in job.terms.after)]

    @property
    def warnings(self) -> list[str]:
        """Return warnings about dependencies that did not hold."""
        if not self.early:
            return []
        names = ", ".join([*self.early][:_NAMED]) + (" and so on" if len(self.early) > _NAMED else "")
        jobs = "1 job was" if len(self.early) == 1 else f"{len(self.early):,} jobs were"
        return [
            f"{jobs} queued before jobs of lower phases of the workflow were submitted, and did not wait for"
            f" those: {names}; submit the phases of a workflow at one time, or use 'after'"
        ]

    def has_finished(self, job_id: str) -> bool:
        """Return whether a job that another job names as its predecessor has finished."""
        return job_id in self._ended_s and job_id not in self._lost

    def earliest_s(self, job: Job) -> float:
        """Return the end of a held job's think time, counted from its ended predecessors, s."""
        terms = job.terms
        if terms.after:
            ends_s = [self._ended_s[job_id] for job_id in terms.after if job_id in self._ended_s]
        else:
            ends_s = [self._phase_end_s[each] for each in self._lower(terms) if each in self._phase_end_s]
        return max(max(ends_s, default=-math.inf) + terms.think_time_s, job.subtime_s)

    @property
    def next_s(self) -> float:
        """Return the latest time for the next call of `release`, s; infinite if it can wait for an event.

        This is the end of the next think time or instant of submissions, or immediately if the policy itself
        has rejected predecessors of held jobs.
        """
        if any(job.id in self.held for job in self._changed):
            return -math.inf
        while self._timers and self._timers[0][1] not in self.held:  # rejected meanwhile
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def _free(self, job: Job) -> None:
        """Release a job."""
        del self.held[job.id]
        if job.terms.phase and not job.terms.after:
            self._settled_s.pop(job.id, None)
            workflow = job.terms.workflow
            self._highest[workflow] = max(self._highest.get(workflow, 0), job.terms.phase)

    def _note_early(self, workflow: str, phase: int) -> None:
        """Record the jobs of higher phases that were released before a job of ``phase`` was submitted."""
        for job in self._members[workflow]:
            released = job.place >= 0 or not math.isnan(job.start_s)
            if released and (job.terms.phase or 0) > phase:
                self.early.setdefault(job.id, job)

    def _look_back(self) -> None:
        """Process the jobs that have ended so far."""
        self.watches_all = True
        columns = self._outcomes.columns()
        finished, ended = columns["state"] == "finished", columns["state"] != JobState.CAME_BACK.value
        for job_id, end_s, well, has_ended in zip(
            self._outcomes.names, columns["end_s"].tolist(), finished.tolist(), ended.tolist(), strict=True
        ):
            if has_ended:
                self._note(job_id, end_s, well)

    def _note(self, job_id: str, at_s: float, finished: bool) -> None:
        self._ended_s[job_id] = at_s
        if not finished:
            self._lost.add(job_id)

    def _waits(self, terms: Terms) -> bool:
        if terms.after:
            return any(job_id not in self._ended_s for job_id in terms.after)
        phases = self._phases[terms.workflow]
        return any(phases[phase] for _, phase in self._lower(terms))

    def _is_lost(self, terms: Terms) -> bool:
        if terms.after:
            return not self._lost.isdisjoint(terms.after)
        return any(each in self._lost for each in self._lower(terms))

    def _lower(self, terms: Terms) -> Iterator[tuple[str, int]]:
        """Yield the lower phases of a job's workflow submitted so far."""
        phases = self._phases.get(terms.workflow, ())
        return ((terms.workflow, phase) for phase in phases if phase < (terms.phase or 0))
