"""What runs read: forecasts, what really comes, and plans."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from command_line import exit_code
from small_campaign import SMALL, run_campaign, scenario

from beasy_sched.errors import InputError
from beasy_sched.formats.plan_file import read_plans, read_season
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.run_inputs import (
    execution_seed,
    forecast_production,
    forecast_workload,
    make_forecast,
    make_plan,
    make_real,
    materialize,
    read_back,
    real_production_w,
    real_workload,
    times_demand_w,
)
from beasy_sched.plugins.campaigns.scenario import quick
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.sweep import at_point

FOR_BATSIM = {"platform.xml", "workload.json", "power.txt", "site.toml", "plan.msgpack"}


def test_noise_seeds_are_distinct_and_stay_the_same():
    seeds = {execution_seed(seed, number) for seed in range(20) for number in range(20)}
    assert len(seeds) == 400
    assert execution_seed(1, 0) == 11878005971903493554


def test_cases_share_their_jobs_and_differ_in_their_power():
    best, worst = scenario(), scenario(('case = "best"', 'case = "worst"'))
    forecast_w = forecast_production(best, 0).total_w
    jobs = [b"".join(real_workload(s, forecast_workload(s, 0), 1, 0).json_pieces()) for s in (best, worst)]
    assert jobs[0] == jobs[1]
    high_w, low_w = (real_production_w(s, forecast_production(s, 0).total_w, 1, 0) for s in (best, worst))
    sunny = forecast_w > 0
    assert sunny.any()
    assert np.all(low_w[sunny] < forecast_w[sunny])
    assert np.all(high_w[sunny] > forecast_w[sunny])


def test_the_shape_is_stretched_over_the_window():
    found = scenario(("window_h = 3", "window_h = 6"), ("jobs = 30", "jobs = 100"))
    submit_s = forecast_workload(found, 0).submit_s
    counts, _ = np.histogram(submit_s, bins=3, range=(0, 6 * 3600))
    assert counts.tolist() == [75, 17, 8]


def test_a_trace_and_weather_files(tmp_path):
    rows = [f"{n} {n * 60} 0 {60 + n} 2 -1 -1 2 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 400)]
    (tmp_path / "trace.swf").write_text("\n".join(rows))
    sky = [
        "generate",
        "power",
        "--synthetic",
        "--pv-kw",
        "1",
        "--days",
        "2",
        "-q",
        "-o",
        str(tmp_path / "own"),
    ]
    assert exit_code(*sky, "--write-ninja", str(tmp_path / "ninja")) == 0
    text = SMALL.replace("[workload]", "[[tuples]]\n[workload]")
    changes = (
        '[[tuples]]\nworkload = { source = "swf", file = "trace.swf", from = "1h", cores_per_host = 2 }\n'
        'production = { source = "files", pv = "ninja_pv.csv", pv_kw = 2, start = "2024-10-01 10:00", '
        'case = "exact" }\n'
    )
    found = parse_scenario(text + changes, tmp_path / "scenario.toml")
    jobs = forecast_workload(found, 1)
    assert (jobs.size, jobs.submit_s[0], set(jobs.hosts.tolist())) == (180, 0.0, {1})
    power_w = forecast_production(found, 1).total_w
    assert power_w.shape == (36,)
    assert 0 < power_w.max() <= 2000
    np.testing.assert_array_equal(real_production_w(found, power_w, 1, 1), power_w)


def test_the_files_of_an_execution_are_those_of_the_campaigns_run(tmp_path):
    run_campaign(tmp_path / "campaign")
    kept = {path.read_bytes() for path in (tmp_path / "campaign" / "inputs").iterdir()}
    files = {path.name: path.read_bytes() for path in materialize(scenario(), tmp_path / "in", seed=2)}
    assert all(files[name] in kept for name in FOR_BATSIM)
    assert files.keys() == FOR_BATSIM | {"forecast_workload.json", "forecast_power.txt"}


def test_power_files_tell_the_suns_part(tmp_path):
    both = scenario(("pv_kw = 1\n", "pv_kw = 1\nwind_kw = 0.5\n"))
    for name, found in (("sun", scenario()), ("both", both)):
        materialize(found, tmp_path / name, seed=1)
        for file in ("power.txt", "forecast_power.txt"):
            events = [json.loads(line) for line in (tmp_path / name / file).read_text().splitlines()]
            sun_w, power_w = (np.array([e[k] for e in events]) for k in ("sun_available", "power_available"))
            assert sun_w.max() > 0.0
            assert (sun_w <= power_w).all()
            assert (sun_w < power_w).any() == (name == "both")


def test_the_plan_is_that_of_the_command(tmp_path):
    materialize(scenario(), tmp_path, seed=1)
    arguments = ["-p", "platform.xml", "-w", "forecast_workload.json", "--production", "forecast_power.txt"]
    arguments += ["--site", "site.toml", "-o", "own.msgpack"]
    paths = [argument if argument[0] == "-" else str(tmp_path / argument) for argument in arguments]
    assert exit_code("plan", *paths, "-q") == 0
    ours, own = (read_plans(tmp_path / name)[0] for name in ("plan.msgpack", "own.msgpack"))
    np.testing.assert_array_equal(ours.power.envelope_w, own.power.envelope_w)
    np.testing.assert_array_equal(ours.servers.states, own.servers.states)
    np.testing.assert_array_equal(ours.renew_uncertainty, own.renew_uncertainty)


def test_an_execution_runs_by_hand(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(SMALL)
    folder = tmp_path / "in"
    assert exit_code("generate", "scenario", str(tmp_path / "mine.toml"), "--inputs", str(folder)) == 0
    assert f"wrote {folder / 'plan.msgpack'}" in capsys.readouterr().err
    files = ["-p", folder / "platform.xml", "-w", folder / "workload.json", "--events", folder / "power.txt"]
    files += [
        "--site",
        folder / "site.toml",
        "--plan",
        folder / "plan.msgpack",
        "-e",
        tmp_path / "out" / "run",
    ]
    assert exit_code("simulate", *map(str, files), "--policy", "easy", "-q") == 0
    summary = json.loads((tmp_path / "out" / "run_summary.json").read_text())
    campaign = run_campaign(tmp_path / "campaign")
    row = read_campaign(campaign.folder).runs.set_index("run").loc["small.t0.s1.kill-all.easy"]
    assert row.consumed_kwh == summary["energy_kwh"]["consumed"] > 0
    assert row.soc_final_pct == summary["site"]["soc_final_pct"]
    assert row.jobs_submitted == summary["jobs"]["submitted"] == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["average"], "Nothing to do: give the scenario file"),
        (["averag", "-o", "-"], "unknown scenario 'averag'"),
        (["averag", "--inputs", "x"], "'averag' is neither a file nor a scenario"),
        (["average", "-o", "x", "--seed", "3"], "--seed and --tuple select an execution"),
        (["average", "-o", "x", "--tuple", "3"], "--seed and --tuple select an execution"),
        (["average", "--inputs", "x", "--tuple", "10"], "tuple: found 10, expected 0 to 9"),
    ],
)
def test_generate_scenario_says_what_is_wrong(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code("generate", "scenario", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_scenario_file_to_begin_with(tmp_path, capsys):
    assert exit_code("generate", "scenario", "worst-end", "-o", "-") == 0
    found = parse_scenario(capsys.readouterr().out)
    assert (found.name, found.tuples[0].workload.shape) == ("worst-end", "end")


def test_two_windows(tmp_path):
    two = scenario(('name = "small"', 'name = "small"\nwindows = 2'), ("[1, 2]", "[1]"))
    assert forecast_production(two, 0).total_w.shape == (72,)
    assert forecast_workload(two, 0).window_s == 2 * 3 * 3600
    run_campaign(tmp_path, two)
    runs = read_campaign(tmp_path).runs
    assert (runs.status == "ok").all()
    assert (runs.end_s > 6 * 3600 - 1).all()


def test_jobs_that_were_not_forecast():
    """Plan and forecast are made from [workload], what comes from [real_workload]."""
    other = '[real_workload]\nsource = "synthetic"\nseed = 7\njobs = 90\nrun_median_s = 100\n'
    plain, surprised = scenario(), scenario(("[production]", f"{other}\n[production]"))
    forecasts = [make_forecast(each, 0) for each in (plain, surprised)]
    assert forecasts[0].plan == forecasts[1].plan
    real = [
        json.loads(make_real(each, forecast, 0, 1).workload)
        for each, forecast in zip((plain, surprised), forecasts, strict=True)
    ]
    assert [len(jobs["jobs"]) for jobs in real] == [30, 90]
    small = quick(surprised)
    assert small.tuples[0].real_workload.jobs == 90  # three hours are short enough already
    assert parse_scenario(SMALL).tuples[0].real_workload is None


def test_production_may_leave_its_band():
    wide = scenario(("[production]", "[noise]\nproduction_band = 2\n\n[production]"))
    forecast_w = forecast_production(wide, 0).total_w
    ours, theirs = (real_production_w(each, forecast_w, 1, 0) for each in (wide, scenario()))
    np.testing.assert_allclose(ours - forecast_w, 2.0 * (theirs - forecast_w))
    assert (theirs > forecast_w).any()
    worst = scenario(
        ("[production]", "[noise]\nproduction_band = 100\n\n[production]"), ('"best"', '"worst"')
    )
    assert real_production_w(worst, forecast_w, 1, 0).max() == 0.0


def test_a_demand_that_is_overestimated():
    """Only the part above that of sleeping servers: 4.5 W each."""
    high = scenario(("[production]", "[plan]\ndemand_factor = 1.3\n\n[production]"))
    site, tasks = high.parsed_site(), [make_forecast(each, 0).plan for each in (high, scenario())]
    assert tasks[0].recipe != tasks[1].recipe
    files = tasks[0].platform, tasks[0].workload, tasks[0].production
    servers, demand_w, _ = read_back(site, 1, *files)
    scaled_w = times_demand_w(servers, demand_w, 1.3)
    np.testing.assert_allclose(scaled_w - 18.0, 1.3 * (demand_w - 18.0), atol=1e-9)
    assert times_demand_w(servers, demand_w, 1.0) is demand_w


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("[noise]\nproduction_band = -1", "noise.production_band: found -1.0, expected 0 to 100"),
        ("[plan]\ndemand_factor = inf", "plan.demand_factor: found inf, expected a number"),
        ('[real_workload]\nsource = "swf"\nfile = "no.swf"', "real_workload.file: found"),
        ("[[tuples]]\nweather = {}", "expected workload, production or real_workload"),
    ],
)
def test_mistakes_in_what_really_comes(section, told):
    with pytest.raises(InputError, match=re.escape(told)):
        scenario(("[production]", f"{section}\n\n[production]"))


WET = """
[site.hydrogen]
tank_kg = 0.2
level_start_kg = 0.02
level_target_kg = 0.02
electrolyzer_min_kw = 0.05
electrolyzer_max_kw = 1.0
fuel_cell_max_kw = 0.3
"""


def seasonal(plan: str):
    text = SMALL.replace('name = "small"', 'name = "small"\nwindows = 3').replace("pv_kw = 1", "pv_kw = 2")
    return parse_scenario(f"{text}{WET}\n[plan]\n{plan}\n")


def test_a_coarse_plan_gives_the_hydrogen_targets(tmp_path):
    found = seasonal('season = "30m"')
    materialize(found, tmp_path, seed=1)
    arguments = ["-p", "platform.xml", "-w", "forecast_workload.json", "--production", "forecast_power.txt"]
    arguments += ["--site", "site.toml", "-o", "season.msgpack"]
    paths = [argument if argument[0] == "-" else str(tmp_path / argument) for argument in arguments]
    assert exit_code("plan", *paths, "-q", "--season", "--season-step", "30m") == 0
    targets_kg = read_season(tmp_path / "season.msgpack").targets_kg
    assert len(targets_kg) == 3
    assert max(targets_kg) > 0.03
    storages = [plan.storage.hydrogen for plan in read_plans(tmp_path / "plan.msgpack")]
    assert [spec.level_target_kg for spec in storages if spec] == pytest.approx(targets_kg)


@pytest.mark.slow
def test_plans_made_during_the_runs_keep_its_targets(tmp_path):
    """Beyond the two windows that are planned before the run, too."""
    found = seasonal('season = "30m"\nreplan = "window"')
    run_campaign(tmp_path, found, keep="everything")
    runs = read_campaign(tmp_path).runs
    assert set(runs["status"]) == {"ok"}, list(runs["error"])
    ahead = make_plan(make_forecast(seasonal('season = "30m"'), 0).plan)
    (tmp_path / "ahead.msgpack").write_bytes(ahead)
    expected = [plan.storage.hydrogen for plan in read_plans(tmp_path / "ahead.msgpack")]
    for file in tmp_path.rglob("run_plan.msgpack"):
        kept = [plan.storage.hydrogen for plan in read_plans(file)]
        assert kept == expected, file
    assert len([*tmp_path.rglob("run_plans/0001.msgpack")]) == len(runs)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ('season = "soon"', "plan.season: "),
        ('season = "50m"', "plan.season: 50 min: the site's windows of 3 h must be a whole number"),
        ('season = "1h"\nmake = false', "plan.season: found '1h', expected no value if plan.make is false"),
    ],
)
def test_a_season_that_cannot_be(plan, message):
    with pytest.raises(InputError) as caught:
        seasonal(plan)
    assert message in str(caught.value)


def test_a_season_needs_hydrogen_and_windows():
    for text, message in (
        (SMALL, "expected no value without hydrogen"),
        (SMALL + WET, "expected no value with a single window"),
    ):
        with pytest.raises(InputError, match=message):
            parse_scenario(f'{text}\n[plan]\nseason = "1h"\n')


def test_other_points_of_a_sweep_may_have_no_hydrogen():
    base = seasonal('season = "30m"')
    assert make_forecast(base, 0).plan.season_windows == 3
    assert make_forecast(at_point(base, (("tank_kg", 0),)), 0).plan.season_windows == 0
