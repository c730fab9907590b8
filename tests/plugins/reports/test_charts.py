"""What the charts show of a run made by hand: every number of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_cases import hand_plan
from plugins.reports.by_hand import STARTS, TRACE, summary, write_run

from beasy_sched.energy.storage import Storage
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugins.reports import energy_charts as energy_module
from beasy_sched.plugins.reports.energy_charts import dangerous_steps, energy_charts
from beasy_sched.plugins.reports.html import curves_together, overall_bars, table
from beasy_sched.plugins.reports.notebook import sparkline
from beasy_sched.plugins.reports.page import Absent, Chart, power_unit
from beasy_sched.plugins.reports.run_data import RunData, read_run_data
from beasy_sched.plugins.reports.server_charts import server_charts

pytest.importorskip("pyarrow", reason="reports need pyarrow")


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    return read_run_data("a", write_run(tmp_path / "a"))


def chart(charts: list[Chart | Absent], key: str) -> Chart:
    found = [c for c in charts if isinstance(c, Chart) and c.key == f"r-{key}"]
    assert len(found) == 1
    return found[0]


def curves(chart: Chart) -> dict[str, tuple[list[float], list[float]]]:
    return {
        trace["name"]: (list(trace["x"]), np.round(np.asarray(trace["y"], dtype=np.float64), 6).tolist())
        for trace in chart.spec["traces"]
    }


def test_power_balance(run: RunData) -> None:
    found = chart(energy_charts(run, None, "r"), "balance")
    edges = [0.0, 100.0, 200.0, 300.0, 400.0]
    assert curves(found) == {
        "production (solar, wind)": (edges, [0.5, 0.0, 0.1, 2.0, 2.0]),
        "battery discharge": (edges, [0.0, 0.25, 0.0, 0.0, 0.0]),
        "unserved": (edges, [0.0, 0.05, 0.0, 0.0, 0.0]),
        "demand of the servers": (edges, [-0.3, -0.3, -0.1, -0.2, -0.2]),
        "battery charge": (edges, [-0.2, 0.0, 0.0, -0.8, -0.8]),
        "curtailed": (edges, [0.0, 0.0, 0.0, -1.0, -1.0]),
    }
    assert found.note == "Zero at all times: fuel cell, electrolyzer."
    np.testing.assert_allclose(np.sum([trace["y"] for trace in found.spec["traces"]], axis=0), 0.0, atol=1e-6)


def test_state_of_charge(run: RunData) -> None:
    found = chart(energy_charts(run, None, "r"), "soc")
    shown = curves(found)
    assert shown["real"] == ([0.0, 100.0, 200.0, 300.0, 400.0], [50.0, 55.0, 45.0, 45.0, 60.0])
    assert shown["kills"] == ([200.0], [45.0])  # what the end of the run cut off is no kill
    limits = {note["text"]: note["y"] for note in found.spec["layout"]["annotations"]}
    assert limits == {"minimum": 20.0, "maximum": 90.0, "target": 50.0}
    kills = next(trace for trace in found.spec["traces"] if trace["name"] == "kills")
    assert kills["text"] == ["1 job killed: w!2 (guard: no energy for it)"]


def test_a_target_with_a_band_is_an_area(run: RunData, tmp_path: Path) -> None:
    site = {**summary()["site"], "target_band_pct": 5.0}
    banded = read_run_data("b", write_run(tmp_path / "b", summary=json.dumps(summary(site=site))))
    found = chart(energy_charts(banded, None, "r"), "soc")
    areas = [(each["y0"], each["y1"]) for each in found.spec["layout"]["shapes"] if each["type"] == "rect"]
    assert areas == [(45.0, 55.0)]
    assert "On target (grey): 45 to 55 %." in found.note
    assert sparkline(np.array([50.0, 60.0]), banded.battery).count("<rect") == 1
    assert sparkline(np.array([50.0, 60.0]), run.battery).count("<rect") == 0
    plain = chart(energy_charts(run, None, "r"), "soc").spec["layout"]["shapes"]
    assert all(each["type"] == "line" for each in plain)


def test_queue(run: RunData) -> None:
    shown = curves(chart(server_charts(run, "r"), "queue"))
    assert shown["jobs"] == ([0.0, 10.0, 20.0, 30.0, 50.0, 300.0, 400.0], [1, 0, 1, 2, 1, 1, 1])
    assert shown["servers requested"][1] == [2, 0, 1, 5, 4, 4, 4]


def test_servers_by_state(run: RunData) -> None:
    shown = curves(chart(server_charts(run, "r"), "states"))
    assert shown["computing"] == ([0.0, 10.0, 100.0, 110.0, 250.0, 260.0, 400.0], [0, 3, 2, 1, 1, 1, 1])
    total = np.sum([y for _, y in shown.values()], axis=0)
    assert set(total) == {4.0}


def test_curves_end_where_their_data_end(tmp_path: Path) -> None:
    """The trace ends with the window, at 400 s; the run goes on to 900 s."""
    told = summary(end_s=900.0)
    told["jobs"] |= {"postponed": 1}
    run = read_run_data("a", write_run(tmp_path / "a", summary=json.dumps(told)))
    last = {
        found.key: {trace["x"][-1] for trace in found.spec["traces"] if trace["mode"] == "lines"}
        for found in (*energy_charts(run, None, "r"), *server_charts(run, "r"))
        if isinstance(found, Chart) and found.spec["kind"] == "time"
    }
    assert last == {
        "r-balance": {400.0}, "r-soc": {400.0}, "r-queue": {900.0}, "r-states": {900.0},
        "r-utilization": {900.0},
    }  # fmt: skip


def test_runs_of_different_lengths_on_one_axis(tmp_path: Path) -> None:
    runs = []
    for name, end_s in (("short", 400.0), ("long", 900.0)):
        told = json.dumps(summary(end_s=end_s))
        runs.append(read_run_data(name, write_run(tmp_path / name, summary=told)))
    soc, queues = (
        each for each in curves_together(runs) if isinstance(each, Chart) and each.key != "all-waits"
    )
    assert (soc.spec["end"], queues.spec["end"]) == (900.0, 900.0)
    assert {name: (x[0], y[0], x[-1]) for name, (x, y) in curves(soc).items()} == {
        "short": (0.0, 50.0, 400.0), "long": (0.0, 50.0, 400.0),
    }  # fmt: skip
    assert {name: x[-1] for name, (x, _) in curves(queues).items()} == {"short": 400.0, "long": 900.0}


def test_gantt(run: RunData) -> None:
    spec = chart(server_charts(run, "r"), "gantt").spec
    assert spec["servers"] == 4
    assert spec["jobs"]["id"] == ["w!1", "w!2", "w!3", "w!4"]
    assert spec["bars"]["job"].tolist() == [0, 0, 1, 3]
    rules = [spec["jobs"]["rules"][n] if n >= 0 else None for n in spec["jobs"]["rule"]]
    assert rules == [None, "guard: no energy for it", None, "the run is over"]


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("energy_trace", "the run has no energy_trace.csv"),
        ("jobs", "the run has no jobs.csv"),
        ("machine_states", "the run has no machine_states.csv"),
    ],
)
@pytest.mark.parametrize("content", [None, ""])
def test_a_missing_file_is_a_line_that_says_so(
    tmp_path: Path, missing: str, reason: str, content: str | None
) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", **{missing: content}))
    absent = [c for c in [*energy_charts(run, None, "r"), *server_charts(run, "r")] if isinstance(c, Absent)]
    assert len(absent) == 1 + (missing == "jobs")  # the map of servers needs the jobs, too
    assert all(each.reason.startswith(reason) for each in absent)


def test_gantt_without_pstates(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", pstate_changes=None))
    found = chart(server_charts(run, "r"), "gantt")
    assert found.spec["states"] == {}
    assert "no pstate_changes.csv" in found.note


@pytest.mark.parametrize(
    ("trace", "shown"), [(TRACE, False), (TRACE.replace("45.0,0.0,0.0", "45.0,1.5,0.0"), True)]
)
def test_hydrogen_only_where_there_is_some(tmp_path: Path, trace: str, shown: bool) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", energy_trace=trace))
    keys = [c.key for c in energy_charts(run, None, "r") if isinstance(c, Chart)]
    assert ("r-hydrogen" in keys) is shown


def test_dangerous_steps_start_from_the_real_level(tmp_path: Path) -> None:
    """Two windows planned from 50 %: five of nine curves end below 61 %. The second really starts at 90 %."""
    first = hand_plan()
    storage = Storage(
        replace(first.storage.battery, soc_min_pct=61.0, soc_start_pct=65.0, soc_target_pct=65.0)
    )
    first = replace(first, storage=storage)
    second = replace(first, start_s=first.end_s)
    rows = [
        f"{n},{n * 3600},3600,0,1000,0,1000,0,0,0,0,{soc},0,0"
        for n, soc in enumerate((70, 60, 90, 90, 80, 60))
    ]
    trace = "\n".join([TRACE.splitlines()[0], *rows]) + "\n"
    run = read_run_data("a", write_run(tmp_path / "a", energy_trace=trace))
    assert dangerous_steps(run, [first, second]).tolist() == [False, False, True, False, False, False]
    assert dangerous_steps(run, [second]).tolist() == [False] * 6


def test_dangerous_steps_are_shaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run_data("a", write_run(tmp_path / "a"))
    monkeypatch.setattr(energy_module, "dangerous_steps", lambda *_: np.array([True, False, True, True]))
    found = chart(energy_charts(run, PlanStore([hand_plan()]), "r"), "soc")
    spans = [(s["x0"], s["x1"]) for s in found.spec["layout"]["shapes"] if s["type"] == "rect"]
    assert spans == [(0.0, 100.0), (200.0, 400.0)]
    assert found.note.endswith("3 of 4.")


def test_a_rejected_job_waits_until_then(tmp_path: Path) -> None:
    rejected = json.dumps({"time": 120.0, "action": "reject", "job": "w!3", "rule": "never fits"}) + "\n"
    run = read_run_data("a", write_run(tmp_path / "a", decisions=STARTS + rejected))
    times, jobs = curves(chart(server_charts(run, "r"), "queue"))["jobs"]
    assert (times, jobs) == ([0.0, 10.0, 20.0, 30.0, 50.0, 120.0, 300.0, 400.0], [1, 0, 1, 2, 1, 0, 0, 0])


def test_table_of_runs(tmp_path: Path) -> None:
    other: dict[str, Any] = summary(site=None)
    del other["site"], other["energy_kwh"]
    other["settings"]["policy"] = "fcfs"
    runs = [
        read_run_data("a", write_run(tmp_path / "a")),
        read_run_data("b", write_run(tmp_path / "b", summary=json.dumps(other))),
        read_run_data("c", write_run(tmp_path / "c", summary=None)),
    ]
    rows = dict(table(runs))
    assert rows["policy"] == ["easy", "fcfs", ""]
    assert rows["guard"] == ["shed, with veto", "", ""]
    assert rows["settings"] == ["", "", "unknown: no summary.json"]
    outcomes, energy = overall_bars(runs)
    finished = next(t for t in outcomes.spec["traces"] if t["name"] == "finished")
    assert (finished["y"], list(finished["x"])) == (["a", "b", "c"], [25.0, 25.0, 25.0])
    assert energy.spec["traces"][0]["y"] == ["a"]
    assert [c.key for c in curves_together(runs)] == ["all-soc", "all-queue", "all-waits"]
    assert curves_together(runs[:1]) == []


@pytest.mark.parametrize(("most", "unit"), [(999.0, "W"), (1e3, "kW"), (2.5e6, "MW")])
def test_units(most: float, unit: str) -> None:
    assert power_unit(most)[0] == unit
