"""Drawn futures: arrivals like those of past days, and production beyond the highest quantile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.forecast.weather import IssuedTable
from beasy_sched.formats.batsim_jobs import WorkloadJob
from beasy_sched.formats.failures import HostFailureKind
from beasy_sched.plugins.foresee.drawing import by_walltimes, draw
from beasy_sched.plugins.foresee.drawn_failures import FailureModel
from beasy_sched.plugins.foresee.known import EndedJobs, KnownProduction, PresentIssues, PresentKnowledge
from beasy_sched.plugins.foresee.options import ForesightOptions
from beasy_sched.policies.bid_price.estimators import ProductionError

DAY_S = 86_400.0
NONE_ENDED = EndedJobs((), np.zeros(0), np.zeros(0))


def _known() -> PresentKnowledge:
    jobs = [
        ("w0", WorkloadJob(f"w0!{number}", 400.0 * number, 1, "p", 3600.0, None)) for number in range(1, 400)
    ]
    in_service = np.ones(50, dtype=np.bool_)
    return PresentKnowledge(2 * DAY_S, 4 * DAY_S, (), NONE_ENDED, jobs, [], None, False, in_service)


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


def _known_production(steps: int, **more: object) -> KnownProduction:
    zeros = np.zeros(steps)
    quantiles = Quantiles(np.array([0.1, 0.5, 0.9]), np.outer([100.0, 200.0, 300.0], np.ones(steps)))
    return KnownProduction(
        3600.0, 2 * DAY_S, zeros, zeros, 200.0, zeros, zeros, quantiles, ProductionError(), **more
    )


def test_each_future_follows_a_member_of_an_ensemble() -> None:
    members_w = np.outer([1.0, 2.0, 3.0], np.arange(1.0, 49.0))
    known = replace(_known(), production=_known_production(48, members_w=members_w), has_own=True)
    drawn = [draw(known, number).own_w for number in range(6)]
    for start in (0, 3):
        firsts = sorted(power_w[0] for power_w in drawn[start : start + 3])
        assert firsts == [1.0, 2.0, 3.0], "each member is as frequent as the others"
    for power_w in drawn:
        np.testing.assert_array_equal(power_w, power_w[0] * np.arange(1.0, 49.0))


def test_forecasts_issued_in_a_future_are_as_uncertain_as_they_should() -> None:
    steps = 48
    valid_s = 2 * DAY_S + 3600.0 * np.arange(96)
    powers_w = np.outer([100.0, 200.0, 300.0], np.ones(96))
    levels = np.array([0.1, 0.5, 0.9])
    newest = IssuedTable(
        np.full(96, 2 * DAY_S), valid_s, powers_w[1], 3600.0, levels=levels, by_level=powers_w
    )
    issues = PresentIssues(newest, np.zeros(96), 2 * DAY_S - 3600.0, 6 * 3600.0, DAY_S)
    known = replace(_known(), production=_known_production(steps, issues=issues), has_own=True)
    hits, widths = [], []
    for number in range(300):
        drawn = draw(known, number)
        table = drawn.issues
        assert table is not None
        assert np.unique(table.issued_s).tolist() == issues.later_s(known.until_s).tolist()
        at_s = float(table.issued_s[0])
        assert table.valid_s[0] == at_s
        hours = np.array([0, 3, 23])
        actual_w = drawn.own_w[round((at_s - 2 * DAY_S) / 3600.0) + hours]
        low_w, _, high_w = table.by_level[:, hours]
        hits.append((low_w <= actual_w) & (actual_w <= high_w))
        widths.append(high_w - low_w)
    assert np.mean(hits, axis=0) == pytest.approx(0.8, abs=0.07)
    narrow, wider, widest = np.mean(widths, axis=0)
    assert narrow < 0.8 * wider < 0.8 * widest < 0.8 * 205.0, "what is near is less uncertain"


def test_servers_fail_and_are_repaired_as_often_as_they_should() -> None:
    in_service = np.arange(50) >= 10
    known = replace(_known(), failures=FailureModel(10 * DAY_S, DAY_S / 4), in_service=in_service)
    assert by_walltimes(known).future.failures == ()
    out_s, first_repairs_s = [], []
    for number in range(100):
        failures = draw(known, number).future.failures
        assert [each.timestamp for each in failures] == sorted(each.timestamp for each in failures)
        works, since_s = in_service.copy(), np.full(50, known.time_s)
        out = 0.0
        for each in failures:
            (host,) = each.hosts.ids.tolist()
            assert known.time_s <= each.timestamp < known.until_s
            assert works[host] == (each.kind is HostFailureKind.BREAKS), "in turn"
            if not works[host]:
                out += each.timestamp - since_s[host]
                if host < 10 and since_s[host] == known.time_s:
                    first_repairs_s.append(each.timestamp - known.time_s)
            works[host], since_s[host] = not works[host], each.timestamp
        out += float((known.until_s - since_s[~works]).sum())
        out_s.append(out / (50 * 2 * DAY_S))
    assert np.mean(first_repairs_s) == pytest.approx(DAY_S / 4, rel=0.1)
    share = 0.25 / 10.25
    towards = (1.0 - np.exp(-2.0 * (4.0 + 0.1))) / (2.0 * (4.0 + 0.1))
    assert np.mean(out_s) == pytest.approx(share + (0.2 - share) * towards, rel=0.1)


def test_options_of_failures_that_need_others() -> None:
    def follower(**given: object) -> object:
        nothing = {"foresee": None, "foresee_at": (), "continuations": None, "at_once": None, "mtbf": None}
        return ForesightOptions(**{**nothing, "repair": None, **given}).follower(print)

    with pytest.raises(ConfigError, match="--mtbf requires --foresee"):
        follower(mtbf=1e6)
    with pytest.raises(ConfigError, match="--repair requires --mtbf"):
        follower(foresee=3600.0, repair=60.0)
    assert follower() is None
    assert follower(foresee=3600.0, mtbf=1e6) is not None
