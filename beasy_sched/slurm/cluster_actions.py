"""Actions that a bridge requests of a cluster: the scheduler's decisions in terms of Slurm's commands."""

from __future__ import annotations

from msgspec import Struct


class ClusterAction(Struct, frozen=True, tag=True):
    """Base of all actions."""


class JobAction(ClusterAction, frozen=True):
    """Base of actions on a job."""

    job: str


class StartJob(JobAction, frozen=True):
    """Start a held job on exactly these nodes."""

    nodes: tuple[str, ...]


class ReleaseJob(JobAction, frozen=True):
    """Release a held job to the cluster's own scheduler."""


class HoldJob(JobAction, frozen=True):
    """Hold a waiting job."""


class CancelJob(JobAction, frozen=True):
    """Cancel a running or waiting job. It has no effect on a job that has ended."""


class RequeueJob(JobAction, frozen=True):
    """End a running job, and hold it in the queue."""


class MarkJob(JobAction, frozen=True):
    """Write an administrator's comment on a job."""

    text: str


class NodesAction(ClusterAction, frozen=True):
    """Base of actions on nodes."""

    nodes: tuple[str, ...]


class SwitchOff(NodesAction, frozen=True):
    """Power nodes down."""


class SwitchOn(NodesAction, frozen=True):
    """Power nodes up. Slurm silently ignores this for a node that is still powering down."""


class SetFrequency(NodesAction, frozen=True):
    """Bring nodes that are on to a computing P-state."""

    pstate: int
