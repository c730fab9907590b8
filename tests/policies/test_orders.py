"""P_R, P_B, the one backfilling pass and the last window: the same rules in every policy on a site.

Four servers with power for all, steps of 60 s, an hour's window, all servers planned on.
"""

from __future__ import annotations

import numpy as np
import pytest
from talk import Talk, completed, only, production, small_battery, submitted
from worlds import FAST, plans_of

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import decisions as d
from beasy_sched.model.platform import Platform
from beasy_sched.policies.registry import policy_class

PLANNED = ["follow-plan", "peak", "next", "last", "workload"]
ON_A_SITE = ["easy", "power-reactive", "workload-reactive", *PLANNED, "beasy"]
BASELINES = ["fcfs", *ON_A_SITE[:-1]]
Jobs = list[tuple[str, int, float]]
"""Id, hosts, walltime (s)."""


def talk_of(name: str, *, count: int = 4, steps: int = 60) -> Talk:
    cls = policy_class(name)
    site = small_battery(soc_pct=50.0, capacity_j=1e7, steps=steps)
    plans = None
    if cls.needs_plan:
        platform = Platform((FAST,), np.zeros(count, dtype=np.intp), tuple(f"n{i:03}" for i in range(count)))
        plans = plans_of(site, platform, [np.zeros((steps, count), dtype=np.int8)])
    options = {"compensate": False} if name == "beasy" else {}
    talk = Talk(cls(options), count=count, site=site, plans=plans, energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 1e4))
    return talk


def started(decisions: list[d.Decision]) -> list[str]:
    return [x.job_id.removeprefix("w0!") for x in only(d.ExecuteJob, decisions)]


# --- P_R: the largest bounded slowdown first ---


@pytest.mark.parametrize("name", ON_A_SITE)
def test_the_largest_slowdown_is_first(name: str) -> None:
    """At 50 s long has waited 49 s for 3000 (1.02), short 48 s for 20 (3.4)."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 4))
    talk.at(1.0, submitted(1.0, "long", 4, 3000.0))
    talk.at(2.0, submitted(2.0, "short", 4, 20.0))
    assert started(talk.at(50.0, completed(50.0, "x", "0-3"))) == ["short"]


@pytest.mark.parametrize("name", ON_A_SITE)
def test_walltimes_below_ten_seconds_count_as_ten(name: str) -> None:
    """tau: tiny has waited 9 s for 1, (9 + 1) / 10 = 1; long 49 s for 100, 1.49."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 4))
    talk.at(1.0, submitted(1.0, "long", 4, 100.0))
    talk.at(41.0, submitted(41.0, "tiny", 4, 1.0))
    assert started(talk.at(50.0, completed(50.0, "x", "0-3"))) == ["long"]


@pytest.mark.parametrize("name", ON_A_SITE)
def test_a_slowdown_is_never_below_one_and_ties_go_by_arrival(name: str) -> None:
    """(1 + 1) / 10 counts as 1, like that of a job that has just come."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 4))
    talk.at(49.0, submitted(49.0, "tiny", 4, 1.0))
    found = talk.at(50.0, completed(50.0, "x", "0-3"), submitted(50.0, "long", 4, 100.0))
    assert started(found) == ["tiny"]


# --- P_B: the smallest size first ---


@pytest.mark.parametrize("name", ON_A_SITE)
@pytest.mark.parametrize(
    ("fillers", "expected"),
    [
        ([("a", 1, 200.0), ("b", 1, 100.0), ("c", 1, 150.0)], ["b", "c"]),
        ([("flat", 2, 80.0), ("tall", 1, 150.0), ("taller", 1, 155.0)], ["tall", "taller"]),
        ([("tall", 1, 150.0), ("flat", 2, 70.0)], ["flat"]),
    ],
    ids=["by length", "by length x hosts", "not by hosts alone"],
)
def test_the_smallest_fills_in_first(name: str, fillers: Jobs, expected: list[str]) -> None:
    """Two servers are free until the head job takes all four at 1000 s."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 2, 1000.0))
    talk.at(1.0, submitted(1.0, "head", 4, 2000.0))
    waiting_s = 800.0  # so long that none of the fillers is the head
    talk.at(waiting_s, *(submitted(waiting_s, *job) for job in fillers))
    assert [*talk.session.cluster.running] == ["w0!x", *(f"w0!{job}" for job in expected)]


# --- no job delays the reservation; one reservation, one pass ---


@pytest.mark.parametrize("name", ON_A_SITE)
@pytest.mark.parametrize(("walltime", "expected"), [(900.0, ["filler"]), (900.1, [])])
def test_a_filler_ends_by_the_reservation(name: str, walltime: float, expected: list[str]) -> None:
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 2, 1000.0))
    talk.at(1.0, submitted(1.0, "head", 4, 2000.0))
    assert started(talk.at(100.0, submitted(100.0, "filler", 2, walltime))) == expected


@pytest.mark.parametrize("name", ON_A_SITE)
@pytest.mark.parametrize(("walltime", "expected"), [(900.0, ["filler"]), (1500.0, [])])
def test_the_reservation_is_the_earliest(name: str, walltime: float, expected: list[str]) -> None:
    """The head has its three servers at 1000 s; from 2000 s on there would be four."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 1, 1000.0), submitted(0.0, "y", 1, 2000.0))
    talk.at(1.0, submitted(1.0, "head", 3, 1000.0))
    assert started(talk.at(100.0, submitted(100.0, "filler", 1, walltime))) == expected


@pytest.mark.parametrize("name", ON_A_SITE)
def test_servers_beyond_the_reservation_are_for_any_filler_once(name: str) -> None:
    """At 1000 s the head needs three of four: one job may run on beyond that, a second may not."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 2, 1000.0))
    talk.at(1.0, submitted(1.0, "head", 3, 2000.0))
    found = talk.at(100.0, submitted(100.0, "one", 1, 1500.0), submitted(100.0, "two", 1, 1600.0))
    assert started(found) == ["one"]


@pytest.mark.parametrize("name", ON_A_SITE)
def test_only_the_first_job_has_a_reservation(name: str) -> None:
    """The head has three of four servers at 1000 s; the filler may delay second, which waits for all."""
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 2, 1000.0))
    talk.at(1.0, submitted(1.0, "head", 3, 500.0))
    assert started(talk.at(2.0, submitted(2.0, "second", 4, 500.0))) == []
    assert started(talk.at(100.0, submitted(100.0, "filler", 1, 3000.0))) == ["filler"]


def test_fcfs_goes_by_arrival_and_fills_nothing() -> None:
    talk = talk_of("fcfs")
    talk.at(0.0, submitted(0.0, "x", 2))
    talk.at(1.0, submitted(1.0, "head", 4, 3000.0))
    assert started(talk.at(2.0, submitted(2.0, "filler", 1, 1.0))) == []
    found = talk.at(50.0, completed(50.0, "x", "0-1"), submitted(50.0, "short", 4, 10.0))
    assert started(found) == ["head"]


# --- the last known window ---


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_start_what_runs_past_the_last_window(name: str) -> None:
    talk = talk_of(name, steps=3)
    assert started(talk.at(1.0, submitted(1.0, "a", 1, 1000.0))) == ["a"]
    assert started(talk.at(2.0, submitted(2.0, "b", 1, None))) == ["b"]


def test_beasy_postpones_it_and_lets_others_pass() -> None:
    talk = talk_of("beasy", steps=3)
    assert started(talk.at(1.0, submitted(1.0, "late", 1, 180.0))) == []
    assert started(talk.at(2.0, submitted(2.0, "in-time", 4, 178.0))) == ["in-time"]


# --- servers ---


@pytest.mark.parametrize("name", ON_A_SITE)
def test_of_equal_servers_the_lower_ids(name: str) -> None:
    talk = talk_of(name)
    talk.at(0.0, submitted(0.0, "x", 1))
    found = only(d.ExecuteJob, talk.at(1.0, submitted(1.0, "a", 2)))
    assert [str(x.alloc) for x in found] == ["1-2"]
