"""How power and servers agree on an envelope (the negotiation module, thesis Section 3.1.1).

The thesis negotiates once, in three steps. Another way, with rounds and a timeout, is another function
of the type `Negotiation`; neither the power decisions nor the server decisions know about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beasy_sched.arrays import FloatArray
from beasy_sched.plan.power import PowerDecision
from beasy_sched.plan.servers import ServerPlan

PowerModule = Callable[[FloatArray], PowerDecision]
"""Answers a demand (W a step) with the best power plan for it."""
ServerModule = Callable[[FloatArray], ServerPlan]
"""Fits the servers into an envelope (W a step)."""


@dataclass(frozen=True)
class Agreement:
    """What was agreed on; ``servers`` is None where there is no power plan."""

    power: PowerDecision
    servers: ServerPlan | None


Negotiation = Callable[[FloatArray, PowerModule, ServerModule], Agreement]


def negotiate_once(demand_w: FloatArray, power: PowerModule, servers: ServerModule) -> Agreement:
    """The thesis's way: ask for the demand, take the envelope that is offered, fit the servers into it."""
    decision = power(demand_w)
    if decision.plan is None:
        return Agreement(decision, None)
    return Agreement(decision, servers(decision.plan.envelope_w))
