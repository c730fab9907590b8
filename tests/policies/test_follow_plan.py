"""follow-plan: states as planned, jobs killed by planned sleep, EASY that knows the plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from command_line import exit_code
from talk import ASLEEP, Talk, changed, killed, machines, only, production, small_battery, submitted
from worlds import FAST, plans_of

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.formats.site_file import default_site_text
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings

Z = ASLEEP


def talk_of(*rows: Sequence[int], watts: float = 1e4, **changes: object) -> Talk:
    """Servers that wake in 20 s and fall asleep in 7, steps of 60 s, one row of states each."""
    states = np.array(rows, dtype=np.int8)
    count = states.shape[1]
    site = small_battery(**{"soc_pct": 80.0, "capacity_j": 1e7, "steps": len(rows), **changes})
    platform = Platform((FAST,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
    plans = plans_of(site, platform, [states])
    talk = Talk(make_policy("follow-plan"), count=count, site=site, plans=plans, energy=EnergySource.MODEL)
    talk.begun = talk.at(0.0, production(0.0, watts))
    return talk


def switched(decisions: list[d.Decision]) -> list[tuple[str, int]]:
    return [(str(x.resources), x.state) for x in only(d.SetResourceState, decisions)]


def started(decisions: list[d.Decision]) -> list[tuple[str, str]]:
    return [(x.job_id[3:], str(x.alloc)) for x in only(d.ExecuteJob, decisions)]


def step(talk: Talk, now: float, watts: float = 1e4) -> list[d.Decision]:
    return talk.at(now, production(now, watts))


def test_every_server_goes_to_its_planned_state() -> None:
    talk = talk_of([0, 1, Z, 0], [1, 1, 0, 0], [1, 1, 0, 0])
    assert switched(talk.begun) == [("1", 1), ("2", Z)]
    talk.at(7.0, changed(7.0, "2", Z))
    assert switched(step(talk, 60.0)) == [("2", 0), ("0", 1)]
    talk.at(80.0, changed(80.0, "2", 0))
    assert switched(step(talk, 120.0)) == []


def test_a_busy_server_changes_its_speed_and_keeps_its_job() -> None:
    talk = talk_of([0, 0], [1, 1])
    assert started(talk.at(1.0, submitted(1.0, "a", 2))) == [("a", "0-1")]
    assert switched(step(talk, 60.0)) == [("0-1", 1)]
    assert [*talk.session.cluster.running] == ["w0!a"]


def test_planned_sleep_kills_the_job_of_the_server_and_frees_its_others() -> None:
    talk = talk_of([0, 0, 0], [0, Z, 0], [0, Z, 0])
    found = talk.at(1.0, submitted(1.0, "a", 2), submitted(1.0, "b", 1))
    assert started(found) == [("a", "0-1"), ("b", "2")]
    step(talk, 60.0)
    assert only(d.KillJobs, talk.at(60.001)) == [d.KillJobs(60.001, ("w0!a",))]
    found = talk.at(60.001, killed(60.001, "a", "0-1"), submitted(60.001, "c", 1))
    assert switched(found) == [("1", Z)]
    assert started(found) == [("c", "0")]
    assert talk.session.outcomes.counts()["killed"] == 1
    assert ("w0!a", "its server is planned to sleep") in [(row[2], row[4]) for row in talk.log]


def test_a_server_still_waking_when_the_plan_wants_it_asleep_goes_back() -> None:
    """Contradicting requests: the plan of the present step wins."""
    talk = talk_of([Z], [0], [Z], [0], [0])
    talk.at(7.0, changed(7.0, "0", Z))
    assert switched(step(talk, 60.0)) == [("0", 0)]
    assert switched(step(talk, 120.0)) == []
    assert switched(step(talk, 180.0)) == []
    assert switched(talk.at(190.0, changed(190.0, "0", 0))) == []
    assert talk.session.cluster.free_count == 1


def test_what_the_guard_put_to_sleep_is_woken_when_there_is_energy_again() -> None:
    talk = talk_of([0, 0], [0, 0], [0, 0], watts=0.0, soc_pct=20.0)
    assert switched(talk.begun) == [("0-1", Z)]
    talk.at(7.0, changed(7.0, "0-1", Z))
    assert switched(step(talk, 60.0, watts=0.0)) == []
    assert switched(step(talk, 120.0)) == [("0-1", 0)]


def test_nobody_is_woken_for_jobs_beyond_the_plan() -> None:
    talk = talk_of([0, Z], [0, Z])
    talk.at(7.0, changed(7.0, "1", Z))
    found = talk.at(10.0, submitted(10.0, "a", 2))
    assert (started(found), switched(found)) == ([], [])


def test_servers_out_of_service_are_left_alone_until_they_are_back() -> None:
    talk = talk_of([0, 0], [Z, 0], [Z, 0])
    talk.at(1.0, machines(1.0, "0", "unavailable"))
    assert switched(step(talk, 60.0)) == []
    talk.at(70.0, machines(70.0, "0", "available"))
    assert switched(step(talk, 120.0)) == [("0", Z)]


def test_after_the_last_planned_window_servers_stay_as_they_are() -> None:
    site = small_battery(soc_pct=80.0, capacity_j=1e7, steps=1)
    platform = Platform((FAST,), np.zeros(2, dtype=np.intp), ("n000", "n001"))
    plans = plans_of(site, platform, [np.array([[0, Z]], dtype=np.int8)])
    policy = make_policy("follow-plan")
    talk = Talk(policy, count=2, site=site, plans=plans, windows=2, energy=EnergySource.MODEL)
    step(talk, 0.0)
    talk.at(7.0, changed(7.0, "1", Z))
    assert switched(step(talk, 60.0)) == []
    assert started(talk.at(61.0, submitted(61.0, "a", 2), submitted(61.0, "b", 1))) == [("b", "0")]


# --- the reservation ---


@pytest.mark.parametrize(
    ("walltime", "starts"), [(70.0, True), (70.1, False)], ids=["ends in time", "would delay"]
)
def test_backfilling_ends_before_a_planned_wake_serves_the_first_job(walltime: float, starts: bool) -> None:
    """The first job wants both servers; the sleeping one is ready 20 s into the second step, at 80 s."""
    talk = talk_of([0, Z], [0, 0], [0, 0], [0, 0])
    talk.at(7.0, changed(7.0, "1", Z))
    found = talk.at(10.0, submitted(10.0, "a", 2, 5.0), submitted(10.0, "b", 1, walltime))
    assert started(found) == ([("b", "0")] if starts else [])


def test_a_job_that_never_has_its_servers_holds_nobody_back() -> None:
    """One sleeps when the other is on: two are never on together."""
    talk = talk_of([0, Z], [Z, 0], [0, Z])
    talk.at(7.0, changed(7.0, "1", Z))
    assert started(talk.at(10.0, submitted(10.0, "a", 2, 5.0), submitted(10.0, "b", 1, 1e4))) == [("b", "0")]


@pytest.mark.parametrize(("walltime", "starts"), [(50.0, True), (1000.0, True), (1001.0, False)])
def test_the_reservation_waits_for_running_jobs_too(walltime: float, starts: bool) -> None:
    """Three servers; x runs to 1001 s at most, beyond the plan's last change; a wants all three."""
    talk = talk_of(*[[0, 0, 0]] * 20)
    talk.at(1.0, submitted(1.0, "x", 2, 1000.0))
    found = talk.at(1.0, submitted(1.0, "a", 3, 1e3), submitted(1.0, "b", 1, walltime))
    assert started(found) == ([("b", "2")] if starts else [])


def test_servers_to_spare_at_the_reservation_may_be_taken_for_longer() -> None:
    talk = talk_of([0, Z, Z], [0, 0, 0], [0, 0, 0], [0, 0, 0])
    talk.at(7.0, changed(7.0, "1-2", Z))
    found = talk.at(10.0, submitted(10.0, "a", 2, 5.0), submitted(10.0, "b", 1, 1e4))
    assert started(found) == [("b", "0")]


def test_a_job_killed_by_planned_sleep_gives_its_server_back_when_it_wakes() -> None:
    """x has no walltime, but the plan ends it at 60 s; the server is ready again at 140 s."""
    talk = talk_of([0, 0], [Z, 0], [0, 0], [0, 0])
    assert started(talk.at(1.0, submitted(1.0, "x", 1, None))) == [("x", "0")]
    found = talk.at(40.0, submitted(40.0, "a", 2, 5.0), submitted(40.0, "b", 1, 100.0))
    assert started(found) == [("b", "1")]


def test_without_power_actions_it_is_easy_on_all_servers() -> None:
    site = small_battery(soc_pct=80.0, capacity_j=1e7)
    platform = Platform((FAST,), np.zeros(2, dtype=np.intp), ("n000", "n001"))
    plans = plans_of(site, platform, [np.array([[0, Z]] * 3, dtype=np.int8)])
    talk = Talk(make_policy("follow-plan"), count=2, site=site, plans=plans, power_actions=False)
    found = talk.at(0.0, production(0.0, 1e4), submitted(0.0, "a", 2))
    assert (switched(found), started(found)) == ([], [("a", "0-1")])


def test_it_needs_a_site_and_a_plan() -> None:
    with pytest.raises(ConfigError, match="'follow-plan' requires a site"):
        build_session(RunSettings("follow-plan"))
    with pytest.raises(ConfigError, match="'follow-plan' requires an offline plan: pass --plan FILE"):
        build_session(RunSettings("follow-plan", site=default_site_text()))


def test_the_list_says_what_it_needs(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("policies") == 0
    line = next(x for x in capfd.readouterr().out.splitlines() if x.startswith("follow-plan"))
    assert line.endswith("(requires --site and --plan)")
