"""A policy asks for the energy used: without a site, beside one, and where it cannot be had."""

from __future__ import annotations

import pytest
from talk import FAST, Scripted, Talk, completed, only, production, small_battery, submitted

from beasy_sched.engine.actions import MeasureEnergy
from beasy_sched.engine.power_side import EnergySource, Open
from beasy_sched.errors import ConfigError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e


def test_the_answer_is_seen_at_the_same_time() -> None:
    talk = Talk()
    assert talk.session.view.measured is None
    assert talk.ask(5.0, lambda view: [MeasureEnergy()], submitted(5.0, "a")) == [d.QueryEnergy(5.0)]
    seen = []
    talk.ask(5.0, lambda view: seen.append(view.measured) or (), e.EnergyAnswer(5.0, 123.0))
    assert seen == [(5.0, 123.0)]


def test_an_answer_to_the_policy_is_not_taken_for_a_step_s_energy() -> None:
    """The step ends at 60 s; the policy asked at 30 s."""
    talk = Talk(site=small_battery(), energy=EnergySource.BATSIM)
    talk.at(0.0, production(0.0, 400.0))
    assert only(d.QueryEnergy, talk.ask(30.0, lambda view: [MeasureEnergy()], submitted(30.0, "a")))
    talk.at(30.0, e.EnergyAnswer(30.0, 6_000.0))
    assert talk.session.power is not None
    assert isinstance(talk.session.power.phase, Open)
    asked = talk.at(60.0, production(60.0, 400.0))
    assert len(only(d.QueryEnergy, asked)) == 1
    assert not talk.session.power.trace
    talk.at(60.0, e.EnergyAnswer(60.0, 12_000.0))
    assert [row.record.consumed_j for row in talk.session.power.trace] == [12_000.0]
    assert talk.session.view.measured == (60.0, 12_000.0)


@pytest.mark.parametrize("source", EnergySource)
def test_storage_hosts_count_as_base_load_wherever_the_energy_comes_from(source: EnergySource) -> None:
    """Batsim's answers include them, the daemon's own account does not: the battery must be the same."""
    servers_w, stores_w = 4 * FAST.idle_w[0], 2 * FAST.idle_w[0]
    talk = Talk(site=small_battery(), energy=source, stores=[FAST, FAST])
    talk.at(0.0, production(0.0, 5_000.0))
    talk.at(60.0, production(60.0, 5_000.0))
    if source is EnergySource.BATSIM:
        talk.at(60.0, e.EnergyAnswer(60.0, 60.0 * (servers_w + stores_w)))
    assert talk.session.power is not None
    record = talk.session.power.trace[0].record
    assert (record.consumed_j, record.base_w) == (60.0 * servers_w, stores_w)
    free_w = 5_000.0 - servers_w - stores_w
    assert record.charge_w + record.curtailed_w == pytest.approx(free_w)


def test_a_policy_s_measure_is_that_of_the_servers() -> None:
    talk = Talk(stores=[FAST])
    talk.ask(5.0, lambda view: [MeasureEnergy()], submitted(5.0, "a"))
    talk.at(5.0, e.EnergyAnswer(5.0, 2_000.0))
    assert talk.session.view.measured == (5.0, 2_000.0 - 5.0 * FAST.idle_w[0])


def test_without_energy_there_is_a_message() -> None:
    talk = Talk(power_actions=False)
    with pytest.raises(ConfigError, match="measures energy, which requires Batsim's -E"):
        talk.ask(5.0, lambda view: [MeasureEnergy()], submitted(5.0, "a"))


def test_what_has_ended_is_told_once() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    seen = []

    def look(view: object) -> tuple[()]:
        seen.append([job.id for job in view.ended])  # type: ignore[attr-defined]
        return ()

    talk.ask(10.0, look, completed(10.0, "a"))
    talk.ask(11.0, look, submitted(11.0, "b"))
    assert seen == [["w0!a"], []]


def test_a_policy_adds_to_the_summary() -> None:
    from beasy_sched.outputs.summary import summarize
    from beasy_sched.run.settings import RunSettings

    class Proud(Scripted):
        def results(self) -> dict[str, dict[str, object]]:
            return {"mine": {"calls": len(self.asked)}}

    talk = Talk(Proud())
    assert summarize(talk.session, RunSettings()).by_policy["mine"] == {"calls": 1}
