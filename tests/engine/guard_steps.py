"""Two steps of a session under the storage guard, and what its servers use.

Servers: idle 50 W, busy 100 W, asleep 5 W, falling asleep 7 s at 60 W, waking 20 s at 80 W; steps of
60 s. Falling asleep at a step's start costs 7 x 60 + 53 x 5 = 685 J, idling 3000 J, computing 6000 J,
sleeping 300 J: an idle server that sleeps saves 2315 J, a killed job's server 5315 J.
"""

from __future__ import annotations

from talk import (
    ASLEEP,
    Talk,
    production,
    small_battery,
)

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import ServerKind

ASLEEP_J, IDLE_J, BUSY_J, FALLING_J = 300.0, 3000.0, 6000.0, 685.0
PLAIN = ServerKind("plain", (100.0,), (50.0,), (50.0,), (100.0,))


def at_soc_min(count: int = 4, first_w: float = 1000.0, **options: object) -> Talk:
    """A session in its first step, at SoC_min, with power enough for it; the battery hardly charges."""
    known = {key: options.pop(key) for key in ("power_actions", "guard_kills", "kinds") if key in options}
    site = small_battery(**{"soc_pct": 20.0, "charge_w": 1e-9, **options})
    talk = Talk(count=count, site=site, energy=EnergySource.MODEL, **known)
    talk.at(0.0, production(0.0, first_w))
    return talk


def next_step(talk: Talk, watts: float) -> list[d.Decision]:
    """Begin the second step with this production."""
    return talk.at(60.0, production(60.0, watts))


def rows(talk: Talk, since: float = 60.0) -> list[tuple[str, str, str]]:
    """What was logged: (action, job, hosts)."""
    return [row[1:4] for row in talk.log if row[0] >= since]


SLEEP = f"P-state {ASLEEP}"
