"""The REQ socket of `beasy-sched batsim`: schedulers that answer and leave, or leave without a word."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zmq
from processes import free_endpoint
from simulator.small import InOrder, job, simulation

from beasy_sched.errors import PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, RequestedCall, SimulationEnds
from beasy_sched.protocol import batsim4
from beasy_sched.simulator.zmq_client import ZmqScheduler

CALL = Message(1.0, [RequestedCall(1.0)])
END = Message(9.0, [SimulationEnds(9.0)])
PATIENCE_S = 20.0
GONE = "disconnected during the simulation"


class Leaving(threading.Thread):
    """A scheduler that leaves at once after so many replies, as a process does that ends.

    ``reads`` so many messages more, which it does not answer.
    """

    def __init__(self, endpoint: str, replies: int, reads: int = 0) -> None:
        super().__init__()
        self._endpoint, self._replies, self._reads = endpoint, replies, reads
        self.scheduler = InOrder()

    def run(self) -> None:
        with zmq.Context() as context, context.socket(zmq.REP) as peer:
            peer.linger = int(1000 * PATIENCE_S)
            peer.bind(self._endpoint)
            for count in range(self._replies + self._reads):
                if not peer.poll(1000 * PATIENCE_S):
                    return
                message = batsim4.decode_message(peer.recv())
                if count < self._replies:
                    peer.send(batsim4.encode_reply(self.scheduler(message)))

    def __enter__(self) -> Leaving:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.join(PATIENCE_S)


@contextmanager
def asking(endpoint: str, timeout_s: float = PATIENCE_S) -> Iterator[ZmqScheduler]:
    client = ZmqScheduler(endpoint, timeout_s=timeout_s)
    try:
        yield client
    finally:
        client.close()


def until_it_has_left(client: ZmqScheduler) -> None:
    """Wait until the end of the connection has been taken in, and nothing else."""
    deadline = time.monotonic() + PATIENCE_S
    while not client._sees_it_leave():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("message", [CALL, END])
def test_a_reply_counts_whose_sender_is_seen_to_leave_first(
    message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reply and end of the connection may both have come between two looks: here the end is found first."""
    endpoint = free_endpoint()
    with Leaving(endpoint, 1), asking(endpoint) as client:

        def poll(timeout: int) -> list[tuple[object, int]]:
            until_it_has_left(client)
            return []

        monkeypatch.setattr(client._poller, "poll", poll)
        assert client(message) == Reply(message.now, [])
        assert client.notices == []


def test_many_schedulers_that_answer_and_leave() -> None:
    for _ in range(200):
        endpoint = free_endpoint()
        with Leaving(endpoint, 2), asking(endpoint) as client:
            assert client(CALL) == Reply(1.0, [])
            assert client(END) == Reply(9.0, [])
            assert client.notices == []


def test_whole_runs_whose_scheduler_leaves_after_its_last_reply(tmp_path) -> None:
    jobs = [job(str(i), 5 * i) for i in range(5)]
    scheduler = InOrder()
    done = simulation(tmp_path, jobs).run(scheduler)
    assert done.jobs == 5
    for number in range(20):
        endpoint = free_endpoint()
        folder = tmp_path / str(number)
        folder.mkdir()
        with Leaving(endpoint, len(scheduler.messages)) as peer, asking(endpoint) as client:
            result = simulation(folder, jobs, files=True).run(client)
        assert (result.succeeded, client.notices) == (5, [])
        assert all(path.exists() for path in result.files)
        assert len(peer.scheduler.messages) == len(scheduler.messages)


def test_a_reply_to_the_end_is_not_needed(tmp_path) -> None:
    """The run is complete, whatever becomes of the scheduler."""
    jobs = [job("a")]
    scheduler = InOrder()
    simulation(tmp_path, jobs).run(scheduler)
    for reads in (0, 1):  # it leaves before it is told of the end, or when it is
        endpoint = free_endpoint()
        with Leaving(endpoint, len(scheduler.messages) - 1, reads), asking(endpoint) as client:
            result = simulation(tmp_path, jobs, files=True).run(client)
        (notice,) = client.notices
        assert notice.startswith(f"the scheduler at {endpoint} did not answer the end of the simulation")
        assert result.files
        assert all(path.exists() for path in result.files)


def test_a_silent_scheduler_at_the_end() -> None:
    with asking(free_endpoint(), timeout_s=0.01) as client:
        assert client(END) == Reply(9.0, [])
        assert len(client.notices) == 1


@pytest.mark.parametrize("reads", [0, 1])
def test_one_that_leaves_in_the_middle(reads: int) -> None:
    endpoint = free_endpoint()
    with Leaving(endpoint, 1, reads), asking(endpoint) as client:
        client(CALL)
        with pytest.raises(PeerError, match=GONE):
            client(CALL)


def test_a_new_scheduler_does_not_stand_in_for_one_that_has_left() -> None:
    """It would know nothing of the simulation."""
    endpoint = free_endpoint()
    with asking(endpoint) as client:
        with Leaving(endpoint, 1):
            client(CALL)
        with Leaving(endpoint, 0) as other:
            until_it_has_left(client)
            with pytest.raises(PeerError, match=GONE):
                client(CALL)
        assert other.scheduler.messages == []


def test_one_that_left_before_it_was_told_anything_can_be_replaced() -> None:
    endpoint = free_endpoint()
    with asking(endpoint) as client:
        with zmq.Context() as context, context.socket(zmq.REP) as first:
            first.bind(endpoint)
            while not client._is_connected:
                client._sees_it_leave()
        until_it_has_left(client)
        with Leaving(endpoint, 1):
            assert client(CALL) == Reply(1.0, [])


def test_a_listener_that_hangs_up_without_a_handshake_is_no_scheduler() -> None:
    """A port that something else has for a moment: the message waits for whoever comes."""
    endpoint = free_endpoint()
    with asking(endpoint) as client:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", int(endpoint.rpartition(":")[2])))
            other.listen()
            other.settimeout(PATIENCE_S)
            other.accept()[0].close()
        with Leaving(endpoint, 1):
            assert client(CALL) == Reply(1.0, [])


@contextmanager
def after_a_stranger(sent: bytes, endpoint: str) -> Iterator[ZmqScheduler]:
    """A client whose connection ZeroMQ has given up, since somebody listened there, said this, and left."""
    with socket.create_server(("127.0.0.1", int(endpoint.rpartition(":")[2]))) as server:
        client = ZmqScheduler(endpoint, timeout_s=1.0)
        connection, _ = server.accept()
        connection.sendall(sent)
        with connection, contextlib.suppress(ConnectionResetError):
            connection.recv(64)
    deadline = time.monotonic() + PATIENCE_S
    while client._socket.poll(0, zmq.POLLOUT):
        assert time.monotonic() < deadline
    try:
        yield client
    finally:
        client.close()


STRANGE = [bytes(range(1, 200)), b"\xff" + bytes(8) + b"\x7f" + b"x" * 100, b"\x01\x00\x01\x00"]


@pytest.mark.parametrize("sent", STRANGE)
def test_who_spoke_strangely_before_the_first_message_and_left_does_not_block_it(sent: bytes) -> None:
    endpoint = free_endpoint()
    with after_a_stranger(sent, endpoint) as client, pytest.raises(PeerError, match="no reply from"):
        client(CALL)


@pytest.mark.parametrize("sent", STRANGE)
def test_a_scheduler_that_comes_after_somebody_who_spoke_strangely(sent: bytes) -> None:
    endpoint = free_endpoint()
    with after_a_stranger(sent, endpoint) as client, Leaving(endpoint, 1):
        client._timeout_s = PATIENCE_S
        assert client(CALL) == Reply(1.0, [])


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([b"no delimiter"], "no reply from|disconnected during"),
        ([b""], "no reply from|disconnected during"),
        ([b"", b"a", b"b"], "a reply with 2 frames"),
        ([b"", b"junk"], "not JSON"),
    ],
)
def test_replies_of_strange_servers(frames: list[bytes], error: str) -> None:
    endpoint = free_endpoint()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as server, asking(endpoint, 1.0) as client:
        server.linger = 0
        server.bind(endpoint)

        def answer() -> None:
            identity = server.recv_multipart()[0]
            for _ in range(3):
                server.send_multipart([identity, *frames])

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(PeerError, match=error):
            client(CALL)
        answering.join(PATIENCE_S)


@pytest.mark.parametrize(
    "sent", [b"\x01\x00\x01\x00", b"\x01\x00" * 100, b"HTTP/1.1 400 Bad Request\r\n\r\n", b""]
)
def test_bytes_of_strange_servers(sent: bytes) -> None:
    endpoint = free_endpoint()
    with socket.create_server(("127.0.0.1", int(endpoint.rpartition(":")[2]))) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(sent)
                time.sleep(1.5)

        answering = threading.Thread(target=answer)
        answering.start()
        with asking(endpoint, 1.0) as client, pytest.raises(PeerError, match="no reply from"):
            client(CALL)
        answering.join(PATIENCE_S)
