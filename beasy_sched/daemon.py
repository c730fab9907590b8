"""The daemon: serves one simulation after another over ZeroMQ."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FrameType
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from beasy_sched.engine.observed import ObservedSession
from beasy_sched.errors import ConfigError, Interrupted, PeerError, why
from beasy_sched.limits import MOST_CONNECTIONS, MOST_MESSAGE_BYTES, MOST_OTHERS_BYTES
from beasy_sched.model.choices import HostsText
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, SimulationEnds
from beasy_sched.protocol.peers import Heard, Peers
from beasy_sched.protocol.wire import endpoint_problem, is_ipv6
from beasy_sched.signals import termination_signals

_TICK_MS = 200
_READING_PER_LOOK = 9
"""Ratio of the time for reading messages to the time that the last check of all connections took."""
_MOST_EVENTS = 1000
"""Most openings and closings of connections that are processed before a message is read."""
_MOST_WAITING = 10_000
"""Most unprocessed openings and closings: ZeroMQ accepts no others until some are processed."""
_YOUNG_S = 1.0
"""Time for a connection to deliver a simulation's first message, regardless of other connections, s."""
_FRAMING_BYTES = 11
"""Most bytes of a message on the wire in addition to its content."""
_TCP_INFO_BYTES = 136
"""Bytes of Linux's TCP_INFO up to and including tcpi_bytes_received."""
_SEND_TIMEOUT_S = 10.0
_FAREWELL_S = 5.0
"""Time for which the next message of a simulator that is still running is awaited, to end it, s."""
_FIRST_WORD_S = 10.0
_LONGEST_SILENCE_S = 3600.0
_EXAMPLE = "expected something like tcp://127.0.0.1:28000 for this machine only, or tcp://*:28000 for all"
_OPTIONS = {
    zmq.LINGER: 1000,
    zmq.MAXMSGSIZE: MOST_MESSAGE_BYTES,
    zmq.RCVHWM: 16,  # messages of one connection that wait to be read; with fewer, each costs another wake-up
    zmq.ROUTER_MANDATORY: 1,  # a reply to a connection that has ended is an error
    zmq.HANDSHAKE_IVL: 10_000,  # ms
    zmq.TCP_KEEPALIVE: 1,  # a computer that disappears without closing its connection is noticed in 2 minutes
    zmq.TCP_KEEPALIVE_IDLE: 60,
    zmq.TCP_KEEPALIVE_INTVL: 15,
    zmq.TCP_KEEPALIVE_CNT: 4,
}
_GONE = (
    "the simulator disconnected during the simulation,"
    f" or sent a message of more than {MOST_MESSAGE_BYTES >> 30} GiB"
)


class Daemon:
    """A bound ROUTER socket that answers one simulator's requests in lockstep, regardless of other peers.

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
        refused: Callable[[int, str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind ``endpoint`` (port 0 takes any free one); wait ``timeout_s`` for a simulation to begin.

        ``batsim5_hosts`` is the notation of sets of hosts for Batsim 5; None selects it by version.

        ``waiting`` is called at growing intervals, as long as no peer is connected, with the endpoint and
        the time (s) without a connection to it; ``clock`` returns the time by which that is measured, s.
        ``refused`` is called at the first message that does not begin a simulation, then at growing
        intervals, with the number of such messages and the error of the last one.

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
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        for option, value in {**_OPTIONS, zmq.IPV6: is_ipv6(endpoint)}.items():
            self._socket.setsockopt(option, value)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._waiting, self._refused, self._clock = waiting, refused, clock
        self._peers = Peers()
        self._connections: dict[int, float] = {}
        """Open connections (file descriptors), oldest first, with the times of detection, monotonic s."""
        self._sender: int | None = None
        """The connection of the last message before a simulation began; None if unknown."""
        self._peer: int | None = None
        """The connection of the current simulation; None if unknown."""
        self._read_bytes = 0
        """Bytes of the simulator's connection that have arrived and were read."""
        self._next_look_s = -math.inf
        """Time of the next check of the connections, monotonic s."""
        self._is_running = False
        """Whether a simulation is active: its simulator has neither disconnected nor received its end."""
        self._owes_reply = False
        """Whether the simulator waits for a reply."""
        self._message: Message | None = None
        """The simulator's last message; None before the first, or if it cannot be read."""
        self._stop: str | None = None
        self._old_handlers: dict[int, Any] = {}
        try:
            self._socket.bind(endpoint)
        except (zmq.ZMQError, UnicodeError) as error:
            self.close()
            raise ConfigError(f"cannot listen on {endpoint!r}: {_why_not(error)}") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __enter__(self) -> Daemon:
        if threading.current_thread() is threading.main_thread():  # else the caller handles signals
            for number in termination_signals():
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
        running: ObservedSession,
        record: Callable[[bytes, bytes], None] | None = None,
    ) -> None:
        """Serve one simulation to its end; ``record`` gets each message and reply, as they are sent.

        Only its simulator has any effect: `notices` reports the messages of others. If serving fails
        while the simulator waits for a reply, it gets one that ends it; otherwise see `dismiss`.

        Raises PeerError if the simulator violates the protocol, disconnects or does not begin in time, and
        Interrupted on a signal.
        """
        self.busy_s, self.messages, self._peer = 0.0, 0, None
        self._is_running = self._owes_reply = False
        self._peers = Peers(self._hosts)
        self._await_simulation()
        try:
            self._serve(running, record)
        except BaseException as error:
            if self._owes_reply and self._is_running:
                self._say_farewell(why(error), ended=_reports_end(self._message))
            raise

    def _serve(self, running: ObservedSession, record: Callable[[bytes, bytes], None] | None) -> None:
        """Answer messages until the simulation has ended."""
        peers, session = self._peers, running.session
        while not session.ended:
            frames = self._receive()
            begin = time.perf_counter()
            self._owes_reply, self._message = peers.is_simulators(frames), None  # even if it cannot be read
            heard = peers.hear(frames)
            if not isinstance(heard, Heard):
                self._answer_other(heard)
                continue
            self._is_running = self._owes_reply = True
            self._message = heard.message
            self._read_bytes += len(heard.raw) + _FRAMING_BYTES
            if not self.messages:
                self._begin_with(heard, record)
            self.messages += 1
            reply = peers.talk.encode(running.step(heard.message))
            self.busy_s += time.perf_counter() - begin
            if record is not None:
                record(heard.raw, reply)
            self._send(peers.reply(reply), last=session.ended)
            self._owes_reply = False
        self._is_running = False

    def dismiss(self, reason: str) -> bool:
        """End a simulator that is still running after serving has failed, in reply to its next message.

        Waits up to `_FAREWELL_S` for that message; after a signal, also for the first message of a simulator
        that has only connected so far, since Batsim connects before it reads its files. Returns whether the
        simulator may still run: it will then wait for a reply forever, and the user should know. A further
        SIGINT raises KeyboardInterrupt.
        """
        deadline_s = time.monotonic() + _FAREWELL_S
        while self._is_running or (self.stopping and not self._peers.begun and self._connections):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return True
            ready = dict(self._poller.poll(math.ceil(1000 * min(left_s, _TICK_MS / 1000))))
            if self._monitor in ready:
                with contextlib.suppress(PeerError):  # it has disconnected: there is nothing left to end
                    self._note_connections()
            if self._socket in ready:
                self._dismiss_sender(self._take(), reason)
        return False

    def _dismiss_sender(self, frames: list[bytes], reason: str) -> None:
        """Answer a message after serving has failed: the simulator's, or the first of another simulator."""
        if not self._peers.begun:
            refusal = self._peers.dismissal(frames, reason)
            if refusal is not None:
                with contextlib.suppress(zmq.ZMQError):  # it has disconnected
                    self._socket.send_multipart(refusal, zmq.NOBLOCK)
        elif self._peers.is_simulators(frames):
            message = None
            with contextlib.suppress(PeerError):
                message = self._peers.talk.decode(frames[-1])
            self._say_farewell(reason, ended=_reports_end(message))

    def _say_farewell(self, reason: str, *, ended: bool) -> None:
        """Send the simulator a reply that ends it, if possible.

        A simulation that has ``ended`` gets an ordinary reply: the simulator then writes its files.
        """
        self._is_running = self._owes_reply = False
        talk = self._peers.talk
        reply = talk.encode(Reply(0.0, [])) if ended else talk.farewell(reason)
        with contextlib.suppress(zmq.ZMQError):  # it has disconnected
            self._socket.send_multipart(self._peers.reply(reply), zmq.NOBLOCK)

    @property
    def notices(self) -> list[str]:
        """Notices to the user about the last simulation."""
        return self._peers.notices

    def close(self) -> None:
        """Close the socket after the last reply is delivered."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()

    def _await_simulation(self) -> None:
        """Start the time limit, and the intervals of notices, now."""
        self._deadline_s = math.inf if self.timeout_s is None else time.monotonic() + self.timeout_s
        self._say_waiting = _LessAndLess(self._clock, _FIRST_WORD_S)
        self._say_refused = _LessAndLess(self._clock, 0.0)

    def _receive(self) -> list[bytes]:
        """Return the frames of the next message, from any peer."""
        begun = self._peers.begun
        while True:
            if self._connections:  # only now, after the received bytes are counted
                self._watch()
            wait_ms = _TICK_MS if begun else min(_TICK_MS, self._patience_ms())
            ready = dict(self._poller.poll(wait_ms))
            if self._stop is not None:
                raise Interrupted(f"stopped by {self._stop}")
            if self._monitor in ready:  # first: a new connection may reuse the number of an old one
                self._note_connections()
            if self._socket in ready:
                return self._take()
            if not begun and self._say_waiting.is_due(wanted=not self._connections) and self._waiting:
                self._waiting(self.endpoint, self._say_waiting.passed_s)

    def _patience_ms(self) -> int:
        """Return the time left for a simulation to begin, in ms. Raises PeerError after the time limit."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            refused = "".join(f"; {notice}" for notice in self._peers.notices)
            raise PeerError(f"no simulator sent a first message within {self.timeout_s:g} s{refused}")
        return math.ceil(1000 * min(left_s, _TICK_MS))

    def _note_connections(self) -> None:
        """Process connections and disconnections. Raises PeerError if the simulator has disconnected."""
        for connection, is_new in self._events(_MOST_EVENTS):
            if not is_new and self._peers.begun and self._peer in (connection, None):
                self._is_running = False
                raise PeerError(_GONE)

    def _events(self, most: int) -> Iterator[tuple[int, bool]]:
        """Process up to ``most`` connections and disconnections; yield each with whether it connects."""
        for _ in range(most):
            if not self._monitor.poll(0):
                return
            event = recv_monitor_message(self._monitor)
            connection, is_new = int(event["value"]), event["event"] == zmq.EVENT_ACCEPTED
            if is_new:
                self._connections[connection] = time.monotonic()
            else:
                self._connections.pop(connection, None)
            yield connection, is_new

    def _watch(self) -> None:
        """Check the connections at intervals. Raises PeerError as `_cut_off_excess` does."""
        now_s = time.monotonic()
        if now_s < self._next_look_s or not self.endpoint.startswith("tcp:"):
            return
        self._cut_off_excess(now_s)
        end_s = time.monotonic()  # checking thousands may take longer than a tick
        self._next_look_s = end_s + max(_TICK_MS / 1000, _READING_PER_LOOK * (end_s - now_s))

    def _cut_off_excess(self, now_s: float) -> None:
        """Close the newest connections above the limit, and those that have sent too much.

        Raises PeerError if the simulator has sent more than one unread message.
        """
        others = [connection for connection in self._connections if connection != self._peer]
        most_bytes, young = MOST_OTHERS_BYTES, set[int]()
        if not self._peers.begun:
            most_bytes += MOST_MESSAGE_BYTES
            young = {each for each in others if now_s < self._connections[each] + _YOUNG_S}
        port = int(self.endpoint.rpartition(":")[2])
        for connection in too_many({each: _received_bytes(each, port) for each in others}, most_bytes, young):
            _cut_off(connection, port)
        if self._peer is not None and self._peers.begun:
            waiting_bytes = _received_bytes(self._peer, port) - self._read_bytes
            if waiting_bytes > MOST_MESSAGE_BYTES + MOST_OTHERS_BYTES:
                _cut_off(self._peer, port)
                self._is_running = False
                raise PeerError(
                    f"the simulator sent more than {MOST_MESSAGE_BYTES >> 30} GiB before it was answered"
                )

    def _take(self) -> list[bytes]:
        """Receive a message; record its connection as long as no simulation has begun."""
        if self._peers.begun:
            receive, more = self._socket.recv, self._socket.getsockopt
            parts = [receive()]
            while more(zmq.RCVMORE):
                parts.append(receive())
            return parts
        frames = self._socket.recv_multipart(copy=False)
        try:
            self._sender = int(frames[-1].get(zmq.SRCFD))
        except zmq.ZMQError:  # a transport without connections
            self._sender = None
        return [frame.bytes for frame in frames]

    def _begin_with(self, first: Heard, record: Callable[[bytes, bytes], None] | None) -> None:
        """Record the connection of the simulation, and the notices before it.

        Raises PeerError if the connection has ended.
        """
        for _ in self._events(_MOST_WAITING):  # also those of earlier connections with its number
            pass
        self._peer = self._sender
        if self._peer is not None and self._peer not in self._connections:
            self._is_running = False
            raise PeerError(_GONE)
        if self._peer is not None and self.endpoint.startswith("tcp:"):
            self._read_bytes = _received_bytes(self._peer, int(self.endpoint.rpartition(":")[2]))
        if first.greeting is not None:
            self.messages += 1
            if record is not None:
                record(*first.greeting)

    def _answer_other(self, frames: list[bytes] | None) -> None:
        """Send a greeting or a rejection, if possible, and report rejections to the user at intervals."""
        if frames is not None:
            with contextlib.suppress(zmq.ZMQError):  # it has disconnected, or does not read
                self._socket.send_multipart(frames, zmq.NOBLOCK)
        peers = self._peers
        if self._refused is not None and peers.refused and not peers.begun and self._say_refused.is_due():
            self._refused(peers.refused, peers.reason)

    def _send(self, frames: list[bytes], *, last: bool) -> None:
        """Send a reply to the simulator. Raises PeerError if it has disconnected, except for the ``last``."""
        deadline_s = time.monotonic() + _SEND_TIMEOUT_S
        send, (identity, delimiter, content) = self._socket.send, frames
        while True:
            try:
                send(identity, zmq.SNDMORE | zmq.NOBLOCK)  # checks that all of it can be sent
                send(delimiter, zmq.SNDMORE)
                send(content)
                return
            except zmq.ZMQError as error:
                if error.errno == zmq.EHOSTUNREACH and last:
                    return
                if error.errno == zmq.EHOSTUNREACH:
                    self._is_running = False
                    raise PeerError(_GONE) from None
                if error.errno != zmq.EAGAIN:
                    raise PeerError(f"the reply cannot be sent: {error.strerror}") from None
            if time.monotonic() > deadline_s or self._stop is not None:
                raise PeerError("the reply cannot be sent: the simulator does not receive it")
            time.sleep(_TICK_MS / 1000)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stop is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._stop = signal.Signals(number).name


def _reports_end(message: Message | None) -> bool:
    return message is not None and any(type(event) is SimulationEnds for event in message.events)


class _LessAndLess:
    """Timer for repeated notices: at growing intervals, at most once an hour."""

    def __init__(self, clock: Callable[[], float], first_s: float) -> None:
        self._clock, self._begin_s, self._next_s = clock, clock(), first_s
        self.passed_s = 0.0
        """Time since the start, at the last call."""

    def is_due(self, *, wanted: bool = True) -> bool:
        self.passed_s = self._clock() - self._begin_s
        if not wanted or self.passed_s < self._next_s:
            return False
        self._next_s = self.passed_s + min(5 * max(self._next_s, _FIRST_WORD_S), _LONGEST_SILENCE_S)
        return True


def too_many(received_bytes: Mapping[int, int], most_bytes: int, young: Collection[int] = ()) -> list[int]:
    """Return the connections to close, given the bytes that each has sent (oldest first).

    They are the newest above `MOST_CONNECTIONS`, then those that have sent most, until the others have sent
    no more than ``most_bytes`` together. The ``young`` are spared unless they have sent much already: one of
    them may be the simulator's.
    """
    connections = [*received_bytes]
    cut = connections[MOST_CONNECTIONS:]
    kept = sorted(connections[:MOST_CONNECTIONS], key=received_bytes.__getitem__)
    total_bytes = sum(map(received_bytes.__getitem__, kept))
    while total_bytes > most_bytes:
        cut.append(kept.pop())
        total_bytes -= received_bytes[cut[-1]]
    return [each for each in cut if each not in young or received_bytes[each] > MOST_OTHERS_BYTES]


def _accepted(connection: int, port: int) -> socket.socket | None:
    """Return a duplicate of a file descriptor as a socket; None unless it is a connection to our port."""
    with contextlib.ExitStack() as undo, contextlib.suppress(OSError):
        copy = os.dup(connection)
        undo.callback(os.close, copy)
        accepted = socket.socket(fileno=copy)
        undo.pop_all()
        name = accepted.getsockname()
        if isinstance(name, tuple) and name[1] == port:
            return accepted
        accepted.close()
    return None


def _received_bytes(connection: int, port: int) -> int:
    """Return the number of bytes received on a connection; 0 if the system does not provide it."""
    accepted = _accepted(connection, port)
    if accepted is None:
        return 0
    with accepted, contextlib.suppress(OSError):
        if sys.platform == "linux":
            facts = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            if len(facts) == _TCP_INFO_BYTES:
                return int.from_bytes(facts[-8:], sys.byteorder)
    return 0


def _cut_off(connection: int, port: int) -> None:
    """End a connection; ZeroMQ then closes it."""
    accepted = _accepted(connection, port)
    if accepted is not None:
        with accepted, contextlib.suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)


def _check_socket_file(endpoint: str, path: str) -> None:
    """Raise ConfigError for a file that is not a socket, or in use: ZeroMQ would delete it."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):  # no such file, or ZeroMQ reports the error in the name
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(
            f"cannot listen on {endpoint!r}: {path} exists and is not a socket; choose another name"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        with contextlib.suppress(OSError):  # not in use: left by a killed process
            probe.connect(path)
            raise ConfigError(f"cannot listen on {endpoint!r}: another program is listening there")


def _why_not(error: zmq.ZMQError | UnicodeError) -> str:
    """Return the reason why an endpoint cannot be bound, and a fix."""
    if isinstance(error, UnicodeError):
        return "the address contains non-printable characters"
    if error.errno == zmq.EADDRINUSE:
        hint = "address already in use: choose another port, or 0 for any free port"
    elif error.errno in (zmq.EADDRNOTAVAIL, errno.ENODEV):
        hint = "not an address of this computer: tcp://*:28000 listens on all of its addresses"
    else:
        hint = _EXAMPLE
    return f"{zmq.strerror(error.errno or 0)} ({hint})"
