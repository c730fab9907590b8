"""A policy beside a real Slurm: what it starts, what it loses (nothing), and what it leaves alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code
from slurm.real_cluster import RealCluster

pytestmark = pytest.mark.slow

_SEEN_S = 4.0
"""After this, the bridge has seen what has happened."""
SERVER = """
name = "quick"
idle_w = 50.0
pstates = [{ speed_gflops = 1.0, full_w = 100.0 }]
[sleep]
sleep_w = 5.0
off_s = 3.0
off_w = 60.0
on_s = 10.0
on_w = 80.0
"""
SITE = """
[battery]
capacity_kwh = 0.05
charge_limit_kw = 0.5
discharge_limit_kw = 0.5
[time]
step_s = 10
window_h = 1
"""


@pytest.fixture
def platform(real_cluster: RealCluster, tmp_path: Path) -> Path:
    """The cluster's nodes as servers of one computing P-state."""
    path, server = tmp_path / "nodes.xml", tmp_path / "quick.toml"
    server.write_text(SERVER)
    assert exit_code("slurm", "platform", "--server", str(server), "-o", str(path), "-q") == 0
    return path


def power_file(folder: Path, power_w: float) -> Path:
    path = folder / "power.txt"
    lines = ({"timestamp": at, "type": "power", "power_available": power_w} for at in range(0, 3600, 10))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@contextmanager
def bridge(
    cluster: RealCluster, *options: object, partition: str = "main"
) -> Iterator[subprocess.Popen[str]]:
    """``slurm run`` beside the cluster, in a process of its own, ended by SIGTERM."""
    command = [sys.executable, "-m", "beasy_sched", "slurm", "run", "-P", partition, *map(str, options)]
    environment = {**os.environ, "SLURM_CONF": str(cluster.conf)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGKILL), output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def states(cluster: RealCluster) -> dict[str, str]:
    return {job.id: job.state for job in cluster.slurm().jobs()}


def all_over(cluster: RealCluster, jobs: list[str]) -> bool:
    known = states(cluster)
    return all(known[job] not in ("PENDING", "RUNNING", "COMPLETING") for job in jobs)


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
        with bridge(real_cluster, *options) as process:
            jobs += submit_some(real_cluster, 1, seed=turn)
            time.sleep(rng.uniform(1.0, 6.0))
            process.kill()
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "out/run"):
        jobs += submit_some(real_cluster, 1, seed=20)
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the last jobs", 180)
    known = {job.id: job for job in real_cluster.slurm().jobs() if job.id in jobs}
    assert {job.state for job in known.values()} == {"COMPLETED"}
    assert len(known) == len(jobs)
    assert all(job.restarts == 0 for job in known.values())


def test_a_node_that_does_not_wake_costs_no_job(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    (real_cluster.folder / "broken-n4").touch()
    power = power_file(tmp_path, 800.0)
    (tmp_path / "s.toml").write_text(SITE)
    options = ("--policy", "workload-reactive", "--site", tmp_path / "s.toml", "--power", power)
    with bridge(real_cluster, "--act", "-p", platform, *options, "-o", tmp_path / "run"):
        real_cluster.wait_for(lambda: all_asleep(real_cluster), "sleep of all", 120)
        jobs = [real_cluster.submit(3, "-N1", "-t", "1") for _ in range(6)]
        jobs.append(real_cluster.submit(3, "-N3", "-t", "1"))
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the end of jobs", 180)
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert {known[job].state for job in jobs} == {"COMPLETED"}
    assert all("n4" not in known[job].nodes for job in jobs)


def test_a_node_lost_under_a_job_costs_only_time(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run"):
        job = real_cluster.submit(8, "-N1", "-t", "1")
        real_cluster.wait_for(lambda: states(real_cluster)[job] == "RUNNING", "the start")
        node = next(known.nodes[0] for known in real_cluster.slurm().jobs() if known.id == job)
        real_cluster.command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        real_cluster.wait_for(
            lambda: states(real_cluster)[job] == "COMPLETED", "its second run", 240
        )  # 120 s later
    found = next(known for known in real_cluster.slurm().jobs() if known.id == job)
    assert found.restarts == 1
    log = [json.loads(line) for line in (tmp_path / "run_decisions.jsonl").read_text().splitlines()]
    assert [line["job"] for line in log if line["action"] == "start"] == [f"slurm!{job}", f"slurm!{job}+1"]


def test_a_controller_that_is_away_is_waited_for(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run") as process:
        first = real_cluster.submit(30, "-N4", "-t", "1")
        second = real_cluster.submit(1, "-N4", "-t", "1")
        real_cluster.wait_for(lambda: states(real_cluster)[first] == "RUNNING", "the start")
        real_cluster.stop_controller()
        time.sleep(20)
        assert process.poll() is None
        real_cluster.start_controller()
        real_cluster.wait_for(lambda: all_over(real_cluster, [first, second]), "the end of jobs", 120)
        time.sleep(_SEEN_S)
    assert states(real_cluster)[first] == states(real_cluster)[second] == "COMPLETED"
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["jobs"]["finished"] == 2


def test_only_its_own_jobs_are_touched(real_cluster: RealCluster, platform: Path, tmp_path: Path):
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run"):
        users_hold = real_cluster.submit(1, "-N1", "-t", "1", "-H")
        other = real_cluster.submit(10, "-N2", "-t", "1", "-p", "free")
        real_cluster.wait_for(lambda: states(real_cluster)[other] == "RUNNING", "the other partition's job")
        wide = real_cluster.submit(1, "-N4", "-t", "1")
        gone = real_cluster.submit(1, "-N4", "-t", "1")
        time.sleep(3)
        real_cluster.command("scancel", gone)
        real_cluster.wait_for(lambda: states(real_cluster)[wide] == "COMPLETED", "our job", 90)
    known = {job.id: job for job in real_cluster.slurm().jobs()}
    assert known[other].state == "COMPLETED"
    assert known[wide].start_s >= known[other].end_s
    assert known[users_hold].is_held
    assert known[gone].state == "CANCELLED"


def test_a_shadow_runs_no_command_that_changes_anything(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
):
    """Every program of Slurm's is wrapped by one that notes how it was called."""
    wrapped = tmp_path / "bin"
    wrapped.mkdir()
    for name in ("squeue", "sinfo", "scontrol", "scancel", "sbatch", "sacct"):
        script = wrapped / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/commands\nexec /usr/bin/{name} "$@"\n')
        script.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{wrapped}:{before}"
    try:
        with bridge(real_cluster, "-p", platform, "--policy", "easy", "-o", tmp_path / "run"):
            real_cluster.wait_for(lambda: (tmp_path / "commands").exists(), "the first look")
            jobs = [real_cluster.submit(2, "-N2", "-t", "1", "-p", "main") for _ in range(3)]
            time.sleep(_SEEN_S)
            for job in jobs:
                real_cluster.command("scontrol", "release", job)
            real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the end of jobs", 60)
            time.sleep(_SEEN_S)
    finally:
        os.environ["PATH"] = before
    commands = {line.strip() for line in (tmp_path / "commands").read_text().splitlines()}
    assert {line.partition(" ")[0] for line in commands} <= {"squeue", "sinfo"}
    compared = pd.read_csv(tmp_path / "run_shadow.csv", dtype={"job": str})
    assert [*compared["job"]] == jobs
    assert (compared["start_s"] <= compared["slurm_start_s"] + _SEEN_S).all()
