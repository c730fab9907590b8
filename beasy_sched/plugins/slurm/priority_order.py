"""The site's order of held jobs: priorities computed as Slurm does for jobs that are not held.

A held job has priority 0, and ``sprio`` omits it. So its priority is computed from the account shares of
``sshare``, its age and its nice value, with the site's weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from beasy_sched.plugins.slurm.records import SlurmAway, SlurmJob
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm

_MULTIFACTOR: Final = "priority/multifactor"
_REFRESH_S: Final = 300.0
"""Interval at which shares are read: that at which Slurm computes them by default, s."""
_DURATION: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", re.ASCII)


@dataclass
class PriorityOrder:
    """Priorities of held jobs."""

    share_weight: float = 0.0
    age_weight: float = 0.0
    oldest_s: float = 7 * 86_400.0
    """Age from which a job has the whole weight of age, s."""
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Fair-share factor by account and user, from 0 to 1."""

    def priority(self, job: SlurmJob, now_s: float) -> float:
        """Return a job's priority at a time in s since 1970. An unknown account has the factor 0."""
        age = min(max(now_s - job.submit_s, 0.0) / self.oldest_s, 1.0) if self.oldest_s > 0 else 0.0
        share = self.shares.get((job.account, job.user), 0.0)
        return self.share_weight * share + self.age_weight * age - job.nice

    def key(self, job: SlurmJob, now_s: float) -> tuple[float, float, tuple[int, ...]]:
        """Return a sort key: the highest priority first, then in the order of submission."""
        return -self.priority(job, now_s), *job.order


def order_of_site(config: Mapping[str, str]) -> PriorityOrder:
    """Return the order with the weights of Slurm's configuration; without weights, that of submission."""
    if config.get("PriorityType") != _MULTIFACTOR:
        return PriorityOrder()
    max_age = _DURATION.fullmatch(config.get("PriorityMaxAge", ""))
    days, hours, minutes, seconds = (int(part or 0) for part in max_age.groups()) if max_age else (7, 0, 0, 0)
    return PriorityOrder(
        _weight(config, "PriorityWeightFairShare"),
        _weight(config, "PriorityWeightAge"),
        float(((days * 24 + hours) * 60 + minutes) * 60 + seconds),
    )


def _weight(config: Mapping[str, str], name: str) -> float:
    text = config.get(name, "0")
    return float(text) if text.isdecimal() else 0.0


def order_text(order: PriorityOrder) -> str:
    """Return a description of what the order depends on, for ``check``."""
    parts = []
    if order.share_weight and order.shares:
        parts.append(f"account shares of sshare (weight {order.share_weight:g})")
    if order.age_weight:
        parts.append(f"age (weight {order.age_weight:g})")
    without = " (sshare lists no account shares)" if order.share_weight and not order.shares else ""
    return f"by {', '.join([*parts, 'nice'])}{without}"


class ShareReader:
    """Reader of the account shares for an order, from time to time."""

    def __init__(self, slurm: Slurm, order: PriorityOrder) -> None:
        """Read nothing yet."""
        self._slurm, self._order = slurm, order
        self._read_s: float | None = None

    def read(self, now_s: float) -> None:
        """Read the shares if they are due at ``now_s``; keep the last ones if Slurm does not report any."""
        if not self._order.share_weight or (self._read_s is not None and now_s < self._read_s + _REFRESH_S):
            return
        self._read_s = now_s
        try:
            self._order.shares = self._slurm.shares() or self._order.shares
        except (CommandFailed, SlurmAway):
            return
