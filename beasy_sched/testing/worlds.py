"""Small random data centres, in memory: servers, jobs, storage and production of one run.

There are five kinds: `random_world` (occasional shortages, jobs of all sizes), `rich_world` (servers of
several kinds, hydrogen, gusts, outages, plans made from forecasts), `green_world` (a grid, prices, forecasts,
deadlines, workflows), `failing_world` (one of these whose servers repeatedly leave and return) and
`breaking_world` (one whose servers break while running jobs, and often fail to wake). A seed always gives the
same world.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.cooling import Cooling
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.energy.grid import Signal
from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.site_load import Course, LoadKnown
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.lost import RETRY_S
from beasy_sched.engine.policy import Policy
from beasy_sched.errors import BeasyError, DecisionRefused, InputError
from beasy_sched.formats.batsim_events import ExternalEvent, order_of_play
from beasy_sched.formats.batsim_jobs import JobColumns, WorkloadJob
from beasy_sched.formats.batsim_profiles import parse_profile
from beasy_sched.formats.batsim_versions import event_for_batsim5
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.formats.failures import HostFailure, HostFailureKind
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model.choices import EnergySource, Placement
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Message
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.policies.offered_easy import OfferedEasy
from beasy_sched.simulator import Simulation, SimulationOptions, SimulationResult
from beasy_sched.simulator.batsim5_peer import Batsim5Simulation
from beasy_sched.testing.grids import (
    CALENDAR,
    FORECAST_S,
    Members,
    WorldGrid,
    at_one_instant,
    forecast_of,
    small_grid,
    with_rules,
    with_terms,
)
from beasy_sched.testing.random_plans import small_hydrogen, world_plans
from beasy_sched.testing.witness import Witness

STEP_S = 60.0
PUE = ((0.0, 1.05), (40.0, 1.5))
"""PUE of worlds with cooling, by outside temperature (degrees Celsius)."""
"""Length of a world's steps, s."""
_MOMENT_S = 2e-6
"""Events within this time have the same or neighbouring timestamps, which have six decimals."""


def server(name: str, *, speed: float = 100.0, idle: float = 50.0, full: float = 100.0) -> ServerKind:
    """Two computing P-states, then sleep (5 W), off (7 s at 60 W) and on (20 s at 80 W)."""
    return ServerKind(
        name,
        speeds_flops=(speed, speed / 2, speed, 1 / 7, 1 / 20),
        idle_w=(idle, idle, 5.0, 60.0, 80.0),
        epsilon_w=(idle, idle, 5.0, 60.0, 80.0),
        full_w=(full, 0.7 * full, 5.0, 60.0, 80.0),
        sleeps=(SleepState(2, 3, 4),),
    )


FAST = server("fast")
SLOW = server("slow", speed=60.0, idle=30.0, full=75.0)
ONE = ServerKind(
    "one P-state",
    speeds_flops=(80.0, 80.0, 1 / 9, 1 / 30),
    idle_w=(40.0, 4.0, 50.0, 70.0),
    epsilon_w=(40.0, 4.0, 50.0, 70.0),
    full_w=(90.0, 4.0, 50.0, 70.0),
    sleeps=(SleepState(1, 2, 3),),
)
SLEEP_FIRST = ServerKind(
    "asleep in P-state 0",
    speeds_flops=(1.0, 100.0, 50.0, 1 / 7, 1 / 20),
    idle_w=(5.0, 50.0, 45.0, 60.0, 80.0),
    epsilon_w=(5.0, 50.0, 45.0, 60.0, 80.0),
    full_w=(5.0, 100.0, 70.0, 60.0, 80.0),
    sleeps=(SleepState(0, 3, 4),),
)
GEARED = ServerKind(
    "thriftiest in P-state 1",
    speeds_flops=(100.0, 80.0, 50.0, 30.0, 100.0, 1 / 7, 1 / 20),
    idle_w=(50.0, 45.0, 45.0, 45.0, 5.0, 60.0, 80.0),
    epsilon_w=(50.0, 45.0, 45.0, 45.0, 5.0, 60.0, 80.0),
    full_w=(100.0, 60.0, 55.0, 50.0, 5.0, 60.0, 80.0),
    sleeps=(SleepState(4, 5, 6),),
)
PLAIN = ServerKind("never asleep", (70.0,), (20.0,), (20.0,), (60.0,))


@dataclass(frozen=True)
class WorldJob:
    """A job: its request and its behaviour."""

    subtime: float
    res: int
    walltime: float | None
    run: float
    """Run time on the fast servers at full speed, s."""
    delays: bool = False
    members: Members = ()
    """Deadline, workflow and predecessors, which Batsim forwards."""


@dataclass(frozen=True)
class SmallWorld:
    """One run of a small data centre: equipment and events."""

    fast: int
    slow: int
    jobs: tuple[WorldJob, ...]
    production_w: tuple[float, ...]
    """Production of each step, W."""
    soc_start_pct: float = 50.0
    target_band_pct: float | UnsetType = UNSET
    end_value_per_kwh: float | UnsetType = UNSET
    capacity_j: float = 50_000.0
    discharge_limit_w: float = 300.0
    mode: GuardMode = GuardMode.SHED
    veto: bool = True
    windows: int = 1
    energy: EnergySource = EnergySource.BATSIM
    outages: tuple[tuple[float, float, str], ...] = field(default=())
    """Hosts out of service: (from s, to s or infinity, hosts)."""
    breakdowns: tuple[tuple[float, float, str], ...] = ()
    """Hosts that break, with their jobs: (from s, to s or infinity, hosts)."""
    failing_wakes: tuple[tuple[float, float, str], ...] = ()
    """Hosts that fail to wake: (from s, percent of the times, hosts)."""
    retry_s: float = RETRY_S
    """Delay before a host that failed to wake is woken again, s."""
    one: int = 0
    plain: int = 0
    sleep_first: int = 0
    geared: int = 0
    hydrogen: HydrogenSpec | None = None
    gusts: tuple[tuple[float, float], ...] = ()
    """Production that changes within a step: (s, W)."""
    forecast_w: tuple[float, ...] = ()
    """The production expected by the planner; without it, plans are random."""
    unplanned_windows: int = 0
    """Number of windows without a plan at the end of the run."""

    start_pstates: tuple[int, ...] = ()
    """P-state in which each host starts; empty: all start in P-state 0."""

    grid: WorldGrid | None = None
    base_w: float = 0.0
    services_w: tuple[float, ...] = ()
    """Services in each step; empty: none."""
    temperature_c: tuple[float, ...] = ()
    """Outside temperature in each step, from which the PUE follows; empty: no cooling."""
    load_known: LoadKnown = LoadKnown.YESTERDAY
    """Look-ahead of services and temperatures."""
    predicted_w: tuple[float, ...] = ()
    """The production expected by policies, one value for each `FORECAST_S`; empty: no forecast."""

    @property
    def counts(self) -> list[int]:
        """Hosts of each of the platform's kinds."""
        return [self.fast, self.slow, self.one, self.plain, self.sleep_first, self.geared]

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return sum(self.counts)

    @property
    def planned_windows(self) -> int:
        """Number of windows with a plan, if there are plans."""
        return self.windows - self.unplanned_windows

    @property
    def site(self) -> Site:
        """Storage, steps, guard and grid."""
        grid = None if self.grid is None else self.grid.grid
        battery = (
            NO_BATTERY
            if not self.capacity_j
            else BatterySpec(
                self.capacity_j,
                soc_start_pct=self.soc_start_pct,
                target_band_pct=self.target_band_pct,
                end_value_per_kwh=self.end_value_per_kwh,
                charge_limit_w=400.0,
                discharge_limit_w=self.discharge_limit_w,
                self_discharge_per_day=0.01,
            )
        )
        guard = GuardSettings(self.mode, self.veto)
        storage = Storage(battery, self.hydrogen)
        window_s = STEP_S * len(self.production_w) / self.windows
        cooling = Cooling(PUE, self._course(self.temperature_c)) if self.temperature_c else None
        services = self._course(self.services_w) if self.services_w else None
        return Site(
            storage, STEP_S, window_s, guard, grid, self.base_w, CALENDAR, cooling=cooling, services=services
        )

    def _course(self, by_step: tuple[float, ...]) -> Course:
        times_s = STEP_S * np.arange(len(by_step) + 1, dtype=np.float64)
        return Course(Signal(times_s, np.array(by_step)), self.load_known)

    def load_at(self, start_s: float) -> tuple[float, float]:
        """Return base load and services (W), and the PUE, of the step at a time, without the site's code."""
        step = int(start_s / STEP_S + 0.01)
        always_w = self.base_w + (self.services_w[step] if self.services_w else 0.0)
        if not self.temperature_c:
            return always_w, 1.0
        (cold_c, least), (hot_c, most) = PUE
        share = min(max((self.temperature_c[step] - cold_c) / (hot_c - cold_c), 0.0), 1.0)
        return always_w, least + share * (most - least)

    @property
    def platform(self) -> Platform:
        """The servers."""
        kinds = (FAST, SLOW, ONE, PLAIN, SLEEP_FIRST, GEARED)
        kind_of = np.repeat(np.arange(len(kinds)), self.counts)
        platform = Platform(
            kinds,
            kind_of,
            tuple(f"n{i:03}" for i in range(self.hosts)),
            np.array(self.start_pstates or (0,) * self.hosts, dtype=np.intp),
            tuple({"role": "", **host_properties(kinds[kind])} for kind in kind_of),
            ({},) * self.hosts,
        )
        return platform.telling_hosts()

    def simulation(self) -> Simulation:
        """Return the simulator, with the jobs and events of the world."""
        options = SimulationOptions(energy=True, forward_unknown_events=True)
        platform = SimGridPlatform(self.platform, "master")
        events, failures = [self._events()], self._failures()
        return Simulation(platform, [self._workload()], events, options, failures=failures)

    def batsim5(self) -> Batsim5Simulation:
        """Return the simulator in the role of Batsim 5, with the same jobs and events."""
        events = [
            msgspec.structs.replace(event, text=event_for_batsim5(_line(event))["data"], number=number)
            for number, event in enumerate(self._events())
        ]
        options = SimulationOptions(energy=True)
        platform = SimGridPlatform(self.platform, "master")
        return Batsim5Simulation(platform, [self._workload()], [events], options)

    def _workload(self) -> Workload:
        profiles = {
            f"p{i}": {"type": "delay", "delay": job.run}
            if job.delays
            else {"type": "parallel_homogeneous", "cpu": job.run * FAST.speeds_flops[0], "com": 0}
            for i, job in enumerate(self.jobs)
        }
        jobs = [
            WorkloadJob(f"w0!{i}", job.subtime, job.res, f"p{i}", job.walltime, _as_json(job.members))
            for i, job in enumerate(self.jobs)
        ]
        jobs.sort(key=lambda job: (job.subtime, job.id))
        parsed = {name: parse_profile(name, raw) for name, raw in profiles.items()}
        return Workload("w0", "world.json", self.hosts, JobColumns.of(jobs), parsed, profiles)

    def _events(self) -> list[ExternalEvent]:
        steps = [(step * STEP_S, watts) for step, watts in enumerate(self.production_w)]
        events = [
            ExternalEvent(when, "power", {"type": "power", "power_available": watts})
            for when, watts in (*steps, *self.gusts)
        ]
        for start, end, hosts in self.outages:
            for when, kind in ((start, "machine_unavailable"), (end, "machine_available")):
                if when < math.inf:
                    events.append(ExternalEvent(when, kind, {"type": kind}, HostSet.parse(hosts)))
        return sorted(events, key=order_of_play)

    def _failures(self) -> list[HostFailure]:
        failures = [
            HostFailure(start_s, HostFailureKind.WAKES_FAIL, HostSet.parse(hosts), percent, number)
            for number, (start_s, percent, hosts) in enumerate(self.failing_wakes)
        ]
        for start_s, end_s, hosts in self.breakdowns:
            failures.append(HostFailure(start_s, HostFailureKind.BREAKS, HostSet.parse(hosts)))
            if end_s < math.inf:
                failures.append(HostFailure(end_s, HostFailureKind.REPAIRED, HostSet.parse(hosts)))
        return sorted(failures, key=lambda failure: failure.timestamp)

    def but(self, **changes: object) -> SmallWorld:
        """Return a copy with changed fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def _line(event: ExternalEvent) -> dict[str, Any]:
    """Return an event as a line of a file of Batsim 4."""
    own = {} if event.hosts is None else {"resources": str(event.hosts)}
    return {**event.data, "timestamp": event.timestamp, **own}


def _as_json(members: Members) -> dict[str, Any] | None:
    """Return the additional fields as in a workload file."""
    return {name: [*value] if isinstance(value, tuple) else value for name, value in members} or None


@dataclass
class WorldRun:
    """The result of a run."""

    session: Session
    result: SimulationResult
    decisions: list[Decision]
    uses_j: list[FloatArray]
    """Energy by use since time 0, at the end of each settled step."""
    witness: Witness


class HostsLost(BeasyError):
    """Batsim would abort regardless of the scheduler, because hosts leave or return at a bad time."""

    def __init__(self, world: SmallWorld, what: str) -> None:
        """``what`` describes the event; ``world`` is the world without it."""
        super().__init__(f"hosts {what}")
        self.world = world


def play_world(
    world: SmallWorld,
    make: Callable[[], Policy],
    *,
    with_site: bool = True,
    placement: Placement = Placement.OWN,
) -> tuple[SmallWorld, WorldRun]:
    """Run policies created by ``make``, as in `run_world`, until a run reaches its end.

    Returns its world and the run. Hosts whose return would abort Batsim stay away, and hosts that would leave
    at the time at which they are used stay in service.
    """
    while True:
        try:
            return world, run_world(world, make(), with_site=with_site, placement=placement)
        except HostsLost as lost:
            world = lost.world


def run_world(
    world: SmallWorld,
    policy: Policy,
    *,
    with_site: bool = True,
    placement: Placement = Placement.OWN,
) -> WorldRun:
    """Run a policy on a world in the embedded simulator, with a witness.

    With external placement, an EASY scheduler places the jobs within the policy's offers.
    Raises HostsLost if Batsim aborts because of hosts that leave or return, and any error of the run.
    """
    witness = Witness(world.platform, world.retry_s)
    session = session_of(world, policy, witness, with_site=with_site, placement=placement)
    decisions: list[Decision] = []
    uses_j: list[FloatArray] = []

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        decisions.extend(reply.decisions)
        power = session.power
        if power is not None and len(power.trace) > len(uses_j):
            uses_j.append(power.account.energy_by_use_j.copy())
        witness.see(message, reply, None if power is None else power.budget)
        if (power is None or power.is_open(message.now)) and not session.cluster.kill_pending.any():
            witness.check_offers(session.offers, session.cluster.platform)  # otherwise nobody may act yet
        return reply

    try:
        result = world.simulation().run(decide)
    except InputError:
        if (lost := _without_return(world, witness)) is None:
            raise
        raise HostsLost(lost, "that left while they were switched on or off returned") from None
    except DecisionRefused:
        if (stayed := _without_leaving_now(world, witness)) is None:
            raise
        raise HostsLost(stayed, "left at the time of their use, before this was reported") from None
    return WorldRun(session, result, decisions, uses_j, witness)


def _without_return(world: SmallWorld, witness: Witness) -> SmallWorld | None:
    """Return the world in which hosts that left while switching, and would return next, stay away."""
    due = [
        (end_s, place)
        for place, (start_s, end_s, hosts) in enumerate(world.outages)
        if start_s <= witness.now < math.inf and end_s < math.inf and end_s >= witness.now
        if witness.left_switching[HostSet.parse(hosts).ids].any()
    ]
    if not due:
        return None
    outages = [*world.outages]
    start_s, _, hosts = outages[min(due)[1]]
    outages[min(due)[1]] = (start_s, math.inf, hosts)
    gone = {*HostSet.parse(hosts)}  # and cannot leave again
    kept = [one for one in outages if one[0] <= start_s or gone.isdisjoint(HostSet.parse(one[2]))]
    return world.but(outages=tuple(kept))


def _without_leaving_now(world: SmallWorld, witness: Witness) -> SmallWorld | None:
    """Return the world without the departures at this time, which were unknown to the scheduler."""
    outages = tuple(
        (start_s, end_s, hosts)
        for start_s, end_s, hosts in world.outages
        if abs(start_s - witness.now) > _MOMENT_S or not witness.here[HostSet.parse(hosts).ids].any()
    )
    return world.but(outages=outages) if len(outages) < len(world.outages) else None


def session_of(
    world: SmallWorld,
    policy: Policy,
    witness: Witness | None = None,
    *,
    with_site: bool = True,
    placement: Placement = Placement.OWN,
) -> Session:
    """Return a session for a world, with its plans if the policy requires them."""
    log = None if witness is None else witness.log
    placer = OfferedEasy() if placement is Placement.EXTERNAL else None
    if not with_site:
        options = SessionOptions(retry_s=world.retry_s, placement=placement, placer=placer)
        return Session(policy, options, log)
    options = SessionOptions(
        site=world.site,
        plans=world_plans(world) if policy.needs_plan else None,
        forecast=forecast_of(world),
        windows=world.windows,
        energy=world.energy,
        retry_s=world.retry_s,
        placement=placement,
        placer=placer,
    )
    return Session(policy, options, log)


def random_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 12) -> SmallWorld:
    """Generate a world with occasional shortages and jobs of all sizes, some ending on step boundaries."""
    fast, slow = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    jobs = []
    for _ in range(rng.integers(1, most_jobs + 1)):
        run_s = float(rng.choice([STEP_S, 2 * STEP_S, float(rng.integers(1, 240))]))
        walltime = None if rng.random() < 0.1 else float(np.ceil(run_s * rng.choice([0.8, 1.0, 1.3, 3.0])))
        subtime = float(rng.choice([0.0, STEP_S, float(rng.integers(0, int(1.1 * steps * STEP_S)))]))
        res = int(rng.integers(1, fast + slow + 2))
        jobs.append(WorldJob(subtime, res, walltime, run_s, delays=bool(rng.random() < 0.15)))
    level = 100.0 * (fast + slow)
    production = np.round(rng.random(steps) * level * rng.choice([0.0, 0.3, 1.0, 1.5], steps), 3)
    return SmallWorld(
        fast,
        slow,
        tuple(jobs),
        tuple(production.tolist()),
        soc_start_pct=float(rng.choice([20.0, 22.0, 50.0, 90.0])),
        capacity_j=float(rng.choice([2e4, 1e5, 5e5])),
        discharge_limit_w=float(rng.choice([60.0, 200.0, 1e4])),
        mode=GuardMode(rng.choice([mode.value for mode in GuardMode])),
        veto=bool(rng.random() < 0.6),
        windows=int(rng.choice([1, 1, 2])),
        energy=EnergySource(rng.choice([source.value for source in EnergySource])),
    )


def rich_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 12) -> SmallWorld:
    """Generate a world with several kinds of servers, hydrogen, plans made from forecasts, gusts, outages."""
    world = random_world(rng, most_jobs=most_jobs, steps=steps)
    one, plain = (int(rng.choice([0, 0, 1, 2])) for _ in range(2))
    windows = int(rng.choice([1, 1, 2, 3]))
    gusts = [
        (float(rng.integers(0, steps)) * STEP_S + float(rng.integers(1, 59)), float(rng.integers(0, 400)))
        for _ in range(rng.choice([0, 0, 3]))
    ]
    guess = np.array(world.production_w) * rng.uniform(0.6, 1.4, steps) + 15.0 * world.hosts + 20.0 * plain
    world = world.but(
        one=one,
        plain=plain,
        windows=windows,
        hydrogen=small_hydrogen(rng) if rng.random() < 0.4 else None,
        gusts=tuple(gusts),
        forecast_w=tuple(guess.round(3).tolist()) if rng.random() < 0.5 else (),
        unplanned_windows=int(windows > 1 and rng.random() < 0.4),
    )
    if rng.random() < 0.25:
        world = world.but(outages=_outage(rng, world, steps))
    return world


def green_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world for policies that plan ahead: a grid, prices, a forecast, deadlines, workflows."""
    sparse = rng.random() < 0.4
    draw = rich_world if rng.random() < 0.3 else random_world
    world = draw(rng, most_jobs=min(most_jobs, 6) if sparse else most_jobs, steps=steps)
    grid = small_grid(rng, world.hosts, steps, STEP_S) if rng.random() < 0.85 else None
    production = np.array(world.production_w) * rng.choice([0.0, 0.5, 1.0, 1.0])
    pieces = math.ceil(steps * STEP_S / FORECAST_S)
    guess = np.resize(production[:: int(FORECAST_S / STEP_S)], pieces) * rng.uniform(0.6, 1.4, pieces)
    most = world.hosts + int(rng.random() < 0.2)
    jobs = [
        dataclasses.replace(job, members=members, res=min(job.res, most))
        for job, members in zip(world.jobs, with_terms(rng, world.jobs), strict=True)
    ]
    if rng.random() < 0.5:
        jobs = at_one_instant(rng, jobs, steps * STEP_S)
    return world.but(
        jobs=tuple(jobs),
        production_w=tuple(production.tolist()),
        grid=grid,
        base_w=float(rng.choice([0.0, 0.0, 15.0, 85.0])),
        capacity_j=0.0 if grid is not None and rng.random() < 0.4 else world.capacity_j,
        predicted_w=tuple(guess.round(3).tolist()) if rng.random() < 0.7 else (),
    )


def loaded_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world of another kind, with services and cooling besides its servers, or one of them."""
    draw = (random_world, rich_world, green_world)[rng.integers(3)]
    world = draw(rng, most_jobs=most_jobs, steps=steps)
    services = rng.uniform(0.0, 120.0, steps) * rng.choice([0.0, 1.0], steps, p=[0.2, 0.8])
    which = rng.integers(3)
    return world.but(
        services_w=tuple(services.round(3).tolist()) if which != 1 else (),
        temperature_c=tuple(rng.uniform(-15.0, 45.0, steps).round(2).tolist()) if which != 0 else (),
        load_known=LoadKnown(rng.choice([known.value for known in LoadKnown])),
    )


def charging_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world whose battery has a grid with rules: it charges, rests or shaves, and a peak costs."""
    world = green_world(rng, most_jobs=most_jobs, steps=steps)
    grid = world.grid or small_grid(rng, world.hosts, steps, STEP_S)
    return world.but(grid=with_rules(rng, grid, world.hosts), capacity_j=world.capacity_j or 50_000.0)


def complete_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world with cooling, services, a grid with rules and a price of its peak, and a battery whose
    target has a band and whose energy left has a value."""
    world = charging_world(rng, most_jobs=most_jobs, steps=steps)
    grid = world.grid
    priced = grid is not None and bool(grid.tariff or grid.prices)
    return world.but(
        services_w=tuple(rng.uniform(0.0, 60.0, steps).round(3).tolist()),
        temperature_c=tuple(rng.uniform(-15.0, 45.0, steps).round(2).tolist()),
        load_known=LoadKnown(rng.choice([known.value for known in LoadKnown])),
        target_band_pct=float(rng.choice([2.0, 10.0, 30.0])),
        end_value_per_kwh=float(rng.choice([0.05, 0.4])) if priced else 0.0,
    )


def failing_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world of another kind whose servers repeatedly go out of service."""
    draw = (random_world, rich_world, green_world)[rng.integers(3)]
    world = draw(rng, most_jobs=most_jobs, steps=steps)
    outages, back_s = [], [0.0] * world.hosts
    for start_s in np.sort(rng.uniform(0.0, steps * STEP_S, rng.integers(3, 16))).round(3).tolist():
        if rng.random() < 0.3:  # at a step boundary, where most events occur
            start_s = math.floor(start_s / STEP_S) * STEP_S
        here = [host for host, until_s in enumerate(back_s) if until_s < start_s]
        chosen = [host for host in here if rng.random() < 0.4]
        if not chosen:
            continue
        length_s = float(rng.choice([1.0, 5.0, 30.0, 60.0, round(rng.uniform(1.0, 400.0), 3)]))
        end_s = math.inf if rng.random() < 0.1 else start_s + length_s
        outages.append((start_s, end_s, str(HostSet.of(chosen))))
        for host in chosen:
            back_s[host] = end_s
    return world.but(outages=tuple(outages))


def breaking_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 18) -> SmallWorld:
    """Generate a world of another kind whose servers break, with their jobs, and often fail to wake."""
    world = failing_world(rng, most_jobs=most_jobs, steps=steps)
    wakes = []
    for start_s in rng.uniform(0.0, steps * STEP_S, rng.integers(1, 5)).round(3).tolist():
        chosen = [host for host in range(world.hosts) if rng.random() < 0.6] or [0]
        percent = float(rng.choice([10.0, 50.0, 90.0, 100.0]))
        wakes.append((0.0 if rng.random() < 0.4 else start_s, percent, str(HostSet.of(chosen))))
    return world.but(
        outages=(),
        breakdowns=world.outages if rng.random() < 0.7 else (),
        failing_wakes=tuple(wakes) if rng.random() < 0.8 else (),
        retry_s=float(rng.choice([1.0, 45.0, 300.0])),
    )


def _outage(rng: np.random.Generator, world: SmallWorld, steps: int) -> tuple[tuple[float, float, str], ...]:
    """Generate an outage that Batsim survives: a host that leaves while switching must never return."""
    if rng.random() < 0.5:
        return ((0.0, float(rng.integers(1, steps * 60)), f"0-{rng.integers(0, world.hosts)}"),)
    first = int(rng.integers(0, world.hosts))
    return ((float(rng.integers(1, steps * 60)), math.inf, f"{first}-{rng.integers(first, world.hosts)}"),)
