"""The daemon: serves one simulation after another over ZeroMQ. The only scheduler code with a socket."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import zmq
from zmq.utils.monitor import recv_monitor_message

from beasy_sched.errors import BeasyError, ConfigError, PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.protocol import batsim4

_TICK_MS = 200
_SEND_TIMEOUT_S = 10.0
_LARGEST_MESSAGE_BYTES = 1 << 31


class Interrupted(BeasyError):
    """The user or the system asked the daemon to stop."""


class Server(Protocol):
    """What the daemon serves: `beasy_sched.session.Session` is one."""

    ended: bool

    def step(self, message: Message) -> Reply:
        """Answer one message."""
        ...


Recorder = Callable[[bytes, bytes], None]


class Daemon:
    """A bound REP socket that answers a simulator's requests in lockstep."""

    def __init__(self, endpoint: str, *, timeout_s: float | None = None) -> None:
        """Bind ``endpoint`` (port 0 takes any free one); wait ``timeout_s`` for a first message.

        Raises ConfigError for an endpoint that cannot be bound.
        """
        self.timeout_s = timeout_s
        self.busy_s = 0.0
        """Time spent on messages, without waiting."""
        self.messages = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE_BYTES)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._stop: str | None = None
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            hint = "another program has it: choose another port, or 0 for any" if error.errno == zmq.EADDRINUSE else (
                "expected something like tcp://*:28000"
            )  # fmt: skip
            raise ConfigError(f"cannot listen on {endpoint!r}: {error.strerror} ({hint})") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def serve(self, server: Server, record: Recorder | None = None) -> None:
        """Serve one simulation to its end.

        Raises PeerError when the simulator breaks the protocol, vanishes or stays silent at the start,
        and Interrupted on SIGINT and SIGTERM.
        """
        with self._signals():
            first = True
            while not server.ended:
                raw = self._receive(self.timeout_s if first else None, watch_peer=not first)
                first = False
                begin = time.perf_counter()
                reply = batsim4.encode_reply(server.step(batsim4.decode_message(raw)))
                self.busy_s += time.perf_counter() - begin
                self.messages += 1
                if record is not None:
                    record(raw, reply)
                self._send(reply)

    def close(self) -> None:
        """Close the socket; a last reply is still delivered."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()

    def _receive(self, timeout_s: float | None, *, watch_peer: bool) -> bytes:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            ready = dict(poller.poll(_TICK_MS))
            if self._stop is not None:
                raise Interrupted(f"stopped by {self._stop}")
            if self._socket in ready:
                parts = self._socket.recv_multipart()
                if len(parts) != 1:
                    raise PeerError(
                        f"found a message of {len(parts)} frames, expected one: is the peer Batsim?"
                    )
                return parts[0]
            if self._monitor in ready:
                recv_monitor_message(self._monitor)
                if watch_peer:
                    raise PeerError("the simulator has gone away in the middle of the simulation")
            if deadline is not None and time.monotonic() > deadline:
                raise PeerError(f"no simulator has sent a first message within {timeout_s:g} s")

    def _send(self, reply: bytes) -> None:
        if not self._socket.poll(int(_SEND_TIMEOUT_S * 1000), zmq.POLLOUT):
            raise PeerError("the reply cannot be sent: the simulator does not take it")
        try:
            self._socket.send(reply, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise PeerError(f"the reply cannot be sent: {error.strerror}") from None

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stop = signal.Signals(number).name

        try:
            old = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: whoever runs us handles signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
