"""Draws failures and repairs of servers: of each server, times without a failure and of repair in turn.

Both times have an exponential distribution, so that neither depends on the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.formats.failures import HostFailure, HostFailureKind
from beasy_sched.model.hosts import HostSet


@dataclass(frozen=True)
class FailureModel:
    """Mean times of a server, s."""

    between_s: float
    """From a repair to the next failure."""
    repair_s: float
    """From a failure to its repair."""


def draw_failures(
    model: FailureModel, in_service: BoolArray, time_s: float, until_s: float, rng: np.random.Generator
) -> Sequence[HostFailure]:
    """Draw what happens to each server from ``time_s`` to ``until_s`` (s), in the order of time.

    Servers that are not in service are under repair.
    """
    means_s = {True: model.between_s, False: model.repair_s}
    first_s = time_s + rng.exponential(np.where(in_service, model.between_s, model.repair_s))
    found: list[tuple[float, int, bool]] = []
    for host in np.flatnonzero(first_s < until_s).tolist():
        at_s, works = float(first_s[host]), bool(in_service[host])
        while at_s < until_s:
            found.append((at_s, host, works))
            works = not works
            at_s += float(rng.exponential(means_s[works]))
    kinds = {True: HostFailureKind.BREAKS, False: HostFailureKind.REPAIRED}
    return [HostFailure(at_s, kinds[worked], HostSet.of([host])) for at_s, host, worked in sorted(found)]
