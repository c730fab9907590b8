"""Every job that has ended is shown once to each of a policy's two methods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from talk import Talk, completed, production, small_battery, submitted
from worlds import random_world

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import events as e
from beasy_sched.policies.reactive import PowerReactive


def ids(view: View) -> list[str]:
    return [job.id for job in view.ended]


def test_a_job_that_ends_as_a_step_begins_is_seen_by_both_methods() -> None:
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    talk.run_job(1.0, "a", "0")
    talk.run_job(1.0, "b", "1")
    at_step: list[list[str]] = []
    at_event: list[list[str]] = []

    def see_step(view: View) -> Sequence[Action]:
        at_step.append(ids(view))
        return ()

    def see_event(view: View) -> Sequence[Action]:
        at_event.append(ids(view))
        return ()

    talk.ask(30.0, see_event, completed(30.0, "b", "1"))
    talk.policy.say_at_step = see_step
    talk.ask(60.0, see_event, completed(60.0, "a"), production(60.0, 500.0))
    assert at_step == [["w0!b", "w0!a"]]
    assert at_event == [["w0!b"], ["w0!a"]]
    talk.policy.say_at_step = see_step
    talk.ask(120.0, see_event, submitted(120.0, "c"), production(120.0, 500.0))
    assert (at_step[1:], at_event[2:]) == ([[]], [[]])


class Counting(PowerReactive):
    """Notes what it is shown, and which jobs have been running."""

    def begin(self, view: View) -> None:
        super().begin(view)
        self.at_step: list[str] = []
        self.at_event: list[str] = []
        self.ran: set[str] = set()

    def power_actions(self, view: View) -> Sequence[Action]:
        self.at_step += ids(view)
        assert not self.ran - view.running.keys() - set(self.at_step)
        return super().power_actions(view)

    def schedule(self, view: View) -> Sequence[Action]:
        self.at_event += ids(view)
        assert not self.ran - view.running.keys() - set(self.at_event)
        self.ran |= view.running.keys()
        return super().schedule(view)


@pytest.mark.slow
def test_none_is_missed_or_shown_twice_whatever_happens() -> None:
    seen = 0
    for seed in range(20):
        world = random_world(np.random.default_rng(seed), most_jobs=40)
        policy = Counting()
        session = Session(policy, SessionOptions(site=world.site, windows=world.windows))
        world.simulation().run(session.step)
        assert len(policy.at_step) == len(set(policy.at_step))
        assert len(policy.at_event) == len(set(policy.at_event))
        seen += len(policy.at_event)
    assert seen > 40
