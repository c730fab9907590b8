"""Energy of the present step that may still be promised to starts and wakes."""

from __future__ import annotations

from typing import Protocol

from beasy_sched.model.hosts import HostIds


class StepBudget(Protocol):
    """What a policy may ask of the power side."""

    def grant_start(self, hosts: HostIds) -> bool:
        """Take the energy that starting a job on idle ``hosts`` adds to this step, if it is there."""
        ...
