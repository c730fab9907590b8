"""Validity checks of decisions sent to Batsim 5.

Batsim 5 aborts on some requests that Batsim 4 ignores, and silently accepts some that Batsim 4 rejects: too
few hosts, too many, busy ones. Therefore every decision is checked here before it is sent, against the past
messages in both directions. P-state requests also get the form required by Batsim 5: a switch on or off, or a
change of speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from beasy_sched.errors import ConfigError, DecisionRefused
from beasy_sched.limits import MOST_PSTATES
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import parse_sleep_states

_COMPUTING, _SLEEP, _TRANSITION, _NONE = range(4)
"""Sorts of P-states; _NONE: there is no such P-state."""
_STALE = (e.ResourceStateChanged, e.Notify, e.JobsKilled)
"""Events that may carry the time of the previous message."""


class Rules:
    """Follows one run on the scheduler's side: `hear` each message, then `allow` its reply."""

    def __init__(self) -> None:
        """Begin before the first message."""
        self._waiting: dict[str, int] = {}
        """Jobs that have not started, with their requested numbers of hosts."""
        self._running: dict[str, HostSet] = {}
        """Jobs whose end has not been announced."""
        self._killed: set[str] = set()
        """Running jobs that are being killed."""
        self._ended = False
        self._set_hosts(())
        self._checks: dict[type[d.Decision], Callable[[Any], d.Decision]] = {
            d.ExecuteJob: self._execute,
            d.RejectJob: self._reject,
            d.KillJobs: self._kill,
            d.SetResourceState: self._set_state,
            d.CallMeLater: self._call,
            d.FinishRegistration: lambda decision: decision,
        }

    # --- messages of the simulator ---

    def hear(self, message: e.Message) -> e.Message:
        """Record a message; return it with corrected event times.

        If the first event is one that Batsim 5 stamps with the time of the previous message, it gets the
        message's own time.
        """
        events = [
            msgspec.structs.replace(event, timestamp=message.now)
            if isinstance(event, _STALE) and event.timestamp < message.now
            else event
            for event in message.events
        ]
        for event in events:
            self._note(event)
        return msgspec.structs.replace(message, events=events)

    def _note(self, event: e.Event) -> None:
        if isinstance(event, e.JobSubmitted):
            self._waiting[event.job.id] = event.job.res
        elif isinstance(event, e.JobCompleted):
            hosts = self._running.pop(event.job_id, None)
            self._killed.discard(event.job_id)
            if hosts is not None:
                self._busy[hosts.ids] = False
        elif isinstance(event, e.ResourceStateChanged):
            ids = event.resources.ids[event.resources.ids < self._size]
            self._pstate[ids] = event.state
            if event.switch:
                self._switching[ids] = False
        elif isinstance(event, e.SimulationBegins):
            self._set_hosts(event.resources)
        elif isinstance(event, e.SimulationEnds):
            self._ended = True

    def _set_hosts(self, resources: tuple[e.Resource, ...]) -> None:
        ordered = sorted(resources, key=lambda resource: resource.id)
        self._size = len(ordered)
        self._pstate = np.array([resource.pstate or 0 for resource in ordered], dtype=np.intp)
        self._switching = np.zeros(self._size, dtype=np.bool_)
        self._busy = np.zeros(self._size, dtype=np.bool_)
        rows: dict[tuple[str, int], int] = {}
        kinds = [
            rows.setdefault(
                (x.properties.get("sleep_pstates", ""), len(x.speeds_flops) or MOST_PSTATES), len(rows)
            )
            for x in ordered
        ]
        self._kind_of = np.array(kinds, dtype=np.intp)
        width = max((pstates for _, pstates in rows), default=0) + 1
        self._sorts = np.full((max(len(rows), 1), width), _NONE, dtype=np.int8)
        """Sort of each P-state, [kind, P-state]; the last column represents missing P-states."""
        for (text, pstates), row in rows.items():
            self._sorts[row, :pstates] = _COMPUTING
            for sleep in _sleeps(text):
                for pstate, sort in zip(sleep, (_SLEEP, _TRANSITION, _TRANSITION), strict=True):
                    if 0 <= pstate < pstates:
                        self._sorts[row, pstate] = sort

    # --- replies of the scheduler ---

    def allow(self, reply: d.Reply) -> d.Reply:
        """Return the reply in the form for Batsim 5.

        Raises DecisionRefused for a decision on which Batsim 5 would abort, or which it would execute
        unchecked although it is invalid.
        """
        if self._ended and reply.decisions:
            raise _refusal(f"a {type(reply.decisions[0]).__name__} after the end of the simulation")
        allowed = []
        latest = -np.inf
        for decision in reply.decisions:
            if not latest <= decision.timestamp <= reply.now:
                raise _refusal(
                    f"a {type(decision).__name__} for {decision.timestamp:g} s, in a reply for"
                    f" {reply.now:g} s whose decisions must be in time order"
                )
            latest = decision.timestamp
            check = self._checks.get(type(decision))
            if check is None:
                raise _refusal(f"a {type(decision).__name__} is not supported with Batsim 5")
            allowed.append(check(decision))
        return d.Reply(reply.now, allowed)

    def _execute(self, decision: d.ExecuteJob) -> d.Decision:
        job = decision.job_id
        asked = self._waiting.get(job)
        if asked is None:
            raise _refusal(f"job {job} cannot start: {self._why_not_waiting(job)}")
        ids = self._known(decision.alloc, f"job {job} is to start on")
        if len(ids) != asked:
            raise _refusal(f"job {job} cannot start on {len(ids)} hosts: it requests {asked}")
        for problem, wrong in (
            ("busy", self._busy[ids]),
            ("switching on or off", self._switching[ids]),
            ("not in a computing P-state", self._sort_of(ids) != _COMPUTING),
        ):
            if wrong.any():
                raise _refusal(f"job {job} cannot start on host {ids[wrong][0]}, which is {problem}")
        del self._waiting[job]
        self._running[job] = decision.alloc
        self._busy[ids] = True
        return decision

    def _reject(self, decision: d.RejectJob) -> d.Decision:
        if self._waiting.pop(decision.job_id, None) is None:
            raise _refusal(
                f"job {decision.job_id} cannot be rejected: {self._why_not_waiting(decision.job_id)}"
            )
        return decision

    def _kill(self, decision: d.KillJobs) -> d.Decision:
        if not decision.job_ids:
            raise _refusal("a kill does not name a job")
        for job in decision.job_ids:
            if job in self._killed:
                raise _refusal(f"job {job} cannot be killed a second time")
            if job not in self._running:
                raise _refusal(f"job {job} cannot be killed: it is not running, or its end was announced")
            self._killed.add(job)
        return decision

    def _set_state(self, decision: d.SetResourceState) -> d.Decision:
        hosts, target = decision.resources, decision.state
        ids = self._known(hosts, f"P-state {target} is wanted of")
        what = f"P-state {target} is wanted of hosts {hosts}"
        if self._switching[ids].any():
            raise _refusal(f"{what}, of which {ids[self._switching[ids]][0]} is switching on or off")
        wanted = self._sorts[self._kind_of[ids], min(max(target, -1), self._sorts.shape[1] - 1)]
        asleep = self._sort_of(ids) == _SLEEP
        if asleep.any() != asleep.all() or (wanted != wanted[0]).any():
            raise _refusal(f"{what}, which are in different P-states")
        if wanted[0] not in (_COMPUTING, _SLEEP) or (asleep[0] and wanted[0] == _SLEEP):
            raise _refusal(f"{what}, which cannot change to it from P-state {self._pstate[ids[0]]}")
        to_sleep = bool(wanted[0] == _SLEEP)
        if to_sleep and self._busy[ids].any():
            raise _refusal(f"{what}, but a job runs on host {ids[self._busy[ids]][0]}")
        switch = bool(asleep[0]) or to_sleep
        self._switching[ids] = switch
        if not switch:
            self._pstate[ids] = target
        return msgspec.structs.replace(decision, switch=switch)

    def _call(self, decision: d.CallMeLater) -> d.Decision:
        if not decision.timestamp < decision.at < np.inf:
            raise _refusal(f"a call was requested for {decision.at:g} s, at {decision.timestamp:g} s")
        return decision

    # --- errors ---

    def _known(self, hosts: HostSet, what: str) -> HostIds:
        """Return the ids of hosts that must exist."""
        ids = hosts.ids
        if not len(ids):
            raise _refusal(f"{what} no host")
        if ids[-1] >= self._size or ids[0] < 0:
            raise _refusal(f"{what} hosts {hosts}, but there are only 0 to {self._size - 1}")
        return ids

    def _sort_of(self, ids: HostIds) -> np.ndarray[Any, np.dtype[np.int8]]:
        return self._sorts[self._kind_of[ids], np.minimum(self._pstate[ids], self._sorts.shape[1] - 1)]

    def _why_not_waiting(self, job: str) -> str:
        return "it is already running" if job in self._running else "it was not submitted, or has ended"


def _sleeps(text: str) -> list[tuple[int, int, int]]:
    try:
        return [sleep.pstates for sleep in parse_sleep_states(text)]
    except ConfigError:  # reported, with the host's name, when the platform is read
        return []


def _refusal(text: str) -> DecisionRefused:
    return DecisionRefused(f"decision blocked because Batsim 5 would abort or fail: {text}")
