"""Message in, reply out: apply the events, ask the policy once, check and commit its decisions."""

from beasy_sched.session.options import SessionOptions
from beasy_sched.session.session import Session

__all__ = ["Session", "SessionOptions"]
