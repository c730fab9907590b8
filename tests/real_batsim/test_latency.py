"""Runs with a site beside a real Batsim whose network has latency: none is aborted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from command_line import exit_code
from real_batsim.program import batsims_platform, beside

pytestmark = pytest.mark.slow

FREE = ("fcfs", "easy", "workload-reactive", "power-reactive", "bid-price", "greenslot", "conventional",
        "lowest-window")  # fmt: skip
BUDGETED = ("energybud", "reducepc", "powercap")
PLANNED = ("follow-plan", "peak", "next", "last", "workload", "random", "q-learning", "bandit", "beasy")
NEED_SPEEDS = {"bid-price", *PLANNED} - {"follow-plan"}
"""Policies that need -p on a platform that was not generated."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Production, workloads and platforms."""
    folder = tmp_path_factory.mktemp("inputs")
    events = (
        {
            "timestamp": at_s,
            "type": "power",
            "power_available": 1500 + max(16_000 * math.sin(2 * math.pi * (at_s / 86_400 - 0.25)), 0.0),
        }
        for at_s in range(0, 259_200, 300)
    )
    (folder / "power.txt").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    cluster = batsims_platform("cluster_energy_128.xml").read_text()
    few = batsims_platform("energy_platform_homogeneous.xml").read_text()
    (folder / "cluster.xml").write_text(cluster)
    (folder / "large.xml").write_text(cluster.replace('radical="0-127"', 'radical="0-599"'))
    (folder / "few.xml").write_text(few)
    (folder / "loopback.xml").write_text(few.replace('latency="15us"', 'latency="50ms"'))
    burst = [(0.0, 40, 1), (0.0006, 3, 2), (100.0, 128, 1), (5000.0, 60, 3), (100_000.0, 200, 1)]
    write_workload(folder / "cluster.json", 128, burst)
    write_workload(folder / "large.json", 600, [(0.0, 500, 1), (20_000.0, 550, 1), (90_000.0, 500, 1)])
    write_workload(folder / "few.json", 4, [(0.0, 6, 1), (10.0, 4, 2), (43_200.0, 8, 1), (100_000.0, 10, 4)])
    for platform in ("cluster", "few"):
        names = {"-p": f"{platform}.xml", "-w": f"{platform}.json", "--production": "power.txt"}
        given = [text for option, name in names.items() for text in (option, str(folder / name))]
        assert exit_code("plan", "--site", "default", *given, "-o", str(folder / f"{platform}.msgpack")) == 0
    (folder / "loopback.json").write_bytes((folder / "few.json").read_bytes())
    (folder / "loopback.msgpack").write_bytes((folder / "few.msgpack").read_bytes())
    return folder


def write_workload(path: Path, hosts: int, bursts: list[tuple[float, int, int]]) -> None:
    """Write jobs that are submitted many at one time: so many for so many hosts each."""
    lasts_s = (60, 300, 1200, 3600)
    jobs = [
        {"subtime": at_s, "res": res, "walltime": lasts_s[n % 4] + (10, 600)[n % 2], "profile": str(n % 4)}
        for at_s, count, res in bursts
        for n in range(count)
    ]
    jobs = [
        {"id": str(number), "deadline": job["subtime"] + 40_000, **job} for number, job in enumerate(jobs)
    ]
    profiles = {str(n): {"type": "delay", "delay": delay_s} for n, delay_s in enumerate(lasts_s)}
    path.write_text(json.dumps({"nb_res": hosts, "jobs": jobs, "profiles": profiles}))


def run(inputs: Path, out: Path, name: str, policy: str, *, platform_given: bool, power: bool = True) -> None:
    platform = inputs / f"{name}.xml"
    options: list[str | Path] = ["--policy", policy, "--site", "default"]
    if policy in PLANNED:
        options += ["--plan", inputs / f"{name}.msgpack"]
    if policy in BUDGETED:
        options += ["--budget", "40%", "--period", "1d:2d"]
    if platform_given:
        options += ["-p", platform]
    events = ["--events", inputs / "power.txt", "--forward-unknown-events"] if power else []
    beside(out, platform, inputs / f"{name}.json", *options, batsim=["-E", *events]).both_ended_well()


@pytest.mark.parametrize("platform_given", [True, False])
@pytest.mark.parametrize("name", ["cluster", "few", "loopback"])
@pytest.mark.parametrize("policy", [*FREE, *BUDGETED, *PLANNED])
def test_every_policy(inputs: Path, tmp_path: Path, policy: str, name: str, platform_given: bool) -> None:
    if not platform_given and policy in NEED_SPEEDS:
        pytest.skip("the policy needs -p here")
    run(inputs, tmp_path, name, policy, platform_given=platform_given)


@pytest.mark.parametrize("platform_given", [True, False])
@pytest.mark.parametrize("policy", ["easy", "workload-reactive", "power-reactive", "energybud"])
def test_500_starts_in_one_reply(inputs: Path, tmp_path: Path, policy: str, platform_given: bool) -> None:
    run(inputs, tmp_path, "large", policy, platform_given=platform_given)


@pytest.mark.parametrize("platform_given", [True, False])
def test_without_production(inputs: Path, tmp_path: Path, platform_given: bool) -> None:
    """The first step then begins with a call that is asked for in the first reply."""
    run(inputs, tmp_path, "loopback", "easy", platform_given=platform_given, power=False)
