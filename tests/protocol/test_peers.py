"""Who is the simulator and who is not, frame by frame and without a socket."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import begins

from beasy_sched.errors import PeerError
from beasy_sched.limits import MOST_CANDIDATES, MOST_START_BYTES
from beasy_sched.model import events as e
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.peers import BUSY, NOT_A_BEGIN, Heard, Peers

BEGIN_MESSAGE = e.Message(0.0, [begins(2)])
BEGIN = batsim4.encode_message(BEGIN_MESSAGE)
NEXT = batsim4.encode_message(e.Message(1.0, [e.RequestedCall(1.0)]))
START = batsim5.encode_start(b"init")
BEGIN_5 = batsim5.encode_message(BEGIN_MESSAGE)

NOTHING = [[b"x"], [b"x", b""], [b"x", b"", b""], [b"x", BEGIN], [b"x", b"", BEGIN, b""], [b"x", b"y", BEGIN]]
"""Frames from ``x`` that are no message of a simulator's; the second is what the bytes 01 00 01 00 become."""


def begun() -> Peers:
    peers = Peers()
    heard = peers.hear([b"sim", b"", BEGIN])
    assert isinstance(heard, Heard)
    assert heard.message.events[0] == BEGIN_MESSAGE.events[0]
    return peers


def test_the_first_that_begins_is_the_simulator() -> None:
    peers = Peers()
    assert peers.hear([b"x", b"", b"GET / HTTP/1.1"]) == [b"x", b"", NOT_A_BEGIN]
    assert peers.hear([b"y", b"", NEXT]) == [b"y", b"", NOT_A_BEGIN]
    assert "the last one: the first event of a simulation must be SIMULATION_BEGINS" in peers.notices[0]
    assert not peers.begun
    assert isinstance(peers.hear([b"y", b"", BEGIN]), Heard)
    heard = peers.hear([b"y", b"", NEXT])
    assert isinstance(heard, Heard)
    assert (heard.raw, heard.message.now, heard.greeting) == (NEXT, 1.0, None)
    assert peers.reply(b"reply") == [b"y", b"", b"reply"]


@pytest.mark.parametrize("frames", NOTHING)
def test_what_is_no_message(frames: list[bytes]) -> None:
    awaits_answer = len(frames) > 2 and not frames[1]
    peers = Peers()
    assert peers.hear(frames) == ([b"x", b"", NOT_A_BEGIN] if awaits_answer else None)
    assert (peers.refused, peers.begun) == (1, False)
    peers = begun()
    assert peers.hear(frames) == ([b"x", b"", BUSY] if awaits_answer else None)
    assert isinstance(peers.hear([b"sim", b"", NEXT]), Heard)


@pytest.mark.parametrize("frames", NOTHING)
def test_what_the_simulator_must_not_send(frames: list[bytes]) -> None:
    with pytest.raises(PeerError):
        begun().hear([b"sim", *frames[1:]])


def test_notices_are_few_however_many_messages_come() -> None:
    peers = Peers()
    for number in range(500):
        peers.hear([b"%d" % number, b"", b"junk"])
    peers.hear([b"sim", b"", BEGIN])
    for number in range(500):
        peers.hear([b"%d" % number, b"", BEGIN])
        peers.hear([b"%d" % number, b"junk"])
    assert peers.refused == 500
    assert len(peers.notices) == 3
    assert peers.notices[0].startswith(
        "500 messages were rejected before the simulation began; the last one: "
    )


def test_batsim_5_is_the_simulator_once_it_has_begun() -> None:
    """Whoever has only been greeted keeps nobody else away."""
    peers = Peers()
    for name in (b"other", b"sim"):
        greeting = peers.hear([name, b"", START])
        assert isinstance(greeting, list)
        assert greeting[:2] == [name, b""]
        assert batsim5.decode_hello(greeting[2]).name == "beasy-sched"
    assert not peers.begun
    heard = peers.hear([b"sim", b"", BEGIN_5])
    assert isinstance(heard, Heard)
    assert heard.greeting is not None
    assert heard.greeting[0] == START
    assert peers.hear([b"other", b"", BEGIN_5]) == [b"other", b"", BUSY]


def test_greetings_take_little_memory() -> None:
    peers = Peers()
    for number in range(3 * MOST_CANDIDATES):
        peers.hear([b"%d" % number, b"", START])
    assert len(peers._candidates) == MOST_CANDIDATES
    large = struct.pack("<I", MOST_START_BYTES) + bytes(MOST_START_BYTES)
    assert peers.hear([b"x", b"", large]) == [b"x", b"", NOT_A_BEGIN]
    assert "the init string has more than" in peers.reason
    assert isinstance(peers.hear([b"299", b"", BEGIN_5]), Heard)


payloads = st.one_of(
    st.sampled_from([b"", BEGIN, NEXT, START, BEGIN_5, BEGIN[:-1], b"\0\0\0\0"]), st.binary(max_size=40)
)
others = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.lists(payloads, max_size=5))


@given(st.lists(others.filter(lambda other: BEGIN not in other[1] and BEGIN_5 not in other[1]), max_size=30))
def test_no_frames_of_others_keep_the_simulator_away(sent: list[tuple[bytes, list[bytes]]]) -> None:
    peers = Peers()
    for sender, frames in sent:
        peers.hear([sender, *frames])
    assert isinstance(peers.hear([b"sim", b"", BEGIN]), Heard)
    for sender, frames in sent:
        answer = peers.hear([sender, *frames])
        assert answer in (None, [sender, b"", BUSY])
    assert isinstance(peers.hear([b"sim", b"", NEXT]), Heard)
    assert len(peers.notices) <= 3


@given(st.lists(others, max_size=30))
def test_any_frames(sent: list[tuple[bytes, list[bytes]]]) -> None:
    """Answers go to whoever has spoken; only the simulator's own faults are errors."""
    peers, simulator = Peers(), None
    for sender, frames in sent:
        try:
            answer = peers.hear([sender, *frames])
        except PeerError:
            assert sender == simulator
            return
        if isinstance(answer, Heard):
            simulator = simulator or sender
            assert sender == simulator
        elif answer is not None:
            assert answer[:2] == [sender, b""]
            assert sender != simulator
