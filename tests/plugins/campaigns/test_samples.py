"""The bootstrap: seeded, paired, by hand where that is possible."""

from __future__ import annotations

import numpy as np
import pytest

from beasy_sched.plugins.campaigns.samples import bootstrap_weights, interval, weighted_mean, weighted_spread


def test_the_first_row_is_ours_and_all_rows_draw_as_many():
    weights = bootstrap_weights([0] * 7, resamples=50)
    assert weights.shape == (51, 7)
    assert (weights[0] == 1.0).all()
    assert (weights.sum(axis=1) == 7.0).all()
    assert (weights[1:] != 1.0).any()


def test_the_seed_decides():
    groups = [0, 0, 1, 1]
    first, again, other = (bootstrap_weights(groups, resamples=20, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_plans_are_drawn_first():
    """With one execution a plan, a plan that is drawn twice counts twice; with two, their halves differ."""
    weights = bootstrap_weights([0, 0, 1, 1], resamples=200)[1:]
    by_plan = weights[:, :2].sum(axis=1)
    assert set(by_plan) == {0.0, 2.0, 4.0}
    assert np.mean(by_plan == 2.0) == pytest.approx(0.5, abs=0.15)


def test_one_execution_says_nothing():
    assert (bootstrap_weights([5], resamples=10) == 1.0).all()


def test_means_by_hand():
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    assert weighted_mean(weights, np.array([3.0, 6.0, 9.0])).tolist() == [6.0, 4.0]
    two = weighted_mean(weights, np.array([[3.0, 0.0], [6.0, 0.0], [9.0, 3.0]]))
    assert two.tolist() == [[6.0, 1.0], [4.0, 0.0]]


def test_spread_is_that_of_the_drawn_ones():
    values = np.array([3.0, 6.0, 9.0])
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    expected = [np.std(values, ddof=1), np.std([3.0, 3.0, 6.0], ddof=1)]
    assert weighted_spread(weights, values) == pytest.approx(expected)


def test_spread_of_one_is_none():
    assert weighted_spread(np.ones((2, 1)), np.array([4.0])).tolist() == [0.0, 0.0]


def test_interval_leaves_ours_out():
    low, high = interval(np.concatenate([[1e9], np.arange(101.0)]))
    assert (low, high) == pytest.approx((2.5, 97.5))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    """Of 200 samples of 30 normal numbers, the mean's interval misses 0 in about 5 %."""
    random = np.random.default_rng(7)
    weights = bootstrap_weights([0] * 30, resamples=400)
    ends = [interval(weighted_mean(weights, random.normal(size=30))) for _ in range(200)]
    missed = sum(not low <= 0.0 <= high for low, high in ends)
    assert 2 <= missed <= 24
