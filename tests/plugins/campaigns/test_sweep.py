"""Sweeps: scenarios of other sizes, in one campaign."""

from __future__ import annotations

import re

import pytest
from command_line import exit_code
from small_campaign import SMALL, run_campaign, scenario

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.plugins.campaigns import campaign as campaign_module
from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.campaign import begin
from beasy_sched.plugins.campaigns.campaign_table import read_campaign, result_lines
from beasy_sched.plugins.campaigns.folder import plain_values, scenario_hash
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario, scenario_of
from beasy_sched.plugins.campaigns.status import status_lines, status_of
from beasy_sched.plugins.campaigns.sweep import at_point, expand, points_of

SWEPT = (
    SMALL.replace('["easy", "follow-plan", "workload-reactive"]', '["easy"]')
    + """
[[guards]]
mode = "shed"
veto = true

[plan]
make = false

[sweep]
battery_kwh = [1, 2, 4]
pv_kw = [1, 2.5]
"""
)
SIZES = "battery_kwh = [1, 2, 4]\npv_kw = [1, 2.5]\n"
HYDROGEN = """
[site.hydrogen]
tank_kg = 10
level_start_kg = 5
level_target_kg = 4
electrolyzer_min_kw = 1
electrolyzer_max_kw = 5
fuel_cell_max_kw = 3
"""


def swept(*changes: tuple[str, str]):
    text = SWEPT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_scenario(text)


def test_a_point_is_the_scenario_with_these_sizes_written_in():
    small = scenario(
        ("capacity_kwh = 2.0", "capacity_kwh = 4.0"),
        (
            "charge_limit_kw = 0.5\ndischarge_limit_kw = 1.0",
            "charge_limit_kw = 1.0\ndischarge_limit_kw = 2.0",
        ),
        ("pv_kw = 1", "pv_kw = 2.5"),
    )
    found = at_point(scenario(), (("battery_kwh", 4.0), ("pv_kw", 2.5)))
    assert found == small
    assert scenario_hash(found) == scenario_hash(small)


def test_what_belongs_to_a_size_changes_with_it():
    base = parse_scenario(SMALL + HYDROGEN)
    hydrogen = at_point(base, (("tank_kg", 20), ("electrolyzer_max_kw", 10), ("fuel_cell_max_kw", 1)))
    assert hydrogen.site["hydrogen"] == {
        "tank_kg": 20, "level_start_kg": 10, "level_target_kg": 8,
        "electrolyzer_min_kw": 2, "electrolyzer_max_kw": 10, "fuel_cell_max_kw": 1,
    }  # fmt: skip
    assert "hydrogen" not in at_point(base, (("tank_kg", 0),)).site
    assert "battery" not in at_point(base, (("battery_kwh", 0),)).site
    assert at_point(base, (("base_kw", 0.5),)).parsed_site().base_w == 500
    assert at_point(base, (("servers", 7),)).platform.servers == {"gros": 7}
    mixed = scenario(("{ gros = 4 }", "{ gros = 4, taurus = 2 }"))
    assert at_point(mixed, (("servers", 4),)).platform.servers == {"gros": 3, "taurus": 1}
    with pytest.raises(ConfigError, match="of 1 servers, none would be 'taurus'"):
        at_point(mixed, (("servers", 1),))


def test_every_axis_finds_what_it_has_changed():
    base = parse_scenario(SMALL + HYDROGEN + "[grid]\nimport_limit_kw = 2\n")
    for name, axis in AXES.items():
        assert axis.found(at_point(base, ((name, 3.0),))) == 3.0
        assert axis.found(base) == axis.found(at_point(base, ((name, axis.found(base)),)))
        if name not in ("target_band_pct", "end_value_per_kwh"):  # 0 is shown in results, none is not
            assert at_point(base, ((name, axis.found(base)),)).parsed_site() == base.parsed_site()


def test_points_and_runs():
    found = swept()
    assert scenario_of(plain_values(found)) == found
    runs = expand([found])
    assert len(runs) == 2 * 6
    assert [run.key for run in runs[:3]] == [
        "small.t0.s1.battery_kwh-1.pv_kw-1.shed+veto.easy",
        "small.t0.s1.battery_kwh-1.pv_kw-2.5.shed+veto.easy",
        "small.t0.s1.battery_kwh-2.pv_kw-1.shed+veto.easy",
    ]
    assert len({run.key for run in runs}) == len(runs)
    assert [*points_of(scenario())] == [()]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pv_kw = [1, 2.5]", "moon_kw = [1]", "sweep.moon_kw: no such axis, expected one of pv_kw, wind_kw,"),
        ("[1, 2.5]", "[]", "sweep.pv_kw: found [], expected at least one value"),
        ("[1, 2.5]", "[1, 1]", "sweep.pv_kw[1]: found 1.0, expected each value only once"),
        ("[1, 2.5]", "[-1]", "sweep.pv_kw[0]: found -1.0, expected a number from 0"),
        ("[1, 2.5]", '["x"]', "sweep.pv_kw[0]: found 'x', expected a number"),
        (
            "pv_kw = [1, 2.5]",
            "servers = [2.5]",
            "sweep.servers[0]: found 2.5, expected an integer from 1",
        ),
        ("pv_kw = [1, 2.5]", "tank_kg = [1]", "sweep, at battery_kwh-1.tank_kg-1: tank_kg: the site has no"),
        ("[1, 2.5]", f"{[*range(5000)]}", "sweep: found 15000, expected at most 10,000 combinations"),
    ],
)
def test_what_is_wrong_is_told(old, new, message):
    with pytest.raises(InputError, match=re.escape(f"scenario.toml: {message}")):
        swept((old, new))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A sweep that is complete, and how often each input was made."""
    made = dict.fromkeys(("forecast_workload", "forecast_production", "make_real_workload"), 0)
    with pytest.MonkeyPatch.context() as patch:
        for name in made:
            original = getattr(campaign_module, name)

            def counted(*args, name=name, original=original):
                made[name] += 1
                return original(*args)

            patch.setattr(campaign_module, name, counted)
        folder = tmp_path_factory.mktemp("sweep") / "out"
        assert run_campaign(folder, swept()).failed == 0
    return folder, made


def test_the_table_has_a_column_for_each_axis(done):
    runs = read_campaign(done[0]).runs
    assert len(runs) == 12
    assert runs.groupby(["battery_kwh", "pv_kw"]).size().to_dict() == {
        (battery, sun): 2 for battery in (1.0, 2.0, 4.0) for sun in (1.0, 2.5)
    }
    alone = read_campaign(done[0]).specs[0].scenario
    assert runs.scenario_sha256[0] == scenario_hash(alone)
    assert runs.site_sha256.nunique() == 3
    assert (runs.groupby(["seed", "pv_kw"]).power_sha256.nunique() == 1).all()
    assert runs.groupby("pv_kw").production_kwh.mean().is_monotonic_increasing


def test_what_no_axis_touches_is_made_once(done):
    assert done[1] == {"forecast_workload": 1, "forecast_production": 2, "make_real_workload": 2}


def test_a_point_runs_as_a_campaign_of_its_own(done, tmp_path):
    whole = read_campaign(done[0]).runs.set_index(["battery_kwh", "pv_kw", "seed"])
    own = swept(
        ("battery_kwh = [1, 2, 4]\npv_kw = [1, 2.5]", "battery_kwh = [4]"), ("pv_kw = 1", "pv_kw = 2.5")
    )
    run_campaign(tmp_path / "out", own)
    alone = read_campaign(tmp_path / "out").runs.set_index("seed")
    for seed in (1, 2):
        assert alone.finished_pct[seed] == whole.finished_pct[(4.0, 2.5, seed)]
        assert alone.soc_final_pct[seed] == whole.soc_final_pct[(4.0, 2.5, seed)]


def test_it_is_told_by_point(done):
    lines = [*result_lines(done[0])]
    assert "small, pv_kw 2.5, battery_kwh 1, guard shed with veto:" in lines
    assert max(map(len, lines)) <= 80
    assert "  small: 12 of 12" in [*status_lines(status_of(done[0]))]


def test_beside_a_scenario_that_sweeps_nothing(tmp_path):
    one_seed = ("seeds = [1, 2]", "seeds = [1]")
    one = swept(one_seed, (SIZES, "battery_kwh = [1]\n"))
    other = swept(one_seed, (f"[sweep]\n{SIZES}", ""), ('"small"', '"plain"'))
    run_campaign(tmp_path / "out", one, other)
    runs = read_campaign(tmp_path / "out").runs
    assert runs.battery_kwh.isna().tolist() == [False, True]
    assert "plain, guard shed with veto:" in [*result_lines(tmp_path / "out")]


@pytest.mark.slow
def test_its_pictures(done, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "map.svg"
    assert exit_code("campaign", "figure", str(done[0]), "--measure", "curtailed_kwh", "-o", str(out)) == 0
    assert out.read_text().startswith("<?xml")
    page = tmp_path / "sweep.html"
    assert exit_code("report", str(done[0]), "-o", str(page), "-q") == 0
    assert "easy, battery_kwh 4, pv_kw 2.5" in page.read_text()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "beasy"], "--policy: found 'beasy', expected one of easy"),
        (["--guard", "x"], "--guard: found 'x', expected one of shed+veto"),
        (["--scenario", "x"], "--scenario: found 'x', expected one of small"),
        (["--measure", "policy"], "--measure: found 'policy', expected a column of numbers"),
    ],
)
def test_what_cannot_be_drawn_is_told(arguments, message, done, tmp_path, capsys):
    out = tmp_path / "map.png"
    assert exit_code("campaign", "figure", str(done[0]), *arguments, "-o", str(out)) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_without_a_sweep_there_is_no_picture(tmp_path, capsys):
    begin([scenario()], tmp_path / "out")
    assert exit_code("campaign", "figure", str(tmp_path / "out"), "-o", str(tmp_path / "map.png")) == 2
    assert "no scenario of this campaign has a section [sweep]" in capsys.readouterr().err
