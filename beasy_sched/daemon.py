"""The daemon: serves one simulation after another over ZeroMQ."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from beasy_sched.engine import Session
from beasy_sched.errors import ConfigError, Interrupted, PeerError
from beasy_sched.formats.atomic import ENDING_SIGNALS
from beasy_sched.limits import MOST_MESSAGE_BYTES
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.protocol.detection import HostsText, Talk, meet
from beasy_sched.protocol.wire import endpoint_problem, is_ipv6

_TICK_MS = 200
_SEND_TIMEOUT_S = 10.0
_FIRST_WORD_S = 10.0
_LONGEST_SILENCE_S = 3600.0
_EXAMPLE = "expected something like tcp://*:28000, or tcp://127.0.0.1:28000 for this machine only"
_KEEPALIVE_S = {zmq.TCP_KEEPALIVE_IDLE: 60, zmq.TCP_KEEPALIVE_INTVL: 15, zmq.TCP_KEEPALIVE_CNT: 4}
"""A machine that disappears without closing its connection is noticed within two minutes."""
_BUSY = b'{"error":"this scheduler serves another simulation"}'
"""Not a valid reply for Batsim: a second simulator aborts instead of waiting forever."""


class Daemon:
    """A bound REP socket that answers a simulator's requests in lockstep.

    As a context manager it also turns SIGINT, SIGTERM and SIGHUP into `Interrupted`; a further SIGINT
    stops at once.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float | None = None,
        batsim5_hosts: HostsText | None = None,
        waiting: Callable[[str, float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind ``endpoint`` (port 0 takes any free one); wait ``timeout_s`` for a first message.

        ``batsim5_hosts`` is how sets of hosts are written for a Batsim 5; None goes by its version.

        ``waiting`` is called now and then, at growing intervals, as long as nobody is connected, with the
        endpoint and the time (s) without a connection to it; ``clock`` tells the time by which that is
        measured, s.

        Raises ConfigError for an endpoint that cannot be bound or reached.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigError(f"timeout: found {timeout_s} s, expected more than 0")
        problem = endpoint_problem(endpoint, any_port=True)
        if problem is not None:
            raise ConfigError(f"cannot listen on {endpoint!r}: {problem} ({_EXAMPLE})")
        transport, _, place = endpoint.partition("://")
        if transport == "ipc" and not place.startswith(("@", "*")):
            _check_socket_file(endpoint, place)
        self.timeout_s, self._hosts = timeout_s, batsim5_hosts
        self.busy_s = 0.0
        """Time spent on messages of the last simulation, without waiting."""
        self.messages = 0
        """Number of messages of the last simulation."""
        self.notices: list[str] = []
        """Notices to the user about the last simulation."""
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        options = {zmq.LINGER: 1000, zmq.MAXMSGSIZE: MOST_MESSAGE_BYTES, zmq.IPV6: is_ipv6(endpoint)}
        for option, value in {**options, zmq.TCP_KEEPALIVE: 1, **_KEEPALIVE_S}.items():
            self._socket.setsockopt(option, value)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._waiting, self._clock = waiting, clock
        self._connections: set[int] = set()
        """Open connections (file descriptors)."""
        self._peer: int | None = None
        """The connection (a file descriptor) of the present simulation."""
        self._stop: str | None = None
        self._old_handlers: dict[int, Any] = {}
        try:
            self._socket.bind(endpoint)
        except (zmq.ZMQError, UnicodeError) as error:
            self.close()
            raise ConfigError(f"cannot listen on {endpoint!r}: {_why_not(error)}") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __enter__(self) -> Daemon:
        if threading.current_thread() is threading.main_thread():  # else whoever runs us handles signals
            for number in ENDING_SIGNALS:
                under_nohup = signal.getsignal(number) is signal.SIG_IGN and number != signal.SIGINT
                if not under_nohup:
                    self._old_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    @property
    def stopping(self) -> bool:
        """Whether a signal has asked the daemon to stop."""
        return self._stop is not None

    def serve(
        self,
        session: Session,
        record: Callable[[bytes, bytes], None] | None = None,
        step: Callable[[Message], Reply] | None = None,
    ) -> None:
        """Serve one simulation to its end; ``step`` takes the place of the session's own.

        Raises PeerError if the simulator violates the protocol, disconnects or sends no first message in
        time, and Interrupted on a signal.
        """
        self.busy_s, self.messages, self.notices, self._peer = 0.0, 0, [], None
        step = step or session.step
        talk: Talk | None = None
        while not session.ended:
            raw = self._receive(self.timeout_s if self.messages == 0 else None)
            begin = time.perf_counter()
            self.messages += 1
            if talk is None and (talk := meet(raw, self._hosts)).greeting is not None:
                reply = talk.greeting
            else:
                reply = talk.encode(step(talk.decode(raw)))
            self.busy_s += time.perf_counter() - begin
            if record is not None:
                record(raw, reply)
            self._send(reply)

    def close(self) -> None:
        """Close the socket; the last reply is still delivered."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()

    def _receive(self, timeout_s: float | None) -> bytes:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        since_s = self._clock()
        word_s = _FIRST_WORD_S
        while True:
            left_s = math.inf if deadline is None else max(deadline - time.monotonic(), 0.0)
            ready = dict(poller.poll(_TICK_MS if left_s > _TICK_MS / 1000 else math.ceil(1000 * left_s)))
            if self._stop is not None:
                raise Interrupted(f"stopped by {self._stop}")
            if self._monitor in ready:  # first: a new connection may have the number of an old one
                self._note_connection()
            elif self._socket in ready:
                message = self._take()
                if message is not None:
                    return message
            waited_s = self._clock() - since_s
            if self._waiting is not None and waited_s >= word_s and not (self.messages or self._connections):
                self._waiting(self.endpoint, waited_s)
                word_s = waited_s + min(5 * word_s, _LONGEST_SILENCE_S)
            if deadline is not None and time.monotonic() >= deadline:
                raise PeerError(f"no simulator sent a first message within {timeout_s:g} s")

    def _note_connection(self) -> None:
        """Process a connection or disconnection."""
        event = recv_monitor_message(self._monitor)
        connection = int(event["value"])
        if event["event"] == zmq.EVENT_ACCEPTED:
            self._connections.add(connection)
            return
        self._connections.discard(connection)
        if self.messages and self._peer in (connection, None):
            raise PeerError("the simulator disconnected in the middle of the simulation")

    def _take(self) -> bytes | None:
        """Receive a message; None if it is from another simulator than the one being served."""
        frames = self._socket.recv_multipart(copy=False)
        try:
            sender = frames[0].get(zmq.SRCFD)
        except zmq.ZMQError:  # a transport without connections
            sender = None
        if self.messages == 0:
            self._peer = sender
        elif sender != self._peer:
            self._send(_BUSY)
            self.notices = ["another simulator tried to connect and was rejected"]
            return None
        if len(frames) != 1:
            raise PeerError(f"found a message with {len(frames)} frames, expected one: is the peer Batsim?")
        return frames[0].bytes

    def _send(self, reply: bytes) -> None:
        if not self._socket.poll(int(_SEND_TIMEOUT_S * 1000), zmq.POLLOUT):
            raise PeerError("the reply cannot be sent: the simulator does not receive it")
        try:
            self._socket.send(reply, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise PeerError(f"the reply cannot be sent: {error.strerror}") from None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stop is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._stop = signal.Signals(number).name


def _check_socket_file(endpoint: str, path: str) -> None:
    """Raise ConfigError for a file that is not a socket, or in use: ZeroMQ would delete it."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):  # no such file, or ZeroMQ reports what is wrong with the name
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(
            f"cannot listen on {endpoint!r}: {path} exists and is not a socket; choose another name"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        with contextlib.suppress(OSError):  # not in use: left by a killed process
            probe.connect(path)
            raise ConfigError(f"cannot listen on {endpoint!r}: another program listens there")


def _why_not(error: zmq.ZMQError | UnicodeError) -> str:
    """Return why an endpoint cannot be bound, and what to do."""
    if isinstance(error, UnicodeError):
        return "it is not plain text"
    if error.errno == zmq.EADDRINUSE:
        hint = "in use by another program: choose another port, or 0 for any"
    elif error.errno in (zmq.EADDRNOTAVAIL, errno.ENODEV):
        hint = "this machine does not have this address: tcp://*:28000 listens on all of its addresses"
    else:
        hint = _EXAMPLE
    return f"{zmq.strerror(error.errno or 0)} ({hint})"
