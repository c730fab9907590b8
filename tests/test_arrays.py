"""Questions to small arrays, beside NumPy's own answers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.arrays import all_of, any_of, total


@given(st.lists(st.floats(-1e12, 1e12), max_size=20))
def test_a_total_has_the_same_bits(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    assert total(array) == float(array.sum())


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 3))
def test_any_and_all(values: list[bool], stride: int) -> None:
    mask = np.array(values, dtype=np.bool_)[::stride]
    assert any_of(mask) is bool(mask.any())
    assert all_of(mask) is bool(mask.all())
