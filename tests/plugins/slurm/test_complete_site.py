"""A live run on a site with cooling, services, grid rules and a priced peak, by the dates of the clock."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from complete_site import CHARGING, SHAVING, complete_text, write_series
from plugins.slurm.fake_slurm import START_S, FakeSlurm
from plugins.slurm.live_cases import platform_of, submit

from beasy_sched.energy.grid import Announced
from beasy_sched.energy.grid_charging import grid_use
from beasy_sched.engine.power_side import EnergySource
from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import parse_site
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.slurm.live import LiveRun, live_site
from beasy_sched.plugins.slurm.live_settings import LiveSettings
from beasy_sched.plugins.slurm.slurm_commands import Slurm
from beasy_sched.run.settings import RunSettings

BATTERY = "capacity_kwh = 1.0\ncharge_limit_kw = 1.0\ndischarge_limit_kw = 1.0"
NOW = datetime.fromtimestamp(START_S, timezone.utc)
MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, tzinfo=None)


def live(folder: Path, slurm: FakeSlurm, policy: str, rules: str, first: datetime = MIDNIGHT) -> pd.DataFrame:
    """Run beside the fake for two minutes; return the energy trace."""
    write_series(folder, first)
    (folder / "power.txt").write_text('{"timestamp": 0, "type": "power", "power_available": 30}\n')
    site = complete_text(BATTERY, rules, step_s=10)
    settings = RunSettings(
        policy=policy, site=site, site_name=str(folder / "site.toml"), energy=EnergySource.MODEL, windows=1
    )
    with RunFiles(str(folder / "r"), settings) as files:
        LiveRun(
            platform_of(len(slurm.nodes)),
            settings,
            LiveSettings(partition="main", act=True, for_s=120.0, power=str(folder / "power.txt")),
            files,
            slurm=Slurm(slurm),
            user="root",
            clock=lambda: slurm.now_s,
            sleep=slurm.advance,
        ).go()
    return pd.read_csv(folder / "r_energy_trace.csv")


@pytest.mark.parametrize(("policy", "rules"), [("bid-price", CHARGING), ("easy", SHAVING)])
def test_everything_counts(policy: str, rules: str, tmp_path: Path) -> None:
    slurm = FakeSlurm(3)
    for _ in range(3):
        submit(slurm, nodes=2, run_s=12)
    trace = live(tmp_path, slurm, policy, rules)
    summary = json.loads((tmp_path / "r_summary.json").read_text())
    assert summary["jobs"]["finished"] == 3
    assert trace.residual_j.abs().max() < 1e-6 * trace.demand_w.max() * 10.0
    temperature_c = 12.0 + NOW.hour
    pue = np.interp(temperature_c, [-10, 15, 25, 40], [1.06, 1.10, 1.25, 1.50])
    np.testing.assert_allclose(trace.cooling_w, trace.demand_w * (pue - 1.0), atol=1e-3)
    services_w = np.array([30.0, 37.0, 44.0, 51.0, 58.0, 30.0])[[NOW.hour % 5, NOW.hour % 5 + 1]]
    assert (trace.base_w >= services_w.min() + 20.0 - 0.01).all()
    assert (trace.base_w <= services_w.max() + 20.0 + 0.01).all()
    assert summary["grid"]["peak_kw"] > 0.0


def test_rules_follow_the_clock_not_the_start_of_the_site_file(tmp_path: Path) -> None:
    write_series(tmp_path, MIDNIGHT)
    site = parse_site(complete_text(BATTERY), tmp_path / "site.toml")
    for hour, charges in ((1, True), (13, False)):
        at_s = (MIDNIGHT.replace(tzinfo=timezone.utc) + timedelta(hours=hour)).timestamp()
        now = live_site(site, at_s, None)
        assert (grid_use(now.grid, 0.0, 10.0, Announced()).charge_w > 0.0) == charges
        assert now.grid is not None
        assert now.grid.price is not None
        assert now.grid.price.expected(0.0, np.array([0.0, 10.0])).tolist() == [0.05 if charges else 0.15]
        assert now.grid.carbon is not None
        assert now.grid.carbon.rate.means(np.array([0.0, 10.0])).tolist() == [300.0]
        assert now.load_during(0.0, 10.0).pue == pytest.approx(
            np.interp(12.0 + hour, [-10, 15, 25, 40], [1.06, 1.10, 1.25, 1.50])
        )
        assert now.grid.peak is not None
        assert now.grid.peak.calendar == now.calendar


def test_seconds_of_a_services_file_count_from_the_start_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text("time_s,services_w\n0,10\n3600,20\n7200,30\n")
    text = '[time]\nstart = "2020-01-01T00:00:00+00:00"\n[load]\nseries = "services.csv"\n'
    site = live_site(parse_site(text, tmp_path / "site.toml"), START_S, None)
    assert [site.load_during(at_s, at_s + 300.0).services_w for at_s in (0.0, 3600.0)] == [10.0, 20.0]


def test_a_file_that_does_not_cover_the_run_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"grid.carbon: the file covers 2000-01-01 00:00 to"):
        live(tmp_path, FakeSlurm(1), "easy", CHARGING, datetime(2000, 1, 1))
