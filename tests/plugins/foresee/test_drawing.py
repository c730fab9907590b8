"""Drawn futures: arrivals like those of past days, and production beyond the highest quantile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.plugins.foresee.drawing import draw
from beasy_sched.plugins.foresee.known import EndedJobs, KnownProduction, PresentKnowledge
from beasy_sched.policies.bid_price.estimators import ProductionError

DAY_S = 86_400.0
NONE_ENDED = EndedJobs((), np.zeros(0), np.zeros(0))


def _known() -> PresentKnowledge:
    jobs = [
        ("w0", WorkloadJob(f"w0!{number}", 400.0 * number, 1, "p", 3600.0, None)) for number in range(1, 400)
    ]
    return PresentKnowledge(2 * DAY_S, 4 * DAY_S, (), NONE_ENDED, jobs, [], None, False)


def test_past_jobs_are_repeated_once_on_average() -> None:
    known = _known()
    counts = np.array([len(draw(known, number).future.arrivals) for number in range(200)])
    yesterdays = sum(job.subtime > DAY_S for _, job in known.submitted)
    assert counts.mean() == pytest.approx(2 * yesterdays, rel=0.03)
    assert counts.std() > 0.05 * counts.mean()  # the number of jobs of a day is not certain
    arrivals = draw(known, 7).future.arrivals
    assert [each.job.subtime for each in arrivals] == sorted(each.job.subtime for each in arrivals)
    assert len({each.job.id for each in arrivals}) == len(arrivals)
    assert arrivals == draw(known, 7).future.arrivals


def test_production_exceeds_the_highest_quantile_as_often_as_it_should() -> None:
    steps = 500
    levels = np.array([0.05, 0.5, 0.8, 0.9])
    quantiles = Quantiles(levels, np.outer([100.0, 200.0, 250.0, 300.0], np.ones(steps)))
    zeros = np.zeros(steps)
    production = KnownProduction(
        900.0, 2 * DAY_S, zeros, zeros, 200.0, zeros, zeros, quantiles, ProductionError()
    )
    known = replace(_known(), production=production, has_own=True)
    power_w = np.concatenate([draw(known, number).own_w for number in range(100)])
    for level, quantile_w in zip(levels, (100.0, 200.0, 250.0, 300.0), strict=True):
        assert (power_w <= quantile_w).mean() == pytest.approx(level, abs=0.03)
    assert (power_w > 300.0).any()
