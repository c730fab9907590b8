"""GreenSlot's evaluation: the cases of Section 5, each run once despite interruptions, and further studies.

In addition to the files of every `Study`, the folder contains ``inputs/``: files of `greenslot_inputs`, with
which ``beasy-sched simulate`` repeats a run. The site's steps are the paper's slots of 900 s, the only
times at which it decides.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.engine import Session
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.greenslot_week import NODES, workflow_workload
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.model.choices import EnergySource
from beasy_sched.model.jobs import Terms
from beasy_sched.model.workflow import due_times
from beasy_sched.outputs.summary import summarize
from beasy_sched.plugins.campaigns.campaign_table import RunColumn
from beasy_sched.plugins.campaigns.tasks import attempt
from beasy_sched.plugins.greenslot.planning import QueuedTask, RoundSettings, plan_round
from beasy_sched.plugins.greenslot.slots import Slots
from beasy_sched.run.building import build_session
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Ending, Inputs, SimulationOptions, simulation_from_files
from beasy_sched.units import SECONDS_PER_HOUR
from studies.greenslot.cases import POLICIES, Case, Load, short_hash
from studies.greenslot.inputs import (
    BASE_KW,
    PANELS,
    PREDICTED,
    SERVER,
    SunWeek,
    carbon_lines,
    predictor_toml,
    site_text,
)
from studies.greenslot.traces import TraceWeek
from studies.study import Measured, Study

_SLOT_S: Final = 900.0
MEASURES: Final = (
    RunColumn("load", "number", "", "host-seconds of all jobs, over those of the week"),
    RunColumn("jobs", "integer", "", "jobs of the week"),
    RunColumn("finished", "integer", "", "of them, ended"),
    RunColumn("workflows", "integer", "", "workflows of the week"),
    RunColumn("missed", "integer", "", "workflows that missed their deadline"),
    RunColumn("missed_jobs", "integer", "", "jobs that missed it"),
    RunColumn("refused", "integer", "", "workflows that were rejected"),
    RunColumn("refused_jobs", "integer", "", "jobs that were rejected"),
    RunColumn("latest_s", "number", "s", "largest lateness of a job that ended"),
    RunColumn("total_kwh", "number", "kWh", "energy used, servers and base load"),
    RunColumn("green_kwh", "number", "kWh", "of it, from the sun"),
    RunColumn("import_kwh", "number", "kWh", "of it, from the grid"),
    RunColumn("cost", "number", "", "cost of the import, in the currency of its price (the paper's: USD)"),
    RunColumn("carbon_kg", "number", "kg", "carbon of the import"),
    RunColumn("peak_w", "number", "W", "largest mean power of a step"),
    RunColumn("rounds", "integer", "", "rounds of planning"),
    RunColumn("tightened", "integer", "", "deadlines moved forward"),
)
CURVES: Final = ("green_w", "brown_w", "unused_w", "price_per_kwh", "predicted_w")
"""Means of each step."""


@dataclass(frozen=True)
class CaseTask:
    """A run and its inputs."""

    platform: Path
    workload: Path
    events: Path
    settings: RunSettings
    load: float


@dataclass
class CaseResult(Measured):
    """The result of a run: `MEASURES`, and curves."""

    curves: dict[str, list[float]] = field(default_factory=dict)
    """`CURVES`, by name."""


def execute_case(task: CaseTask) -> CaseResult:
    """Execute a run. The result reports any failure. Raises MachineError if the machine lacks a resource."""
    result = CaseResult()
    with attempt(result):
        session = _run(task)
        summary = summarize(session, task.settings)
        result.values = {"load": task.load, **_measures(session, summary)}
        result.curves = _curves(session)
    return result


def _run(task: CaseTask) -> Session:
    session = build_session(task.settings, platform=read_simgrid_platform(task.platform).platform)
    inputs = Inputs(task.platform, [task.workload], [task.events])
    simulation = simulation_from_files(inputs, SimulationOptions(energy=True, forward_unknown_events=True))
    if simulation.run(session.step).ending is Ending.DEADLOCK:
        raise RuntimeError("deadlock: jobs wait, and no event is left")
    return session


def _measures(session: Session, summary: RunSummary) -> dict[str, float | int | None]:
    grid, deadlines, jobs = summary.grid, summary.deadlines, summary.jobs
    if grid is None or deadlines is None:
        raise RuntimeError(f"the run has no grid, or no deadlines: {summary.warnings}")
    planned = summary.by_policy.get("greenslot", {})
    records = [row.record for row in session.power.trace] if session.power else []
    return {
        "jobs": jobs.submitted,
        "finished": jobs.finished,
        "workflows": deadlines.workflows,
        "missed": deadlines.workflows_missed,
        "missed_jobs": deadlines.jobs_missed,
        "refused": deadlines.workflows_refused,
        "refused_jobs": deadlines.jobs_refused,
        "latest_s": deadlines.lateness_s_max or 0.0,
        "total_kwh": grid.green_kwh + grid.import_kwh,
        "green_kwh": grid.green_kwh,
        "import_kwh": grid.import_kwh,
        "cost": grid.cost,
        "carbon_kg": grid.carbon_kg,
        "peak_w": max((record.demand_w + record.base_w for record in records), default=0.0),
        "rounds": planned.get("rounds"),
        "tightened": planned.get("tightened"),
    }


def _curves(session: Session) -> dict[str, list[float]]:
    rows = session.power.trace if session.power else []
    price = [0.0 if row.metered is None else row.metered.price_per_kwh for row in rows]
    powers = {
        "green_w": [row.record.green_w for row in rows],
        "brown_w": [row.record.import_w for row in rows],
        "unused_w": [row.record.curtailed_w for row in rows],
        "predicted_w": [row.predicted_w or 0.0 for row in rows],
    }
    rounded = {name: np.round(values, 2).tolist() for name, values in powers.items()}
    return {**rounded, "price_per_kwh": np.round(price, 9).tolist()}


COLUMNS: Final = (
    RunColumn("policy", "text", "", "policy, by the paper's name"),
    RunColumn("case", "text", "", "what differs from the paper's main case"),
    RunColumn("week", "text", "", "name of the week of sun"),
    RunColumn("forecast", "text", "", "what is known of the sun: `paper`, `perfect`, ..."),
    RunColumn("options", "text", "", "further options of the policy, JSON"),
    RunColumn("error", "text", "", "why the run failed; empty otherwise"),
    *MEASURES,
    RunColumn("version", "text", "", "version of beasy-sched"),
)
"""The columns of ``runs.parquet``."""


@dataclass(frozen=True)
class GreenSlotStudy(Study[Case, CaseResult]):
    """Cases in a folder; cases and weeks may be added to it later."""

    weeks: Sequence[SunWeek]
    cases: Sequence[Case]
    traces: Sequence[TraceWeek] = ()
    history: Path | None = None
    """A year of solar production and conditions, from which the predictor learns."""

    _kind = CaseResult
    columns = COLUMNS

    @property
    def identity(self) -> Mapping[str, Any]:
        """The program's version: what else differs is in the names of the runs."""
        return {"greenslot": __version__}

    @property
    def runs(self) -> Sequence[Case]:
        """All runs, one per case."""
        return self.cases

    def _name(self, run: Case) -> str:
        contents = self._week(run).contents
        if (trace := self._trace(run.load)) is not None:
            contents += trace.contents
        return f"{run.key}-{short_hash(contents)[:6]}"

    def _size(self, run: Case) -> float:
        trace = self._trace(run.load)
        return run.load.copies if trace is None else trace.workload.size

    def _work(self, run: Case) -> tuple[Callable[[CaseTask], CaseResult], CaseTask]:
        return execute_case, self._task(run)

    def _described(self, run: Case) -> Mapping[str, Any]:
        return {
            "policy": POLICIES[run.policy][0],
            "case": run.name,
            "week": run.week,
            "forecast": run.forecast,
            "options": msgspec.json.encode(dict(run.options)).decode(),
        }

    def _task(self, case: Case) -> CaseTask:
        """Write the inputs of a run that are not there yet."""
        inputs = self.folder.absolute() / "inputs"
        inputs.mkdir(exist_ok=True)
        week = self._week(case)
        events = inputs / f"sun-{short_hash([week.hourly_w.tolist(), case.panels, case.step_s])}.txt"
        steps_w = np.repeat(week.hourly_w * (case.panels / PANELS), round(SECONDS_PER_HOUR / case.step_s))
        _write_once(events, "".join(power_event_lines(steps_w, case.step_s)))
        trace = self._trace(case.load)
        nodes = NODES if trace is None else trace.nodes
        platform = inputs / f"platform-{nodes}.xml"
        if not platform.exists():
            write_platform(preset_platform({SERVER: nodes}), platform)
        workload, load = self._workload(inputs, case.load, trace)
        site, site_path = self._site(inputs, case, week, nodes)
        _, policy, options = POLICIES[case.policy]
        settings = RunSettings(
            policy=policy,
            options={**options, **dict(case.options)},
            site=site,
            site_name=str(site_path),
            forecast=self._forecast(inputs, case, week, events),
            energy=EnergySource.MODEL,
        )
        return CaseTask(platform, workload, events, settings, load)

    @staticmethod
    def _site(inputs: Path, case: Case, week: SunWeek, nodes: int) -> tuple[str, Path]:
        """Return the site file's text and path; write it and the files that it names."""
        for file in (week.price, week.carbon):
            if file is not None:
                _write_once(inputs / file.copy_name, file.content)
        carbon = f"carbon-{week.hours}.csv"
        _write_once(inputs / carbon, "".join(carbon_lines(week.hours)))
        site = site_text(week, case.step_s, case.prices, carbon, BASE_KW * nodes / NODES)
        path = inputs / f"site-{short_hash(site)}.toml"
        _write_once(path, site)
        return site, path

    def _week(self, case: Case) -> SunWeek:
        found = next((week for week in self.weeks if week.name == case.week), None)
        if found is None:
            raise ConfigError(f"week {case.week}: is not one of the study")
        return found

    def _trace(self, load: Load) -> TraceWeek | None:
        """The week of a trace that the jobs are from. Raises ConfigError."""
        if not load.trace:
            return None
        found = next((trace for trace in self.traces if trace.name == load.trace), None)
        if found is None:
            raise ConfigError(f"trace {load.trace}: is not one of the study")
        return found

    @staticmethod
    def _workload(inputs: Path, load: Load, trace: TraceWeek | None) -> tuple[Path, float]:
        if trace is not None:
            workload = trace.due_by(load.deadlines)
            name = short_hash([load, trace.contents])
        else:
            workload, name = _of_the_paper(load), short_hash(load)
        path = inputs / f"jobs-{name}.json"
        if not path.exists():
            workload.write(path)
        return path, float(workload.load)

    def _forecast(self, inputs: Path, case: Case, week: SunWeek, events: Path) -> str:
        """Return where the predictions come from, as ``--forecast`` names it. Raises ConfigError."""
        if case.forecast in ("none", "perfect"):
            return "none" if case.forecast == "none" else f"perfect:{events}"
        if case.forecast == PREDICTED:
            if self.history is None:
                raise ConfigError("the study has no production of the past for the predictor")
            text = predictor_toml(self.history, week, case.panels)
            path = inputs / f"predictor-{short_hash(text)}.toml"
            _write_once(path, text)
            return f"predictor:{path}"
        share = case.panels / PANELS
        rows = week.forecast_rows(case.forecast)
        lines = [f"{issued},{valid},{share * power_w:g}\n" for issued, valid, power_w in rows]
        text = "issued,valid,W\n" + "".join(lines)
        path = inputs / f"forecast-{case.forecast}-{short_hash(text)}.csv"
        _write_once(path, text)
        return str(path)


def _of_the_paper(load: Load) -> GeneratedWorkload:
    fields = msgspec.structs.asdict(load)
    for name in ("trace", "deadlines"):
        del fields[name]
    independent, only = fields.pop("independent"), fields.pop("only")
    workload = workflow_workload(WorkflowOptions(**fields))
    if only:
        workload = _only(workload, only)
    return _without_precedence(workload) if independent else workload


def _only(workload: GeneratedWorkload, name: str) -> GeneratedWorkload:
    """The jobs of one of the three workloads."""
    kept = [row for row, own in enumerate(workload.extras["workflow"]) if own.startswith(f"{name}.")]
    arrays = ("submit_s", "run_s", "hosts", "walltime_s")
    return dataclasses.replace(
        workload,
        ids=[workload.ids[row] for row in kept],
        extras={key: [values[row] for row in kept] for key, values in workload.extras.items()},
        **{key: getattr(workload, key)[kept] for key in arrays},
    )


def _without_precedence(workload: GeneratedWorkload) -> GeneratedWorkload:
    """Return the jobs without precedence: each is due by its internal deadline and waits for no other."""
    extras = dict(workload.extras)
    workflows, phases, own_s = (extras[name] for name in ("workflow", "phase", "deadline_s"))
    terms = [Terms(workflow=w, phase=p) for w, p in zip(workflows, phases, strict=True)]
    jobs = zip(workload.ids, terms, own_s, workload.walltime_s.tolist(), strict=True)
    due_s = due_times(jobs, _SLOT_S)
    extras["deadline_s"] = [due_s[job_id] for job_id in workload.ids]
    del extras["phase"]
    return dataclasses.replace(workload, extras=extras)


def _write_once(path: Path, content: str | bytes) -> None:
    if not path.exists():
        write_atomic(path, content)


def round_times_s(queues: Sequence[int] = (60, 240), repeats: int = 5) -> dict[int, float]:
    """Measure how long a round of planning takes by number of queued jobs, each its own workflow, s."""
    hours = np.arange(192) / 4.0
    sun_w = 1500.0 * np.maximum(np.sin(2.0 * math.pi * hours / 24.0), 0.0)
    price = np.where(hours % 24 < 14, 0.13, 0.08)
    found = {}
    for queued in queues:
        tasks = [
            QueuedTask(str(n), 1, 3600.0 + 60.0 * (n % 50), 40 * SECONDS_PER_HOUR, order=n)
            for n in range(queued)
        ]
        took = []
        for _ in range(repeats):
            slots = Slots.predicted(0.0, 900.0, sun_w, price, nodes=NODES, full_w=105.0, sleep_w=8.6)
            began = time.process_time()
            plan_round(slots, tasks, {}, RoundSettings())
            took.append(time.process_time() - began)
        found[queued] = min(took)
    return found
