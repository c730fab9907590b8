"""The storage guard, rule by rule, with figures worked out by hand (`guard_steps`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from engine.guard_steps import ASLEEP_J, BUSY_J, FALLING_J, IDLE_J, SLEEP, at_soc_min, next_step, rows
from talk import (
    ASLEEP,
    Talk,
    changed,
    hosts,
    killed,
    only,
    production,
    small_battery,
    submitted,
)
from worlds import FAST, plans_of

from beasy_sched.energy.devices.hydrogen import Hold, HydrogenSpec
from beasy_sched.energy.site import GuardMode
from beasy_sched.energy.storage import Storage
from beasy_sched.engine.actions import SetPState
from beasy_sched.engine.guard import _fewest
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.host_states import HostState
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.policies.registry import make_policy

# --- how much must go ---


@pytest.mark.parametrize(
    ("short_j", "asleep"),
    [(-1.0, ""), (0.0, ""), (1.0, "3"), (2315.0, "3"), (2316.0, "2-3"), (9260.0, "0-3"), (11_000.0, "0-3")],
)
def test_idle_servers_sleep_as_many_as_needed_the_last_first(short_j: float, asleep: str) -> None:
    talk = at_soc_min()
    found = next_step(talk, (4 * IDLE_J - short_j) / 60)
    assert [x.resources for x in only(d.SetResourceState, found)] == ([hosts(asleep)] if asleep else [])
    saved_j = len(hosts(asleep)) * (IDLE_J - FALLING_J)
    assert talk.session.view.budget.headroom_j == pytest.approx(saved_j - short_j, abs=1e-6)


def test_the_battery_above_soc_min_is_used_first() -> None:
    talk = at_soc_min(soc_pct=50.0)
    assert only(d.SetResourceState, next_step(talk, 0.0)) == []
    assert talk.session.view.budget.headroom_j == pytest.approx(30_000 - 4 * IDLE_J)


def test_no_more_than_the_discharge_limit_of_it() -> None:
    talk = at_soc_min(soc_pct=90.0, discharge_w=150.0)
    found = next_step(talk, 0.0)
    assert only(d.SetResourceState, found) == [d.SetResourceState(60.0, hosts("2-3"), ASLEEP)]
    assert talk.session.view.budget.headroom_j == pytest.approx(150 * 60 - 2 * IDLE_J - 2 * FALLING_J)


@pytest.mark.parametrize(
    ("hold", "watts", "hydrogen_w", "asleep"),
    [
        *((hold, watts, 100.0, asleep) for hold in Hold for watts, asleep in ((100.0, ""), (99.0, "3"))),
        (Hold.NEVER, 300.0, -100.0, ""),
        (Hold.NEVER, 299.0, -100.0, "3"),
        *((hold, 200.0, -100.0, "") for hold in (Hold.CURTAILMENT, Hold.SURPLUS)),
        *((hold, 199.0, -100.0, "3") for hold in (Hold.CURTAILMENT, Hold.SURPLUS)),
    ],
)
def test_the_planned_hydrogen_is_counted(hold: Hold, watts: float, hydrogen_w: float, asleep: str) -> None:
    """Four idle servers take 200 W: production, more the fuel cell, less an electrolyzer that is not held."""
    tank = HydrogenSpec(1e-2, 5e-3, 0.0, electrolyzer_max_w=150.0, fuel_cell_max_w=150.0, hold=hold)
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    site = dataclasses.replace(site, storage=Storage(site.storage.battery, tank))
    platform = Platform((FAST,), np.zeros(4, dtype=np.intp), tuple(f"n{i:03}" for i in range(4)))
    states = np.zeros((3, 4), dtype=np.int8)
    talk = Talk(
        site=site, plans=plans_of(site, platform, [states], [hydrogen_w] * 3), energy=EnergySource.MODEL
    )
    found = talk.at(0.0, production(0.0, watts))
    assert [x.resources for x in only(d.SetResourceState, found)] == ([hosts(asleep)] if asleep else [])


# --- in which order ---


def test_wakes_are_cancelled_before_idle_servers_sleep_and_jobs_are_killed() -> None:
    talk = at_soc_min()
    talk.put_to_sleep(0.0, "0-1")
    talk.run_job(1.0, "a", "2")
    request = lambda view: [SetPState(hosts("0-1"), 0)]  # noqa: E731
    talk.policy.say_at_step = request
    waking_j = 20 * 80 + 40 * 50
    needs_j = 2 * waking_j + BUSY_J + IDLE_J
    found = next_step(talk, (needs_j - 2 * (waking_j - ASLEEP_J)) / 60)
    assert only(d.SetResourceState, found) == []
    assert rows(talk) == [("P-state 0", "", "0-1"), (SLEEP, "", "0-1")]
    assert talk.session.cluster.state[:2].tolist() == [HostState.ASLEEP] * 2
    assert not talk.session.view.wake_requested().any()
    assert talk.session.view.budget.headroom_j == pytest.approx(0.0, abs=1e-3)


def test_then_idle_servers_sleep_before_jobs_are_killed() -> None:
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    next_step(talk, (2 * BUSY_J + 2 * FALLING_J) / 60)
    assert rows(talk) == [(SLEEP, "", "2-3")]


def test_then_jobs_are_killed_and_their_servers_sleep() -> None:
    talk = at_soc_min()
    talk.run_job(1.0, "a", "0-1")
    found = next_step(talk, (2 * BUSY_J + 2 * FALLING_J - 1) / 60)
    assert rows(talk) == [(SLEEP, "", "2-3"), ("kill", "w0!a", "0-1"), (SLEEP, "", "0-1")]
    assert only(d.KillJobs, found) == []
    assert talk.at(60.001, e.RequestedCall(60.001)) != []
    assert only(d.SetResourceState, talk.at(60.001, killed(60.001, "a", "0-1"))) == [
        d.SetResourceState(60.001, hosts("0-1"), ASLEEP)
    ]


def test_a_guard_that_may_not_kill_only_puts_idle_servers_to_sleep() -> None:
    talk = at_soc_min(guard_kills=False)
    talk.run_job(1.0, "a", "0-1")
    next_step(talk, (2 * BUSY_J + 2 * FALLING_J - 1) / 60)
    assert rows(talk) == [(SLEEP, "", "2-3")]
    assert talk.session.view.budget.headroom_j == pytest.approx(-1.0, abs=1e-3)


def test_a_server_that_is_waking_sleeps_as_soon_as_it_can() -> None:
    talk = at_soc_min(count=1)
    talk.put_to_sleep(0.0, "0")
    talk.ask(50.0, lambda view: [SetPState(hosts("0"), 0)])
    assert only(d.SetResourceState, next_step(talk, 0.0)) == []
    assert talk.session.view.wakes == []
    assert only(d.SetResourceState, talk.at(70.0, changed(70.0, "0", 0))) == [
        d.SetResourceState(70.0, hosts("0"), ASLEEP)
    ]


def test_starts_come_after_the_guard() -> None:
    """What the guard leaves is two idle servers and nothing for the job that comes with the step."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy"), site=site, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1000.0))
    found = talk.at(60.0, production(60.0, (2 * IDLE_J + 2 * FALLING_J) / 60), submitted(60.0, "a"))
    assert only(d.ExecuteJob, found) == []
    assert [row for row in rows(talk) if row[0] != "postpone"] == [(SLEEP, "", "2-3")]


# --- which jobs ---


def three_jobs(mode: GuardMode, *, veto: bool = True) -> Talk:
    """Spent at 60 s: by a on one host 6000 J, by b on two 6000 J, by c on one 2000 J."""
    talk = at_soc_min(mode=mode, veto=veto)
    talk.run_job(0.0, "a", "0")
    talk.run_job(30.0, "b", "1-2")
    talk.run_job(40.0, "c", "3")
    return talk


SAVED_J = BUSY_J - FALLING_J


@pytest.mark.parametrize(
    ("short_j", "killed"),
    [
        (1.0, ["c"]),
        (SAVED_J, ["c"]),
        (SAVED_J + 1, ["c", "a"]),
        (2 * SAVED_J + 1, ["c", "b"]),
        (3 * SAVED_J + 1, ["c", "a", "b"]),
        (4 * SAVED_J + 1, ["c", "a", "b"]),
    ],
)
def test_shed_kills_those_that_spent_least_and_nobody_needlessly(short_j: float, killed: list[str]) -> None:
    talk = three_jobs(GuardMode.SHED)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == [f"w0!{x}" for x in killed]


class Losses:
    """What the kill of each job costs, s, and the notice of kills."""

    def __init__(self, a: float, b: float, c: float, notice_s: float = 0.0) -> None:
        self._loses_s = {"w0!a": a, "w0!b": b, "w0!c": c}
        self._notice_s = notice_s

    def losses_s(self, jobs: Sequence[Job]) -> list[float]:
        return [self._loses_s[job.id] for job in jobs]

    def notice_s(self, job: Job) -> float:
        return self._notice_s


@pytest.mark.parametrize(
    ("losses", "short_j", "killed"),
    [
        (Losses(5.0, 1.0, 3.0), 1.0, ["b"]),
        (Losses(5.0, 1.0, 3.0), 2 * SAVED_J + 1, ["b", "c"]),
        (Losses(5.0, 1.0, 3.0), 3 * SAVED_J + 1, ["b", "c", "a"]),
        (Losses(1.0, 2.0, 3.0), SAVED_J + 1, ["b"]),  # a alone is too little, and not needed besides b
        (Losses(1.0, 1.0, 1.0), SAVED_J + 1, ["c", "a"]),  # as without restarts
        (Losses(1.0, 1.0, 1.0, notice_s=30.0), SAVED_J / 2 - 1, ["c", "a"]),  # each saves less
    ],
)
def test_where_jobs_come_back_those_that_lose_least_for_the_energy_are_killed(
    losses: Losses, short_j: float, killed: list[str]
) -> None:
    talk = three_jobs(GuardMode.SHED)
    talk.session.power.guard.restarts = losses
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == [f"w0!{x}" for x in killed]


@pytest.mark.parametrize("short_j", [1.0, SAVED_J, 24_000.0])
def test_kill_all_kills_all(short_j: float) -> None:
    talk = three_jobs(GuardMode.KILL_ALL)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert sorted(job for action, job, _ in rows(talk) if action == "kill") == ["w0!a", "w0!b", "w0!c"]


def test_the_end_of_a_job_on_a_server_out_of_service_saves_less() -> None:
    """Such a server cannot sleep: it idles."""
    talk = three_jobs(GuardMode.SHED)
    guard, away = talk.session.power.guard, hosts("1")
    guard.dt_s, guard.energy_j = 60.0, np.full(4, BUSY_J)
    talk.session.cluster.set_in_service(away.ids, False)
    assert guard._kill_saves_j(hosts("1-2").ids) == pytest.approx(2 * BUSY_J - IDLE_J - FALLING_J)


@pytest.mark.parametrize("veto", [True, False])
@pytest.mark.parametrize(("short_j", "killed"), [(0.0, []), (1.0, ["w0!c"])])
def test_the_guard_acts_without_veto_too(veto: bool, short_j: float, killed: list[str]) -> None:
    talk = three_jobs(GuardMode.SHED, veto=veto)
    next_step(talk, (4 * BUSY_J - short_j) / 60)
    assert [job for action, job, _ in rows(talk) if action == "kill"] == killed


@pytest.mark.parametrize("mode", GuardMode)
def test_neither_kills_anyone_where_there_is_energy_for_all(mode: GuardMode) -> None:
    talk = three_jobs(mode)
    next_step(talk, 4 * BUSY_J / 60)
    assert rows(talk) == []


@pytest.mark.parametrize(
    ("saves_j", "missing_j", "chosen"),
    [
        ([], 5, []),
        ([3, 3], 0, []),
        ([1, 10], 10, [1]),  # the first turns out not to be needed
        ([10, 1], 10, [0]),
        ([2, 2, 9], 9, [2]),
        ([2, 2, 9], 10, [0, 2]),
        ([0, 4], 4, [1]),  # what saves nothing is left alone
        ([1, 1], 5, [0, 1]),
    ],
)
def test_fewest(saves_j: list[float], missing_j: float, chosen: list[int]) -> None:
    assert _fewest([float(x) for x in saves_j], missing_j) == chosen
