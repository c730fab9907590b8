"""The first message tells which Batsim speaks, and how it is talked to."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol import strategies
from tiny import begins

from beasy_sched.errors import DecisionRefused, ProtocolError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.choices import HostsText
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.detection import Talk, meet


def met(
    version: str = "v5.0.0-rc2", hosts: HostsText | None = None, init: bytes = b""
) -> tuple[Talk, e.Message]:
    """A talk with a Batsim 5 of some version that has told its four hosts."""
    talk = meet(batsim5.encode_start(init), hosts)
    first = begins(4)
    told = e.SimulationBegins(0.0, first.resources, {"batsim_version": version})
    return talk, talk.decode(batsim5.encode_message(e.Message(0.0, [told])))


@given(strategies.messages)
def test_batsim4(message: e.Message) -> None:
    raw = batsim4.encode_message(message)
    talk = meet(raw)
    assert (talk.protocol, talk.greeting) == ("Batsim 4", None)
    assert talk.decode(raw) == message
    assert talk.encode(d.Reply(1.0, [])) == batsim4.encode_reply(d.Reply(1.0, []))


@given(st.binary(max_size=60))
def test_batsim5(init: bytes) -> None:
    talk = meet(batsim5.encode_start(init))
    assert talk.protocol == "Batsim 5"
    assert talk.greeting is not None
    hello = batsim5.decode_hello(talk.greeting)
    assert hello.name == "beasy-sched"
    assert hello.features == batsim5.RequestedFeatures(forward_profiles_on_simulation_begins=True)


@pytest.mark.parametrize("flags", [0, 1, 2])
@pytest.mark.parametrize("init", [b"", b'{"a":1}'])
def test_development_versions_are_refused_by_name(flags: int, init: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"development version of Batsim 5 .* use Batsim 4, or 5.0.0-rc2"):
        meet(struct.pack("<II", flags, len(init)) + init)


@given(st.binary(max_size=60))
def test_any_first_message_is_read_or_refused(raw: bytes) -> None:
    try:
        talk = meet(raw)
        if talk.greeting is None:
            talk.decode(raw)
    except ProtocolError as error:
        assert "malformed message" in str(error)  # noqa: PT017


def test_the_init_text_stands_for_the_configuration() -> None:
    _, message = met(init=b'{"a": "\xff"}')
    (event,) = message.events
    assert isinstance(event, e.SimulationBegins)
    assert event.config["sched-config"] == '{"a": "�"}'
    assert not event.answers_queries


@pytest.mark.parametrize(
    ("version", "hosts", "text"),
    [
        ("v5.0.0-rc2", None, "0-0 2-3"),
        ("v5.0.0-rc1", None, "0-0,2-3"),
        ("5.0.0-rc0", None, "0-0,2-3"),
        ("", None, "0-0 2-3"),
        ("v5.0.0", None, "0-0 2-3"),
        ("v5.0.0-rc2", HostsText.COMMA, "0-0,2-3"),
        ("v5.0.0-rc1", HostsText.SPACE, "0-0 2-3"),
    ],
)
def test_how_sets_of_hosts_are_written(version: str, hosts: HostsText | None, text: str) -> None:
    talk, _ = met(version, hosts)
    job = e.JobSubmitted(1.0, e.JobRequest("w0!1", 1.0, 3))
    talk.decode(batsim5.encode_message(e.Message(1.0, [job])))
    raw = talk.encode(d.Reply(1.0, [d.ExecuteJob(1.0, "w0!1", HostSet.of([0, 2, 3]))]))
    (event,) = json.loads(raw.removesuffix(b"\0"))["events"]
    assert event["event"]["allocation"]["host_allocation"] == text


def test_what_batsim5_would_abort_on_is_not_written() -> None:
    talk, _ = met()
    with pytest.raises(DecisionRefused, match=r"decision blocked because Batsim 5.*it was not submitted"):
        talk.encode(d.Reply(0.0, [d.RejectJob(0.0, "w0!1")]))


def test_two_talks_have_nothing_in_common() -> None:
    talk, _ = met()
    talk.decode(batsim5.encode_message(e.Message(1.0, [e.JobSubmitted(1.0, e.JobRequest("w0!1", 1.0, 3))])))
    other, _ = met()
    with pytest.raises(DecisionRefused):
        other.encode(d.Reply(1.0, [d.RejectJob(1.0, "w0!1")]))
    talk.encode(d.Reply(1.0, [d.RejectJob(1.0, "w0!1")]))
