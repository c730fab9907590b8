"""Plans that are made during a run: from the levels, servers and jobs that they are given."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import hydrogen
from planner.test_windows import LOAD_W, PLATFORM, RENEW_W, SITE, SPEC, planned

from beasy_sched.energy.grid import Grid
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.engine.run_findings import plan_start
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.planner import windows
from beasy_sched.planner.forecast import draw_by_busy_w, full_draw_w
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import Plan, PlanStore, Provenance, Rolled
from beasy_sched.planner.requests import (
    NO_JOBS,
    JobForecast,
    KnownJobs,
    PlanRequest,
    PowerForecast,
    ServerStart,
    Span,
    WindowForecast,
)
from beasy_sched.planner.servers import least_power_w
from beasy_sched.planner.windows import NoPlan, first_shortage, make_plans, plan_windows

pytest.importorskip("highspy", reason="planning needs the HiGHS solver")

STEPS = SITE.steps


def request(
    window: int,
    level: StorageState,
    *,
    servers: ServerStart | None = None,
    first_step: int = 0,
    ahead: int = 2,
    load_w: np.ndarray = LOAD_W,
    renew_w: np.ndarray = RENEW_W,
) -> PlanRequest:
    """Ask for the rest of a window, and for up to ``ahead`` windows in all."""
    begin = window * STEPS + first_step
    edges = [begin, *((window + n) * STEPS for n in range(1, ahead + 1))]
    parts = tuple(
        WindowForecast(window + n, load_w[a:b], renew_w[a:b])
        for n, (a, b) in enumerate(pairwise(edges))
        if b <= len(load_w)
    )
    rolled = Rolled(window, begin * SITE.step_s - 300.0, level.battery_j, level.hydrogen_kg, 0, 0)
    servers = servers or ServerStart.all_on(PLATFORM)
    return PlanRequest(begin * SITE.step_s, level, servers, parts, rolled)


def made(asked: PlanRequest, site=SITE, **choices: Any) -> tuple[Plan, ...]:
    return make_plans(site, PLATFORM, asked, OfflineOptions(**choices), Provenance("a test"))


def at_pct(pct: float) -> StorageState:
    return StorageState(SPEC.capacity_j * pct / 100.0)


def server_start_after(plan: Plan) -> ServerStart:
    assert plan.servers is not None
    start = ServerStart.all_on(PLATFORM)
    return ServerStart.after(PLATFORM, plan.servers.states, SITE.step_s, 3600.0, start)


def test_where_all_came_as_planned_the_plan_is_that_of_all_windows_at_once() -> None:
    at_once = planned()
    for window in range(1, 4):
        before = at_once[window - 1]
        found = made(request(window, before.level_at(-1), servers=server_start_after(before)))[0]
        assert found.servers is not None
        expected = at_once[window]
        assert expected.servers is not None
        assert np.array_equal(found.servers.states, expected.servers.states)
        assert np.array_equal(found.power.envelope_w, expected.power.envelope_w)
        assert found.start_s == expected.start_s
        assert found.provenance.rolled.number == window


@settings(max_examples=examples(6), deadline=None, derandomize=True)
@given(st.floats(10.0, 100.0), st.integers(0, STEPS - 12))
def test_a_plan_begins_at_the_level_it_is_given_and_ends_at_its_target(pct: float, first_step: int) -> None:
    level = at_pct(pct)
    rest, after = made(request(1, level, first_step=first_step))
    if pct > 12.0:
        assert rest.level_at(0) == level
    assert rest.steps == STEPS - first_step
    assert after.start_s == rest.end_s
    assert after.level_at(0) == rest.level_at(-1)
    assert min(rest.soc_pct.min(), after.soc_pct.min()) >= SPEC.soc_min_pct - 1e-4
    assert after.soc_pct[-1] >= min(SPEC.soc_target_pct, 0.98 * rest.soc_pct[-1]) - 1e-4
    store = PlanStore(planned())
    store.renew((rest, after))
    assert store.end_s == 4 * SITE.window_s


def test_a_target_out_of_reach_is_lowered_to_the_level_there_is() -> None:
    dark = least_power_w(PLATFORM, len(LOAD_W), 300.0) * 1.001
    (plan, *_) = made(request(0, at_pct(30.0), renew_w=dark))
    assert plan.storage.battery.soc_target_pct == pytest.approx(0.98 * 30.0)
    assert plan.soc_pct[-1] >= 0.98 * 30.0 - 1e-4


def test_a_level_below_the_least_is_planned_from_the_least() -> None:
    """And from a little more where sleeping servers need that, for which the guard goes below the least."""
    (plan, *_) = made(request(0, at_pct(4.0)))
    assert SPEC.soc_min_pct - 1e-4 <= plan.soc_pct[0] < SPEC.soc_min_pct + 1.0


# --- a site that cannot stay above SoC_min even with all servers asleep ---------------------------------

AT_MIN = replace(SITE, storage=Storage(replace(SPEC, soc_start_pct=SPEC.soc_min_pct)))
DAWN_W = np.where(np.arange(len(RENEW_W)) < 12, 0.0, RENEW_W + 100.0)
"""An hour without any production, which sleeping servers cannot be supplied in."""
FALLS_BELOW = "soc_min_pct: even with all servers asleep, the battery falls below 10 %, first at hour 0.0833"


def first_request(site=AT_MIN, renew_w: np.ndarray = DAWN_W) -> PlanRequest:
    return request(0, site.storage.start(), renew_w=renew_w)


def test_all_plans_have_the_same_words_for_it() -> None:
    with pytest.raises(NoPlan) as refused:
        plan_windows(AT_MIN, PLATFORM, LOAD_W, DAWN_W, provenance=Provenance("a test"))
    told = str(refused.value).removeprefix("window 0: ")
    assert told.startswith(FALLS_BELOW)
    first, second = made(first_request(), AT_MIN)
    assert first.shortage == first.provenance.solved[0].message == told
    assert second.shortage == ""
    assert first_shortage(AT_MIN, PLATFORM, first_request(), OfflineOptions()) == told
    found = plan_start(PlanStore([first, second]))
    assert found is not None
    assert (found.code, found.text.startswith(told)) == ("sleep-short", True)


def test_a_run_can_begin_with_such_a_plan() -> None:
    plans = PlanStore(made(first_request(), AT_MIN))
    raised_pct = plans[0].soc_pct[0]
    assert SPEC.soc_min_pct + 1.0 < raised_pct < SPEC.soc_min_pct + 30.0
    assert plans[0].asked_level == AT_MIN.storage.start()
    plans.check_fits(PLATFORM, AT_MIN)
    higher = replace(AT_MIN, storage=Storage(replace(SPEC, soc_start_pct=20.0)))
    with pytest.raises(ConfigError, match="the plan starts with the battery at 10 %, the site at 20 %"):
        plans.check_fits(PLATFORM, higher)


def test_a_site_that_can_is_not_said_to_lack_anything() -> None:
    asked = request(0, SITE.storage.start())
    assert first_shortage(SITE, PLATFORM, asked, OfflineOptions()) == ""
    plan = made(asked)[0]
    assert (plan.shortage, plan.provenance.solved[0].message) == ("", "")
    assert plan_start(PlanStore([plan])) is None


def test_without_any_plan_the_verdict_is_raised_in_the_same_words() -> None:
    tiny = replace(AT_MIN, storage=Storage(replace(AT_MIN.storage.battery, discharge_limit_w=1.0)))
    told = []
    for attempt in (
        lambda: plan_windows(tiny, PLATFORM, LOAD_W, DAWN_W, provenance=Provenance("a test")),
        lambda: made(first_request(tiny), tiny),
        lambda: first_shortage(tiny, PLATFORM, first_request(tiny), OfflineOptions()),
    ):
        with pytest.raises(NoPlan) as refused:
            attempt()
        told.append(str(refused.value))
    assert told[0] == told[1] == told[2]
    assert "the sleeping servers alone need" in told[0]


def test_the_grid_lowers_the_level_that_sleeping_servers_need() -> None:
    dark_w = least_power_w(PLATFORM, 12, 300.0).mean()
    starts = []
    for import_w in (0.0, 0.5 * dark_w):
        site = replace(AT_MIN, grid=Grid(import_w) if import_w else None)
        starts.append(made(first_request(site), site)[0].soc_pct[0] - SPEC.soc_min_pct)
    assert starts[1] < 0.7 * starts[0]


def test_a_window_may_have_a_target_of_its_own() -> None:
    site = replace(SITE, storage=Storage(SPEC, hydrogen(electrolyzer_max_w=200.0)))
    full = StorageState(SPEC.max_j, 1.0)
    (plan,) = made(request(0, full, ahead=1), site, tank_targets_kg=(1.001,))
    assert plan.power.hydrogen_kg[-1] >= 1.001 - 1e-6
    assert plan.storage.hydrogen.level_target_kg == 1.001


def test_a_later_window_without_a_plan_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_first = windows.plan_window

    def only_first(*given: Any, **named: Any) -> Any:
        if given[4].window > 0:
            raise NoPlan("it rained")
        return plan_first(*given, **named)

    monkeypatch.setattr(windows, "plan_window", only_first)
    assert [plan.start_s for plan in made(request(0, at_pct(50.0)))] == [0.0]
    with pytest.raises(NoPlan, match="it rained"):
        made(request(1, at_pct(50.0)))


# --- the demand ---------------------------------------------------------------------------------------


def span(first_step: int = 12, steps: int = 60) -> Span:
    return Span(first_step * 300.0 - 300.0, first_step * 300.0, steps, 300.0)


JOB = st.tuples(st.integers(1, 6), st.floats(0.0, 4000.0), st.floats(0.0, 4000.0))


def host_seconds(load_w: np.ndarray) -> float:
    draw_w = draw_by_busy_w(PLATFORM)
    return float(np.interp(load_w, draw_w, np.arange(len(draw_w))).sum() * 300.0)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(JOB, max_size=5), st.lists(JOB, max_size=5))
def test_no_job_is_forgotten(known: list[tuple], coming: list[tuple]) -> None:
    """What known jobs have left, and all of what jobs to come need, is in the demand."""
    hosts, left_s, _ = (np.array(column) for column in zip(*known, strict=True)) if known else ([], [], [])
    jobs = KnownJobs(np.array(hosts, dtype=np.int64), np.array(left_s), np.zeros(len(known)))
    more = np.array([job[0] for job in coming], dtype=np.int64)
    run_s = np.array([job[1] for job in coming])
    submit_s = np.array([job[2] for job in coming])
    of = span(steps=600)
    expected = float((jobs.hosts * jobs.left_s).sum())
    later = submit_s > of.asked_s
    expected += float((more * run_s)[later].sum())
    load_w = JobForecast(submit_s, run_s, more).load_w(PLATFORM, jobs, of)
    assert host_seconds(load_w) == pytest.approx(expected, rel=1e-6, abs=1.0)


def test_a_job_that_reaches_into_the_next_window_is_in_its_demand() -> None:
    long_job = KnownJobs(np.array([2]), np.array([60 * 300.0]), np.zeros(1))
    nothing = JobForecast(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))
    load_w = nothing.load_w(PLATFORM, long_job, span(first_step=STEPS - 10, steps=10 + STEPS))
    assert np.all(load_w[:60] == draw_by_busy_w(PLATFORM)[2])
    assert np.all(load_w[60:] == draw_by_busy_w(PLATFORM)[0])


def test_powers_are_taken_as_they_are_and_lateness_is_added() -> None:
    series = PowerForecast(LOAD_W)
    assert np.array_equal(series.load_w(PLATFORM, NO_JOBS, span(12, 60)), LOAD_W[12:72])
    on_time = KnownJobs(np.array([3]), np.array([3000.0]), np.zeros(1))
    assert np.array_equal(series.load_w(PLATFORM, on_time, span(12, 60)), LOAD_W[12:72])
    late = KnownJobs(np.array([1]), np.array([3000.0]), np.array([1500.0]))
    more = host_seconds(series.load_w(PLATFORM, late, span(12, 60))) - host_seconds(LOAD_W[12:72])
    assert more == pytest.approx(1500.0, rel=1e-6)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(st.lists(JOB, max_size=4), st.integers(0, 200), st.lists(st.floats(0.0, 3.0), min_size=3, max_size=3))
def test_quantiles_of_powers_are_taken_as_the_powers_are(
    known: list[tuple], first_step: int, shares: list[float]
) -> None:
    hosts, left_s, late_s = (np.array(column) for column in zip(*known, strict=True)) if known else ([],) * 3
    jobs = KnownJobs(np.array(hosts, dtype=np.int64), np.array(left_s), np.array(late_s))
    by_level_w = np.outer(np.sort(shares), LOAD_W)
    series = PowerForecast(LOAD_W, Quantiles(np.array([0.1, 0.5, 0.9]), by_level_w))
    of = span(first_step, 100)
    found = series.load_quantiles(PLATFORM, jobs, of)
    assert found is not None
    for quantile_w, given_w in zip(found.power_w, by_level_w, strict=True):
        assert quantile_w == pytest.approx(PowerForecast(given_w).load_w(PLATFORM, jobs, of))


def test_demand_without_quantiles() -> None:
    assert PowerForecast(LOAD_W).load_quantiles(PLATFORM, NO_JOBS, span(0, 10)) is None
    nothing = JobForecast(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64))
    assert nothing.load_quantiles(PLATFORM, NO_JOBS, span(0, 10)) is None


def test_plans_have_the_quantiles_that_they_were_asked_for_with() -> None:
    asked = request(0, at_pct(50.0))
    plain = made(asked)
    bands = [Quantiles(np.array([0.1, 0.9]), np.stack([0.0 * p.load_w, 1.5 * p.load_w])) for p in asked.parts]
    parts = tuple(replace(p, load_quantiles=q) for p, q in zip(asked.parts, bands, strict=True))
    bounded = made(replace(asked, parts=parts))
    assert len(bounded) == len(plain) == 2
    for before, plan, part in zip(plain, bounded, parts, strict=True):
        assert plan.power.battery_j.tolist() == before.power.battery_j.tolist()
        assert not plan.demand.low_w.any()
        assert plan.demand.high_w == pytest.approx(np.minimum(1.5 * part.load_w, full_draw_w(PLATFORM)))


# --- the store ------------------------------------------------------------------------------------------


def test_new_plans_take_the_place_of_old_ones_from_their_start_on() -> None:
    store, old = PlanStore(planned()), planned()
    fresh = made(request(1, at_pct(80.0), first_step=30))
    store.renew(fresh)
    assert [(plan.start_s / 300.0, plan.steps) for plan in store] == [
        (0, 72),
        (72, 30),
        (102, 42),
        (144, 72),
        (216, 72),
    ]
    assert store[1].servers is not None
    assert old[1].servers is not None
    assert np.array_equal(store[1].servers.states, old[1].servers.states[:30])
    assert store[1].level_at(-1) == old[1].level_at(30)
    assert store[2] is fresh[0]
    assert store[3] is fresh[1]
    assert store.version == 1
    for plan in store:
        plan.check()
    place = store.place(102 * 300.0)
    assert place is not None
    assert (place.window, place.step) == (2, 0)
    assert [plan.steps for plan in store.until(110 * 300.0)] == [72, 30, 8]


def test_a_plan_of_another_site_changes_nothing() -> None:
    store = PlanStore(planned())
    other = replace(made(request(1, at_pct(80.0)))[0], storage=Storage(replace(SPEC, capacity_j=1e9)))
    before = [*store]
    with pytest.raises(ConfigError):
        store.renew([other])
    assert [*store] == before
    assert store.version == 0
