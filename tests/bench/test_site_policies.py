"""Whole processes of `beasy-sched simulate` with a site: policies on days like those of `scripts/run`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from bench_traces import ROWS, command
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench

SERVERS, JOBS, DAYS, STEP_S = 50, 900, 3, 300
POLICIES = ("beasy", "follow-plan", "power-reactive", "workload-reactive", "peak", "next", "last", "workload")
SITE = Path(__file__).resolve().parents[2] / "scripts/site.toml"
ROUNDS = 3

LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
sys.exit(code)
"""


def cpu_s(*arguments: object) -> float:
    """Run a command of beasy-sched to its end; return the CPU time of its process, s."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command(*arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def note(what: str, seconds: float) -> None:
    ROWS.append(
        (what, f"{seconds:.2f} s", "-", "-", f"CPU time; {JOBS} jobs, {SERVERS} servers, {DAYS} days")
    )


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Make platform, workload, power and plan; return what `simulate` is told of them."""
    there = tmp_path_factory.mktemp("days")
    platform, workload = there / "platform.xml", there / "workload.json"
    power, plan = there / "power.txt", there / "plan.msgpack"
    taken_s = cpu_s("generate", "platform", "--servers", f"gros:{SERVERS}", "-o", platform)
    taken_s += cpu_s(
        "generate", "workload", "--synthetic", "--jobs", JOBS, "--hosts", SERVERS, "-o", workload
    )
    sources = ["--synthetic", "--pv-kw", 10, "--wind-kw", 7, "--days", DAYS, "--dt", STEP_S]
    taken_s += cpu_s("generate", "power", *sources, "-o", power)
    files = ["-p", platform, "-w", workload, "--site", SITE]
    note("inputs and plan", taken_s + cpu_s("plan", *files, "--production", power, "-o", plan, "-q"))
    return [*files, "--events", power, "--plan", plan]


@pytest.mark.parametrize("policy", POLICIES)
def test_simulate_with_a_site(
    policy: str, days: list[object], benchmark: BenchmarkFixture, tmp_path: Path
) -> None:
    arguments = ["simulate", *days, "--policy", policy, "-e", tmp_path / "run", "-q"]
    taken: list[float] = []
    benchmark.pedantic(lambda: taken.append(cpu_s(*arguments)), rounds=ROUNDS)
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["complete"]
    assert summary["jobs"]["submitted"] == JOBS
    note(f"simulate --policy {policy}", statistics.median(taken))
