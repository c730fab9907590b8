"""Choices that commands offer as options. This module imports little, so that a command starts fast."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

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


class BatsimFormat(str, Enum):
    """Version of Batsim whose input files are read or written."""

    BATSIM4 = "batsim4"
    BATSIM5 = "batsim5"

    @property
    def label(self) -> str:
        """Name of the version in messages."""
        return "Batsim 4" if self is BatsimFormat.BATSIM4 else "Batsim 5"


class HostsText(str, Enum):
    """Separator between the parts of a set of hosts in messages to Batsim 5."""

    SPACE = "space"
    """Sets such as ``0-3 5-5``, written by Batsim from 5.0.0-rc2 on."""
    COMMA = "comma"
    """Sets such as ``0-3,5-5``, written by Batsim before 5.0.0-rc2."""


WalltimeRule = Literal["groups", "keep", "none"]


class ProductionCase(str, Enum):
    """Place of the actual production within the band of its forecast."""

    BEST = "best"
    """At the upper bound: P * (1 + u)."""
    WORST = "worst"
    """At the lower bound: P * (1 - u)."""
    BETWEEN = "between"
    """Anywhere between the bounds, uniform and independent in each step."""
    EXACT = "exact"
    """Actual production as forecast."""


class Interpolation(str, Enum):
    """Course of power in an interval with a known mean."""

    SMOOTH = "smooth"
    """A parabola with the interval's mean, continuous with its neighbours."""
    CONSTANT = "constant"
    """The mean itself."""


class Surplus(str, Enum):
    """Use of power beyond the demand. Shortfalls are the same in both cases."""

    ENVELOPE = "envelope"
    """The servers may use power beyond the demand, up to their maximum (Eq. 3.11 as printed)."""
    STORE = "store"
    """Power beyond the demand goes into the battery first, up to SoC_max; the servers may use the rest."""


class DateOrder(str, Enum):
    """Order of day and month in dates such as 03/04/2019."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"

    @property
    def other(self) -> DateOrder:
        """The other order."""
        return DateOrder.MONTH_FIRST if self is DateOrder.DAY_FIRST else DateOrder.DAY_FIRST


SIGMA: Final = 0.2
"""Default standard deviation of the noise, a share of each value; the paper prints none."""
