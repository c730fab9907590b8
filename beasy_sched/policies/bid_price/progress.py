"""The work that running jobs have done, from the speeds that their hosts had."""

from __future__ import annotations

from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import ASLEEP  # noqa: F401
from beasy_sched.model.jobs import Job


class WorkDone:
    """Flops done on each host by running jobs."""

    def __init__(self, view: View) -> None:
        self._speeds = [kind.speeds_flops for kind in view.platform.kinds]
        self._kind_of = view.platform.kind_of
        self._done: dict[str, tuple[float, float, float]] = {}

    def advance(self, view: View) -> None:
        for job in view.running.values():
            flops, since_s, speed = self._done.get(job.id, (0.0, job.start_s, 0.0))
            if not speed:
                speed = self._speed(view, job)
            self._done[job.id] = (flops + speed * (view.now - since_s), view.now, self._speed(view, job))

    def done(self, job: Job) -> float:
        return self._done[job.id][0]

    def end(self, job: Job) -> float | None:
        found = self._done.pop(job.id, None)
        if found is None:
            return None
        flops, since_s, speed = found
        return flops + speed * (job.end_s - since_s)

    def start(self, view: View, job: Job, speed: float) -> None:
        self._done[job.id] = (0.0, view.now, speed)

    def _speed(self, view: View, job: Job) -> float:
        return min(self._speeds[self._kind_of[h]][view.pstate[h]] for h in job.hosts.ids.tolist())
