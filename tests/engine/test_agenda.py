"""The agenda: one entry an owner, done by turn, and the time of the next call."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from beasy_sched.engine.agenda import Agenda, Due, Turn
from beasy_sched.units import TIME_TOLERANCE_S

NO_CALL = (Turn.PLAN,)


def entries(agenda: Agenda, done: list[Turn]) -> dict[Turn, Due]:
    """An entry of each turn, made in the opposite order, which notes its turn and is then at rest."""

    def act(turn: Turn) -> Callable[[], None]:
        def note() -> None:
            done.append(turn)
            made[turn].move(math.inf)

        return note

    made: dict[Turn, Due] = {}
    for turn in reversed(Turn):
        made[turn] = agenda.enter(turn, act(turn), needs_call=turn not in NO_CALL)
    return made


def test_what_is_due_in_one_message_is_done_by_turn_not_by_time() -> None:
    done: list[Turn] = []
    agenda = Agenda()
    made = entries(agenda, done)
    for at_s, turn in enumerate((Turn.KILLS, Turn.STEP, Turn.HOSTS, Turn.RELEASES)):
        made[turn].move(float(at_s))
    agenda.run(10.0, Turn.RELEASES, Turn.KILLS)
    assert done == [Turn.RELEASES, Turn.HOSTS, Turn.STEP, Turn.KILLS]
    agenda.run(10.0, Turn.RELEASES, Turn.KILLS)
    assert len(done) == 4


def test_only_the_turns_that_are_named_are_done() -> None:
    done: list[Turn] = []
    agenda = Agenda()
    for entry in entries(agenda, done).values():
        entry.move(1.0)
    agenda.run(1.0, Turn.RELEASES, Turn.KILLS)
    assert done == [Turn.RELEASES, Turn.HOSTS, Turn.STEP, Turn.KILLS]
    agenda.run(1.0, Turn.PLAN, Turn.PLAN)
    assert done[4:] == [Turn.PLAN]
    assert agenda.next_s == 1.0  # the policy's call


@pytest.mark.parametrize(("early_s", "done"), [(0.0, True), (0.9, True), (1.1, False)])
def test_a_message_may_come_a_rounding_too_early(early_s: float, done: bool) -> None:
    acted: list[Turn] = []
    agenda = Agenda()
    entries(agenda, acted)[Turn.STEP].move(60.0)
    agenda.run(60.0 - early_s * TIME_TOLERANCE_S, Turn.RELEASES, Turn.CALL)
    assert acted == [Turn.STEP] * done


def test_an_owner_that_moves_a_later_turn_to_now_has_it_done_in_the_same_message() -> None:
    done: list[str] = []
    agenda = Agenda()

    def kill() -> None:
        done.append("kills")
        kills.move(math.inf)

    def step() -> None:
        done.append("step")
        clock.move(120.0)
        kills.move(60.0)

    kills, clock = agenda.enter(Turn.KILLS, kill), agenda.enter(Turn.STEP, step)
    clock.move(60.0)
    agenda.run(60.0, Turn.RELEASES, Turn.KILLS)
    assert done == ["step", "kills"]
    assert agenda.next_s == 120.0


def test_an_entry_without_a_need_of_a_call_waits_for_a_message() -> None:
    done: list[Turn] = []
    agenda = Agenda()
    made = entries(agenda, done)
    made[Turn.PLAN].move(5.0)
    assert (agenda.next_s, agenda.next_call_s()) == (5.0, math.inf)
    made[Turn.HOSTS].move(7.0)
    assert (agenda.next_s, agenda.next_call_s()) == (5.0, 7.0)
    made[Turn.HOSTS].needs_call = False
    assert agenda.next_call_s() == math.inf


def test_only_an_earlier_time_advances_an_entry() -> None:
    agenda = Agenda()
    call = agenda.enter(Turn.CALL)
    for at_s, expected_s in ((30.0, 30.0), (20.0, 20.0), (40.0, 20.0)):
        call.advance(at_s)
        assert call.at_s == agenda.next_s == expected_s


def test_the_first_entry_is_known_however_they_are_moved() -> None:
    rng = random.Random(1)
    agenda = Agenda()
    made = [*entries(agenda, []).values()]
    for _ in range(2000):
        rng.choice(made).move(rng.choice([-math.inf, 0.0, 1.0, 2.0, 3.0, math.inf]))
        assert agenda.next_s == min(entry.at_s for entry in made)
