"""bid-price as a whole: nothing killed, the target kept, on every kind of site."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from world_checks import check
from worlds import GEARED, STEP_S, World, WorldJob, random_world, run
from worlds import Run as WorldRun

from beasy_sched.energy.site import GuardMode
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import FactDict
from beasy_sched.errors import ConfigError
from beasy_sched.policies.bid_price.estimators import SeenArrivals
from beasy_sched.policies.registry import make_policy
from beasy_sched.testing.grids import WorldGrid
from beasy_sched.testing.random_plans import small_hydrogen, world_plans

STEPS = 60


def jobs_of(seed: int, count: int, *, walltimes: bool = True) -> tuple[WorldJob, ...]:
    """Jobs of a minute or two in the first two thirds, whose walltimes are two to five times as long."""
    rng = np.random.default_rng(seed)
    jobs = []
    for _ in range(count):
        run_s = float(np.round(rng.lognormal(4.2, 0.6)))
        walltime_s = float(np.ceil(run_s * rng.choice([2.0, 3.0, 5.0])))
        subtime_s = float(np.round(rng.uniform(0.0, 0.65 * STEPS * STEP_S)))
        jobs.append(WorldJob(subtime_s, int(rng.choice([1, 1, 2])), walltime_s if walltimes else None, run_s))
    return tuple(sorted(jobs, key=lambda job: job.subtime))


def site_of(seed: int, *, sun: float = 1.0, count: int = 60) -> World:
    """Three servers with several speeds; a battery that lasts for a while, and sun that comes and goes."""
    wave = 1.0 + np.sin(np.linspace(0.0, 4.0 * np.pi, STEPS))
    return World(
        fast=0,
        slow=0,
        geared=3,
        jobs=jobs_of(seed, count),
        production_w=tuple(np.round(90.0 * sun * wave, 3).tolist()),
        capacity_j=6e5,
        discharge_limit_w=1e4,
        mode=GuardMode.KILL_ALL,
        veto=False,
    )


def outcomes(done: WorldRun) -> dict[str, int]:
    return done.session.outcomes.counts()


def planned_run(world: World, options: dict[str, object] | None = None, **changes: object) -> Session:
    """A run with plans; returns its session."""
    policy = make_policy("bid-price", options or {})
    site = SessionOptions(site=world.site, plans=world_plans(world), windows=world.windows)
    session = Session(policy, dataclasses.replace(site, **changes))  # type: ignore[arg-type]
    world.simulation().run(session.step)
    return session


def foreseen(world: World) -> World:
    """The same, with a plan that knows the production."""
    return world.but(forecast_w=world.production_w)


# --- what it promises ---


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sun", [0.4, 1.0])
def test_nothing_is_killed_under_a_guard_that_kills_all(seed: int, sun: float) -> None:
    counts = planned_run(foreseen(site_of(seed, sun=sun))).outcomes.counts()
    assert counts["killed"] == counts["not completely finished"] == 0
    assert counts["finished"] >= 4


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sun", [0.4, 0.55])
def test_the_target_is_kept_where_a_sleeping_site_would_keep_it(seed: int, sun: float) -> None:
    """To a percent: what three servers draw in a step is three percent of this battery."""
    world = foreseen(site_of(seed, sun=sun))
    power = planned_run(world).power
    assert power is not None
    assert power.storage.battery_j >= world.site.storage.battery.target_j - 0.01 * world.capacity_j


@pytest.mark.slow
def test_where_energy_abounds_every_job_runs_at_full_speed() -> None:
    world = site_of(3, sun=8.0, count=40)
    done = run(world, "bid-price")
    assert outcomes(done)["finished"] == len(world.jobs)
    assert not any(rule == "dearer than the price of energy" for rule in rules(world))


def rules(world: World, options: dict[str, object] | None = None) -> set[str]:
    """The rules that a run names."""
    said: set[str] = set()
    policy = make_policy("bid-price", options or {})
    session = Session(
        policy, SessionOptions(site=world.site), lambda now, what, job, hosts, rule, facts: said.add(rule)
    )
    world.simulation().run(session.step)
    return said


@pytest.mark.slow
def test_it_says_what_the_price_does() -> None:
    said = rules(site_of(0, sun=0.4)) | rules(site_of(1, sun=0.4))
    assert said >= {"energy is rationed", "dearer than the price of energy", "speed of the step"}


def told(world: World, wanted: str, plan_for: World | None = None) -> list[FactDict]:
    """The facts of all actions of a kind in a run with a plan, made for ``plan_for``."""
    found: list[FactDict] = []
    plans = world_plans(plan_for or foreseen(world))
    options = SessionOptions(site=world.site, plans=plans, windows=world.windows)

    def note(now: float, what: str, job: object, hosts: object, rule: str, facts: FactDict) -> None:
        if what == wanted:
            found.append(facts)

    world.simulation().run(Session(make_policy("bid-price", {}), options, note).step)
    return found


@pytest.mark.parametrize(("subtime_s", "finished"), [(300.0, 1), (390.0, 0)])
def test_a_job_that_might_not_end_in_time_does_not_start(subtime_s: float, finished: int) -> None:
    """The horizon ends at 720 s; the job may take 375 s at the thriftiest speed."""
    world = World(
        fast=0,
        slow=0,
        geared=2,
        jobs=(WorldJob(subtime_s, 1, 375.0, 180.0),),
        production_w=(60.0,) * 12,
    )
    assert outcomes(run(world, "bid-price"))["finished"] == finished
    assert ("not sure to end in time" in rules(world)) == (not finished)


def test_the_predicted_demand_is_scaled_by_what_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the jobs come that the plan was made for: less demand is expected of the rest of the day."""
    world = foreseen(site_of(0))
    few = world.but(jobs=world.jobs[::3])
    scaled = told(few, "compensate", plan_for=world)
    monkeypatch.setattr(SeenArrivals, "ratio", lambda arrivals, foreseen_host_s: 1.0)
    unscaled = told(few, "compensate", plan_for=world)
    assert scaled[0] == unscaled[0]
    assert scaled[24]["demand_j"] < 0.9 * unscaled[24]["demand_j"]


def test_servers_follow_the_queue() -> None:
    """One job at the start: its server is on while it runs, all others sleep soon and until the end."""
    world = site_of(0, sun=8.0).but(jobs=(WorldJob(0.0, 1, 300.0, 100.0),))
    done = run(world, "bid-price")
    assert (done.session.cluster.state == 2).sum() == 3
    idle_j = done.uses_j[-1][0]
    assert idle_j < 3 * 50.0 * 3 * STEP_S


def test_idle_servers_sleep_while_a_wide_job_waits_for_running_ones() -> None:
    """Two servers have ended a short job, one runs a long one; all three are wanted, and had in the end."""
    long_s = 20 * STEP_S
    world = site_of(0, sun=8.0).but(
        jobs=(
            WorldJob(0.0, 2, 300.0, 100.0),
            WorldJob(0.0, 1, 2 * long_s, long_s),
            WorldJob(1.0, 3, 300.0, 100.0),
        )
    )
    done = run(world, "bid-price")
    assert outcomes(done)["finished"] == 3
    assert done.session.outcomes.columns()["start_s"].max() >= long_s
    idle_j = done.uses_j[-1][0]
    assert idle_j < 2 * 50.0 * 0.5 * long_s


# --- all kinds of sites ---


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_several_kinds_of_servers(seed: int) -> None:
    world = site_of(seed, sun=0.8).but(fast=1, slow=1, plain=1, one=1, geared=2)
    done = run(world, "bid-price")
    check(world, done)
    assert outcomes(done)["finished"] > 0.2 * len(world.jobs)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_hydrogen_several_windows_and_plans(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = site_of(seed, sun=0.8)
    world = world.but(windows=2, hydrogen=small_hydrogen(rng), forecast_w=world.production_w)
    session = planned_run(world)
    assert session.outcomes.counts()["killed"] == 0
    assert session.outcomes.counts()["finished"] > 0.3 * len(world.jobs)


def test_the_last_window_may_have_no_plan() -> None:
    world = site_of(1, sun=0.8).but(windows=2, unplanned_windows=1)
    session = planned_run(world)
    starts_s = session.outcomes.columns()["start_s"]
    assert np.nanmax(starts_s) > STEPS * STEP_S / 2


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_jobs_without_a_walltime_start_and_end(seed: int) -> None:
    world = site_of(seed, sun=1.5).but(jobs=jobs_of(seed, 50, walltimes=False))
    counts = outcomes(run(world, "bid-price"))
    assert counts["finished"] >= 20
    assert counts["killed"] == 0


def test_a_grid_feeds_what_the_battery_does_not() -> None:
    """No sun: nothing starts for long without a grid; with one, all jobs do, unless it is too dear."""
    dark = site_of(2, sun=0.0).but(capacity_j=5e4)
    assert outcomes(run(dark, "bid-price"))["finished"] < 0.3 * len(dark.jobs)
    lit = dark.but(grid=WorldGrid())
    assert outcomes(run(lit, "bid-price"))["finished"] > 0.9 * len(dark.jobs)


def test_no_battery() -> None:
    world = site_of(4, sun=2.0).but(capacity_j=0.0, mode=GuardMode.SHED)
    done = run(world, "bid-price")
    check(world, done)
    assert outcomes(done)["finished"] > 0


# --- jobs that only hold their hosts ---


def said_of(
    world: World, options: dict[str, object] | None = None
) -> list[tuple[float, str, dict[str, object]]]:
    """Time, rule and facts of all that a run without a plan logs."""
    said: list[tuple[float, str, dict[str, object]]] = []
    session = Session(
        make_policy("bid-price", options or {}),
        SessionOptions(site=world.site),
        lambda now, what, job, hosts, rule, facts: said.append((now, rule, dict(facts))),
    )
    world.simulation().run(session.step)
    return said


@pytest.mark.parametrize("delays", [True, False])
def test_a_delay_job_takes_as_long_at_every_speed(delays: bool) -> None:
    """0.7 of its walltime; a job that computes takes as long as 80 flops/s need."""
    slowness = 1.0 if delays else GEARED.reference_speed_flops / 80.0
    world = site_of(0, sun=4.0).but(jobs=(WorldJob(90.0, 2, 600.0, 600.0, delays=delays),))
    said = said_of(world)
    (job_j,) = [facts["job_j"] for _, rule, facts in said if rule == "head of the queue"]
    assert job_j == pytest.approx(0.7 * 2 * 600.0 * (60.0 - 5.0) * slowness)


def test_a_running_delay_job_holds_its_hosts_for_the_rest_of_its_walltime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other jobs are expected."""
    monkeypatch.setattr(SeenArrivals, "mean_hosts", lambda arrivals, now, least_s: 0.0)
    world = site_of(0, sun=4.0).but(jobs=(WorldJob(0.0, 2, 600.0, 600.0, delays=True),))
    said = said_of(world)
    demand_j = {now: facts["demand_j"] for now, _, facts in said if "demand_j" in facts}
    start_s = next(now for now, rule, _ in said if rule == "head of the queue")
    for now in (300.0, 540.0):
        asleep_j = 3 * 5.0 * (STEPS * STEP_S - now)
        held_j = 1.05 * 2 * (60.0 - 5.0) * (start_s + 600.0 - now)
        assert demand_j[now] == pytest.approx(asleep_j + held_j, rel=1e-3)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_delay_jobs_among_others(seed: int) -> None:
    world = foreseen(site_of(seed, sun=0.8))
    jobs = tuple(dataclasses.replace(job, delays=row % 3 == 0) for row, job in enumerate(world.jobs))
    session = planned_run(world.but(jobs=jobs))
    counts = session.outcomes.counts()
    assert counts["killed"] == counts["not completely finished"] == 0
    assert counts["finished"] >= planned_run(world).outcomes.counts()["finished"]


# --- options ---


@pytest.mark.parametrize(
    "options",
    [
        {"production": "forecast"},
        {"patience": 0.0},
    ],
    ids=str,
)
def test_every_option_can_be_chosen(options: dict[str, object]) -> None:
    world = site_of(5, sun=0.6)
    counts = planned_run(world.but(forecast_w=world.production_w), options).outcomes.counts()
    assert counts["finished"] > 0.1 * len(world.jobs)


@pytest.mark.slow
def test_less_patience_waits_less() -> None:
    """On most days: which jobs come next can turn it round on some."""

    def mean_wait_s(seed: int, options: dict[str, object]) -> float:
        world = site_of(seed, sun=1.2)
        columns = planned_run(world.but(forecast_w=world.production_w), options).outcomes.columns()
        return float(np.nanmean(columns["start_s"] - columns["subtime_s"]))

    quick, patient = ([mean_wait_s(seed, {"patience": most}) for seed in range(5)] for most in (0.0, 1.0))
    assert np.mean(quick) < np.mean(patient)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"patience": -1}, "patience"),
        ({"patience": float("nan")}, "patience"),
        ({"most_per_kwh": "low"}, "most_per_kwh"),
        ({"nonsense": 1}, "nonsense"),
        ({"margins": False}, "margins: no such field"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_policy("bid-price", options)


def test_a_random_world_with_delay_jobs() -> None:
    world = random_world(np.random.default_rng(88), most_jobs=60, steps=30)
    check(world, run(world, "bid-price"))
