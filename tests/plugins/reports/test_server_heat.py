"""Means of servers by state and P-state: against counting by hand, and against Batsim's own counts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from plugins.reports.by_hand import write_run
from small_site import small_site

from beasy_sched.plugins.reports.page import Absent, Chart
from beasy_sched.plugins.reports.run_data import read_run_data
from beasy_sched.plugins.reports.server_charts import (
    SPANS,
    Changes,
    Occupation,
    ServerState,
    computing_changes,
    mean_counts,
    server_heat,
    state_bars,
)

pytest.importorskip("pyarrow", reason="reports need pyarrow")


def by_hand(changes: Changes, row: int, start: float, end: float) -> float:
    """The mean of a row's count, from the spans between its changes."""
    own = changes.row == row
    cuts = sorted({start, end, *(t for t in changes.time_s[own].tolist() if start < t < end)})
    area = 0.0
    for a, b in pairwise(cuts):
        area += (b - a) * float(changes.amount[own & (changes.time_s <= (a + b) / 2)].sum())
    return area / (end - start)


@pytest.mark.parametrize("seed", range(8))
def test_means(seed: int) -> None:
    random = np.random.default_rng(seed)
    times_s = np.round(random.uniform(0, 100, 40), int(seed % 3))
    changes = Changes(random.integers(0, 3, 40), times_s, random.integers(-2, 3, 40).astype(float))
    edges_s = np.linspace(0.0, 90.0, 10)
    means = mean_counts(changes, 3, edges_s)
    for row in range(3):
        expected = [by_hand(changes, row, a, b) for a, b in pairwise(edges_s)]
        np.testing.assert_allclose(means[row], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_computing_by_pstate_moment_by_moment(seed: int) -> None:
    """Whole seconds, so that starts, ends and changes of P-state often fall together."""
    random = np.random.default_rng(seed)
    hosts, times_s, pstates, busy = [], [], [], []
    for host in range(4):
        now = 0
        for _ in range(6):
            hosts.append(host)
            times_s.append(float(now))
            pstates.append(int(random.integers(0, 3)))
            now += int(random.integers(1, 12))
        at = 0
        while at < 50:
            start = at + int(random.integers(0, 6))
            at = start + int(random.integers(1, 15))
            busy.append((host, float(start), float(at)))
    occupied = Occupation(*(np.array(column) for column in zip(*busy, strict=True)))
    changes = computing_changes(occupied, np.array(hosts), np.array(times_s), np.array(pstates))
    edges_s = np.arange(0.0, 60.0)
    means = mean_counts(changes, 3, edges_s)
    for second in range(59):
        middle, expected = second + 0.5, [0, 0, 0]
        for host, start, end in busy:
            if start <= middle < end:
                at = max(n for n in range(len(hosts)) if hosts[n] == host and times_s[n] <= middle)
                expected[pstates[at]] += 1
        np.testing.assert_allclose(means[:, second], expected, atol=1e-9)


def test_by_hand(tmp_path: Path) -> None:
    chart = server_heat(read_run_data("a", write_run(tmp_path / "a")), "r")
    assert isinstance(chart, Chart)
    trace = chart.spec["traces"][0]
    hours = dict(zip(trace["y"], (float(row.mean()) * 400.0 for row in trace["z"]), strict=True))
    # Server 1 computes from 50 to 200.001 (from 150 on in P-state 4) and from 300 on; 0 and 2 from 10 to 110.
    assert hours["P0"] == pytest.approx(200 + 100, rel=1e-4)
    assert hours["P4"] == pytest.approx(50 + 100, rel=1e-3)
    assert hours["asleep"] == pytest.approx(290 + 140, rel=1e-4)
    assert hours["→ on"] == pytest.approx(10, rel=1e-4)
    assert hours["→ off"] == pytest.approx(20, rel=1e-4)


@pytest.mark.slow
def test_it_agrees_with_batsims_own_counts(tmp_path: Path) -> None:
    site, prefix = small_site(tmp_path), tmp_path / "run"
    arguments = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site]
    arguments += ["--policy", "bid-price", "-e", prefix, "-q"]
    assert exit_code("simulate", *map(str, arguments)) == 0
    run = read_run_data("run", str(prefix))
    chart = server_heat(run, "r")
    assert isinstance(chart, Chart)
    trace = chart.spec["traces"][0]
    rows = dict(zip(trace["y"], trace["z"], strict=True))
    pstates = [name for name in rows if name.startswith("P")]
    assert len(pstates) > 1
    pd = pytest.importorskip("pandas")
    counted = pd.read_csv(f"{run.prefix}_machine_states.csv").groupby("time").last()
    times_s = counted.index.to_numpy()
    lasts_s = np.diff(times_s, append=run.end_s)
    computing = sum(rows[name].astype(np.float64).mean() for name in pstates)
    assert computing == pytest.approx(float(counted["nb_computing"] @ lasts_s) / run.end_s, rel=1e-4)
    for name, column in (("idle", "nb_idle"), ("asleep", "nb_sleeping")):
        expected = float(counted[column] @ lasts_s) / run.end_s
        assert rows[name].astype(np.float64).mean() == pytest.approx(expected, rel=1e-4)
    total = sum(row.astype(np.float64) for row in rows.values())
    np.testing.assert_allclose(total, 16.0, atol=5e-3)  # kills come a moment after the sleep
    assert len(trace["x"]) == SPANS
    states = state_bars(run.pstates, run.end_s)
    assert (states.what == ServerState.SLEEPING).any()


@pytest.mark.parametrize(
    ("missing", "named"), [("jobs", "jobs.csv"), ("pstate_changes", "pstate_changes.csv")]
)
def test_files_that_are_missing(missing: str, named: str, tmp_path: Path) -> None:
    found = server_heat(read_run_data("a", write_run(tmp_path / "a", **{missing: None})), "r")
    assert isinstance(found, Absent)
    assert named in found.reason
