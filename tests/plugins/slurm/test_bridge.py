"""What a bridge asks of Slurm, and what it tells the scheduler, beside a fake Slurm."""

from __future__ import annotations

import itertools
import random

import pytest
from msgspec import structs
from plugins.slurm.fake_slurm import Delays, FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, platform_of, submit

from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.acting import Acting
from beasy_sched.plugins.slurm.kills import ClusterKills
from beasy_sched.plugins.slurm.records import MARK, PLACED, REJECTED, SlurmJob, SlurmNode


@pytest.mark.parametrize("version", ["22.05.8", "23.11.4"])
def test_jobs_start_where_the_policy_says(version: str) -> None:
    slurm = FakeSlurm(4, version=version)
    jobs = [submit(slurm, nodes=nodes, run_s=run_s) for nodes, run_s in ((2, 30), (4, 20), (1, 10))]
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm))
    assert beside.starts() == [("slurm!1", "0-1"), ("slurm!3", "2"), ("slurm!2", "0-3")]
    assert [slurm.jobs[job].on for job in jobs] == [("n1", "n2"), ("n1", "n2", "n3", "n4"), ("n3",)]
    beside.go(2)
    assert set(beside.job_states().values()) == {JobState.FINISHED.value}


def test_tasks_of_an_array_are_jobs() -> None:
    slurm = FakeSlurm(2)
    submit(slurm, run_s=10, tasks=[1, 2, 5])
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm))
    assert [job for job, _ in beside.starts()] == ["slurm!1_1", "slurm!1_2", "slurm!1_5"]


def test_a_dependent_job_arrives_when_it_may_start() -> None:
    slurm = FakeSlurm(4)
    submit(slurm, run_s=20)
    second = submit(slurm, run_s=5, dependency="afterok:1(unfulfilled)")
    beside = Beside(slurm)
    beside.go(10)
    assert [job for job, _ in beside.starts()] == ["slurm!1"]
    slurm.jobs[second].dependency = ""
    beside.until(lambda: all_over(slurm))
    assert [job for job, _ in beside.starts()] == ["slurm!1", "slurm!2"]


def test_nobody_else_is_touched() -> None:
    """Jobs of other partitions, jobs held by their users, running jobs, and nodes that are taken."""
    slurm = FakeSlurm(3)
    other = slurm.submit(partition="other", held=True)
    own_hold = slurm.submit(held=True)
    before = slurm.submit(nodes=1, run_s=50, held=False)
    slurm.advance(3)
    assert slurm.jobs[before].state == "RUNNING"
    ours = submit(slurm, nodes=3, run_s=10)
    beside = Beside(slurm)
    beside.until(lambda: slurm.jobs[ours].state == "COMPLETED")
    assert slurm.jobs[ours].start_s >= slurm.jobs[before].end_s
    assert slurm.jobs[before].state == "COMPLETED"
    named = {word for command in slurm.changing for word in command}
    assert not named & {other, own_hold, before, f"JobId={other}", f"JobId={own_hold}", f"JobId={before}"}


def test_what_nodes_do_not_say_is_left_to_slurm() -> None:
    slurm = FakeSlurm(2)
    job = submit(slurm, run_s=5, licenses="matlab:1")
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[job].state == "COMPLETED"
    assert beside.starts() == []
    assert [text for text in beside.said if "left to Slurm" in text] == [
        "job 1 requests more than nodes (licenses matlab:1): left to Slurm"
    ]


def test_a_job_that_its_user_cancels_is_forgotten() -> None:
    slurm = FakeSlurm(2)
    submit(slurm, nodes=2, run_s=30)
    waiting, third = submit(slurm, nodes=2, run_s=5), submit(slurm, nodes=2, run_s=5)
    beside = Beside(slurm)
    beside.go(5)
    slurm.cancel(waiting)
    beside.go(3)
    slurm.cancel("1")
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert [job for job, _ in beside.starts()] == ["slurm!1", f"slurm!{third}"]
    assert beside.job_states() == {
        "slurm!1": JobState.KILLED.value,
        "slurm!2": JobState.REJECTED.value,
        "slurm!3": JobState.FINISHED.value,
    }


def test_a_job_that_somebody_else_releases_is_theirs() -> None:
    slurm = FakeSlurm(1)
    submit(slurm, run_s=30)
    second = submit(slurm, run_s=5)
    beside = Beside(slurm)
    beside.go(5)
    slurm.jobs[second].held = False
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert [job for job, _ in beside.starts()] == ["slurm!1"]
    assert beside.job_states()["slurm!2"] == JobState.REJECTED.value


@pytest.mark.parametrize("cancel", [False, True])
def test_a_rejected_job_stays_unless_it_is_to_be_cancelled(cancel: bool) -> None:
    slurm = FakeSlurm(2)
    job = submit(slurm, nodes=5)
    beside = Beside(slurm, on_reject="cancel" if cancel else "hold")
    beside.go(5)
    assert slurm.jobs[job].state == ("CANCELLED" if cancel else "PENDING")
    assert (slurm.jobs[job].admin_comment == REJECTED) is not cancel
    again = Beside(slurm)
    again.go(3)
    assert again.job_states() == {}


def test_a_job_whose_node_vanishes_comes_again() -> None:
    slurm = FakeSlurm(2)
    submit(slurm, nodes=1, run_s=40)
    beside = Beside(slurm)
    beside.go(10)
    slurm.lose("n1")
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert beside.starts() == [("slurm!1", "0"), ("slurm!1+1", "1")]
    assert beside.job_states() == {
        "slurm!1": JobState.FAILED.value,
        "slurm!1+1": JobState.FINISHED.value,
    }
    slurm.bring_back("n1")
    submit(slurm, nodes=2, run_s=3)
    beside.until(lambda: all_over(slurm))


def test_a_start_that_slurm_refuses_loses_nothing() -> None:
    slurm = FakeSlurm(2)
    submit(slurm, run_s=5)
    slurm.denied = True
    beside = Beside(slurm)
    beside.go(4)
    assert any("Invalid user id" in text for text in beside.said)
    assert slurm.jobs["1"].state == "PENDING"


def test_while_the_controller_is_away_nothing_has_ended() -> None:
    slurm = FakeSlurm(2)
    submit(slurm, nodes=2, run_s=60)
    beside = Beside(slurm)
    beside.go(5)
    slurm.away = True
    submit(slurm, nodes=1, run_s=5)
    beside.go(20)
    assert beside.job_states() == {}
    slurm.away = False
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert set(beside.job_states().values()) == {JobState.FINISHED.value}
    assert [text.partition(",")[0] for text in beside.said if "controller" in text][-1] == (
        "the controller responds again"
    )


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_a_bridge_that_is_killed_loses_no_job(seed: int) -> None:
    """At a random moment, even between two commands; the next one finds everything in Slurm."""
    rng = random.Random(seed)
    slurm = FakeSlurm(3, delays=Delays(start_s=rng.choice([0.0, 1.0, 3.0])))
    for _ in range(8):
        submit(slurm, nodes=rng.randint(1, 3), run_s=rng.randint(1, 12))
    budget = itertools.count()
    dies_at = rng.randint(0, 60)

    class Killed(BaseException):
        """kill -9."""

    def until_killed(command):
        if next(budget) == dies_at:
            raise Killed
        return slurm(command)

    beside = Beside(slurm)
    beside.service.slurm._run = until_killed
    with pytest.raises(Killed):
        beside.go(300)
    later = Beside(slurm)
    later.until(lambda: all_over(slurm))
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert all(job.restarts == 0 for job in slurm.jobs.values())


def test_a_node_that_does_not_wake_costs_no_job() -> None:
    """The others run the jobs; after a while, the node is asked again, and comes."""
    slurm = FakeSlurm(3)
    beside = Beside(slurm, "workload-reactive")
    beside.until(lambda: all("POWERED_DOWN" in node.flags for node in slurm.nodes.values()))
    slurm.broken.add("n1")
    jobs = [submit(slurm, nodes=2, run_s=20), submit(slurm, nodes=3, run_s=10)]
    beside.until(lambda: slurm.jobs[jobs[0]].state == "COMPLETED")
    assert slurm.jobs[jobs[0]].on == ("n2", "n3")
    assert [text for text in beside.said if "failed to wake" in text] == ["n1 failed to wake"]
    assert [hosts for _, what, _, hosts, _ in beside.log if what == "lost"] == ["0"]
    slurm.broken.clear()
    beside.until(lambda: all_over(slurm), 3600)
    assert slurm.jobs[jobs[1]].on == ("n1", "n2", "n3")


def test_a_job_with_a_time_of_its_own_arrives_then() -> None:
    slurm = FakeSlurm(2)
    late = submit(slurm, run_s=5, begin_s=slurm.now_s + 60.0)
    beside = Beside(slurm)
    beside.go(30)
    assert beside.starts() == []
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[late].start_s >= slurm.jobs[late].begin_s


def test_a_job_that_cannot_be_requeued_is_cancelled() -> None:
    bridge = Acting(platform_of(1), "main", epoch_s=0.0, kills=ClusterKills("requeue"))
    for job_id, can_requeue in (("1", True), ("2", False)):
        job = SlurmJob(
            id=job_id, state="PENDING", partition="main", admin_comment=MARK, can_requeue=can_requeue
        )
        nodes = {"n1": SlurmNode("n1", "IDLE")}
        bridge.observe(0.0, [job], nodes)
        name = f"slurm!{job_id}"
        bridge.carry_out(d.Reply(0.0, [d.ExecuteJob(0.0, name, HostSet.parse("0"))]), 0.0)
        bridge.observe(1.0, [structs.replace(job, state="RUNNING", nodes=("n1",), priority=1)], nodes)
        (action,) = bridge.carry_out(d.Reply(1.0, [d.KillJobs(1.0, (name,))]), 1.0)
        assert action == (a.RequeueJob("1") if can_requeue else a.CancelJob("2"))


def test_a_refusal_is_told_once() -> None:
    slurm = FakeSlurm(2)
    beside = Beside(slurm, "workload-reactive")
    slurm.denied = True
    beside.go(120)
    assert len([command for command in slurm.changing if "State=POWER_DOWN" in command]) > 3
    assert len(beside.said) == len({*beside.said}) <= 2


def test_a_requeued_job_that_still_has_its_nodes_is_not_running() -> None:
    """Slurm counts the requeue before the job has left its nodes."""
    bridge = Acting(platform_of(1), "main", epoch_s=0.0, kills=ClusterKills("requeue", names_lives=True))
    job = SlurmJob(id="1", state="PENDING", partition="main", admin_comment=MARK)
    nodes = {"n1": SlurmNode("n1", "IDLE")}
    bridge.observe(0.0, [job], nodes)
    bridge.carry_out(d.Reply(0.0, [d.ExecuteJob(0.0, "slurm!1", HostSet.parse("0"))]), 0.0)
    runs = structs.replace(job, state="RUNNING", nodes=("n1",), priority=1, admin_comment=PLACED)
    bridge.observe(1.0, [runs], nodes)
    bridge.carry_out(d.Reply(1.0, [d.KillJobs(1.0, ("slurm!1",))]), 1.0)
    bridge.message(1.0)
    for at_s, state in ((2.0, "COMPLETING"), (3.0, "REQUEUE_HOLD")):
        bridge.observe(at_s, [structs.replace(runs, state=state, restarts=1)], nodes)
    message = bridge.message(3.0)
    assert message is not None
    kinds = [type(event) for event in message.events]
    assert kinds[:2] == [e.JobCompleted, e.JobsKilled]
    assert e.JobRuns not in kinds
    assert "1" not in bridge.tracked
    bridge.observe(4.0, [structs.replace(job, restarts=1, admin_comment=PLACED)], nodes)
    assert bridge.tracked["1"].name == "slurm!1#1"
