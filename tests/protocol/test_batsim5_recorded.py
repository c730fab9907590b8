"""Every message that a real Batsim 5 and its schedulers sent, and batprotocol's own examples, both ways."""

from __future__ import annotations

import pytest
from protocol.batsim5_files import golden, needs_recordings, recorded, value_of

from beasy_sched.errors import ProtocolError
from beasy_sched.model.events import SimulationBegins, UnknownEvent
from beasy_sched.protocol import batsim5

pytestmark = needs_recordings

REFUSED = {
    "bad_json": "$",
    "call_fraction": "$.events[0].event.when.time",
    "empty_alloc": "$.events[0].event.allocation.host_allocation",
    "exec_no_placement": "$.events[0].event.allocation",
    "ts_gt_now": "$.events[0].timestamp",
    "unknown_field": "$.events[0].event",
    "unknown_type": "$.events[0].event_type",
    "wrong_direction": "$.events[0].event_type",
}
"""Replies whose form made Batsim abort, and where the fault is."""
BAD_HELLOS = {
    "hello_no_commit": "decision_component_commit",
    "hello_no_features": "requested_simulation_features",
    "hello_no_version": "batprotocol_version",
    "order_far": "event_type comes later",
}
"""Introductions that made Batsim abort or crash, and what was wrong with them."""
NOT_TYPED = {"ProbeDataEmittedEvent"}
"""Kept as they came: no scheduler of ours asks for them."""
NEW_NAMES = {"external_event_lists_RECONSTRUCTED_NAME"}
"""A member of the recordings' SimulationBegins whose real name is not known."""

NAMES = sorted(recorded())
PLAYED = [name for name in NAMES if len(recorded()[name].frames) > 2]


def test_nothing_is_left_out() -> None:
    assert len(NAMES) == 105
    assert {*REFUSED, *BAD_HELLOS} <= set(NAMES)
    for name in (*REFUSED, *BAD_HELLOS):
        assert recorded()[name].exit_code in (134, 139)
    assert len(golden()) == 78


@pytest.mark.parametrize("name", PLAYED)
def test_what_batsim_says(name: str) -> None:
    for raw in recorded()[name].of("batsim"):
        message = batsim5.decode_message(raw)
        assert {path.rpartition(".")[2] for path in message.unknown_fields} <= NEW_NAMES
        assert {event.type for event in message.events if isinstance(event, UnknownEvent)} <= NOT_TYPED
        written = batsim5.encode_message(message)
        assert written.endswith(b"\0")
        assert value_of(written) == value_of(raw)
        assert batsim5.decode_message(written) == message


@pytest.mark.parametrize("name", [name for name in PLAYED if name not in REFUSED])
@pytest.mark.parametrize("separator", [" ", ","])
def test_what_schedulers_answer(name: str, separator: str) -> None:
    for raw in recorded()[name].of("scheduler"):
        reply = batsim5.decode_reply(raw)
        written = batsim5.encode_reply(reply, separator)
        assert batsim5.decode_reply(written) == reply
        assert value_of(written) == value_of(raw)


@pytest.mark.parametrize("name", NAMES)
def test_handshakes(name: str) -> None:
    frames = recorded()[name].frames
    if not frames:
        return  # Batsim refused its inputs
    start, hello = frames[0][1], frames[1][1]
    assert batsim5.is_start(start)
    assert not batsim5.is_old_start(start)
    init = batsim5.decode_start(start)
    assert init in (b"", b'{"init":"hello"}')
    assert batsim5.encode_start(init) == start
    if name in BAD_HELLOS:
        with pytest.raises(ProtocolError, match=BAD_HELLOS[name]):
            batsim5.decode_hello(hello)
        return
    told = batsim5.decode_hello(hello)
    assert batsim5.decode_hello(batsim5.encode_hello(told)) == told


@pytest.mark.parametrize("name", REFUSED)
def test_replies_that_batsim_refused(name: str) -> None:
    *fine, last = recorded()[name].of("scheduler")
    for raw in fine:
        batsim5.decode_reply(raw)
    with pytest.raises(ProtocolError) as caught:
        batsim5.decode_reply(last)
    assert caught.value.json_path == REFUSED[name]


@pytest.mark.parametrize("name", sorted(recorded("old-pair")))
def test_development_versions_are_known_by_their_first_message(name: str) -> None:
    start = recorded("old-pair")[name].frames[0][1]
    assert batsim5.is_old_start(start)
    assert not batsim5.is_start(start)


@pytest.mark.parametrize("name", golden())
def test_examples_of_batprotocol(name: str) -> None:
    raw = golden()[name]
    if name.startswith("edc_hello"):
        hello = batsim5.decode_hello(b"\2\0\0\0" + raw)
        written = batsim5.encode_hello(hello)
        assert batsim5.decode_hello(written) == hello
        expected = value_of(raw)  # one feature was removed since
        expected["events"][0]["event"]["requested_simulation_features"].pop("forward_unknown_external_events")
        assert value_of(written[4:]) == expected
        return
    message = batsim5.decode_message(raw)
    if all(isinstance(event, UnknownEvent) for event in message.events) and name not in EVENTS_KEPT:
        reply = batsim5.decode_reply(raw)
        assert batsim5.decode_reply(batsim5.encode_reply(reply)) == reply
        assert value_of(batsim5.encode_reply(reply)) == value_of(raw)
        return
    assert message.unknown_fields == ()
    assert batsim5.decode_message(batsim5.encode_message(message)) == message
    assert value_of(batsim5.encode_message(message)) == value_of(raw)


EVENTS_KEPT = {"batsim_hello-simple", "probe_data_emitted-aggregated", "probe_data_emitted-vectorial"}
"""Examples of events that Batsim sends and that are kept as they came."""


def test_what_a_host_tells() -> None:
    first, *_ = recorded()["natural"].of("batsim")
    (begins,) = batsim5.decode_message(first).events
    assert isinstance(begins, SimulationBegins)
    assert [(x.name, x.speeds_flops, x.cores, x.pstate) for x in begins.resources] == [
        ("N3", (1e8,), 1, 0),
        ("n1", (3e8,), 1, 0),
        ("n2", (2e8,), 4, 0),
        ("n10", (1e8,), 1, 0),
    ]
    assert [(x.id, x.name, x.properties) for x in begins.storage_resources] == [(4, "a", {"role": "storage"})]
    assert begins.config["batsim_version"] == "v5.0.0-rc2"
    assert not begins.answers_queries
