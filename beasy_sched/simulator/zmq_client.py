"""The simulator's side of the wire: a REQ socket that connects to a scheduler."""

from __future__ import annotations

import time
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.limits import MOST_MESSAGE_BYTES
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, SimulationEnds
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.farewell import reason_of
from beasy_sched.protocol.wire import endpoint_problem, is_ipv6

_EXAMPLE = "expected something like tcp://localhost:28000"
_TICK_MS = 500
_GRACE_MS = 500
"""Time that a reply is still awaited from a scheduler that has closed its connection, ms."""


class ZmqScheduler:
    """A scheduler in another process; call it with a message for its reply."""

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float | None = None,
        form: BatsimFormat = BatsimFormat.BATSIM4,
    ) -> None:
        """Connect to ``endpoint``, whether or not anyone listens yet, and send messages in ``form``.

        ``timeout_s`` limits the wait for each reply. Raises ConfigError for an invalid endpoint.
        """
        is_new = form is BatsimFormat.BATSIM5
        self._encode = batsim5.encode_message if is_new else batsim4.encode_message
        self._decode = batsim5.decode_reply if is_new else batsim4.decode_reply
        problem = endpoint_problem(endpoint, any_port=False)
        if problem is not None:
            raise ConfigError(f"cannot connect to {endpoint!r}: {problem} ({_EXAMPLE})")
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_MESSAGE_BYTES)
        self._socket.setsockopt(zmq.IPV6, is_ipv6(endpoint))
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self._monitor = self._socket.get_monitor_socket(events)
        self._is_connected = False
        self._has_left = False
        """Whether the present scheduler has closed its connection; one that listens later is another."""
        self._has_answered = False
        self.notices: list[str] = []
        """Notices on the scheduler, for the user."""
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"cannot connect to {endpoint!r}: {error.strerror} ({_EXAMPLE})") from None

    def __call__(self, message: Message) -> Reply:
        """Send a message and wait for the reply.

        A reply counts even if the scheduler disconnects right after it. The reply to SIMULATION_ENDS is not
        needed: if none arrives, an empty one is returned, and `notices` has the reason.

        Raises PeerError when the scheduler vanishes or exceeds the time limit, ProtocolError when its
        reply cannot be read.
        """
        try:
            raw = self._ask(self._encode(message))
        except PeerError:
            if not any(isinstance(event, SimulationEnds) for event in message.events):
                raise
            self.notices.append(
                f"the scheduler at {self.endpoint} did not answer the end of the simulation:"
                " its own outputs may be missing"
            )
            return Reply(message.now, [])
        if (reason := reason_of(raw)) is not None:
            raise PeerError(f"the scheduler at {self.endpoint} has ended: {reason}")
        return self._decode(raw)

    def greet(self, init: bytes) -> batsim5.Hello:
        """Begin as Batsim 5 does: send the text for the scheduler, and return its introduction.

        Raises PeerError and ProtocolError as above.
        """
        return batsim5.decode_hello(self._ask(batsim5.encode_start(init)))

    def _ask(self, message: bytes) -> bytes:
        if self._sees_it_leave() and self._has_answered:
            raise self._gone()
        self._has_left = False  # one that left before it received anything may be replaced
        self._send(message)
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while (reply := self._taken(self._poller.poll(_TICK_MS))) is None:
            if self._sees_it_leave():
                # The end of the connection may be detected before a reply that was sent earlier.
                if (reply := self._taken([(self._socket, self._socket.poll(_GRACE_MS))])) is not None:
                    break
                raise self._gone()
            if deadline is not None and time.monotonic() > deadline:
                raise PeerError(
                    f"no reply from {self.endpoint} within {self._timeout_s:g} s: does a scheduler run there?"
                )
        self._has_answered = True
        return reply

    def _send(self, message: bytes) -> None:
        """Send a message, or queue it for the next scheduler that connects, without blocking.

        ZeroMQ cannot queue it once it has given up a connection, as it does if a program without ZeroMQ
        listened, sent something, and disconnected: then the endpoint is connected again.
        """
        while True:
            try:
                self._socket.send(message, zmq.NOBLOCK)
            except zmq.Again:
                self._socket.disconnect(self.endpoint)
                self._socket.connect(self.endpoint)
            else:
                return

    def _taken(self, ready: list[tuple[Any, int]]) -> bytes | None:
        """Return the reply if there is one: ZeroMQ drops a message without envelope after it was ready.

        Raises PeerError for a reply of several frames.
        """
        if (self._socket, zmq.POLLIN) not in ready:
            return None
        try:
            frames = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        if len(frames) != 1:
            raise PeerError(
                f"found a reply with {len(frames)} frames from {self.endpoint}, expected one: no scheduler?"
            )
        return frames[0]

    def _sees_it_leave(self) -> bool:
        """Read the connection's events; return whether the scheduler has closed it.

        A connection that ends before its handshake received nothing: the message waits for the next.
        """
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_DISCONNECTED and self._is_connected:
                self._has_left = True
            self._is_connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
        return self._has_left

    def _gone(self) -> PeerError:
        return PeerError(f"the scheduler at {self.endpoint} disconnected during the simulation")

    def close(self) -> None:
        """Close the connection."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()
