"""Tables of runs: what is best, what is alike, what is not known."""

from __future__ import annotations

import math
import re

import pytest

from beasy_sched.plugins.reports.comparison import (
    BEST_MARK,
    Better,
    ComparedColumn,
    ComparedRow,
    best_values,
    comparison_html,
)


def column(better: Better, unit: str = "%") -> ComparedColumn:
    return ComparedColumn("share", unit, better, digits=1)


def rows(*values: float | None) -> list[ComparedRow]:
    return [ComparedRow(f"r{number}", [value]) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("better", "values", "best"),
    [
        (Better.HIGH, (1.0, 3.0, 2.0), {3.0}),
        (Better.LOW, (1.0, 3.0, 2.0), {1.0}),
        (Better.NEITHER, (1.0, 3.0, 2.0), set()),
        (Better.HIGH, (1.0, None, 2.0), {2.0}),
        (Better.HIGH, (math.nan, 1.0, 2.0), {2.0}),
        (Better.HIGH, (99.98, 100.0, None), set()),
        (Better.HIGH, (90.0, 100.0, None), {100.0}),
        (Better.HIGH, (2.0, 2.0), set()),
        (Better.HIGH, (2.0, None), set()),
        (Better.HIGH, (2.04, 2.0, 1.0), {2.0}),
        (Better.LOW, (2.04, 1.96, 3.0), {2.0}),
        (Better.NOT_NEGATIVE, (-3.0, 5.0, 0.0), {5.0, 0.0}),
        (Better.NOT_NEGATIVE, (-7e-15, 40.0, -3.0), {0.0, 40.0}),
        (Better.NOT_NEGATIVE, (-30.01, -30.02, -40.0), {-30.0}),
        (Better.NOT_NEGATIVE, (-30.01, -30.02), set()),
        (Better.NOT_NEGATIVE, (-3.0, -1.0), {-1.0}),
        (Better.NOT_NEGATIVE, (3.0, 1.0), set()),
        (Better.LOW, (None, None), set()),
    ],
)
def test_the_best(better: Better, values: tuple[float | None, ...], best: set[float]) -> None:
    assert best_values([column(better)], rows(*values)) == [best]


def test_what_is_about_as_good_and_what_is_good_enough() -> None:
    near = ComparedColumn("wasted", "kWh", Better.LOW, slack=0.01)
    assert best_values([near], rows(10.0, 10.09, 10.11)) == [{10.0, 10.09}]
    assert best_values([near], rows(0.0, 0.01)) == [{0.0}]
    assert best_values([near], rows(10.0, 10.05)) == [set()]
    lowest = ComparedColumn("lowest charge", "%", Better.HIGH, enough=20.0)
    assert best_values([lowest], rows(49.0, 51.0, 20.0)) == [set()]
    assert best_values([lowest], rows(19.0, 51.0, 20.0)) == [{51.0, 20.0}]


def test_rows_that_are_shown_alike_are_one() -> None:
    text = comparison_html([column(Better.HIGH)], rows(1.0, 2.0, 1.01), "run")
    assert re.findall(r'<tr data-place="(\d)">', text) == ["0", "1"]
    assert re.findall(r"<summary>(.*?)</summary><ul><li>(.*?)</li>", text) == [
        ("and 1 with equal values", "r2")
    ]
    assert re.findall(rf'data-value="(\S+)"><b title="best">{BEST_MARK}</b>', text) == ["2.0"]


def test_columns_that_nobody_knows_are_left_out() -> None:
    columns = [column(Better.HIGH), ComparedColumn("nothing", "", Better.LOW)]
    rows = [ComparedRow("a", [1.0, None]), ComparedRow("b", [math.nan, math.nan])]
    text = comparison_html(columns, rows, "run")
    assert "nothing" not in text
    assert "nan" not in text
    assert "<td>-</td>" in text


def test_nothing_known_at_all() -> None:
    text = comparison_html([column(Better.HIGH)], rows(None, None), "run")
    assert re.findall(r'<th scope="row">(.*?)</th>', text) == ["r0", "r1"]


def test_names_are_escaped() -> None:
    text = comparison_html([column(Better.HIGH, "<i>")], [ComparedRow("<b>", [1.0], note="<u>")], "<s>")
    assert not re.search("<(b|i|u|s)>", text)


def test_all_that_are_shown_as_the_best_are_marked() -> None:
    points = ComparedColumn("charge off target", "points", Better.NOT_NEGATIVE, 1, signed=True)
    values = {"on it": [-7e-15, 1.0], "above": [38.7, 2.0], "below": [-30.01, 3.0]}
    rows = [ComparedRow(name, each) for name, each in values.items()]
    text = comparison_html([points, column(Better.LOW)], rows, "run")
    assert re.findall(rf"{BEST_MARK}</b> (.*?)</td>", text) == ["+0.0", "1.0", "+38.7"]


def test_heads_say_which_end_is_the_best() -> None:
    text = comparison_html([column(Better.LOW), column(Better.HIGH)], [ComparedRow("a", [1.0, 2.0])], "run")
    assert re.findall(r'<th scope="col"(.*?) aria-sort', text) == [' class="first"', ' data-best="low"', ""]
