"""The end of the run, inner boundaries of windows, and the lifecycle's errors."""

from __future__ import annotations

import contextlib

import pytest
from talk import Talk, completed, killed, production, small_battery, submitted

from beasy_sched.engine.power_side import EnergySource, Open, Over
from beasy_sched.errors import PeerError
from beasy_sched.formats.run_summary import value_at
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.outputs.summary import summarize
from beasy_sched.run.settings import RunSettings


def talk_of(steps: int, windows: int = 1) -> Talk:
    """A session that is in the middle of its only or first step, with power for all."""
    site = small_battery(steps=steps)
    talk = Talk(site=site, energy=EnergySource.MODEL, windows=windows)
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    return talk


def states(talk: Talk) -> dict[str, str]:
    outcomes = talk.session.outcomes
    return dict(zip(outcomes.ids, outcomes.columns()["state"].tolist(), strict=True))


def test_running_jobs_are_not_completely_finished_and_waiting_ones_postponed() -> None:
    talk = talk_of(steps=1)
    talk.run_job(1.0, "a", "0")
    talk.at(2.0, submitted(2.0, "b"), submitted(2.0, "c"))
    assert talk.at(60.0, production(60.0, 500.0)) == [
        d.RejectJob(60.0, "w0!b"),
        d.RejectJob(60.0, "w0!c"),
    ]
    assert talk.at(60.001, e.RequestedCall(60.001)) == [d.KillJobs(60.001, ("w0!a",))]
    talk.at(60.001, killed(60.001, "a"))
    talk.at(60.001, e.SimulationEnds(60.001))
    assert states(talk) == {
        "w0!a": "not completely finished",
        "w0!b": "postponed",
        "w0!c": "postponed",
    }


def test_a_job_that_ends_by_itself_at_the_very_end_is_finished() -> None:
    talk = talk_of(steps=1)
    talk.run_job(1.0, "a", "0")
    talk.at(60.0, production(60.0, 500.0))
    talk.at(60.0, completed(60.0, "a"))
    assert talk.at(60.001, e.RequestedCall(60.001)) == []
    assert states(talk) == {"w0!a": "finished"}


def test_late_submissions_are_postponed_at_once() -> None:
    talk = talk_of(steps=1)
    talk.at(60.0, production(60.0, 500.0))
    assert talk.at(70.0, submitted(70.0, "a")) == [d.RejectJob(70.0, "w0!a")]
    assert talk.at(80.0, submitted(80.0, "b", res=9)) == [d.RejectJob(80.0, "w0!b")]
    assert states(talk) == {"w0!a": "postponed", "w0!b": "rejected"}
    assert talk.policy.asked[-1] < 60.0


def test_at_an_inner_boundary_everything_goes_on() -> None:
    talk = talk_of(steps=1, windows=2)
    talk.run_job(1.0, "a", "0")
    talk.run_job(1.0, "short", "1")
    talk.at(2.0, submitted(2.0, "b"))
    talk.at(30.0, completed(30.0, "short", "1"))
    assert talk.at(60.0, production(60.0, 500.0)) == []
    assert isinstance(talk.session.power.phase, Open)
    assert [*talk.session.cluster.running] == ["w0!a"]
    assert talk.session.windows[0]["finished"] == 1
    level_j = talk.session.power.trace[0].record.battery_after_j
    talk.at(60.001, e.RequestedCall(60.001))
    assert talk.at(120.0, production(120.0, 500.0)) == [d.RejectJob(120.0, "w0!b")]
    assert talk.session.power.trace[1].record.battery_before_j == level_j
    assert [row.start_s for row in talk.session.power.trace] == [0.0, 60.0]
    assert isinstance(talk.session.power.phase, Over)


def test_the_simulators_own_end_leaves_no_job_without_an_outcome() -> None:
    talk = Talk()
    talk.run_job(0.0, "a", "0")
    talk.at(1.0, submitted(1.0, "b"))
    assert talk.at(5.0, e.SimulationEnds(5.0)) == []
    assert talk.session.ended
    assert states(talk) == {"w0!a": "not completely finished", "w0!b": "postponed"}


def test_a_second_beginning_is_the_peers_fault() -> None:
    with pytest.raises(PeerError, match="second SIMULATION_BEGINS"):
        Talk().at(1.0, e.SimulationBegins(1.0, ()))


@pytest.mark.parametrize(("less_j", "accepted"), [(1000.0, False), (0.02, False), (0.01, True)])
def test_energy_that_shrinks_is_the_peers_fault(less_j: float, accepted: bool) -> None:
    """A millionth less is an error of rounding."""
    talk = Talk(site=small_battery())
    talk.at(0.0, production(0.0, 500.0))
    talk.at(60.0, production(60.0, 500.0))
    talk.at(60.0, e.EnergyAnswer(60.0, 12_000.0))
    talk.at(120.0, production(120.0, 500.0))
    refused = pytest.raises(PeerError, match="less energy used by 120 s than before")
    with contextlib.nullcontext() if accepted else refused:
        talk.at(120.0, e.EnergyAnswer(120.0, 12_000.0 - less_j))


def test_energies_end_with_the_window() -> None:
    """Servers draw on while late jobs are still to come; a window's energies are those of the window."""
    talk = talk_of(steps=1)
    talk.run_job(1.0, "a", "0")
    talk.run_job(1.0, "b", "1")
    talk.at(31.0, completed(31.0, "b", "1"))
    talk.at(60.0, production(60.0, 500.0))
    talk.at(60.001, e.RequestedCall(60.001))
    talk.at(60.001, killed(60.001, "a"))
    talk.at(1000.0, submitted(1000.0, "c"))
    talk.at(1000.0, e.SimulationEnds(1000.0))
    summary = summarize(talk.session, RunSettings())
    found_j = {name: kwh * 3.6e6 for name, kwh in summary.to_builtins()["energy_kwh"].items()}
    assert found_j["consumed"] == pytest.approx(found_j["consumed_by_own_account"])
    assert found_j["finished_jobs"] == pytest.approx(30 * 100)
    assert found_j["other_jobs"] == pytest.approx(59 * 100)
    assert found_j["idle"] == pytest.approx((60 * 4 - 30 - 59) * 50)
    assert found_j["wasted"] == pytest.approx(found_j["other_jobs"] + found_j["idle"])
    assert value_at(summary, "quality", "utilization") == pytest.approx((30 + 59) / (4 * 60))


def test_what_runs_when_the_simulator_leaves_is_counted_with_other_jobs() -> None:
    talk = talk_of(steps=2)
    talk.run_job(1.0, "a", "0")
    talk.at(60.0, production(60.0, 500.0))
    talk.run_job(70.0, "b", "1")
    energy_kwh = summarize(talk.session, RunSettings(), "gone").energy_kwh
    assert energy_kwh is not None
    assert energy_kwh.other_jobs * 3.6e6 == pytest.approx(59 * 100)
    assert energy_kwh.consumed == pytest.approx(energy_kwh.consumed_by_own_account)


@pytest.mark.parametrize(("metered_j", "told"), [(12_000.0, None), (11_900.0, None), (11_800.0, "+1.69 %")])
def test_a_meter_that_shows_something_else_is_told(metered_j: float, told: str | None) -> None:
    talk = Talk(site=small_battery(steps=1))
    talk.at(0.0, production(0.0, 500.0))
    talk.at(60.0, production(60.0, 500.0))
    talk.at(60.0, e.EnergyAnswer(60.0, metered_j))
    warnings = summarize(talk.session, RunSettings()).warnings
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
