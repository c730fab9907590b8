"""The partition of low-class jobs, whose State is a switch: none of them starts while energy is scarce.

No input or output. Its running jobs continue while it is DOWN, and users can submit further ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Finding, fails
from beasy_sched.limits import shortened
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.records import SlurmNode

PartitionState = Literal["UP", "DOWN"]
_SWITCHED: Final[tuple[PartitionState, PartitionState]] = ("UP", "DOWN")
_ADMINISTRATORS: Final = "Operator "
"""Beginning of the rights that do not suffice to change a partition."""


def state_of_low(settings: Mapping[str, str], name: str) -> PartitionState:
    """Return the state of a partition from its settings. Raises ConfigError for another than UP or DOWN."""
    for state in _SWITCHED:
        if settings.get("State") == state:
            return state
    raise ConfigError(
        f"--low-partition {name}: its State is {shortened(settings.get('State', 'unknown'))}, which somebody"
        f" else has set: expected UP or DOWN (scontrol update PartitionName={name} State=UP)"
    )


def low_findings(
    settings: Mapping[str, str], name: str, main: str, nodes: Sequence[SlurmNode], rights: str
) -> Iterator[Finding]:
    """Yield what keeps a partition from being the low one next to the partition ``main``, of ``nodes``."""
    if name == main:
        yield fails(
            "slurm-low-partition", f"--low-partition {name}: is the partition of -P: name another one"
        )
        return
    outside = [node.name for node in nodes if name in node.partitions and main not in node.partitions]
    if outside:
        yield fails(
            "slurm-low-partition",
            f"--low-partition {name}: node {outside[0]} is not in partition {main!r}: jobs there would wait"
            f" although their nodes are not limited; use a partition of nodes of {main!r} only",
        )
    try:
        state_of_low(settings, name)
    except ConfigError as error:
        yield fails("slurm-low-partition", str(error))
    if rights.startswith(_ADMINISTRATORS):
        yield fails(
            "slurm-low-partition",
            f"--low-partition {name}: an operator may not change partitions: sacctmgr modify user NAME set"
            " adminlevel=Admin, or be the SlurmUser",
        )


class LowPartition:
    """Switches the partition once in a step at most, when that is needed."""

    def __init__(self, name: str, state: PartitionState) -> None:
        """``state``: its present state."""
        self.name, self.state = name, state
        self._step: int | None = None
        """The step in which it was last decided on."""

    def decide(self, step: int, *, is_scarce: bool) -> list[a.ClusterAction]:
        """Return the action for the number of a step; none if the partition is as it should be."""
        if step == self._step:
            return []
        self._step = step
        wanted: PartitionState = "DOWN" if is_scarce else "UP"
        if wanted == self.state:
            return []
        self.state = wanted
        return [a.SwitchPartition(self.name, is_up=wanted == "UP")]

    def refused(self, action: a.SwitchPartition) -> None:
        """Note that Slurm has refused a change: it is tried again in the next step."""
        self.state = "DOWN" if action.is_up else "UP"

    def release(self) -> list[a.ClusterAction]:
        """Return the action that lets its jobs start again at the end of a run; none if they can."""
        if self.state == "UP":
            return []
        self.state = "UP"
        return [a.SwitchPartition(self.name, is_up=True)]
