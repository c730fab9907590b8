"""How far a campaign is, how fast it goes, and how long it will still take."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from command_line import exit_code
from small_campaign import Here, scenario

from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.folder import Folder
from beasy_sched.plugins.campaigns.status import rate_per_s, status_lines, status_of

pytest.importorskip("pandas", reason="tables need pandas")


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that was interrupted: one plan, and two of twelve runs."""
    folder = tmp_path_factory.mktemp("campaign") / "out"
    begin([scenario()], folder)
    with pytest.raises(KeyboardInterrupt):
        go_on(folder, Here(most=3))
    return folder


def as_json(folder: Path, capfd: pytest.CaptureFixture[str]) -> dict:
    assert exit_code("campaign", "status", str(folder), "--json") == 0
    return json.loads(capfd.readouterr().out)


def test_what_does_not_run_has_no_rate(half_done: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second, last = status_lines(status_of(half_done))
    assert (first, second) == ("2 of 12 runs are finished", "  small: 2 of 12")
    assert last == f"to continue: beasy-sched campaign resume {half_done}"
    found = as_json(half_done, capfd)
    assert not found["running"]
    assert found["left_s"] is found["runs_per_minute"] is found["table"] is None
    assert found["scenarios"] == {"small": {"runs": 12, "ended": 2, "failed": 0}}


def test_what_runs_has_a_rate_and_time_left(half_done: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Folder(half_done).locked():
        started_s = time.time() - 40.0
        os.utime(half_done / ".lock", (started_s, started_s))
        (line, _) = status_lines(status_of(half_done))
        found = as_json(half_done, capfd)
    assert found["running"]
    assert found["running_for_s"] == pytest.approx(40, abs=10)
    ended = found["runs_per_minute"] * found["running_for_s"] / 60
    assert ended == pytest.approx(2, rel=0.2)
    assert found["left_s"] == pytest.approx(10 * 60 / found["runs_per_minute"])
    assert line.startswith("2 of 12 runs are finished; ")
    assert " runs a minute, about " in line
    assert "resume" not in line


def test_a_campaign_that_has_just_been_resumed_has_no_rate_yet(half_done: Path) -> None:
    for path in (half_done / "rows").iterdir():
        long_ago_s = time.time() - 3600.0
        os.utime(path, (long_ago_s, long_ago_s))
    with Folder(half_done).locked():
        (line, _) = status_lines(status_of(half_done))
    assert line.startswith("2 of 12 runs are finished; running for ")
    assert line.endswith("none has finished since then")


@pytest.mark.parametrize(
    ("ended_at_s", "now_s", "rate"),
    [
        ([], 110.0, None),
        ([50.0, 90.0], 110.0, None),  # before it was resumed
        ([50.0, 104.0], 110.0, 1 / 10),
        ([102.0, 104.0, 106.0], 110.0, 3 / 10),
        ([100.0 + n for n in range(20, 60)], 160.0, 20 / 21),  # plans took the first 20 s
    ],
)
def test_the_rate(ended_at_s: list[float], now_s: float, rate: float | None) -> None:
    assert rate_per_s(ended_at_s, 100.0, now_s) == (rate if rate is None else pytest.approx(rate))
