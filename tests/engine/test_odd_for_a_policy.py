"""What a daemon warns of without seeing the files: what the messages tell is odd for the policy and site."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from talk import Scripted, Talk, small_battery, submitted

from beasy_sched.checks import RunInputs
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PolicyError
from beasy_sched.findings import Finding, odd
from beasy_sched.model import events as e
from beasy_sched.policies.registry import make_policy
from beasy_sched.protocol.notices import notice


def ended(talk: Talk, now: float) -> list[str]:
    talk.at(now, e.SimulationEnds(now))
    return talk.session.warnings


def power(now: float) -> e.Notify:
    return notice(now, "power", {"power_available": 100.0})


def test_power_without_a_site_is_told_once() -> None:
    talk = Talk()
    talk.at(0.0, power(0.0))
    talk.at(60.0, power(60.0))
    (told,) = talk.session.warnings
    assert "power events are ignored because no site is given" in told
    site = Talk(site=small_battery(), energy=EnergySource.MODEL)
    site.at(0.0, power(0.0))
    assert site.session.warnings == []
    seen_before = Talk(inputs_checked=True)
    seen_before.at(0.0, power(0.0))
    assert seen_before.session.warnings == []


@pytest.mark.plugins("energy_budget")
def test_a_budget_below_what_idle_servers_use() -> None:
    """Four servers of 50 W: 2000 J in ten seconds."""
    options = {"period_end": 10, "budget": "1999 J"}
    (told,) = Talk(make_policy("energybud", options)).session.warnings
    assert "is infeasible: idle servers alone draw 200 W" in told
    assert Talk(make_policy("energybud", {**options, "budget": "2000 J"})).session.warnings == []


@pytest.mark.plugins("greenslot")
def test_deadlines_that_slots_are_too_long_for() -> None:
    talk = Talk(make_policy("conventional", {"slot_s": 900.0}))
    for number, deadline_s in enumerate((500, 1005, 80)):
        event = submitted(5.0, str(number), walltime=100.0)
        request = e.JobRequest(
            event.job.id, 5.0, 1, "p", 100.0, extras={"deadline_s": deadline_s, "walltime": 100}
        )
        talk.at(5.0, e.JobSubmitted(5.0, request))
    assert talk.session.warnings == []
    (told,) = ended(talk, 20.0)
    assert told.startswith("1 of 3 deadlines is too tight")  # too early by itself, the third


class Picky(Scripted):
    """Finds something odd, or what is no finding at all."""

    found: Sequence[object] = ()

    def check_inputs(self, inputs: RunInputs) -> Sequence[Finding]:
        return self.found if inputs.platform is not None else ()  # type: ignore[return-value]


def test_a_policy_of_ones_own() -> None:
    policy = Picky()
    policy.found = [odd("few-hosts", "four servers are few")]
    assert Talk(policy).session.warnings == ["four servers are few"]
    policy = Picky()
    policy.found = ["four servers are few"]
    with pytest.raises(PolicyError, match=r"in check_inputs.*'four servers are few', expected a Finding"):
        Talk(policy)
