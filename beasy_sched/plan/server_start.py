"""How the servers stand when a window begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, StateArray
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plan.server_energy import sleep_pstates


@dataclass(frozen=True)
class ServerStart:
    """States in the step before the first, and least on-times that still run."""

    states: StateArray
    """[N] P-state numbers; the sleep state's number when asleep."""
    obliged_s: FloatArray
    """[N] seconds for which a server must still stay on (0 for those that may sleep at once)."""

    @classmethod
    def all_on(cls, platform: Platform) -> ServerStart:
        """All servers on at their fastest P-state, free to sleep at once: how the first window starts."""
        fastest = np.array([kind.fastest for kind in platform.kinds], dtype=np.int8)
        return cls(fastest[platform.kind_of], np.zeros(platform.size))

    @classmethod
    def after(
        cls, platform: Platform, states: StateArray, step_s: float, on_s: float, start: ServerStart
    ) -> ServerStart:
        """How the servers stand after the states [T, N] from ``start``, with a least on-time of ``on_s``."""
        asleep = states == sleep_pstates(platform)
        steps = len(states)
        since_woken = np.where(asleep.any(axis=0), np.argmax(asleep[::-1], axis=0), steps)
        woken = (since_woken < steps) | (start.states == sleep_pstates(platform))
        obliged_s = np.where(woken, on_s, start.obliged_s) - np.where(woken, since_woken, steps) * step_s
        return cls(states[-1].copy(), np.where(asleep[-1], 0.0, np.maximum(0.0, obliged_s)))

    def check(self, platform: Platform) -> None:
        """Raise ConfigError where a state is neither computing nor the sleep state of its host's kind."""
        if self.states.shape != (platform.size,) or self.obliged_s.shape != (platform.size,):
            raise ConfigError(
                f"start of the server plan: {len(self.states)} states for {platform.size} servers"
            )
        for k, kind in enumerate(platform.kinds):
            legal = [*kind.computing, *([kind.sleep.pstate] if kind.sleep else [])]
            wrong = np.flatnonzero((platform.kind_of == k) & ~np.isin(self.states, legal))
            if wrong.size:
                host = int(wrong[0])
                raise ConfigError(
                    f"start of the server plan: {platform.names[host]} is in P-state {self.states[host]}, "
                    f"expected one of {legal} (computing or asleep)"
                )
