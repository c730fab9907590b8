"""A shadow changes nothing, and tells what the scheduler would have done."""

from __future__ import annotations

from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, platform_of

from beasy_sched.plugins.slurm.records import SlurmJob, SlurmNode
from beasy_sched.plugins.slurm.shadow import Shadow, shadow_csv


def test_nothing_is_changed() -> None:
    slurm = FakeSlurm(3, holding=False)
    for nodes, run_s in ((2, 30), (3, 20), (1, 10), (1, 5)):
        slurm.submit(nodes=nodes, run_s=run_s)
    beside = Beside(slurm, act=False)
    beside.until(lambda: all_over(slurm))
    beside.go(60)
    assert slurm.changing == []
    assert sorted(job for job, _ in beside.starts()) == [f"slurm!{number}" for number in (1, 2, 3, 4)]


def test_a_job_runs_as_long_as_in_slurm() -> None:
    slurm = FakeSlurm(2, holding=False)
    slurm.submit(nodes=2, run_s=30)
    slurm.submit(nodes=1, run_s=12)
    beside = Beside(slurm, act=False)
    beside.go(80)
    first, second = beside.bridge.compared.values()
    assert (first.slurm_end_s - first.slurm_start_s, second.slurm_end_s - second.slurm_start_s) == (30, 12)
    assert first.start_s == 0
    assert 30 <= first.end_s - first.start_s <= 32
    assert 12 <= second.end_s - second.start_s <= 14
    assert second.nodes == ("n1",)
    assert shadow_csv([second]).splitlines()[1].startswith("2,0.0,1,")


def test_a_job_that_is_cancelled_before_it_starts_is_withdrawn() -> None:
    slurm = FakeSlurm(1, holding=False)
    slurm.submit(run_s=30)
    gone = slurm.submit(run_s=30)
    beside = Beside(slurm, act=False)
    beside.go(5)
    slurm.cancel(gone)
    beside.go(60)
    assert [job for job, _ in beside.starts()] == ["slurm!1"]


def test_nodes_of_jobs_that_ran_before_are_taken() -> None:
    slurm = FakeSlurm(2, holding=False)
    slurm.submit(run_s=30)
    slurm.advance(3)
    slurm.submit(nodes=2, run_s=5)
    beside = Beside(slurm, act=False)
    beside.go(60)
    ((job, _),) = beside.starts()
    assert job == "slurm!2"
    assert 28 <= beside.bridge.compared["2"].start_s <= 30


def test_jobs_that_their_users_hold_are_not_there() -> None:
    slurm = FakeSlurm(2)
    slurm.submit(run_s=5)
    beside = Beside(slurm, act=False)
    beside.go(5)
    assert beside.starts() == []
    slurm.jobs["1"].held = False
    beside.go(5)
    assert beside.starts() == [("slurm!1", "0")]


def test_what_slurm_guesses_of_a_start_keeps_no_job() -> None:
    shadow = Shadow(platform_of(1), "main", epoch_s=1000.0)
    job = SlurmJob(id="1", state="PENDING", partition="main", submit_s=1000.0, start_s=9000.0, priority=5)
    shadow.observe(0.0, [job], {"n1": SlurmNode("n1", "IDLE")})
    assert [*shadow.tracked] == ["1"]


def test_a_job_that_slurm_has_forgotten_has_ended() -> None:
    slurm = FakeSlurm(1, holding=False)
    slurm.submit(run_s=50, limit_s=None)
    beside = Beside(slurm, act=False)
    beside.go(10)
    del slurm.jobs["1"]
    beside.go(3)
    assert beside.bridge.tracked == {}
    assert beside.bridge.compared["1"].end == "COMPLETED_SUCCESSFULLY"
