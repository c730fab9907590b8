"""The comparison on files of the user: which days, which plants, which jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from studies.comparison.study import Extent, comparison, real_case

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.campaigns.own_days import OwnFiles, spread_s
from beasy_sched.plugins.campaigns.run_inputs import forecast_production, make_forecast, read_back
from beasy_sched.plugins.campaigns.scenario import (
    FileProduction,
    SwfWorkload,
    SyntheticProduction,
    SyntheticWorkload,
)

EXTENT = Extent(range(5000, 5002), range(5000, 5003), seeds_per_day=1)
DAY_S = 86_400


def test_days_are_spread_over_the_whole():
    assert spread_s(10 * DAY_S, 3 * DAY_S, 3) == [0, 3 * DAY_S, 7 * DAY_S]
    assert spread_s(3 * DAY_S, 3 * DAY_S, 2) == [0]
    assert spread_s(8.5 * DAY_S, 3 * DAY_S, 5) == [0, 5 * DAY_S]
    assert spread_s(9.5 * DAY_S, 3 * DAY_S, 1) == [0]
    with pytest.raises(ValueError, match="covers 48 h, expected 72 h or more"):
        spread_s(2 * DAY_S, 3 * DAY_S, 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Nine days of sun and wind, and of a trace for 96 processors."""
    folder = tmp_path_factory.mktemp("real")
    sky = ["generate", "power", "--synthetic", "--pv-kw", "1", "--wind-kw", "1", "--days", "9", "-q"]
    sky += ["--start", "2024-10-01", "-o", str(folder / "own.txt"), "--write-ninja", str(folder / "ninja")]
    assert exit_code(*sky) == 0
    rows = [f"{n} {n * 600} 0 {600 + n} 4 -1 -1 4 3600 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 1300)]
    (folder / "trace.swf").write_text("; MaxProcs: 96\n" + "\n".join(rows) + "\n")
    return folder


def scenario(files: OwnFiles):
    (found,) = comparison([real_case(files)], ["beasy"], EXTENT)
    return found


def test_weather_and_trace(files: Path, tmp_path: Path):
    weather = (files / "ninja_pv.csv", files / "ninja_wind.csv")
    found = scenario(OwnFiles(weather, files / "trace.swf"))
    assert (found.name, found.seeds, found.noise.walltimes) == ("real", (5000,), "keep")
    productions = [part.production for part in found.tuples]
    assert all(isinstance(each, FileProduction) for each in productions)
    assert [each.start for each in productions] == [
        "2024-10-01 00:00", "2024-10-04 00:00", "2024-10-07 00:00",
    ]  # fmt: skip
    assert productions[0].wind_kw == pytest.approx(0.7 * productions[0].pv_kw, abs=1e-3)
    workloads = [part.workload for part in found.tuples]
    assert all(isinstance(each, SwfWorkload) for each in workloads)
    assert [(each.start, each.cores_per_host) for each in workloads] == [
        (0.0, 2), (3 * DAY_S, 2), (6 * DAY_S, 2),
    ]  # fmt: skip
    site, produced, demanded = found.parsed_site(), 0.0, 0.0
    for number in range(3):
        inputs = make_forecast(found, number)
        task = inputs.plan
        _, demand_w, _ = read_back(site, 1, task.platform, task.workload, task.production)
        demanded += demand_w.sum()
        produced += inputs.production.total_w.sum()
    assert produced / demanded == pytest.approx(1.15, rel=1e-3)


def test_what_there_is_no_file_for_is_drawn(files: Path):
    sunny = scenario(OwnFiles((files / "ninja_pv.csv",)))
    assert all(isinstance(part.workload, SyntheticWorkload) for part in sunny.tuples)
    assert {part.production.wind_kw for part in sunny.tuples} == {0.0}
    assert sunny.noise.walltimes == "groups"
    traced = scenario(OwnFiles(trace=files / "trace.swf"))
    assert all(isinstance(part.production, SyntheticProduction) for part in traced.tuples)
    assert [part.production.seed for part in traced.tuples] == [5000, 5001, 5002]
    assert np.isfinite(forecast_production(traced, 0).total_w).all()


def test_files_that_do_not_fit(files: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="are both for pv"):
        scenario(OwnFiles((files / "ninja_pv.csv", files / "ninja_pv.csv")))
    short = tmp_path / "short.swf"
    short.write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    with pytest.raises(InputError, match=r"short.swf: covers 0 h, expected 72 h or more"):
        scenario(OwnFiles(trace=short))
    undated = tmp_path / "power.csv"
    undated.write_text("time,power_w\n" + "".join(f"{3600 * n},5\n" for n in range(100)))
    with pytest.raises(InputError, match="has no dates"):
        scenario(OwnFiles((undated,)))
