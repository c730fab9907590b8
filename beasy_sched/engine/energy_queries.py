"""The answers to energy queries: the simulator's, or the daemon's own where a simulator has none."""

from __future__ import annotations

from collections import deque

from beasy_sched.errors import PeerError
from beasy_sched.limits import LARGEST_ENERGY_J
from beasy_sched.model.events import EnergyAnswer
from beasy_sched.model.host_power import PowerAccount


class EnergyQueries:
    """Energy queries under way, and who asked."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._asked: deque[bool] = deque()
        """Unanswered queries; True if the power side sent the query."""
        self.account: PowerAccount | None = None
        """Account that answers where the simulator answers no queries; else None."""
        self.storage_w = 0.0
        """Power of the storage hosts, W: the simulator's answers include it, but it counts as base load."""

    @property
    def unanswered(self) -> int:
        """Number of queries without an answer."""
        return len(self._asked)

    def ask(self, *, for_power_side: bool) -> None:
        """Note a query that is being sent."""
        self._asked.append(for_power_side)

    def hear(self, event: EnergyAnswer) -> tuple[bool, float]:
        """Take an answer: return whether it is the power side's, and the servers' energy since time 0, J.

        Raises PeerError for no energy.
        """
        if not 0 <= event.consumed_energy_j <= LARGEST_ENERGY_J:
            raise PeerError(f"ANSWER: found consumed_energy {event.consumed_energy_j:g}, expected joules")
        servers_j = max(event.consumed_energy_j - self.storage_w * event.timestamp, 0.0)
        return self._asked.popleft() if self._asked else False, servers_j

    def own_answer_j(self, now: float) -> float | None:
        """Energy used by ``now`` (s) by the daemon's own account, J; None where the simulator answers."""
        if self.account is None:
            return None
        self.account.advance(now)
        return float(self.account.energy_by_use_j.sum())
