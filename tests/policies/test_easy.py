"""EASY against an oracle that is slow and obviously right, and on cases drawn by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TinyJob, run

from beasy_sched.engine.actions import Action
from beasy_sched.engine.policy import Policy, View
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import EasyPass, by_arrival
from beasy_sched.policies.registry import make_policy


class Oracle:
    """EASY as its definition reads: a job overtakes if the first one's earliest start stays the same."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.running: list[tuple[float, int]] = []
        self.promises: dict[str, float] = {}

    def free_at(self, when: float, running: list[tuple[float, int]]) -> int:
        return self.hosts - sum(res for end, res in running if end > when)

    def earliest(self, job: TinyJob, now: float, running: list[tuple[float, int]]) -> float:
        for when in sorted({now, *(end for end, _ in running if end > now)}):
            if self.free_at(when, running) >= job.res:
                return when
        return math.inf

    def limit(self, job: TinyJob, now: float) -> float:
        return math.inf if job.walltime is None else now + job.walltime

    def decide(self, queue: list[TinyJob], now: float, *, backfill: bool) -> list[TinyJob]:
        started: list[TinyJob] = []
        while queue and queue[0].res <= self.free_at(now, self.running):
            started.append(self.start(queue, queue[0], now))
        if not queue or not backfill:
            return started
        head = queue[0]
        promise = self.earliest(head, now, self.running)
        self.promises.setdefault(head.id, promise)
        for job in queue[1:]:
            if job.res <= self.free_at(now, self.running):
                after = [*self.running, (self.limit(job, now), job.res)]
                if self.earliest(head, now, after) <= promise:
                    started.append(self.start(queue, job, now))
        return started

    def start(self, queue: list[TinyJob], job: TinyJob, now: float) -> TinyJob:
        queue.remove(job)
        self.running.append((self.limit(job, now), job.res))
        return job


def oracle_starts(
    hosts: int, jobs: list[TinyJob], *, backfill: bool = True
) -> tuple[dict[str, float], dict[str, float]]:
    oracle = Oracle(hosts)
    queue: list[TinyJob] = []
    starts: dict[str, float] = {}
    ends: dict[str, tuple[float, TinyJob]] = {}
    times = {job.subtime for job in jobs}
    while times:
        now = min(times)
        times.discard(now)
        for job_id, (end, job) in list(ends.items()):
            if end == now:
                oracle.running.remove((oracle.limit(job, starts[job_id]), job.res))
                del ends[job_id]
        queue.extend(
            job for job in sorted(jobs, key=lambda j: j.subtime) if job.subtime == now and job.res <= hosts
        )
        for job in oracle.decide(queue, now, backfill=backfill):
            starts[job.id] = now
            end = now + (job.run if job.walltime is None else min(job.run, job.walltime))
            ends[job.id] = (end, job)
            times.add(end)
    return starts, oracle.promises


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[TinyJob]]:
    hosts = draw(st.integers(1, 6))
    jobs = []
    for index in range(draw(st.integers(1, 14))):
        walltime = draw(st.one_of(st.none(), st.integers(1, 12)))
        longest = 14 if walltime is None else walltime
        jobs.append(
            TinyJob(
                f"w0!{index}",
                float(draw(st.integers(0, 15))),
                draw(st.integers(1, hosts + 1)),
                None if walltime is None else float(walltime),
                float(draw(st.integers(1, longest))),
            )
        )
    return hosts, jobs


@settings(max_examples=examples(600), deadline=None)
@given(cases())
def test_same_starts_as_the_oracle_and_no_promise_broken(case: tuple[int, list[TinyJob]]) -> None:
    hosts, jobs = case
    expected, promises = oracle_starts(hosts, jobs)
    starts = {job_id: when for job_id, (when, _) in run(make_policy("easy"), hosts, jobs).items()}
    assert starts == expected
    for job_id, promised in promises.items():
        assert starts[job_id] <= promised


@settings(max_examples=examples(300), deadline=None)
@given(cases())
def test_fcfs_is_easy_without_backfilling(case: tuple[int, list[TinyJob]]) -> None:
    hosts, jobs = case
    expected, _ = oracle_starts(hosts, jobs, backfill=False)
    starts = {job_id: when for job_id, (when, _) in run(make_policy("fcfs"), hosts, jobs).items()}
    assert starts == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_agrees_on_a_long_queue(seed: int) -> None:
    """Hundreds of waiting jobs: arrays, compaction and the arrivals-only pass all come into play."""
    rng = np.random.default_rng(seed)
    jobs = [
        TinyJob(f"w0!{i}", float(s), int(r), float(w), float(math.ceil(w * f)))
        for i, (s, r, w, f) in enumerate(
            zip(
                np.sort(rng.integers(0, 300, 400)),
                rng.integers(1, 13, 400),
                rng.integers(1, 60, 400),
                rng.random(400),
                strict=True,
            )
        )
    ]
    expected, _ = oracle_starts(16, jobs)
    assert {i: when for i, (when, _) in run(make_policy("easy"), 16, jobs).items()} == expected


def test_a_hole_is_filled_without_delaying_the_first_job() -> None:
    jobs = [
        TinyJob("w0!a", 0, 3, 10, 10),  # runs on three of four hosts until 10
        TinyJob("w0!b", 1, 4, 5, 5),  # waits for all four: reserved at 10
        TinyJob("w0!c", 2, 1, 9, 9),  # would end at 11: must not overtake
        TinyJob("w0!d", 3, 1, 7, 7),  # ends at 10: fills the hole
    ]
    assert run(make_policy("easy"), 4, jobs) == {
        "w0!a": (0, "0-2"),
        "w0!d": (3, "3"),
        "w0!b": (10, "0-3"),
        "w0!c": (15, "0"),
    }


def test_hosts_left_over_at_the_reservation_go_to_long_jobs() -> None:
    jobs = [
        TinyJob("w0!a", 0, 3, 10, 10),
        TinyJob("w0!b", 1, 4, 5, 5),  # reserved at 10, leaving one host of five
        TinyJob("w0!c", 2, 1, 100, 50),  # takes the one left over
        TinyJob("w0!d", 3, 1, 100, 50),  # none left
    ]
    starts = run(make_policy("easy"), 5, jobs)
    assert {job: when for job, (when, _) in starts.items()} == {"w0!a": 0, "w0!c": 2, "w0!b": 10, "w0!d": 15}


def test_smallest_first_backfilling_is_an_option() -> None:
    jobs = [
        TinyJob("w0!a", 0, 3, 10, 10),
        TinyJob("w0!b", 1, 4, 5, 5),
        TinyJob("w0!c", 2, 1, 8, 8),
        TinyJob("w0!d", 2, 1, 4, 4),
    ]
    by_arrival = run(make_policy("easy"), 4, jobs)
    smallest = run(make_policy("easy", {"backfill": "smallest"}), 4, jobs)
    assert by_arrival["w0!c"][0] == 2
    assert smallest["w0!d"][0] == 2


# --- jobs that a policy does not want now ---


class Choosy(Policy):
    """EASY that wants some jobs only; notes what each pass asks."""

    def __init__(self, wanted: Callable[[Job, float], bool]) -> None:
        super().__init__()
        self.wanted = wanted
        self.asked: list[list[str]] = []
        self.reserved: list[str] = []

    def schedule(self, view: View) -> Sequence[Action]:
        asked: list[str] = []
        self.asked.append(asked)
        wanted = self.wanted

        class Pass(EasyPass):
            def wanted(self, job: Job) -> bool:
                asked.append(job.id)
                return wanted(job, self.view.now)

        turn = Pass(view, by_arrival, by_arrival)
        turn.run()
        if turn.reservation is not None:
            self.reserved.append(turn.reservation.job.id)
        return turn.actions


@settings(max_examples=examples(300), deadline=None)
@given(cases(), st.sets(st.integers(0, 13)))
def test_others_start_as_if_an_unwanted_job_were_not_there(
    case: tuple[int, list[TinyJob]], numbers: set[int]
) -> None:
    hosts, jobs = case
    unwanted = {f"w0!{number}" for number in numbers}
    policy = Choosy(lambda job, now: job.id not in unwanted)
    starts = {job_id: when for job_id, (when, _) in run(policy, hosts, jobs).items()}
    expected, _ = oracle_starts(hosts, [job for job in jobs if job.id not in unwanted])
    assert starts == expected
    assert all(len(asked) == len(set(asked)) for asked in policy.asked)


def test_the_reservation_is_for_the_first_job_that_is_wanted_but_does_not_fit() -> None:
    jobs = [
        TinyJob("w0!running", 0.0, 2, 10.0, 10.0),
        TinyJob("w0!fits", 1.0, 1, 5.0, 5.0),
        TinyJob("w0!wide, not wanted", 1.0, 3, 5.0, 5.0),
        TinyJob("w0!wide", 1.0, 3, 5.0, 5.0),
        TinyJob("w0!late", 1.0, 1, 20.0, 20.0),
        TinyJob("w0!short", 1.0, 1, 9.0, 9.0),
    ]
    early = {"w0!fits", "w0!wide, not wanted"}
    policy = Choosy(lambda job, now: now >= 15.0 or job.id not in early)
    starts = {job_id: when for job_id, (when, _) in run(policy, 3, jobs).items()}
    assert set(policy.reserved) >= {"w0!wide"}
    assert policy.reserved[0] == "w0!wide"
    assert starts["w0!short"] == 1.0  # backfilled: it ends by then
    assert starts["w0!wide"] == 10.0
    assert starts["w0!fits"] == 15.0  # wanted now, though it would have fitted before
    assert starts["w0!wide, not wanted"] > 15.0
