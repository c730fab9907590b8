"""Conversations that go wrong: refused as the peer's fault, or answered without energy from nowhere."""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from effort import examples
from worlds import breaking_world, failing_world, green_world, random_world, rich_world, session_of

from beasy_sched.engine import Session
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError, Failures, PeerError
from beasy_sched.model import events as e
from beasy_sched.outputs.summary import summarize
from beasy_sched.policies.registry import built_in
from beasy_sched.protocol import batsim4, batsim5
from beasy_sched.protocol.detection import meet
from beasy_sched.run.settings import RunSettings

WANTED = ("easy", "beasy", "power-reactive", "bid-price", "energybud", "greenslot", "follow-plan", "peak")
POLICIES = [name for name in WANTED if name in built_in()]
NUMBERS = [-1, 0, 1, 2, 7, 5e-324, 1e9, 1e15, 1e300, -1e300, 2**31, 2**63, 10**30, 0.5]
VALUES = [None, True, [], {}, "", "x", "0", "1-", "5-3", "0-999999", "w0!999", "nan"]


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield (*here, key)
        yield from places(member, (*here, key))


def holder(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def notice(rng: random.Random, now: float, data: dict[str, Any], *, is_five: bool) -> dict[str, Any]:
    at_s = rng.choice([now, now, now / 2, max(now - 1.0, 0.0)])
    if not is_five:
        return {"timestamp": at_s, "type": "NOTIFY", "data": data}
    event = {"external_event_type": "GenericExternalEvent", "external_event": {"data": json.dumps(data)}}
    return {"timestamp": at_s, "event_type": "ExternalEventOccurredEvent", "event": {"id": "a", **event}}


def mutate(rng: random.Random, message: dict[str, Any], past: list[Any], *, is_five: bool) -> None:
    """Change one thing of a message: its events, their order and times, values, further events."""
    events, now = message["events"], message["now"]
    event = rng.choice(events) if events else {}
    deed = rng.randrange(10)
    if deed == 0 and events:
        events.remove(event)
    elif deed == 1:
        rng.shuffle(events)
    elif deed == 2 and events:
        event["timestamp"] = now + rng.choice([-60.0, -1.0, -1e-4, 1e-9, 1.0])
    elif deed == 3:
        message["now"] = now + rng.choice([-1.0, 1e-3, 1.0, 60.001, 3600.0, 1e9])
    elif deed in (4, 5):
        again = copy.deepcopy(rng.choice([*past, *events] or [{}]))
        if rng.random() < 0.8:
            again["timestamp"] = now
        events.insert(rng.randint(0, len(events)), again)
    elif deed == 6:
        place = rng.choice([*places(message)])
        holder(message, place)[place[-1]] = copy.deepcopy(rng.choice(NUMBERS + VALUES))
    elif deed == 7:
        place = rng.choice([*places(message)])
        del holder(message, place)[place[-1]]
    elif deed == 8:
        kind = rng.choice(["event_machine_unavailable", "event_machine_available"])
        data = {"type": kind, "resources": rng.choice(["0", "1", "0-1"])}
        events.insert(rng.randint(0, len(events)), notice(rng, now, data, is_five=is_five))
    else:
        data = {"type": "power", "power_available": rng.choice([0, 100.0, 1e4, -1])}
        events.insert(rng.randint(0, len(events)), notice(rng, now, data, is_five=is_five))


class Stop(Exception):
    """The conversation has ended."""


def talk(seed: int, *, is_five: bool) -> tuple[Session, float, bool]:
    """One conversation in which messages are mutated: the session, most watts, whether it was refused."""
    rng = random.Random(seed)
    draw = rng.choice([green_world, rich_world, failing_world, breaking_world, random_world])
    world = draw(np.random.default_rng(seed), most_jobs=12, steps=12)
    world = world.but(energy=EnergySource.MODEL) if is_five else world
    session, past, most_w = session_of(world, rng.choice(POLICIES)), [], 0.0
    side = meet(batsim5.encode_start(b"")) if is_five else meet(b'{"now":0}')
    encode = batsim5.encode_message if is_five else batsim4.encode_message
    begun, often = False, 0.2 if seed % 2 else 0.02  # most of the latter end as usual

    def decide(message: e.Message) -> Any:
        nonlocal most_w, begun
        value = json.loads(encode(message).rstrip(b"\0"))
        past.extend(copy.deepcopy(value["events"]))
        if rng.random() < often and begun:
            mutate(rng, value, past, is_five=is_five)
        begun = True
        heard = side.decode(json.dumps(value).encode() + b"\0" * is_five)
        for event in heard.events:
            if isinstance(event, e.Notify) and "power_available" in event.data:
                told = event.data["power_available"]
                most_w = max(most_w, told if isinstance(told, int | float) else 0.0)
        raw = side.encode(session.step(heard))
        if session.ended:
            raise Stop
        return side.decode_reply(raw)

    simulation = world.batsim5() if is_five else world.simulation()
    try:
        simulation.run(decide)
    except (PeerError, ConfigError):
        return session, most_w, True
    except Exception as error:  # the simulator's, where it was answered about what it had not said
        if not isinstance(error, Stop) and not _from_simulator(error):
            raise
    return session, most_w, False


def _from_simulator(error: Exception) -> bool:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and "/simulator/" in step.tb_frame.f_code.co_filename


def check_energy(session: Session, most_w: float) -> None:
    power = session.power
    if power is None:
        return
    battery = power.site.storage.battery
    for row in power.trace:
        record = row.record
        assert record.relative_residual <= 1e-6
        assert 0.0 <= record.renew_w <= most_w * (1 + 1e-6)
        assert -1e-6 <= record.battery_after_j <= battery.capacity_j + 1e-6
        gained_j = record.battery_after_j - record.battery_before_j
        given_j = (record.charge_w - record.discharge_w) * record.dt_s
        assert gained_j <= given_j + 1e-6 * battery.capacity_j + 1e-6


@pytest.mark.sampled
@pytest.mark.parametrize("is_five", [False, True], ids=["Batsim 4", "Batsim 5"])
@pytest.mark.parametrize("first", [1000, 0])
def test_a_conversation_that_goes_wrong(first: int, is_five: bool) -> None:
    refused, count = 0, max(examples(60), 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for seed in range(first, first + count):
            session, most_w, was_refused = talk(seed, is_five=is_five)
            refused += was_refused
            check_energy(session, most_w)
            summarize(session, RunSettings(), None, Failures()).to_json()
    assert count / 6 < refused < count
