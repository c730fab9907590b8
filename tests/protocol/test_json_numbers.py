"""Numbers as Batsim reads, prints and takes them; the figures are those of RapidJSON 1.1.0 itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.protocol.json_numbers import (
    FROM_FILES,
    FROM_SCHEDULERS,
    as_batsim_reads,
    as_batsim_registers,
    as_batsim_tells,
    read_real,
    told_again,
    written_real,
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (259200.00199999998, 259200.002),
        (16350.549220739129, 16350.549220739127),
        (257086.59442573914, 257086.5944257391),
        (92117.24475573913, 92117.24475573911),
        (1042.0855017391305, 1042.0855017391305),
        (0.30000000000000004, 0.30000000000000007),
        (94392314982.83305, 94392314982.83304),
        (9007199254740991.0, 9007199254740990.0),
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5956643371.8883924, "5956643371.888392"),
        (322.747699999999952, "322.74769999999998"),
        (123456789012.34567, "123456789012.34568"),
        (1e16, "10000000000000000.0"),
        (1e22, "1e22"),
        (-1.25e-7, "-1.25e-7"),
        (9.5367431640625e-07, "9.5367431640625e-7"),
        (0.001234, "0.001234"),
        (5e-324, "5e-324"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
    ],
)
def test_texts_of_reals(value, text):
    assert written_real(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_texts_give_the_number_back(value):
    assert float(written_real(value)) == value


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("18446744073709551617.5", 18446744073709551616.0),
        ("-9223372036854775809.0", -9223372036854775808.0),
        ("100000000000000000000.000000", 1e20),
        ("1e-320", 1e-320),
        ("12345678901234567.250000", 12345678901234568.0),
    ],
)
def test_texts_with_many_digits(text, read):
    assert read_real(text) == read


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5956643371.888392, "5956643371.888392"),
        (94392314982.83305, "94392314982.833038"),
        (62127799526.145546, "62127799526.145554"),
        (28668754235.099922, "28668754235.099918"),
        (310647973671.52563, "310647973671.525696"),  # read once it is ...635
        (47680391580.242584, "47680391580.242592"),
        (340619567099.21875, "340619567099.218811"),
        (0.1234565, "0.123456"),
        (2.5e-7, "0.000000"),
    ],
)
def test_numbers_that_are_forwarded(value, told):
    assert f"{as_batsim_tells(value):.6f}" == told
    assert f"{as_batsim_tells(-value):.6f}" == f"-{told}"
    assert as_batsim_tells({"a": [value, 1, "x", None]}) == {"a": [float(told), 1, "x", None]}


def test_integers_that_no_64_bits_hold_are_forwarded_as_reals():
    largest = 2**64 - 1
    assert (as_batsim_tells(largest), as_batsim_tells(-(2**63))) == (largest, -(2**63))
    assert type(as_batsim_tells(largest + 1)) is float


MILLIONTHS = st.integers(-(10**16), 10**16).map(lambda number: number / 1e6)


@given(st.floats(-1e12, 1e12) | MILLIONTHS)
def test_the_quick_answers_are_those_of_readings(value):
    def again(number):
        return round(read_real(written_real(number)), 6)

    assert told_again(value) == again(value)
    assert as_batsim_tells(value) == again(as_batsim_reads(value))
    assert as_batsim_registers(value) == read_real(f"{as_batsim_reads(value):.6f}")


def test_numbers_that_are_registered_have_six_decimals():
    assert as_batsim_registers(1.23456789) == 1.234568
    assert as_batsim_registers({"delay": 4e-7, "n": 3}) == {"delay": 0.0, "n": 3}
    assert FROM_SCHEDULERS.takes(28668754235.099922) == 28668754235.09992
    assert f"{FROM_SCHEDULERS.tells(28668754235.099922):.6f}" == "28668754235.099918"
    assert FROM_FILES.takes(1.23456789) == 1.23456789
