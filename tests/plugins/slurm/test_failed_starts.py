"""Starts that Slurm does not carry out, and requests that no list of nodes may overwrite."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec import structs
from plugins.slurm.fake_slurm import Delays, FakeSlurm
from plugins.slurm.live_cases import Beside, all_over, submit

from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.slurm.records import MARK, PLACED

BOTH = pytest.mark.parametrize("version", ["22.05.8", "26.05.3"])


def releases(slurm: FakeSlurm) -> Counter[str]:
    """How often each job was released."""
    return Counter(command[2] for command in slurm.commands if command[:2] == ("scontrol", "release"))


def failed(beside: Beside) -> list[tuple[str, str]]:
    """Jobs whose start failed, and their hosts."""
    return [(job, hosts) for _, what, job, hosts, rule in beside.log if "not started by" in rule]


@BOTH
def test_a_job_for_large_nodes_is_left_to_slurm_at_once(version: str) -> None:
    slurm = FakeSlurm(4, version=version)
    for name in ("n1", "n2"):
        slurm.nodes[name].memory_mb = 100
    large = submit(slurm, memory_mb=300, run_s=5)
    small = submit(slurm, memory_mb=100, run_s=5)
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[large].on == ("n3",)
    assert beside.starts() == [(f"slurm!{small}", "0")]
    assert releases(slurm) == {large: 1, small: 1}
    assert beside.said == [
        "job 1 requests more than nodes (300 MB of memory per node, the smallest node has 100): left to Slurm"
    ]


@BOTH
def test_a_start_that_comes_back_is_not_repeated(version: str) -> None:
    """Slurm knows a reason that its answers do not show."""
    slurm = FakeSlurm(4, version=version)
    hidden = slurm.nodes["n1"].memory_mb
    job, later = submit(slurm, memory_mb=300, run_s=5), submit(slurm, nodes=4, run_s=5)
    beside = Beside(slurm)
    slurm.nodes["n1"].memory_mb = 100
    beside.service.slurm.nodes = _with_memory(beside.service.slurm.nodes, hidden)  # type: ignore[method-assign]
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[job].on == ("n2",)
    assert slurm.jobs[job].admin_comment == MARK
    assert failed(beside) == [("slurm!1", "0")]
    assert releases(slurm) == {job: 2, later: 1}
    assert beside.said == ["job 1 could not start on n1 (BadConstraints): left to Slurm"]


def _with_memory(nodes: Any, memory_mb: int) -> Any:
    return lambda: [structs.replace(node, memory_mb=memory_mb) for node in nodes()]


def test_a_job_that_no_node_satisfies_is_released_once() -> None:
    slurm = FakeSlurm(2)
    job = submit(slurm, memory_mb=10**9, run_s=5)
    others = [submit(slurm, nodes=2, run_s=5) for _ in range(3)]
    beside = Beside(slurm)
    beside.go(60)
    assert slurm.jobs[job].held_as == "BadConstraints"
    assert [slurm.jobs[other].state for other in others] == ["COMPLETED"] * 3
    assert releases(slurm)[job] == 1
    assert beside.said[1:] == ["job 1 is held again (BadConstraints): left to Slurm and its user"]
    again = Beside(slurm)
    again.go(10)
    assert releases(slurm)[job] == 2


@BOTH
@pytest.mark.parametrize("reason", ["AssocMaxJobsLimit", "ReqNodeNotAvail", "Licenses"])
def test_a_job_that_stays_pending_frees_its_hosts(version: str, reason: str) -> None:
    slurm = FakeSlurm(2, version=version)
    stuck = submit(slurm, nodes=2, run_s=5, stuck=reason)
    beside = Beside(slurm)
    beside.go(25)
    behind = submit(slurm, nodes=2, run_s=5)
    assert beside.starts() == [("slurm!1", "0-1")]
    beside.until(lambda: slurm.jobs[behind].state == "COMPLETED", 60)
    assert (slurm.jobs[stuck].held, slurm.jobs[stuck].required) == (True, ())
    assert slurm.jobs[stuck].admin_comment == MARK
    assert failed(beside) == [("slurm!1", "0-1")]
    assert beside.said == [
        f"job 1 was not started on n1, n2 ({reason}): it is held, and submitted again later"
    ]
    beside.go(900)
    assert 3 <= len(failed(beside)) <= 5, "it is submitted less and less often"
    slurm.jobs[stuck].stuck = ""
    beside.until(lambda: all_over(slurm), 3000)
    assert slurm.jobs[stuck].state == "COMPLETED"
    assert beside.job_states()["slurm!1"] == JobState.KILLED.value


def test_nodes_of_a_reservation_that_begins_soon() -> None:
    """Jobs go to the other nodes, and to these once it is over."""
    slurm = FakeSlurm(4)
    for name in ("n3", "n4"):
        slurm.nodes[name].reserved_until_s = slurm.now_s + 400
    jobs = [submit(slurm, run_s=100) for _ in range(4)]
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm), 2000)
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert sum(releases(slurm).values()) < 20
    assert not any(slurm.jobs[job].restarts for job in jobs)


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"required": ("n4",)}, "nodes n4"),
        ({"contiguous": True, "nodes": 2}, "contiguous nodes"),
        ({"exclusive": "user"}, "exclusive user"),
        ({"features": "ib"}, "constraint ib"),
    ],
)
@BOTH
def test_requests_of_users_are_not_overwritten(version: str, asked: dict[str, Any], what: str) -> None:
    slurm = FakeSlurm(4, version=version)
    job = submit(slurm, run_s=20, **asked)
    wide = submit(slurm, nodes=4, run_s=5)
    beside = Beside(slurm)
    beside.until(lambda: all_over(slurm))
    if "required" in asked:
        assert slurm.jobs[job].on == asked["required"]
    assert beside.said == [f"job 1 requests more than nodes ({what}): left to Slurm"]
    assert not [command for command in slurm.changing if f"JobId={job}" in command]
    assert slurm.jobs[wide].start_s >= slurm.jobs[job].end_s


@BOTH
@pytest.mark.parametrize(("most", "comment"), [(4, f"{PLACED} 2-4"), (0, f"{PLACED} 2-1000000"), (2, PLACED)])
def test_a_range_of_nodes(version: str, most: int, comment: str) -> None:
    """Slurm would add nodes that the policy has for others; taken back, the job has its range again."""
    slurm = FakeSlurm(4, version=version)
    ranged = submit(slurm, nodes=2, most=most, run_s=50)
    other = submit(slurm, nodes=2, run_s=5)
    beside = Beside(slurm)
    beside.until(lambda: slurm.jobs[other].state == "COMPLETED")
    assert (slurm.jobs[ranged].on, slurm.jobs[other].on) == (("n1", "n2"), ("n3", "n4"))
    assert slurm.jobs[ranged].admin_comment == comment
    slurm.jobs[ranged].stuck = "QOSMaxJobsPerUserLimit"
    slurm._requeue(slurm.jobs[ranged], held=False)
    beside.go(60)
    assert failed(beside) == [("slurm!1+1", "0-1")]
    assert (slurm.jobs[ranged].nodes, slurm.jobs[ranged].required) == (2, ())
    assert slurm.jobs[ranged].most in (most or 1_000_000, None)


def test_a_job_on_more_nodes_than_asked_keeps_them() -> None:
    """Its other nodes are out of service, so that no job waits for them."""
    slurm = FakeSlurm(4)
    job = submit(slurm, nodes=2, run_s=30)
    beside = Beside(slurm)
    beside.until(lambda: slurm.jobs[job].state == "RUNNING")
    slurm.jobs[job].on = ("n1", "n2", "n3")
    beside.go(3)
    behind = submit(slurm, run_s=5)
    beside.until(lambda: all_over(slurm))
    assert slurm.jobs[behind].on == ("n4",)


# --- holds and requeues by others ---------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["JobHeldUser", "JobHeldAdmin"])
def test_a_job_that_is_held_by_others_is_theirs(who: str) -> None:
    slurm = FakeSlurm(2, delays=Delays(start_s=5.0))
    job = submit(slurm, run_s=5)
    beside = Beside(slurm)
    beside.go(3)
    slurm.jobs[job].held, slurm.jobs[job].held_as = True, who
    beside.go(300)
    assert (slurm.jobs[job].held, slurm.jobs[job].required, slurm.jobs[job].admin_comment) == (True, (), "")
    assert releases(slurm)[job] == 1
    assert beside.said == [f"job 1 was held by others ({who}): left to them"]
    slurm.jobs[job].held, slurm.jobs[job].free_s = False, slurm.now_s
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert not beside.session.cluster.running


def test_a_running_job_that_an_administrator_requeues_and_holds_is_theirs() -> None:
    slurm = FakeSlurm(2)
    job = submit(slurm, run_s=50)
    beside = Beside(slurm)
    beside.until(lambda: slurm.jobs[job].state == "RUNNING")
    slurm._requeue(slurm.jobs[job], held=True)
    beside.go(100)
    assert slurm.jobs[job].held
    assert releases(slurm)[job] == 1


@pytest.mark.parametrize("counted", [True, False])
def test_a_preempted_job_is_held_and_started_again(counted: bool) -> None:
    """Whether or not Slurm has counted the requeue yet."""
    slurm = FakeSlurm(2)
    job = submit(slurm, nodes=2, run_s=50)
    beside = Beside(slurm)
    beside.until(lambda: slurm.jobs[job].state == "RUNNING")
    above = slurm.submit(nodes=2, run_s=20, held=False, rank=4_100_000_000)
    slurm._requeue(slurm.jobs[job], held=False)
    slurm.jobs[job].restarts -= not counted
    beside.until(lambda: all_over(slurm))
    beside.go(2)
    assert slurm.jobs[job].start_s >= slurm.jobs[above].end_s
    assert beside.starts() == [("slurm!1", "0-1"), ("slurm!1+1", "0-1")]
    assert beside.job_states()["slurm!1+1"] == JobState.FINISHED.value


def test_a_requeued_job_that_runs_before_it_is_seen_is_watched() -> None:
    slurm = FakeSlurm(2)
    job = submit(slurm, nodes=2, run_s=50)
    beside = Beside(slurm, poll_s=10.0)
    beside.until(lambda: slurm.jobs[job].state == "RUNNING")
    beside.go(10)
    slurm._requeue(slurm.jobs[job], held=False)
    beside.go(20)
    assert [*beside.session.cluster.running] == ["slurm!1+1"]
    assert not beside.bridge._unavailable.any()
    beside.until(lambda: all_over(slurm))
    beside.go(20)
    assert beside.job_states()["slurm!1+1"] == JobState.FINISHED.value


# --- the controller and the site's power saving -------------------------------------------------------------


def test_actions_that_wait_for_the_controller_are_not_mistaken_for_failures() -> None:
    """A start that has not been requested yet is not a job that somebody holds."""
    slurm = FakeSlurm(1)
    beside = Beside(slurm)
    job = submit(slurm, run_s=5)
    run, gone = slurm.__call__, []

    def away_at_the_start(command: Any) -> bytes:
        slurm.away = slurm.away or (command[1] == "update" and not gone and not gone.append(command))
        return run(command)

    beside.service.slurm._run = away_at_the_start
    beside.go(40)
    slurm.away = False
    beside.until(lambda: all_over(slurm))
    assert gone
    assert slurm.jobs[job].state == "COMPLETED"
    assert beside.starts() == [("slurm!1", "0")]
    assert failed(beside) == []


@pytest.mark.parametrize("policy", ["easy", "workload-reactive"])
def test_nodes_that_slurm_puts_to_sleep_are_available(policy: str) -> None:
    """A site with a short SuspendTime."""
    slurm = FakeSlurm(4)
    slurm.delays.suspend_s = 10.0
    beside = Beside(slurm, policy)
    beside.until(lambda: all("POWERED_DOWN" in node.flags for node in slurm.nodes.values()))
    beside.go(30)
    assert not beside.bridge._unavailable.any()
    jobs = [submit(slurm, nodes=4, run_s=20), submit(slurm, nodes=1, run_s=20)]
    beside.until(lambda: all_over(slurm), 300)
    assert [slurm.jobs[job].state for job in jobs] == ["COMPLETED"] * 2
    assert failed(beside) == []
    notes = [text for text in beside.said if "SuspendTime" in text]
    assert len(notes) <= 1
