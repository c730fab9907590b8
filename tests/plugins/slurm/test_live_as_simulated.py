"""Beside a real Slurm: the starts and hosts that `simulate` finds for the same jobs, with Slurm's latency.

What a bridge has told its scheduler is recorded. The same jobs, submitted when the scheduler heard of them,
and as long as it took from the decision to their end, are simulated under the same policy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import exit_code
from plugins.slurm.real_bridge import SITE, all_over, bridge, platform, power_file
from plugins.slurm.real_cluster import LONG, PATIENCE_S, RealCluster

from beasy_sched.api import simulate
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.outputs.recording import open_recording
from beasy_sched.protocol.batsim4 import decode_message, decode_reply

__all__ = ["platform"]
pytestmark = [pytest.mark.slow, *LONG]


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


_BEYOND_S = 1000.0
"""Run time of a job that had not ended in a shadow when that was stopped."""


def workload_of(asked: dict, started: dict, ended: dict, hosts: int, speed_flops: float) -> dict:
    jobs, profiles = [], {}
    for number, (job, (at, request)) in enumerate(asked.items()):
        run_s = ended[job] - started[job][0] if job in ended else _BEYOND_S
        profiles[f"p{number}"] = {"type": "parallel_homogeneous", "cpu": run_s * speed_flops, "com": 0}
        jobs.append({"id": f"{number:03}", "subtime": at, "res": request.res, "walltime": request.walltime,
                     "profile": f"p{number}"})  # fmt: skip
    return {"nb_res": hosts, "jobs": jobs, "profiles": profiles}


def power_told(recording: Path) -> str:
    """The production as it was announced, as an events file."""
    events = [event for message, _ in talk(recording) for event in message.events]
    told = [event for event in events if isinstance(event, e.PowerAnnounced)]
    times = [0.0, *(event.timestamp for event in told[1:])]  # the first came with the first message
    lines = (
        {"timestamp": at, "type": "power", "power_available": event.power_w}
        for at, event in zip(times, told, strict=True)
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def run_beside(cluster: RealCluster, mode: str, count: int, recording: Path, *options: object) -> None:
    """Have jobs submitted to a partition that is held for the bridge, or not; wait for their end."""
    rng, partition = random.Random(3), "main" if mode == "--act" else "free"
    with bridge(cluster, mode, "--record", recording, *options, partition=partition) as running:
        running.wait_for_looks()
        jobs = [
            cluster.submit(
                rng.randint(1, 5), "-p", partition, f"-N{rng.randint(1, 3)}", "-t", str(rng.randint(1, 2))
            )
            for _ in range(count)
        ]
        cluster.wait_for(lambda: all_over(cluster, jobs), "the jobs", 3 * PATIENCE_S)
        running.wait_for_looks()


@pytest.mark.filterwarnings("ignore:the load is")
@pytest.mark.parametrize("policy", ["easy", "power-reactive", "beasy"])
@pytest.mark.parametrize("mode", ["--act", "--shadow"])
def test_starts_and_hosts_are_those_of_simulate(
    mode: str, policy: str, real_cluster: RealCluster, platform: Path, tmp_path: Path
) -> None:
    more: dict[str, object] = {}
    if policy != "easy":
        (tmp_path / "s.toml").write_text(SITE)
        more = {"site": tmp_path / "s.toml", "power": power_file(tmp_path, 600.0)}
    if policy == "beasy":
        expected = tmp_path / "expected.json"
        options = ("--synthetic", "--seed", "1", "--jobs", "30", "--hosts", "4", "--day-shares", "1")
        assert exit_code("generate", "workload", *options, "-o", str(expected), "-q") == 0
        more["plan"] = tmp_path / "plan.msgpack"
        assert exit_code(
            "plan", "-p", str(platform), "-w", str(expected), "--production", str(more["power"]),
            "--site", str(more["site"]), "-o", str(more["plan"]), "-q",
        ) == 0  # fmt: skip
    given = [word for name, value in more.items() for word in (f"--{name}", value)]
    recording = tmp_path / "talk.msgpack"
    run_beside(real_cluster, mode, 30, recording, "-p", platform, "--policy", policy, *given)
    asked, started, ended = told(recording)
    assert len(asked) == 30
    assert len(ended) == 30 if mode == "--act" else len(started) >= 10  # the shadow lags behind
    speed_flops = read_simgrid_platform(platform, master="master_host").platform.kinds[0].speeds_flops[0]
    (tmp_path / "w.json").write_text(json.dumps(workload_of(asked, started, ended, 4, speed_flops)))
    if policy != "easy":
        more["events"] = tmp_path / "events.txt"
        (tmp_path / "events.txt").write_text(power_told(recording))
        del more["power"]
    run = simulate(platform, tmp_path / "w.json", policy=policy, export=tmp_path / "same", **more)
    names = [*asked]
    found = {
        names[int(row.job_id)]: (row.starting_time, row.allocated_resources) for row in run.jobs.itertuples()
    }
    for job, (at, hosts) in started.items():
        assert HostSet.parse(found[job][1]) == hosts
        assert found[job][0] == pytest.approx(at, abs=0.01)
