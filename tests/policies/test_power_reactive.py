"""power-reactive: as many servers on as the arriving power feeds; and `easy` on a site, which wakes."""

from __future__ import annotations

import pytest
from talk import ASLEEP, Talk, changed, completed, hosts, machines, only, production, small_battery, submitted
from worlds import FAST

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.model import decisions as d
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings

FED_W = 95.0
"""A server at full load (100 W) instead of asleep (5 W)."""
IDLE_W = 45.0
"""A server that is idle (50 W) instead of asleep."""
WAKING_W = 20 / 60 * 80.0 + 40 / 60 * 50.0 - 5.0
"""One that takes 20 s at 80 W to wake and is idle for the other 40 s of the step, instead of asleep."""


def talk_of(policy: str = "power-reactive", *, watts: float, count: str = "full", **site: object) -> Talk:
    """Four servers and a battery that could feed them all for long."""
    battery = small_battery(**{"soc_pct": 90.0, "capacity_j": 1e7, "steps": 9, **site})
    options = {"count": count} if policy == "power-reactive" else {}
    talk = Talk(make_policy(policy, options), site=battery, energy=EnergySource.MODEL)
    talk.begun = talk.at(0.0, production(0.0, watts))
    return talk


def switched(decisions: list[d.Decision]) -> list[tuple[str, int]]:
    return [(str(x.resources), x.state) for x in only(d.SetResourceState, decisions)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("watts", "asleep"),
    [
        (0.0, "0-3"),
        (20 + FED_W - 0.1, "0-3"),
        (20 + FED_W, "1-3"),
        (20 + 2 * FED_W, "2-3"),
        (20 + 4 * FED_W - 0.1, "3"),
        (20 + 4 * FED_W, ""),
        (1e6, ""),
    ],
)
def test_as_many_on_as_the_power_feeds_at_full_load(watts: float, asleep: str) -> None:
    assert switched(talk_of(watts=watts).begun) == ([(asleep, ASLEEP)] if asleep else [])


@pytest.mark.parametrize("count", ["actual", "wake", "idle"])
@pytest.mark.parametrize(("less_w", "asleep"), [(0.0, "2-3"), (0.1, "1-3")])
def test_idle_servers_count_at_idle_power(count: str, less_w: float, asleep: str) -> None:
    assert switched(talk_of(watts=20 + 2 * IDLE_W - less_w, count=count).begun) == [(asleep, ASLEEP)]


@pytest.mark.parametrize(
    ("count", "busy_w"), [("full", FED_W), ("actual", FED_W), ("wake", IDLE_W), ("idle", IDLE_W)]
)
@pytest.mark.parametrize(("less_w", "woken"), [(0.0, [("2", 0)]), (0.1, [])])
def test_what_busy_and_waking_servers_count_for(
    count: str, busy_w: float, less_w: float, woken: list[tuple[str, int]]
) -> None:
    """Two servers are busy, two asleep; one of these is woken if the power feeds it, too."""
    each_w = {"full": FED_W, "actual": IDLE_W, "wake": WAKING_W, "idle": IDLE_W}[count]
    talk = talk_of(watts=1000.0, count=count)
    talk.at(0.0, submitted(0.0, "a", 2))
    talk.at(60.0, production(60.0, 0.0))
    talk.at(67.0, changed(67.0, "2-3", ASLEEP))
    assert switched(talk.at(120.0, production(120.0, 20 + 2 * busy_w + each_w - less_w))) == woken


def test_the_battery_never_turns_on_more() -> None:
    """A battery of 90 % and a waiting job: nobody is woken but by arriving power."""
    talk = talk_of(watts=20 + FED_W)
    talk.at(7.0, changed(7.0, "1-3", ASLEEP))
    assert switched(talk.at(10.0, submitted(10.0, "a", 4))) == []
    assert switched(talk.at(60.0, production(60.0, 20 + 2.5 * FED_W))) == [("1", 0)]
    talk.at(80.0, changed(80.0, "1", 0))
    assert switched(talk.at(120.0, production(120.0, 1000.0))) == [("2-3", 0)]


def test_running_servers_are_fed_first_and_the_battery_serves_them_when_power_falls_short() -> None:
    talk = talk_of(watts=1000.0)
    talk.at(0.0, submitted(0.0, "x"), submitted(0.0, "a", 2))
    assert [*talk.session.cluster.running] == ["w0!x", "w0!a"]
    talk.at(5.0, completed(5.0, "x"))
    assert switched(talk.at(60.0, production(60.0, 20 + 3 * FED_W))) == [("3", ASLEEP)]
    assert switched(talk.at(120.0, production(120.0, 0.0))) == [("0", ASLEEP)]
    assert [*talk.session.cluster.running] == ["w0!a"]
    talk.at(180.0, production(180.0, 0.0))
    assert talk.session.power.trace[-1].record.discharge_w > 200.0
    assert talk.session.outcomes.counts()["killed"] == 0


def test_no_job_is_killed_for_want_of_arriving_power() -> None:
    talk = talk_of(watts=1000.0)
    talk.at(0.0, submitted(0.0, "a", 4))
    for now in (60.0, 120.0):
        talk.at(now, production(now, 0.0))
    assert not [row for row in talk.log if row[1] == "kill"]


def test_servers_that_are_on_come_before_sleeping_ones_of_lower_ids() -> None:
    talk = talk_of(watts=1000.0)
    talk.at(0.0, submitted(0.0, "x"), submitted(0.0, "a", 3))
    talk.at(5.0, completed(5.0, "x"))
    assert switched(talk.at(60.0, production(60.0, 0.0))) == [("0", ASLEEP)]
    talk.at(67.0, changed(67.0, "0", ASLEEP), completed(67.0, "a", "1-3"))
    assert switched(talk.at(120.0, production(120.0, 20 + FED_W))) == [("2-3", ASLEEP)]


def test_servers_that_wake_count_as_on() -> None:
    talk = talk_of(watts=0.0)
    talk.at(7.0, changed(7.0, "0-3", ASLEEP))
    assert switched(talk.at(60.0, production(60.0, 20 + 2 * FED_W))) == [("0-1", 0)]
    assert switched(talk.at(120.0, production(120.0, 20 + 2 * FED_W))) == []


@pytest.mark.parametrize(("less_w", "asleep"), [(0.0, "3"), (0.1, "2-3")])
def test_servers_out_of_service_are_neither_fed_nor_switched(less_w: float, asleep: str) -> None:
    """Out of service it idles at 50 W, which arrive before anything else."""
    talk = talk_of(watts=1000.0)
    talk.at(1.0, machines(1.0, "0", "unavailable"))
    assert switched(talk.at(60.0, production(60.0, 50 + 15 + 2 * FED_W - less_w))) == [(asleep, ASLEEP)]


def test_it_starts_jobs_on_what_is_on() -> None:
    talk = talk_of(watts=20 + 2 * FED_W)
    found = talk.at(1.0, submitted(1.0, "a", 3), submitted(1.0, "b", 2, 10.0))
    assert only(d.ExecuteJob, found) == [d.ExecuteJob(1.0, "w0!b", hosts("0-1"))]


def test_it_needs_a_site() -> None:
    with pytest.raises(ConfigError, match="'power-reactive' requires a site"):
        build_session(RunSettings("power-reactive"))


# --- easy on a site ---


def test_easy_wakes_what_the_guard_put_to_sleep() -> None:
    talk = talk_of("easy", watts=0.0, soc_pct=20.0, charge_w=1e-9)
    assert switched(talk.begun) == [("0-3", ASLEEP)]
    talk.at(7.0, changed(7.0, "0-3", ASLEEP))
    assert switched(talk.at(10.0, submitted(10.0, "a", 2))) == []
    assert switched(talk.at(60.0, production(60.0, 1000.0))) == [("0-1", 0)]
    found = talk.at(80.0, changed(80.0, "0-1", 0))
    assert only(d.ExecuteJob, found) == [d.ExecuteJob(80.0, "w0!a", hosts("0-1"))]


def test_easy_wakes_nobody_without_need() -> None:
    talk = talk_of("easy", watts=0.0, soc_pct=20.0, charge_w=1e-9)
    talk.at(7.0, changed(7.0, "0-3", ASLEEP))
    assert switched(talk.at(60.0, production(60.0, 1000.0))) == []


@pytest.mark.parametrize(("options", "first"), [({}, "w0!b"), ({"priority": "arrival"}, "w0!a")])
def test_easy_on_a_site_takes_the_largest_slowdown_first(options: dict[str, str], first: str) -> None:
    talk = Talk(make_policy("easy", options), site=small_battery(capacity_j=1e7), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1e4))
    talk.at(0.0, submitted(0.0, "x", 4))
    talk.at(1.0, submitted(1.0, "a", 4, 5000.0))
    talk.at(2.0, submitted(2.0, "b", 4, 20.0))
    assert only(d.ExecuteJob, talk.at(50.0, completed(50.0, "x", "0-3")))[0].job_id == first


def test_the_figures_are_of_the_kind_they_are_about() -> None:
    assert FAST.full_w[0] - FAST.idle_w[2] == FED_W
