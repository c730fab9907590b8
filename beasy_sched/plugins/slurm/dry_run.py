"""A cluster's commands without those that change it: they are reported instead of run."""

from __future__ import annotations

from collections.abc import Callable

from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.reservations import NodeReservation, after
from beasy_sched.plugins.slurm.slurm_commands import Slurm, commands_of


class DryRun(Slurm):
    """The commands of a cluster, of which only the queries are run."""

    def __init__(self, slurm: Slurm, say: Callable[[str], None]) -> None:
        """``say`` receives each command that would be run."""
        super().__init__(slurm.query)
        self._say = say
        self._made: dict[str, NodeReservation] = {}
        """Reservations that would exist, by name."""
        self._would_be_off: set[str] = set()
        """Nodes that would have been powered down."""

    def reservations(self) -> list[NodeReservation]:
        """Return the cluster's reservations, and those that would exist."""
        return [*super().reservations(), *self._made.values()]

    def do(self, action: a.ClusterAction) -> None:
        """Report the commands of an action, once for each node to be powered down."""
        if isinstance(action, a.SwitchOff):
            new = tuple(name for name in action.nodes if name not in self._would_be_off)
            self._would_be_off.update(new)
            action = a.SwitchOff(new)
        elif isinstance(action, a.ReservationAction):
            self._made = after(self._made, action)
            held = {name for made in self._made.values() for name in made.nodes}
            self._would_be_off &= held
        for command in commands_of(action):
            self._say(f"would run: {' '.join(command)}")
