"""No bytes at all make the codec fail with anything but a ProtocolError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol import strategies
from protocol.raw import DECODERS, message, nested
from recordings.archive import recordings

from beasy_sched.errors import ProtocolError
from beasy_sched.protocol import batsim4

Decode = Callable[[bytes], Any]

RUNS = ["dyn_ack", "metadata", "onoff", "kill_ptask", "reject", "ev_fwd", "change_state", "dvfs_query_after"]
SAMPLES = sorted({raw for name in RUNS for _, raw in recordings()[name].messages})
"""Every kind of event and decision."""
TYPES = sorted({event["type"] for raw in SAMPLES for event in json.loads(raw)["events"]})


def survives(decode: Decode, raw: bytes) -> None:
    """Read it, or refuse it with a text that is short, on one line, and names one place."""
    try:
        decode(raw)
    except ProtocolError as error:
        found = error
    else:
        return
    assert found.json_path.startswith("$")
    assert len(str(found)) < 1000
    assert str(found).count(" - at `") == 1
    assert "\n" not in str(found)


@pytest.mark.parametrize("decode", DECODERS)
@given(raw=st.binary(max_size=200))
def test_any_bytes(decode: Decode, raw: bytes) -> None:
    survives(decode, raw)


@pytest.mark.parametrize("decode", DECODERS)
@given(value=strategies.json_values)
def test_any_json(decode: Decode, value: object) -> None:
    survives(decode, json.dumps(value).encode())


@pytest.mark.sampled
@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("kind", TYPES)
@given(data=strategies.json_values)
def test_any_data(decode: Decode, kind: str, data: object) -> None:
    survives(decode, message(kind, json.dumps(data)))


VALUES = [None, True, -1, 0, 3, 2**31, 2**63, 10**30, -0.5, 1e300, [], [1], {}, {"a": 1}]
VALUES += ["", "x", "-", "1-", "5-3", "0-3 5", "²", "٣", "9" * 30, "9" * 5000, "0-99999999999"]


@given(st.sampled_from(SAMPLES), st.data())
def test_one_wrong_value_anywhere(raw: str, data: st.DataObject) -> None:
    value = strategies.one_wrong_value(json.loads(raw), VALUES, data)
    for decode in DECODERS:
        survives(decode, json.dumps(value).encode())


@given(st.sampled_from(SAMPLES), st.data())
def test_one_byte_off(raw: str, data: st.DataObject) -> None:
    damaged = bytearray(raw.encode())
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    for decode in DECODERS:
        survives(decode, bytes(damaged))
        survives(decode, bytes(damaged[:at]))


@pytest.mark.parametrize("depth", [10, 100, 500, 900, 950, 990, 1000, 1010, 2000])
@pytest.mark.parametrize("kind", ["NOTIFY", "JOB_SUBMITTED", "SIMULATION_BEGINS", "NEWS"])
def test_nesting_of_every_depth(kind: str, depth: int) -> None:
    data = {
        "NOTIFY": '{"type":"x","x":%s}',
        "JOB_SUBMITTED": '{"job_id":"a","job":{"id":"a","subtime":0,"res":1,"x":%s}}',
        "SIMULATION_BEGINS": '{"compute_resources":[],"profiles":{"w0":{"p":{"x":%s}}}}',
        "NEWS": "%s",
    }[kind] % nested(depth)
    survives(batsim4.decode_message, message(kind, data))
