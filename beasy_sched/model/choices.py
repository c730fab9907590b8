"""Choices of a run that its commands offer. This module imports little, so that a command starts fast."""

from __future__ import annotations

from enum import Enum
from typing import Final

from beasy_sched.limits import LATEST_S
from beasy_sched.numbers import Range

RETRIES: Final = Range(0.0, LATEST_S, above=True)
"""Times for which a host may be left alone after its first failure, s."""


class EnergySource(str, Enum):
    """Source of the energy used by servers."""

    BATSIM = "batsim"
    MODEL = "model"


class Placement(Enum):
    """Decision which job starts when, and where."""

    OWN = "own"
    """The policy starts jobs."""
    EXTERNAL = "external"
    """Somebody else starts jobs, such as Slurm, and wakes servers for them: the policy only returns the
    numbers of servers that may be on (`Offer`). Servers that are on beyond the offer are to be switched off
    as soon as they have no job."""


class OnKill(str, Enum):
    """Treatment of a job that guard, policy or a broken host ends."""

    DROP = "drop"
    """It is lost."""
    REQUEUE = "requeue"
    """It is submitted again at once, from its beginning."""
    CHECKPOINT = "checkpoint"
    """It is submitted again with what its last checkpoint left."""
