"""Identification of peers on the listening socket: the current simulator, other simulators, other programs.

A message is a list of frames, as a ROUTER socket receives them: the sender's identity, an empty delimiter,
and Batsim's message. This module does not use sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from beasy_sched.errors import PeerError, ProtocolError
from beasy_sched.limits import MOST_CANDIDATES, MOST_START_BYTES
from beasy_sched.model.choices import HostsText
from beasy_sched.model.events import Message, SimulationBegins
from beasy_sched.protocol.detection import Talk, meet

Frames = Sequence[bytes]

BUSY: Final = b'{"error":"this scheduler serves another simulation"}'
NOT_A_BEGIN: Final = b'{"error":"this is not the beginning of a simulation"}'
"""Invalid replies for Batsim: a simulator that receives one aborts instead of waiting forever."""

_INTRUDER: Final = "another simulator tried to connect and was rejected"
_NOISE: Final = "ignored messages from other programs that do not follow Batsim's protocol"


class Heard(NamedTuple):
    """Message of the current simulator."""

    raw: bytes
    message: Message
    greeting: tuple[bytes, bytes] | None = None
    """Handshake (the simulator's message and the reply), only with its first message."""


class _Candidate(NamedTuple):
    """Peer that received a handshake, as Batsim 5 does, and has not begun a simulation yet."""

    talk: Talk
    greeting: tuple[bytes, bytes]


class Peers:
    """Distinguishes the simulator of one session from other peers.

    It is the first peer to send a valid SIMULATION_BEGINS.
    """

    def __init__(self, hosts: HostsText | None = None) -> None:
        """``hosts`` is the separator of sets of hosts for a Batsim 5; None uses that of its version."""
        self._hosts = hosts
        self._peer: bytes | None = None
        self._talk: Talk | None = None
        self._candidates: dict[bytes, _Candidate] = {}
        self.refused = 0
        """Number of messages rejected before the simulation began."""
        self.reason = ""
        """Reason why the last message was rejected before the simulation began."""
        self._later: dict[str, None] = {}
        """Notices on messages of other peers during the simulation."""

    @property
    def begun(self) -> bool:
        """Whether a simulator has begun its simulation."""
        return self._peer is not None

    @property
    def talk(self) -> Talk:
        """Protocol of the simulator. Available only after one has begun."""
        if self._talk is None:
            raise RuntimeError("no simulator has begun")
        return self._talk

    @property
    def notices(self) -> list[str]:
        """Return warnings about other peers: a few lines for any number of messages."""
        if not self.refused:
            return [*self._later]
        count = "a message was" if self.refused == 1 else f"{self.refused} messages were"
        return [f"{count} rejected before the simulation began; the last one: {self.reason}", *self._later]

    def hear(self, frames: Frames) -> Heard | list[bytes] | None:
        """Return the simulator's message, or the frames to send to another peer, or None.

        Raises PeerError for invalid messages of the simulator after it has begun.
        """
        if frames[0] == self._peer:
            raw = _content(frames)
            return Heard(raw, self.talk.decode(raw))
        if self._peer is not None:
            return self._turn_away(frames)
        try:
            return self._meet(frames[0], _content(frames))
        except PeerError as error:
            self._candidates.pop(frames[0], None)
            self.refused += 1
            self.reason = str(error)
            return _framed(frames[0], NOT_A_BEGIN) if _has_envelope(frames) else None

    def is_simulators(self, frames: Frames) -> bool:
        """Whether a message is from the current simulator."""
        return self._peer is not None and frames[0] == self._peer

    def dismissal(self, frames: Frames, reason: str) -> list[bytes] | None:
        """Return the frames that end a simulator that has not begun; None if the peer awaits no reply."""
        if not _has_envelope(frames):
            return None
        try:
            farewell = meet(frames[-1], self._hosts).farewell
        except ProtocolError:
            return _framed(frames[0], NOT_A_BEGIN)
        return _framed(frames[0], farewell(reason))

    def reply(self, raw: bytes) -> list[bytes]:
        """Return the frames of a reply to the simulator."""
        return _framed(self._peer or b"", raw)

    def _meet(self, sender: bytes, raw: bytes) -> Heard | list[bytes]:
        """Reply to a handshake or begin. Raises PeerError for an invalid first message."""
        candidate = self._candidates.get(sender)
        talk = candidate.talk if candidate is not None else meet(raw, self._hosts)
        if candidate is None and talk.greeting is not None:
            return self._greet(sender, raw, talk, talk.greeting)
        message = talk.decode(raw)
        if not message.events or type(message.events[0]) is not SimulationBegins:
            raise PeerError("the first event of a simulation must be SIMULATION_BEGINS")
        self._peer, self._talk = sender, talk
        self._candidates.clear()
        return Heard(raw, message, None if candidate is None else candidate.greeting)

    def _greet(self, sender: bytes, raw: bytes, talk: Talk, greeting: bytes) -> list[bytes]:
        if len(raw) > MOST_START_BYTES:
            raise ProtocolError("$", f"the init string has more than {MOST_START_BYTES:,} bytes")
        if len(self._candidates) >= MOST_CANDIDATES:
            del self._candidates[next(iter(self._candidates))]  # it has probably disconnected
        self._candidates[sender] = _Candidate(talk, (raw, greeting))
        return _framed(sender, greeting)

    def _turn_away(self, frames: Frames) -> list[bytes] | None:
        if _has_envelope(frames):
            self._later[_INTRUDER] = None
            return _framed(frames[0], BUSY)
        self._later[_NOISE] = None
        return None


def _has_envelope(frames: Frames) -> bool:
    """Whether there is a delimiter followed by content, so that the sender waits for a reply."""
    return len(frames) > 2 and not frames[1]


def _content(frames: Frames) -> bytes:
    """Return the message. Raises PeerError if the frames are not those of one message."""
    if not _has_envelope(frames):
        raise PeerError("found a message without an envelope, expected a REQ socket: is the peer Batsim?")
    if len(frames) != 3:
        raise PeerError(f"found a message with {len(frames) - 2} frames, expected one: is the peer Batsim?")
    return frames[2]


def _framed(identity: bytes, raw: bytes) -> list[bytes]:
    return [identity, b"", raw]
