"""The pages on grids, workflows and forecasts are true: their files are read, their commands run."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from project.played import blocks
from project.shell import ROOT, run

from beasy_sched.energy.grid import Export, Foreseen, Known
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.forecast_source import _Predictor, read_forecast
from beasy_sched.formats.reading import parse_toml
from beasy_sched.formats.site_file import (
    _GridSection,
    _Load,
    _Rate,
    _Time,
    default_site,
    default_site_text,
    parse_site,
)
from beasy_sched.generate.greenslot_week import workflow_workload
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.model.jobs import Terms
from beasy_sched.outputs.deadline_table import deadlines_csv
from beasy_sched.outputs.files import trace_csv
from beasy_sched.plugins.greenslot.conventional import Conventional
from beasy_sched.plugins.greenslot.dispatch import SlotOptions
from beasy_sched.plugins.greenslot.greenslot_policy import GreenSlotOptions, LowestWindow
from beasy_sched.structs import as_type

GRID, WORKFLOWS, POLICIES, OUTPUTS = (
    (ROOT / f"docs/{name}.md").read_text("utf-8")
    for name in ("guides/sites", "guides/own-data", "reference/policies", "reference/files")
)
WORKFLOWS = WORKFLOWS.partition("## Deadlines and workflows")[2]
SECTION = POLICIES.partition("## GreenSlot and its baselines")[2].partition("## External placement")[0]
CARBON = (
    "Datetime (UTC),Carbon Intensity gCO2eq/kWh (direct),Carbon Intensity gCO2eq/kWh (LCA)\n"
    "2022-07-11 22:00:00,200,250\n2022-07-11 23:00:00,210,260\n"
)


def play(place: Path, code: str) -> str:
    (place / "bin").mkdir(exist_ok=True)
    program = place / "bin/beasy-sched"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m beasy_sched "$@"\n')
    program.chmod(0o755)
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = run("bash", "-euc", code, cwd=place, variables={"PATH": path})
    assert done.returncode in (0, 1), done.stderr  # 1: `check` warns
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files of the page on grids."""
    (prices,) = blocks(GRID, "csv")
    (tmp_path / "prices.csv").write_text(prices)
    (tmp_path / "carbon.csv").write_text(CARBON)
    (tmp_path / "weather.csv").write_text(
        "time,temperature\n2024-07-01T00:00+02:00,15\n2024-07-01T01:00+02:00,20\n"
    )
    return tmp_path


def test_the_site_files(place: Path) -> None:
    cooled, aiming, first, charging, peak, tariff, rates = (
        parse_site(text, place / "site.toml") for text in blocks(GRID, "toml")
    )
    assert cooled.load_during(0.0, 1800.0).pue == pytest.approx(1.1, abs=0.05)
    assert (aiming.storage.battery.target_band_pct, aiming.storage.battery.end_value_per_kwh) == (5.0, 0.4)
    assert charging.grid is not None
    assert charging.grid.rules is not None
    assert charging.grid.rules.charge is not None
    assert charging.grid.rules.rest is not None
    assert peak.grid is not None
    assert peak.grid.peak is not None
    assert not first.storage.battery.exists
    assert first.grid is not None
    assert (first.grid.export, first.grid.import_limit_w, first.base_w) == (Export.FEED_IN, 20e3, 85.0)
    assert means(first.grid.price, 0, 1, 2) == pytest.approx([0.1421, 0.136])
    assert means(first.grid.carbon, 0, 1, 2) == [200.0, 210.0]
    assert first.calendar is not None
    assert first.calendar.local(0.0).hour == 0
    assert tariff.grid is not None
    assert means(tariff.grid.price, 0, 1, 14, 24, 25) == pytest.approx([0.13, 0.13, 0.08, 0.13])
    assert rates.grid is not None
    assert means(rates.grid.carbon, 0, 1) == [250.0]
    known = [rate.known for rate in (rates.grid.price, rates.grid.carbon) if rate is not None]
    assert known == [Known.ALL, Known.DAY_AHEAD]


def means(rate: Foreseen | None, *hours: int) -> list[float]:
    assert rate is not None
    return rate.rate.means(3600.0 * np.array(hours, dtype=np.float64)).tolist()


@pytest.mark.parametrize("section", [_GridSection, _Load, _Rate, _Time])
def test_all_fields_of_sites_are_told(section: type[msgspec.Struct]) -> None:
    for field in section.__struct_fields__:
        assert f"| `{field}` |" in GRID or f"| `[[grid.{field}]]` |" in GRID, field


def test_the_examples_of_the_default_site(tmp_path: Path) -> None:
    """Its comments are a site with everything: take off their signs, and it is read."""
    text = re.sub(r"^# (?=\[|[a-z_]+ = )", "", default_site_text(), flags=re.MULTILINE)
    (tmp_path / "carbon.csv").write_text("time,g_per_kwh\n2010-07-12T13:00Z,300\n2010-07-12T14:00Z,310\n")
    for name, column in (("services", "power_w"), ("weather", "T2M")):
        (tmp_path / f"{name}.csv").write_text(f"time,{column}\n2010-07-12T13:00Z,30\n2010-07-12T14:00Z,31\n")
    site = parse_site(text, tmp_path / "site.toml")
    assert site.grid is not None
    assert None not in (site.cooling, site.services, site.grid.rules, site.grid.peak)
    assert None not in (site.grid.price, site.grid.carbon, site.storage.hydrogen, site.calendar)
    assert site.base_w == 85.0
    plain = default_site()
    assert (plain.grid, plain.calendar, plain.base_w) == (None, None, 0.0)
    examples = {"target_band_pct": 5.0, "end_value_per_kwh": 0.4}
    assert site.storage.battery == replace(plain.storage.battery, **examples)


@pytest.mark.slow
def test_the_workload(tmp_path: Path) -> None:
    (jobs,) = blocks(WORKFLOWS, "json")
    (tmp_path / "jobs.json").write_text(jobs)
    assert len(read_workload(tmp_path / "jobs.json").jobs) == 5
    for code in blocks(WORKFLOWS, "bash"):
        play(tmp_path, code)
    summary = json.loads((tmp_path / "out/flow_summary.json").read_text("utf-8"))
    assert summary["jobs"]["finished"] == 5
    assert len(read_workload(tmp_path / "due.json").jobs) == 100
    assert (summary["deadlines"]["jobs_met"], summary["deadlines"]["workflows_met"]) == (4, 1)
    rows = (tmp_path / "out/flow_deadlines.csv").read_text("utf-8").splitlines()
    assert "w0!split,w0!blast,0,0.0,0.0,600.0,9000.0,14400.0,0.0,met" in rows
    with open(tmp_path / "out/flow_jobs.csv", encoding="utf-8") as file:
        starts = {row["job_id"]: float(row["starting_time"]) for row in csv.DictReader(file)}
    assert starts == pytest.approx(
        {"split": 0.0, "search-1": 600.0, "search-2": 600.0, "collect": 4200.0, "plot": 5100.0}, abs=1.0
    )


def test_all_members_of_jobs_are_told() -> None:
    assert [f"`{name}`" for name in re.findall(r"^\| `(\w+)` \|", WORKFLOWS, re.MULTILINE)] == [
        f"`{name}`" for name in Terms.__struct_fields__
    ]


def test_the_options_and_their_defaults() -> None:
    shared, both, own = (re.findall(r"^\| `(\w+)` \| (\S+) \|", part, re.MULTILINE) for part in _tables())
    assert {name for name, _ in shared} == set(SlotOptions.__struct_fields__)
    assert Conventional.options_type is SlotOptions
    assert LowestWindow.options_type is GreenSlotOptions
    assert {name for name, _ in shared + both + own} == set(GreenSlotOptions.__struct_fields__)
    defaults = GreenSlotOptions()
    for name, shown in shared + both + own:
        value = None if shown == "none" else json.loads(shown.strip("`"))
        assert value == getattr(defaults, name), name


def _tables() -> tuple[str, str, str]:
    first, _, rest = SECTION.partition("Options of `greenslot` and `lowest-window`:")
    second, _, third = rest.partition("Options of `greenslot` only:")
    return first, second, third.partition("\n## ")[0]


@pytest.mark.slow
def test_the_command_and_the_predictor(tmp_path: Path) -> None:
    """The week of the paper, on a site with carbon; the predictor learns from a year of synthetic sky."""
    (code,) = blocks(SECTION, "bash")
    (check,) = blocks(GRID, "bash")
    site = '[time]\nstart = "2010-07-12T09:00:00Z"\nstep_s = 900\nwindow_h = 104\n'
    site += '[grid]\ncarbon = "carbon.csv"\n'
    (tmp_path / "site.toml").write_text(site)
    hours = "".join(f"{3600 * hour},{300 + hour % 24}\n" for hour in range(105))
    (tmp_path / "carbon.csv").write_text(f"time_s,g_per_kwh\n{hours}")
    workflow_workload(WorkflowOptions()).write(tmp_path / "workload.json")
    sky = "--synthetic --pv-kw 1.5 --start 2010-01-01 --days 365 --dt 3600 --write-ninja past -o year.txt"
    play(
        tmp_path,
        "beasy-sched generate platform --servers greenslot-xeon:16 -o platform.xml\n"
        f"beasy-sched generate power {sky}\n"
        "beasy-sched generate power --pv past_pv.csv --pv-kw 2.3 --start 2010-07-12T09:00"
        " --days 5 --dt 900 -o power.txt\n",
    )
    assert "no battery, grid without a limit" in play(tmp_path, check)
    told = play(tmp_path, code)
    assert re.search(r"energy imported +\d+\.\d\d kWh\n  cost +0\.00 USD\n  carbon +\d+\.\d\d kg", told)
    (settings,) = blocks(SECTION, "toml")
    (tmp_path / "sky.toml").write_text(settings)
    source = read_forecast(f"predictor:{tmp_path / 'sky.toml'}", parse_site(site, tmp_path / "site.toml"))
    assert source.renewable_w(0.0, 3600.0, 48).max() > 1500.0  # scaled from 1.5 kW to 2.3
    as_type(parse_toml(settings, "sky.toml"), _Predictor)
    for field in _Predictor.__struct_fields__:
        assert re.search(rf"`{field}`|^{field} = |`{field} = ", SECTION, re.MULTILINE), field


def test_the_new_columns_are_told() -> None:
    trace = OUTPUTS.partition("## The energy trace")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", trace)
    assert set(trace_csv([], metered=True).strip().split(",")) <= set(named)
    table = OUTPUTS.partition("## Deadlines")[2].partition("\n## ")[0]
    rows = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert re.findall(r"`(\w+)`", rows) == deadlines_csv([]).strip().split(",")
