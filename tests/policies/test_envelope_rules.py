"""peak, next, last, workload: what is compensated, when, and at whose cost, as decisions show it.

Servers of `worlds.FAST` in steps of 60 s: 6000 J at full speed, 4200 J at half of it; a battery of 1 MJ, half
full, which is its target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from talk import ASLEEP, Talk, changed, only, production, small_battery, submitted
from worlds import FAST, plans_of

from beasy_sched.energy.storage import Storage
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.policies.registry import make_policy

Z = ASLEEP
NAMES = ["peak", "next", "last", "workload"]


class Steps:
    """A run of one policy over windows of planned states; steps bring the planned production."""

    def __init__(
        self,
        name: str,
        *windows: Sequence[Sequence[int]],
        kind: ServerKind = FAST,
        more_j: float = 0.0,
        charge_efficiency: float = 1.0,
        discharge_efficiency: float = 1.0,
    ) -> None:
        states = [np.array(window, dtype=np.int8) for window in windows]
        count = states[0].shape[1]
        site = small_battery(capacity_j=1e6, steps=len(states[0]))
        battery = dataclasses.replace(
            site.storage.battery,
            charge_efficiency=charge_efficiency,
            discharge_efficiency=discharge_efficiency,
        )
        site = dataclasses.replace(site, storage=Storage(battery))
        platform = Platform((kind,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
        plans = plans_of(site, platform, states)
        self.planned_w = np.concatenate([plan.power.renew_w for plan in plans])
        self.talk = Talk(
            make_policy(name),
            kinds=[kind] * count,
            site=site,
            plans=plans,
            windows=len(states),
            energy=EnergySource.MODEL,
        )
        self.begun = self.begin(0, more_j)

    def begin(self, step: int, more_j: float = 0.0) -> list[tuple[str, int]]:
        """Begin a step that brings so much more than planned; return what servers are sent to."""
        now = 60.0 * step
        found = self.talk.at(now, production(now, float(self.planned_w[step]) + more_j / 60))
        return [(str(x.resources), x.state) for x in only(d.SetResourceState, found)]


@pytest.mark.parametrize(("more_j", "faster"), [(3599.0, []), (3601.0, [("0", 0)])])
def test_what_is_stored_with_losses_was_more_when_it_came(
    more_j: float, faster: list[tuple[str, int]]
) -> None:
    """Eq. 3.31: 900 J too many in the cells are 1800 J for servers where half is lost on the way in."""
    steps = Steps("next", [[1]] * 4, charge_efficiency=0.5)
    steps.talk.at(0.0, submitted(0.0, "a", 1))
    assert steps.begun == [("0", 1)]
    steps.talk.at(1.0, production(1.0, steps.planned_w[0] + (more_j / 2) / 59))
    assert steps.begin(1) == faster


@pytest.mark.parametrize("name", NAMES)
def test_it_starts_from_the_true_level(name: str) -> None:
    """1.8 kJ more came in the middle of the first step; all that is left is one step to spend it in."""
    steps = Steps(name, [[1]] * 2)
    steps.talk.at(0.0, submitted(0.0, "a", 1))
    steps.talk.at(30.0, production(30.0, steps.planned_w[0] + 60.1))
    assert steps.begin(1) == [("0", 0)]


@pytest.mark.parametrize("name", NAMES)
def test_every_step_compensates(name: str) -> None:
    steps = Steps(name, [[1]] * 4)
    steps.talk.at(0.0, submitted(0.0, "a", 1))
    assert steps.begin(1) == []
    assert steps.begin(2) == []
    assert steps.begin(3, 1801.0) == [("0", 0)]


def test_a_surplus_stays_within_its_window() -> None:
    """`last` gives it to the last step of the present window, though the next one is known."""
    steps = Steps("last", [[1]] * 3, [[1]] * 3, more_j=1801.0)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 400.0))
    assert [steps.begin(1), steps.begin(2)] == [[], [("0", 0)]]
    assert steps.begin(3) == [("0", 1)]


@pytest.mark.parametrize(("name", "when", "lowered"), [("next", 1, "1"), ("last", 3, "0")])
def test_servers_without_a_job_are_lowered_first(name: str, when: int, lowered: str) -> None:
    """The job may run to 150 s: after that its server is as idle as the other, and has the lower id."""
    steps = Steps(name, [[0, 0]] * 4)
    steps.talk.at(0.0, submitted(0.0, "a", 1, 150.0))
    seen = {1: steps.begin(1, -1801.0 - 3000.0)}  # an idle server left 3000 J of what was planned for it
    seen |= {step: steps.begin(step, -3000.0) for step in range(2, when + 1)}
    assert seen[when] == [(lowered, 1)]
    assert all(not changes for step, changes in seen.items() if step < when)


def test_of_equal_moves_the_one_that_switches_least() -> None:
    """Where switching takes neither time nor energy, only its number tells the two sleepers apart."""
    quick = dataclasses.replace(FAST, speeds_flops=(*FAST.speeds_flops[:3], 1e12, 1e12))
    steps = Steps("next", [[0, Z, Z], [0, Z, Z], [0, Z, 0], [0, Z, 0]], kind=quick)
    steps.talk.at(0.0, submitted(0.0, "a", 1))
    steps.talk.at(1e-3, changed(1e-3, "1-2", Z))
    assert steps.begin(1, 5700.5) == [("2", 0)]
