"""Scheduler decisions, independent of the protocol version.

A decision's ``timestamp`` is the simulated time (s) at which it was made; a reply's ``now`` is never
earlier than the timestamps of its decisions.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from beasy_sched.model.hosts import HostSet


class Decision(Struct, frozen=True, gc=False):
    """Base of all decisions."""

    timestamp: float


class ExecuteJob(Decision, frozen=True, gc=False):
    """Start a job on exactly these hosts."""

    job_id: str
    alloc: HostSet
    mapping: dict[str, str] | None = None
    """Executor number to the position of its host in ``alloc``; None maps them one to one."""
    placement: dict[str, Any] | None = None
    """Further fields of Batsim 5, as on the wire: ``strategy``, ``profile_allocation_override``,
    ``storage_placement``."""


class RejectJob(Decision, frozen=True, gc=False):
    """Reject a waiting job permanently."""

    job_id: str


class KillJobs(Decision, frozen=True, gc=False):
    """Stop running jobs."""

    job_ids: tuple[str, ...]


class SetResourceState(Decision, frozen=True, gc=False):
    """Bring hosts to a P-state: computing, or asleep (through their transition states)."""

    resources: HostSet
    state: int
    switch: bool | None = None
    """Whether the decision switches hosts on or off, instead of only changing their speed; None if the
    protocol does not distinguish these."""


class CallMeLater(Decision, frozen=True, gc=False):
    """Request a message at time ``at`` (s), which must be in the future."""

    at: float
    id: str = ""
    """Id repeated by the `RequestedCall`, if the protocol supports it."""


class CallPeriodically(Decision, frozen=True, gc=False):
    """Request a message at every multiple of a period (Batsim 5)."""

    id: str
    period_ms: int
    offset_ms: int = 0
    count: int | None = None
    """Number of periods; None for calls without end."""


class StopCalls(Decision, frozen=True, gc=False):
    """End the calls of a `CallPeriodically` (Batsim 5)."""

    id: str


class ProbeRequest(Decision, frozen=True, gc=False):
    """Create, stop, trigger or reset a probe (Batsim 5), in the terms of the wire."""

    kind: str
    """Name of the event on the wire."""
    data: dict[str, Any]


class ForceStop(Decision, frozen=True, gc=False):
    """End the simulation immediately (Batsim 5)."""


class QueryEnergy(Decision, frozen=True, gc=False):
    """Request the energy used since time 0."""


class SetJobMetadata(Decision, frozen=True, gc=False):
    """Attach a string to a job; it appears in Batsim's jobs file."""

    job_id: str
    metadata: str


class RegisterProfile(Decision, frozen=True, gc=False):
    """Register a profile for jobs created by the scheduler."""

    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class RegisterJob(Decision, frozen=True, gc=False):
    """Create a job by the scheduler."""

    job_id: str
    job: dict[str, Any]


class FinishRegistration(Decision, frozen=True, gc=False):
    """No more jobs will be registered."""


class ContinueRegistration(Decision, frozen=True, gc=False):
    """More jobs will be registered."""


class ChangeJobState(Decision, frozen=True, gc=False):
    """Set a job's state directly (Batsim's CHANGE_JOB_STATE)."""

    job_id: str
    job_state: str


class Reply(Struct, frozen=True, gc=False):
    """The scheduler's reply to one message."""

    now: float
    decisions: list[Decision]
