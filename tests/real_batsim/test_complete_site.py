"""A real Batsim on sites with everything on: the daemon decides as the embedded simulator does."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import exit_code
from complete_site import CHARGING, SHAVING, complete_site, complete_text, write_series
from real_batsim.program import beside, real_batsim
from real_batsim.random_runs import POLICIES, RandomRun

pytestmark = pytest.mark.slow

BATTERY = "capacity_kwh = 1.0\ncharge_limit_kw = 1.0\ndischarge_limit_kw = 1.0"


@pytest.mark.parametrize("rules", [CHARGING, SHAVING], ids=["charging", "shaving"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_the_same(policy: str, rules: str, tmp_path: Path) -> None:
    write_series(tmp_path)
    site = complete_text(BATTERY, rules)
    run = RandomRun(2100 + POLICIES.index(policy), "none", policy, site)
    real, faults = run.compare(real_batsim(), tmp_path)
    assert real.exit_code == 0, real.error
    assert not faults
    assert len(real.messages) > 10


def test_walltimes_end_after_an_announcement_of_the_same_instant(tmp_path: Path) -> None:
    """At 6300 s a task and a delay reach their walltimes, and production is announced."""
    write_series(tmp_path)
    run = RandomRun(2001, "none", "easy", complete_text(BATTERY, CHARGING))
    real, faults = run.compare(real_batsim(), tmp_path)
    assert not faults
    at_once = next(json.loads(raw) for raw in real.messages if json.loads(raw)["now"] == 6300)
    told = [event["type"] for event in at_once["events"]]
    assert told == ["NOTIFY", "JOB_COMPLETED", "JOB_COMPLETED"]


@pytest.mark.parametrize("rules", [CHARGING, SHAVING], ids=["charging", "shaving"])
@pytest.mark.parametrize("policy", ["easy", "bid-price", "greenslot"])
def test_the_daemon_decides_as_the_simulator(policy: str, rules: str, tmp_path: Path) -> None:
    site = complete_site(tmp_path, rules)
    here, there = tmp_path / "here", tmp_path / "there"
    inputs = ["-p", str(site.platform), "-w", str(site.workload), "--events", str(site.events)]
    decide = ["--policy", policy, "--site", str(site.site)]
    assert exit_code("simulate", "-q", *inputs, *decide, "-e", str(here / "run")) == 0
    batsim = ["-E", "--events", site.events, "--forward-unknown-events"]
    beside(there, site.platform, site.workload, *decide, batsim=batsim).both_ended_well()
    logs = [
        [json.loads(line) for line in (folder / "run_decisions.jsonl").read_text().splitlines()]
        for folder in (here, there)
    ]
    assert len(logs[0]) > 50
    assert logs[1] == logs[0]
    ours, theirs = (pd.read_csv(folder / "run_energy_trace.csv") for folder in (here, there))
    assert (ours.grid_charge_w > 0.0).any()
    assert (ours.cooling_w > 0.0).all()
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9, atol=1e-6)
