"""Every message of the recorded runs goes through the codec and comes out as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from recordings.archive import recordings

from beasy_sched.errors import ProtocolError
from beasy_sched.model.events import UnknownEvent
from beasy_sched.protocol import batsim4

REFUSED = {
    "bad_empty_resources": "$.events[0].data.resources",
    "bad_exec_empty_alloc": "$.events[0].data.alloc",
    "bad_query_unknown": "$.events[0].data.requests",
    "bad_state_int": "$.events[0].data.state",
    "bad_state_text": "$.events[0].data.state",
    "bad_ts_gt_now": "$.events[0].timestamp",
    "bad_unknown_type": "$.events[0].type",
}
"""The replies whose form a real Batsim refused, and where the fault is."""

REORDERED = {"dyn_ack", "dyn_ack_fwd"}
"""Jobs that the scheduler registered come back with its own order of fields."""


def canonical(raw: bytes) -> object:
    """The JSON value, with intervals of hosts spelt out: ``"0-2"`` and ``"0 1 2"`` are the same hosts."""
    value = json.loads(raw)
    for event in value["events"]:
        for field in {"alloc", "resources"} & set(event["data"]):
            bounds = [[int(end) for end in part.split("-")] for part in event["data"][field].split()]
            event["data"][field] = {host for part in bounds for host in range(part[0], part[-1] + 1)}
    return value


def messages(name: str, who: str) -> Iterator[bytes]:
    return (raw.encode() for sender, raw in recordings()[name].messages if sender == who)


@pytest.mark.parametrize("name", recordings())
def test_what_batsim_says(name: str) -> None:
    for raw in messages(name, "batsim"):
        message = batsim4.decode_message(raw)
        assert message.unknown_fields == ()
        assert not any(isinstance(event, UnknownEvent) for event in message.events)
        written = batsim4.encode_message(message)
        if name in REORDERED:
            assert json.loads(written) == json.loads(raw)
        else:
            assert written == raw.replace(b',"walltime":-1}', b"}")


@pytest.mark.parametrize("name", [name for name in recordings() if name not in REFUSED])
def test_what_schedulers_answer(name: str) -> None:
    for raw in messages(name, "scheduler"):
        reply = batsim4.decode_reply(raw)
        written = batsim4.encode_reply(reply)
        assert batsim4.decode_reply(written) == reply
        assert canonical(written) == canonical(raw)


@pytest.mark.parametrize("name", REFUSED)
def test_replies_that_batsim_refused(name: str) -> None:
    assert recordings()[name].aborted
    *fine, last = messages(name, "scheduler")
    for raw in fine:
        batsim4.decode_reply(raw)
    with pytest.raises(ProtocolError) as caught:
        batsim4.decode_reply(last)
    assert caught.value.json_path == REFUSED[name]
