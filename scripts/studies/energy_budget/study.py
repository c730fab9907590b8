"""The energy-budget study: weeks of jobs x algorithms x budgets, each run once, despite interruptions.

Weeks are traces in SWF, or synthetic weeks. In addition to the files of every `Study`, the
folder contains ``weeks/`` (the workloads).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from beasy_sched._version import __version__
from beasy_sched.engine import Session
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform_file import host_properties, load_server, preset_platform
from beasy_sched.generate.workload import GeneratedWorkload, synthetic_workload
from beasy_sched.generate.workload_options import SwfOptions, SyntheticOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.jobs import bounded_slowdown
from beasy_sched.plugins.campaigns.campaign_table import RunColumn
from beasy_sched.plugins.campaigns.tasks import attempt
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import Ending, Simulation, SimulationOptions
from beasy_sched.units import SECONDS_PER_DAY
from studies.study import Measured, Study

SERVER: Final = "taurus"
"""The machine of the paper's Table I; one processor of a trace is one server."""
WEEK_DAYS: Final = 7
PERIOD_DAYS: Final = (2, 5)
"""The three middle days, to which the budget applies."""
_JOB_SIZES: Final = {1: 35, 2: 10, 4: 15, 8: 15, 16: 15, 32: 10}
_SYNTHETIC: Final = ((128, 1900, 1), (192, 2900, 2), (256, 3900, 3))
"""Servers, jobs and seed of the synthetic weeks used without traces."""


@dataclass(frozen=True)
class Week:
    """A week of jobs on as many servers as its machine had processors."""

    name: str
    hosts: int
    workload: Path
    """Batsim workload."""
    sha256: str
    jobs: int
    load: float
    """Host-seconds of all jobs, over those of the week."""


def prepare_weeks(folder: Path, traces: Sequence[Path], *, quick: bool) -> list[Week]:
    """Write the workloads of ``traces``, or of synthetic weeks, into ``folder``.

    ``quick`` takes small synthetic weeks. Raises ConfigError and InputError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    speed = load_server(SERVER).kind().reference_speed_flops
    options = SwfOptions(reference_speed_flops=speed)
    made = [
        (trace.name.removesuffix(".gz").removesuffix(".swf"), workload_from_swf(trace, options))
        for trace in traces
    ] or [_synthetic(*size, speed, quick=quick) for size in _SYNTHETIC[: 2 if quick else None]]
    names = [name for name, _ in made]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--week: two weeks have the name {twice[0]!r}: rename one of the files")
    return [_written(folder, name, workload) for name, workload in made]


def _synthetic(
    hosts: int, jobs: int, seed: int, speed: float, *, quick: bool
) -> tuple[str, GeneratedWorkload]:
    if quick:
        hosts, jobs = hosts // 4, jobs // 8
    sizes = {size: share for size, share in _JOB_SIZES.items() if size <= hosts}
    options = SyntheticOptions(
        reference_speed_flops=speed,
        jobs=jobs,
        hosts=hosts,
        day_shares=(1.0,) * WEEK_DAYS,
        night_ratio=0.4,
        run_median_s=3600.0,
        run_log_sd=1.5,
        run_cap_s=SECONDS_PER_DAY,
        host_shares=sizes,
        seed=seed,
    )
    return f"synthetic-{seed}", synthetic_workload(options)


def _written(folder: Path, name: str, workload: GeneratedWorkload) -> Week:
    content = b"".join(workload.json_pieces())
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{name}-{digest[:16]}.json"
    if not path.exists():
        write_inside(folder.parent, f"{folder.name}/{path.name}", content)
    load = float(workload.run_s @ workload.hosts) / (workload.nb_res * WEEK_DAYS * SECONDS_PER_DAY)
    return Week(name, workload.nb_res, path, digest, workload.size, load)


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

    def options(self, allocation: str, reservation: str) -> dict[str, Any]:
        """Options of the policy: EASY is the same algorithm without a limit."""
        return {
            "budget": "inf" if self.algorithm == "easy" else self.budget,
            "period_start": PERIOD_S[0],
            "period_end": PERIOD_S[1],
            "monitoring": MONITORING_S,
            "shutdown": "opportunistic" if self.shutdown else "none",
            "allocation": allocation,
            "reservation": reservation,
            **ESTIMATES,
        }


def percent(budget: float) -> int:
    """A budget as the paper names it, %."""
    return round(100 * budget)


def all_settings(budgets: tuple[float, ...] = BUDGETS) -> list[Setting]:
    """The paper's conditions: EASY, and every algorithm with every budget, with and without shutdown."""
    return [Setting("easy"), *(Setting(a, b, s) for a in ALGORITHMS for b in budgets for s in (False, True))]


@dataclass(frozen=True)
class WeekTask:
    """A run and its inputs."""

    hosts: int
    workload: Path
    setting: Setting
    allocation: str
    reservation: str = "stock"


MEASURES: Final = (
    RunColumn("jobs", "integer", "", "jobs of the week"),
    RunColumn("jobs_started", "integer", "", "of them, started before the week's end"),
    RunColumn("utilization", "number", "",
              "processor-seconds of jobs within the week, over all processors', 0 to 1"),
    RunColumn("ave_bsld", "number", "", "mean bounded slowdown of all jobs (tau = 10 s)"),
    RunColumn("energy_share", "number", "",
              "energy used within the week, over all processors computing, 0 to 1"),
    RunColumn("budget_j", "number", "", "the budget, J"),
    RunColumn("period_j", "number", "", "energy used within the budget's period, J"),
    RunColumn("excess_j", "number", "", "energy used above the budget, J"),
    RunColumn("debts", "integer", "", "measurements that found a debt"),
    RunColumn("switches", "integer", "", "servers switched off or woken"),
    RunColumn("end_s", "number", "", "when the last job had ended, s"),
)  # fmt: skip


def execute_week(task: WeekTask) -> Measured:
    """Execute a run. The result reports any failure. Raises MachineError if the machine lacks a resource."""
    result = Measured()
    with attempt(result):
        result.values = _run(task)
    return result


def _run(task: WeekTask) -> dict[str, float | int | None]:
    platform = preset_platform({SERVER: task.hosts}, one_pstate=True)
    [kind] = platform.kinds
    platform = replace(platform, properties=(host_properties(kind),) * task.hosts)
    marks = [ExternalEvent(at, "mark", {"type": "mark"}) for at in (*PERIOD_S, WEEK_S)]
    options = SimulationOptions(energy=True, forward_unknown_events=True)
    simulation = Simulation(
        SimGridPlatform(platform, "master_host"), [read_workload(task.workload, "w0")], [marks], options
    )
    name = "energybud" if task.setting.algorithm == "easy" else task.setting.algorithm
    session = Session(make_policy(name, task.setting.options(task.allocation, task.reservation)))
    energy_j: dict[float, float] = {}

    def decide(message: Message) -> Reply:
        if message.now in (*PERIOD_S, WEEK_S) and message.now not in energy_j:
            meter = simulation.world.meter
            meter.accrue(message.now)
            energy_j[message.now] = meter.energy_j
        return session.step(message)

    result = simulation.run(decide)
    if result.ending is Ending.DEADLOCK:
        raise RuntimeError("deadlock: jobs wait, and no event is left")
    budget = session.policy.results()["budget"]
    limit_j, period_j = budget["budget_j"], energy_j[PERIOD_S[1]] - energy_j[PERIOD_S[0]]
    return {
        **_of_jobs(session, task.hosts),
        "energy_share": energy_j[WEEK_S] / (kind.full_w[0] * task.hosts * WEEK_S),
        "budget_j": limit_j,
        "period_j": period_j,
        "excess_j": None if limit_j is None else max(0.0, period_j - limit_j),
        "debts": budget["measurements_in_debt"],
        "switches": session.commander.switches,
        "end_s": result.makespan_s,
    }


def _of_jobs(session: Session, hosts: int) -> dict[str, float | int | None]:
    columns = session.outcomes.columns()
    started = np.isfinite(columns["start_s"])
    start_s, end_s = columns["start_s"][started], columns["end_s"][started]
    wait_s, run_s = start_s - columns["subtime_s"][started], end_s - start_s
    slowdown = bounded_slowdown(wait_s, run_s)
    within_s = np.clip(np.minimum(end_s, WEEK_S) - start_s, 0.0, None)
    return {
        "jobs": session.submitted,
        "jobs_started": int(np.count_nonzero(start_s < WEEK_S)),
        "utilization": float(within_s @ columns["res"][started]) / (hosts * WEEK_S),
        "ave_bsld": float(slowdown.mean()) if len(slowdown) else None,
    }


COLUMNS: Final = (
    RunColumn("week", "text", "", "name of the week"),
    RunColumn("hosts", "integer", "", "its processors"),
    RunColumn("algorithm", "text", "", "`easy`, `powercap`, `reducepc` or `energybud`"),
    RunColumn("budget", "number", "", "share of what all processors would use computing"),
    RunColumn("shutdown", "flag", "", "whether idle processors are switched off"),
    RunColumn("allocation", "text", "", "`any`, or `contiguous` processors for each job"),
    RunColumn("reservation", "text", "", "`stock` or `strict`: how energy is reserved"),
    RunColumn("error", "text", "", "why the run failed; empty otherwise"),
    *MEASURES,
    RunColumn("workload_sha256", "text", "", "hash of the week's workload"),
    RunColumn("version", "text", "", "version of beasy-sched"),
)
"""The columns of ``runs.parquet``."""


@dataclass(frozen=True)
class EnergyStudy(Study[tuple[Week, Setting], Measured]):
    """Weeks x settings in a folder; weeks may be added to a folder later."""

    weeks: Sequence[Week]
    settings: Sequence[Setting]
    allocation: str
    reservation: str = "stock"
    """The rule by which energy is reserved for the first waiting job."""

    _kind = Measured
    columns = COLUMNS

    @property
    def identity(self) -> Mapping[str, Any]:
        """The program's version, and the options of all settings."""
        return {
            "version": __version__,
            "allocation": self.allocation,
            "settings": [setting.options(self.allocation, self.reservation) for setting in self.settings],
        }

    @property
    def runs(self) -> list[tuple[Week, Setting]]:
        """All runs: every week in every setting."""
        return [(week, setting) for week in self.weeks for setting in self.settings]

    def _name(self, run: tuple[Week, Setting]) -> str:
        week, setting = run
        return f"{week.name}-{week.sha256[:8]}-{setting.key}"

    def _size(self, run: tuple[Week, Setting]) -> float:
        return run[0].jobs

    def _work(self, run: tuple[Week, Setting]) -> tuple[Callable[[WeekTask], Measured], WeekTask]:
        week, setting = run
        workload = week.workload.absolute()
        return execute_week, WeekTask(week.hosts, workload, setting, self.allocation, self.reservation)

    def _described(self, run: tuple[Week, Setting]) -> Mapping[str, Any]:
        week, setting = run
        return {
            "week": week.name,
            "hosts": week.hosts,
            **msgspec.structs.asdict(setting),
            "allocation": self.allocation,
            "reservation": self.reservation,
            "workload_sha256": week.sha256,
        }
