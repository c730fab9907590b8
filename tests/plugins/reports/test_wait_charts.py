"""How long jobs waited, over time and as a distribution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from plugins.reports.by_hand import write_run

from beasy_sched.plugins.reports.run_data import read_run_data
from beasy_sched.plugins.reports.server_charts import utilization
from beasy_sched.plugins.reports.wait_charts import shares, wait_distribution, waits_over_time, waits_s

pytest.importorskip("pyarrow", reason="reports need pyarrow")


def test_waits(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a"))
    assert run.jobs is not None
    assert waits_s(run, run.jobs).tolist() == [10.0, 30.0, 370.0, 0.0]  # the third waited to the end


def test_over_time(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a"))
    assert run.jobs is not None
    chart = waits_over_time(run, run.jobs, "r")
    longest, mean = ({t: v for t, v in zip(trace["x"], trace["y"], strict=True) if not np.isnan(v)}
                     for trace in chart.spec["traces"])  # fmt: skip
    spans = [pytest.approx(at, abs=1e-6) for at in (0.0, 20.0, 30.0, 300.0)]
    assert [*longest] == spans
    # in minutes
    assert [*longest.values()] == pytest.approx([1 / 6, 0.5, 370 / 60, 0.0])
    assert longest == mean
    assert "never started" in chart.note


def test_shares() -> None:
    x, y = shares(np.array([5.0, 0.0, 5.0, 20.0]))
    assert (x.tolist(), y.tolist()) == ([0.0, 5.0, 20.0], [25.0, 75.0, 100.0])
    x, y = shares(np.arange(10_000.0), most=100)
    assert len(x) == 100
    assert (x[0], x[-1], y[-1]) == (0.0, 9999.0, 100.0)
    np.testing.assert_allclose(y, 100 * (x + 1) / 10_000)


def test_distribution() -> None:
    waits = {"a": (np.array([0.0, 7200.0]), "run-0", "solid"), "b<": (np.array([9.0]), "run-1", "dash")}
    chart = wait_distribution(waits, "k", "t")
    first, second = chart.spec["traces"]
    assert (first["x"].tolist(), first["y"].tolist()) == ([1.0, 7200.0, 7200.0], [50.0, 100.0, 100.0])
    assert (second["name"], second["x"].tolist(), second["y"].tolist()) == (
        "b&lt;",
        [9.0, 7200.0],
        [100.0, 100.0],
    )
    assert chart.spec["layout"]["xaxis"]["ticktext"][-1] == "1 h"


def test_runs_in_which_nobody_waited_are_seen() -> None:
    (trace,) = wait_distribution({"a": (np.zeros(3), "run-0", "solid")}, "k", "t").spec["traces"]
    assert (trace["x"].tolist(), trace["y"].tolist()) == ([1.0, 10.0], [100.0, 100.0])


def test_utilization(tmp_path: Path) -> None:
    chart = utilization(read_run_data("a", write_run(tmp_path / "a")), "r")
    of_on, of_all = chart.spec["traces"]
    assert of_all["y"].tolist() == [0.0, 75.0, 50.0, 25.0, 25.0, 25.0, 25.0]
    assert of_on["y"].tolist() == pytest.approx([0.0, 75.0, 100.0, 50.0, 50.0, 100 / 3, 100 / 3])
    assert "On average 50.00 % of all." in chart.note  # as the summary has it


def test_utilization_without_a_summary(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", summary=None))
    assert "On average 36.25 % of all." in utilization(run, "r").note


def test_the_labels_of_long_waits_stay_apart_on_a_narrow_screen() -> None:
    axis = wait_distribution({"a": (np.array([1.0, 3e5]), "run-0", "solid")}, "k", "t").spec["layout"][
        "xaxis"
    ]
    decades = np.log10([axis["tickvals"][0], 3e5])
    apart_px = 280.0 * np.diff(np.log10(axis["tickvals"])) / (decades[1] - decades[0])
    assert apart_px.min() > 30.0  # half of "10 min" and of "1 h", and a gap
    assert axis["tickangle"] == 0
