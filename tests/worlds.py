"""Small random data centres, held in memory: servers, jobs, storage and production of one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.energy.battery import BatterySpec
from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.storage import Storage
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_profiles import parse_profile
from beasy_sched.formats.batsim_workload import Workload, WorkloadJob
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform import host_properties
from beasy_sched.model.decisions import Decision, Reply
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.plan.plan import Plan, PlannedServers, Provenance
from beasy_sched.plan.power_plan import PowerPlan
from beasy_sched.plan.server_energy import server_plan_energy_j
from beasy_sched.plan.store import PlanStore
from beasy_sched.policies.registry import make_policy
from beasy_sched.session import Session, SessionOptions
from beasy_sched.session.power import EnergySource
from beasy_sched.simulator import Simulation, SimulationOptions, SimulationResult

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
    """Hosts out of service: (from s, to s, hosts)."""

    @property
    def hosts(self) -> int:
        return self.fast + self.slow

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
        return Site(Storage(battery), STEP_S, STEP_S * len(self.production_w) / self.windows, guard)

    @property
    def platform(self) -> Platform:
        kinds = (FAST, SLOW)
        kind_of = np.array([0] * self.fast + [1] * self.slow, dtype=np.intp)
        return Platform(
            kinds,
            kind_of,
            tuple(f"n{i:03}" for i in range(self.hosts)),
            np.zeros(self.hosts, dtype=np.intp),
            tuple({"role": "", **host_properties(kinds[kind])} for kind in kind_of),
            ({},) * self.hosts,
        )

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
        from beasy_sched.model.hosts import HostSet

        events = [
            ExternalEvent(step * STEP_S, "power", {"type": "power", "power_available": watts})
            for step, watts in enumerate(self.production_w)
        ]
        for start, end, hosts in self.outages:
            for when, kind in ((start, "machine_unavailable"), (end, "machine_available")):
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


def run(world: World, policy: str, *, with_site: bool = True) -> Run:
    """Run a policy on a world in the embedded simulator."""
    maker = make_policy(policy)
    plans = random_plans(world) if maker.needs_plan else None
    options = SessionOptions(site=world.site, plans=plans, windows=world.windows, energy=world.energy)
    session = Session(maker, options if with_site else None)
    decisions: list[Decision] = []
    uses_j: list[np.ndarray] = []

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        decisions.extend(reply.decisions)
        if session.power is not None and len(session.power.trace) > len(uses_j):
            uses_j.append(session.power.account.energy_by_use_j.copy())
        return reply

    return Run(session, world.simulation().run(decide), decisions, uses_j)


def plans_of(site: Site, platform: Platform, states: Sequence[np.ndarray]) -> PlanStore:
    """Plans of consecutive windows with these states, [steps, hosts] each.

    The battery keeps its level: production is what the servers need, and what makes up for its loss.
    """
    battery = site.storage.battery
    lost_j = battery.start_j * (1 - battery.kept_fraction(site.step_s))
    before, start_s, plans = np.zeros(platform.size, dtype=np.int8), 0.0, []
    for window in states:
        steps = len(window)
        energy_j = server_plan_energy_j(platform, window, site.step_s, before)
        charge_w = np.full(steps, lost_j / (battery.charge_efficiency * site.step_s))
        nothing, envelope_w = np.zeros(steps), energy_j / site.step_s
        levels_j, none_kg = np.full(steps + 1, battery.start_j), np.zeros(steps + 1)
        flows = (charge_w, nothing, nothing, nothing, nothing)
        power = PowerPlan(envelope_w, envelope_w + charge_w, *flows, levels_j, none_kg)
        servers = PlannedServers(platform.kinds, platform.kind_of, window, energy_j)
        shares = np.full(steps, 0.1)
        made_by = Provenance("a test")
        plans.append(Plan(start_s, site.step_s, site.storage, power, shares, shares, servers, made_by))
        before, start_s = window[-1], plans[-1].end_s
    return PlanStore(plans)


def random_plans(world: World) -> PlanStore:
    """Plans of the world's windows with states at random, whatever the production will be."""
    rng = np.random.default_rng([world.fast, world.slow, len(world.jobs)])
    windows = []
    for _ in range(world.windows):
        runs = rng.choice(3, (world.site.steps, world.hosts), p=[0.5, 0.2, 0.3]).astype(np.int8)
        windows.append(np.repeat(runs, rng.integers(1, 4), axis=0)[: world.site.steps])
    return plans_of(world.site, world.platform, windows)


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
