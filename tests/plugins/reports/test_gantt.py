"""Rectangles of the Gantt chart, exactly; and against Batsim's own count of servers by state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from plugins.reports.by_hand import PSTATES, write_run
from small_site import small_site

from beasy_sched.errors import InputError
from beasy_sched.plugins.reports.run_data import read_run_data
from beasy_sched.plugins.reports.server_charts import Rectangles, ServerState, job_bars, lost_bars, state_bars
from beasy_sched.run.results import LogLine

pytest.importorskip("pyarrow", reason="reports need pyarrow")

ON, ASLEEP, WAKING, FALLING, LOST = (state.value for state in ServerState)


def rectangles(bars: Rectangles) -> list[tuple[float, ...]]:
    columns = (bars.start_s, bars.end_s, bars.low, bars.high, bars.what, bars.pstate)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_job_bars(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a"))
    assert run.jobs is not None
    bars = job_bars(run.jobs, "a_jobs.csv")
    assert rectangles(bars) == [
        (10.0, 110.0, 0, 0, 0, -1),
        (10.0, 110.0, 2, 2, 0, -1),
        (50.0, 200.001, 1, 1, 1, -1),
        (300.0, 400.001, 1, 1, 3, -1),
    ]


def test_state_bars(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a"))
    bars = state_bars(run.pstates, 400.0)
    assert sorted(rectangles(bars)) == [
        (0.0, 100.0, 2, 3, ON, 0),
        (0.0, 150.0, 1, 1, ON, 0),
        (0.0, 400.0, 0, 0, ON, 0),
        (100.0, 110.0, 2, 3, FALLING, -1),
        (110.0, 250.0, 3, 3, ASLEEP, -1),
        (110.0, 400.0, 2, 2, ASLEEP, -1),
        (150.0, 400.0, 1, 1, ON, 4),
        (250.0, 260.0, 3, 3, WAKING, -1),
        (260.0, 400.0, 3, 3, ON, 2),
    ]


def test_a_server_that_comes_back_to_its_sleep_did_not_wake(tmp_path: Path) -> None:
    """Batsim numbers P-states of sleep like others: only where it came from tells it apart."""
    changes = "time,machine_id,new_pstate\n0,0-1,0\n10,0-1,-2\n20,0-1,2\n50,0-1,-1\n60,0,2\n60,1,0\n"
    run = read_run_data("a", write_run(tmp_path / "a", pstate_changes=changes))
    bars = state_bars(run.pstates, 400.0)
    assert sorted(rectangles(bars))[-3:] == [
        (50.0, 60.0, 0, 1, WAKING, -1),
        (60.0, 400.0, 0, 0, ASLEEP, -1),
        (60.0, 400.0, 1, 1, ON, 0),
    ]


def test_a_server_that_starts_asleep_and_does_not_wake(tmp_path: Path) -> None:
    changes = "time,machine_id,new_pstate\n0,0,2\n50,0,-1\n60,0,2\n"
    run = read_run_data("a", write_run(tmp_path / "a", pstate_changes=changes))
    assert rectangles(state_bars(run.pstates, 400.0))[-1] == (60.0, 400.0, 0, 0, ASLEEP, -1)


def test_lost_bars() -> None:
    lines = [
        LogLine(10.0, "lost", hosts="0-2"),
        LogLine(20.0, "lost", hosts="1"),
        LogLine(30.0, "back", hosts="1"),
        LogLine(40.0, "back", hosts="0 3"),
        LogLine(50.0, "lost", hosts="1"),
    ]
    assert sorted(rectangles(lost_bars(lines, 100.0, "a"))) == [
        (10.0, 30.0, 1, 1, LOST, -1),
        (10.0, 40.0, 0, 0, LOST, -1),
        (10.0, 100.0, 2, 2, LOST, -1),
        (50.0, 100.0, 1, 1, LOST, -1),
    ]
    assert len(lost_bars([], 100.0, "a")) == 0
    with pytest.raises(InputError, match="a: hosts: "):
        lost_bars([LogLine(10.0, "lost", hosts="x")], 100.0, "a")


def test_no_change_at_all(tmp_path: Path) -> None:
    run = read_run_data("a", write_run(tmp_path / "a", pstate_changes=PSTATES.splitlines()[0] + "\n"))
    assert len(state_bars(run.pstates, 400.0)) == 0


@pytest.mark.parametrize("text", ["x-3", "1..2", ""])
def test_servers_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    prefix = write_run(tmp_path / "a", pstate_changes=PSTATES.replace("2-3,-2", f"{text},-2"))
    with pytest.raises(InputError, match=r"a_pstate_changes.csv:3: machine_id: found "):
        read_run_data("a", prefix)


@pytest.mark.slow
def test_states_agree_with_batsims_own_count(tmp_path: Path) -> None:
    site = small_site(tmp_path)
    prefix = tmp_path / "out" / "run"
    arguments = [
        "-p",
        site.platform,
        "-w",
        site.workload,
        "--events",
        site.events,
        "--site",
        site.site,
        "-e",
        prefix,
    ]
    assert exit_code("simulate", *map(str, arguments), "--policy", "workload-reactive", "-q") == 0
    run = read_run_data("run", str(prefix))
    bars = state_bars(run.pstates, run.end_s)
    pd = pytest.importorskip("pandas")
    counted = pd.read_csv(f"{prefix}_machine_states.csv").groupby("time").last()
    middles = (counted.index.to_numpy()[1:] + counted.index.to_numpy()[:-1]) / 2
    within = (bars.start_s[:, None] <= middles) & (middles < bars.end_s[:, None])
    sizes = (bars.high - bars.low + 1)[:, None] * within
    on = counted["nb_idle"] + counted["nb_computing"]
    expected = {ON: on, ASLEEP: counted["nb_sleeping"], WAKING: counted["nb_switching_on"],
                FALLING: counted["nb_switching_off"]}  # fmt: skip
    assert counted["nb_sleeping"].max() > 0
    for state, column in expected.items():
        np.testing.assert_array_equal(sizes[bars.what == state].sum(axis=0), column.to_numpy()[:-1])
