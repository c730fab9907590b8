"""What a scheduling pass looks at: counted, not timed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talk import Talk, only, production, small_battery, submitted
from worlds import World, random_world, rich_world, run, session_of

from beasy_sched.arrays import BoolArray
from beasy_sched.energy.site import GuardMode
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.engine.pstate_commands import Commander
from beasy_sched.model import decisions as d
from beasy_sched.model.events import Message
from beasy_sched.model.jobs import Job
from beasy_sched.policies.beasy.beasy_pass import BeasyPass, ServerSearch
from beasy_sched.policies.beasy.beasy_policy import Beasy
from beasy_sched.policies.beasy.energy_test import EnergyTest
from beasy_sched.policies.beasy.rest_of_plan import RestOfPlan
from beasy_sched.policies.easy import EasyPass, Places
from beasy_sched.policies.follow_plan import PlannedEasyPass, PlannedRuns
from beasy_sched.policies.planned.job_table import JobTable
from beasy_sched.policies.registry import make_policy
from beasy_sched.testing.witness import LoggedAction

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Ids of the jobs that `EasyPass` has tried to start."""
    ids: list[str] = []
    start = EasyPass.start

    def counted(self: EasyPass, job: Job, late: bool = False) -> bool:
        ids.append(job.id)
        return start(self, job, late)

    monkeypatch.setattr(EasyPass, "start", counted)
    return ids


def test_without_energy_a_pass_does_not_try_the_whole_queue(tried: list[str]) -> None:
    """200 jobs of one and two hosts, and energy for none: one of each is tried, whatever waits beside it."""
    site = small_battery(soc_pct=20.0, charge_w=1e-9)
    talk = Talk(make_policy("easy"), site=site, energy=EnergySource.MODEL)
    jobs = [submitted(0.0, f"j{number}", 1 + number % 2) for number in range(200)]
    found = talk.at(0.0, production(0.0, 4 * 50.0), *jobs)
    assert only(d.ExecuteJob, found) == []
    assert 1 <= len(tried) <= 3
    tried.clear()
    assert only(d.ExecuteJob, talk.at(1.0, submitted(1.0, "late"))) == []
    assert 1 <= len(tried) <= 3


def decided(world: World, policy: str) -> tuple[list[d.Decision], list[LoggedAction]]:
    """The decisions of a run, and the log, which tells why jobs wait."""
    done = run(world, policy)
    return done.decisions, done.witness.actions


@settings(max_examples=examples(40), deadline=None)
@given(seeds, st.booleans(), st.sampled_from(["easy", "peak", "follow-plan", "power-reactive", "beasy"]))
@example(seed=43782602, rich=True, policy="peak")  # a job starts after others were too expensive
def test_what_is_left_out_could_not_have_started(seed: int, rich: bool, policy: str) -> None:
    """The same decisions, for the same reasons, where every job is tried, and every reservation made anew.

    And where every message asks which requests can be sent, and every step what compensation could change.
    """
    rng = np.random.default_rng(seed)
    world = (rich_world if rich else random_world)(rng, most_jobs=40)
    world = world.but(veto=True, mode=GuardMode.SHED)
    found = decided(world, policy)

    def all_of_them(self: EasyPass, places: Places) -> Places:
        return np.arange(len(places))

    def none_stands(self: PlannedRuns, view: View, job: Job, step: int) -> None:
        return None

    def all_running(self: RestOfPlan, view: View, step: int, end: int, energy_j: float) -> JobTable | None:
        return self.running_jobs(view)

    def all_that_fit(self: BeasyPass, places: Places) -> BoolArray:
        return np.ones(len(places), dtype=np.bool_)

    def whatever(self: EnergyTest, enough_j: float = math.inf) -> float:
        return math.inf

    def never(self: RestOfPlan, step: int, end: int) -> bool:
        return False

    forgotten = property(lambda self: None, lambda self, value: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RestOfPlan, "faster_jobs", all_running)
        patch.setattr(RestOfPlan, "is_lowest", never)
        patch.setattr(BeasyPass, "_perhaps_payable", all_that_fit)
        patch.setattr(EnergyTest, "most_payable_j", whatever)
        patch.setattr(ServerSearch, "failed", forgotten)
        patch.setattr(Beasy, "_settled", forgotten, raising=False)
        patch.setattr(EasyPass, "_affordable", all_of_them)
        patch.setattr(PlannedEasyPass, "needs_reservation", EasyPass.needs_reservation)
        patch.setattr(BeasyPass, "needs_reservation", EasyPass.needs_reservation)
        patch.setattr(PlannedRuns, "reserved", none_stands)
        patch.setattr(Commander, "send", Commander._ready)
        assert decided(world, policy) == found


@settings(max_examples=examples(40), deadline=None)
@given(seeds, st.sampled_from(["peak", "beasy"]))
def test_jobs_get_the_same_hosts_without_a_log(seed: int, policy: str) -> None:
    """Where nobody is told why jobs wait, fewer reservations are made."""
    world = random_world(np.random.default_rng(seed), most_jobs=40)
    told = run(world, policy).decisions
    session, untold = session_of(world, policy), []

    def decide(message: Message) -> d.Reply:
        reply = session.step(message)
        untold.extend(reply.decisions)
        return reply

    world.simulation().run(decide)
    assert untold == told
