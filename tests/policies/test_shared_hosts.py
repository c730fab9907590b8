"""Offers that do not flap, and jobs that share hosts in `simulate` with external placement."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import exit_code

from beasy_sched.api.runs import simulate
from beasy_sched.policies.offering import SteadyCounts

SERVER = """
name = "x"
idle_w = 50.0
pstates = [{ speed_gflops = 1.0, full_w = 100.0 }]
[sleep]
sleep_w = 5.0
off_s = 5.0
off_w = 50.0
on_s = 5.0
on_w = 100.0
"""
SITE = """
[battery]
capacity_kwh = 1.0
charge_limit_kw = 1.0
discharge_limit_kw = 1.0
[time]
step_s = 10
window_h = 1
"""


def test_counts_fall_at_once_and_rise_after_a_time() -> None:
    steady = SteadyCounts([20.0, math.inf])
    wanted = [
        (0, 2, 1),
        (10, 1, 0),
        (20, 2, 1),
        (29, 2, 0),
        (30, 2, 1),
        (40, 3, 1),
        (50, 0, 1),
        (60, 3, 1),
        (70, 3, 1),
    ]
    found = [tuple(steady.next(np.array(counts), at_s).tolist()) for at_s, *counts in wanted]
    assert found == [(2, 1), (1, 0), (1, 1), (1, 0), (2, 1), (3, 1), (0, 1), (0, 1), (3, 1)]


def run(
    folder: Path, jobs: list[tuple[float, int, float, float]], power_w: list[float], **options
) -> pd.DataFrame:
    """Simulate jobs (submission, hosts, share, run time) on two hosts; a power for each step of 10 s."""
    (folder / "x.toml").write_text(SERVER)
    (folder / "site.toml").write_text(SITE)
    words = ("generate", "platform", "--servers", f"{folder / 'x.toml'}:2", "-o", str(folder / "p.xml"), "-q")
    assert exit_code(*words) == 0
    workload = {
        "nb_res": 2,
        "jobs": [
            {
                "id": str(n),
                "subtime": at_s,
                "res": res,
                "walltime": 60,
                "profile": str(n),
                "host_share": share,
            }
            for n, (at_s, res, share, _) in enumerate(jobs)
        ],
        "profiles": {
            str(n): {"type": "parallel_homogeneous", "cpu": run_s * 1e9, "com": 0}
            for n, (*_, run_s) in enumerate(jobs)
        },
    }
    (folder / "w.json").write_text(json.dumps(workload))
    lines = (
        {"timestamp": 10 * at, "type": "power", "power_available": watts} for at, watts in enumerate(power_w)
    )
    (folder / "e.txt").write_text("".join(json.dumps(line) + "\n" for line in lines))
    simulate(
        folder / "p.xml", folder / "w.json", folder / "e.txt", site=folder / "site.toml",
        placement="external", export=folder / "r", **{"policy": "easy"} | options,
    )  # fmt: skip
    return pd.read_csv(folder / "r_jobs.csv").set_index("job_id")


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_jobs_share_a_host_up_to_its_whole(tmp_path: Path) -> None:
    """None slows another one down; the third one finds the first host full."""
    found = run(tmp_path, [(0, 1, 0.5, 30), (0, 1, 0.5, 20), (0, 1, 0.25, 10), (0, 1, 1.0, 10)], [300.0] * 8)
    assert [*found["allocated_resources"].astype(str)[[0, 1, 2]]] == ["0", "0", "1"]
    assert found["execution_time"][[0, 1, 2, 3]].tolist() == pytest.approx([30, 20, 10, 10], abs=0.01)
    assert found["starting_time"][3] == pytest.approx(10.0, abs=0.01)


def test_a_shared_host_draws_the_power_of_one(tmp_path: Path) -> None:
    run(tmp_path, [(0, 1, 0.5, 30), (0, 1, 0.5, 30)], [300.0] * 8)
    trace = pd.read_csv(tmp_path / "r_energy_trace.csv")
    assert trace["demand_w"][:3].tolist() == pytest.approx([150.0] * 3, abs=1.0)


def test_no_job_joins_a_host_beyond_the_offer(tmp_path: Path) -> None:
    """From 10 s on, the power feeds no host: what runs goes on, and the next job waits for the sun."""
    power_w = [300.0, *[0.0] * 4, *[300.0] * 10]
    found = run(tmp_path, [(0, 1, 0.5, 30), (15, 1, 0.5, 5)], power_w, policy="power-reactive")
    assert found["starting_time"][0] == pytest.approx(0.0, abs=0.01)
    assert found["starting_time"][1] >= 50.0


def test_two_jobs_wait_for_the_same_waking_host(tmp_path: Path) -> None:
    found = run(tmp_path, [(40, 1, 0.5, 10), (40, 1, 0.5, 10)], [300.0] * 12, suspend_s=10.0)
    assert [*found["allocated_resources"].astype(str)] == ["0", "0"]
    assert found["starting_time"].tolist() == pytest.approx([45.0, 45.0], abs=0.1)


def test_idle_hosts_sleep_after_the_schedulers_time(tmp_path: Path) -> None:
    run(tmp_path, [(0, 1, 1.0, 5), (100, 1, 1.0, 5)], [300.0] * 14, suspend_s=20.0)
    demand_w = pd.read_csv(tmp_path / "r_energy_trace.csv")["demand_w"]
    assert demand_w[1] == pytest.approx(100.0, abs=1.0)
    assert demand_w[4:9].tolist() == pytest.approx([10.0] * 5, abs=1.0)


def test_power_reactive_does_not_flap_at_low_sun(tmp_path: Path) -> None:
    """The power feeds an idle host, not a busy one: it is not offered and withdrawn in turns."""
    jobs = [(10.0 * at, 1, 1.0, 4.0) for at in range(20)]
    found = run(tmp_path, jobs, [*[80.0] * 25, *[120.0] * 200], policy="power-reactive")
    assert (found["starting_time"] >= 250.0).all()


def test_the_time_requires_external_placement(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, [(0, 1, 1.0, 5)], [300.0] * 3)
    words = (
        "simulate",
        "-p",
        str(tmp_path / "p.xml"),
        "-w",
        str(tmp_path / "w.json"),
        "--suspend",
        "5min",
        "-q",
    )
    assert exit_code(*words) == 2
    assert "--suspend requires --placement external" in capfd.readouterr().err
