"""The reply by which a scheduler that cannot continue ends the simulator."""

from __future__ import annotations

import json

import pytest

from beasy_sched.errors import ProtocolError
from beasy_sched.model.decisions import CallMeLater, Reply
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.farewell import farewell4, farewell5, reason_of


@pytest.mark.parametrize("write", [farewell4, farewell5])
def test_the_reason_is_read_back(write) -> None:
    assert reason_of(write('the plan "a" is for 3 servers')) == 'the plan "a" is for 3 servers'


def test_batsim_4_names_the_type_of_an_event_that_it_does_not_know() -> None:
    """It checks, in this order: now, events, each event's timestamp, its type."""
    found = json.loads(farewell4("no powers"))
    assert found["now"] == 0
    assert found["events"] == [{"timestamp": 0, "type": "the scheduler has ended: no powers", "data": {}}]
    with pytest.raises(ProtocolError, match="unknown 'type' value 'the scheduler has ended: no powers'"):
        batsim4.decode_reply(farewell4("no powers"))


def test_batsim_5_names_a_field_that_it_does_not_know() -> None:
    assert json.loads(farewell5("no powers").removesuffix(b"\0")) == {"the scheduler has ended: no powers": 0}
    with pytest.raises(ProtocolError):
        batsim5.decode_reply(farewell5("no powers"))


@pytest.mark.parametrize("write", [farewell4, farewell5])
def test_a_long_reason_of_many_lines_becomes_one_short_line(write) -> None:
    reason = reason_of(write("first\nsecond\x1b[2J" + "x" * 10_000))
    assert reason is not None
    assert reason.startswith("first second[2Jxxx")
    assert reason.isprintable()
    assert len(reason) < 500


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"the scheduler has ended: ",
        b'{"the scheduler has ended: ',
        b'["the scheduler has ended: a"]',
        b'{"error":"this scheduler serves another simulation"}',
        b'{"now":0,"events":[{"timestamp":0,"type":7,"data":"the scheduler has ended: a"}]}',
        batsim4.encode_reply(Reply(0.0, [CallMeLater(0.0, 1.0)])),
    ],
)
def test_other_replies_have_none(reply: bytes) -> None:
    assert reason_of(reply) is None
