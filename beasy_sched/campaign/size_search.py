"""The search for the smallest size that meets a goal, where a larger one need not meet it.

Sizes are rungs of a ladder, numbered from 0. Schedulers are not monotone: with a larger battery a policy may
start a job that then stands in the way of others. So the search takes nothing for granted that it has not
tried: the largest size first, then a coarse grid, then bisection between the largest size that failed and
the next one that did not, and at last the neighbours of what was found. Where one of these fails, it goes on
above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from beasy_sched.errors import ConfigError

_COARSE: Final = 4
"""Parts that the ladder is divided into at first."""
_NEIGHBOURS: Final = 2
"""Rungs that are tried on either side of what was found."""
_MOST_RUNGS: Final = 100_000
_DIGITS: Final = 4


def ladder(least: float, most: float, resolution_pct: float, *, whole: bool = False) -> tuple[float, ...]:
    """Return sizes from ``least`` to ``most``, each about ``resolution_pct`` % above the one before.

    They have four significant digits, the two ends excepted; where they are ``whole``, each is a whole
    number. Raises ConfigError.
    """
    if not 0 < least <= most < math.inf:
        raise ConfigError(
            f"sizes from {least:g} to {most:g}: expected two sizes above 0, the smaller one first"
        )
    if not 0 < resolution_pct <= 100:
        raise ConfigError(f"resolution: found {resolution_pct:g} %, expected above 0 and at most 100 %")
    parts = math.ceil(math.log(most / least) / math.log1p(resolution_pct / 100.0) - 1e-9)
    if parts >= _MOST_RUNGS:
        raise ConfigError(f"{parts + 1:,} sizes are too many, expected at most {_MOST_RUNGS:,}: be coarser")
    between = (least * (most / least) ** (part / parts) for part in range(1, parts))
    rounded = (round(size) if whole else float(f"{size:.{_DIGITS}g}") for size in between)
    inside = {size for size in rounded if least < size < most}
    return tuple(sorted({float(least), float(most), *map(float, inside)}))


def next_rungs(count: int, met: Mapping[int, bool]) -> list[int]:
    """Return which of ``count`` rungs to try next, given which of them met the goal; empty at the end."""
    last = count - 1
    if last not in met:
        return [last]
    if not met[last]:
        return []
    coarse = sorted({last * part // _COARSE for part in range(_COARSE)})
    if missing := [rung for rung in coarse if rung not in met]:
        return missing
    failed = max((rung for rung, good in met.items() if not good), default=-1)
    found = min(rung for rung, good in met.items() if good and rung > failed)
    if found - failed > 1:
        return [(failed + found) // 2]
    near = (*range(failed - _NEIGHBOURS, failed), *range(found + 1, found + 1 + _NEIGHBOURS))
    return [rung for rung in near if 0 <= rung < count and rung not in met]


@dataclass(frozen=True)
class Found:
    """What a search has come to."""

    rung: int | None
    """The smallest rung from which on every rung that was tried met the goal; None where the last did not."""
    met_below: tuple[int, ...]
    """Smaller rungs that met the goal, although a rung between them and ``rung`` did not."""
    failed_above: tuple[int, ...]
    """Rungs that did not meet it, although a smaller one did."""

    @property
    def monotone(self) -> bool:
        """Whether no rung failed above one that met the goal."""
        return not self.failed_above


def found_by(met: Mapping[int, bool]) -> Found:
    """Return what is found when `next_rungs` asks for nothing more."""
    failed = max((rung for rung, good in met.items() if not good), default=-1)
    good = sorted(rung for rung, value in met.items() if value)
    above = [rung for rung in good if rung > failed]
    bad = sorted(rung for rung, value in met.items() if not value)
    return Found(
        above[0] if above else None,
        tuple(rung for rung in good if rung < failed),
        tuple(rung for rung in bad if good and rung > good[0]),
    )
