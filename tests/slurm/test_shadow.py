"""A shadow changes nothing, and tells what the scheduler would have done."""

from __future__ import annotations

from slurm.fake_slurm import FakeSlurm
from slurm.live_cases import Beside, all_over

from beasy_sched.slurm.live import shadow_csv


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
