"""The comparison of policies: its cases, and its statistics on examples that can be counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from beasy_sched.campaigns.scenario import PAPER_GUARDS
from beasy_sched.errors import ConfigError
from beasy_sched.reports.paired import (
    COMPARED,
    PairedDifference,
    clusters_of,
    execution_weights,
    p_text,
    paired_difference,
    sign_flip_p,
)

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
    assert (part.name, part.label, part.options) == ("bid-price", "bid-price-quick", {"quick": True})
    assert policy_part("easy").options == {}


# --- the permutation test ---


def test_the_p_value_of_hand_made_differences():
    assert sign_flip_p([1.0, 1.0, 1.0]) == 2 / 8  # only all plus and all minus are as far from 0
    assert sign_flip_p([1.0, 2.0, 3.0, -1.0]) == 6 / 16  # sums of 7, 5 and 5, and their negatives
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([1.0, -1.0]) == 1.0
    assert math.isnan(sign_flip_p([3.0]))
    assert math.isnan(sign_flip_p([1.0, math.nan, 2.0]))
    assert sign_flip_p([0.1] * 10) == 2 / 1024


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=8))
def test_the_p_value_is_that_of_all_patterns(differences):
    limit = abs(sum(differences))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    assert sign_flip_p(differences) == sum(total >= limit for total in sums) / len(sums)


def test_many_differences_are_drawn_and_agree_with_the_normal_law():
    """Twenty signs of 1: a sum of 12 or more, 16 or 4 plus signs: P = 2 * P(Bin(20, 1/2) >= 16)."""
    exact = 2 * sum(math.comb(20, k) for k in range(16, 21)) / 2**20
    values = [1.0] * 16 + [-1.0] * 4
    assert sign_flip_p(values) == pytest.approx(exact, rel=0.15)
    assert sign_flip_p(values) == sign_flip_p(values)
    assert 0.0 < sign_flip_p([1.0] * 40) < 1e-4


# --- resampling ---


def test_scenarios_share_their_days_and_noises():
    executions = [(name, number, seed) for name in "ab" for number in (0, 1) for seed in (7, 8)]
    weights = execution_weights(executions, resamples=50)
    assert (weights[0] == 1.0).all()
    assert (weights[:, :4] == weights[:, 4:]).all()
    assert (weights[:, :4].sum(axis=1) == 4.0).all()
    days = weights[:, :4].reshape(-1, 2, 2).sum(axis=2)
    assert set(np.unique(days)) <= {0.0, 2.0, 4.0}  # a pair of days is drawn as a whole


def test_what_is_independent():
    unit, cluster = clusters_of([("a", 3, 7), ("b", 3, 7), ("a", 5, 7), ("a", 5, 8)])
    assert (unit, cluster.tolist()) == ("days", [0, 0, 1, 1])
    unit, cluster = clusters_of([("a", 0, 7), ("b", 0, 7), ("a", 0, 9)])
    assert (unit, cluster.tolist()) == ("noises", [0, 0, 1])


# --- blocks ---


def frame() -> pd.DataFrame:
    """Two policies on three pairs of days with two noises each: b finishes 1, 2 and 3 points more on each."""
    rows = []
    for number, seed, policy in product((0, 1, 2), (7, 8), ("a", "b")):
        more = number + 1.0 if policy == "b" else 0.0
        row = {"scenario": "average", "tuple": number, "seed": seed, "policy": policy, "status": "ok"}
        row |= {"guard": "kill-all", "veto": False, "finished_pct": 90.0 + seed + more, "wasted_kwh": 20.0}
        row |= {"curtailed_kwh": 4.0 - more, "soc_distance_points": -1.0 if policy == "a" else 2.0}
        rows.append(row)
    table = pd.DataFrame(rows)
    for measure in COMPARED.values():
        if measure.column not in table and not measure.column.startswith(("off_", "below_", "lost_")):
            table[measure.column] = 0.0
    return table


def test_differences_of_a_hand_made_block():
    ((block, sample),) = blocks_by_case(frame(), resamples=400).items()
    assert block == ("average", "kill-all without veto")
    finished = paired_difference(sample, "finished", "b", "a")
    assert (finished.mean, finished.p, finished.as_good) == (2.0, 2 / 8, 1.0)
    assert 1.0 <= finished.low < 2.0 < finished.high <= 3.0
    assert finished.verdict == ""  # three pairs of days are too few for the test
    assert paired_difference(sample, "finished", "a", "b").as_good == 0.0
    off, below, lost = (paired_difference(sample, name, "b", "a") for name in ("off", "below", "lost"))
    assert (off.mean, off.as_good) == (1.0, 0.0)
    assert (below.mean, below.as_good) == (-1.0, 1.0)
    assert (lost.mean, lost.as_good) == (-2.0, 1.0)
    same = paired_difference(sample, "wasted", "b", "a")
    assert (same.mean, same.low, same.high, same.p, same.as_good) == (0.0, 0.0, 0.0, 1.0, 1.0)
    with pytest.raises(KeyError):
        paired_difference(sample, "wasted", "c", "a")


def test_verdicts_need_interval_and_test():
    assert PairedDifference(2.0, 1.0, 3.0, 0.01, 1.0, higher_is_better=True).verdict == "better"
    assert PairedDifference(2.0, 1.0, 3.0, 0.01, 1.0, higher_is_better=False).verdict == "worse"
    assert PairedDifference(-2.0, -3.0, -1.0, 0.01, 1.0, higher_is_better=False).verdict == "better"
    assert PairedDifference(2.0, -1.0, 3.0, 0.01, 1.0, higher_is_better=True).verdict == ""
    assert PairedDifference(2.0, 1.0, 3.0, 0.06, 1.0, higher_is_better=True).verdict == ""
    assert PairedDifference(2.0, 1.0, 3.0, math.nan, 1.0, higher_is_better=True).verdict == ""
    assert [p_text(p) for p in (0.0001, 0.0124, math.nan)] == ["< 0.001", "0.012", "–"]


def test_an_execution_with_a_failed_run_is_left_out_for_all_policies():
    runs = frame()
    runs.loc[0, "status"] = "failed"
    (sample,) = blocks_by_case(runs, resamples=5).values()
    assert len(sample.executions) == 5
    assert sample.left_out == 1
    runs["status"] = "failed"
    assert blocks_by_case(runs, resamples=5) == {}


def test_tables():
    runs = frame()
    titles = {"average": "average cases"}
    means, alone, differences = comparison_tables(blocks_by_case(runs, resamples=50), "a", titles)
    assert alone.rows == []
    assert means.title == "Means: average cases, guard kill-all without veto"
    assert means.rows[1][:2] == ("b", "99.50")
    assert differences.title == "Less a: average cases, guard kill-all without veto"
    assert [row[0] for row in differences.rows] == ["b", *[""] * (len(COMPARED) - 1)]
    assert differences.rows[0][1] == "finished jobs [points]"
    assert "3 pairs of days" in differences.note
    one = blocks_by_case(runs[(runs["tuple"] == 0) & (runs["seed"] == 7)], resamples=50)
    *_, single = comparison_tables(one, "a", {})
    assert single.rows[0][2:4] == ("+1.00", "–")
    assert len([*comparison_tables(one, "nobody", {})]) == 2


def test_the_means_of_several_scenarios():
    two = [frame().assign(scenario=f"critical.{name}") for name in ("best-end", "worst-end")]
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
    ((_, sample),) = blocks_by_case(frame(), resamples=400).items()
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
    runs = frame()
    runs.loc[0, "bounded_slowdown_mean"] = math.nan
    means, _, differences = comparison_tables(blocks_by_case(runs, resamples=5), "a", {})
    assert "–" in means.rows[0]
    (row,) = [row for row in differences.rows if row[1] == "slowdown, mean"]
    assert row[2:] == ("–", "–", "–", "")
