"""The simulator's side of the wire: a REQ socket that connects to a scheduler."""

from __future__ import annotations

import time

import zmq
from zmq.utils.monitor import recv_monitor_message

from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.protocol import batsim4

_TICK_MS = 500


class ZmqScheduler:
    """A scheduler in another process; call it with a message for its reply."""

    def __init__(self, endpoint: str, *, timeout_s: float | None = None) -> None:
        """Connect to ``endpoint``, whether or not anyone listens yet.

        ``timeout_s`` limits the wait for each reply. Raises ConfigError for a bad endpoint.
        """
        self.endpoint = endpoint
        self._timeout_s = timeout_s
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        events = zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        self._monitor = self._socket.get_monitor_socket(events)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(
                f"cannot connect to {endpoint!r}: {error.strerror} (expected something like tcp://localhost:28000)"
            ) from None

    def __call__(self, message: Message) -> Reply:
        """Send a message and wait for the reply.

        Raises PeerError when the scheduler vanishes or exceeds the time limit, ProtocolError when its
        reply cannot be read.
        """
        self._socket.send(batsim4.encode_message(message))
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            ready = dict(self._poller.poll(_TICK_MS))
            if self._socket in ready:
                return batsim4.decode_reply(self._socket.recv())
            if self._monitor in ready:
                event = recv_monitor_message(self._monitor)["event"]
                if event == zmq.EVENT_DISCONNECTED:
                    raise PeerError(
                        f"the scheduler at {self.endpoint} has gone away in the middle of the simulation"
                    )
            if deadline is not None and time.monotonic() > deadline:
                raise PeerError(
                    f"no reply from {self.endpoint} within {self._timeout_s:g} s: does a scheduler run there?"
                )

    def close(self) -> None:
        """Close the connection."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()
