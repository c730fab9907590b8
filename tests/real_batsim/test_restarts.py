"""Killed jobs come back with a real Batsim: the same messages and files from the embedded simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_batsim.program import beside, real_batsim
from real_batsim.restart_runs import SITE, RestartRun

pytestmark = pytest.mark.slow

NUMBERS = {"interval_s": 400, "dump_s": 7.5, "notice_s": 0}


@pytest.mark.parametrize("seed", range(100, 140))
def test_a_run_is_the_same(seed: int, tmp_path: Path) -> None:
    real, session, faults = RestartRun(seed).compare(real_batsim(), tmp_path)
    assert real.exit_code == 0, real.error
    assert not faults
    assert session.ended
    assert session.lives.count > 0


@pytest.mark.parametrize("on_kill", ["requeue", "checkpoint"])
@pytest.mark.parametrize("acknowledged", [True, False])
def test_the_daemon_beside_batsim(tmp_path: Path, on_kill: str, acknowledged: bool) -> None:
    inputs = RestartRun(101).write(tmp_path)
    (tmp_path / "site.toml").write_text(SITE.format(**NUMBERS))
    options = ["-E", "--events", tmp_path / "power.txt", "--forward-unknown-events", "--enable-dynamic-jobs"]
    if acknowledged:
        options.append("--acknowledge-dynamic-jobs")
    found = beside(
        tmp_path / "out",
        Path(inputs.platform),
        tmp_path / "workload.json",
        *("-p", Path(inputs.platform), "--site", tmp_path / "site.toml", "--on-kill", on_kill),
        batsim=options,
    )
    found.both_ended_well()
    assert "#1," in (tmp_path / "out" / "run_jobs.csv").read_text()


@pytest.mark.parametrize("on_kill", ["requeue", "checkpoint"])
def test_a_batsim_without_dynamic_jobs(tmp_path: Path, on_kill: str) -> None:
    inputs = RestartRun(101).write(tmp_path)
    found = beside(
        tmp_path / "out",
        Path(inputs.platform),
        tmp_path / "workload.json",
        *("--on-kill", on_kill),
        batsim=["-E"],
    )
    assert found.daemon == 2
    assert "start Batsim 4 with --enable-dynamic-jobs, or use --on-kill drop" in found.daemon_said
    assert not (tmp_path / "out" / "run_summary.json").exists()
