"""GreenSlot's evaluation: the cases of Section 5, each run once, whatever interrupts it; studies beyond it.

The folder holds ``study.json`` (what the study is), ``inputs/`` (files of `greenslot_inputs`, with which
``beasy-sched simulate`` repeats a run), ``rows/`` (one small file for each run that has ended) and, once all
have, ``runs.parquet``. The site's steps are the paper's slots of 900 s, the only times at which it decides.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.campaign.campaign import Progress
from beasy_sched.campaign.folder import must_be_empty, read_ended
from beasy_sched.campaign.table import RunColumn, parquet_of
from beasy_sched.campaign.tasks import Attempt, attempt
from beasy_sched.campaign.workers import Executor, Failure, Task, work_through
from beasy_sched.engine import Session
from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.generate.platform import preset_platform, write_platform
from beasy_sched.generate.workflows import NODES, WorkflowOptions, workflow_workload
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.model.workflow import Terms, due_times
from beasy_sched.outputs.summary import summarize
from beasy_sched.policies.greenslot.planning import QueuedTask, RoundSettings, plan_round
from beasy_sched.policies.greenslot.slots import Slots
from beasy_sched.reproduction.greenslot_cases import POLICIES, Case, Load, short_hash
from beasy_sched.reproduction.greenslot_inputs import PANELS, SunWeek, carbon_lines, site_text
from beasy_sched.settings import RunSettings, build_session
from beasy_sched.simulator import Ending, Inputs, SimulationOptions, simulation_from_files
from beasy_sched.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import pandas as pd

SERVER: Final = "greenslot-xeon"
_SLOT_S: Final = 900.0
MEASURES: Final = (
    RunColumn("load", "number", "", "host-seconds of all jobs, over those of the week"),
    RunColumn("jobs", "integer", "", "jobs of the week"),
    RunColumn("finished", "integer", "", "of them, ended"),
    RunColumn("workflows", "integer", "", "workflows of the week"),
    RunColumn("missed", "integer", "", "workflows that missed their deadline"),
    RunColumn("missed_jobs", "integer", "", "jobs that missed it"),
    RunColumn("refused", "integer", "", "workflows that were refused"),
    RunColumn("latest_s", "number", "s", "largest lateness of a job that ended"),
    RunColumn("total_kwh", "number", "kWh", "energy used, servers and base load"),
    RunColumn("green_kwh", "number", "kWh", "of it, from the sun"),
    RunColumn("import_kwh", "number", "kWh", "of it, from the grid"),
    RunColumn("cost", "number", "USD", "cost of the import"),
    RunColumn("carbon_kg", "number", "kg", "carbon of the import, of a made-up intensity"),
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
class CaseResult(Attempt):
    """What came of it."""

    values: dict[str, float | int | None] = field(
        default_factory=lambda: dict.fromkeys(measure.name for measure in MEASURES)
    )
    """The measures, by name (`MEASURES`)."""
    curves: dict[str, list[float]] = field(default_factory=dict)
    """`CURVES`, by name."""


def execute_case(task: CaseTask) -> CaseResult:
    """Run it. The result reports whatever goes wrong. Raises MachineError if the machine lacks a resource."""
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


def _measures(session: Session, summary: Mapping[str, Any]) -> dict[str, float | int | None]:
    grid, deadlines, jobs = summary["grid"], summary["deadlines"], summary["jobs"]
    planned = summary.get("greenslot", {})
    records = [row.record for row in session.power.trace] if session.power else []
    return {
        "jobs": jobs["submitted"],
        "finished": jobs["finished"],
        "workflows": deadlines["workflows"],
        "missed": deadlines["workflows_missed"],
        "missed_jobs": deadlines["jobs_missed"],
        "refused": deadlines["workflows_refused"],
        "latest_s": deadlines["lateness_s_max"] or 0.0,
        "total_kwh": grid["green_kwh"] + grid["import_kwh"],
        "green_kwh": grid["green_kwh"],
        "import_kwh": grid["import_kwh"],
        "cost": grid["cost"],
        "carbon_kg": grid["carbon_kg"],
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
class GreenSlotStudy:
    """Cases in a folder; cases and weeks may be added to it later."""

    folder: Path
    weeks: Sequence[SunWeek]
    cases: Sequence[Case]

    def begin(self) -> None:
        """Make the folder, or see that it is that of such a study. Raises ConfigError."""
        path, content = self.folder / "study.json", msgspec.json.encode({"greenslot": __version__})
        if path.exists() and path.read_bytes() != content:
            raise ConfigError(f"{path} belongs to another study (or program version): choose another folder")
        if not path.exists():
            must_be_empty(self.folder, "that of a study")
        for name in ("inputs", "rows"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)

    def go_on(self, executor: Executor, progress: Progress | None = None) -> int:
        """Execute the runs that have not ended well; return how many failed. ``executor`` is closed."""
        tell = progress or (lambda ended, total: None)
        pending = [case for case in self.cases if (found := self.result(case)) is None or found.error]
        ended = len(self.cases) - len(pending)
        pending.sort(key=lambda case: -case.load.copies)  # the longest first
        tasks: Iterator[Task] = ((case, execute_case, self._task(case)) for case in pending)

        def done(case: Case, result: CaseResult | Failure) -> None:
            nonlocal ended
            if isinstance(result, Failure):
                result = CaseResult(result.error)
            write_atomic(self._row_path(case), msgspec.json.encode(result))
            ended += 1
            tell(ended, len(self.cases))

        with contextlib.closing(executor):
            tell(ended, len(self.cases))
            work_through(executor, tasks, done)
        return sum(bool(result.error) for _, result in self._results())

    def _task(self, case: Case) -> CaseTask:
        """Write the inputs of a run that are not there yet."""
        inputs = self.folder.absolute() / "inputs"
        week = self._week(case)
        events = inputs / f"sun-{short_hash([week.hourly_w.tolist(), case.panels, case.step_s])}.txt"
        steps_w = np.repeat(week.hourly_w * (case.panels / PANELS), round(SECONDS_PER_HOUR / case.step_s))
        _write_once(events, "".join(power_event_lines(steps_w, case.step_s)))
        platform = inputs / "platform.xml"
        if not platform.exists():
            write_platform(preset_platform({SERVER: NODES}), platform)
        workload, load = self._workload(inputs, case.load)
        _write_once(inputs / "carbon.csv", "".join(carbon_lines()))
        site = site_text(week, case.step_s, case.prices, "carbon.csv")
        site_path = inputs / f"site-{short_hash(site)}.toml"
        _write_once(site_path, site)
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

    def _week(self, case: Case) -> SunWeek:
        found = next((week for week in self.weeks if week.name == case.week), None)
        if found is None:
            raise ConfigError(f"week {case.week}: is not one of the study")
        return found

    @staticmethod
    def _workload(inputs: Path, load: Load) -> tuple[Path, float]:
        path = inputs / f"jobs-{short_hash(load)}.json"
        fields = msgspec.structs.asdict(load)
        independent = fields.pop("independent")
        workload = workflow_workload(WorkflowOptions(**fields))
        if independent:
            workload = _without_precedence(workload)
        if not path.exists():
            workload.write(path)
        return path, float(workload.load)

    @staticmethod
    def _forecast(inputs: Path, case: Case, week: SunWeek, events: Path) -> str:
        """Return where the predictions come from, as ``--forecast`` names it."""
        if case.forecast in ("none", "perfect"):
            return "none" if case.forecast == "none" else f"perfect:{events}"
        share = case.panels / PANELS
        rows = week.forecast_rows(case.forecast)
        lines = [f"{issued},{valid},{share * power_w:g}\n" for issued, valid, power_w in rows]
        text = "issued,valid,W\n" + "".join(lines)
        path = inputs / f"forecast-{case.forecast}-{short_hash(text)}.csv"
        _write_once(path, text)
        return str(path)

    def _row_path(self, case: Case) -> Path:
        week = short_hash(self._week(case).hourly_w.tolist())
        return self.folder / "rows" / f"{case.key}-{week[:6]}.json"

    def result(self, case: Case) -> CaseResult | None:
        """Return what became of a run, None where it has not ended."""
        return read_ended(self._row_path(case), CaseResult)

    def _results(self) -> Iterator[tuple[Case, CaseResult]]:
        """What became of all runs. Raises InputError where one has not ended."""
        for case in self.cases:
            if (found := self.result(case)) is None:
                raise InputError(self._row_path(case), "cannot be read: run the study again")
            yield case, found

    def results(self) -> dict[Case, CaseResult]:
        """Return what became of all runs that ended well. Raises InputError."""
        return {case: result for case, result in self._results() if not result.error}

    def failures(self) -> list[tuple[Case, str]]:
        """Return the runs that failed, and why."""
        return [(case, result.error) for case, result in self._results() if result.error]

    def write_table(self) -> Path:
        """Write ``runs.parquet``; the same study gives the same bytes. Raises ConfigError and InputError."""
        write_atomic(self.folder / "runs.parquet", parquet_of(list(self._rows()), COLUMNS))
        return self.folder / "runs.parquet"

    def _rows(self) -> Iterator[dict[str, Any]]:
        for case, result in self._results():
            yield {
                "policy": POLICIES[case.policy][0],
                "case": case.name,
                "week": case.week,
                "forecast": case.forecast,
                "options": msgspec.json.encode(dict(case.options)).decode(),
                "error": result.error or "",
                **result.values,
                "version": __version__,
            }

    def table(self) -> pd.DataFrame:
        """Return the runs as a data frame."""
        import pandas

        return pandas.DataFrame(list(self._rows()))

    def cpu_s(self) -> float:
        """Processor time of all runs, s."""
        return sum(result.cpu_s for _, result in self._results())


def _without_precedence(workload: GeneratedWorkload) -> GeneratedWorkload:
    """The same jobs, each due by its internal deadline and waiting for no other."""
    extras = dict(workload.extras)
    workflows, phases, own_s = (extras[name] for name in ("workflow", "phase", "deadline_s"))
    terms = [Terms(workflow=w, phase=p) for w, p in zip(workflows, phases, strict=True)]
    jobs = zip(workload.ids, terms, own_s, workload.walltime_s.tolist(), strict=True)
    due_s = due_times(jobs, _SLOT_S)
    extras["deadline_s"] = [due_s[job_id] for job_id in workload.ids]
    del extras["phase"]
    return dataclasses.replace(workload, extras=extras)


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        write_atomic(path, text)


def round_times_s(queues: Sequence[int] = (60, 240), repeats: int = 5) -> dict[int, float]:
    """Measure how long a round of planning takes with so many queued jobs, each its own workflow, s."""
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
