"""Whole processes of `beasy-sched simulate` with a site: policies on days like those of `scripts/run`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from bench.traces import ROWS, command
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench

SERVERS, JOBS, DAYS, STEP_S = 50, 900, 3, 300
POLICIES = ("beasy", "follow-plan", "power-reactive", "workload-reactive", "peak", "next", "last", "workload")
WINDOWS = 10
SITE = Path(__file__).resolve().parents[2] / "beasy_sched/comparisons/sites/days.toml"
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


def test_a_step_costs_the_same_with_a_long_plan(tmp_path: Path) -> None:
    """Two days of `beasy`, with a plan of these days and with one of ten: CPU time, the better of three."""
    there, platform, workload = tmp_path, tmp_path / "platform.xml", tmp_path / "workload.json"
    power, site = there / "power.txt", there / "site.toml"
    site.write_text(SITE.read_text("utf-8").replace("window_h = 72", "window_h = 24"), "utf-8")
    cpu_s("generate", "platform", "--servers", f"gros:{SERVERS}", "-o", platform)
    shares = ",".join(["1"] * WINDOWS)
    jobs = ["--jobs", 300 * WINDOWS, "--hosts", SERVERS, "--day-shares", shares]
    cpu_s("generate", "workload", "--synthetic", *jobs, "-o", workload)
    sources = ["--synthetic", "--pv-kw", 10, "--wind-kw", 7, "--days", WINDOWS, "--dt", STEP_S]
    cpu_s("generate", "power", *sources, "-o", power)
    files = ["-p", platform, "-w", workload, "--site", site]
    taken: dict[int, list[float]] = {2: [], WINDOWS: []}
    for windows in taken:
        plan = there / f"plan{windows}.msgpack"
        cpu_s("plan", *files, "--production", power, "--windows", windows, "-o", plan, "-q")
    for _ in range(ROUNDS):
        for windows, times in taken.items():
            plan = there / f"plan{windows}.msgpack"
            given = [*files, "--events", power, "--plan", plan, "--windows", 2, "--policy", "beasy"]
            times.append(cpu_s("simulate", *given, "-e", there / "run", "-q"))
    short_s, long_s = (min(times) for times in taken.values())
    what = f"simulate --policy beasy, plan of {WINDOWS} days"
    remark = f"CPU time; peer: a plan of 2 days; {SERVERS} servers, 2 days"
    ROWS.append((what, f"{long_s:.2f} s", f"{short_s:.2f} s", f"{long_s / short_s:.2f}", remark))
    assert long_s < 1.5 * short_s
