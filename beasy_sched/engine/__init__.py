"""Message in, reply out: apply the events, ask the policy once, check and commit its decisions."""

from __future__ import annotations

from beasy_sched.engine.power_side import SessionOptions
from beasy_sched.engine.session import Session

__all__ = ["Session", "SessionOptions"]
