"""One instant told in several messages, as Batsim may do: the books are the same as with one message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from effort import examples
from engine.guard_steps import BUSY_J, FALLING_J, IDLE_J, at_soc_min
from engine.test_rates import STEP_S, metered, power, site
from hypothesis import given, settings
from hypothesis import strategies as st
from talk import Talk, completed, only, production, small_battery
from worlds import World, failing_world, green_world, rich_world

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action
from beasy_sched.engine.policy import Policy, View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.outputs.deadline_table import deadlines_part


class Onlooker(Policy):
    """Does nothing, so that what happens depends on the messages alone."""

    def schedule(self, view: View) -> Sequence[Action]:
        return ()


def onlooker(world: World) -> Session:
    options = SessionOptions(
        site=world.site, windows=world.windows, energy=EnergySource.MODEL, power_actions=False
    )
    return Session(Onlooker(), options)


@settings(max_examples=examples(25), deadline=None)
@given(st.sampled_from([rich_world, green_world, failing_world]), st.integers(0, 2**32 - 1))
def test_the_books_do_not_depend_on_how_events_are_grouped(draw, seed: int) -> None:
    """Production that changes at a boundary and within, and hosts that leave and return."""
    world = draw(np.random.default_rng(seed))
    whole, apart = onlooker(world), onlooker(world)

    def decide(message: e.Message) -> d.Reply:
        for event in message.events or [None]:
            apart.step(e.Message(message.now, [] if event is None else [event]))
        return whole.step(message)

    world.simulation().run(decide)
    assert whole.power is not None
    assert apart.power is not None
    assert apart.power.trace == whole.power.trace
    assert apart.outcomes.counts() == whole.outcomes.counts()
    assert apart.workflows.early.keys() == whole.workflows.early.keys()
    assert deadlines_part(apart.workflows.with_deadline) == deadlines_part(whole.workflows.with_deadline)


@pytest.mark.parametrize("rates_first", [False, True])
def test_rates_that_come_beside_the_production_of_their_instant_count_for_their_step(
    rates_first: bool,
) -> None:
    """One message opens the step; the other may come before or after it."""
    talk = Talk(site=site(), energy=EnergySource.MODEL)
    talk.at(0.0, power(0.0))
    with_rates, without = power(STEP_S, import_price_per_kwh=0.5), power(STEP_S)
    for event in (with_rates, without) if rates_first else (without, with_rates):
        talk.at(STEP_S, event)
    talk.at(2 * STEP_S, power(2 * STEP_S))
    assert metered(talk) == [pytest.approx(pair) for pair in [(0.1, 400), (0.5, 400)]]


def test_rates_that_come_before_the_answer_to_the_query_count_for_the_next_step() -> None:
    talk = Talk(site=site())
    talk.at(0.0, power(0.0))
    assert only(d.QueryEnergy, talk.at(STEP_S, power(STEP_S)))
    talk.at(STEP_S, power(STEP_S, import_price_per_kwh=0.5))
    talk.at(STEP_S, e.EnergyAnswer(STEP_S, 4 * 50.0 * STEP_S))
    talk.at(2 * STEP_S, power(2 * STEP_S))
    talk.at(2 * STEP_S, e.EnergyAnswer(2 * STEP_S, 4 * 50.0 * 2 * STEP_S))
    assert metered(talk) == [pytest.approx(pair) for pair in [(0.1, 400), (0.5, 400)]]


def test_production_told_twice_in_an_instant_counts_as_told_last() -> None:
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    talk.at(60.0, production(60.0, 300.0))
    talk.at(60.0, production(60.0, 500.0))
    budget = talk.session.view.budget
    assert budget is not None
    assert budget.renew_w == 500.0
    talk.at(120.0, production(120.0, 0.0))
    assert [row.record.renew_w for row in talk.session.power.trace] == [100.0, 500.0]  # type: ignore[union-attr]


def test_a_job_that_ends_at_the_boundary_after_the_guard_has_doomed_it_is_not_killed() -> None:
    """Its end comes in the second message of the instant; the budget has already counted what that saves."""
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    talk.at(60.0, production(60.0, (2 * BUSY_J + 2 * FALLING_J - 1) / 60))
    budget = talk.session.view.budget
    assert budget is not None
    headroom_j = budget.headroom_j
    assert "w0!a" in {job for _, what, job, _, _ in talk.log if what == "kill"}
    talk.at(60.0, completed(60.0, "a", "0-1"))
    assert budget.headroom_j == pytest.approx(headroom_j)
    assert only(d.KillJobs, talk.at(60.001, e.RequestedCall(60.001))) == []
    assert talk.session.outcomes.counts()["finished"] == 1


def test_a_job_that_ends_at_the_boundary_after_the_guard_gives_its_energy_back() -> None:
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    talk.at(60.0, production(60.0, (2 * BUSY_J + 2 * IDLE_J) / 60))
    budget = talk.session.view.budget
    assert budget is not None
    assert budget.headroom_j == pytest.approx(0.0, abs=1e-3)
    talk.at(60.0, completed(60.0, "a", "0-1"))
    assert budget.headroom_j == pytest.approx(2 * (BUSY_J - IDLE_J))
