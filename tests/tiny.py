"""A tiny simulator for tests of policies: rigid jobs, no power, whole instants in one message."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from beasy_sched.engine import Session
from beasy_sched.engine.policy import Policy
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e


@dataclass(frozen=True)
class TinyJob:
    id: str
    subtime: float
    res: int
    walltime: float | None
    run: float


def resources(count: int, **properties: str) -> tuple[e.Resource, ...]:
    return tuple(e.Resource(i, f"n{i:03}", properties=properties) for i in range(count))


def begins(count: int, **properties: str) -> e.SimulationBegins:
    return e.SimulationBegins(0.0, resources(count, **properties))


def request(job: TinyJob) -> e.JobRequest:
    return e.JobRequest(job.id, job.subtime, job.res, "p", job.walltime)


def run(policy: Policy, hosts: int, jobs: list[TinyJob]) -> dict[str, tuple[float, str]]:
    """Run to the end; return each started job's start time and hosts."""
    session = Session(policy)
    session.step(e.Message(0.0, [begins(hosts)]))
    by_id = {job.id: job for job in jobs}
    agenda: list[tuple[float, int, str, object]] = []
    for sequence, job in enumerate(sorted(jobs, key=lambda job: job.subtime)):
        heapq.heappush(agenda, (job.subtime, sequence, "submit", job))
    starts: dict[str, tuple[float, str]] = {}
    sequence = len(jobs)
    while agenda:
        now = agenda[0][0]
        events: list[e.Event] = []
        while agenda and agenda[0][0] == now:
            _, _, kind, what = heapq.heappop(agenda)
            if kind == "submit":
                assert isinstance(what, TinyJob)
                events.append(e.JobSubmitted(now, request(what)))
            else:
                assert isinstance(what, d.ExecuteJob)
                job = by_id[what.job_id]
                over = job.walltime is not None and job.run > job.walltime
                end = e.JobEnd.WALLTIME_REACHED if over else e.JobEnd.SUCCESS
                events.append(e.JobCompleted(now, job.id, end, what.alloc))
        for decision in session.step(e.Message(now, events)).decisions:
            if isinstance(decision, d.ExecuteJob):
                job = by_id[decision.job_id]
                starts[job.id] = (now, str(decision.alloc))
                length = job.run if job.walltime is None else min(job.run, job.walltime)
                sequence += 1
                heapq.heappush(agenda, (now + length, sequence, "end", decision))
    session.step(e.Message(session.now, [e.SimulationEnds(session.now)]))
    return starts
