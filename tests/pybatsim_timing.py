"""What a message costs our `easy`, beside pybatsim's ``easyBackfill`` on the very same messages.

The messages of a simulation depend on what the scheduler decides, and the two decide differently:
``easyBackfill`` gives each job neighbouring hosts only. Messages of the one can therefore not be fed to
the other as they are: both would be told of the end of jobs that they never started. So:

1. ``easyBackfill`` runs a whole simulation, in this process, timed from the message's text to the
   reply's text. Its messages and replies are kept.
2. The daemon's path (decode, session, encode) gets the same messages. At each of them `easy` decides in
   full on the queue and the hosts as they are; then what ``easyBackfill`` had decided is carried out
   instead, so that the next message fits. Where the two differ, `easy` is made to forget what it
   remembers of its last pass, since its starts were not carried out: it is asked for a full pass more
   often than in a run of its own.

Neither side's socket, nor the simulator, is in the times. For comparison, `own_run` times `easy` on the
messages of a run of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pybatsim_inside import PybatsimInside

from beasy_sched.engine import Session
from beasy_sched.engine.actions import Action, Start
from beasy_sched.engine.policy import View
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.jobs import Job
from beasy_sched.policies.easy import Easy
from beasy_sched.protocol import batsim4
from beasy_sched.simulator import Simulation

MakeSimulation = Callable[[], Simulation]
Exchange = tuple[bytes, bytes]


@dataclass(frozen=True)
class Timing:
    """Time in the scheduler, and jobs waiting before it decided, for each message of a run."""

    seconds: npt.NDArray[np.float64]
    waiting: npt.NDArray[np.int64]

    @property
    def mean_us(self) -> float:
        return 1e6 * float(self.seconds.mean())

    def row(self, name: str) -> str:
        """A line of a table, microseconds."""
        p50, p99 = 1e6 * np.percentile(self.seconds, (50, 99))
        return (
            f"{name:<34} {len(self.seconds):>7} messages, at most {self.waiting.max():>6} jobs waiting:"
            f" mean {self.mean_us:>9.1f} us, median {p50:>8.1f} us, 99 % {p99:>9.1f} us"
        )


class _EnoughMessages(Exception):
    """Ends a simulation early."""


class _Exchanges:
    """Keeps a run's messages, replies and queue lengths; ``limit`` ends it after so many messages."""

    def __init__(self, answer: Callable[[bytes], bytes], limit: int | None = None) -> None:
        self.kept: list[Exchange] = []
        self.waiting: list[int] = []
        self._answer = answer
        self._limit = limit
        self._queue = 0

    def run(self, simulation: Simulation) -> None:
        with suppress(_EnoughMessages):
            simulation.run(self.decide)

    def decide(self, message: e.Message) -> d.Reply:
        if len(self.kept) == self._limit:
            raise _EnoughMessages
        raw = batsim4.encode_message(message)
        self._queue += sum(type(event) is e.JobSubmitted for event in message.events)
        self.waiting.append(self._queue)
        reply_raw = self._answer(raw)
        self.kept.append((raw, reply_raw))
        reply = batsim4.decode_reply(reply_raw)
        self._queue -= sum(type(x) in (d.ExecuteJob, d.RejectJob) for x in reply.decisions)
        return reply


def time_pybatsim(
    make: MakeSimulation, scheduler: Any, limit: int | None = None
) -> tuple[Timing, list[Exchange]]:
    """Run a pybatsim scheduler to the end of a simulation, or for ``limit`` messages."""
    inside = PybatsimInside(scheduler)
    run = _Exchanges(inside, limit)
    run.run(make())
    return Timing(np.array(inside.times_s), np.array(run.waiting)), run.kept


class _TimedDaemon:
    """The daemon's way of a message, without its socket."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.times_s: list[float] = []

    def __call__(self, raw: bytes) -> bytes:
        before = time.perf_counter()
        reply = batsim4.encode_reply(self.session.step(batsim4.decode_message(raw)))
        self.times_s.append(time.perf_counter() - before)
        return reply


def own_run(make: MakeSimulation, limit: int | None = None) -> Timing:
    """Time `easy` on the messages of a run of its own."""
    daemon = _TimedDaemon(Session(Easy()))
    run = _Exchanges(daemon, limit)
    run.run(make())
    return Timing(np.array(daemon.times_s), np.array(run.waiting))


class FollowingEasy(Easy):
    """`easy` that decides in full, and then does what another scheduler has decided."""

    name = "following-easy"
    others: Sequence[d.ExecuteJob] = ()

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, Job] = {}

    def schedule(self, view: View) -> Sequence[Action]:
        wanted = super().schedule(view)
        self._waiting.update((job.id, job) for job in view.arrived)
        taken = [Start(self._waiting.pop(x.job_id), x.alloc, "as the other decided") for x in self.others]
        if {a.job for a in wanted if type(a) is Start} != {start.job for start in taken}:
            super().begin(view)
        return taken


def started(decisions: Sequence[d.Decision]) -> dict[str, str]:
    """Which jobs are started, and where."""
    return {x.job_id: str(x.alloc) for x in decisions if type(x) is d.ExecuteJob}


def time_on_the_same(exchanges: Sequence[Exchange], waiting: npt.NDArray[np.int64]) -> Timing:
    """Time `easy` on another scheduler's messages."""
    policy = FollowingEasy()
    daemon = _TimedDaemon(Session(policy))
    for raw, reply in exchanges:
        decisions = batsim4.decode_reply(reply).decisions
        policy.others = [x for x in decisions if type(x) is d.ExecuteJob]
        answer = batsim4.decode_reply(daemon(raw)).decisions
        assert started(answer) == started(decisions)
    return Timing(np.array(daemon.times_s), waiting)


def compare(make: MakeSimulation, scheduler: Any, limit: int | None = None) -> tuple[Timing, Timing]:
    """Time a scheduler of pybatsim's, and then `easy` on the first's messages (the first ``limit`` ones)."""
    theirs, exchanges = time_pybatsim(make, scheduler, limit)
    return theirs, time_on_the_same(exchanges, theirs.waiting)
