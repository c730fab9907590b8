"""Numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.outputs.quantities import clock, count, fact, parse_moment, span
from beasy_sched.units import energy_text, percent_text, power_text


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("90", 90.0),
        ("1d6h", 108_000.0),
        ("06:30", 23_400.0),
        ("06:30:05", 23_405.0),
        ("1d 06:30:05.5", 109_805.5),
        (" 12d00:00 ", 1_036_800.0),
    ],
)
def test_moments(text: str, time_s: float) -> None:
    assert parse_moment(text) == time_s


@pytest.mark.parametrize("text", ["", "5x", "-3", "nan", "6:3", "1d 06:30:00:00", "tomorrow", "1e300"])
def test_what_is_no_moment(text: str) -> None:
    told = "is not a valid time: expected seconds or a value such as 1d6h or '1d 06:30:00'"
    with pytest.raises(ValueError, match=told):
        parse_moment(text)


@given(st.integers(0, 10**8))
def test_a_moment_can_be_read_back(time_s: int) -> None:
    assert parse_moment(clock(time_s)) == time_s


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.25, "0.25 s"),
        (59.0, "59 s"),
        (59.99, "60 s"),
        (60.0, "1 min"),
        (90.0, "1 min 30 s"),
        (599.7, "10 min"),
        (3599.0, "59 min"),
        (7500.0, "2 h 05 min"),
        (86_399.0, "23 h 59 min"),
        (97_200.0, "1 d 3 h"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_units() -> None:
    assert [energy_text(joules) for joules in (0.0, 1e-6, 3.6e3, -3.6e5, 3.6e6, 4.5e9)] == [
        "0 Wh",
        "0 Wh",
        "1 Wh",
        "-100 Wh",
        "1 kWh",
        "1,250 kWh",
    ]
    assert [power_text(watts) for watts in (0.0, 12.34, 999.4, 1500.0)] == [
        "0 W",
        "12.3 W",
        "999 W",
        "1.5 kW",
    ]
    assert percent_text(19.996) == "20.00 %"
    assert [count(number, "host") for number in (0, 1, 2, 1500)] == [
        "0 hosts",
        "1 host",
        "2 hosts",
        "1,500 hosts",
    ]


@pytest.mark.parametrize(
    ("name", "value", "spec", "text"),
    [
        ("cost_j", 3.6e6, "", "1 kWh"),
        ("diff_j", -3.6e6, "abs", "1 kWh"),
        ("limit_w", 2000.0, "", "2 kW"),
        ("soc_pct", 50.0, "", "50.00 %"),
        ("waited_s", 90.0, "", "1 min 30 s"),
        ("reserved_at_s", 90.0, "", "00:01:30"),
        ("ends_by_s", 90.0, "", "00:01:30"),
        ("window_end_s", 90.0, "", "00:01:30"),
        ("planned_on_until_s", 90.0, "", "00:01:30"),
        ("size_host_s", 7200.0, "", "2 host-hours"),
        ("hosts_free", 1, "host", "1 host"),
        ("hosts_free", 12_345, "", "12,345"),
        ("slowdown", 1.2345, "", "1.23"),
        ("reserved_for", "w0!7", "", "w0!7"),
    ],
)
def test_facts(name: str, value: float | str, spec: str, text: str) -> None:
    assert fact(name, value, spec) == text
