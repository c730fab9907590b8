"""Campaigns: means, intervals, and what is said of runs that are missing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from plugins.reports.by_hand import row

from beasy_sched.plugins.campaigns.campaign_html import (
    campaign_html,
    compared_policies,
    load_bars,
    outcome_bars,
    spread,
)
from beasy_sched.plugins.campaigns.campaign_table import COLUMNS, GRID_COLUMNS, RESTART_COLUMNS
from beasy_sched.plugins.reports.comparison import FIGURES, GRID_FIGURES, MEASURES
from beasy_sched.plugins.reports.intervals import NOT_NEGATIVE, PERCENT, UNLIMITED, ValueRange, mean_of

pandas = pytest.importorskip("pandas", reason="reports need pandas")
pytest.importorskip("plotly", reason="reports need plotly")

RUNS = [row("easy", 1, 5), row("easy", 2, 7), row("beasy", 1, 9), row("beasy", 2, 10)]


def page(rows: list[dict[str, Any]], expected: int | None = None, name: str = "c") -> str:
    return "".join(campaign_html(name, pandas.DataFrame(rows), len(rows) if expected is None else expected))


@pytest.mark.parametrize(
    ("values", "mean", "half"),
    [([3.0], 3.0, np.nan), ([1.0, 3.0], 2.0, 12.706), ([1.0, 2.0, 3.0], 2.0, 4.303 / np.sqrt(3.0)),
     ([0.0, 2.0] * 50, 1.0, 1.984 * np.sqrt(100 / 99) / 10)],
)  # fmt: skip
def test_intervals(values: list[float], mean: float, half: float) -> None:
    found = mean_of(np.array(values))
    np.testing.assert_allclose(found.value, mean, rtol=1e-3)
    np.testing.assert_allclose((found.low, found.high), (mean - half, mean + half), rtol=1e-3)
    assert found.has_interval == (len(values) > 1)


@pytest.mark.parametrize(
    ("within", "values", "low", "high"),
    [(PERCENT, [99.0, 100.0], 99.5 - 6.353, 100.0), (PERCENT, [0.0, 1.0], 0.0, 6.853),
     (PERCENT, [100.0, 100.0], 100.0, 100.0), (NOT_NEGATIVE, [0.0, 200.0], 0.0, 1370.6),
     (UNLIMITED, [0.0, 1.0], -5.853, 6.853), (ValueRange(1.0), [1.0, 1.2], 1.0, 2.3706)],
)  # fmt: skip
def test_intervals_stay_within_what_is_possible(
    within: ValueRange, values: list[float], low: float, high: float
) -> None:
    found = mean_of(np.array(values), within)
    np.testing.assert_allclose((found.low, found.high), (low, high), rtol=1e-3)


def test_shares_are_percentages_and_energies_not_negative() -> None:
    for name, figure in MEASURES.items():
        if name.endswith("_pct"):
            assert figure.range == PERCENT, name
        elif name != "cost":
            assert np.isfinite(figure.range.least), name


def test_every_measure_is_a_column_of_the_table_of_runs() -> None:
    assert {*MEASURES} <= {column.name for column in (*COLUMNS, *GRID_COLUMNS, *RESTART_COLUMNS)}
    assert {figure.column for figure in GRID_FIGURES} <= {column.name for column in GRID_COLUMNS}


def test_outcomes() -> None:
    chart = outcome_bars(pandas.DataFrame(RUNS), ["easy", "beasy"], "k")
    shown = {trace["name"]: (trace["y"], list(trace["x"])) for trace in chart.spec["traces"]}
    assert shown == {
        "finished": (["easy", "beasy"], [60.0, 95.0]),
        "killed": (["easy", "beasy"], [40.0, 5.0]),
    }


def test_spread() -> None:
    chart = spread(pandas.DataFrame(RUNS), ["easy", "beasy"], FIGURES[0], "k")
    assert chart is not None
    boxes, means = chart.spec["traces"]
    assert (boxes["y"], list(boxes["x"])) == (["easy", "easy", "beasy", "beasy"], [50.0, 70.0, 90.0, 100.0])
    assert list(means["x"]) == [60.0, 95.0]
    np.testing.assert_allclose(means["error_x"]["arrayminus"], [60.0, 63.53])
    np.testing.assert_allclose(means["error_x"]["array"], [40.0, 5.0])
    assert list(means["customdata"]) == ["mean 60.00 [0.00, 100.00] %", "mean 95.00 [31.47, 100.00] %"]
    assert spread(pandas.DataFrame(RUNS), ["easy", "beasy"], FIGURES[1], "k") is None


def test_table() -> None:
    columns, rows = compared_policies(pandas.DataFrame(RUNS), ["easy", "beasy"])
    assert [(column.title, column.unit) for column in columns] == [("runs", ""), ("Finished jobs", "%")]
    assert [(row.name, row.values, row.texts) for row in rows] == [
        ("easy", [2.0, 60.0], ["2", "60.00 [0.00, 100.00]"]),
        ("beasy", [2.0, 95.0], ["2", "95.00 [31.47, 100.00]"]),
    ]


def test_values_that_are_not_known() -> None:
    rows = [row("easy", 1, 5, soc_lowest_pct=None), row("beasy", 1, 5, soc_lowest_pct=20.0)]
    _, table = compared_policies(pandas.DataFrame(rows), ["easy", "beasy"])
    assert [(each.value(-1), each.texts[-1]) for each in table if each.texts] == [
        (None, "-"),
        (20.0, "20.00"),
    ]


GRID = {"green_kwh": 30.0, "green_share": 0.75, "import_kwh": 10.0, "cost": 2.0, "carbon_kg": None}


@pytest.mark.slow
def test_green_charts_where_there_is_a_grid() -> None:
    rows = [row("easy", 1, 5, **GRID), row("easy", 2, 5, **(GRID | {"import_kwh": 20.0}))]
    text = page(rows)
    assert re.findall(r'id="part-1-(load|green_share|import_kwh|cost|carbon_kg)"', text) == [
        "load", "green_share", "import_kwh", "cost",
    ]  # fmt: skip
    chart = load_bars(pandas.DataFrame(rows), ["easy"], "k")
    assert chart is not None
    assert {trace["name"]: list(trace["x"]) for trace in chart.spec["traces"]} == {
        "green": [30.0],
        "from the grid": [15.0],
    }
    assert load_bars(pandas.DataFrame(RUNS), ["easy"], "k") is None
    assert "grid" not in page(RUNS).partition("<script>")[0].partition("<main>")[2].replace(
        'class="grid"', ""
    )


@pytest.mark.slow
def test_conditions_and_what_is_missing() -> None:
    failed = row("easy", 3, 0, status="failed", error="<it> broke", finished_pct=None)
    text = page([*RUNS, failed, row("easy", 1, 4, veto=False, guard="kill-all")], expected=9)
    assert re.findall(r'<p class="warning">(.*?)</p>', text) == [
        "3 of 9 runs are not finished; the results are preliminary.",
        "easy-3 failed: &lt;it&gt; broke",
    ]
    assert re.findall(r"<h2>(.*?)</h2>", text) == [
        "Missing runs", "All conditions", "s: guard shed, with veto", "s: guard kill-all, without veto",
    ]  # fmt: skip
    shown = '<td data-value="60.0">60.00 <span class="spread">[0.00, 100.00]</span></td>'
    assert f'<th scope="row">easy</th><td data-value="2.0">2</td>{shown}' in text  # without the failed run
    assert text == page([*RUNS, failed, row("easy", 1, 4, veto=False, guard="kill-all")], expected=9)


def test_no_run_at_all() -> None:
    frame = pandas.DataFrame(RUNS).iloc[:0]
    text = "".join(campaign_html("c", frame, 4))
    assert "4 of 4 runs are not finished" in text


def test_hostile_names() -> None:
    text = page([row("<img src=x>", 1, 5)], name="</title><script>")
    assert "<img" not in text
    assert "</title><script>" not in text


def test_an_error_is_told_once_with_its_runs() -> None:
    failed = [row("easy", seed, 0, status="failed", error="it broke") for seed in range(3, 13)]
    other = row("beasy", 3, 0, status="failed", error="it burnt")
    assert re.findall(r'<p class="warning">(.*?)</p>', page([*RUNS, *failed, other])) == [
        "easy-3, easy-4, easy-5, easy-6, easy-7, easy-8, easy-9, easy-10 and 2 more failed: it broke",
        "beasy-3 failed: it burnt",
    ]
