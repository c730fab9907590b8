"""The EASY pass, and servers to sleep and to wake, as authors of policies use them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from beasy_sched.engine.policy import View
from beasy_sched.model.host_states import ASLEEP, IDLE
from beasy_sched.policies import (
    EASY_WORDS,
    Action,
    EasyPass,
    HostSet,
    Job,
    Policy,
    Postpone,
    SetPState,
    by_arrival,
)
from beasy_sched.testing import check_policy

ROOM = 2
"""Hosts that wide jobs leave."""


class NarrowPass(EasyPass):
    def wanted(self, job: Job) -> bool:
        if job.res <= self.view.platform.size - ROOM:
            return True
        if self.view.wants_reason(job, "too wide"):
            self.actions.append(Postpone(job, "too wide"))
        return False


class Narrow(Policy):
    """EASY without jobs that take nearly all hosts; idle servers sleep."""

    name = "narrow"
    summary = "EASY without wide jobs; idle servers sleep"
    words = EASY_WORDS
    needs_power = True  # without a site wide jobs would wait for ever

    def power_actions(self, view: View) -> Sequence[Action]:
        idle = view.free_mask().nonzero()[0]
        return view.sleep(reversed(idle.tolist()), "nothing to do") if not len(view.queue) else []

    def schedule(self, view: View) -> Sequence[Action]:
        done = NarrowPass(view, by_arrival, by_arrival)
        actions = [*done.run()]
        asleep = ((view.host_state == ASLEEP) & view.available).nonzero()[0]
        missing = view.queue.hosts_asked - sum(job.res for job in done.started) - done.free
        return [*actions, *view.wake(asleep[: max(0, missing)], "jobs wait")]


@pytest.mark.slow
def test_a_policy_on_the_pass_keeps_all_rules() -> None:
    check = check_policy(Narrow, runs=15)
    assert check.outcomes["finished"] > 10
    assert check.outcomes["postponed"] > check.of_easy["postponed"]  # the wide jobs


class Recorder(Policy):
    """Asks for P-states at the start of the first step."""

    name = "recorder"
    summary = "tells what sleep and wake return"
    needs_power = True
    found: list[list[Action]]

    def power_actions(self, view: View) -> Sequence[Action]:
        hosts = np.flatnonzero(view.host_state == IDLE)
        if not len(hosts):
            return ()
        view.power_actions_allowed = False
        type(self).found = [view.sleep(hosts, "why"), view.wake(hosts, "why")]
        view.power_actions_allowed = True
        type(self).found.append(view.sleep([*hosts[::-1], hosts[0]], "why"))
        return ()

    def schedule(self, view: View) -> Sequence[Action]:
        return ()


def test_hosts_come_in_any_order_and_nothing_is_done_where_it_may_not_be() -> None:
    check_policy(Recorder, runs=1, seed=1)
    first, second, third = Recorder.found
    assert first == second == []
    assert third
    for action in third:
        assert isinstance(action, SetPState)
        assert (np.diff(action.hosts.ids) > 0).all()


def test_ways_to_make_a_set_of_hosts() -> None:
    assert HostSet.of([5, 0, 1, 1]) == HostSet.parse("0-1 5") == HostSet(np.array([0, 1, 5]))
    assert str(HostSet.of(range(3))) == "0-2"
    with pytest.raises(TypeError):
        HostSet.of([0.5])  # type: ignore[list-item]
