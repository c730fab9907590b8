"""The partition of low-class jobs, beside the fake Slurm: none of them starts while energy is scarce."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.nodes_only_cases import STEP_S, NodesBeside, shared_slurm
from plugins.slurm.test_nodes_only_run import offers_of, run

from beasy_sched.errors import ConfigError
from beasy_sched.findings import Level
from beasy_sched.plugins.slurm.cluster_check import look_at_cluster
from beasy_sched.plugins.slurm.low_partition import LowPartition
from beasy_sched.plugins.slurm.nodes_only_check import look_at_low, offering_checks, offering_facts
from beasy_sched.plugins.slurm.service import release_partition
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm


def beside(slurm: FakeSlurm, *table: tuple[float, int]) -> NodesBeside:
    return NodesBeside(slurm, table, low=LowPartition("low", "UP"))


def switches(slurm: FakeSlurm) -> list[str]:
    return [
        each[3]
        for each in slurm.commands
        if each[:2] == ("scontrol", "update") and "PartitionName=low" in each
    ]


def test_low_jobs_wait_while_the_others_lack_nodes():
    slurm = shared_slurm()
    both = beside(slurm, (0, 4), (STEP_S, 2), (3 * STEP_S, 4))
    running = [slurm.submit(run_s=170, limit_s=600) for _ in range(2)]
    both.go(STEP_S + 5)
    high = slurm.submit(run_s=20, limit_s=60)
    low = slurm.submit(partition="low", run_s=10, limit_s=60, cpus=1)
    both.go(STEP_S)
    assert switches(slurm) == ["State=DOWN"]
    assert {slurm.jobs[job].state for job in (high, low)} == {"PENDING"}
    both.go(2 * STEP_S)
    assert switches(slurm) == ["State=DOWN", "State=UP"]
    assert {slurm.jobs[job].state for job in (*running, high, low)} == {"COMPLETED"}
    assert slurm.jobs[low].start_s >= both.bridge.epoch_s + 3 * STEP_S


def test_low_jobs_start_where_the_offer_suffices_for_all():
    """Also if it is lower than the number of nodes: nobody else needs them."""
    slurm = shared_slurm()
    both = beside(slurm, (0, 2))
    low = [slurm.submit(partition="low", run_s=10, limit_s=60) for _ in range(6)]
    both.go(3 * STEP_S)
    assert switches(slurm) == []
    assert {slurm.jobs[job].state for job in low} == {"COMPLETED"}


def test_a_running_job_of_the_low_partition_continues():
    slurm = shared_slurm()
    both = beside(slurm, (0, 4), (STEP_S, 1), (3 * STEP_S, 4))
    low = slurm.submit(partition="low", run_s=STEP_S + 20, limit_s=600)
    both.go(10)
    slurm.submit(run_s=10, limit_s=600)
    both.go(STEP_S)
    assert switches(slurm) == ["State=DOWN"]
    assert slurm.jobs[low].state == "RUNNING"
    both.go(STEP_S)
    assert slurm.jobs[low].state == "COMPLETED"


def test_a_refused_change_is_tried_again_in_the_next_step():
    slurm = shared_slurm()
    refused: list[tuple[str, ...]] = []

    def run_but_once(command):
        if "PartitionName=low" in command and not refused:
            refused.append(tuple(command))
            raise CommandFailed(command, "Access/permission denied")
        return slurm(command)

    both = beside(slurm, (0, 4), (STEP_S, 1))
    both.service.slurm = Slurm(run_but_once)
    for _ in range(3):
        slurm.submit(run_s=600, limit_s=1200)
    both.go(STEP_S + 5)
    assert len(refused) == 1
    assert "low" not in slurm.down_partitions
    both.go(STEP_S)
    assert "low" in slurm.down_partitions
    assert any("permission denied" in text for text in both.said)


def test_a_step_takes_five_commands_at_most():
    slurm = shared_slurm()
    counts = [(STEP_S * at, 4 - 2 * (at % 2)) for at in range(8)]
    both = beside(slurm, *counts)
    for _ in range(12):
        slurm.submit(run_s=40, limit_s=90)
    for _ in range(8):
        since = len(slurm.commands)
        both.go(STEP_S)
        assert len(both.commands(since)) <= 5
    assert len(switches(slurm)) >= 2


def test_a_run_switches_and_leaves_it_up(tmp_path: Path):
    slurm = shared_slurm()
    slurm.down_partitions.add("low")  # the bridge died
    for _ in range(6):
        slurm.submit(run_s=300, limit_s=600)
    run(slurm, tmp_path, [500.0, 130.0, 130.0], low_partition="low")
    assert switches(slurm)[0] == "State=UP"
    assert switches(slurm)[-2:] == ["State=DOWN", "State=UP"]
    assert {row["low_partition"] for row in offers_of(tmp_path)} == {"UP", "DOWN"}


def test_a_shadow_reports_the_switch_and_does_nothing(tmp_path: Path):
    slurm = shared_slurm()
    for _ in range(6):
        slurm.submit(run_s=300, limit_s=600)
    _, _, said = run(slurm, tmp_path, [500.0, 130.0, 130.0], low_partition="low", act=False)
    assert switches(slurm) == []
    told = [text for text in said if "PartitionName=low" in text]
    assert told[0] == "would run: scontrol update PartitionName=low State=DOWN"


def test_release_sets_it_up():
    slurm = shared_slurm()
    slurm.down_partitions.add("low")
    release_partition(Slurm(slurm), "main", print, low="low", clock=lambda: slurm.now_s, sleep=slurm.advance)
    assert slurm.down_partitions == set()


def checked(slurm: FakeSlurm, name: str = "low", user: str = "root") -> tuple[list[str], dict[str, str]]:
    found = look_at_cluster(Slurm(slurm), "main", lambda: slurm.now_s, user)
    low = look_at_low(Slurm(slurm), name)
    findings = [each.text for each in offering_checks(found, [], low) if each.level is Level.FAILS]
    return findings, dict(offering_facts(found, [], low))


def test_the_check_finds_it_in_order():
    findings, facts = checked(shared_slurm())
    assert [text for text in findings if "--low-partition" in text] == []
    assert facts["low partition"] == "low, now UP: DOWN while energy is scarce, otherwise UP"


def test_the_check_of_other_partitions():
    slurm = shared_slurm()
    assert any("is the partition of -P" in text for text in checked(slurm, "main")[0])
    with pytest.raises(ConfigError, match="no node is in the partition 'none': the partitions are low, main"):
        checked(slurm, "none")
    slurm.nodes["n4"].partitions = ("low",)
    assert any("node n4 is not in partition 'main'" in text for text in checked(slurm)[0])
    slurm.partition_settings = "OverSubscribe=NO State=DRAIN"
    assert any("its State is DRAIN, which somebody else has set" in text for text in checked(slurm)[0])
