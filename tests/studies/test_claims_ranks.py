"""Ranks with ties, from both ends, and the agreement of two rankings."""

from __future__ import annotations

import math

import pytest
from studies.claims import competition_ranks, ordinal, rank_agreement


@pytest.mark.parametrize(
    ("values", "higher", "ranks"),
    [
        ([3.0, 1.0, 2.0], True, [1, 3, 2]),
        ([3.0, 1.0, 2.0], False, [3, 1, 2]),
        ([5.0, 5.0, 4.0], True, [1, 1, 3]),
        ([0.0, 0.0, 0.0], False, [1, 1, 1]),
        ([90.0, 90.0 + 1e-12, 20.0], True, [1, 1, 3]),
        ([7.0], True, [1]),
    ],
)
def test_ranks(values, higher, ranks):
    assert competition_ranks(values, higher_is_better=higher).tolist() == ranks


def test_from_the_worst():
    found = competition_ranks([9.0, 1.0, 1.0, 5.0], higher_is_better=True, from_worst=True)
    assert found.tolist() == [4, 1, 1, 3]


def test_every_row_by_itself():
    found = competition_ranks([[1.0, 2.0], [2.0, 1.0]], higher_is_better=True)
    assert found.tolist() == [[2, 1], [1, 2]]


@pytest.mark.parametrize(
    ("ours", "theirs", "rho"),
    [([1, 2, 3], [1, 2, 3], 1.0), ([1, 2, 3], [3, 2, 1], -1.0), ([1, 1, 3], [1, 2, 3], math.sqrt(3) / 2)],
)
def test_agreement(ours, theirs, rho):
    assert rank_agreement(ours, theirs) == pytest.approx(rho)


def test_no_agreement_without_an_order():
    assert math.isnan(rank_agreement([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize(
    ("rank", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (111, "111th"),
        (122, "122nd"),
    ],
)
def test_ordinals(rank, text):
    assert ordinal(rank) == text
