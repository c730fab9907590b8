"""Forecasts do not change the run, equal what happens where all is certain, and survive trouble."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.arrays import FloatArray
from beasy_sched.energy import sources
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import PartFile
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee import children, drawing, following
from beasy_sched.plugins.foresee.children import Lost, run_children
from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
from beasy_sched.plugins.foresee.forecast import DECODER
from beasy_sched.policies.registry import built_in
from beasy_sched.run.in_process import run_in_process
from tests.plugins.foresee.foreseen_site import (
    HOUR_S,
    MILL,
    FutureSite,
    changed,
    foreseen,
    replace,
    some_jobs,
    sunny_w,
    with_policy,
)
from tests.river import RIVER
from tests.small_site import differing

PLAIN = [
    name
    for name in ("fcfs", "easy", "workload-reactive", "power-reactive", "bid-price")
    if name in built_in()
]


def _site(seed: int = 3) -> FutureSite:
    return FutureSite(some_jobs(np.random.default_rng(seed), until_s=40 * HOUR_S), sunny_w(48), window_h=48)


@pytest.mark.parametrize("policy", PLAIN)
@pytest.mark.sampled
def test_a_run_is_the_same_with_and_without_forecasts(tmp_path: Path, policy: str) -> None:
    site = _site()
    (tmp_path / "out").mkdir()
    inputs, settings = site.write(tmp_path / "in")
    settings = changed(settings, policy=policy)
    for name, followers in (
        ("with", [ForecastFollower(Moments(11 * HOUR_S), continuations=2, at_once=2)]),
        ("without", []),
    ):
        folder = tmp_path / name
        folder.mkdir()
        run_in_process(inputs, RunFiles(str(folder / "run"), settings), followers=followers)
    assert differing(tmp_path / "with", tmp_path / "without") == ["run_foresee.jsonl"]


def _certain(days: int) -> FutureSite:
    """Every day is like the first, and every job takes its walltime."""
    day = [
        {
            "id": f"d{number}",
            "at": 600.0 + 1500.0 * number,
            "res": 1 + number % 3,
            "walltime": 5400.0 + 60.0 * (number % 4),
        }
        for number in range(40)
    ]
    jobs = [
        {
            **job,
            "id": f"{job['id']}_{which}",
            "at": job["at"] + which * 24 * HOUR_S,
            "run": job["walltime"] * 2,
            "delay": True,
        }
        for which in range(days)
        for job in day
    ]
    return FutureSite(jobs, sunny_w(24 * days), window_h=24 * days, hosts=5)


@pytest.mark.parametrize("policy", PLAIN)
@pytest.mark.sampled
def test_a_certain_future_is_foreseen_to_the_digit(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_repeats", _once)
    _check_certain(_certain(3), tmp_path, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*built_in()])
def test_a_certain_future_is_foreseen_by_every_policy(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_repeats", _once)
    number = [*built_in()].index(policy)
    _check_certain(
        replace(with_policy(_certain(3), policy, number), window_h=36, windows=2), tmp_path, policy
    )


def test_a_site_with_its_own_sources_and_announced_ones_is_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_repeats", _once)
    monkeypatch.setitem(sources.KINDS, RIVER.name, RIVER)
    site = replace(_certain(3), site_more=MILL)
    (forecast,) = foreseen(site, tmp_path, "easy", Moments(at_s=(34 * HOUR_S,)), continuations=2).forecasts
    assert forecast.steps is not None
    for told, actual in zip(forecast.steps.soc_pct, forecast.steps.actual_soc_pct, strict=True):
        assert told == pytest.approx([actual] * 5, abs=0.05)


def _once(weights: FloatArray, rng: np.random.Generator) -> list[int]:
    """Repeat each past job once, so that each day is as the one before."""
    return [1] * len(weights)


def _check_certain(site: FutureSite, folder: Path, policy: str) -> None:
    moments = Moments(at_s=(26 * HOUR_S, 30 * HOUR_S + 100.0))
    found = foreseen(site, folder, policy, moments, continuations=2).forecasts
    assert len(found) == 2
    for forecast in found:
        assert forecast.lost == 0
        for job in forecast.jobs:
            if job.started_s is not None and job.started_s <= forecast.horizon_s:
                assert job.start_s == [job.started_s] * 3
                assert job.end_s in ([job.ended_s] * 3, None)
                assert job.never == 0.0
        assert forecast.steps is not None
        assert forecast.steps.actual_soc_pct is not None
        for told, actual in zip(forecast.steps.soc_pct, forecast.steps.actual_soc_pct, strict=True):
            assert told == pytest.approx([actual] * 5, abs=1e-6)
    assert any(forecast.jobs for forecast in found)


def test_the_file_has_a_line_for_each_moment_with_what_happened(tmp_path: Path) -> None:
    foresight = foreseen(_site(), tmp_path, "easy", Moments(12 * HOUR_S), continuations=2)
    lines = (tmp_path / "run_foresee.jsonl").read_bytes().splitlines()
    forecasts = [DECODER.decode(line) for line in lines]
    assert [forecast.time_s for forecast in forecasts] == [12 * HOUR_S, 24 * HOUR_S, 36 * HOUR_S]
    assert forecasts == foresight.forecasts
    assert all(forecast.continuations == 2 for forecast in forecasts)
    assert any("promised 80 %" in line for line in foresight.lines())


def test_a_moment_after_the_end_is_reported(tmp_path: Path) -> None:
    said: list[str] = []
    late = Moments(at_s=(100 * HOUR_S, 50 * HOUR_S, 100 * HOUR_S))
    foreseen(_site(), tmp_path, "easy", late, warn=said.append)
    assert len(said) == 1
    assert said[0].startswith("no forecast at 180000 s, 360000 s: the run ended at 17")


def test_without_a_site_jobs_are_foreseen(tmp_path: Path) -> None:
    site = replace(_site(), with_site=False, hosts=4)
    (forecast,) = foreseen(site, tmp_path, "easy", Moments(at_s=(20 * HOUR_S,)), continuations=3).forecasts
    assert forecast.steps is None
    assert forecast.shortage is None
    assert forecast.jobs
    for job in forecast.jobs:
        assert job.start_s is not None
        assert job.start_by_walltimes_s is not None


# --- trouble ----------------------------------------------------------------------------------------------


def test_results_are_in_order_and_lost_children_are_reported() -> None:
    def killed() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    def fails() -> bytes:
        raise ValueError

    def late() -> bytes:
        time.sleep(600)
        return b""

    large = bytes(3_000_000)
    found = run_children([lambda: b"one", killed, fails, late, lambda: large], 2, limit_s=5.0)
    assert found[0] == b"one"
    assert found[4] == large
    assert found[1:4] == [Lost("was killed by signal 9"), Lost("failed"), Lost("took longer than 5 s")]


@pytest.mark.slow
def test_lost_continuations_are_counted_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = following.draw

    def draw_or_die(known, number, seed):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(known, number, seed)

    monkeypatch.setattr(following, "draw", draw_or_die)
    said: list[str] = []
    (forecast,) = foreseen(
        _site(), tmp_path, "easy", Moments(at_s=(9 * HOUR_S,)), continuations=3, warn=said.append
    ).forecasts
    assert (forecast.continuations, forecast.lost) == (2, 1)
    assert said == ["forecast at 32400 s: one continuation of 4 was killed by signal 9; the others count"]


def test_without_fork_forecasts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(children.os, "fork")
    with pytest.raises(ConfigError, match="which this system does not have"):
        ForecastFollower(Moments(3600.0))


def test_a_failing_fork_costs_the_forecast_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(children.os, "fork", fork)
    said: list[str] = []
    foresight = foreseen(
        _site(), tmp_path, "easy", Moments(at_s=(9 * HOUR_S,)), continuations=2, warn=said.append
    )
    assert foresight.forecasts == []
    assert said == [
        "forecast at 32400 s: 3 continuations of 3 could not be begun: Resource temporarily unavailable;"
        " no forecast"
    ]
    assert (tmp_path / "run_summary.json").exists()


def test_a_full_disk_costs_the_forecasts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PartFile.write

    def write(self: PartFile, text: object) -> None:
        if b'"continuations"' in (text if isinstance(text, bytes) else str(text).encode()):
            from beasy_sched.errors import InputError

            raise InputError("run_foresee.jsonl", "No space left on device")
        real(self, text)

    monkeypatch.setattr(PartFile, "write", write)
    said: list[str] = []
    foreseen(_site(), tmp_path, "easy", Moments(at_s=(9 * HOUR_S,)), continuations=2, warn=said.append)
    assert said == ["the forecasts could not be written: run_foresee.jsonl: No space left on device"]
    assert (tmp_path / "run_summary.json").exists()
    assert not list(tmp_path.glob("*foresee*"))
