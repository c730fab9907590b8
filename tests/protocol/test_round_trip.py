"""Whatever one side can say, the other side reads as it was meant."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from protocol import strategies

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.protocol import batsim4
from beasy_sched.protocol.notices import notice


@given(strategies.messages)
def test_messages(message: e.Message) -> None:
    raw = batsim4.encode_message(message)
    assert batsim4.decode_message(raw) == message
    assert batsim4.encode_message(batsim4.decode_message(raw)) == raw


@given(strategies.replies)
def test_replies(reply: d.Reply) -> None:
    raw = batsim4.encode_reply(reply)
    assert batsim4.decode_reply(raw) == reply
    json.loads(raw.decode("ascii" if raw.isascii() else "utf-8"))


@given(strategies.messages)
def test_spacing_and_escapes_do_not_matter(message: e.Message) -> None:
    """Another program's JSON of the same message: spaces, line ends, ASCII only, fields in another order."""
    value = json.loads(batsim4.encode_message(message))
    other = json.dumps(value, indent=2, sort_keys=True).encode()
    assert batsim4.decode_message(b"\r\n\t " + other + b" \n") == message


@pytest.mark.parametrize("number", ["10", "10.0", "10.000000", "1e1", "1.0E+1", "1000e-2"])
def test_times_may_be_any_json_number(number: str) -> None:
    raw = f'{{"now":{number},"events":[{{"timestamp":{number},"type":"REQUESTED_CALL","data":{{}}}}]}}'
    message = batsim4.decode_message(raw.encode())
    assert message == e.Message(10.0, [e.RequestedCall(10.0)])
    assert type(message.now) is float


@pytest.mark.parametrize("power", ["460", "460.400000", "0", "1e3"])
def test_notify_keeps_the_original_object(power: str) -> None:
    """Batsim forwards the event's own object: a number may have been written as an integer."""
    data = f'{{"type":"power","timestamp":300,"power_available":{power},"user":{{"x":[1,null]}}}}'
    raw = f'{{"now":300.0,"events":[{{"timestamp":300.0,"type":"NOTIFY","data":{data}}}]}}'
    (event,) = batsim4.decode_message(raw.encode()).events
    assert event == notice(300.0, "power", json.loads(data))


@pytest.mark.parametrize(
    ("field", "walltime"), [("", None), (',"walltime":-1', None), (',"walltime":-1.000000', None),
                            (',"walltime":100', 100), (',"walltime":0.500000', 0.5)]
)  # fmt: skip
def test_walltime(field: str, walltime: float | None) -> None:
    job = f'{{"id":"w0!7","subtime":1.250000,"res":1,"profile":"dl"{field}}}'
    data = f'{{"job_id":"w0!7","job":{job}}}'
    raw = f'{{"now":2,"events":[{{"timestamp":2,"type":"JOB_SUBMITTED","data":{data}}}]}}'
    (event,) = batsim4.decode_message(raw.encode()).events
    assert event == e.JobSubmitted(2.0, e.JobRequest("w0!7", 1.25, 1, "dl", walltime))


@pytest.mark.parametrize("data", ["", ',"data":{}', ',"data":null'])
@pytest.mark.parametrize("kind", ["SIMULATION_ENDS", "REQUESTED_CALL"])
def test_events_without_data(kind: str, data: str) -> None:
    raw = f'{{"now":1,"events":[{{"timestamp":1,"type":"{kind}"{data}}}]}}'.encode()
    assert len(batsim4.decode_message(raw).events) == 1


def test_numbers_as_batsim_prints_them() -> None:
    notify = notice(0.0, "x", {"type": "x", "i": 7, "f": 2.5, "t": True, "n": None, "tiny": 1e-9})
    assert batsim4.encode_message(e.Message(1 / 3, [notify])) == (
        b'{"now":0.333333,"events":[{"timestamp":0.000000,"type":"NOTIFY","data":'
        b'{"type":"x","i":7,"f":2.500000,"t":true,"n":null,"tiny":0.000000}}]}'
    )
