"""The search for sizes against brute force, where larger is better and where it is not."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from beasy_sched.errors import ConfigError
from beasy_sched.plugins.campaigns.sizing import Found, found_by, ladder, next_rungs


def searched(good: list[bool]) -> tuple[Found, dict[int, bool]]:
    """Search until nothing more is asked for; never twice for the same."""
    met: dict[int, bool] = {}
    while rungs := next_rungs(len(good), met):
        assert not set(rungs) & met.keys()
        assert len(set(rungs)) == len(rungs)
        met.update((rung, good[rung]) for rung in rungs)
    return found_by(met), met


@given(count=st.integers(1, 400), threshold=st.integers(0, 400))
@settings(max_examples=examples(80), derandomize=True)
def test_where_larger_is_better_it_is_brute_force(count, threshold):
    good = [rung >= threshold for rung in range(count)]
    found, met = searched(good)
    assert found == Found(threshold if threshold < count else None, (), ())
    assert found.monotone
    assert len(met) <= 11 + math.ceil(math.log2(count))


@given(good=st.lists(st.booleans(), min_size=1, max_size=120))
@settings(max_examples=examples(120), derandomize=True)
def test_where_it_is_not_the_answer_holds_for_all_that_was_tried(good):
    found, met = searched(good)
    if not good[-1]:
        assert found.rung is None
        return
    rung = found.rung
    assert rung is not None
    assert good[rung]
    assert all(value for tried, value in met.items() if tried >= rung)
    assert rung == 0 or met[rung - 1] is False
    assert all(near in met for near in (rung + 1, rung + 2) if near < len(good))
    assert all(met[below] for below in found.met_below)
    assert all(below < rung for below in found.met_below)
    assert found.failed_above == tuple(
        sorted(bad for bad, value in met.items() if not value and any(met.get(low) for low in range(bad)))
    )


def test_a_larger_size_that_fails_is_found_beside_the_answer():
    good = [rung >= 37 for rung in range(100)]
    good[38] = False
    found, _ = searched(good)
    assert found == Found(39, (37,), (38,))
    assert not found.monotone


def test_where_the_largest_does_not_suffice_nothing_more_is_tried():
    found, met = searched([True] * 50 + [False])
    assert (found.rung, met) == (None, {50: False})


@given(
    least=st.floats(1e-3, 1e3), factor=st.floats(1.0, 1e4), resolution=st.floats(1.0, 100.0),
    whole=st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(80), derandomize=True)
def test_a_ladder(least, factor, resolution, whole):
    most = least * factor
    if whole:
        least, most = max(round(least), 1), max(round(least), round(most), 1)
    sizes = ladder(least, most, resolution, whole=whole)
    assert (sizes[0], sizes[-1]) == (least, most)
    assert all(low < high for low, high in pairwise(sizes))
    if whole:
        assert all(size == int(size) for size in sizes)
    else:
        steps = [high / low for low, high in pairwise(sizes)]
        assert all(step <= 1 + resolution / 100 + 0.002 for step in steps)


def test_sizes_keep_four_digits():
    assert ladder(1, 2, 50) == (1, 1.414, 2)
    assert ladder(5, 5, 5) == (5,)
    assert ladder(1, 4, 5, whole=True) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("least", "most", "resolution", "message"),
    [
        (2, 1, 5, "--from 2 --to 1: expected two sizes above 0, the smaller one first"),
        (0, 1, 5, "--from 0 --to 1"),
        (1, 2, 0, "resolution: found 0 %, expected above 0"),
        (1e-3, 1e6, 0.001, "too many sizes"),
    ],
)
def test_no_ladder(least, most, resolution, message):
    with pytest.raises(ConfigError, match=message):
        ladder(least, most, resolution)
