"""Scenario files: what they mean, and what is said of those that are wrong."""

from __future__ import annotations

import re

import pytest
from small_campaign import BAD, SMALL, scenario

from beasy_sched.errors import InputError
from beasy_sched.model.choices import ProductionCase
from beasy_sched.plugins.campaigns.folder import plain_values
from beasy_sched.plugins.campaigns.scenario import NAMES, PAPER_POLICIES, quick
from beasy_sched.plugins.campaigns.scenario_file import (
    find_scenario,
    parse_scenario,
    read_scenario,
    scenario_of,
)
from beasy_sched.plugins.campaigns.sweep import expand

HEAD = 'name = "small"\n'
DRAWN = '{ source = "synthetic", seed = 1, shape = "begin", host_shares = { 1 = 1 } }'


def added(top: str = "", below: str = "") -> str:
    return SMALL.replace(HEAD, HEAD + top + "\n") + below


def test_what_is_not_said_is_as_in_the_paper():
    found = parse_scenario(SMALL.replace('policies = ["easy", "follow-plan", "workload-reactive"]', ""))
    assert tuple(policy.label for policy in found.policies) == PAPER_POLICIES
    assert [guard.label for guard in found.guards] == ["kill-all", "shed+veto"]
    assert found.noise.arrivals_sigma == found.noise.run_time_sigma == 0.2
    assert found.noise.walltimes == "groups"


def test_seeds_as_a_first_one_and_a_count():
    assert scenario(("[1, 2]", "{ first = 5, count = 3 }")).seeds == (5, 6, 7)


def test_tuples_change_fields_of_workload_and_production():
    found = parse_scenario(
        added(
            below="[[tuples]]\nworkload = { seed = 7 }\n"
            '[[tuples]]\nworkload = { shape = "end" }\nproduction = { case = "worst", seed = 8 }\n'
        )
    )
    first, second = found.tuples
    assert (first.workload.seed, first.workload.shape, first.workload.jobs) == (7, "begin", 30)
    assert (second.workload.seed, second.workload.shape, second.workload.jobs) == (1, "end", 30)
    assert (first.production.case, second.production.case) == (ProductionCase.BEST, ProductionCase.WORST)
    assert (first.production.seed, second.production.seed) == (1, 8)


def test_a_tuple_with_another_source_keeps_nothing_of_the_first(tmp_path):
    (tmp_path / "trace.swf").write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    text = added(below='[[tuples]]\nworkload = { source = "swf", file = "trace.swf", from = "1d" }\n')
    found = parse_scenario(text, tmp_path / "scenario.toml").tuples[0].workload
    assert (found.file, found.start, found.arrivals) == (str(tmp_path / "trace.swf"), "1d", "swf")


@pytest.mark.parametrize(
    ("noise", "tuples", "walltimes"),
    [
        ("", "", "keep"),
        ("[noise]\nrun_time_sigma = 0.1\n", "", "keep"),
        ('[noise]\nwalltimes = "groups"\n', "", "groups"),
        ("", f"[[tuples]]\n[[tuples]]\nworkload = {DRAWN}\n", "groups"),
    ],
)
def test_a_trace_keeps_its_walltimes(noise, tuples, walltimes, tmp_path):
    (tmp_path / "trace.swf").write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    trace = ['[workload]\nsource = "swf"\nfile = "trace.swf"\n', "[platform]\nservers = { gros = 2 }\n"]
    sun = '[production]\nsource = "synthetic"\nseed = 1\npv_kw = 2\nwind_kw = 1\n'
    text = 'name = "of-a-trace"\nseeds = [1]\n' + "".join([*trace, sun, noise, tuples])
    assert parse_scenario(text, tmp_path / "scenario.toml").noise.walltimes == walltimes


def test_a_site_from_a_file_leaves_its_guard_behind(tmp_path):
    (tmp_path / "site.toml").write_text(
        '[battery]\ncapacity_kwh = 7\ncharge_limit_kw = 1\ndischarge_limit_kw = 1\n[guard]\nmode = "shed"\n'
    )
    before, _, _ = SMALL.partition("[site.battery]")
    text = before.replace(HEAD, HEAD + 'site = "site.toml"\n')
    found = parse_scenario(text, tmp_path / "scenario.toml")
    assert found.site == {"battery": {"capacity_kwh": 7, "charge_limit_kw": 1, "discharge_limit_kw": 1}}
    assert 'mode = "kill-all"' in found.site_text(found.guards[0])


@pytest.mark.parametrize(
    ("policies", "labels"),
    [
        ('"easy", { name = "beasy", options = { compensate = false } }', ["easy", "beasy"]),
        ('"bad_policies:Raises", "easy"', ["Raises", "easy"]),
        ('{ name = "bad_policies:Raises", label = "mine" }', ["mine"]),
        (
            '"beasy", { name = "beasy", options = { release = "at-once", compensate = false } }',
            ["beasy", "beasy.compensate-false.release-at-once"],
        ),
        ('"bad_policies:Raises", { name = "easy", label = "Raises" }', ["bad_policies.Raises", "Raises"]),
    ],
)
def test_labels_that_a_file_need_not_give(policies, labels):
    text = SMALL.replace('"easy", "follow-plan", "workload-reactive"', policies)
    assert [policy.label for policy in parse_scenario(text, allowed=BAD).policies] == labels


WRONG = [
    (added("foo = 1"), "foo: no such field, expected one of workload, production, real_workload, grid, name"),
    (added(below='[noise]\n"" = 2'), "noise.'': no such field, expected one of arrivals_sigma"),
    (added(below="[noise]\nsigma = 2"), "noise.sigma: no such field, expected one of arrivals_sigma"),
    (
        added(below="[noise]\narrivals_sigma = 20"),
        "noise.arrivals_sigma: sigma: found 20.0, expected a number",
    ),
    (added('windows = "a"'), "windows: found 'a', expected an integer"),
    (added("windows = 0"), "windows: found 0, expected an integer from 1"),
    (added("guards = []"), "guards: found [], expected at least one"),
    (
        added('guards = [{ mode = "x", veto = true }]'),
        "guards[0].mode: found 'x', expected one of shed, kill-all",
    ),
    (added('guards = [{ mode = "shed" }]'), "guards[0].veto: is missing"),
    (SMALL.replace('"easy"', '"esay"'), "policies[0]: unknown policy 'esay'"),
    (SMALL.replace('"easy"', '"easy", "easy"'), "policies[1]: found 'easy', expected unique values"),
    (
        SMALL.replace('"easy"', '"easy", { name = "beasy", label = "easy" }'),
        "policies[1]: found 'easy', expected unique values",
    ),
    (
        SMALL.replace('"easy"', '{ name = "easy", options = { x = 1 } }'),
        "policies[0]: options of policy 'easy'",
    ),
    (
        SMALL.replace('"easy"', '{ name = "easy", label = "a/b" }'),
        "policies[0].label: found 'a/b', expected at most 64 letters",
    ),
    (SMALL.replace("capacity_kwh = 2.0", ""), "site: battery.capacity_kwh: is missing"),
    (SMALL.replace("charge_limit_kw", "charge_kw"), "site: battery.charge_kw"),
    (
        SMALL[: SMALL.index("[site.battery]")] + SMALL[SMALL.index("[site.time]") :],
        "site: has no [site.battery]: the sections of [site] are the whole site, and nothing of the default"
        ' site is added; for a site without a battery, write battery = "none" in [site]',
    ),
    (added(below='[site.guard]\nmode = "shed"'), "site.guard: a scenario's guards belong in [[guards]]"),
    (added(below='[plan]\nsurplus = "x"'), "plan.surplus: found 'x', expected one of envelope, store"),
    (
        added(below="[plan]\nmake = false"),
        "plan.make: found false, but policies[1], 'follow-plan', requires a plan",
    ),
    (
        added(below="[plan]\nload_uncertainty_pct = [5, 130]"),
        "plan.load_uncertainty_pct: uncertainty at_horizon",
    ),
    (
        SMALL.replace('source = "synthetic"\nseed = 1\njobs', 'source = "x"\njobs'),
        "workload.source: found 'x'",
    ),
    (SMALL.replace("jobs = 30", "jobs = 0"), "workload.jobs: found 0, expected an integer, 1 or more"),
    (SMALL.replace("jobs = 30", 'jobs = "x"'), "workload.jobs: found 'x', expected an integer"),
    (SMALL.replace("2 = 1", "9 = 1"), "workload.host_shares: found [1, 9], expected counts from 1 to 4"),
    (SMALL.replace('case = "best"', 'case = "good"'), "production.case: found 'good', expected one of best"),
    (SMALL.replace('"2024-10-01 09:00"', '"soon"'), "production.start: found 'soon', expected a date"),
    (SMALL.replace("pv_kw = 1", "pv_kw = -1"), "production.pv_kw: found -1.0, expected 0 kW or more"),
    (
        SMALL.replace("pv_kw = 1", "pv_kw = 1\ncloudiness = 7"),
        "production.cloudiness: found 7.0, expected a number from 0 to 1",
    ),
    (
        SMALL.replace("gros = 4", "gros = 0"),
        "platform.servers.gros: found 0, expected an integer from 1 to 1000000",
    ),
    (SMALL.replace("gros = 4", "gross = 4"), "platform.servers: "),
    (SMALL.replace("[1, 2]", "{ first = 1, count = 1_000_000_000 }"), "seeds.count: found 1000000000"),
    (SMALL.replace("[1, 2]", "[]"), "seeds: found [], expected at least one"),
    (SMALL.replace("[1, 2]", "[1, 1]"), "seeds[1]: found 1, expected unique values"),
    (SMALL.replace("[1, 2]", "[-1]"), "seeds: found -1, expected integers from 0"),
    (SMALL.replace("[1, 2]", f"[{1 << 63}]"), "seeds[0]: found 9223372036854775808, expected an integer"),
    (
        SMALL.replace("jobs = 30", "jobs = 1_000_000_000"),
        "workload.jobs: found 1000000000, expected at most 100,000,000",
    ),
    (SMALL.replace("[1, 2]", "{ first = 1 }"), "seeds: found {'first': 1}, expected a list"),
    (SMALL.replace(HEAD, ""), "name: is missing"),
    (SMALL.replace(HEAD, 'name = "a b"\n'), "name: found 'a b', expected at most 64 letters"),
    (SMALL.replace("[workload]", "[wrkload]"), "wrkload: no such field"),
    (added(below="[[tuples]]\nx = 1"), "tuples[0].x: expected workload, production or real_workload"),
    (added(below="[[tuples]]\nworkload = { jobs = 1.5 }"), "tuples[0].workload.jobs: found 1.5"),
    (added(below='[[tuples]]\nworkload = { source = "swf", file = "no.swf" }'), "workload.file: found"),
    (SMALL + "x", "is not valid TOML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_told_by_file_and_field(text, message):
    with pytest.raises(InputError) as caught:
        parse_scenario(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml: " + message)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no\.toml: cannot be read"):
        read_scenario(tmp_path / "no.toml")


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_survives_json(name):
    found = find_scenario(name)
    assert scenario_of(plain_values(found)) == found


def test_runs_are_scenario_by_tuple_by_seed_by_guard_by_policy():
    found = parse_scenario(added(below="[[tuples]]\n[[tuples]]\nproduction = { seed = 2 }\n"))
    runs = expand([found])
    assert len(runs) == 2 * 2 * 2 * 3
    assert [run.key for run in runs[:4]] == [
        "small.t0.s1.kill-all.easy",
        "small.t0.s1.kill-all.follow-plan",
        "small.t0.s1.kill-all.workload-reactive",
        "small.t0.s1.shed+veto.easy",
    ]
    assert runs[-1].key == "small.t1.s2.shed+veto.workload-reactive"
    assert len({run.key for run in runs}) == len(runs)


def test_quick_is_a_day_with_fewer_jobs_tuples_and_seeds():
    small = quick(find_scenario("average"))
    assert small.parsed_site().window_s == 86_400
    assert len(small.tuples) == 2
    assert small.tuples[0].workload.jobs == 300
    assert small.seeds == (201,)
    assert quick(scenario()).parsed_site().window_s == 3 * 3600


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("run_median_s = 300", "run_median_s = nan", "workload.run_median_s"),
        ("{ 1 = 3, 2 = 1 }", "{ 1 = 3, 2 = -nan }", "workload.host_shares.2"),
        ("[1, 2]", "[1, nan]", "seeds[1]"),
    ],
)
def test_nan_is_told_with_its_field(old: str, new: str, field: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{field}: found nan, expected a number")):
        parse_scenario(SMALL.replace(old, new))
