"""Whole processes of `beasy-sched simulate` with a site: policies on days like those of `scripts/run`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from bench.days import JOBS, SERVERS, SITE, STEP_S, cpu_s, note
from bench.traces import ROWS
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench

POLICIES = ("beasy", "follow-plan", "power-reactive", "workload-reactive", "peak", "next", "last", "workload")
WINDOWS = 10
ROUNDS = 3


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
