"""Batsim 5: no bytes at all make the codec fail with anything but a ProtocolError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol import batsim5_strategies, strategies
from protocol.batsim5_files import golden, recorded
from protocol.raw import nested
from protocol.test_fuzz import VALUES, survives

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import NO_HOSTS, HostSet
from beasy_sched.protocol import batsim5, batsim5_replies
from beasy_sched.protocol.notices import notice

Decode = Callable[[bytes], Any]


def decode_hello(raw: bytes) -> batsim5.Hello:
    return batsim5.decode_hello(b"\2\0\0\0" + raw)


DECODERS = [batsim5.decode_message, batsim5.decode_reply, decode_hello]

HOST = e.Resource(0, "n0", "idle", {"a": "b"}, {}, 0, (1e9, 5e8))
SEQUENCE = {"type": "composed", "repeat": 2, "seq": ["p", "q"]}
PROGRESS = {"profile_name": "s", "current_task": {"profile_name": "p", "progress": 0.5}}
EVENTS = [
    e.SimulationBegins(0.0, (HOST,), {"x": 1}, {"w0": "w.json"}, {"w0": {"s": SEQUENCE}}),
    e.SimulationEnds(1.0),
    e.JobSubmitted(
        1.0, e.JobRequest("w0!1", 1.0, 2, "p", 10.0, {"user": "x"}), {"type": "delay", "delay": 4}
    ),
    e.JobCompleted(1.0, "w0!1", e.JobEnd.KILLED, NO_HOSTS, -2),
    e.JobsKilled(1.0, ("w0!1",), {"w0!1": PROGRESS, "w0!2": {"profile_name": "f", "tasks": [PROGRESS]}}),
    e.ResourceStateChanged(1.0, HostSet.of([0, 3]), 3, switch=True),
    e.ResourceStateChanged(1.0, HostSet.of([0, 3]), 3, switch=False),
    notice(1.0, "generic", {"power_available": 4.5}, "ee0!0"),
    e.RequestedCall(1.0, "x", is_last=True),
]
DECISIONS = [
    d.ExecuteJob(1.0, "w0!1", HostSet.of([0, 3])),
    d.ExecuteJob(1.0, "w0!1", HostSet.of([0]), {"0": "0"}, {"storage_placement": [{"storage_name": "x"}]}),
    d.RejectJob(1.0, "w0!1"),
    d.KillJobs(1.0, ("w0!1", "w0!2")),
    d.SetResourceState(1.0, HostSet.of([1]), 3, switch=True),
    d.SetResourceState(1.0, HostSet.of([1]), 3, switch=False),
    d.CallMeLater(1.0, 4.5, "x"),
    d.CallPeriodically(1.0, "y", 1500, 0, 3),
    d.StopCalls(1.0, "y"),
    d.ProbeRequest(1.0, "StopProbeEvent", {"probe_id": "z"}),
    d.RegisterProfile(1.0, "w1", "s", SEQUENCE),
    d.RegisterJob(1.0, "w1!1", {"res": 1, "profile": "s"}),
    d.FinishRegistration(1.0),
    d.ForceStop(1.0),
]
SAMPLES = [
    *(batsim5.encode_message(e.Message(1.0, [event])).decode().rstrip("\0") for event in EVENTS),
    *(batsim5.encode_reply(d.Reply(1.0, [decision])).decode().rstrip("\0") for decision in DECISIONS),
    batsim5.encode_hello(batsim5.Hello())[4:].decode().rstrip("\0"),
]
"""Every kind of event and decision."""
KINDS = sorted({event["event_type"] for raw in SAMPLES for event in json.loads(raw)["events"]})
REAL = [raw.decode() for raw in golden().values()]
REAL += [raw.decode().rstrip("\0") for run in recorded().values() for _, raw in run.frames[2:]]


def message(kind: str, data: str) -> bytes:
    return f'{{"now":1,"events":[{{"timestamp":1,"event_type":"{kind}","event":{data}}}]}}'.encode()


def test_the_samples_are_whole() -> None:
    every = {*batsim5._EVENT_READERS, *batsim5_replies._DECISION_READERS, "EDCHelloEvent"}
    others = {"CreateProbeEvent", "TriggerProbeEvent", "ResetProbeEvent"}
    late = {name for name in every if name.startswith("AllStatic")}
    assert {*KINDS} == every - others - late


@pytest.mark.parametrize("decode", DECODERS)
@given(raw=st.binary(max_size=200))
def test_any_bytes(decode: Decode, raw: bytes) -> None:
    survives(decode, raw)


@given(raw=st.binary(max_size=20))
def test_any_first_bytes(raw: bytes) -> None:
    if not batsim5.is_start(raw):
        survives(batsim5.decode_start, raw)
    survives(batsim5.decode_hello, raw)
    assert not (batsim5.is_start(raw) and batsim5.is_old_start(raw) and len(raw) < 2**31)


@pytest.mark.parametrize("decode", DECODERS)
@given(value=strategies.json_values)
def test_any_json(decode: Decode, value: object) -> None:
    survives(decode, json.dumps(value).encode())


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@given(data=strategies.json_values)
def test_any_data(kind: str, data: object) -> None:
    for decode in DECODERS:
        survives(decode, message(kind, json.dumps(data)))


@given(st.sampled_from(SAMPLES + REAL), st.data())
def test_one_wrong_value_anywhere(raw: str, data: st.DataObject) -> None:
    try:
        value = json.loads(raw)
    except ValueError:
        value = json.loads(SAMPLES[0])
    value = strategies.one_wrong_value(value, VALUES, data)
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


@given(batsim5_strategies.messages)
def test_what_is_read_can_be_written_again(read: e.Message) -> None:
    raw = batsim5.encode_message(read)
    assert batsim5.encode_message(batsim5.decode_message(raw)) == raw


@pytest.mark.parametrize("depth", [10, 100, 500, 900, 950, 990, 1000, 1010, 2000])
def test_nesting_of_every_depth(depth: int) -> None:
    deep = nested(depth)
    texts = {
        "SimulationBeginsEvent": f'{{"computation_hosts":[],"x":{deep}}}',
        "JobSubmittedEvent": json.dumps({"job_id": "w!a", "job": {"extra_data": f'{{"x":{deep}}}'}}),
        "ExternalEventOccurredEvent": json.dumps(
            {"external_event_type": "GenericExternalEvent", "external_event": {"data": f'{{"x":{deep}}}'}}
        ),
        "RegisterProfileEvent": f'{{"profile":{{"id":"a!b","profile_type":"x","profile":{{"x":{deep}}}}}}}',
        "CreateProbeEvent": f'{{"probe_id":"a","x":{deep}}}',
        "NewsEvent": deep,
    }
    for kind, data in texts.items():
        for decode in DECODERS:
            survives(decode, message(kind, data))


@pytest.mark.parametrize("depth", [3, 30, 100, 300, 600, 1000])
def test_progress_of_sequences_in_sequences(depth: int) -> None:
    wrapper: dict[str, Any] = {
        "kill_progress_type": "KillProgressAtomicProfile",
        "kill_progress": {"profile_id": "w!p"},
    }
    text = json.dumps(wrapper)
    for _ in range(depth):
        inner = f'{{"profile_id":"w!s","current_task_progress":{text}}}'
        text = f'{{"kill_progress_type":"KillProgressSequentialProfile","kill_progress":{inner}}}'
    data = f'{{"job_ids":["w!1"],"progresses":[{{"job_id":"w!1","wrapper":{text}}}]}}'
    survives(batsim5.decode_message, message("JobsKilledEvent", data))
