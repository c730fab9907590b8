"""Beside a real Slurm: the starts and hosts that `simulate` finds for the same jobs, with Slurm's latency.

What a bridge has told its scheduler is recorded. The same jobs, submitted when the scheduler heard of them,
and as long as it took from the decision to their end, are simulated under the same policy.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm.real_cluster import RealCluster
from slurm.test_live_slurm import all_over, bridge, platform

from beasy_sched.api import simulate
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.recording import open_recording
from beasy_sched.protocol.batsim4 import decode_message, decode_reply

__all__ = ["platform"]
pytestmark = pytest.mark.slow


def talk(recording: Path) -> Iterator[tuple[e.Message, d.Reply]]:
    with open_recording(recording) as opened:
        for message, reply in opened.exchanges():
            yield decode_message(message), decode_reply(reply)


def told(recording: Path) -> tuple[dict, dict, dict]:
    """When each job was submitted (with its request), was started (and where), and had ended, s."""
    asked, started, ended = {}, {}, {}
    for message, reply in talk(recording):
        for event in message.events:
            if isinstance(event, e.JobSubmitted):
                asked[event.job.id] = message.now, event.job
            elif isinstance(event, e.JobCompleted):
                ended[event.job_id] = message.now
        for decision in reply.decisions:
            if isinstance(decision, d.ExecuteJob):
                started[decision.job_id] = message.now, decision.alloc
    return asked, started, ended


def workload_of(asked: dict, started: dict, ended: dict, hosts: int, speed_flops: float) -> dict:
    jobs, profiles = [], {}
    for number, (job, (at, request)) in enumerate(asked.items()):
        run_s = ended[job] - started[job][0]
        profiles[f"p{number}"] = {"type": "parallel_homogeneous", "cpu": run_s * speed_flops, "com": 0}
        jobs.append({"id": f"{number:03}", "subtime": at, "res": request.res, "walltime": request.walltime,
                     "profile": f"p{number}"})  # fmt: skip
    return {"nb_res": hosts, "jobs": jobs, "profiles": profiles}


def test_starts_and_hosts_are_those_of_simulate(
    real_cluster: RealCluster, platform: Path, tmp_path: Path
) -> None:
    rng = random.Random(3)
    with bridge(real_cluster, "--act", "-p", platform, "--policy", "easy", "-o", tmp_path / "run",
                "--record", tmp_path / "talk.msgpack"):  # fmt: skip
        jobs = [
            real_cluster.submit(rng.randint(1, 5), f"-N{rng.randint(1, 3)}", "-t", str(rng.randint(1, 2)))
            for _ in range(30)
        ]
        real_cluster.wait_for(lambda: all_over(real_cluster, jobs), "the jobs", 300)
        time.sleep(5)  # the last end is seen
    asked, started, ended = told(tmp_path / "talk.msgpack")
    assert len(ended) == 30
    speed_flops = read_simgrid_platform(platform, master="master_host").platform.kinds[0].speeds_flops[0]
    workload = workload_of(asked, started, ended, 4, speed_flops)
    (tmp_path / "w.json").write_text(json.dumps(workload))
    run = simulate(platform, tmp_path / "w.json", policy="easy", export=tmp_path / "same")
    names = [*asked]
    found = {
        names[int(row.job_id)]: (row.starting_time, row.allocated_resources) for row in run.jobs.itertuples()
    }
    for job, (at, hosts) in started.items():
        assert HostSet.parse(found[job][1]) == hosts
        assert found[job][0] == pytest.approx(at, abs=0.01)
