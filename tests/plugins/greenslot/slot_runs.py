"""Runs of the policies of slots on small sites whose figures can be worked out by hand: slots of 15 minutes,
nodes of 100 W that take no power asleep or idle, so that a job needs 25 Wh for each node and slot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beasy_sched.energy.devices.battery import NO_BATTERY
from beasy_sched.energy.grid import Foreseen, Grid, Signal
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.forecast.outlook import ForecastSource, PerfectForecast
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import JobColumns, WorkloadJob
from beasy_sched.formats.batsim_profiles import parse_profile
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model.decisions import Decision, ExecuteJob, RejectJob, Reply, SetResourceState
from beasy_sched.model.events import Message
from beasy_sched.model.platform import Platform, ServerKind, SleepState
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import Simulation, SimulationOptions
from beasy_sched.testing.witness import Witness

SLOT_S = 900.0
ASLEEP = 1
NODE = ServerKind(
    "node",
    speeds_flops=(1e9, 1e9, 1.0, 1.0),
    idle_w=(0.0, 0.0, 0.0, 0.0),
    epsilon_w=(0.0, 0.0, 0.0, 0.0),
    full_w=(100.0, 0.0, 0.0, 0.0),
    sleeps=(SleepState(ASLEEP, 2, 3),),
)
"""Falls asleep and wakes in a second."""


@dataclass(frozen=True)
class Task:
    """A job of whole slots, less a minute; its deadline in slots."""

    name: str
    slots: int
    res: int = 1
    due: float = math.inf
    submit_s: float = 0.0
    members: tuple[tuple[str, Any], ...] = ()

    @property
    def job(self) -> WorkloadJob:
        extras = dict(self.members) | ({"deadline_s": self.due * SLOT_S} if self.due < math.inf else {})
        return WorkloadJob(
            f"w0!{self.name}", self.submit_s, self.res, f"p{self.slots}", self.slots * SLOT_S, extras or None
        )


@dataclass
class SlotRun:
    """What came of a run."""

    session: Session
    decisions: list[Decision]
    witness: Witness

    @property
    def starts(self) -> dict[str, int]:
        """The slot in which each job started."""
        return {x.job_id[3:]: int(x.timestamp // SLOT_S) for x in self.decisions if isinstance(x, ExecuteJob)}

    @property
    def cost(self) -> float:
        """What all imported energy cost."""
        assert self.session.power is not None
        return sum(row.metered.cost for row in self.session.power.trace if row.metered)

    @property
    def rejected(self) -> set[str]:
        return {x.job_id[3:] for x in self.decisions if isinstance(x, RejectJob)}

    @property
    def switched(self) -> list[tuple[float, int, int]]:
        """Time, number of nodes and P-state of each switch."""
        switches = [x for x in self.decisions if isinstance(x, SetResourceState)]
        return [(x.timestamp, len(x.resources), x.state) for x in switches]


def run_slots(
    policy: str,
    tasks: Sequence[Task],
    sun_wh: Sequence[float],
    price: float | Sequence[float] = 0.1,
    *,
    nodes: int = 1,
    options: dict[str, Any] | None = None,
    forecast: ForecastSource | None = None,
    grid: Grid | None = None,
) -> SlotRun:
    """Run ``tasks`` with this sun (Wh by slot, known ahead without ``forecast``) and price per kWh."""
    sun_w = np.array(sun_wh) * 4.0
    prices = np.broadcast_to(np.array(price, dtype=np.float64), len(sun_w))
    edges_s = SLOT_S * np.arange(len(sun_w) + 1)
    grid = grid or Grid(price=Foreseen(Signal(edges_s, prices)))
    site = Site(Storage(NO_BATTERY), SLOT_S, float(edges_s[-1]), grid=grid)
    maker = make_policy(policy, options)
    session_options = SessionOptions(site=site, forecast=forecast or PerfectForecast(sun_w, SLOT_S))
    platform = Platform(
        (NODE,),
        np.zeros(nodes, dtype=np.intp),
        tuple(f"n{i}" for i in range(nodes)),
        np.zeros(nodes, dtype=np.intp),
        ({"role": "", **host_properties(NODE)},) * nodes,
        ({},) * nodes,
    ).telling_hosts()
    witness = Witness(platform)
    done = SlotRun(Session(maker, session_options, witness.log), [], witness)

    def decide(message: Message) -> Reply:
        reply = done.session.step(message)
        done.decisions.extend(reply.decisions)
        witness.see(message, reply, done.session.power.budget if done.session.power else None)
        return reply

    raw = {f"p{n}": {"type": "delay", "delay": n * SLOT_S - 60.0} for n in {task.slots for task in tasks}}
    raw = {
        name: {"type": "parallel_homogeneous", "cpu": 1e9 * one["delay"], "com": 0}
        for name, one in raw.items()
    }
    jobs = sorted((task.job for task in tasks), key=lambda job: (job.subtime, job.id))
    profiles = {name: parse_profile(name, one) for name, one in raw.items()}
    workload = Workload("w0", "hand.json", nodes, JobColumns.of(jobs), profiles, raw)
    events = [
        ExternalEvent(slot * SLOT_S, "power", {"type": "power", "power_available": watts})
        for slot, watts in enumerate(sun_w.tolist())
    ]
    simulator = SimulationOptions(energy=True, forward_unknown_events=True)
    Simulation(SimGridPlatform(platform, "master"), [workload], [events], simulator).run(decide)
    return done
