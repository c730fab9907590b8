"""Calls on a platform whose network has latency: first in a reply, and later than Batsim's queue."""

from __future__ import annotations

import numpy as np
import pytest
from talk import Scripted, Talk, completed, hosts, production, small_battery, start, submitted
from worlds import FAST

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import CallAt, Kill
from beasy_sched.engine.call_lead import MOMENT_S, CallLead
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import Platform, platform_of

DELAY_S = 1.6e-3


def slow(count: int = 4, delay_s: float | None = DELAY_S) -> Platform:
    names = tuple(f"n{i:03}" for i in range(count))
    return Platform((FAST,), np.zeros(count, dtype=np.intp), names, message_delay_s=delay_s)


def calls(decisions: list[d.Decision]) -> list[d.CallMeLater]:
    return [decision for decision in decisions if isinstance(decision, d.CallMeLater)]


# --- the lead ---


def test_without_latency_it_is_a_moment_whatever_is_under_way() -> None:
    lead = CallLead(0.0)
    lead.count(1_000_000)
    assert (lead.lead_s, lead.is_needed) == (MOMENT_S, False)


def test_it_covers_a_message_of_every_part() -> None:
    lead = CallLead(DELAY_S, sources=2)
    for parts in (0, 10, 3000):
        lead.count(parts)
        assert lead.lead_s >= (parts + 2 + 1) * DELAY_S


def test_it_is_never_shorter_than_a_moment() -> None:
    lead = CallLead(1e-9)
    lead.count(5)
    assert (lead.lead_s, lead.is_needed) == (MOMENT_S, True)


def test_an_unknown_delay_is_learned_from_the_gap_after_a_reply() -> None:
    lead = CallLead(None)
    lead.count(0)
    first_s = lead.lead_s
    lead.heard(0.0)
    lead.replied(0.0, 99)
    lead.heard(0.1)  # 99 requests and the end of the reply: no more than a millisecond each
    lead.count(0)
    assert 1.0 < lead.lead_s < 1.1 < first_s


def test_an_unknown_delay_is_learned_from_a_late_call() -> None:
    lead = CallLead(None)
    lead.called(60.0, 60.05)
    lead.count(100)
    assert 1.0 + 100 * 0.05 < lead.lead_s < 1.0 + 300 * 0.05


def test_what_is_known_is_not_learned() -> None:
    lead = CallLead(0.05)
    lead.called(60.0, 60.0)
    lead.count(9)
    assert lead.lead_s > 9 * 0.05


# --- whether there is latency ---


def test_platforms_of_ours_have_none_and_of_others_nobody_knows() -> None:
    ours = tuple(e.Resource(i, f"n{i}", properties=host_properties(FAST)) for i in range(2))
    assert platform_of(e.SimulationBegins(0.0, ours)).message_delay_s == 0.0
    foreign = (*ours, e.Resource(2, "n2", properties={"wattage_per_state": "1:2"}))
    assert platform_of(e.SimulationBegins(0.0, foreign)).message_delay_s is None


@pytest.mark.parametrize("delay_s", [0.0, DELAY_S, None])
def test_the_platform_file_tells(delay_s: float | None) -> None:
    told = tuple(e.Resource(i, f"n{i:03}", properties=host_properties(FAST)) for i in range(2))
    known = slow(4, delay_s)
    assert platform_of(e.SimulationBegins(0.0, told), known).message_delay_s == delay_s


# --- replies ---


def test_a_call_is_the_first_request_and_later_than_the_queue() -> None:
    talk = Talk(platform=slow(500), count=500)
    jobs = [submitted(10.0, str(n)) for n in range(500)]

    def answer(view):
        starts = [start(view, str(n), str(n)) for n in range(500)]
        return [*starts, CallAt(10.0)]

    first, *others = talk.ask(10.0, answer, *jobs)
    assert isinstance(first, d.CallMeLater)
    assert len(others) == 500
    assert first.at > 10.0 + 3 * DELAY_S


def test_it_waits_for_every_running_job() -> None:
    talk = Talk(platform=slow(300), count=300)
    for n in range(300):
        talk.run_job(10.0, str(n), str(n))
    (call,) = calls(talk.ask(20.0, lambda view: [CallAt(20.0)]))
    assert call.at > 20.0 + 301 * DELAY_S
    ends = [e.RequestedCall(30.0), *(completed(30.0, str(n), str(n)) for n in range(300))]
    (call,) = calls(talk.ask(30.0, lambda view: [CallAt(30.0)], *ends))
    assert call.at < 30.0 + 100 * DELAY_S


def test_a_call_that_is_late_enough_is_asked_for_to_the_digit() -> None:
    assert calls(Talk(platform=slow()).ask(0.0, lambda view: [CallAt(86_400.0)]))[0].at == 86_400.0


def test_without_latency_a_call_stays_the_last_request() -> None:
    talk = Talk(platform=slow(delay_s=0.0))
    found = talk.ask(10.0, lambda view: [start(view, "a", "0"), CallAt(10.0)], submitted(10.0, "a"))
    assert found == [d.ExecuteJob(10.0, "w0!a", hosts("0")), d.CallMeLater(10.0, 10.001)]


# --- steps ---


def with_site(platform: Platform) -> Talk:
    return Talk(platform=platform, site=small_battery(), energy=EnergySource.MODEL)


def test_the_first_step_waits_for_production_that_is_late() -> None:
    talk = with_site(slow())
    (call,) = calls(talk.begun)
    assert call.at > 10 * DELAY_S
    talk.at(0.005, submitted(0.005, "a"))
    assert talk.policy.steps == []
    talk.at(0.006, production(0.006, 100.0))
    assert talk.policy.steps == [0.006]


def test_a_step_waits_for_production_that_comes_late_at_its_boundary() -> None:
    talk = with_site(slow())
    talk.at(0.003, production(0.003, 100.0))
    talk.at(60.002, submitted(60.002, "a"))
    assert talk.policy.steps == [0.003]
    talk.at(60.004, production(60.004, 200.0))
    assert talk.policy.steps == [0.003, 60.004]
    assert talk.session.power.trace[0].record.dt_s == pytest.approx(60.004)


def test_without_production_at_the_boundary_the_step_begins_with_the_call() -> None:
    talk = with_site(slow())
    talk.at(0.003, production(0.003, 100.0))
    (call,) = calls(talk.at(0.1, e.RequestedCall(0.1)))
    assert 60.0 + 10 * DELAY_S < call.at < 61.0
    talk.at(call.at + DELAY_S, e.RequestedCall(call.at + DELAY_S))
    assert talk.policy.steps[-1] == call.at + DELAY_S


def test_the_run_ends_and_kills_although_its_end_is_told_late() -> None:
    talk = with_site(slow())
    talk.at(0.0, production(0.0, 1e6))
    talk.run_job(0.1, "a", "0", walltime=None)
    now = 0.1
    for end_s in (60.0, 120.0, 180.0):
        now = end_s + 0.05
        decisions = talk.at(now, e.RequestedCall(now), production(now, 1e6))
    assert talk.session.over
    (call,) = calls(decisions)
    (kill,) = [x for x in talk.at(call.at, e.RequestedCall(call.at)) if isinstance(x, d.KillJobs)]
    assert kill.job_ids == ("w0!a",)


def test_a_kill_is_sent_although_its_call_is_late() -> None:
    talk = Talk(platform=slow())
    talk.run_job(1.0, "a", "0")
    (call,) = calls(talk.ask(2.0, lambda view: [Kill(view.running["w0!a"])]))
    assert call.at > 2.0 + 10 * DELAY_S
    assert talk.at(call.at, e.RequestedCall(call.at)) == [d.KillJobs(call.at, ("w0!a",))]


def test_a_foreign_platform_without_p_begins_with_a_safe_call() -> None:
    resources = tuple(e.Resource(i, f"n{i}", properties={"wattage_per_state": "1:2"}) for i in range(2))
    session = Session(Scripted(), SessionOptions(site=small_battery(), energy=EnergySource.MODEL))
    (call,) = session.step(e.Message(0.0, [e.SimulationBegins(0.0, resources)])).decisions
    assert isinstance(call, d.CallMeLater)
    assert call.at > 1.0
