"""An observer of the messages of a run that tracks all states, and rejects illegal decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from beasy_sched.engine.actions import Facts, Offer
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.placement import offered
from beasy_sched.errors import BeasyError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.units import TIME_TOLERANCE_S

IDLE, BUSY, FALLING, ASLEEP, WAKING = range(5)

FACTS = "every fact of the decision log is a string or a finite number"
LEGAL_STARTS = "a job starts once, on the requested number of hosts, all on, idle and in service"
LEGAL_SWITCHES = "hosts switch from a settled state, and sleep only if no job runs on them"
LEFT_ALONE = "a host that failed to wake is not woken again for some time"
WITHIN_OFFERS = "no more servers are on than offered, except for those that have a job or are switching"
LEGAL_ENDS = "only running jobs are killed, and only waiting ones rejected"


class BrokenInvariant(BeasyError, AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, found: object) -> None:
        """``invariant`` is the condition, ``found`` the violation."""
        self.invariant = invariant
        self.found = str(found)
        super().__init__(f"{invariant}: found {self.found}")


def require(holds: object, invariant: str, found: object) -> None:
    """Raise BrokenInvariant unless ``holds`` is true."""
    if not holds:
        raise BrokenInvariant(invariant, found)


class LoggedAction(NamedTuple):
    """A row of the decision log."""

    now: float
    what: str
    job: str
    hosts: str
    rule: str


class Witness:
    """Tracker of the state of all hosts and jobs from the protocol alone, which rejects illegal decisions."""

    def __init__(self, platform: Platform, retry_s: float = 0.0) -> None:
        """``retry_s``: delay before a host that failed to wake is woken again, s."""
        self.platform = platform
        self._retry_s = retry_s
        self._alone_until_s = np.zeros(platform.size)
        self.not_come = 0
        """Number of failed wake-ups."""
        self.state = np.full(platform.size, IDLE)
        self.here = np.ones(platform.size, dtype=np.bool_)
        """Whether each host is in service."""
        self.left_switching = np.zeros(platform.size, dtype=np.bool_)
        """Whether each host out of service was in transition at that time."""
        self.now = 0.0
        """Time of the last message, s."""
        self.waiting: dict[str, int] = {}
        self.running: dict[str, HostSet] = {}
        self.actions: list[LoggedAction] = []
        self.openings: list[float] = []
        """Times at which steps were opened, s."""
        self.granted: set[float] = set()
        """Openings of the steps in which a job was started or a host woken."""
        sleeps = [kind.sleep.pstate if kind.sleep else -1 for kind in platform.kinds]
        self._sleep = np.array(sleeps)[platform.kind_of]
        self.state[platform.initial_pstates == self._sleep] = ASLEEP
        self._sees: dict[type, Callable[[Any], None]] = {
            e.JobSubmitted: self._submitted,
            e.JobCompleted: self._completed,
            e.ResourceStateChanged: self._changed,
            e.MachinesChanged: self._machines_changed,
            d.ExecuteJob: self._execute,
            d.SetResourceState: self._switch,
            d.KillJobs: self._kill,
            d.RejectJob: self._reject,
        }

    def log(self, now: float, what: str, job: str, hosts: str, rule: str, facts: Facts) -> None:
        """Process a row of the decision log; every number in it must be finite."""
        for name, fact in facts.items():
            require(isinstance(fact, str) or math.isfinite(fact), FACTS, f"{what} {rule!r}: {name} is {fact}")
        self.actions.append(LoggedAction(now, what, job, hosts, rule))

    def see(self, message: e.Message, reply: d.Reply, budget: StepBudget | None) -> None:
        """Process a message and its reply; ``budget`` identifies the open step."""
        self.now = message.now
        for event in message.events:
            self._sees.get(type(event), self._ignore)(event)
        if budget is not None and (not self.openings or budget.start_s != self.openings[-1]):
            self.openings.append(budget.start_s)
        for decision in reply.decisions:
            self._sees.get(type(decision), self._ignore)(decision)

    def check_offers(self, offers: Sequence[Offer], platform: Platform) -> None:
        """Check that no idle server that can sleep is on beyond ``offers`` of the kinds of ``platform``."""
        for row, kind in enumerate(platform.kinds):
            if kind.sleep is None or not any(offer.kind == kind.name for offer in offers):
                continue
            mine = platform.kind_of == row
            idle = int(np.count_nonzero(mine & (self.state == IDLE) & self.here))
            busy = int(np.count_nonzero(mine & (self.state == BUSY)))
            most, on = offered(offers, kind.name, self.now), idle + busy
            require(not idle or on <= most, WITHIN_OFFERS, f"{on} of {kind.name}, {most} offered")

    def _ignore(self, event: object) -> None:
        pass

    # --- events ---

    def _submitted(self, event: e.JobSubmitted) -> None:
        self.waiting[event.job.id] = event.job.res

    def _completed(self, event: e.JobCompleted) -> None:
        self.state[self.running.pop(event.job_id).ids] = IDLE

    def _changed(self, event: e.ResourceStateChanged) -> None:
        ids = event.resources.ids
        asleep = self._sleep[ids] == event.state
        # an earlier change of speed may be acknowledged while a host falls asleep
        switching = (self.state[ids] == WAKING) | ((self.state[ids] == FALLING) & asleep)
        lost = ids[asleep & (self.state[ids] == WAKING)]
        self.not_come += len(lost)
        self._alone_until_s[lost] = event.timestamp + self._retry_s
        self.state[ids[switching]] = np.where(asleep, ASLEEP, IDLE)[switching]

    def _machines_changed(self, event: e.MachinesChanged) -> None:
        ids = event.hosts.ids
        self.here[ids] = event.available
        switching = np.isin(self.state[ids], (FALLING, WAKING))
        self.left_switching[ids] = switching & ~self.here[ids]
        if event.available:
            self._alone_until_s[ids] = 0.0

    # --- decisions ---

    def _execute(self, decision: d.ExecuteJob) -> None:
        ids = decision.alloc.ids
        require(len(ids) == self.waiting.pop(decision.job_id, None), LEGAL_STARTS, decision)
        require((self.state[ids] == IDLE).all() and self.here[ids].all(), LEGAL_STARTS, decision)
        self.state[ids] = BUSY
        self.running[decision.job_id] = decision.alloc
        self._note_grant()

    def _switch(self, decision: d.SetResourceState) -> None:
        ids = decision.resources.ids
        require(not np.isin(self.state[ids], (FALLING, WAKING)).any(), LEGAL_SWITCHES, decision)
        if (self._sleep[ids] == decision.state).any():
            require((self._sleep[ids] == decision.state).all(), LEGAL_SWITCHES, decision)
            require((self.state[ids] == IDLE).all() and self.here[ids].all(), LEGAL_SWITCHES, decision)
            self.state[ids] = FALLING
        else:
            kinds = np.unique(self.platform.kind_of[ids]).tolist()
            are_computing = all(decision.state in self.platform.kinds[kind].computing for kind in kinds)
            woken = self.state[ids] == ASLEEP
            require(are_computing and self.here[ids[woken]].all(), LEGAL_SWITCHES, decision)
            rested = (self._alone_until_s[ids[woken]] <= self.now + TIME_TOLERANCE_S).all()
            require(rested, LEFT_ALONE, decision)
            self.state[ids[woken]] = WAKING
            if woken.any():
                self._note_grant()

    def _kill(self, decision: d.KillJobs) -> None:
        require(all(job in self.running for job in decision.job_ids), LEGAL_ENDS, decision)

    def _reject(self, decision: d.RejectJob) -> None:
        require(self.waiting.pop(decision.job_id, None) is not None, LEGAL_ENDS, decision)

    def _note_grant(self) -> None:
        if self.openings:
            self.granted.add(self.openings[-1])
