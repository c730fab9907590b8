"""The past of a live run, as far as futures are drawn from it: submitted jobs and announced production."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from beasy_sched.engine.observed import Observer
from beasy_sched.engine.session import Session
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import JobRequest, JobSubmitted, Message, PowerAnnounced
from beasy_sched.protocol.notices import CARBON_FIELD, POWER_FIELD, PRICE_FIELD
from beasy_sched.units import SECONDS_PER_DAY

_KEPT_S: Final = 9 * SECONDS_PER_DAY
"""Time for which the past is kept: futures repeat days of the last week."""
_MOST_OFTEN_S: Final = 60.0
"""Time between two announcements of production that are kept, s."""


class PastOfRun(Observer):
    """Keeps the submitted jobs and the announcements of a run."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.user_of: Callable[[str], str | None] = lambda job_id: None
        """Function that returns the user of a job, by its id, if the job has no field for it."""
        self.jobs: dict[str, list[WorkloadJob]] = {}
        """Jobs submitted so far, by workload, in the order of time."""
        self.events: list[ExternalEvent] = []
        """Announcements of production so far."""

    def begin(self, session: Session) -> None:
        """Forget the session before."""
        self.jobs, self.events = {}, []

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Keep what a message brings."""
        for event in message.events:
            if type(event) is JobSubmitted and not session.lives.is_life(event.job.id):
                self._submit(event.job)
            elif type(event) is PowerAnnounced:
                self._announce(event)

    def _submit(self, job: JobRequest) -> None:
        extras = dict(job.extras or {})
        if "user" not in extras and (user := self.user_of(job.id)) is not None:
            extras["user"] = user
        jobs = self.jobs.setdefault(job.id.partition("!")[0], [])
        jobs.append(
            WorkloadJob(job.id, float(job.subtime), job.res, job.profile, job.walltime, extras or None)
        )
        forgotten = bisect_left(jobs, jobs[-1].subtime - _KEPT_S, key=lambda each: each.subtime)
        if forgotten > len(jobs) // 2:
            del jobs[:forgotten]

    def _announce(self, event: PowerAnnounced) -> None:
        data: dict[str, Any] = {"timestamp": event.timestamp, "type": event.kind, POWER_FIELD: event.power_w}
        for name, rate in ((PRICE_FIELD, event.price_per_kwh), (CARBON_FIELD, event.carbon_g_per_kwh)):
            if rate is not None:
                data[name] = rate
        kept = ExternalEvent(event.timestamp, event.kind, data)
        events = self.events
        if len(events) > 1 and kept.timestamp - events[-2].timestamp < _MOST_OFTEN_S:
            events[-1] = kept
        else:
            events.append(kept)
        forgotten = bisect_left(events, kept.timestamp - _KEPT_S, key=lambda each: each.timestamp)
        if forgotten > len(events) // 2:
            del events[:forgotten]
