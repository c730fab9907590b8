"""A day's sun in ten minutes on a real Slurm: the same jobs in each mode, and simulated.

`measured` runs the jobs on a cluster of four nodes; `simulated` runs what was seen again in `simulate`: the
jobs with the submission, the run time and the share of their nodes that they had, and the production.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from plugins.slurm.real_bridge import Running
from plugins.slurm.real_cluster import PATIENCE_S, RealCluster

from beasy_sched.api import simulate
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.plugins.slurm.records import SlurmJob
from beasy_sched.plugins.slurm.slurm_commands import Slurm

DAY_S, STEP_S, CPUS = 600.0, 10, 4
NOON_W = 440.0
SERVER = """
name = "quick"
idle_w = 50.0
pstates = [{{ speed_gflops = 1.0, full_w = 100.0 }}]
[sleep]
sleep_w = 5.0
off_s = 7.0
off_w = 50.0
on_s = {on_s}
on_w = {on_w}
"""
BOOTED_BY_BRIDGE = {"on_s": 5.0, "on_w": 100.0}
"""Waking: time until a job can start, s, and mean power, W."""
BOOTED_BY_SLURM = {"on_s": 17.5, "on_w": 57.0}
"""Slurm looks every 30 s whether woken nodes are ready: 2.5 s of boot at 100 W, 15 s idle on average."""
SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 10
window_h = 1
"""


def sun_w(at_s: float) -> float:
    """The production at a time of the day, W."""
    return NOON_W * math.sin(math.pi * min(at_s / DAY_S, 1.0)) ** 2


def sun_file(folder: Path) -> Path:
    """The production of the day, as events."""
    path = folder / "sun.txt"
    lines = (
        {"timestamp": at_s, "type": "power", "power_available": round(sun_w(at_s + STEP_S / 2), 3)}
        for at_s in range(0, int(DAY_S) + 600, STEP_S)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@dataclass(frozen=True)
class DayJob:
    """A job of the day."""

    at_s: float
    run_s: int
    cpus: int
    partition: str

    @property
    def nodes(self) -> int:
        """Number of nodes that it takes if it does not share them."""
        return math.ceil(self.cpus / CPUS)


def jobs_of_day(count: int = 40, seed: int = 11) -> list[DayJob]:
    """The jobs, most of which take a part of a node, in two partitions."""
    rng = random.Random(seed)
    jobs = [
        DayJob(
            round(rng.uniform(5.0, 450.0), 1),
            rng.randint(10, 45),
            rng.choice((1, 1, 2, 2, 3, 4, 4, 8)),
            rng.choice(("main", "main", "low")),
        )
        for _ in range(count)
    ]
    return sorted(jobs, key=lambda job: job.at_s)


def slurm_of(cluster: RealCluster) -> Slurm:
    """The commands of a cluster, whatever the environment of this process."""

    def run(command: Sequence[str]) -> bytes:
        environment = {**cluster.environment, "SLURM_TIME_FORMAT": "%s"}
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    return Slurm(run)


@dataclass
class Day:
    """What was seen of a day."""

    summary: dict
    trace: pd.DataFrame
    """The energy of each step."""
    offers: pd.DataFrame
    """The changes of offers; empty in another mode."""
    jobs: list[SlurmJob] = field(default_factory=list)
    epoch_s: float = 0.0
    shares: bool = True
    """Whether jobs shared nodes."""

    @property
    def finished(self) -> int:
        return int(self.summary["jobs"]["finished"])

    @property
    def used_j(self) -> float:
        return float((self.trace["demand_w"] * STEP_S).sum())

    @property
    def beyond_j(self) -> float:
        """Energy beyond the production of the same step, J."""
        return float(((self.trace["demand_w"] - self.trace["renewable_w"]).clip(lower=0.0) * STEP_S).sum())


def read_day(prefix: Path) -> Day:
    """Read the files of a run."""
    offers = Path(f"{prefix}_offers.csv")
    return Day(
        json.loads(Path(f"{prefix}_summary.json").read_text()),
        pd.read_csv(f"{prefix}_energy_trace.csv").query(f"start_s < {DAY_S}"),
        pd.read_csv(offers) if offers.exists() else pd.DataFrame(),
    )


def measured(
    cluster: RealCluster, folder: Path, platform: Path, *options: object, shares: bool, jobs: Sequence[DayJob]
) -> Day:
    """Run the jobs of the day on a cluster; ``shares``: whether they share nodes."""
    (folder / "site.toml").write_text(SITE)
    slurm, prefix, sun = slurm_of(cluster), folder / "run", sun_file(folder)
    given = ("-p", platform, "--site", folder / "site.toml", "--power", sun, "--poll", 1, "-o", prefix)
    running = Running(cluster, "main", *given, *options, "--for", f"{DAY_S:g}s")
    try:
        running.wait_for_looks(1)
        looked_s = began = time.time()
        ids = []
        for job in jobs:
            time.sleep(max(began + job.at_s - time.time(), 0.0))
            size = (f"-N{job.nodes}", *([f"-n{job.cpus}"] if shares else []))
            partition = job.partition if shares else "main"
            ids.append(cluster.submit(job.run_s, *size, "-t2", "-p", partition))
        output, _ = running.process.communicate(timeout=DAY_S + PATIENCE_S)
        assert running.process.returncode == 0, output
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()
    day = read_day(prefix)
    day.jobs = [job for job in slurm.jobs() if job.id in ids]
    day.epoch_s, day.shares = math.floor(looked_s), shares
    return day


def row_of(day: Day) -> str:
    """The cells of a table: jobs finished, energy, and energy beyond the production."""
    return (
        f"{day.finished} jobs, {day.used_j / 1e3:.1f} kJ, {day.beyond_j / 1e3:.1f} kJ beyond the production"
    )


def simulated(day: Day, folder: Path, platform: Path, jobs: Sequence[DayJob], **options: object) -> Day:
    """Simulate the jobs of a measured day, with ``options`` of `simulate`."""
    speed_flops = read_simgrid_platform(platform, master="master_host").platform.kinds[0].speeds_flops[0]
    workload: dict = {"nb_res": 4, "jobs": [], "profiles": {}}
    known = sorted(day.jobs, key=lambda job: int(job.id))
    for number, (seen, job) in enumerate(zip(known, jobs, strict=True)):
        ended = seen.state == "COMPLETED"
        run_s = seen.end_s - seen.start_s if ended else job.run_s
        name = f"p{number}"
        workload["profiles"][name] = {"type": "parallel_homogeneous", "cpu": run_s * speed_flops, "com": 0}
        share = min(job.cpus / CPUS, 1.0) if day.shares else 1.0
        more = {} if share == 1.0 else {"host_share": share}
        at_s = max(seen.submit_s - day.epoch_s, 0.0)
        workload["jobs"].append(
            {
                "id": f"{number:03}",
                "subtime": at_s,
                "res": job.nodes,
                "walltime": 120,
                "profile": name,
                **more,
            }
        )
    path = folder / "jobs.json"
    path.write_text(json.dumps(workload))
    (folder / "site.toml").write_text(SITE)
    prefix = folder / "simulated"
    simulate(
        platform, path, events=sun_file(folder), site=folder / "site.toml", export=prefix,
        **options,
    )  # fmt: skip
    return read_day(prefix)
