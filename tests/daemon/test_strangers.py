"""Strangers on the port, before, during and after a simulation: they change nothing, and take little."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import zmq
from daemon.serving import BEGIN, END, Peer, Serving, job, raw, serving
from zmq.utils.monitor import recv_monitor_message

from beasy_sched import daemon as daemon_module
from beasy_sched.daemon import Daemon, too_many
from beasy_sched.engine import Session
from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import PeerError
from beasy_sched.limits import MOST_CONNECTIONS, MOST_MESSAGE_BYTES, MOST_OTHERS_BYTES
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.policies.registry import make_policy

ZMTP_1 = b"\x01\x00\x01\x00"
"""A peer of ZMTP 1.0 without identity, and an empty message without a delimiter."""
ZMTP_3 = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31)
READY_REQ = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ"
SHAKEN = (ZMTP_3, READY_REQ)
"""A handshake: ZeroMQ takes a peer of version 3 for a faulty one if it does not wait for each answer."""

Words = tuple[bytes, ...]

BYTES: dict[str, Words] = {
    "nothing": (),
    "ZMTP 1.0 without a delimiter": (ZMTP_1,),
    "ZMTP 1.0, many messages": (b"\x01\x00" + b"\x01\x00" * 1000,),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",),
    "noise": (bytes(range(256)) * 40,),
    "half a greeting": (ZMTP_3[:20],),
    "a greeting alone": (ZMTP_3,),
    "a handshake that is wrong": (ZMTP_3, b"\x04\x03\x02hi"),
    "a handshake at once": (ZMTP_3 + READY_REQ + b"\x00\x02hi",),
    "a REQ without a delimiter": (*SHAKEN, b"\x00\x02hi"),
    "a frame of an exabyte": (*SHAKEN, b"\x02" + struct.pack(">Q", 1 << 60)),
    "a message that never ends": (*SHAKEN, b"\x01\x00" * 10_000),
}
"""What strangers say: each word once the one before has been answered."""

SHAKES, FAILS = zmq.Event.HANDSHAKE_SUCCEEDED, zmq.Event.HANDSHAKE_FAILED_PROTOCOL
ENDS = zmq.Event.DISCONNECTED
OUTCOMES: dict[str, tuple[list[zmq.Event], int]] = {
    "ZMTP 1.0 without a delimiter": ([], 1),
    "ZMTP 1.0, many messages": ([], 1000),
    "noise": ([ENDS], 0),
    "a handshake that is wrong": ([FAILS, ENDS], 0),
    "a handshake at once": ([FAILS, ENDS], 0),
    "a REQ without a delimiter": ([SHAKES], 1),
    "a frame of an exabyte": ([SHAKES, ENDS], 0),
    "a message that never ends": ([SHAKES], 0),
}
"""What a socket like the daemon's sees of them: events, and the number of messages; by default nothing."""

KINDS = {
    zmq.REQ: [[b"junk"], [b""], [b"a", b"b"]],
    zmq.DEALER: [[b"junk"], [b""], [b"", b""], [b"", b"a", b"b"], [b"x", b"", BEGIN]],
    zmq.ROUTER: [],
    zmq.PUSH: [[b"junk"]],
    zmq.PUB: [[b"junk"]],
    zmq.SUB: [],
    zmq.PAIR: [[b"junk"]],
}


def read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found


def say(connection: socket.socket, words: Words) -> None:
    """Send each word of a handshake, and wait for its answer; then the rest, if anyone still reads."""
    for word in words:
        if word == ZMTP_3:
            connection.sendall(word)
            assert read(connection, 64)[:1] == b"\xff"
        elif word == READY_REQ:
            connection.sendall(word)
            kind, size = read(connection, 2)
            assert (kind, read(connection, size)[:6]) == (4, b"\x05READY")
        else:
            with contextlib.suppress(OSError):
                connection.sendall(word)


@contextlib.contextmanager
def raw_strangers(endpoint: str, everything: Sequence[Words]) -> Iterator[list[socket.socket]]:
    port = int(endpoint.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        connections = []
        for words in everything:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            say(connection, words)
            connections.append(connection)
        time.sleep(0.1)
        yield connections


def complete(daemon: Serving) -> None:
    assert daemon.wait() == 0, daemon.stderr
    summary = daemon.summary()
    assert (summary["complete"], summary["jobs"]["submitted"]) == (True, 1)
    assert len(summary["warnings"]) <= 3
    assert len(daemon.stderr.splitlines()) < 30


@pytest.mark.parametrize("name", BYTES)
def test_the_bytes_are_what_they_are_called(name: str) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        for option, value in daemon_module._OPTIONS.items():
            router.setsockopt(option, value)
        router.setsockopt(zmq.RCVHWM, 2000)
        events = router.get_monitor_socket(SHAKES | FAILS | ENDS)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        with raw_strangers(f"tcp://127.0.0.1:{port}", [BYTES[name]]):
            messages, seen = 0, []
            while router.poll(200):
                router.recv_multipart()
                messages += 1
            while events.poll(0):
                seen.append(recv_monitor_message(events)["event"])
        assert (seen, messages) == OUTCOMES.get(name, ([], 0))
        router.disable_monitor()


@pytest.mark.sampled
@pytest.mark.parametrize("sent", BYTES.values(), ids=BYTES)
def test_bytes_before_during_and_after(tmp_path: Path, sent: Words) -> None:
    with serving(tmp_path, "--timeout", "300") as daemon, contextlib.ExitStack() as strangers:
        strangers.enter_context(raw_strangers(daemon.endpoint, [sent] * 3))
        with Peer(daemon.endpoint) as peer:
            assert peer.decisions(BEGIN) == []
            strangers.enter_context(raw_strangers(daemon.endpoint, [sent] * 3))
            assert len(peer.decisions(raw(job("a")))) == 1
            strangers.close()
            peer.ask(END)
            complete(daemon)


@pytest.mark.slow
def test_all_at_once_with_keep_serving(tmp_path: Path) -> None:
    with serving(tmp_path, "--keep-serving") as daemon:
        for _ in range(3):
            with raw_strangers(daemon.endpoint, [*BYTES.values()]), Peer(daemon.endpoint) as peer:
                peer.run()
    for name in ("run", "run-2"):
        assert daemon.summary(name)["complete"] is True


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: zmq.SocketType(kind).name)
def test_sockets_of_other_kinds(tmp_path: Path, kind: int) -> None:
    with serving(tmp_path, "--timeout", "300") as daemon, contextlib.ExitStack() as strangers:

        def junk() -> None:
            for frames in KINDS[kind]:
                stranger = strangers.enter_context(Peer(daemon.endpoint, kind))
                stranger.socket.send_multipart(frames, zmq.NOBLOCK) if kind != zmq.PUSH else None
            if kind in (zmq.ROUTER, zmq.SUB, zmq.PUSH):
                strangers.enter_context(Peer(daemon.endpoint, kind))
            time.sleep(0.1)

        junk()
        with Peer(daemon.endpoint) as peer:
            peer.ask(BEGIN)
            junk()
            assert len(peer.decisions(raw(job("a")))) == 1
            peer.ask(END)
            complete(daemon)


@pytest.mark.slow
def test_strangers_do_not_reset_the_time_limit(tmp_path: Path) -> None:
    begin_s = time.monotonic()
    with serving(tmp_path, "--timeout", "1") as daemon:
        endpoint = daemon.endpoint
        while daemon.process.poll() is None and time.monotonic() < begin_s + 30:
            with contextlib.suppress(OSError), raw_strangers(endpoint, [(ZMTP_1,)]):
                pass
        daemon.failed("no simulator sent a first message within 1 s; ", begun=False)


@pytest.mark.slow
def test_a_refusal_is_told_at_once_and_not_again_and_again(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as stranger:
        for _ in range(50):
            assert b"error" in stranger.ask(b"junk")
        with Peer(daemon.endpoint) as peer:
            peer.run()
            complete(daemon)
    said = [line for line in daemon.stderr.splitlines() if "refused" in line or "rejected" in line]
    assert said[0].startswith("a message was rejected; still waiting for Batsim: malformed message: not JSON")
    assert said[1].startswith("warning: 50 messages were rejected before the simulation began")
    assert len(said) == 2


@pytest.mark.slow
def test_a_simulator_that_comes_back_on_another_connection_is_another(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        with Peer(daemon.endpoint) as peer:
            peer.ask(BEGIN)
        daemon.failed("the simulator disconnected during the simulation")


@pytest.mark.slow
def test_more_connections_than_are_allowed(tmp_path: Path) -> None:
    """The newest are cut off; the simulator, which was there before, is not."""
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        with raw_strangers(daemon.endpoint, [(ZMTP_1,)] * (MOST_CONNECTIONS + 50)) as strangers:
            time.sleep(0.5)
            assert len(peer.decisions(raw(job("a")))) == 1
            ended = 0
            for stranger in strangers:
                stranger.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while stranger.recv(1000):
                        pass
                    ended += 1
            assert ended >= 50
        peer.ask(END)
        complete(daemon)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_message_of_endless_parts_is_cut_off(tmp_path: Path) -> None:
    """ZeroMQ keeps the parts of a message until its last one, however many there are."""
    part = b"\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 20)
    with serving(tmp_path) as daemon, Peer(daemon.endpoint) as peer:
        peer.ask(BEGIN)
        with raw_strangers(daemon.endpoint, [SHAKEN]) as (stranger,):
            sent = 0
            with contextlib.suppress(OSError):
                while sent < 1500:
                    stranger.sendall(part)
                    sent += 1
                    time.sleep(0.002)
            assert 60 <= sent < 1400
        peer.ask(raw(job("a")))
        peer.ask(END)
        complete(daemon)


def begin_and_end(endpoint: str) -> None:
    """Play a simulation that is over half a second later, if it is answered at all."""
    with Peer(endpoint) as peer, contextlib.suppress(zmq.Again):
        peer.socket.setsockopt(zmq.RCVTIMEO, 3000)
        peer.ask(BEGIN)
        time.sleep(0.5)
        peer.run([raw(job("a")), END])


def test_many_comings_and_goings_before_the_first_message() -> None:
    """The simulator is not taken for one of those that had its file descriptor, or for one that has gone."""
    with Daemon("tcp://127.0.0.1:0", timeout_s=300) as served:
        port = int(served.endpoint.rpartition(":")[2])
        for _ in range(700):
            socket.create_connection(("127.0.0.1", port), 10).close()
        simulator = threading.Thread(target=begin_and_end, args=(served.endpoint,))
        simulator.start()
        time.sleep(0.5)  # all of this waits to be read
        try:
            served.serve(ObservedSession(Session(make_policy("fcfs"))))
        finally:
            simulator.join()
        assert served.messages == 3


def test_a_crowd_that_was_there_before_the_simulator() -> None:
    """Its first message has come: it is no longer one of the newest of too many."""
    with Daemon("tcp://127.0.0.1:0", timeout_s=300) as served:
        crowd = [(ZMTP_1[:1],)] * (MOST_CONNECTIONS + 50)
        with raw_strangers(served.endpoint, crowd):
            simulator = threading.Thread(target=begin_and_end, args=(served.endpoint,))
            simulator.start()
            time.sleep(0.5)
            try:
                served.serve(ObservedSession(Session(make_policy("fcfs"))))
            finally:
                simulator.join()
        assert served.messages == 3


def test_which_connections_are_too_many() -> None:
    assert too_many({}, 10) == []
    assert too_many({5: 3, 6: 7}, 10) == []
    assert too_many({5: 3, 6: 8}, 10) == [6]
    assert too_many({5: 9, 6: 8, 7: 3}, 10) == [5, 6]
    crowd = dict.fromkeys(range(MOST_CONNECTIONS + 3), 1)
    newest = [MOST_CONNECTIONS + n for n in range(3)]
    assert too_many(crowd, MOST_MESSAGE_BYTES) == newest
    assert too_many(crowd, MOST_MESSAGE_BYTES, newest[:2]) == newest[2:]
    assert too_many({5: MOST_OTHERS_BYTES + 1, 6: MOST_OTHERS_BYTES}, 10, {5, 6}) == [5]


def decided(peer: Peer, now: int) -> list[bytes]:
    """Play a few dozen jobs, one after the other, and return the replies as they came."""
    replies = []
    for number in range(now, now + 30):
        replies.append(peer.ask(raw(job(f"{number}", at=float(number)))))
        end = e.JobCompleted(number + 0.5, f"w0!{number}", e.JobEnd.SUCCESS, HostSet.of([0]))
        replies.append(peer.ask(raw(end)))
    return replies


def storm(endpoint: str, over: threading.Event) -> None:
    """Connect again and again, a few hundred at a time, with every kind of bytes."""
    port = int(endpoint.rpartition(":")[2])
    sent = [b"".join(words) for words in BYTES.values()]
    while not over.is_set():
        with contextlib.ExitStack() as stack:
            for number in range(300):
                if over.is_set():
                    return
                with contextlib.suppress(OSError):
                    one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 1))
                    one.settimeout(1)
                    one.sendall(sent[number % len(sent)])


@pytest.mark.slow
def test_thousands_of_connections_change_no_decision(tmp_path: Path) -> None:
    """Neither while they come and go, nor where the daemon has no file descriptors left for them."""
    told = []
    for name, strangers in (("alone", 0), ("crowd", 2), ("few files", 2)):
        folder = tmp_path / name
        folder.mkdir()
        with serving(folder) as daemon, Peer(daemon.endpoint) as peer:
            over = threading.Event()
            threads = [threading.Thread(target=storm, args=(daemon.endpoint, over)) for _ in range(strangers)]
            replies = [peer.ask(BEGIN)]
            if name == "few files":
                opened = len([*Path(f"/proc/{daemon.process.pid}/fd").iterdir()])
                resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (opened + 20, opened + 20))
            for thread in threads:
                thread.start()
            for now in range(10, 160, 30):
                replies += decided(peer, now)
                time.sleep(1.0 if strangers else 0.0)
            over.set()
            for thread in threads:
                thread.join()
            replies.append(peer.ask(raw(e.SimulationEnds(1000.0))))
            assert daemon.wait() == 0, daemon.stderr
            told.append((replies, (folder / "out" / "run_decisions.jsonl").read_bytes()))
    assert told[0] == told[1]
    assert told[0] == told[2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a connection has brought")
def test_a_simulator_whose_message_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "MOST_MESSAGE_BYTES", 1 << 20)
    monkeypatch.setattr(daemon_module, "MOST_OTHERS_BYTES", 1 << 20)
    begin = b"\x01\x00\x02" + struct.pack(">Q", len(BEGIN)) + BEGIN
    part = b"\x03" + struct.pack(">Q", 1 << 16) + bytes(1 << 16)
    sent = []

    def talk(endpoint: str) -> None:
        with raw_strangers(endpoint, [SHAKEN]) as (one,), contextlib.suppress(OSError):
            one.sendall(begin)
            time.sleep(0.2)
            while len(sent) < 10_000:
                one.sendall(part)
                sent.append(part)
                time.sleep(0.002)

    with Daemon("tcp://127.0.0.1:0", timeout_s=300) as served:
        peer = threading.Thread(target=talk, args=(served.endpoint,))
        peer.start()
        with pytest.raises(PeerError, match=r"the simulator sent more than .* before it was answered"):
            served.serve(ObservedSession(Session(make_policy("fcfs"))))
        peer.join()
    assert 32 <= len(sent) < 5000


def test_most_of_the_time_messages_are_read_however_long_a_look_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look at all connections that takes longer than a tick does not come before every message."""
    looks = []

    def slow(received_bytes: Mapping[int, int], most_bytes: int, young: Collection[int] = ()) -> list[int]:
        looks.append(received_bytes)
        time.sleep(0.25)
        return too_many(received_bytes, most_bytes, young)

    def talk(endpoint: str) -> None:
        with Peer(endpoint) as peer:
            peer.ask(BEGIN)
            for _ in range(200):
                peer.ask(b'{"now":5,"events":[]}')
            peer.ask(END)

    monkeypatch.setattr(daemon_module, "too_many", slow)
    with Daemon("tcp://127.0.0.1:0", timeout_s=300) as served:
        peer = threading.Thread(target=talk, args=(served.endpoint,))
        peer.start()
        served.serve(ObservedSession(Session(make_policy("fcfs"))))
        peer.join()
    assert served.messages > 200
    assert 0 < len(looks) < 50


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a connection has brought")
def test_a_long_simulation_of_one_connection_is_not_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read and answered does not count."""
    monkeypatch.setattr(daemon_module, "MOST_MESSAGE_BYTES", 1 << 14)
    monkeypatch.setattr(daemon_module, "MOST_OTHERS_BYTES", 1 << 14)

    def talk(endpoint: str) -> None:
        with Peer(endpoint) as peer:
            peer.ask(BEGIN)
            until_s = time.monotonic() + 1.0
            while time.monotonic() < until_s:
                peer.ask(b'{"now":5,"events":[]%s}' % (b" " * 10_000))
            peer.ask(END)

    with Daemon("tcp://127.0.0.1:0", timeout_s=300) as served:
        peer = threading.Thread(target=talk, args=(served.endpoint,))
        peer.start()
        served.serve(ObservedSession(Session(make_policy("fcfs"))))
        peer.join()
        assert served.messages > 100
