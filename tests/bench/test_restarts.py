"""CPU time of a run in which jobs come back, next to two runs without restarts.

One loses the killed jobs, and has less to do. The other has as many executions: each life is a job.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path

import numpy as np
import pytest
from bench.traces import ROWS

from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.model.choices import OnKill
from beasy_sched.model.restarts import first_id
from beasy_sched.outputs.files import RunFiles
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.results import read_jobs
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

pytestmark = pytest.mark.bench

JOBS, SERVERS, DAYS, STEP_S, ROUNDS = 900, 40, 5, 300.0, 7
SITE = f"""
[battery]
capacity_kwh = 1.0
charge_limit_kw = 6.0
discharge_limit_kw = 6.0
[time]
step_s = 300
window_h = {24 * DAYS}
start = "2019-06-01T00:00:00+00:00"
"""


def _write(folder: Path) -> Inputs:
    """Write a site with little storage, whose production changes every half hour."""
    rng = np.random.default_rng(3)
    platform = preset_platform({"gros": SERVERS})
    write_platform(platform, folder / "platform.xml")
    speed_flops = platform.kinds[0].reference_speed_flops
    runs_s = np.clip(rng.lognormal(math.log(3000.0), 0.8, JOBS), 120.0, 40_000.0).tolist()
    times_s = np.sort(rng.uniform(0.0, DAYS * 86_400.0, JOBS)).round(3).tolist()
    profiles = {
        f"p{number}": {"type": "parallel_homogeneous", "cpu": run_s * speed_flops, "com": 0}
        for number, run_s in enumerate(runs_s)
    }
    jobs = [
        {
            "id": str(number), "subtime": at_s, "res": int(rng.choice([1, 2, 4, 8])),
            "walltime": math.ceil(2.0 * run_s), "profile": f"p{number}",
        }
        for number, (at_s, run_s) in enumerate(zip(times_s, runs_s, strict=True))
    ]  # fmt: skip
    workload = {"nb_res": SERVERS, "jobs": jobs, "profiles": profiles}
    (folder / "workload.json").write_text(json.dumps(workload))
    clouds = np.repeat(rng.uniform(0.0, 1.0, DAYS * 48 + 1), 6)[: DAYS * 288 + 1]
    (folder / "power.txt").write_text(
        "".join(power_event_lines(np.round(1500.0 + 6000.0 * clouds, 1), STEP_S))
    )
    return Inputs(folder / "platform.xml", [folder / "workload.json"], [folder / "power.txt"])


def _lives_as_jobs(inputs: Inputs, prefix: str, folder: Path) -> Inputs:
    """Return inputs in which each life of a run is a job, submitted when it was."""
    workload = json.loads(Path(inputs.workloads[0]).read_text())
    by_id = {job["id"]: job for job in workload["jobs"]}
    lives = [
        {
            **by_id[first_id(row.id.partition("!")[2])],
            "id": row.id.partition("!")[2],
            "subtime": row.subtime_s,
        }
        for row in read_jobs(prefix)
    ]
    workload["jobs"] = sorted(lives, key=lambda life: life["subtime"])
    (folder / "lives.json").write_text(json.dumps(workload))
    return Inputs(inputs.platform, [folder / "lives.json"], inputs.events)


def test_restarts_cost_little_more_than_as_many_executions(tmp_path: Path) -> None:
    inputs = _write(tmp_path)
    prefix = str(tmp_path / "run")

    def cost_s(some: Inputs, on_kill: OnKill, to: str | None = None) -> float:
        settings = RunSettings(policy="easy", site=SITE, on_kill=on_kill)
        began_s = time.process_time()
        run_in_process(some, RunFiles(to, settings))
        return time.process_time() - began_s

    cost_s(inputs, OnKill.REQUEUE, prefix)
    restarts = json.loads((tmp_path / "run_summary.json").read_text())["restarts"]["count"]
    assert restarts >= 300
    lives = _lives_as_jobs(inputs, prefix, tmp_path)
    runs = (inputs, OnKill.REQUEUE), (inputs, OnKill.CHECKPOINT), (inputs, OnKill.DROP), (lives, OnKill.DROP)
    costs = [[cost_s(*run) for run in runs] for _ in range(ROUNDS)]
    middle_s = [statistics.median(times_s) for times_s in zip(*costs, strict=True)]

    def note(what: str, place: int, peer: int, remark: str) -> float:
        ratio = statistics.median(cost[place] / cost[peer] for cost in costs)
        times = (f"{middle_s[place]:.2f} s", f"{middle_s[peer]:.2f} s")
        ROWS.append((f"{JOBS} jobs, {what}", *times, f"{ratio:.2f}", f"CPU time; peer: {remark}"))
        return ratio

    note(f"{restarts} requeues", 0, 2, "killed jobs are lost")
    note("checkpoints", 1, 2, "killed jobs are lost")
    assert note(f"{restarts} requeues", 0, 3, "as many executions, without restarts") < 1.3
