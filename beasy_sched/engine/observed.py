"""A session with its observers, which follow it message by message in one order."""

from __future__ import annotations

from collections.abc import Sequence

from beasy_sched.engine.actions import DecisionLog, Facts
from beasy_sched.engine.session import Session
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message


class Observer:
    """Follows a run; each method does nothing unless a subclass defines it."""

    def decision_log(self) -> DecisionLog | None:
        """Return the decision log to write to; None if the observer takes no decisions."""
        return None

    def begin(self, session: Session) -> None:
        """Prepare for the messages of ``session``."""

    def before(self, session: Session, message: Message) -> None:
        """Act before the session gets a message."""

    def after(self, session: Session, message: Message, reply: Reply) -> None:
        """Act after the session has answered a message."""


class ObservedSession:
    """A running session with its observers around it.

    The first observer is the innermost: it acts last before a message, and first after it.
    """

    def __init__(self, session: Session, observers: Sequence[Observer] = ()) -> None:
        """Begin to follow ``session``; its decision log includes those of the observers."""
        self.session = session
        self._observers = (*observers,)
        self._outermost_first = self._observers[::-1]
        for observer in self._observers:
            observer.begin(session)

    def step(self, message: Message) -> Reply:
        """Answer a message as `Session.step` does, between the observers' turns."""
        session = self.session
        for observer in self._outermost_first:
            observer.before(session, message)
        reply = session.step(message)
        for observer in self._observers:
            observer.after(session, message, reply)
        return reply


def one_log(*several: DecisionLog | None) -> DecisionLog | None:
    """Return one decision log that writes to ``several``, in order; None if there are none."""
    logs = [log for log in several if log is not None]
    if len(logs) < 2:
        return logs[0] if logs else None

    def log_to_all(time_s: float, action: str, job: str, hosts: str, rule: str, facts: Facts) -> None:
        for log in logs:
            log(time_s, action, job, hosts, rule, facts)

    return log_to_all
