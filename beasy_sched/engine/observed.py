"""A session with its observers, which follow it message by message in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from beasy_sched.engine.actions import DecisionLog, Facts
from beasy_sched.engine.session import Session
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message


class Observer:
    """Follows a run; each method does nothing unless a subclass defines it."""

    continues = False
    """Whether a copy of the run, which is continued in another process, also needs the observer."""

    def detach(self, session: Session) -> None:
        """Let go of what belongs to the process that this one was copied from."""

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

    def __init__(self, session: Session, observers: Sequence[Observer] = (), *, begun: bool = False) -> None:
        """Begin to follow ``session``, unless its observers have ``begun``; its log includes theirs."""
        self.session = session
        self._observers = (*observers,)
        self._outermost_first = self._observers[::-1]
        for observer in () if begun else self._observers:
            observer.begin(session)
        self.step: Callable[[Message], Reply] = self._step if self._observers else session.step
        """Answers a message as `Session.step` does, between the observers' turns."""

    def detached(self) -> ObservedSession:
        """Return the session with the observers that a copy of the run needs; call it in that copy."""
        needed = [observer for observer in self._observers if observer.continues]
        for observer in needed:
            observer.detach(self.session)
        self.session.close_log()
        return ObservedSession(self.session, needed, begun=True)

    def _step(self, message: Message) -> Reply:
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
