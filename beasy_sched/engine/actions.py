"""What a policy may ask for. The session turns actions into protocol decisions.

Every action names the rule that led to it, and the numbers behind it, for the decision log.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job

Facts: TypeAlias = Mapping[str, float | int | str]
"""The numbers behind an action by name, the unit in the name: ``{"headroom_j": 4.2e6}``."""

FactDict: TypeAlias = dict[str, float | int | str]
"""Facts while they are put together."""

NO_FACTS: Facts = MappingProxyType({})


class Start(Struct, frozen=True, gc=False):
    """Start a waiting job on exactly these free hosts."""

    job: Job
    hosts: HostSet
    rule: str = ""
    facts: Facts = NO_FACTS


class Kill(Struct, frozen=True, gc=False):
    """Stop a running job (a moment later, when it is certain that it has not just ended)."""

    job: Job
    rule: str = ""
    facts: Facts = NO_FACTS


class Reject(Struct, frozen=True, gc=False):
    """Refuse a waiting job for good."""

    job: Job
    rule: str = ""
    facts: Facts = NO_FACTS


class SetPState(Struct, frozen=True, gc=False):
    """Wish hosts into a P-state: another speed, asleep, or awake again.

    The wish is kept until it can be carried out: a busy host sleeps only after its job, a host in
    transition changes only after it.
    """

    hosts: HostSet
    pstate: int
    rule: str = ""
    facts: Facts = NO_FACTS


class Postpone(Struct, frozen=True, gc=False):
    """Say why a waiting job does not start. It changes nothing; a line is logged when the rule is new."""

    job: Job
    rule: str
    facts: Facts = NO_FACTS


class Compensate(Struct, frozen=True, gc=False):
    """Say how the steps to come have been changed to reach the target. It changes nothing but the log."""

    rule: str
    facts: Facts = NO_FACTS


class CallAt(Struct, frozen=True, gc=False):
    """Ask for another decision at a time (s) even if nothing happens.

    It holds until the policy is asked again, whatever the reason: what is still wanted then, ask for
    again.
    """

    at: float


class MeasureEnergy(Struct, frozen=True, gc=False):
    """Ask the simulator for the energy used so far; the policy is asked again when the answer is there.

    It comes at the same simulated time, as `View.measured`. It needs Batsim's ``-E``.
    """


Action: TypeAlias = Start | Kill | Reject | SetPState | Postpone | Compensate | MeasureEnergy | CallAt
