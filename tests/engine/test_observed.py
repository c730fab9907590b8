"""Observers around a session: their order, and the decision logs that they take."""

from __future__ import annotations

import pytest

from beasy_sched.engine.observed import ObservedSession, Observer, one_log
from beasy_sched.errors import PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message


class Session:
    """Answers each message with its time; none after 5 s."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def step(self, message: Message) -> Reply:
        if message.now > 5:
            raise PeerError("too late")
        self.calls.append("step")
        return Reply(message.now, [])


class Noting(Observer):
    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def begin(self, session: object) -> None:
        self.calls.append(f"{self.name} begins")

    def before(self, session: object, message: Message) -> None:
        self.calls.append(f"{self.name} before")

    def after(self, session: object, message: Message, reply: Reply) -> None:
        self.calls.append(f"{self.name} after {reply.now:g}")


def test_the_first_observer_is_the_innermost() -> None:
    calls: list[str] = []
    run = ObservedSession(Session(calls), [Noting("a", calls), Observer(), Noting("b", calls)])  # type: ignore[arg-type]
    assert run.step(Message(2.0, [])).now == 2.0
    assert calls == ["a begins", "b begins", "b before", "a before", "step", "a after 2", "b after 2"]
    del calls[:]
    with pytest.raises(PeerError):
        run.step(Message(6.0, []))
    assert calls == ["b before", "a before"]  # nothing follows a message that was not answered


def test_one_decision_log_for_all() -> None:
    rows: list[tuple[str, str]] = []

    def log_as(name: str):  # type: ignore[no-untyped-def]
        return lambda time_s, action, job, hosts, rule, facts: rows.append((name, rule))

    assert one_log(None, None) is None
    assert one_log(None, first := log_as("a")) is first
    both = one_log(log_as("a"), None, log_as("b"))
    assert both is not None
    both(0.0, "start", "w!1", "0", "fits now", {})
    assert rows == [("a", "fits now"), ("b", "fits now")]
