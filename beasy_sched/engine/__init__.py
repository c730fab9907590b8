"""Message in, reply out: apply the events, ask the policy once, check and commit its decisions.

The names below are loaded on first use: small modules of this package are imported without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beasy_sched.engine.power_side import SessionOptions
    from beasy_sched.engine.session import Session

__all__ = ["Session", "SessionOptions"]


def __getattr__(name: str) -> Any:
    if name == "Session":
        from beasy_sched.engine.session import Session

        return Session
    if name == "SessionOptions":
        from beasy_sched.engine.power_side import SessionOptions

        return SessionOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
