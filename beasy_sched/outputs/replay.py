"""Replay of a recording: the simulator's messages again, and the first answer that differs."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.limits import shortened
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.platform import Platform
from beasy_sched.outputs.recording import Recording
from beasy_sched.policies.registry import check_named_in_data
from beasy_sched.protocol import batsim4
from beasy_sched.settings import build_session


def replay(
    recording: Recording, *, policy: str | None = None, platform: Platform | None = None
) -> tuple[int, str | None]:
    """Return how many messages were answered alike, and what differs first (None: nothing).

    ``policy`` replaces the recorded one, or, where it is the same, allows its code to be imported. Raises
    InputError for a damaged recording, and for one of a ``package.module:Class`` that ``policy`` does not
    name.
    """
    settings = recording.settings
    if policy is None:
        name = settings.policy
        try:
            check_named_in_data(name, (), f"name it with --policy {shortened(name)}")
        except ConfigError as error:
            raise InputError(recording.path, str(error)) from None
    elif policy != settings.policy:
        settings = msgspec.structs.replace(settings, policy=policy, options={})
    session = build_session(settings, platform=platform)
    count = 0
    for message, recorded in recording.exchanges():
        try:
            decoded = batsim4.decode_message(message)
            reply = session.step(decoded)
        except BeasyError as error:
            return count, f"message {count + 1}: now it fails: {error}"
        if batsim4.encode_reply(reply) != recorded:
            return count, _difference(count + 1, decoded.now, batsim4.decode_reply(recorded), reply)
        count += 1
    return count, None


def _difference(number: int, now: float, recorded: Reply, found: Reply) -> str:
    pairs = zip_longest(recorded.decisions, found.decisions)
    for index, (old, new) in enumerate(pairs, 1):
        if old != new:
            return (
                f"message {number} at {now:.6f} s, decision {index}:\n"
                f"  recorded  {_words(old)}\n  now       {_words(new)}"
            )
    return f"message {number} at {now:.6f} s: the replies' times differ: {recorded.now} and {found.now}"


def _words(decision: Decision | None) -> str:
    if decision is None:
        return "nothing more"
    fields = msgspec.structs.asdict(decision)
    fields.pop("timestamp")
    told = ", ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    return f"{type(decision).__name__} {told}".rstrip()
