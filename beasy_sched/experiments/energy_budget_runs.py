"""One run of the energy-budget study: a week of jobs, an algorithm, a budget, with or without shutdown."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from beasy_sched.errors import machine_error, why
from beasy_sched.experiments.energy_weeks import PERIOD_DAYS, SERVER, WEEK_DAYS
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform import host_properties
from beasy_sched.generate.server_spec import load_server
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.job import SLOWDOWN_FLOOR_S
from beasy_sched.model.platform import Platform, ServerKind
from beasy_sched.policies.registry import make_policy
from beasy_sched.session import Session
from beasy_sched.simulator import Ending, Simulation, SimulationOptions
from beasy_sched.units import SECONDS_PER_DAY

WEEK_S: Final = WEEK_DAYS * SECONDS_PER_DAY
PERIOD_S: Final = tuple(day * SECONDS_PER_DAY for day in PERIOD_DAYS)
BUDGETS: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 100.0 / 203.12, 0.3)
"""Shares of what all processors would use computing; 49 % is all of them idle."""
ALGORITHMS: Final = ("powercap", "reducepc", "energybud")
ESTIMATES: Final = {
    "idle_w": 100.0,
    "computing_w": 203.12,
    "sleeping_w": 100.0,
    "switching_off_w": 100.0,
    "switching_on_w": 100.0,
}
"""Table I of the paper; it counts all servers that do not compute as idle, even those that are off."""
MONITORING_S: Final = 600.0


class Setting(Struct, frozen=True):
    """An experimental condition."""

    algorithm: str
    """`easy`, or one of `ALGORITHMS`."""
    budget: float = 1.0
    shutdown: bool = False

    @property
    def key(self) -> str:
        """Name, for files: ``energybud-49-shut``."""
        return f"{self.algorithm}-{percent(self.budget)}-{'shut' if self.shutdown else 'idle'}"

    def options(self, allocation: str) -> dict[str, Any]:
        """Options of the policy: EASY is the same algorithm without a limit."""
        return {
            "budget": "inf" if self.algorithm == "easy" else self.budget,
            "period_start": PERIOD_S[0],
            "period_end": PERIOD_S[1],
            "monitoring": MONITORING_S,
            "shutdown": "opportunistic" if self.shutdown else "none",
            "allocation": allocation,
            **ESTIMATES,
        }


def percent(budget: float) -> int:
    """A budget as the paper names it, %."""
    return round(100 * budget)


def all_settings(budgets: tuple[float, ...] = BUDGETS) -> list[Setting]:
    """The paper's conditions: EASY, and every algorithm with every budget, with and without shutdown."""
    return [
        Setting("easy"),
        *(Setting(a, b, s) for a in ALGORITHMS for b in budgets for s in (False, True)),
    ]


@dataclass(frozen=True)
class WeekTask:
    """A run and its inputs."""

    hosts: int
    workload: Path
    setting: Setting
    allocation: str


class WeekResult(Struct, frozen=True):
    """What came of it."""

    values: dict[str, float | int | None]
    """The measures, by name (`MEASURES`)."""
    error: str | None = None
    trace: str | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0


MEASURES: Final[Mapping[str, str]] = {
    "jobs": "jobs of the week",
    "jobs_started": "of them, started before the week's end",
    "utilization": "processor-seconds of jobs within the week, over all processors', 0 to 1",
    "ave_bsld": "mean bounded slowdown of all jobs (tau = 10 s)",
    "energy_share": "energy used within the week, over all processors computing, 0 to 1",
    "budget_j": "the budget, J",
    "period_j": "energy used within the budget's period, J",
    "excess_j": "energy used above the budget, J",
    "debts": "measurements that found a debt",
    "switches": "servers switched off or woken",
    "end_s": "when the last job had ended, s",
}


def execute_week(task: WeekTask) -> WeekResult:
    """Run it. Whatever goes wrong is told in the result, but for what the machine lacks: MachineError."""
    gc.set_threshold(200_000, 20, 100)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    values, error, trace = dict.fromkeys(MEASURES), None, None
    try:
        values = _run(task)
    except Exception as found:
        if (lack := machine_error(found)) is not None:
            raise lack from found
        error, trace = why(found), traceback.format_exc()
    return WeekResult(values, error, trace, time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _run(task: WeekTask) -> dict[str, float | int | None]:
    kind = load_server(SERVER).fastest_only().kind()
    platform = SimGridPlatform(platform_of(kind, task.hosts), "master_host")
    marks = [ExternalEvent(at, "mark", {"type": "mark"}) for at in (*PERIOD_S, WEEK_S)]
    options = SimulationOptions(energy=True, forward_unknown_events=True)
    simulation = Simulation(platform, [read_workload(task.workload, "w0")], marks, options)
    name = "energybud" if task.setting.algorithm == "easy" else task.setting.algorithm
    session = Session(make_policy(name, task.setting.options(task.allocation)))
    energy_j: dict[float, float] = {}

    def decide(message: Message) -> Reply:
        if message.now in (*PERIOD_S, WEEK_S) and message.now not in energy_j:
            meter = simulation.engine.world.meter
            meter.accrue(message.now)
            energy_j[message.now] = meter.energy_j
        return session.step(message)

    result = simulation.run(decide)
    if result.ending is Ending.DEADLOCK:
        raise RuntimeError("deadlock: jobs wait, and nothing is left that could happen")
    return {
        **_of_jobs(session, task.hosts),
        "energy_share": energy_j[WEEK_S] / (kind.full_w[0] * task.hosts * WEEK_S),
        **_of_budget(session, energy_j[PERIOD_S[1]] - energy_j[PERIOD_S[0]]),
        "switches": session.commander.switches,
        "end_s": result.makespan_s,
    }


def platform_of(kind: ServerKind, hosts: int) -> Platform:
    """Servers of one kind, in memory."""
    properties = host_properties(kind)
    width = len(str(hosts))
    names = tuple(f"{kind.name}-{i + 1:0{width}}" for i in range(hosts))
    zeros = np.zeros(hosts, dtype=np.intp)
    return Platform((kind,), zeros, names, zeros, (properties,) * hosts, ({},) * hosts)


def _of_jobs(session: Session, hosts: int) -> dict[str, float | int | None]:
    columns = session.outcomes.columns()
    started = np.isfinite(columns["start_s"])
    start_s, end_s = columns["start_s"][started], columns["end_s"][started]
    wait_s, run_s = start_s - columns["subtime_s"][started], end_s - start_s
    slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, SLOWDOWN_FLOOR_S), 1.0)
    within_s = np.clip(np.minimum(end_s, WEEK_S) - start_s, 0.0, None)
    return {
        "jobs": session.submitted,
        "jobs_started": int(np.count_nonzero(start_s < WEEK_S)),
        "utilization": float(within_s @ columns["res"][started]) / (hosts * WEEK_S),
        "ave_bsld": float(slowdown.mean()) if len(slowdown) else None,
    }


def _of_budget(session: Session, period_j: float) -> dict[str, float | int | None]:
    budget = session.policy.results()["budget"]
    limit_j = budget["budget_j"]
    return {
        "budget_j": limit_j,
        "period_j": period_j,
        "excess_j": None if limit_j is None else max(0.0, period_j - limit_j),
        "debts": budget["measurements_in_debt"],
    }
