"""What a policy sees of how far jobs are, beside the work that the simulator did."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from talk import Scripted, Talk, completed, production, small_battery, submitted
from worlds import FAST, random_world, world_plans

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, Kill, SetPState
from beasy_sched.engine.policy import View
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.policies.easy import Easy


def view_of(talk: Talk, now: float) -> View:
    """The view at ``now``, taken by an own call."""
    found: list[View] = []
    talk.ask(now, lambda view: found.append(view) or [], e.RequestedCall(now))  # type: ignore[func-returns-value]
    return found[0]


def change_speed(talk: Talk, now: float, where: str, pstate: int) -> None:
    talk.ask(now, lambda view: [SetPState(HostSet.parse(where), pstate)], e.RequestedCall(now))


def test_work_follows_the_slowest_host_through_changes_of_speed() -> None:
    talk = Talk(count=2)
    talk.run_job(0.0, "a", "0-1", walltime=100.0)
    change_speed(talk, 10.0, "1", 1)  # half the speed
    change_speed(talk, 30.0, "0-1", 1)
    change_speed(talk, 40.0, "0-1", 0)
    progress = view_of(talk, 50.0).progress()
    assert progress.run_s == pytest.approx([50.0])
    assert progress.work_flops == pytest.approx([10 * 100 + 20 * 50 + 10 * 50 + 10 * 100])
    assert FAST.reference_speed_flops == 100.0  # the faster of the two in the middle
    assert progress.work_share == pytest.approx([0.35])
    assert np.isnan(progress.energy_j).all()  # nothing is counted without a site


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (e.JobEnd.SUCCESS, JobState.FINISHED),
        (e.JobEnd.FAILED, JobState.FAILED),
        (e.JobEnd.WALLTIME_REACHED, JobState.WALLTIME_REACHED),
    ],
)
def test_an_ended_job_tells_its_work_and_how_it_ended(end: e.JobEnd, state: JobState) -> None:
    talk = Talk(count=1)
    talk.run_job(0.0, "a", "0", walltime=40.0)
    change_speed(talk, 10.0, "0", 1)
    seen: list[tuple[list[Job], np.ndarray]] = []
    talk.ask(
        20.0,
        lambda view: seen.append((view.ended, view.progress(view.ended).work_share)) or [],  # type: ignore[func-returns-value]
        completed(20.0, "a", "0", end),
    )
    change_speed(talk, 30.0, "0", 0)
    (jobs, share) = seen[0]
    assert [job.state for job in jobs] == [state]
    assert share == pytest.approx([1500 / (40 * 100)])
    assert view_of(talk, 60.0).progress(jobs).work_share == pytest.approx(share)


def test_a_job_that_was_killed_did_what_it_did() -> None:
    talk = Talk(count=1)
    talk.run_job(0.0, "a", "0", walltime=40.0)
    view = view_of(talk, 10.0)
    talk.ask(12.0, lambda view: [Kill(view.running["w0!a"])], e.RequestedCall(12.0))
    job = view.running["w0!a"]
    talk.at(13.0, completed(13.0, "a", "0", e.JobEnd.KILLED))
    assert job.state is JobState.KILLED
    assert view_of(talk, 20.0).progress([job]).work_flops == pytest.approx([1300.0])


def test_energy_with_a_site() -> None:
    talk = Talk(count=2, site=small_battery(capacity_j=1e6), energy=EnergySource.MODEL)
    talk.at(0.0, production(0.0, 500.0))
    talk.at(0.001, e.RequestedCall(0.001))
    talk.run_job(1.0, "a", "0-1")
    change_speed(talk, 11.0, "0-1", 1)
    assert view_of(talk, 21.0).progress().energy_j == pytest.approx([2 * (10 * 100.0 + 10 * 70.0)])


def test_without_walltime_or_speeds_there_is_no_share() -> None:
    talk = Talk(count=1)
    talk.run_job(0.0, "a", "0", walltime=None)
    progress = view_of(talk, 5.0).progress()
    assert progress.work_flops == pytest.approx([500.0])
    assert np.isnan(progress.work_share).all()
    unknown = Talk(kinds=[type(FAST)("no speeds", ())])
    unknown.run_job(0.0, "a", "0")
    progress = view_of(unknown, 5.0).progress()
    assert progress.run_s == pytest.approx([5.0])
    assert np.isnan(progress.work_flops).all()
    assert np.isnan(progress.work_share).all()


def test_nobody_and_those_who_wait() -> None:
    talk = Talk(count=1)
    assert [len(column) for column in view_of(talk, 0.0).progress()] == [0, 0, 0, 0]
    talk.at(1.0, submitted(1.0, "a"))
    view = view_of(talk, 2.0)
    assert view.progress(view.queue).work_share.tolist() == [0.0]
    assert np.isnan(view.progress(view.queue).run_s).all()


def test_the_ends_of_run_and_plan() -> None:
    assert Talk().session.view.end_s == math.inf
    assert Talk().session.view.planned_until_s == -math.inf
    world = random_world(np.random.default_rng(1), steps=12).but(
        windows=3, unplanned_windows=1, production_w=(100.0,) * 12
    )
    session = Session(Scripted(), SessionOptions(site=world.site, plans=world_plans(world), windows=3))
    assert session.view.end_s == 720.0
    assert session.view.planned_until_s == 480.0


class Wandering(Easy):
    """EASY whose servers change their speed at random; notes how far the jobs are that have ended."""

    def begin(self, view: View) -> None:
        super().begin(view)
        self.rng = np.random.default_rng(7)
        self.last: View = view
        self.ended: dict[str, tuple[JobState, float]] = {}

    def schedule(self, view: View) -> Sequence[Action]:
        work = view.progress(view.ended).work_flops
        self.ended |= {job.id: (job.state, flops) for job, flops in zip(view.ended, work, strict=True)}
        hosts = np.flatnonzero((self.rng.random(view.platform.size) < 0.4) & (view.host_state <= 1))
        change = SetPState(HostSet(hosts), int(self.rng.integers(2)))
        return [*super().schedule(view), change]


@pytest.mark.sampled
@pytest.mark.parametrize("with_site", [False, True])
def test_finished_jobs_have_done_all_their_flops(with_site: bool) -> None:
    """The embedded simulator ends a job when its flops are done: the same work, by other means."""
    counted = 0
    for seed in range(12):
        world = random_world(np.random.default_rng(seed), most_jobs=40)
        world = world.but(production_w=(2000.0,) * len(world.production_w))
        policy = Wandering()
        session = Session(policy, SessionOptions(site=world.site if with_site else None))
        world.simulation().run(session.step)
        for job_id, (state, work) in policy.ended.items():
            job = world.jobs[int(job_id.partition("!")[2])]
            asked = 0.0 if job.delays else job.run * FAST.speeds_flops[0]
            if state is JobState.FINISHED:
                counted += 1
                assert work == pytest.approx(asked, rel=1e-5, abs=0.1), job_id
            else:
                assert work <= asked + 0.1
    assert counted > 15
