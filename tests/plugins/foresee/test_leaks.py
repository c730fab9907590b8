"""Forecasts contain nothing of the real future: with another one after the moment, no byte changes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from beasy_sched.model.choices import OnKill
from beasy_sched.model.restarts import first_id
from beasy_sched.plugins.foresee.drawn_failures import FailureModel
from beasy_sched.plugins.foresee.following import Moments
from tests.plugins.foresee.foreseen_site import (
    HOUR_S,
    FutureSite,
    foreseen,
    replace,
    some_jobs,
    sunny_w,
    told,
)

RESTART = """
[restart]
interval_s = 600
dump_s = 30
"""
AT_S = 30 * HOUR_S + 17.0


def _ended_by(folder: Path, time_s: float, *, come_back: bool = False) -> set[str]:
    """Return the jobs that have ended by a time; those that were killed have not if they ``come_back``."""
    with (folder / "run_jobs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["finish_time"]]
    return {
        first_id(row["job_id"])
        for row in rows
        if float(row["finish_time"]) <= time_s and not (come_back and "KILLED" in row["final_state"])
    }


def _with_another_future(site: FutureSite, ended: set[str]) -> FutureSite:
    """Replace run times of what has not ended, arrivals, production, prices and failures after the moment."""
    rng = np.random.default_rng(99)
    jobs = []
    for job in site.jobs:
        if job["at"] > AT_S:
            continue
        # longer than it can have run by the moment
        jobs.append(
            job if job["id"] in ended else {**job, "run": job["walltime"] * 0.999, "delay": job["delay"]}
        )
    for number in range(25):
        at_s = round(AT_S + 5.0 + 300.0 * number, 3)
        jobs.append(
            {
                "id": f"other{number}",
                "at": at_s,
                "res": 2,
                "walltime": 5000.0,
                "run": 4000.0,
                "user": 1,
                "delay": False,
            }
        )
    power_w = site.power_w.copy()
    first = int(AT_S // 300) + 1
    power_w[first:] = np.round(rng.uniform(0.0, 5000.0, len(power_w) - first), 1)
    known_h = int(AT_S // HOUR_S) + 25
    prices = [*site.prices[:known_h], *(9.0 for _ in site.prices[known_h:])]
    known_h = int(AT_S // HOUR_S) + 2  # a straight line leads to the hour after the present one
    temperatures_c = [*site.temperatures_c[:known_h], *(35.0 for _ in site.temperatures_c[known_h:])]
    services_kw = [*site.services_kw[:known_h], *(1.5 for _ in site.services_kw[known_h:])]
    failures = [line for line in site.failures if line["timestamp"] <= AT_S]
    failures.append({"timestamp": AT_S + 60.0, "type": "breaks", "resources": "0-3"})
    return replace(
        site,
        jobs=jobs,
        power_w=power_w,
        prices=prices,
        failures=failures,
        temperatures_c=temperatures_c,
        services_kw=services_kw,
    )


@pytest.mark.parametrize("policy", ["easy", "bid-price", "power-reactive"])
@pytest.mark.parametrize(("grid", "loads"), [(False, False), (True, False), (True, True)])
@pytest.mark.sampled
def test_the_future_does_not_show_in_a_forecast(tmp_path: Path, policy: str, grid: bool, loads: bool) -> None:
    rng = np.random.default_rng(5)
    site = FutureSite(
        some_jobs(rng, until_s=60 * HOUR_S),
        sunny_w(72),
        hosts=5,
        prices=[0.1 + 0.01 * (hour % 24) for hour in range(24 * 5)] if grid else (),
        temperatures_c=[15.0 + 8.0 * np.sin(hour / 4.0) for hour in range(24 * 5)] if loads else (),
        services_kw=[0.2 + 0.01 * (hour % 11) for hour in range(24 * 5)] if loads else (),
        failures=[{"timestamp": 0.0, "type": "wakes_fail", "resources": "4", "percent": 0.0}],
    )
    moments = Moments(at_s=(AT_S,))
    one = told(foreseen(site, tmp_path / "one", policy, moments))
    other_site = _with_another_future(site, _ended_by(tmp_path / "one", AT_S))
    other = told(foreseen(other_site, tmp_path / "other", policy, moments))
    assert len(one) == 1
    assert b'"jobs":[{' in one[0], "no job waits: the test shows nothing"
    assert one == other


@pytest.mark.sampled
def test_failures_are_those_of_the_model_and_not_the_actual_ones(tmp_path: Path) -> None:
    site = FutureSite(
        some_jobs(np.random.default_rng(5), until_s=60 * HOUR_S),
        sunny_w(72),
        hosts=5,
        failures=[{"timestamp": 0.0, "type": "breaks", "resources": "4"}],
    )
    moments, model = Moments(at_s=(AT_S,)), FailureModel(40 * HOUR_S, 3 * HOUR_S)
    one = told(foreseen(site, tmp_path / "one", "easy", moments, failures=model))
    other_site = _with_another_future(site, _ended_by(tmp_path / "one", AT_S))
    other = told(foreseen(other_site, tmp_path / "other", "easy", moments, failures=model))
    assert b'"jobs":[{' in one[0], "no job waits: the test shows nothing"
    assert one == other
    assert told(foreseen(site, tmp_path / "none", "easy", moments)) != one, "no server fails"
    whole = replace(site, failures=[])
    alone = foreseen(whole, tmp_path / "alone", "easy", moments, failures=model)
    assert told(alone) != told(foreseen(whole, tmp_path / "neither", "easy", moments)), "no server fails"
    assert alone.forecasts[0].lost == 0


@pytest.mark.parametrize("columns", [("p10", "p50", "p90"), ("m1", "m2", "m3"), ("power_w",)])
@pytest.mark.sampled
def test_forecasts_that_are_issued_later_do_not_show(tmp_path: Path, columns: tuple[str, ...]) -> None:
    def issues(seed: int, start_h: int, end_h: int) -> list[tuple[float, list[list[float]]]]:
        rng = np.random.default_rng(seed)
        shares = [0.5, 1.0, 1.5] if len(columns) == 3 else [1.0]
        return [
            (hour * HOUR_S, np.outer(rng.uniform(100.0, 2000.0, 30), shares).round(1).tolist())
            for hour in range(start_h, end_h, 6)
        ]

    site = FutureSite(
        some_jobs(np.random.default_rng(5), until_s=44 * HOUR_S, count=40),
        sunny_w(48),
        hosts=5,
        forecast=issues(1, 0, 48),
        forecast_columns=columns,
    )
    moments = Moments(at_s=(AT_S,))
    one = told(foreseen(site, tmp_path / "one", "bid-price", moments))
    other_site = _with_another_future(site, _ended_by(tmp_path / "one", AT_S))
    other_site = replace(other_site, forecast=[*issues(1, 0, 31), *issues(2, 36, 48)])
    other = told(foreseen(other_site, tmp_path / "other", "bid-price", moments))
    assert b'"jobs":[{' in one[0], "no job waits: the test shows nothing"
    assert one == other
    other_site = replace(site, forecast=[*issues(1, 0, 25), *issues(3, 30, 48)])
    assert told(foreseen(other_site, tmp_path / "third", "bid-price", moments)) != one


@pytest.mark.parametrize("on_kill", [OnKill.REQUEUE, OnKill.CHECKPOINT])
@pytest.mark.parametrize("kind", ["task", "sequence", "mixed"])
@pytest.mark.parametrize("seed", range(8, 14))
@pytest.mark.sampled(2)
def test_the_work_of_jobs_that_come_back_does_not_show(
    tmp_path: Path, on_kill: OnKill, kind: str, seed: int
) -> None:
    """Jobs are killed before the moment and in its continuations: what they have left is unknown."""
    rng = np.random.default_rng(seed)
    site = FutureSite(
        [{**job, "kind": kind} for job in some_jobs(rng, until_s=60 * HOUR_S, count=70)],
        sunny_w(72, most_w=900.0),
        hosts=5,
        on_kill=on_kill,
        site_more=RESTART,
    )
    moments = Moments(at_s=(AT_S,))
    problems: list[str] = []
    one = told(foreseen(site, tmp_path / "one", "easy", moments, warn=problems.append))
    ended = _ended_by(tmp_path / "one", AT_S, come_back=True)
    other_site = _with_another_future(site, ended)
    other = told(foreseen(other_site, tmp_path / "other", "easy", moments, warn=problems.append))
    assert problems == []
    came_back = (tmp_path / "one" / "run_jobs.csv").read_text().count("#1,")
    assert came_back > 1, "no job came back: the test shows nothing"
    assert one == other
