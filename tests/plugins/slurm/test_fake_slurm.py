"""The fake Slurm of the tests does what a real one was seen to do."""

from __future__ import annotations

import pytest
from plugins.slurm.fake_slurm import Delays, FakeSlurm

from beasy_sched.plugins.slurm import cluster_actions as a
from beasy_sched.plugins.slurm.records import SlurmAway
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm


@pytest.fixture(params=["22.05.8", "23.11.10"])
def fake(request: pytest.FixtureRequest) -> FakeSlurm:
    return FakeSlurm(4, version=request.param)


def states(fake: FakeSlurm) -> dict[str, str]:
    """What the commands' side reads of each job."""
    return {job.id: job.state for job in Slurm(fake).jobs()}


def flags(fake: FakeSlurm, node: str) -> frozenset[str]:
    return next(found.flags for found in Slurm(fake).nodes() if found.name == node)


def test_a_held_job_starts_on_its_nodes_after_its_release(fake: FakeSlurm):
    slurm = Slurm(fake)
    job = fake.submit(nodes=2, run_s=60)
    (found,) = slurm.jobs()
    assert found.is_held
    assert (found.id, found.node_count, found.time_limit_s) == ("1", 2, 3600)
    slurm.do(a.StartJob(job, ("n2", "n4")))
    fake.advance(0.5)
    assert states(fake) == {"1": "PENDING"}
    fake.advance(0.5)
    (found,) = slurm.jobs()
    assert (found.state, found.nodes) == ("RUNNING", ("n2", "n4"))
    assert {node.name: node.state for node in slurm.nodes()}["n2"] == "ALLOCATED"
    fake.advance(60)
    assert states(fake) == {"1": "COMPLETED"}
    fake.advance(301)
    assert states(fake) == {}
    assert fake.changing == [
        ("scontrol", "update", "JobId=1", "ReqNodeList=n2,n4", "AdminComment=beasy-sched: placed"),
        ("scontrol", "release", "1"),
    ]


def test_a_job_is_stopped_at_its_limit(fake: FakeSlurm):
    job = fake.submit(run_s=500, limit_s=120)
    Slurm(fake).do(a.ReleaseJob(job))
    fake.advance(120.9)
    assert states(fake) == {"1": "RUNNING"}
    fake.advance(0.2)
    assert states(fake) == {"1": "TIMEOUT"}


def test_tasks_of_an_array_are_released_one_by_one(fake: FakeSlurm):
    slurm = Slurm(fake)
    fake.submit(tasks=range(1, 4))
    assert list(states(fake)) == ["1_1", "1_2", "1_3"]
    slurm.do(a.StartJob("1_2", ("n3",)))
    fake.advance(1)
    assert states(fake) == {"1_1": "PENDING", "1_2": "RUNNING", "1_3": "PENDING"}
    slurm.do(a.CancelJob("1_1"))
    slurm.do(a.CancelJob("99"))  # a real scancel is silent, too
    assert states(fake) == {"1_1": "CANCELLED", "1_2": "RUNNING", "1_3": "PENDING"}


def test_nodes_fall_asleep_and_wake(fake: FakeSlurm):
    slurm = Slurm(fake)
    slurm.do(a.SwitchOff(("n1", "n2")))
    assert flags(fake, "n2") == {"POWERING_DOWN"}
    slurm.do(a.SwitchOn(("n2",)))  # lost without a word
    fake.advance(3)
    assert flags(fake, "n2") == {"POWERED_DOWN"}
    slurm.do(a.SwitchOn(("n2",)))
    assert flags(fake, "n2") == {"POWERING_UP", "NOT_RESPONDING"}
    fake.advance(10)
    assert flags(fake, "n2") == set()
    assert flags(fake, "n1") == {"POWERED_DOWN"}


def test_a_node_that_does_not_come_is_down_and_may_come_later(fake: FakeSlurm):
    slurm = Slurm(fake)
    slurm.do(a.SwitchOff(("n3",)))
    fake.advance(5)
    fake.broken = {"n3"}
    slurm.do(a.SwitchOn(("n3",)))
    fake.advance(20)
    found = slurm.nodes()[2]
    assert found.state == "DOWN"
    assert found.flags == {"POWERED_DOWN", "NOT_RESPONDING"}
    fake.broken = set()
    slurm.do(a.SwitchOn(("n3",)))
    fake.advance(10)
    assert (slurm.nodes()[2].state, flags(fake, "n3")) == ("IDLE", set())


def test_slurm_wakes_the_nodes_of_a_job_that_was_released(fake: FakeSlurm):
    slurm = Slurm(fake)
    slurm.do(a.SwitchOff(("n1",)))
    fake.advance(5)
    slurm.do(a.StartJob(fake.submit(), ("n1",)))
    fake.advance(1)
    assert states(fake) == {"1": "CONFIGURING"}
    fake.advance(10)
    assert states(fake) == {"1": "RUNNING"}


def test_a_busy_node_is_switched_off_when_its_job_has_ended(fake: FakeSlurm):
    slurm = Slurm(fake)
    slurm.do(a.StartJob(fake.submit(run_s=30), ("n1",)))
    fake.advance(1)
    slurm.do(a.SwitchOff(("n1",)))
    assert flags(fake, "n1") == {"POWER_DOWN"}
    fake.advance(30)
    assert flags(fake, "n1") == {"POWERING_DOWN"}


def test_a_job_of_a_lost_node_is_requeued_or_fails(fake: FakeSlurm):
    slurm = Slurm(fake)
    slurm.do(a.StartJob(fake.submit(), ("n1",)))
    slurm.do(a.StartJob(fake.submit(requeue=False), ("n2",)))
    fake.advance(1)
    fake.lose("n1")
    fake.lose("n2")
    assert states(fake) == {"1": "PENDING", "2": "NODE_FAIL"}
    assert slurm.jobs()[0].restarts == 1
    fake.advance(5)
    assert states(fake)["1"] == "PENDING", "its required node is lost"
    fake.bring_back("n1")
    fake.advance(1)
    assert states(fake)["1"] == "RUNNING"


def test_a_job_is_requeued_and_held(fake: FakeSlurm):
    slurm = Slurm(fake)
    job = fake.submit()
    with pytest.raises(CommandFailed, match="Job is pending execution"):
        slurm.do(a.RequeueJob(job))
    slurm.do(a.StartJob(job, ("n1",)))
    fake.advance(1)
    slurm.do(a.RequeueJob(job))
    (found,) = slurm.jobs()
    assert found.is_held
    assert (found.restarts, found.nodes) == (1, ())


def test_a_job_that_ends_keeps_its_nodes_for_a_moment():
    for version in ("22.05.8", "24.05.3"):
        fake = FakeSlurm(1, version=version, delays=Delays(end_s=4))
        Slurm(fake).do(a.ReleaseJob(fake.submit(run_s=10)))
        fake.advance(11)
        assert states(fake) == {"1": "COMPLETING"}
        assert Slurm(fake).nodes()[0].state == "ALLOCATED"
        fake.advance(4)
        assert states(fake) == {"1": "COMPLETED"}
        assert Slurm(fake).nodes()[0].state == "IDLE"


def test_what_slurm_refuses(fake: FakeSlurm):
    slurm = Slurm(fake)
    for refused in (
        lambda: slurm.do(a.ReleaseJob("99")),
        lambda: slurm.do(a.StartJob(fake.submit(), ("other",))),
        lambda: slurm.do(a.SwitchOff(("other",))),
    ):
        with pytest.raises(CommandFailed, match="Invalid"):
            refused()
    fake.settings["SuspendTime"] = "INFINITE"
    with pytest.raises(CommandFailed, match="Invalid node state specified"):
        slurm.do(a.SwitchOff(("n1",)))
    fake.denied = True
    with pytest.raises(CommandFailed, match="permission denied"):
        slurm.do(a.CancelJob("1"))
    fake.away = True
    with pytest.raises(SlurmAway):
        slurm.jobs()
