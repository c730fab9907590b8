"""Actions that a policy may request. The session turns them into protocol decisions.

Every action names the rule that led to it, and the numbers behind it, for the decision log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job

Facts: TypeAlias = Mapping[str, float | int | str]
"""The numbers behind an action, with the unit in the name: ``{"headroom_j": 4.2e6}``."""

FactDict: TypeAlias = dict[str, float | int | str]
"""Facts while they are collected."""

NO_FACTS: Facts = MappingProxyType({})

DecisionLog: TypeAlias = Callable[[float, str, str, str, str, Facts], None]
"""Function called for each log row: (now in s, action, job id or "", hosts, rule, numbers behind it)."""


class Start(Struct, frozen=True, gc=False):
    """Start a waiting job on exactly these free hosts."""

    job: Job
    hosts: HostSet
    rule: str = ""
    facts: Facts = NO_FACTS


class Kill(Struct, frozen=True, gc=False):
    """Stop a running job (a moment later, once it is certain that it has not just ended)."""

    job: Job
    rule: str = ""
    facts: Facts = NO_FACTS


class Reject(Struct, frozen=True, gc=False):
    """Reject a waiting job for good."""

    job: Job
    rule: str = ""
    facts: Facts = NO_FACTS


class SetPState(Struct, frozen=True, gc=False):
    """Request a P-state of hosts: another speed, asleep, or awake again.

    The request is kept until it can be carried out: after its job for a busy host, after its transition
    for a host in transition.
    """

    hosts: HostSet
    pstate: int
    rule: str = ""
    facts: Facts = NO_FACTS


class Postpone(Struct, frozen=True, gc=False):
    """Give the reason why a waiting job does not start. Only logged, and only when the rule is new."""

    job: Job
    rule: str
    facts: Facts = NO_FACTS


class Compensate(Struct, frozen=True, gc=False):
    """Describe how the plan of later steps was changed to reach the target. Only logged."""

    rule: str
    facts: Facts = NO_FACTS


class CallAt(Struct, frozen=True, gc=False):
    """Request another decision at a time (s) even if nothing happens.

    The request expires when the policy is next called, for any reason: repeat it then if needed.
    """

    at: float


class Offer(Struct, frozen=True, gc=False):
    """Allow up to ``count`` servers of a kind to be on from ``from_s`` to ``until_s``; see `Placement`.

    Several offers describe steps ahead. The offers of one call replace all earlier ones. The lowest count
    applies where offers of a kind overlap; a time without an offer of the kind is not limited.
    """

    kind: str
    """Name of a `ServerKind` of the platform."""
    count: int
    from_s: float
    until_s: float
    """End of the offer, s; infinite where it has none."""
    rule: str = ""
    facts: Facts = NO_FACTS


class MeasureEnergy(Struct, frozen=True, gc=False):
    """Ask the simulator for the energy used so far; the policy is called again with the answer.

    It arrives at the same simulated time, as `View.measured`. Requires Batsim's ``-E``.
    """


Action: TypeAlias = Start | Kill | Reject | SetPState | Postpone | Compensate | MeasureEnergy | CallAt | Offer
