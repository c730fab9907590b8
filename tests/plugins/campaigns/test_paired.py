"""Paired differences of policies: their statistics on examples that can be counted by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hand_runs import hand_runs
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.plugins.campaigns.paired import (
    PairedDifference,
    blocks_of,
    clusters_of,
    execution_weights,
    p_text,
    paired_difference,
    paired_tables,
    sign_flip_p,
)

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


def test_differences_of_a_hand_made_block():
    ((block, sample),) = blocks_of(hand_runs(), resamples=400).items()
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


def test_sizes_of_a_sweep_are_blocks_and_what_is_not_known_is_no_measure():
    runs = hand_runs()
    runs["cost"] = math.nan
    twice = pd.concat([runs.assign(pv_kw=1.0), runs.assign(pv_kw=2.5, cost=3.0), runs.assign(pv_kw=math.nan)])
    found = blocks_of(twice, axes=["pv_kw"], resamples=5)
    assert [case for case, _ in found] == ["average, pv_kw 1", "average, pv_kw 2.5", "average"]
    assert [("cost" in sample.values) for sample in found.values()] == [False, True, False]
    means, differences = [*paired_tables({("x", "y"): [*found.values()][1]}, "a")]
    assert "cost" in means.head
    assert [row[0] for row in differences.rows if row[0]] == ["b"]
    assert [table.title for table in paired_tables(found, "nobody")] == [
        f"Means: {case}, guard kill-all without veto" for case, _ in found
    ]


@pytest.mark.parametrize(
    ("days", "seeds", "told"),
    [
        (3, 2, "No verdict is possible with 3: p cannot be below 0.25. Use a scenario of 6"),
        (5, 2, "p cannot be below 0.0625. Use a scenario of 6 or more pairs"),
        (6, 1, None),
        (1, 5, "p cannot be below 0.0625. Use --seeds 6 or more"),
        (1, 6, None),
    ],
)
def test_a_table_tells_where_no_verdict_is_possible(days, seeds, told):
    one = hand_runs().query("tuple == 1 and seed == 7")
    runs = pd.concat(one.assign(tuple=day, seed=seed) for day in range(days) for seed in range(seeds))
    _, differences = paired_tables(blocks_of(runs, resamples=50), "a")
    finished = differences.rows[0]
    assert (finished[-1] == "better") is (told is None)  # b is 2 points better in every execution
    assert told in differences.note if told else "No verdict" not in differences.note


def test_verdicts_need_interval_and_test():
    assert PairedDifference(2.0, 1.0, 3.0, 0.01, 1.0, higher_is_better=True).verdict == "better"
    assert PairedDifference(2.0, 1.0, 3.0, 0.01, 1.0, higher_is_better=False).verdict == "worse"
    assert PairedDifference(-2.0, -3.0, -1.0, 0.01, 1.0, higher_is_better=False).verdict == "better"
    assert PairedDifference(2.0, -1.0, 3.0, 0.01, 1.0, higher_is_better=True).verdict == ""
    assert PairedDifference(2.0, 1.0, 3.0, 0.06, 1.0, higher_is_better=True).verdict == ""
    assert PairedDifference(2.0, 1.0, 3.0, math.nan, 1.0, higher_is_better=True).verdict == ""
    assert [p_text(p) for p in (0.0001, 0.0124, math.nan)] == ["< 0.001", "0.012", "–"]


def test_an_execution_with_a_failed_run_is_left_out_for_all_policies():
    runs = hand_runs()
    runs.loc[0, "status"] = "failed"
    (sample,) = blocks_of(runs, resamples=5).values()
    assert len(sample.executions) == 5
    assert sample.left_out == 1
    runs["status"] = "failed"
    assert blocks_of(runs, resamples=5) == {}
