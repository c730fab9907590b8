"""What a bridge asks of a cluster: the scheduler's decisions, as its commands say them."""

from __future__ import annotations

from msgspec import Struct


class ClusterAction(Struct, frozen=True, tag=True):
    """Base of all that changes a cluster."""


class JobAction(ClusterAction, frozen=True):
    """Base of what is done with a job."""

    job: str


class StartJob(JobAction, frozen=True):
    """Have a held job start on exactly these nodes."""

    nodes: tuple[str, ...]


class ReleaseJob(JobAction, frozen=True):
    """Leave a held job to the cluster's own scheduler."""


class HoldJob(JobAction, frozen=True):
    """Keep a waiting job from starting."""


class CancelJob(JobAction, frozen=True):
    """End a job, or take it out of the queue. Nothing comes of one that has ended."""


class RequeueJob(JobAction, frozen=True):
    """End a running job, and hold it in the queue."""


class MarkJob(JobAction, frozen=True):
    """Write an administrator's comment on a job."""

    text: str


class NodesAction(ClusterAction, frozen=True):
    """Base of what is done with nodes."""

    nodes: tuple[str, ...]


class SwitchOff(NodesAction, frozen=True):
    """Power nodes down."""


class SwitchOn(NodesAction, frozen=True):
    """Power nodes up. Slurm loses this without a word for a node that is still falling asleep."""


class SetFrequency(NodesAction, frozen=True):
    """Bring nodes that are on to a computing P-state."""

    pstate: int
