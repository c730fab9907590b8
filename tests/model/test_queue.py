"""The queue beside a plain list."""

from __future__ import annotations

import math

import numpy as np
from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job, JobQueue


class QueueBesideAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = JobQueue()
        self.model: list[Job] = []
        self.made = 0

    @rule(
        count=st.sampled_from([1, 2, 70, 200]),
        res=st.integers(1, 9),
        walltime=st.one_of(st.none(), st.integers(1, 99)),
    )
    def append(self, count: int, res: int, walltime: int | None) -> None:
        for _ in range(count):
            self.made += 1
            job = Job(JobRequest(f"w0!{self.made}", self.made, res, "p", walltime))
            self.queue.append(job)
            self.model.append(job)

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1), count=st.sampled_from([1, 3, 60, 150]), random=st.randoms())
    def remove(self, share: float, count: int, random: object) -> None:
        """Remove jobs from around a place: the front, the end, or between."""
        for _ in range(min(count, len(self.model))):
            job = self.model.pop(int(share * (len(self.model) - 1)))
            self.queue.remove(job)
            assert job.place == -1

    @invariant()
    def same_as_the_list(self) -> None:
        queue, model = self.queue, self.model
        assert len(queue) == len(model)
        assert list(queue) == model
        assert queue.first is (model[0] if model else None)
        assert queue.hosts_asked == sum(job.res for job in model)
        places = queue.places()
        assert [queue.at(place) for place in places.tolist()] == model
        assert queue.res[places].tolist() == [job.res for job in model]
        assert queue.walltime_s[places].tolist() == [job.walltime_s for job in model]
        assert queue.longest_walltime_s == max((job.walltime_s for job in model), default=0.0)
        assert queue.least_res == min((job.res for job in model), default=queue.least_res)
        assert model or queue.least_res > 10**9
        assert queue.subtime_s[places].tolist() == [job.subtime_s for job in model]
        empty = np.ones(len(queue.res), dtype=bool)
        empty[places] = False
        assert (queue.res[empty] > 10**9).all()

    @invariant()
    def stays_compact(self) -> None:
        assert len(self.queue._jobs) <= max(65, 2 * len(self.model) + 1)


TestQueue = QueueBesideAList.TestCase
TestQueue.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)


def test_no_walltime_is_infinite() -> None:
    queue = JobQueue()
    queue.append(Job(JobRequest("w0!1", 0, 1, "p", None)))
    assert queue.walltime_s.tolist() == [math.inf]
