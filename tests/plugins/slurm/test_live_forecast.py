"""Forecasts in a run on a cluster: dates are of the clock, and the age counts from the file's last change."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest
from plugins.slurm.fake_slurm import FakeSlurm
from plugins.slurm.test_service import SITE, live

from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import InputError
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.run.settings import FollowSettings, ReplanSettings, RunSettings

HOUR = 3600.0


def hourly(now_s: float, hours: int = 48) -> str:
    """Power since yesterday's midnight (UTC): as many kW as the hour's number since then."""
    midnight = now_s // 86400 * 86400 - 86400
    stamps = (datetime.fromtimestamp(midnight + 3600 * n, timezone.utc) for n in range(hours))
    rows = (f"{stamp:%Y-%m-%d %H:%M},{n}" for n, stamp in enumerate(stamps))
    return "\n".join(["time,kW", *rows, ""])


def settings_of(**given: object) -> RunSettings:
    return RunSettings(site=SITE, energy=EnergySource.MODEL, windows=1, **given)


def test_the_age_counts_from_the_last_change_of_the_file(tmp_path: Path) -> None:
    slurm, path = FakeSlurm(2), tmp_path / "f.csv"
    path.write_text(hourly(slurm.now_s))
    changed_s = slurm.now_s // 1 - 2 * HOUR
    os.utime(path, (changed_s, changed_s))
    settings = settings_of(forecast=str(path), follow=FollowSettings(stale_s=HOUR))
    summary, said = live(slurm, tmp_path / "r", settings)
    stays = "it stays in use until there is a newer one"
    told = f"forecast {path}: it was issued 2.0 h ago, longer than --forecast-stale (1.0 h): {stays}"
    assert told in said
    assert summary is not None
    assert told in summary.warnings
    lines = [json.loads(line) for line in (tmp_path / "r_decisions.jsonl").read_text().splitlines()]
    (in_use, _) = (line["facts"] for line in lines if line["action"] == "forecast")
    assert (in_use["age_s"], in_use["issued_at_s"]) == (2 * HOUR, -2 * HOUR)


@pytest.mark.parametrize("option", ["forecast", "production", "program"])
def test_a_plan_takes_the_production_by_date(option: str, tmp_path: Path) -> None:
    pytest.importorskip("highspy", reason="planning needs the HiGHS solver")
    slurm, path, demand = FakeSlurm(2), tmp_path / "f.csv", tmp_path / "demand.csv"
    path.write_text(hourly(slurm.now_s))
    demand.write_text("W\n" + 360 * "100\n")
    source = f"command:cat {path}" if option == "program" else str(path)
    settings = settings_of(
        policy="follow-plan",
        forecast=None if option == "production" else source,
        replan=ReplanSettings(
            "window", demand=str(demand), production=source if option == "production" else None
        ),
    )
    live(slurm, tmp_path / "r", settings)
    (plan, *_) = read_plans(f"{tmp_path / 'r'}_plan.msgpack")
    hour = slurm.now_s // 3600 - (slurm.now_s // 86400 * 24 - 24)
    assert abs(plan.power.renew_w[0] - 1000.0 * hour) <= 1000.0


def test_a_missing_forecast_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        live(FakeSlurm(2), tmp_path / "r", settings_of(forecast=str(tmp_path / "none.csv")))
