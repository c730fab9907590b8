"""The comparison of policies: its cases, and its tables of an example that can be counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from hand_runs import hand_runs
from studies.comparison.bound import ClairvoyantBound
from studies.comparison.results import blocks_by_case, bound_table, comparison_tables
from studies.comparison.study import (
    SURPRISES,
    Extent,
    case_of,
    comparison,
    find_cases,
    policy_part,
)

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.paired import (
    COMPARED,
)
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS

EXTENT = Extent(range(5000, 5004), range(5100, 5105), seeds_per_day=2)


def test_the_cases_and_their_seeds():
    cases = find_cases(["average", "critical"])
    assert [case.name for case in cases] == ["critical", "average"]
    found = {scenario.name: scenario for scenario in comparison(cases, ["beasy", "easy"], EXTENT)}
    assert [*found] == [
        "critical.best-begin", "critical.best-end", "critical.worst-begin", "critical.worst-end", "average",
    ]  # fmt: skip
    assert case_of("critical.best-begin") == ("critical", "best-begin")
    assert case_of("average") == ("average", "")
    critical, average = found["critical.best-begin"], found["average"]
    assert (critical.seeds, len(critical.tuples)) == ((5000, 5001), 5)
    assert critical.guards == PAPER_GUARDS
    assert average.seeds == (5000, 5001)
    seeds = [(part.workload.seed, part.production.seed) for part in average.tuples]
    assert seeds == [(day, day) for day in range(5100, 5105)]
    assert [part.workload.shape for part in average.tuples] == ["begin", "end", "uniform", "begin", "end"]
    assert [policy.label for policy in average.policies] == ["beasy", "easy"]


def test_the_critical_cases_on_other_days_keep_case_and_shape():
    found = comparison(find_cases(["critical-days"]), ["beasy"], EXTENT)
    assert [case_of(scenario.name)[1] for scenario in found] == [
        "best-begin", "best-end", "worst-begin", "worst-end",
    ]  # fmt: skip
    for scenario in found:
        case, shape = case_of(scenario.name)[1].split("-")
        assert {part.production.case.value for part in scenario.tuples} == {case}
        assert {part.workload.shape for part in scenario.tuples} == {shape}
        assert [part.workload.seed for part in scenario.tuples] == [5100, 5101, 5102, 5103, 5104]


def test_cases_in_which_a_forecast_is_wrong():
    """Each changes one thing of the average cases; one noise, one guard."""
    (plain,) = comparison(find_cases(["average"]), ["beasy"], replace(EXTENT, seeds_per_day=1))
    found = {scenario.name: scenario for scenario in comparison(find_cases(SURPRISES), ["beasy"], EXTENT)}
    assert [*found] == [*SURPRISES]
    for scenario in found.values():
        assert (scenario.seeds, scenario.guards) == ((5000,), PAPER_GUARDS[:1])
        assert [part.workload for part in scenario.tuples] == [part.workload for part in plain.tuples]
    assert (found["demand-high"].plan.demand_factor, found["demand-low"].plan.demand_factor) == (1.3, 0.7)
    cases = {name: scenario.tuples[0].production.case.value for name, scenario in found.items()}
    bands = {name: scenario.noise.production_band for name, scenario in found.items()}
    weather = ("weather-wild", "weather-below", "weather-above")
    assert [(cases[name], bands[name]) for name in weather] == [("between", 2), ("worst", 1.5), ("best", 1.5)]
    for name, jobs, median_s in (("short-jobs", 2700, 600), ("long-jobs", 300, 5400)):
        real = found[name].tuples[0].real_workload
        assert (real.jobs, real.run_median_s, real.seed) == (jobs, median_s, 5100 + 500_000)
        assert real.shape == found[name].tuples[0].workload.shape


def test_names_that_are_not_there():
    with pytest.raises(ConfigError, match="unknown case 'worst'"):
        find_cases(["worst"])
    with pytest.raises(ConfigError, match="unknown policy 'nobody'"):
        comparison(find_cases(["average"]), ["nobody"], EXTENT)


def test_a_variant_of_a_policy():
    part = policy_part("bid-price-quick")
    assert (part.name, part.label, part.options) == ("bid-price", "bid-price-quick", {"patience": 0.0})
    assert policy_part("easy").options == {}
    chosen = policy_part("bid-price+production=forecast+patience=0.5")
    assert (chosen.name, chosen.label) == ("bid-price", "bid-price.production-forecast.patience-0.5")
    assert chosen.options == {"production": "forecast", "patience": 0.5}
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        policy_part("bid-price+price")


def test_tables():
    runs = hand_runs()
    titles = {"average": "average cases"}
    means, alone, differences = comparison_tables(blocks_by_case(runs, resamples=50), "a", titles)
    assert alone.rows == []
    assert means.title == "Means: average cases, guard kill-all without veto"
    assert means.rows[1][:2] == ("b", "99.50")
    assert differences.title == "Differences from a: average cases, guard kill-all without veto"
    assert [row[0] for row in differences.rows] == ["b", *[""] * (len(COMPARED) - 1)]
    assert differences.rows[0][1] == "finished jobs [points]"
    assert "3 pairs of days" in differences.note
    one = blocks_by_case(runs[(runs["tuple"] == 0) & (runs["seed"] == 7)], resamples=50)
    *_, single = comparison_tables(one, "a", {})
    assert single.rows[0][2:4] == ("+1.00", "–")
    assert len([*comparison_tables(one, "nobody", {})]) == 2


def test_the_means_of_several_scenarios():
    two = [hand_runs().assign(scenario=f"critical.{name}") for name in ("best-end", "worst-end")]
    two[1]["finished_pct"] -= 10.0
    ((block, sample),) = blocks_by_case(pd.concat(two, ignore_index=True), resamples=5).items()
    assert block[0] == "critical"
    assert len(sample.executions) == 12
    means, by_scenario, _ = comparison_tables({block: sample}, "a", {})
    assert [row[:3] for row in by_scenario.rows] == [
        ("best-end", "a", "97.50"), ("", "b", "99.50"), ("worst-end", "a", "87.50"), ("", "b", "89.50"),
    ]  # fmt: skip
    assert means.rows[0][:2] == ("a", "92.50")


def test_what_could_be_had():
    ((_, sample),) = blocks_by_case(hand_runs(), resamples=400).items()
    bounds = {execution: ClairvoyantBound(101.5, 50.0, 102.0) for execution in sample.executions}
    table = bound_table("here", sample, bounds, "a")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["arrive in time to end"][0] == "102.00"
    assert rows["clairvoyant bound"][:2] == ("101.50", "100.0")
    assert rows["a"][:3] == ("97.50", "96.1", "")
    assert rows["b"][:2] == ("99.50", "98.0")
    assert rows["b"][2].startswith("50 [")  # 2 of the 4 points that are missing
    assert (rows["a"][-1], rows["b"][-1]) == ("0", "100")
    reached = {execution: ClairvoyantBound(97.5, 50.0, 100.0) for execution in sample.executions}
    assert {row[0]: row for row in bound_table("here", sample, reached, "a").rows}["b"][3] == "–"
    with pytest.raises(KeyError):
        bound_table("here", sample, {}, "a")


def test_a_measure_without_values_has_no_numbers():
    runs = hand_runs()
    runs.loc[0, "bounded_slowdown_mean"] = math.nan
    means, _, differences = comparison_tables(blocks_by_case(runs, resamples=5), "a", {})
    assert "–" in means.rows[0]
    (row,) = [row for row in differences.rows if row[1] == "slowdown, mean"]
    assert row[2:] == ("–", "–", "–", "")
