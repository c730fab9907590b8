"""Actions that a bridge requests of a cluster: the scheduler's decisions in terms of Slurm's commands."""

from __future__ import annotations

from msgspec import Struct

from beasy_sched.plugins.slurm.records import MARK


class ClusterAction(Struct, frozen=True, tag=True):
    """Base of all actions."""


class JobAction(ClusterAction, frozen=True):
    """Base of actions on a job."""

    job: str


class StartJob(JobAction, frozen=True):
    """Start a held job on exactly these nodes, and mark it as placed."""

    nodes: tuple[str, ...]
    node_range: str = ""
    """Numbers of nodes that its user allows, such as ``2-4``; empty for exactly one number."""


class ReleaseJob(JobAction, frozen=True):
    """Release a held job to the cluster's own scheduler."""


class HoldJob(JobAction, frozen=True):
    """Hold a waiting job."""


class UnplaceJob(JobAction, frozen=True):
    """Remove the node list of a placed job that waits, and restore its user's number of nodes."""

    node_range: str = ""
    """Numbers of nodes, as in `StartJob`."""
    comment: str = MARK
    """Administrator's comment from now on."""


class CancelJob(JobAction, frozen=True):
    """Cancel a running or waiting job. It has no effect on a job that has ended."""


class SignalJob(JobAction, frozen=True):
    """Mark a running job, and send SIGTERM to its batch script, so that it writes a checkpoint."""

    comment: str
    """Administrator's comment from now on."""


class RequeueJob(JobAction, frozen=True):
    """End a running job, and hold it in the queue."""


class RestartJob(JobAction, frozen=True):
    """End a running job, and put it back into the queue."""


class MarkJob(JobAction, frozen=True):
    """Write an administrator's comment on a job."""

    text: str


class CommentJob(JobAction, frozen=True):
    """Write a job's comment, that which its user may write as well."""

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


class ReservationAction(ClusterAction, frozen=True):
    """Base of actions on a reservation. Times are s since 1970."""

    name: str


class MakeReservation(ReservationAction, frozen=True):
    """Reserve nodes, so that no further job starts there; jobs that run there continue."""

    nodes: tuple[str, ...]
    start_s: float | None
    """Start; None: at once."""
    end_s: float


class ChangeReservation(ReservationAction, frozen=True):
    """Change a reservation; None: unchanged. Slurm rejects another start once it has begun."""

    nodes: tuple[str, ...] | None = None
    start_s: float | None = None
    end_s: float | None = None


class DeleteReservation(ReservationAction, frozen=True):
    """Delete a reservation."""


class SwitchPartition(ClusterAction, frozen=True):
    """Let the waiting jobs of a partition start, or none of them. Running jobs continue."""

    partition: str
    is_up: bool
