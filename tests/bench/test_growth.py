"""How `beasy-sched simulate --policy easy` grows with jobs and with servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.measured import measure
from bench.traces import ROWS, command
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.bench

JOBS = (1_000, 10_000, 100_000, 1_000_000)
SERVERS = (10, 100, 1_000, 10_000)
PER_DAY_AND_SERVER = 12.5
"""Jobs of a day for each server: as many, whatever the size."""


def grown(what: str, jobs: int, servers: int, folder: Path, benchmark: BenchmarkFixture) -> None:
    """Measure a run of synthetic jobs, at the same load for all sizes, and add its row."""
    platform, workload = folder / "platform.xml", folder / "workload.json"
    days = max(1, round(jobs / servers / PER_DAY_AND_SERVER))
    measure(command("generate", "platform", "-n", f"taurus:{servers}", "--one-pstate", "-q", "-o", platform))
    shares = ",".join(["1"] * days)
    drawn = ["--synthetic", "--jobs", jobs, "--seed", 1, "--day-shares", shares, "--run-median", 30 * 60]
    measure(command("generate", "workload", *drawn, "--hosts", servers, "--platform-preset", "taurus", "-q",
                    "-o", workload))  # fmt: skip
    arguments = command("simulate", "-p", platform, "-w", workload, "--policy", "easy",
                        "-e", folder / "run", "-q")  # fmt: skip
    taken = benchmark.pedantic(lambda: measure(arguments), rounds=1)
    remark = f"{jobs:,} jobs in {days} d on {servers:,} servers: CPU, memory; CPU of a job"
    ROWS.append((what, str(taken), "-", "-", f"{remark}: {1e6 * taken.cpu_s / jobs:.0f} us"))


@pytest.mark.parametrize("jobs", JOBS)
def test_jobs(jobs: int, tmp_path: Path, benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> None:
    if jobs == JOBS[-1] and request.config.getoption("--quick"):
        pytest.skip("takes longer than a minute")
    grown(f"{jobs:,} jobs", jobs, 1_000, tmp_path, benchmark)


@pytest.mark.parametrize("servers", SERVERS)
def test_servers(servers: int, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    grown(f"{servers:,} servers", 20_000, servers, tmp_path, benchmark)
