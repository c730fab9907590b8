"""workload-reactive: wakes at once, sleeps after T_wait (Eq. 2.9 of the thesis), and does not thrash."""

from __future__ import annotations

import math

import pytest
from talk import ASLEEP, Talk, changed, completed, hosts, machines, only, production, small_battery, submitted
from worlds import FAST, SLOW

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.generate.platform_file import load_server
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.platform import ServerKind, SleepState
from beasy_sched.policies.easy import break_even_s
from beasy_sched.policies.registry import make_policy

T_WAIT = (7 * 60 + 20 * 80 - 5 * 27) / 45
"""Of `worlds.FAST`: 41.89 s."""


def talk_of(kinds: list[ServerKind] | None = None) -> Talk:
    return Talk(make_policy("workload-reactive"), kinds=kinds or [FAST] * 4)


def calls_until(talk: Talk, decisions: list[d.Decision], end: float) -> list[d.Decision]:
    """Let the calls come that were asked for, and P-state changes be answered at once."""
    seen = list(decisions)
    while asked := [x.at for x in only(d.CallMeLater, decisions) if x.at <= end]:
        now = min(asked)
        decisions = talk.at(now, e.RequestedCall(now))
        seen += decisions
    return seen


# --- T_wait ---


@pytest.mark.parametrize(
    ("name", "t_wait_s"),
    [
        ("gros", (6 * 76.5 + 164 * 110.52 - 4.5 * 170) / (62 - 4.5)),
        ("taurus", (6.1 * 101 + 151.52 * 125.17 - 9.75 * 157.62) / (95 - 9.75)),
    ],
)
def test_t_wait_of_the_presets(name: str, t_wait_s: float) -> None:
    assert break_even_s(load_server(name).kind()) == pytest.approx(t_wait_s, rel=1e-12)


def test_t_wait_of_gros_in_figures() -> None:
    assert break_even_s(load_server("gros").kind()) == pytest.approx(309.90, abs=0.005)


def test_t_wait_is_at_least_the_time_of_both_transitions() -> None:
    thrifty = ServerKind(
        "k", (10.0, 1.0, 1 / 7, 1 / 20), (50, 5, 6, 6), (50, 5, 6, 6), (99, 5, 6, 6), (SleepState(1, 2, 3),)
    )
    assert break_even_s(thrifty) == pytest.approx(27.0)


@pytest.mark.parametrize(
    "kind",
    [
        ServerKind("no sleep", (10.0,), (50.0,), (50.0,), (99.0,)),
        ServerKind("no powers", (10.0, 1.0, 0.1, 0.1), sleeps=(SleepState(1, 2, 3),)),
        ServerKind("no speeds", (), (50, 5, 6, 6), (50, 5, 6, 6), (99, 5, 6, 6), (SleepState(1, 2, 3),)),
        ServerKind(
            "hot", (9.0, 1, 1, 1), (50, 50, 6, 6), (50, 50, 6, 6), (99, 50, 6, 6), (SleepState(1, 2, 3),)
        ),
    ],
)
def test_servers_that_gain_nothing_from_sleep_never_sleep(kind: ServerKind) -> None:
    assert break_even_s(kind) == math.inf


# --- sleeping ---


def test_all_sleep_after_t_wait_and_not_before() -> None:
    talk = talk_of()
    assert talk.begun == [d.CallMeLater(0.0, pytest.approx(T_WAIT))]
    assert talk.at(T_WAIT - 1e-3) == []
    assert talk.at(T_WAIT) == [d.SetResourceState(T_WAIT, hosts("0-3"), ASLEEP)]
    assert talk.at(T_WAIT + 7, changed(T_WAIT + 7, "0-3", ASLEEP)) == []


def test_each_server_by_its_own_t_wait_and_since_its_own_last_job() -> None:
    talk = talk_of([FAST, FAST, SLOW])
    slow_s = (7 * 60 + 20 * 80 - 5 * 27) / 25
    talk.at(0.0, submitted(0.0, "a"))
    talk.at(30.0, completed(30.0, "a"))
    slept = only(d.SetResourceState, calls_until(talk, [d.CallMeLater(0.0, T_WAIT)], 100.0))
    assert [(x.timestamp, str(x.resources)) for x in slept] == [
        (pytest.approx(T_WAIT), "1"),
        (pytest.approx(30 + T_WAIT), "0"),
        (pytest.approx(slow_s), "2"),
    ]


def test_nobody_sleeps_while_a_job_waits_for_hosts() -> None:
    """A job that waits for six: the five that are free stay awake for it, however long."""
    talk = talk_of([FAST] * 6)
    talk.at(0.0, submitted(0.0, "a"))
    talk.at(1.0, submitted(1.0, "b", 6))
    assert only(d.SetResourceState, talk.at(500.0, e.RequestedCall(500.0))) == []
    assert only(d.ExecuteJob, talk.at(600.0, completed(600.0, "a"))) != []
    assert not only(d.SetResourceState, talk.at(601.0))


def test_only_those_that_no_waiting_job_wants_sleep() -> None:
    """Three of four idle servers, where a job waits for energy to start on one."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("workload-reactive"), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 4 * 50.0), submitted(0.0, "a"))
    assert [*talk.session.cluster.running] == []
    assert only(d.SetResourceState, talk.at(50.0)) == [d.SetResourceState(50.0, hosts("1-3"), ASLEEP)]


# --- waking ---


def sleeping(kinds: list[ServerKind] | None = None) -> Talk:
    talk = talk_of(kinds)
    every = talk.at(500.0)
    for x in only(d.SetResourceState, every):
        talk.at(507.0, e.ResourceStateChanged(507.0, x.resources, ASLEEP))
    return talk


def test_waiting_jobs_wake_as_many_as_they_want_at_once() -> None:
    talk = sleeping()
    assert talk.at(600.0, submitted(600.0, "a", 3)) == [d.SetResourceState(600.0, hosts("0-2"), 0)]
    assert talk.at(601.0) == []
    assert talk.at(602.0, submitted(602.0, "b", 1)) == [d.SetResourceState(602.0, hosts("3"), 0)]
    assert talk.at(603.0, submitted(603.0, "c", 2)) == []
    assert talk.at(620.0, changed(620.0, "0-2", 0)) == [d.ExecuteJob(620.0, "w0!a", hosts("0-2"))]


def test_each_at_its_own_full_speed() -> None:
    """The second kind numbers its P-states the other way round: it sleeps in P-state 0."""
    idle_w, full_w = (5, 60, 80, 50, 50), (5, 60, 80, 70, 100)
    late = ServerKind("late", (1, 1 / 7, 1 / 20, 50, 100), idle_w, idle_w, full_w, (SleepState(0, 1, 2),))
    talk = Talk(make_policy("workload-reactive"), kinds=[FAST, late])
    asleep = {"0": ASLEEP, "1": 0}
    found = only(d.SetResourceState, talk.at(500.0))
    assert {str(x.resources): x.state for x in found} == asleep
    talk.at(507.0, *(changed(507.0, host, pstate) for host, pstate in asleep.items()))
    woken = only(d.SetResourceState, talk.at(600.0, submitted(600.0, "a", 2)))
    assert sorted((str(x.resources), x.state) for x in woken) == [("0", 0), ("1", 4)]


def test_servers_in_service_only() -> None:
    talk = sleeping()
    talk.at(550.0, machines(550.0, "0-1", "unavailable"))
    assert talk.at(600.0, submitted(600.0, "a", 4)) == [d.SetResourceState(600.0, hosts("2-3"), 0)]
    talk.at(620.0, changed(620.0, "2-3", 0))
    found = talk.at(700.0, machines(700.0, "0-1", "available"))
    assert found == [d.SetResourceState(700.0, hosts("0-1"), 0)]


def test_without_power_actions_it_is_plain_easy() -> None:
    talk = Talk(make_policy("workload-reactive"), power_actions=False)
    assert talk.begun == []
    assert talk.at(500.0) == []
    assert talk.at(600.0, submitted(600.0, "a", 4)) == [d.ExecuteJob(600.0, "w0!a", hosts("0-3"))]
