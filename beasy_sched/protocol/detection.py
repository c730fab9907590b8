"""Detection of the Batsim version from the first message, and its protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from beasy_sched.errors import ProtocolError
from beasy_sched.model.choices import HostsText
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, SimulationBegins
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.batsim5_rules import Rules
from beasy_sched.protocol.farewell import farewell4, farewell5


class Talk(NamedTuple):
    """Protocol of one simulator: functions that read its messages and write replies."""

    protocol: str
    decode: Callable[[bytes], Message]
    """Read a message of the simulator. Raises ProtocolError."""
    encode: Callable[[Reply], bytes]
    """Write the reply to the last message read. Raises DecisionRefused if it must not be sent."""
    decode_reply: Callable[[bytes], Reply]
    """Read a previously written reply."""
    farewell: Callable[[str], bytes]
    """Write a reply at which the simulator aborts, naming a reason."""
    greeting: bytes | None = None
    """Reply to the first message, if that is only a handshake."""


def meet(first: bytes, hosts: HostsText | None = None) -> Talk:
    """Recognize the protocol by the first message: that of Batsim 4 is JSON, that of Batsim 5 is not.

    ``hosts`` is the separator of sets of hosts for a Batsim 5; None uses that of its reported version.

    Raises ProtocolError for a development version of Batsim 5 that is not supported.
    """
    if batsim5.is_start(first):
        side = _Batsim5(batsim5.decode_start(first), hosts)
        hello = batsim5.Hello(features=batsim5.RequestedFeatures(forward_profiles_on_simulation_begins=True))
        greeting = batsim5.encode_hello(hello)
        return Talk("Batsim 5", side.decode, side.encode, batsim5.decode_reply, farewell5, greeting)
    if batsim5.is_old_start(first):
        raise ProtocolError(
            "$",
            "found the handshake of a development version of Batsim 5 from before April 2025: use Batsim 4,"
            " or 5.0.0-rc2 or later",
        )
    return Talk("Batsim 4", batsim4.decode_message, batsim4.encode_reply, batsim4.decode_reply, farewell4)


class _Batsim5:
    """The scheduler's side of a session with Batsim 5: its codec behind its rules."""

    def __init__(self, init: bytes, hosts: HostsText | None) -> None:
        self._rules = Rules()
        self._init = init.decode("utf-8", "replace")
        self._hosts = hosts

    def decode(self, raw: bytes) -> Message:
        message = self._rules.hear(batsim5.decode_message(raw))
        if message.events and isinstance(message.events[0], SimulationBegins):
            return self._begun(message, message.events[0])
        return message

    def _begun(self, message: Message, begins: SimulationBegins) -> Message:
        """Add the init string as Batsim 4's scheduler configuration; record the version."""
        if self._hosts is None:
            version = str(begins.config.get("batsim_version", ""))
            early = version.endswith(("-rc0", "-rc1"))
            self._hosts = HostsText.COMMA if early else HostsText.SPACE
        config = {**begins.config, "sched-config": self._init}
        with_config = msgspec.structs.replace(begins, config=config)
        return msgspec.structs.replace(message, events=[with_config, *message.events[1:]])

    def encode(self, reply: Reply) -> bytes:
        separator = "," if self._hosts is HostsText.COMMA else " "
        return batsim5.encode_reply(self._rules.allow(reply), separator)
