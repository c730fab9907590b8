"""A peer that sends what no simulator would: it is refused in one clear error, and takes little memory."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from talk import Scripted, Talk, completed, production, small_battery, submitted

from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Foreseen, Grid, Tariff
from beasy_sched.engine import Session, SessionOptions, intake
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.limits import LATEST_S, LONGEST_ID, LONGEST_JOB, MOST_UNKNOWN
from beasy_sched.model import events as e
from beasy_sched.model import platform
from beasy_sched.outputs.summary import summarize
from beasy_sched.policies.registry import built_in, make_policy
from beasy_sched.protocol.notices import notice
from beasy_sched.run.settings import RunSettings


def with_members(job: str, **members: Any) -> e.JobSubmitted:
    return e.JobSubmitted(1.0, e.JobRequest(f"w0!{job}", 1.0, 1, "p", 100, members))


# --- time ---


@pytest.mark.parametrize("at_s", [2.0, LATEST_S, -1.0, -2 * LATEST_S])
def test_an_event_of_another_time(at_s: float) -> None:
    with pytest.raises(PeerError, match=r"an event's timestamp is .* s, in a message for 1\.0 s"):
        Talk().at(1.0, e.RequestedCall(at_s))


def test_a_first_message_before_time_0() -> None:
    with pytest.raises(PeerError, match="simulated time decreased"):
        Session(Scripted()).step(e.Message(-1e15, [e.SimulationBegins(-1e15, ())]))


def test_an_event_from_before_the_last_message() -> None:
    talk = Talk()
    talk.run_job(100.0, "a", "0")
    with pytest.raises(PeerError, match=r"timestamp is 5\.0 s, in a message for 200\.0 s after .* 100\.0 s"):
        talk.at(200.0, completed(5.0, "a"))


def test_events_of_a_message_that_run_backwards() -> None:
    """Production is counted from each announcement to the next: time must not be counted twice."""
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    with pytest.raises(PeerError, match=r"timestamp is 10\.0 s, in a message for 50\.0 s after .* 30\.0 s"):
        talk.at(50.0, production(30.0, 0.0), production(10.0, 1000.0))


def test_production_of_events_before_their_message() -> None:
    """Batsim sends some events a moment later, with the time at which they happened."""
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    talk.at(50.0, production(10.0, 0.0), production(10.0, 200.0), production(30.0, 1000.0))
    talk.at(60.0, production(60.0, 0.0))
    assert talk.session.power is not None
    assert talk.session.power.trace[0].record.renew_w == pytest.approx((1000 + 4000 + 30_000) / 60)


def test_events_after_the_end() -> None:
    """A job that comes then would be refused, in a reply that must be empty."""
    talk = Talk()
    talk.at(0.0, submitted(0.0, "a"))
    with pytest.raises(PeerError, match="no event may follow SIMULATION_ENDS in its message"):
        talk.at(1.0, e.SimulationEnds(1.0), with_members("b", deadline_s="x"))


def test_a_message_after_the_end() -> None:
    talk = Talk()
    talk.at(1.0, e.SimulationEnds(1.0))
    with pytest.raises(PeerError, match=r"a message at 2\.0 s follows SIMULATION_ENDS"):
        talk.at(2.0, submitted(2.0, "a"))


def test_a_leap_over_all_that_was_called_for() -> None:
    """Settling one step of ten million years would take all memory, or all time."""
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    with pytest.raises(PeerError, match=r"did not send the call requested for 180 s, the end of the run"):
        talk.at(LATEST_S)


def test_a_late_message_is_none() -> None:
    talk = Talk(site=small_battery(), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    talk.at(86_400.0)
    assert talk.session.power is not None
    assert talk.session.power.trace[-1].record.dt_s == 86_400.0


def test_rates_announced_long_after_the_run_are_not_compared() -> None:
    site = small_battery()
    calendar = Calendar(datetime(2024, 1, 1, tzinfo=timezone.utc))
    grid = Grid(price=Foreseen(Tariff(np.ones((12, 24)), calendar)))
    talk = Talk(site=replace(site, grid=grid), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 100.0))
    talk.at(180.0)
    rates = {"type": "power", "power_available": 1.0, "price_per_kwh": 3.0}
    talk.at(LATEST_S, notice(LATEST_S, "power", rates))


# --- jobs ---


def test_a_long_id() -> None:
    talk = Talk()
    talk.at(1.0, submitted(1.0, "a" * (LONGEST_ID - 3)))
    with pytest.raises(PeerError, match="its id or profile has more than 1,000 characters") as found:
        talk.at(1.0, submitted(1.0, "a" * LONGEST_ID))
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(
    "event",
    [completed(1.0, "a" * 3000), notice(1.0, "a" * 3000, {"type": "a" * 3000, "power_available": -1.0})],
)
def test_long_names_of_what_there_is_not(event: e.Event) -> None:
    talk = Talk(site=small_battery())
    talk.at(0.0, production(0.0, 100.0))
    with pytest.raises(PeerError, match=r"a{196,200}\.\.\.") as found:
        talk.at(1.0, event)
    assert len(str(found.value)) < 500


def test_a_long_job() -> None:
    with pytest.raises(PeerError, match="job w0!a has more than 1,048,576 characters in its fields"):
        Talk().at(1.0, with_members("a", user="x" * LONGEST_JOB))


@pytest.mark.parametrize("terms", [{}, {"deadline_s": 1e9}, {"workflow": "w", "phase": 1}])
def test_more_jobs_than_may_wait(monkeypatch: pytest.MonkeyPatch, terms: dict[str, Any]) -> None:
    monkeypatch.setattr(intake, "MOST_JOBS_AT_ONCE", 3)
    talk = Talk(make_policy("fcfs"), count=1)
    talk.at(1.0, *(with_members(f"{n}", **terms) for n in range(3)))
    with pytest.raises(PeerError, match="more than 3 jobs wait, run or have terms"):
        talk.at(1.0, with_members("3", **terms))


def test_ended_jobs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_JOBS_AT_ONCE", 3)
    monkeypatch.setattr(intake, "MOST_KEPT", 400)
    talk = Talk(make_policy("fcfs"))
    for n in range(10):
        talk.at(float(n), submitted(float(n), f"{n}"))
        talk.at(float(n), e.JobSubmitted(float(n), e.JobRequest(f"w0!x{n}", 1.0, 9, "p", 1, {"u": "x" * 50})))
        talk.at(n + 0.5, completed(n + 0.5, f"{n}"))
    assert talk.session.outcomes.counts()["finished"] == 10


@pytest.mark.parametrize("kept", [{"user": "x" * 50}, {"deadline_s": 1e9, "user": "x" * 50}])
def test_more_text_than_is_kept(monkeypatch: pytest.MonkeyPatch, kept: dict[str, Any]) -> None:
    monkeypatch.setattr(intake, "MOST_KEPT", 1000)
    talk = Talk()
    jobs = [with_members(f"{n}", **kept) for n in range(100)]
    with pytest.raises(PeerError, match="the ids and fields of jobs have more than 500 characters together"):
        talk.at(1.0, *jobs)
    assert 5 < talk.session.submitted < 20


def test_refused_jobs_are_named_up_to_a_limit() -> None:
    talk = Talk()
    talk.at(1.0, *(with_members(f"{n}", deadline_s=-1) for n in range(5000)))
    assert len(talk.session.warnings) == MOST_UNKNOWN + 1
    assert talk.session.warnings[-1] == "more than 100 rejected jobs: the rest are not listed"


def test_the_ends_of_a_large_workflow_are_not_remembered() -> None:
    """Each of them once asked for a look at every job of the workflow, and nobody looked."""
    talk = Talk(make_policy("fcfs"), count=1)
    talk.at(1.0, *(with_members(f"{n}", workflow="w", phase=0) for n in range(100)))
    for n in range(100):
        talk.at(2.0 + n, completed(2.0 + n, f"{n}"))
    assert len(talk.session.workflows._changed) <= 100


def test_a_walltime_of_almost_nothing_counts_as_a_microsecond() -> None:
    talk = Talk(make_policy("bid-price"), site=small_battery())
    talk.at(0.0, production(0.0, 100.0), *(submitted(0.0, f"{n}", 3, 5e-324) for n in range(5)))
    job = talk.session.cluster.running.get("w0!0") or talk.session.cluster.queue.first
    assert job is not None
    assert job.walltime_s == 1e-6
    assert math.isfinite(job.size)


# --- hosts ---


def test_as_many_kinds_as_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "MOST_KIND_PSTATES", 30)
    hosts = tuple(e.Resource(n, f"n{n}", speeds_flops=(1.0 + n,) * 4) for n in range(10))
    with pytest.raises(PeerError, match="the simulator's 10 hosts are of 10 different kinds"):
        Session(Scripted()).step(e.Message(0.0, [e.SimulationBegins(0.0, hosts)]))


@pytest.mark.parametrize(
    "policy", [name for name in ("random", "lowest-window", "bid-price") if name in built_in()]
)
def test_a_policy_that_has_not_begun_has_no_results(policy: str) -> None:
    """A summary is written without a second error where the first message was refused."""
    site = small_battery()
    one = Session(make_policy(policy), SessionOptions(site=site))
    with pytest.raises((ConfigError, PeerError)):
        one.step(e.Message(0.0, [e.SimulationBegins(0.0, (e.Resource(0, "n0"),))]))
    assert one.results() == {}
    assert summarize(one, RunSettings(policy)).warnings == one.warnings
