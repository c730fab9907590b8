"""Placement of jobs on servers: by the policy, or by somebody else within the servers that it offers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from beasy_sched.engine.actions import Action, FactDict, Offer
from beasy_sched.engine.guard import StepBudget, servers_fed
from beasy_sched.engine.session_words import OFFER_LIMITED
from beasy_sched.errors import PolicyError
from beasy_sched.limits import shortened
from beasy_sched.units import TIME_TOLERANCE_S

if TYPE_CHECKING:
    from beasy_sched.engine.policy import View


class Placer(Protocol):
    """Places jobs within the offers, in this process: a substitute for an external scheduler."""

    def place(self, view: View, offers: Sequence[Offer]) -> Sequence[Action]:
        """Return the starts and switches to carry out now."""


def offered(offers: Iterable[Offer], kind: str, at_s: float) -> float:
    """Return the number of servers of a kind that may be on at a time (s); infinite without a limit."""
    at_s += TIME_TOLERANCE_S
    counts = (offer.count for offer in offers if offer.kind == kind and offer.from_s <= at_s < offer.until_s)
    return min(counts, default=math.inf)


def guards_offers(budget: StepBudget) -> list[Offer]:
    """Return offers that limit a step to the servers that its energy feeds at full load; none without a veto.

    They replace the guard's veto, because others start jobs without asking.
    """
    if not budget.veto or budget.headroom_j == math.inf:
        return []
    cluster = budget.cluster
    platform, dt_s = cluster.platform, budget.end_s - budget.now
    fed = servers_fed(cluster, budget.headroom_j, budget.now, dt_s)
    facts: FactDict = {"headroom_j": budget.headroom_j}
    offers = []
    for row, kind in enumerate(platform.kinds):
        mine = platform.kind_of == row
        count = int(np.count_nonzero(fed & mine))
        if count < np.count_nonzero(cluster.available & mine):
            offers.append(Offer(kind.name, count, budget.now, budget.end_s, OFFER_LIMITED, facts))
    return offers


def offer_facts(offer: Offer) -> FactDict:
    """Return the kind and the number of servers of an offer, for the decision log."""
    return {"server_kind": offer.kind, "servers_offered": int(offer.count)}


class Offers:
    """The offers of a policy: those that apply, and their changes for the decision log."""

    def __init__(self, kinds: Sequence[str]) -> None:
        """Begin without an offer: servers of all ``kinds`` may be on."""
        self.last: tuple[Offer, ...] = ()
        """The policy's last offers, and those of the guard for the present step."""
        self._policys: tuple[Offer, ...] = ()
        self._guards: tuple[Offer, ...] = ()
        self._kinds = frozenset(kinds)
        self._made: list[Offer] = []
        self._logged: dict[str, float] = {}
        """Number of servers of each kind that was last logged."""

    def add(self, offer: Offer) -> None:
        """Take an offer of the present call. Raises PolicyError for an unknown kind."""
        if offer.kind not in self._kinds:
            kinds = ", ".join(sorted(self._kinds))
            raise PolicyError(f"servers of kind {shortened(offer.kind)!r} are offered; the kinds are {kinds}")
        self._made.append(offer)

    def apply(self) -> None:
        """Replace the earlier offers by those of the present call, if it made any."""
        if self._made:
            self._policys, self._made = (*self._made,), []
            self.last = (*self._policys, *self._guards)

    def limit(self, guards: Iterable[Offer]) -> list[Offer]:
        """Replace the guard's offers of the last step; they limit those of the policy.

        Returns those whose number of servers differs from that in the last step.
        """
        before = {offer.kind: offer.count for offer in self._guards}
        self._guards = (*guards,)
        self.last = (*self._policys, *self._guards)
        return [offer for offer in self._guards if before.get(offer.kind) != offer.count]

    def changes(self, now: float) -> Iterator[tuple[str, FactDict]]:
        """Yield the rule and the facts for each kind of which the policy offers another number now."""
        at_s = now + TIME_TOLERANCE_S
        present = (offer for offer in self._policys if offer.from_s <= at_s < offer.until_s)
        lowest: dict[str, Offer] = {}
        for offer in present:
            if offer.kind not in lowest or offer.count < lowest[offer.kind].count:
                lowest[offer.kind] = offer
        for kind, offer in lowest.items():
            before = self._logged.get(kind)
            if before == offer.count:
                continue
            facts = offer_facts(offer)
            if before is not None:
                facts["servers_before"] = int(before)
            self._logged[kind] = offer.count
            yield offer.rule, facts | self._next_fall(offer, now) | dict(offer.facts)

    def _next_fall(self, present: Offer, now: float) -> FactDict:
        """Return when the number of servers falls next below the present one, and to which."""
        lower = (
            offer
            for offer in self._policys
            if offer.kind == present.kind and offer.from_s > now and offer.count < present.count
        )
        fall = min(lower, key=lambda offer: (offer.from_s, offer.count), default=None)
        return {} if fall is None else {"falls_to": int(fall.count), "falls_at_s": float(fall.from_s)}
