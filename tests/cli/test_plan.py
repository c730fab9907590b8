"""``beasy-sched plan`` from files to files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from beasy_sched.cli import cli
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.plan_file import read_plans, read_season
from beasy_sched.planner.replanner import replanned
from beasy_sched.run.settings import ReplanSettings, RunSettings

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

SITE = """
[battery]
capacity_kwh = 4.0
charge_limit_kw = 2.0
discharge_limit_kw = 2.0
[time]
window_h = 6
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["plan", *map(str, arguments)])


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with platform, workload, production (12 h) and site."""
    runner = CliRunner()
    for arguments in (
        ["platform", "--servers", "taurus:8", "-o", f"{tmp_path}/platform.xml"],
        [
            "workload",
            "--synthetic",
            "--seed",
            "1",
            "--jobs",
            "40",
            "--hosts",
            "8",
            "-o",
            f"{tmp_path}/workload.json",
        ],
    ):
        assert runner.invoke(cli, ["generate", *arguments]).exit_code == 0
    hours = np.arange(144) / 12.0
    powers = 1500.0 * np.maximum(0.0, np.sin(hours / 6.0 * np.pi)) + 300.0
    (tmp_path / "power.txt").write_text("".join(power_event_lines(powers, 300.0)))
    (tmp_path / "site.toml").write_text(SITE)
    return tmp_path


def files(folder: Path, **changes: str) -> list[str]:
    names = {
        "platform": "platform.xml",
        "site": "site.toml",
        "workload": "workload.json",
        "production": "power.txt",
    }
    values = {name: f"{folder}/{file}" for name, file in names.items()}
    chosen = {**values, "output": f"{folder}/plan.msgpack", **changes}
    return [part for name, value in chosen.items() for part in (f"--{name}", value)]


@pytest.mark.slow
def test_two_windows_and_every_output(inputs: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    outputs = [
        "--export-json",
        f"{inputs}/p.json",
        "--export-csv",
        f"{inputs}/p.csv",
        "--figure",
        f"{inputs}/p.png",
    ]
    result = run(*files(inputs), "--windows", "2", *outputs)
    assert result.exit_code == 0, result.output
    for text in (
        "window 0",
        "window 1",
        "relax factor rf",
        "from solar and wind",
        "servers on, mean",
        "power  ",
    ):
        assert text in result.output
    plans = read_plans(inputs / "plan.msgpack")
    assert [plan.steps for plan in plans] == [72, 72]
    assert set(plans[0].provenance.inputs) == {"platform", "site", "production", "workload 0"}
    assert len((inputs / "p.csv").read_text().splitlines()) == 145
    assert len(json.loads((inputs / "p.json").read_text())["windows"]) == 2
    assert (inputs / "p.png").read_bytes().startswith(b"\x89PNG")
    shown = run("show", inputs / "plan.msgpack")
    assert shown.exit_code == 0
    assert "servers on, mean" in shown.output
    assert shown.output in result.output


def test_same_files_same_plan(inputs: Path) -> None:
    assert run(*files(inputs), "-q").exit_code == 0
    first = (inputs / "plan.msgpack").read_bytes()
    assert run(*files(inputs), "-q").output == ""
    assert (inputs / "plan.msgpack").read_bytes() == first


@pytest.mark.slow
def test_the_site_that_comes_with_the_package(inputs: Path) -> None:
    """Named or left out, it gives the same plan."""
    (inputs / "power.txt").write_text("".join(power_event_lines(np.full(864, 900.0), 300.0)))
    named = files(inputs, site="default")
    assert run(*named, "-q").exit_code == 0
    first = (inputs / "plan.msgpack").read_bytes()
    at = named.index("--site")
    assert run(*named[:at], *named[at + 2 :], "-q").exit_code == 0
    assert (inputs / "plan.msgpack").read_bytes() == first


def test_demand_from_a_file(inputs: Path) -> None:
    (inputs / "demand.csv").write_text("demand_kw\n" + "0.5\n" * 72)
    arguments = files(inputs)
    at = arguments.index("--workload")
    arguments[at : at + 2] = ["--demand", f"{inputs}/demand.csv"]
    assert run(*arguments).exit_code == 0
    np.testing.assert_allclose(read_plans(inputs / "plan.msgpack")[0].power.load_w, 500.0)


def test_demand_with_quantiles_from_a_file(inputs: Path) -> None:
    """The plan is that for the median; it keeps the quantiles, and exports their bounds."""
    (inputs / "median.csv").write_text("demand_kw\n" + "0.5\n" * 72)
    (inputs / "demand.csv").write_text("p10,p50,p90\n" + "0.25,0.5,1\n" * 72)
    arguments = files(inputs)
    at = arguments.index("--workload")
    del arguments[at : at + 2]
    assert run(*arguments, "--demand", f"{inputs}/median.csv", "-q").exit_code == 0
    median = read_plans(inputs / "plan.msgpack")[0]
    more = ("--unit", "kW", "--export-csv", f"{inputs}/p.csv")
    assert run(*arguments, "--demand", f"{inputs}/demand.csv", *more).exit_code == 0
    plan = read_plans(inputs / "plan.msgpack")[0]
    np.testing.assert_array_equal(plan.power.battery_j, median.power.battery_j)
    bounds_w = [plan.demand.low_w[0], plan.demand.value_w[0], plan.demand.high_w[0]]
    assert bounds_w == pytest.approx([250.0, 500.0, 1000.0])
    assert median.demand.low_w[0] == pytest.approx(475.0)
    assert "load_low_w,load_high_w" in (inputs / "p.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, ["--windows", "3"], "covers 12 h, the plan needs 18 h"),
        ({"platform": "none.xml"}, [], "none.xml"),
        ({}, ["--demand", "x.csv"], "give one of --workload and --demand"),
        ({}, ["--time-limit", "0"], "the time limit ended the search before a plan was found"),
    ],
)
def test_refusals(inputs: Path, changes: dict[str, str], more: list[str], message: str) -> None:
    result = run(*files(inputs, **changes), *more)
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)
    assert not (inputs / "plan.msgpack").exists()


def test_nothing_given() -> None:
    assert "plan requires --platform and --production and --output" in str(run().exception)


def test_show_something_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    assert "is not a beasy-sched plan" in str(run("show", tmp_path / "x").exception)


def test_a_platform_of_an_older_version_is_read_with_a_warning(inputs: Path) -> None:
    text = (inputs / "platform.xml").read_text()
    master = '<host id="master_host" coordinates="0 0 0" speed="1000000000f">'
    assert master in text
    (inputs / "old.xml").write_text(text.replace(master, master + '<prop id="role" value="master"/>'))
    old = run(*files(inputs, platform=f"{inputs}/old.xml"), "--windows", "2", "-q")
    assert old.exit_code == 0, old.output
    assert old.stderr.count("warning: host 'master_host' has the property role=master") == 1
    new = run(*files(inputs), "--windows", "2", "-q")
    assert (new.exit_code, new.stderr) == (0, "")


# --- the production from a forecast ---


def forecast_plan(folder: Path, source: str, *more: str) -> Result:
    """Plan with this forecast instead of a production."""
    arguments = files(folder)
    at = arguments.index("--production")
    return run(*arguments[:at], *arguments[at + 2 :], "--production-forecast", source, *more)


def test_a_perfect_forecast_plans_as_the_production_itself(inputs: Path) -> None:
    assert run(*files(inputs), "-q").exit_code == 0
    first = read_plans(inputs / "plan.msgpack")[0]
    assert forecast_plan(inputs, f"perfect:{inputs}/power.txt", "-q").exit_code == 0
    second = read_plans(inputs / "plan.msgpack")[0]
    np.testing.assert_array_equal(first.power.renew_w, second.power.renew_w)
    np.testing.assert_array_equal(first.power.envelope_w, second.power.envelope_w)
    own = {"platform", "site", "production forecast 0", "workload 0"}
    assert set(second.provenance.inputs) == own


def test_a_forecast_file_as_it_stands_at_time_0(inputs: Path) -> None:
    rows = [f"0,{hour * 3600},{1000 + hour}" for hour in range(6)] + ["3600,7200,9"]
    (inputs / "f.csv").write_text("issued,valid,W\n" + "\n".join(rows) + "\n")
    assert forecast_plan(inputs, f"{inputs}/f.csv").exit_code == 0
    renew_w = read_plans(inputs / "plan.msgpack")[0].power.renew_w
    np.testing.assert_allclose(renew_w, np.repeat([1000.0 + hour for hour in range(6)], 12))


def test_a_predictor_plans_a_sunny_day(inputs: Path) -> None:
    hours = np.arange(24 * 40)
    sun_w = np.maximum(np.sin(np.pi * (hours % 24 - 6) / 12), 0.0) * 2000.0
    days = np.datetime64("2019-06-01T00:00") + hours.astype("timedelta64[h]")
    rows = [f"{str(day).replace('T', ' ')},{power:.3f},0.0" for day, power in zip(days, sun_w, strict=True)]
    (inputs / "past.csv").write_text("time,production_w,cloud_cover\n" + "\n".join(rows) + "\n")
    (inputs / "p.toml").write_text('training = "past.csv"\n')
    (inputs / "site.toml").write_text(SITE + 'start = "2019-06-30T09:00:00+00:00"\n')
    for source in (f"predictor:{inputs}/past.csv", f"predictor:{inputs}/p.toml"):
        result = forecast_plan(inputs, source)
        assert result.exit_code == 0, result.output
        renew_w = read_plans(inputs / "plan.msgpack")[0].power.renew_w
        np.testing.assert_allclose(renew_w, np.repeat(sun_w[9:15], 12), atol=0.01)
    found = read_plans(inputs / "plan.msgpack")[0].provenance.inputs
    assert {"production forecast 0", "production forecast 1"} < set(found)


def test_a_forecast_without_production_is_warned_of(inputs: Path) -> None:
    (inputs / "f.csv").write_text("issued,valid,W\n3600,3600,10\n3600,7200,10\n")
    (inputs / "site.toml").write_text(SITE.replace("[time]", "soc_target_pct = 20.0\n[time]"))
    result = forecast_plan(inputs, f"{inputs}/f.csv")
    assert result.exit_code == 0
    assert "the forecast has no production as issued at time 0" in result.stderr
    assert "warning: the forecast" not in forecast_plan(inputs, "none").stderr


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), "give only one of --production and --production-forecast"),
        (("--production-forecast", "perfect"), "give only one of --production"),
    ],
)
def test_production_and_forecast_together(inputs: Path, more: tuple[str, ...], expected: str) -> None:
    result = run(*files(inputs), "--production-forecast", f"{inputs}/f.csv", *more)
    assert isinstance(result.exception, ConfigError)
    assert expected in str(result.exception)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("perfect", "forecast 'perfect': names no file"),
        ("predictor:power.txt", "requires [time] start"),
        ("gone.csv", "gone.csv: cannot be read"),
    ],
)
def test_forecasts_that_cannot_be_had(inputs: Path, source: str, expected: str) -> None:
    result = forecast_plan(inputs, source)
    assert isinstance(result.exception, ConfigError | InputError)
    assert expected in str(result.exception)


class TestSeason:
    """The coarse plan of the horizon: two windows of six hours, with a tank."""

    @pytest.fixture
    def site(self, inputs: Path) -> Path:
        hydrogen = "[hydrogen]\ntank_kg = 1.0\nlevel_start_kg = 0.2\nlevel_target_kg = 0.2\n"
        hydrogen += "electrolyzer_max_kw = 1.0\nfuel_cell_max_kw = 0.5\n"
        text = SITE + hydrogen + '[guard]\nmode = "shed"\n'
        dated = text.replace("window_h = 6", 'window_h = 6\nstart = "2019-07-31T18:00:00+02:00"')
        (inputs / "site.toml").write_text(dated)
        return inputs

    def made(self, site: Path, *more: str) -> Path:
        result = run(*files(site, output=f"{site}/season.msgpack"), "--season", *more)
        assert result.exit_code == 0, result.output + str(result.exception)
        return site / "season.msgpack"

    @pytest.mark.plugins("reports")
    def test_the_horizon_is_planned_and_its_windows_take_their_targets(self, site: Path) -> None:
        pytest.importorskip("matplotlib", reason="figures need matplotlib")
        more = (
            "--figure",
            f"{site}/s.png",
            "--export-csv",
            f"{site}/s.csv",
            "--export-json",
            f"{site}/s.json",
        )
        season = read_season(self.made(site, *more))
        assert (season.steps, season.step_s, len(season.targets_kg)) == (12, 3600.0, 2)
        assert season.provenance.settings["start"] == "2019-07-31T18:00:00+02:00"
        assert set(season.provenance.inputs) == {"platform", "site", "production", "workload 0"}
        assert (site / "s.png").read_bytes().startswith(b"\x89PNG")
        assert len((site / "s.csv").read_text().splitlines()) == 13
        assert json.loads((site / "s.json").read_text())["targets_kg"] == list(season.targets_kg)
        result = run(*files(site), "--season", season_file := f"{site}/season.msgpack", "--windows", "2")
        assert result.exit_code == 0, result.output + str(result.exception)
        plans = read_plans(site / "plan.msgpack")
        specs = [plan.storage.hydrogen for plan in plans]
        assert [spec.level_target_kg for spec in specs if spec] == list(season.targets_kg)
        told = plans[0].provenance.settings["tank_targets_kg"]
        assert tuple(map(float, told.split())) == season.targets_kg
        assert "season" in plans[0].provenance.inputs
        shown = run("show", season_file).output
        assert shown.splitlines()[2].startswith("2019-07")
        assert shown.splitlines()[3].startswith("2019-08")
        assert max(map(len, shown.splitlines())) <= 80

    def test_same_files_same_season(self, site: Path) -> None:
        first = self.made(site, "-q").read_bytes()
        assert self.made(site, "-q").read_bytes() == first

    def test_steps_and_years(self, site: Path) -> None:
        (site / "poor.txt").write_text("".join(power_event_lines(np.full(144, 100.0), 300.0)))
        more = ("--season-step", "3h", "--other-year", f"{site}/poor.txt", "--season-end", "0.1")
        season = read_season(self.made(site, *more))
        assert (season.steps, len(season.years)) == (4, 2)
        assert season.years[1].renew_w == pytest.approx(100.0)
        assert "other year 0" in season.provenance.inputs

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--season", "--windows", "3"], "covers 12 h, the plan needs 18 h"),
            (["--season", "--windows", "1"], "at least two windows of 6 h"),
            (["--season", "--season-step", "4h"], "--season-step 4 h: the site's windows of 6 h must be"),
            (["--season", "--season-step", "0"], "must be a whole number of such steps"),
            (["--season", "--season-end", "0.99"], "the tank cannot reach 0.99 kg"),
            (["--season", "none.msgpack"], "no such file; to create it, give --season without a file"),
            (["--season-end", "1"], "--other-year and --season-end require --season without a file"),
        ],
    )
    def test_refusals(self, site: Path, more: list[str], message: str) -> None:
        result = run(*files(site), *more)
        assert result.exit_code != 0
        assert message in result.output + str(result.exception)
        assert not (site / "plan.msgpack").exists()

    def test_a_site_without_hydrogen(self, inputs: Path) -> None:
        assert "so a seasonal plan is not possible" in str(run(*files(inputs), "--season").exception)

    def test_more_windows_than_the_season(self, site: Path) -> None:
        season = self.made(site, "-q")
        (site / "power.txt").write_text("".join(power_event_lines(np.full(216, 900.0), 300.0)))
        result = run(*files(site), "--season", season, "--windows", "3")
        assert "the season covers 2 windows, the plan has 3" in str(result.exception)

    def test_another_tank(self, site: Path) -> None:
        season = self.made(site, "-q")
        text = (site / "site.toml").read_text()
        (site / "site.toml").write_text(text.replace("tank_kg = 1.0", "tank_kg = 3.0"))
        result = run(*files(site), "--season", season)
        assert "planned for a tank of 1 kg, the site has a tank of 3 kg" in str(result.exception)

    def test_a_forecast_requires_the_length(self, site: Path) -> None:
        arguments = files(site)
        at = arguments.index("--production")
        arguments[at : at + 2] = ["--production-forecast", f"perfect:{site}/power.txt"]
        assert "give --windows" in str(run(*arguments, "--season").exception)
        assert run(*arguments, "--season", "--windows", "2", "-q").exit_code == 0

    def test_plans_made_during_a_run_keep_the_targets(self, site: Path) -> None:
        """With --replan and --plan: what the plan file has from the season."""
        season = read_season(self.made(site, "-q"))
        arguments = ["--season", str(site / "season.msgpack"), "--windows", "2", "-q"]
        assert run(*files(site), *arguments).exit_code == 0
        settings = RunSettings(
            policy="easy",
            options={},
            site=(site / "site.toml").read_text(),
            site_name="site.toml",
            plan=f"{site}/plan.msgpack",
            windows=2,
            replan=ReplanSettings("window"),
        )
        with replanned(settings, lambda: None) as replanner:
            assert replanner.rule is not None
            assert replanner.rule.options.tank_targets_kg == season.targets_kg
