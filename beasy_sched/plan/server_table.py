"""What one server of a kind computes and draws in one step, whole or with a transition in it.

The figures of Eq. 3.18-3.22 for a single server, so that the model, the rounding and the evaluator
need no formula of their own: a server that wakes spends the waking time at the beginning of the step,
computes nothing in it, and works for the rest; one that falls asleep spends its transition first too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IndexArray, StateArray
from beasy_sched.errors import ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.model.power import PowerModel


@dataclass(frozen=True)
class KindTable:
    """Energies (J) and flops of one server of a kind during one step.

    Only *useful* computing P-states are listed: those that no other beats in both speed and power,
    from the least power (and speed) to the fastest.
    """

    name: str
    step_s: float
    servers: int
    """How many servers there are of this kind."""
    can_sleep: bool
    pstates: StateArray
    """Numbers of the useful P-states in the platform file."""
    on_j: FloatArray
    """Busy for the whole step, by useful P-state."""
    on_flops: FloatArray
    waking_j: FloatArray
    """Wakes at the beginning of the step and is busy for the rest, by useful P-state."""
    waking_flops: FloatArray
    asleep_j: float
    """Asleep for the whole step (infinite for servers that cannot sleep)."""
    falling_j: float
    """Falls asleep at the beginning of the step."""

    @property
    def hull(self) -> IndexArray:
        """Indices of the useful P-states on the upper hull of speed over power.

        A mix of two neighbours on it draws no more and computes no less than any other mix.
        """
        kept: list[int] = []
        for point in range(len(self.pstates)):
            while len(kept) > 1 and self._slope(kept[-2], kept[-1]) <= self._slope(kept[-1], point):
                kept.pop()
            kept.append(point)
        return np.array(kept, dtype=np.intp)

    def _slope(self, low: int, high: int) -> float:
        return float((self.on_flops[high] - self.on_flops[low]) / (self.on_j[high] - self.on_j[low]))


def kind_tables(platform: Platform, step_s: float) -> tuple[KindTable, ...]:
    """Return the table of every kind of the platform, for steps of ``step_s`` seconds.

    Raises ConfigError when speeds or powers are unknown, or a transition takes longer than a step.
    """
    if not (platform.has_speeds and platform.has_powers):
        raise ConfigError("a server plan needs the speed and the power of every P-state of every host")
    if not step_s > 0:
        raise ConfigError(f"a step of {step_s:g} s is no step: it must be above 0")
    power = PowerModel(platform)
    counts = np.bincount(platform.kind_of, minlength=len(platform.kinds))
    return tuple(_table(platform, power, k, int(n), step_s) for k, n in enumerate(counts))


def _table(platform: Platform, power: PowerModel, k: int, servers: int, step_s: float) -> KindTable:
    kind = platform.kinds[k]
    on_s, off_s = float(power.on_s[k]), float(power.off_s[k])
    if max(on_s, off_s) > step_s:
        raise ConfigError(
            f"servers of kind {kind.name!r} take {on_s:g} s to switch on and {off_s:g} s to switch off, "
            f"longer than a step of {step_s:g} s: plan with steps of at least {max(on_s, off_s):g} s"
        )
    pstates = _useful(kind.computing, power.full_w[k], np.array(kind.speeds_flops))
    busy_w = power.full_w[k, pstates]
    speed_flops = np.array(kind.speeds_flops)[pstates] * kind.cores
    asleep_j = float(power.sleep_w[k]) * step_s
    return KindTable(
        name=kind.name,
        step_s=step_s,
        servers=servers,
        can_sleep=bool(power.can_sleep[k]),
        pstates=pstates.astype(np.int8),
        on_j=busy_w * step_s,
        on_flops=speed_flops * step_s,
        waking_j=busy_w * (step_s - on_s) + float(power.on_w[k]) * on_s,
        waking_flops=speed_flops * (step_s - on_s),
        asleep_j=asleep_j,
        falling_j=float(power.sleep_w[k]) * (step_s - off_s) + float(power.off_w[k]) * off_s,
    )


def _useful(computing: tuple[int, ...], full_w: FloatArray, speeds: FloatArray) -> IndexArray:
    """Leave out the P-states that another one equals or beats in both power and speed."""
    useful: list[int] = []
    for pstate in sorted(computing, key=lambda p: (full_w[p], -speeds[p], p)):
        if not useful or speeds[pstate] > speeds[useful[-1]]:
            useful.append(pstate)
    return np.array(useful, dtype=np.intp)
