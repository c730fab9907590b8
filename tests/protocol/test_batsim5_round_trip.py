"""Batsim 5: whatever one side can say, the other side reads as it was meant."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protocol import batsim5_strategies as strategies

from beasy_sched.errors import ProtocolError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.protocol import batsim5
from beasy_sched.protocol.notices import notice


@given(strategies.messages)
def test_messages(message: e.Message) -> None:
    raw = batsim5.encode_message(message)
    assert batsim5.decode_message(raw).events == message.events
    assert batsim5.decode_message(raw).now == message.now
    assert batsim5.decode_message(raw.removesuffix(b"\0")) == batsim5.decode_message(raw)
    assert batsim5.encode_message(batsim5.decode_message(raw)) == raw


@given(strategies.replies, st.sampled_from([" ", ","]))
def test_replies(reply: d.Reply, separator: str) -> None:
    raw = batsim5.encode_reply(reply, separator)
    assert raw.endswith(b"}\0")
    assert batsim5.decode_reply(raw) == reply
    assert batsim5.decode_reply(raw.removesuffix(b"\0")) == reply


@given(strategies.replies)
def test_types_of_unions_come_right_before_their_values(reply: d.Reply) -> None:
    def look(value: object) -> None:
        if isinstance(value, list):
            for item in value:
                look(item)
        elif isinstance(value, dict):
            names = list(value)
            for name in names:
                if f"{name}_type" in value:
                    assert names.index(f"{name}_type") + 1 == names.index(name)
                look(value[name])

    look(json.loads(batsim5.encode_reply(reply).removesuffix(b"\0")))


@given(strategies.hellos)
def test_hello(hello: batsim5.Hello) -> None:
    assert batsim5.decode_hello(batsim5.encode_hello(hello)) == hello


@given(st.binary(max_size=50))
def test_start(init: bytes) -> None:
    start = batsim5.encode_start(init)
    assert batsim5.is_start(start)
    assert not batsim5.is_old_start(start)
    assert batsim5.decode_start(start) == init


@given(strategies.hosts.filter(len), st.sampled_from([" ", ","]))
def test_parts_of_a_set_of_hosts_are_written_as_intervals(hosts: HostSet, separator: str) -> None:
    reply = d.Reply(1.0, [d.ExecuteJob(1.0, "w0!1", hosts)])
    (event,) = json.loads(batsim5.encode_reply(reply, separator).removesuffix(b"\0"))["events"]
    parts = event["event"]["allocation"]["host_allocation"].split(separator)
    assert all(re.fullmatch("[0-9]+-[0-9]+", part) for part in parts)
    assert HostSet.parse(" ".join(parts)) == hosts


@given(st.floats(0.0, 1e12))
def test_calls_are_rounded_up_to_a_millisecond(at: float) -> None:
    """Never earlier than asked for (but for the last digits of a double), and a millisecond late at most."""
    ms = batsim5.call_ms(at)
    assert at - max(2e-9, 4 * math.ulp(at)) <= ms / 1000 <= at + 0.001 + 4 * math.ulp(at)


@given(st.integers(0, 10**13))
@example(8_796_093_022_207)
def test_whole_milliseconds_stay(ms: int) -> None:
    assert batsim5.call_ms(ms / 1000) == ms


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (41.25, "41.25"),
        (0.1234567891234, "0.123456789123"),
        (1e-13, "0.0"),
        (1e9, "1000000000.0"),
        (10.0, "10.0"),
    ],
)
def test_numbers_as_batsim_prints_them(value: float, text: str) -> None:
    assert f'"now":{text},'.encode() in batsim5.encode_message(e.Message(value, []))


@pytest.mark.parametrize(
    ("field", "walltime"),
    [("", None), (',"walltime":null', None), (',"walltime":-1.0', None), (',"walltime":100', 100)],
)
def test_walltime(field: str, walltime: float | None) -> None:
    job = f'{{"resource_request":1,"profile_id":"w0!dl"{field}}}'
    data = f'{{"job_id":"w0!7","job":{job},"submission_time":1.25}}'
    raw = f'{{"now":2,"events":[{{"timestamp":2,"event_type":"JobSubmittedEvent","event":{data}}}]}}'
    (event,) = batsim5.decode_message(raw.encode()).events
    assert event == e.JobSubmitted(2.0, e.JobRequest("w0!7", 1.25, 1, "dl", walltime))


@pytest.mark.parametrize("code", [-1, 4294967295])
def test_return_codes_wrapped_or_negative(code: int) -> None:
    data = f'{{"job_id":"w0!7","state":"COMPLETED_KILLED","return_code":{code}}}'
    raw = f'{{"now":2,"events":[{{"timestamp":2,"event_type":"JobCompletedEvent","event":{data}}}]}}'
    (event,) = batsim5.decode_message(raw.encode()).events
    assert isinstance(event, e.JobCompleted)
    assert event.return_code == -1


@pytest.mark.parametrize("hosts", ["0-3 5", "0-3,5", "0-3 5-5"])
def test_both_separators_of_hosts_are_read(hosts: str) -> None:
    data = f'{{"host_ids":"{hosts}","state":3}}'
    raw = f'{{"now":2,"events":[{{"timestamp":0,"event_type":"HostsTurnedOnOffEvent","event":{data}}}]}}'
    (event,) = batsim5.decode_message(raw.encode()).events
    assert event == e.ResourceStateChanged(0.0, HostSet.of([0, 1, 2, 3, 5]), 3, switch=True)


def notified(data: str) -> e.Event:
    told = json.dumps(
        {"id": "ee0!3", "external_event_type": "GenericExternalEvent", "external_event": {"data": data}}
    )
    raw = f'{{"now":2,"events":[{{"timestamp":0,"event_type":"ExternalEventOccurredEvent","event":{told}}}]}}'
    (event,) = batsim5.decode_message(raw.encode()).events
    return event


@pytest.mark.parametrize(
    ("data", "kind", "told"),
    [
        ('{"power_available": 460.4}', "generic", {"power_available": 460.4}),
        ('{"type": "power", "power_available": 460}', "power", {"type": "power", "power_available": 460}),
        ("some words", "generic", {"data": "some words"}),
        ("[1]", "generic", {"data": "[1]"}),
        ("", "generic", {"data": ""}),
        ('{"type":"no_more_static_job_to_submit"}', "generic", {"type": "no_more_static_job_to_submit"}),
        (
            '{"type":"machine_unavailable","resources":"0-4 6"}',
            "event_machine_unavailable",
            {"type": "event_machine_unavailable", "resources": "0-4 6"},
        ),
    ],
)  # fmt: skip
def test_the_text_of_an_external_event(data: str, kind: str, told: dict[str, object]) -> None:
    assert notified(data) == notice(0.0, kind, told, "ee0!3")


@pytest.mark.parametrize(
    ("text", "extras"),
    [
        ("", None),
        ("{}", None),
        ('{"deadline": 7.5}', {"deadline": 7.5}),
        ("about 7", {"extra_data": "about 7"}),
        ("[1]", {"extra_data": "[1]"}),
        ('{"x": 1e999}', {"extra_data": '{"x": 1e999}'}),
    ],
)
def test_the_extra_data_of_a_job(text: str, extras: dict[str, object] | None) -> None:
    job = json.dumps({"resource_request": 1, "extra_data": text, "profile_id": "w0!dl"})
    data = f'{{"job_id":"w0!7","job":{job}}}'
    raw = f'{{"now":2,"events":[{{"timestamp":2,"event_type":"JobSubmittedEvent","event":{data}}}]}}'
    (event,) = batsim5.decode_message(raw.encode()).events
    assert isinstance(event, e.JobSubmitted)
    assert event.job.extras == extras


@pytest.mark.parametrize(
    "decision",
    [
        d.QueryEnergy(1.0),
        d.SetJobMetadata(1.0, "w0!1", "x"),
        d.ContinueRegistration(1.0),
        d.ChangeJobState(1.0, "w0!1", "x"),
        d.SetResourceState(1.0, HostSet.of([1]), 2),
    ],
)
def test_what_batsim5_does_not_have_is_never_written(decision: d.Decision) -> None:
    with pytest.raises(ValueError, match=r"Batsim 5 has no|must state"):
        batsim5.encode_reply(d.Reply(1.0, [decision]))
    with pytest.raises(ValueError, match="Batsim 5 has no"):
        batsim5.encode_message(e.Message(1.0, [e.EnergyAnswer(1.0, 3.0)]))


def call(**fields: object) -> tuple[str, dict[str, object]]:
    return "CallMeLaterEvent", {"call_me_later_id": "x", **fields}


def profile(kind: str, **fields: object) -> tuple[str, dict[str, object]]:
    return "RegisterProfileEvent", {"profile": {"id": "a!b", "profile_type": kind, "profile": fields}}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("RejectJobEvent", {"job_id": "w0!1", "why": 1}, "unknown field"),
        (*call(when={"time": 1}, a=1, when_type="OneShot"), "missing type field"),
        (*call(when_type="OneShot", when={"time": 1.0}), "Expected `int`"),
        (*call(when_type="OneShot", when={"time": -1}), ">= 0"),
        (*call(when_type="Sometimes", when={}), "Sometimes"),
        ("TurnOnOffHostsEvent", {"host_ids": "", "state": 0}, "no hosts"),
        (*profile("delay"), "unknown profile type 'delay'"),
        (*profile("DelayProfile", cpu=1), "no field 'cpu'"),
    ],
)
def test_replies_that_would_abort_batsim_are_refused(kind: str, data: dict[str, object], text: str) -> None:
    event = {"timestamp": 1.0, "event_type": kind, "event": data}
    with pytest.raises(ProtocolError, match=text):
        batsim5.decode_reply(json.dumps({"now": 3.0, "events": [event]}).encode())


def test_events_must_be_in_the_order_of_time() -> None:
    late, early = (d.RejectJob(at, "w0!1") for at in (2.0, 1.0))
    with pytest.raises(ProtocolError, match="earlier than the one before"):
        batsim5.decode_reply(batsim5.encode_reply(d.Reply(3.0, [late, early])))


@pytest.mark.parametrize("extra", [b'{"now":1,"more":2,"events":[]}', b'{"now":1,"events":[],"protocol":5}'])
def test_unknown_members_of_a_reply_are_refused(extra: bytes) -> None:
    with pytest.raises(ProtocolError, match="unknown field"):
        batsim5.decode_reply(extra)
    assert len(batsim5.decode_message(extra).unknown_fields) == 1


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "expected a number of 4 bytes"),
        (b"\1\0\0\0x", "only JSON is supported"),
        (b"\2\0\0\0", "it is empty"),
        (b'\2\0\0\0{"now":0,"events":[]}', "exactly one EDCHelloEvent"),
        (b'{"now":0,"events":[]}', "expected a number of 4 bytes"),
    ],
)
def test_hellos_that_are_none(raw: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        batsim5.decode_hello(raw)


def test_a_start_of_another_length() -> None:
    with pytest.raises(ProtocolError, match="not the first message of a Batsim 5"):
        batsim5.decode_start(b"\5\0\0\0abc")


def test_unknown_events_and_fields_are_kept_and_told() -> None:
    raw = (
        b'{"now":1,"events":[{"timestamp":1,"event_type":"NewsEvent","event":{"x":1}},{"timestamp":1,"event_type":'
        b'"SimulationBeginsEvent","event":{"computation_hosts":[{"id":0,"name":"a","gpus":2}],"lists":[7]}},'
        b'{"timestamp":1,"event_type":"JobCompletedEvent","event":{"job_id":"w0!1","state":"REJECTED"}},'
        b'{"timestamp":1,"event_type":"ExternalEventOccurredEvent","event":{"id":"e","external_event_type":"Fire",'
        b'"external_event":{}}}]}'
    )
    message = batsim5.decode_message(raw)
    news, begins, rejected, fire = message.events
    assert news == e.UnknownEvent(1.0, "NewsEvent", {"x": 1})
    assert isinstance(begins, e.SimulationBegins)
    assert begins.config == {"lists": [7]}
    assert isinstance(rejected, e.UnknownEvent)
    assert isinstance(fire, e.UnknownEvent)
    assert set(message.unknown_fields) == {
        "$.events[1].event.lists",
        "$.events[1].event.computation_hosts[0].gpus",
    }
