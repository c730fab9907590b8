"""Small random data centres, held in memory: servers, jobs, storage and production of one run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
from witness import Witness
from world_plans import plans_of, small_hydrogen, world_plans

from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.storage import BatterySpec, HydrogenSpec, Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.power import EnergySource
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import Workload, WorkloadJob, parse_profile
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform import host_properties
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Message
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import Simulation, SimulationOptions, SimulationResult

__all__ = [
    "FAST",
    "ONE",
    "PLAIN",
    "SLOW",
    "Run",
    "World",
    "WorldJob",
    "plans_of",
    "random_world",
    "rich_world",
    "run",
]

STEP_S = 60.0


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
PLAIN = ServerKind("never asleep", (70.0,), (20.0,), (20.0,), (60.0,))


@dataclass(frozen=True)
class WorldJob:
    subtime: float
    res: int
    walltime: float | None
    run: float
    """On the fast servers at full speed, s."""
    delays: bool = False


@dataclass(frozen=True)
class World:
    fast: int
    slow: int
    jobs: tuple[WorldJob, ...]
    production_w: tuple[float, ...]
    """One value a step."""
    soc_start_pct: float = 50.0
    capacity_j: float = 50_000.0
    discharge_limit_w: float = 300.0
    mode: GuardMode = GuardMode.SHED
    veto: bool = True
    windows: int = 1
    energy: EnergySource = EnergySource.BATSIM
    outages: tuple[tuple[float, float, str], ...] = field(default=())
    """Hosts out of service: (from s, to s or for ever, hosts)."""
    one: int = 0
    plain: int = 0
    sleep_first: int = 0
    hydrogen: HydrogenSpec | None = None
    gusts: tuple[tuple[float, float], ...] = ()
    """Production that changes within a step: (s, W)."""
    forecast_w: tuple[float, ...] = ()
    """What the planner was told of the production; without it plans are drawn at random."""
    unplanned_windows: int = 0
    """The last ones of the run for which there is no plan."""

    start_pstates: tuple[int, ...] = ()
    """Where each host starts; all in P-state 0 where this is empty."""

    @property
    def counts(self) -> list[int]:
        """Hosts of each of the platform's kinds."""
        return [self.fast, self.slow, self.one, self.plain, self.sleep_first]

    @property
    def hosts(self) -> int:
        return sum(self.counts)

    @property
    def planned_windows(self) -> int:
        return self.windows - self.unplanned_windows

    @property
    def site(self) -> Site:
        battery = BatterySpec(
            self.capacity_j,
            soc_start_pct=self.soc_start_pct,
            charge_limit_w=400.0,
            discharge_limit_w=self.discharge_limit_w,
            self_discharge_per_day=0.01,
        )
        guard = GuardSettings(self.mode, self.veto)
        storage = Storage(battery, self.hydrogen)
        return Site(storage, STEP_S, STEP_S * len(self.production_w) / self.windows, guard)

    @property
    def platform(self) -> Platform:
        kinds = (FAST, SLOW, ONE, PLAIN, SLEEP_FIRST)
        kind_of = np.repeat(np.arange(len(kinds)), self.counts)
        platform = Platform(
            kinds,
            kind_of,
            tuple(f"n{i:03}" for i in range(self.hosts)),
            np.array(self.start_pstates or (0,) * self.hosts, dtype=np.intp),
            tuple({"role": "", **host_properties(kinds[kind])} for kind in kind_of),
            ({},) * self.hosts,
        )
        return platform.telling_start()

    def simulation(self) -> Simulation:
        profiles = {
            f"p{i}": {"type": "delay", "delay": job.run}
            if job.delays
            else {"type": "parallel_homogeneous", "cpu": job.run * FAST.speeds_flops[0], "com": 0}
            for i, job in enumerate(self.jobs)
        }
        jobs = [
            WorkloadJob(f"w0!{i}", job.subtime, job.res, f"p{i}", job.walltime)
            for i, job in enumerate(self.jobs)
        ]
        jobs.sort(key=lambda job: (job.subtime, job.id))
        parsed = {name: parse_profile(name, raw) for name, raw in profiles.items()}
        workload = Workload("w0", "world.json", self.hosts, jobs, parsed, profiles)
        options = SimulationOptions(energy=True, forward_unknown_events=True)
        return Simulation(SimGridPlatform(self.platform, "master"), [workload], self._events(), options)

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
        return sorted(events, key=lambda event: event.timestamp)

    def but(self, **changes: object) -> World:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass
class Run:
    """What came of a run."""

    session: Session
    result: SimulationResult
    decisions: list[Decision]
    uses_j: list[np.ndarray]
    """Energy by use since time 0, at the end of each settled step."""
    witness: Witness


def run(world: World, policy: str, *, with_site: bool = True) -> Run:
    """Run a policy on a world in the embedded simulator, with a witness."""
    witness = Witness(world.platform)
    session = session_of(world, policy, witness, with_site=with_site)
    decisions: list[Decision] = []
    uses_j: list[np.ndarray] = []

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        decisions.extend(reply.decisions)
        power = session.power
        if power is not None and len(power.trace) > len(uses_j):
            uses_j.append(power.account.energy_by_use_j.copy())
        witness.see(message, reply, None if power is None else power.budget)
        return reply

    return Run(session, world.simulation().run(decide), decisions, uses_j, witness)


def session_of(
    world: World, policy: str, witness: Witness | None = None, *, with_site: bool = True
) -> Session:
    """A session for a world, its plans included where the policy needs them."""
    maker = make_policy(policy)
    if not with_site:
        return Session(maker, None, witness and witness.log)
    plans = world_plans(world) if maker.needs_plan else None
    options = SessionOptions(site=world.site, plans=plans, windows=world.windows, energy=world.energy)
    return Session(maker, options, witness and witness.log)


def random_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 12) -> World:
    """Draw a world: too little power now and then, jobs of every size, ends on step boundaries among them."""
    fast, slow = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    jobs = []
    for _ in range(rng.integers(1, most_jobs + 1)):
        run_s = float(rng.choice([STEP_S, 2 * STEP_S, rng.integers(1, 240)]))
        walltime = None if rng.random() < 0.1 else float(np.ceil(run_s * rng.choice([0.8, 1.0, 1.3, 3.0])))
        subtime = float(rng.choice([0, STEP_S, rng.integers(0, int(1.1 * steps * STEP_S))]))
        res = int(rng.integers(1, fast + slow + 2))
        jobs.append(WorldJob(subtime, res, walltime, run_s, delays=bool(rng.random() < 0.15)))
    level = 100.0 * (fast + slow)
    production = np.round(rng.random(steps) * level * rng.choice([0.0, 0.3, 1.0, 1.5], steps), 3)
    return World(
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


def rich_world(rng: np.random.Generator, *, most_jobs: int = 25, steps: int = 12) -> World:
    """Draw a world with more of everything: kinds, hydrogen, plans made from forecasts, gusts, outages."""
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


def _outage(rng: np.random.Generator, world: World, steps: int) -> tuple[tuple[float, float, str], ...]:
    """One that Batsim survives: a host that left in the middle of a transition must never come back."""
    if rng.random() < 0.5:
        return ((0.0, float(rng.integers(1, steps * 60)), f"0-{rng.integers(0, world.hosts)}"),)
    first = int(rng.integers(0, world.hosts))
    return ((float(rng.integers(1, steps * 60)), math.inf, f"{first}-{rng.integers(first, world.hosts)}"),)
