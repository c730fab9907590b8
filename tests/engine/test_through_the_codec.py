"""Runs whose messages go through the codec are those without it: `serve` decides as `simulate` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from worlds import World, breaking_world, failing_world, green_world, rich_world, session_of

from beasy_sched.errors import InputError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.protocol import batsim4
from beasy_sched.protocol.detection import meet

POLICIES = ["easy", "power-reactive", "beasy", "bid-price", "greenslot", "energybud"]
WORLDS = [failing_world, breaking_world, rich_world, green_world]


def played(world: World, policy: str, *, in_bytes: bool) -> tuple[list[Reply], Any, str]:
    """The replies, the energy trace, and the error that ended the run: some machines may not return."""
    session, replies, end = session_of(world, policy), [], ""
    talk = meet(b'{"now":0}')

    def decide(message: Message) -> Reply:
        if in_bytes:
            heard = talk.decode(batsim4.encode_message(message))
            reply = talk.decode_reply(talk.encode(session.step(heard)))
        else:
            reply = session.step(message)
        replies.append(reply)
        return reply

    try:
        world.simulation().run(decide)
    except InputError as error:
        end = str(error)
    return replies, None if session.power is None else session.power.trace, end


@pytest.mark.sampled
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_run(policy: str) -> None:
    for seed, draw in enumerate(WORLDS):
        world = draw(np.random.default_rng([seed, len(policy)]), most_jobs=20, steps=12)
        called = played(world, policy, in_bytes=False)
        told = played(world, policy, in_bytes=True)
        assert told[2] == called[2]
        assert repr(told[0]) == repr(called[0])
        assert repr(told[1]) == repr(called[1])
