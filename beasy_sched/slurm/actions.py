"""What a bridge asks of a cluster: the scheduler's decisions, as its commands say them."""

from __future__ import annotations

from msgspec import Struct


class ClusterAction(Struct, frozen=True, tag=True):
    """Base of all that changes a cluster."""


class StartJob(ClusterAction, frozen=True, tag=True):
    """Have a held job start on exactly these nodes."""

    job: str
    nodes: tuple[str, ...]


class ReleaseJob(ClusterAction, frozen=True, tag=True):
    """Leave a held job to the cluster's own scheduler."""

    job: str


class HoldJob(ClusterAction, frozen=True, tag=True):
    """Keep a waiting job from starting."""

    job: str


class CancelJob(ClusterAction, frozen=True, tag=True):
    """End a job, or take it out of the queue."""

    job: str


class RequeueJob(ClusterAction, frozen=True, tag=True):
    """End a running job, and hold it in the queue."""

    job: str


class MarkJob(ClusterAction, frozen=True, tag=True):
    """Write an administrator's comment on a job."""

    job: str
    text: str


class SwitchOff(ClusterAction, frozen=True, tag=True):
    """Power nodes down."""

    nodes: tuple[str, ...]


class SwitchOn(ClusterAction, frozen=True, tag=True):
    """Power nodes up."""

    nodes: tuple[str, ...]


class SetFrequency(ClusterAction, frozen=True, tag=True):
    """Bring nodes that are on to a computing P-state."""

    nodes: tuple[str, ...]
    pstate: int
