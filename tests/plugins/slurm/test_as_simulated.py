"""Beside a Slurm without latency, a policy starts the same jobs on the same hosts as `simulate`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from plugins.slurm.fake_slurm import Delays, FakeSlurm
from plugins.slurm.live_cases import KIND, Beside, all_over, platform_of, submit

from beasy_sched.api import simulate
from beasy_sched.generate.platform_file import write_platform
from beasy_sched.model.hosts import HostSet

HOSTS = 5


def jobs_of(seed: int) -> list[tuple[int, int, int, int]]:
    """Random jobs: submission, seen a second later, nodes, run time, time limit, s."""
    rng = random.Random(seed)
    found, now = [], 0
    for _ in range(12):
        now += rng.choice([0, 2, 4, 8])
        found.append((now, rng.randint(1, HOSTS), rng.randint(1, 20) * 2 + 1, 60 * rng.randint(1, 3)))
    return found


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:the load is")
@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("seed", range(10))
def test_starts_are_those_of_simulate(seed: int, policy: str, tmp_path: Path) -> None:
    jobs = jobs_of(seed)
    write_platform(platform_of(HOSTS), tmp_path / "p.xml")
    workload = {
        "nb_res": HOSTS,
        "jobs": [
            {"id": f"{number:02}", "subtime": at + 1, "res": nodes, "walltime": limit, "profile": f"r{run}"}
            for number, (at, nodes, run, limit) in enumerate(jobs, 1)
        ],
        "profiles": {
            f"r{run}": {"type": "parallel_homogeneous", "cpu": run * KIND.speeds_flops[0], "com": 0}
            for _, _, run, _ in jobs
        },
    }
    (tmp_path / "w.json").write_text(json.dumps(workload))
    run = simulate(tmp_path / "p.xml", tmp_path / "w.json", policy=policy, export=tmp_path / "r")
    expected = {
        str(int(row.job_id)): (row.starting_time, HostSet.parse(row.allocated_resources).ids.tolist())
        for row in run.jobs.itertuples()
    }
    slurm = FakeSlurm(HOSTS, delays=Delays(start_s=0.0))
    beside = Beside(slurm, policy)
    began_s = slurm.now_s
    for at, nodes, run_s, limit_s in jobs:
        if at > slurm.now_s - began_s:
            beside.go(began_s + at - slurm.now_s)
        submit(slurm, nodes=nodes, run_s=run_s, limit_s=limit_s)
    beside.until(lambda: all_over(slurm))
    found = {job.id: (job.start_s - began_s, beside.bridge.hosts_of(job.on)) for job in slurm.jobs.values()}
    assert found == expected
