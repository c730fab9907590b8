"""A policy beside a real Slurm: what it starts, what it loses (nothing), and what it leaves alone."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pandas as pd
import pytest
from plugins.slurm.real_bridge import (
    SITE,
    Running,
    all_over,
    bridge,
    platform,
    power_file,
    states,
)
from plugins.slurm.real_cluster import LONG, RealCluster

__all__ = ["platform"]
pytestmark = [pytest.mark.slow, *LONG]


def all_asleep(cluster: RealCluster) -> bool:
    return all("POWERED_DOWN" in node.flags for node in cluster.slurm().nodes())


def submit_some(cluster: RealCluster, count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [cluster.submit(rng.randint(1, 4), f"-N{rng.randint(1, 3)}", "-t", "1") for _ in range(count)]


def test_kills_at_random_moments_lose_no_job(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    """kill -9, twenty times, while jobs come and run."""
    rng, jobs = random.Random(7), submit_some(real_cluster, 4, seed=0)
    for turn in range(20):
        options = ("--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "out/run")
        with bridge(real_cluster, *options) as running:
            jobs += submit_some(real_cluster, 1, seed=turn)
            running.wait_for_looks(1)
            time.sleep(rng.uniform(0.0, 4.0))
            running.process.kill()
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "out/run"):
        jobs += submit_some(real_cluster, 1, seed=20)
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the last jobs")
    known = {job.id: job for job in real_cluster.slurm().jobs() if job.id in jobs}
    assert {job.state for job in known.values()} == {"COMPLETED"}
    assert len(known) == len(jobs)
    assert all(job.restarts == 0 for job in known.values())


def test_a_restarted_bridge_takes_running_jobs_over(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
):
    """With their nodes: the next job starts there when they have ended."""
    options = ("--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run")
    with bridge(real_cluster, *options) as running:
        first = real_cluster.submit_until(tmp_path / "end", "-N2", "-t", "10")
        real_cluster.wait_for(lambda: states(real_cluster)[first] == "RUNNING", "the start")
        running.process.kill()
    with bridge(real_cluster, *options) as running:
        wide = real_cluster.submit(1, "-N4", "-t", "1")
        running.wait_for_looks()
        assert states(real_cluster)[wide] == "PENDING"
        (tmp_path / "end").touch()
        real_cluster.wait_for(lambda: all_over(real_cluster, [first, wide]), "the end of jobs")
        running.wait_for_looks()
    assert states(real_cluster)[first] == states(real_cluster)[wide] == "COMPLETED"
    log = [json.loads(line) for line in (tmp_path / "run_decisions.jsonl").read_text().splitlines()]
    taken, started = (line for line in log if line["action"] == "start")
    assert (taken["job"], taken["hosts"], taken["rule"]) == (f"slurm!{first}", "0-1", "runs already")
    assert (started["job"], started["hosts"]) == (f"slurm!{wide}", "0-3")
    assert not [line for line in log if line["action"] == "lost"]


def test_a_node_that_does_not_wake_costs_no_job(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    (real_cluster.folder / "broken-n4").touch()
    power = power_file(tmp_path, 800.0)
    (tmp_path / "s.toml").write_text(SITE)
    options = ("--policy", "workload-reactive", "--site", tmp_path / "s.toml", "--power", power)
    with bridge(real_cluster, "--act", "-p", platform, *options, "-o", tmp_path / "run"):
        real_cluster.wait_for(lambda: all_asleep(real_cluster), "sleep of all")
        jobs = [real_cluster.submit(3, "-N1", "-t", "1") for _ in range(6)]
        jobs.append(real_cluster.submit(3, "-N3", "-t", "1"))
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the end of jobs")
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert {known[job].state for job in jobs} == {"COMPLETED"}
    assert all("n4" not in known[job].nodes for job in jobs)


def test_a_node_lost_under_a_job_costs_only_time(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run") as running:
        job = real_cluster.submit_until(tmp_path / "end", "-N1", "-t", "10")
        real_cluster.wait_for(lambda: states(real_cluster)[job] == "RUNNING", "the start")
        node = next(known.nodes[0] for known in real_cluster.slurm().jobs() if known.id == job)
        real_cluster.command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        (tmp_path / "end").touch()  # its second run, 120 s later, is short
        real_cluster.wait_for(lambda: states(real_cluster)[job] == "COMPLETED", "its second run")
        running.wait_for_looks()
    found = next(known for known in real_cluster.slurm().jobs() if known.id == job)
    assert found.restarts == 1
    log = [json.loads(line) for line in (tmp_path / "run_decisions.jsonl").read_text().splitlines()]
    assert [line["job"] for line in log if line["action"] == "start"] == [f"slurm!{job}", f"slurm!{job}+1"]


def test_a_controller_that_is_away_is_waited_for(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run") as running:
        first = real_cluster.submit_until(tmp_path / "end", "-N4", "-t", "10")
        second = real_cluster.submit(1, "-N4", "-t", "1")
        real_cluster.wait_for(lambda: states(real_cluster)[first] == "RUNNING", "the start")
        real_cluster.stop_controller()
        time.sleep(20)
        (tmp_path / "end").touch()
        assert running.process.poll() is None
        real_cluster.start_controller()
        real_cluster.wait_for(lambda: all_over(real_cluster, [first, second]), "the end of jobs")
        running.wait_for_looks()
    assert states(real_cluster)[first] == states(real_cluster)[second] == "COMPLETED"
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["jobs"]["finished"] == 2


def test_only_its_own_jobs_are_touched(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run") as running:
        users_hold = real_cluster.submit(1, "-N1", "-t", "1", "-H")
        other = real_cluster.submit_until(tmp_path / "end", "-N2", "-t", "10", "-p", "free")
        real_cluster.wait_for(lambda: states(real_cluster)[other] == "RUNNING", "the other partition's job")
        wide = real_cluster.submit(1, "-N4", "-t", "1")
        gone = real_cluster.submit(1, "-N4", "-t", "1")
        running.wait_for_looks()
        real_cluster.command("scancel", gone)
        (tmp_path / "end").touch()
        real_cluster.wait_for(lambda: states(real_cluster)[wide] == "COMPLETED", "our job")
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert known[other].state == "COMPLETED"
    assert known[wide].start_s >= known[other].end_s
    assert known[users_hold].is_held
    assert known[gone].state == "CANCELLED"


def test_a_shadow_runs_no_command_that_changes_anything(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
):
    with bridge(real_cluster, "-p", platform, "--policy", "easy", "-o", tmp_path / "run") as running:
        running.wait_for_looks()
        jobs = [real_cluster.submit(2, "-N2", "-t", "1", "-p", "main") for _ in range(3)]
        running.wait_for_looks()
        for job in jobs:
            real_cluster.command("scontrol", "release", job)
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the end of jobs")
        running.wait_for_looks()
    assert {command.partition(" ")[0] for command in running.commands} == {"squeue", "sinfo"}
    compared = pd.read_csv(tmp_path / "run_shadow.csv", dtype={"job": str})
    assert [*compared["job"]] == jobs
    first, second, third = (row for _, row in compared.iterrows())
    assert all(job["start_s"] <= job["slurm_start_s"] + 1.0 for job in (first, second))  # in whole seconds
    assert third["start_s"] >= min(first["slurm_end_s"], second["slurm_end_s"])


def released(running: Running, job: str) -> int:
    return sum(command.split() == ["scontrol", "release", job] for command in running.commands)


def test_a_start_that_comes_back_and_requests_of_users(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
):
    """Of memory that no node has, or only some; of nodes; of a range of nodes."""
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy") as running:
        running.wait_for_looks()
        large, impossible = (real_cluster.submit(2, "-N1", f"--mem={mb}") for mb in (300, 900))
        named = real_cluster.submit(2, "-N1", "-w", "n4")
        ranged = real_cluster.submit(2, "-N2-4")
        real_cluster.wait_for(lambda: all_over(real_cluster, [large, named, ranged]), "the end of jobs")
        last = real_cluster.submit(1, "-N4")
        real_cluster.wait_for(lambda: all_over(real_cluster, [last]), "the end of the last job")
        assert [released(running, job) for job in (large, impossible, named, ranged, last)] == [1] * 5
    jobs = {job.id: job for job in real_cluster.slurm().jobs()}
    assert {jobs[job].state for job in (large, named, ranged, last)} == {"COMPLETED"}
    assert jobs[large].nodes[0] in ("n3", "n4")
    assert jobs[named].nodes == ("n4",)
    assert len(jobs[ranged].nodes) == 2
    assert (jobs[impossible].state, jobs[impossible].reason) == ("PENDING", "BadConstraints")


def test_nodes_of_a_reservation_that_begins_soon(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    """Jobs that would run into it give their hosts back, and run elsewhere."""
    real_cluster.command(
        "scontrol", "create", "reservation", "ReservationName=soon", "Users=nobody", "Nodes=n1,n2",
        "StartTime=now+90", "Duration=60", "Flags=IGNORE_JOBS",
    )  # fmt: skip
    try:
        options = ("--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run")
        with bridge(real_cluster, *options) as running:
            running.wait_for_looks()
            jobs = [real_cluster.submit(60, "-N1", "-t", "5") for _ in range(3)]
            real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the end of jobs")
    finally:
        real_cluster.command("scontrol", "delete", "ReservationName=soon")
    known = {job.id: job for job in real_cluster.slurm().jobs() if job.id in jobs}
    assert {job.state for job in known.values()} == {"COMPLETED"}
    assert {node for job in known.values() for node in job.nodes} <= {"n3", "n4"}
    log = [json.loads(line) for line in (tmp_path / "run_decisions.jsonl").read_text().splitlines()]
    reasons = {line["facts"]["reason"] for line in log if line["rule"] == "not started by the cluster"}
    assert len(reasons) == 1
    assert reasons <= {"ReqNodeNotAvail", "Reservation", "Priority", "Resources"}
