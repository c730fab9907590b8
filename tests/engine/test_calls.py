"""Requested calls: always in the future, as few as possible, none when the run is over."""

from __future__ import annotations

import math

import pytest
from talk import Talk, completed, killed, only, production, small_battery, submitted

from beasy_sched.engine.actions import CallAt
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import PolicyError
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e


def call_at(*times: float):
    return lambda view: [CallAt(at) for at in times]


@pytest.mark.parametrize("at", [-5.0, 0.0, 9.0, 10.0, 10.0005])
def test_never_now_or_in_the_past(at: float) -> None:
    assert Talk().ask(10.0, call_at(at)) == [d.CallMeLater(10.0, 10.001)]


@pytest.mark.parametrize("at", [math.inf, math.nan, -math.inf])
def test_a_time_that_is_none_is_the_policys_fault(at: float) -> None:
    with pytest.raises(PolicyError, match=r"CallAt with at (inf|nan|-inf): expected a time"):
        Talk().ask(10.0, call_at(at))


def test_of_several_wants_only_the_earliest_is_asked_for() -> None:
    assert Talk().ask(0.0, call_at(30.0, 20.0, 40.0)) == [d.CallMeLater(0.0, 20.0)]


def test_none_where_a_pending_call_is_early_enough() -> None:
    talk = Talk()
    talk.ask(0.0, call_at(20.0))
    assert talk.ask(1.0, call_at(20.0)) == []
    assert talk.ask(1.0, call_at(25.0)) == []
    assert talk.ask(2.0, call_at(10.0)) == [d.CallMeLater(2.0, 10.0)]
    assert talk.ask(10.0, call_at(25.0), e.RequestedCall(10.0)) == []
    assert talk.ask(20.0, call_at(25.0), e.RequestedCall(20.0)) == [d.CallMeLater(20.0, 25.0)]


def test_a_policys_want_holds_until_it_is_asked_again() -> None:
    talk = Talk()
    talk.ask(0.0, call_at(20.0))
    talk.at(20.0, e.RequestedCall(20.0))
    assert talk.at(21.0) == []


# --- the clock of steps ---


def with_site(**options: object) -> Talk:
    return Talk(site=small_battery(), energy=EnergySource.MODEL, **options)


def test_one_step_call_is_pending_at_a_time() -> None:
    talk = with_site()
    assert talk.begun == [d.CallMeLater(0.0, 0.001)]
    assert only(d.CallMeLater, talk.at(0.0, production(0.0, 500.0))) == []
    assert talk.at(0.001, e.RequestedCall(0.001)) == [d.CallMeLater(0.001, 60.001)]
    for now in (10.0, 20.0, 30.0):
        assert talk.at(now) == []
    assert talk.at(60.0, production(60.0, 500.0)) == []
    assert talk.at(60.001, e.RequestedCall(60.001)) == [d.CallMeLater(60.001, 120.001)]


def test_no_call_while_an_answer_is_awaited() -> None:
    talk = Talk(site=small_battery())
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    assert talk.at(60.001, e.RequestedCall(60.001)) == [d.QueryEnergy(60.001)]
    assert talk.at(60.001, e.EnergyAnswer(60.001, 12_000.0)) == [d.CallMeLater(60.001, 120.001)]


def test_no_call_reaches_beyond_the_end_of_the_run() -> None:
    """A pending call would keep the simulation, and the servers, running."""
    talk = with_site()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    assert talk.ask(120.0, call_at(1e6), production(120.0, 500.0)) == []
    assert talk.ask(130.0, call_at(1e6)) == []
    last = talk.ask(130.0, call_at(1e6), e.RequestedCall(130.0))
    assert last == [d.CallMeLater(130.0, 180.001)]
    assert talk.at(180.0, production(180.0, 500.0)) == []
    assert talk.at(180.001, e.RequestedCall(180.001)) == []


def test_no_calls_when_the_run_is_over_but_for_kills() -> None:
    talk = with_site()
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    talk.run_job(1.0, "a", "0")
    talk.run_job(1.0, "b", "1")
    talk.at(60.001, e.RequestedCall(60.001))
    talk.at(120.001, e.RequestedCall(120.001))
    assert talk.at(180.0, production(180.0, 0.0)) == []
    assert talk.at(180.001, e.RequestedCall(180.001)) == [d.KillJobs(180.001, ("w0!a", "w0!b"))]
    assert talk.at(180.001, killed(180.001, "a"), completed(180.001, "b", "1")) == []
    assert only(d.CallMeLater, talk.at(200.0, submitted(200.0, "late"))) == []
