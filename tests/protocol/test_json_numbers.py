"""Numbers as Batsim reads them: by RapidJSON's fast parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.protocol.json_numbers import as_batsim_reads


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (259200.00199999998, 259200.002),
        (16350.549220739129, 16350.549220739127),
        (257086.59442573914, 257086.5944257391),
        (92117.24475573913, 92117.24475573911),
        (1042.0855017391305, 1042.0855017391305),
        (1e-05, 1e-05),
        (7, 7.0),
    ],
)
def test_known_numbers(written, read):
    assert as_batsim_reads(written) == read
    assert as_batsim_reads(-written) == -read


@given(st.integers(0, 10**15), st.integers(0, 6))
def test_short_numbers_are_exact(digits, decimals):
    value = digits / 10**decimals
    assert as_batsim_reads(value) == value


@given(st.floats(1e-9, 1e15))
def test_long_numbers_are_at_most_a_few_units_away(value):
    assert as_batsim_reads(value) == pytest.approx(value, rel=1e-15)
