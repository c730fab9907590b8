"""Campaigns on sites with a grid, with forecasts and with deadlines."""

from __future__ import annotations

import json

import pytest
from small_campaign import SMALL, run_campaign

from beasy_sched.errors import InputError
from beasy_sched.formats.site_file import parse_site
from beasy_sched.plugins.campaigns.campaign_table import (
    COLUMNS,
    DEADLINE_COLUMNS,
    GRID_COLUMNS,
    read_campaign,
    result_lines,
)
from beasy_sched.plugins.campaigns.folder import plain_values, scenario_hash
from beasy_sched.plugins.campaigns.run_inputs import forecast_workload, materialize, real_workload
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario, scenario_of

NAMES = [[column.name for column in columns] for columns in (COLUMNS, GRID_COLUMNS, DEADLINE_COLUMNS)]
GREENSLOT = pytest.mark.plugins("greenslot")
BATTERY = SMALL[SMALL.index("[site.battery]") : SMALL.index("[site.time]")]
GREEN = (
    SMALL.replace('["easy", "follow-plan", "workload-reactive"]', '["conventional", "greenslot"]')
    .replace("seeds = [1, 2]", "seeds = [1]")
    .replace(BATTERY, '[site]\nbattery = "none"\n')
    .replace("[site.time]\n", "[site.time]\nstart = 2024-10-01T09:00:00+00:00\n")
    + """
[plan]
make = false

[site.load]
base_kw = 0.05

[grid]
import_limit_kw = inf
price = "prices.csv"
[[grid.tariff]]

[forecast]
source = "perfect"

[deadlines]
rule = "clock:11:00,12:30"
"""
).replace("[[grid.tariff]]\n", "")


@pytest.fixture
def folder(tmp_path):
    """A folder with prices of the whole day: 0.1 and 0.2 in turn."""
    rows = [f"2024-10-01 {hour:02}:00,{0.1 + 0.1 * (hour % 2):g}" for hour in range(24)]
    (tmp_path / "prices.csv").write_text("time,price_per_kwh\n" + "\n".join(rows) + "\n")
    return tmp_path


def green(folder, *changes):
    text = GREEN
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_scenario(text, folder / "scenario.toml")


@GREENSLOT
def test_the_parts(folder):
    found = green(folder)
    site = found.parsed_site()
    assert site.grid.unlimited
    assert site.grid.price.rate.values.tolist() == pytest.approx([0.1, 0.2] * 12)
    assert found.site["grid"] == {"price": str(folder / "prices.csv")}
    assert (found.forecast.source, found.deadlines.rule) == ("perfect", "clock:11:00,12:30")
    assert scenario_of(json.loads(json.dumps(plain_values(found)))) == found


@GREENSLOT
def test_a_tariff_becomes_the_same_site(folder):
    rows = "[{ hours = [9, 23], per_kwh = 0.13 }, { hours = [23, 9], per_kwh = 0.08 }]"
    found = green(folder, ('price = "prices.csv"', f"tariff = {rows}"))
    again = parse_site(found.site_text(found.guards[0]))
    assert again.grid.price.rate.per_kwh[3, 8:10].tolist() == [0.08, 0.13]


@GREENSLOT
def test_the_grid_of_a_site_file(folder):
    (folder / "site.toml").write_text(
        "[time]\nwindow_h = 3\nstart = 2024-10-01T09:00:00Z\n"
        '[grid]\nprice = { file = "prices.csv", known = "all" }\n'
    )
    text = GREEN[: GREEN.index("[site]")].replace('name = "small"\n', 'name = "small"\nsite = "site.toml"\n')
    found = parse_scenario(text + "[plan]\nmake = false\n", folder / "scenario.toml")
    assert found.site_files == [str(folder / "prices.csv")]
    assert found.parsed_site().grid.price.known.value == "all"
    with pytest.raises(InputError, match=r"grid: the site also has a section \[grid\]"):
        parse_scenario(text + "[plan]\nmake = false\n[grid]\n", folder / "scenario.toml")


def test_without_them_nothing_changes():
    old = parse_scenario(SMALL)
    assert not {"forecast", "deadlines", "grid"} & plain_values(old).keys()
    assert scenario_hash(old) == "1a77210da6a25fcdedb66931aff9e7ee1f892c8e49559b4e57c66a230583604c"


@GREENSLOT
def test_deadlines_are_those_of_the_sites_clock(folder):
    found = green(folder)
    real = real_workload(found, forecast_workload(found, 0), 1, 0)
    due = set(real.extras["deadline_s"])
    assert {2 * 3600.0, 3.5 * 3600.0} & due
    assert due <= {hour * 3600.0 + day * 86_400.0 for hour in (2, 3.5) for day in range(3)}
    jobs = json.loads(b"".join(real.json_pieces()))["jobs"]
    assert all(job["deadline_s"] >= job["subtime"] + job["walltime"] - 1e-5 for job in jobs)


@pytest.mark.slow
@GREENSLOT
def test_a_campaign(folder):
    found = green(folder)
    outcome = run_campaign(folder / "out", found, parse_scenario(SMALL.replace('"small"', '"plain"')))
    assert outcome.failed == 0
    runs = read_campaign(folder / "out").runs.set_index("run")
    counts = [f"greenslot.{name}" for name in ("rounds", "moved_earlier", "moved_later", "tightened", "late")]
    assert list(runs.reset_index().columns) == [*NAMES[0], *NAMES[1], *NAMES[2], *counts]
    assert (runs.loc[runs.policy == "greenslot", "greenslot.rounds"] > 0).all()
    assert runs.loc[runs.policy != "greenslot", counts].isna().all(axis=None)
    own = runs[runs.scenario == "small"]
    assert (own["import_kwh"] + own["green_kwh"]).tolist() == pytest.approx(
        (own["consumed_kwh"] + 3 * 0.05).tolist(), rel=1e-6
    )
    assert (own["mean_import_price"].dropna().between(0.1, 0.2)).all()
    assert (own["deadline_jobs"] == 30).all()
    lines = [line.split() for line in result_lines(folder / "out")]
    assert not any("rounds" in word for line in lines for word in line)
    assert lines[1][-3:] == ["cost", "share", "due"]
    (shown,) = [line for line in lines if line[0] == "conventional"][:1]
    conventional = own[own.policy == "conventional"].iloc[0]
    assert shown[-3:-1] == [f"{conventional['cost']:.2f}", f"{conventional['green_share']:.2f}"]
    plain = runs[runs.scenario == "plain"]
    assert plain[NAMES[1] + NAMES[2]].isna().all(axis=None)


def test_a_campaign_without_them_has_the_old_columns(tmp_path):
    run_campaign(tmp_path)
    assert list(read_campaign(tmp_path).runs.columns) == NAMES[0]


@GREENSLOT
@pytest.mark.parametrize("source", ["plan", "none", "perfect"])
def test_forecasts(folder, source):
    found = green(folder, ('source = "perfect"', f'source = "{source}"'), ('case = "best"', 'case = "worst"'))
    outcome = run_campaign(folder / "out", found, keep="everything")
    assert outcome.failed == 0
    run = folder / "out" / "runs" / "small.t0.s1.kill-all.greenslot"
    name = {"plan": "forecast.csv", "none": "none", "perfect": "perfect:power.txt"}[source]
    assert json.loads((run / "run_summary.json").read_text())["settings"]["forecast"] == name
    written = {path.name for path in materialize(found, folder / "in", seed=1)}
    assert ("forecast.csv" in written) == (source == "plan")


@GREENSLOT
def test_files_that_have_changed_are_noticed(folder):
    before = scenario_hash(green(folder))
    (folder / "prices.csv").write_text((folder / "prices.csv").read_text().replace(",0.2", ",0.3"))
    assert scenario_hash(green(folder)) != before


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('price = "prices.csv"', 'price = "gone.csv"', "gone.csv: cannot be read"),
        ('price = "prices.csv"', "prices = 3", "grid.prices: no such field"),
        ("2024-10-01T09:00:00+00:00", "2024-10-01T22:00:00+00:00", "site.grid.price: the file covers"),
        ("start = 2024-10-01T09:00:00+00:00\n", "", "requires [time] start"),
        (
            'source = "perfect"',
            'source = "oracle"',
            "forecast.source: found 'oracle', expected one of perfect",
        ),
        (
            'source = "perfect"',
            'source = "predictor"',
            "forecast.file: found None, expected a file for source",
        ),
        ('source = "perfect"', 'source = "perfect"\nfile = "x"', "expected none for source 'perfect'"),
        ('source = "perfect"', 'source = "file"\nfile = "gone.csv"', "gone.csv: cannot be read"),
        ('rule = "clock:11:00,12:30"', 'rule = "soon"', "deadlines.rule: found 'soon', expected factor:3"),
        (
            'rule = "clock:11:00,12:30"',
            'chains = "all"',
            "deadlines.chains: found 'all', expected one of none",
        ),
        ("[deadlines]", "[deadline]", "deadline: no such field"),
    ],
)
def test_what_is_wrong_is_told(folder, old, new, expected):
    with pytest.raises(InputError) as told:
        green(folder, (old, new))
    assert str(told.value).startswith(str(folder / "scenario.toml"))
    assert expected in str(told.value)
