"""Intervals keep their promise; the script and the panel show forecasts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.plugins.foresee.calibration import FAN_MISSES, MISSES, Calibration, class_of
from beasy_sched.plugins.foresee.drawing import PRIOR_SHARES, RunShares
from beasy_sched.plugins.foresee.following import Moments
from beasy_sched.plugins.foresee.known import EndedJobs, PresentJob
from beasy_sched.plugins.foresee.panels import panels
from beasy_sched.plugins.reports.run_data import read_run_data
from tests.plugins.foresee.foreseen_site import HOUR_S, FutureSite, foreseen, some_jobs, sunny_w

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_intervals_hold_what_they_promise_however_wrong_the_continuations_are(spread: float) -> None:
    rng = np.random.default_rng(1)
    calibration, hits = Calibration(), []
    for _ in range(4000):
        drawn = 20_000.0 + 3000.0 * spread * rng.standard_normal(30)
        low, middle, high = calibration.interval("start", 0.0, drawn.tolist())
        assert low <= middle <= high
        truth = 20_000.0 + 3000.0 * rng.standard_normal()
        hits.append(low <= truth <= high)
        calibration.learn("start", class_of(0.0, middle), hits[-1])
    assert np.mean(hits[500:]) == pytest.approx(1.0 - MISSES, abs=0.02)


def test_without_a_hit_or_miss_an_interval_has_85_percent_of_the_continuations() -> None:
    times_s = [float(number) for number in range(1, 40)]
    assert Calibration().interval("start", 0.0, times_s) == pytest.approx((3.0, 20.0, 37.0))
    assert Calibration().interval("end", 0.0, [5.0, 5.0]) == (5.0, 5.0, 5.0)


def test_a_class_begins_with_the_level_of_all() -> None:
    calibration = Calibration()
    for _ in range(10):
        calibration.learn("start", 0, False)
    assert calibration.level("start", 3) == pytest.approx(0.15 - 10 * 0.02 * 0.8)
    assert calibration.level("end", 3) == pytest.approx(0.15)
    for _ in range(200):
        calibration.learn("start", 3, True)
    assert calibration.level("start", 3) > calibration.level("start", 0) + 0.2


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_fans_hold_what_they_promise_however_wrong_the_continuations_are(spread: float) -> None:
    rng = np.random.default_rng(2)
    calibration, hits = Calibration(), []
    for _ in range(3000):
        low, *inner, high = calibration.fan(
            "soc", 6 * HOUR_S, (50.0 + 5.0 * spread * rng.standard_normal(30)).tolist()
        )
        assert [low, *inner, high] == sorted([low, *inner, high])
        hits.append(low <= 50.0 + 5.0 * rng.standard_normal() <= high)
        calibration.learn("soc", class_of(0.0, 6 * HOUR_S), hits[-1])
    assert np.mean(hits[500:]) == pytest.approx(1.0 - FAN_MISSES, abs=0.02)


def test_without_a_hit_or_miss_a_fan_is_that_of_the_continuations() -> None:
    levels = [float(number) for number in range(1, 40)]
    assert Calibration().fan("soc", HOUR_S, levels) == [2.0, 10.0, 20.0, 30.0, 38.0]
    assert Calibration().fan("soc", HOUR_S, [7.0] * 3) == [7.0] * 5


@pytest.mark.slow
def test_fans_are_adapted_while_the_run_goes(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=40 * HOUR_S, count=100)
    site = FutureSite(jobs, sunny_w(48), window_h=48, hosts=4)
    foresight = foreseen(site, tmp_path, "easy", Moments(12 * HOUR_S), continuations=2)
    # known at the third moment: 1, 6 and 24 hours after the first, 1 and 6 hours after the second
    assert {kind_class for kind_class in foresight.calibration.levels if kind_class[0] == "soc"} == {
        ("soc", 0),
        ("soc", 1),
        ("soc", 2),
    }


def test_run_times_are_those_of_the_user_and_longer_than_what_was_used() -> None:
    rng = np.random.default_rng(1)
    users = ("a",) * 10 + ("b",) * 15
    run_s = np.array([100.0] * 10 + [500.0] * 15)
    known = RunShares(EndedJobs(users, np.full(25, 1000.0), run_s))
    drawn = {known.draw(PresentJob("j", "a", 2000.0, -1.0), rng) for _ in range(50)}
    assert drawn == {200.0}
    assert {known.draw(PresentJob("j", "new", 2000.0, -1.0), rng) for _ in range(50)} == {200.0, 1000.0}
    assert {known.draw(PresentJob("j", "a", 2000.0, 700.0), rng) for _ in range(50)} == {2000.0}
    few = RunShares(EndedJobs(("a",) * 9, np.full(9, 1000.0), np.full(9, 100.0)))
    assert few.shares("a") is PRIOR_SHARES
    assert float(PRIOR_SHARES.mean()) == pytest.approx(0.7, abs=0.01)
    unlimited = PresentJob("j", "a", np.inf, 300.0)
    assert {known.draw(unlimited, rng) for _ in range(20)} == {500.0}


@pytest.mark.slow
def test_the_report_shows_forecasts(tmp_path: Path) -> None:
    jobs = some_jobs(np.random.default_rng(3), until_s=20 * HOUR_S, count=60)
    site = FutureSite(jobs, sunny_w(24), window_h=24, hosts=4)
    foreseen(site, tmp_path, "easy", Moments(8 * HOUR_S), continuations=2)
    levels, starts = panels(read_run_data("run", str(tmp_path / "run")), "run-1")
    assert (levels.title, starts.title) == ("Battery, as forecast", "Starts of jobs, as forecast")
    names = [trace["name"] for trace in levels.spec["traces"]]
    assert names == ["forecast, 5 %", "forecast, median", "forecast, 95 %", "actual"]
    for trace in (*levels.spec["traces"], *starts.spec["traces"]):
        assert np.isfinite(trace["x"]).all(), "the page cannot draw times that are not numbers"


@pytest.mark.slow
def test_the_script_prints_a_row_for_each_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    rows = ["; MaxProcs: 8"]
    for number, submit_s in enumerate(np.sort(rng.integers(0, 80_000, 90)).tolist(), 1):
        run_s, hosts = int(rng.integers(600, 7000)), int(rng.integers(1, 6))
        values = [number, submit_s, 0, run_s, hosts, -1, -1, hosts, 9000, -1, 1, number % 4, *[-1] * 6]
        rows.append(" ".join(map(str, values)))
    trace = tmp_path / "small.swf"
    trace.write_text("\n".join([*rows, ""]))
    spec = importlib.util.spec_from_file_location(
        "foresee_accuracy", ROOT / "scripts" / "foresee_accuracy.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.users_of(trace)["5"] == 1
    script.main([str(trace), "--quick"])
    header, _, row = (line for line in capsys.readouterr().out.splitlines() if line.startswith("|"))
    assert header.startswith("| trace | policy |")
    assert row.startswith("| small | easy | ")
