"""A campaign: all runs of some scenarios, in parallel, each once, despite interruptions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.errors import ConfigError, machine_error, why
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.reading import read_bytes
from beasy_sched.generate.power_events import SitePower
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.plugins.campaigns.axes import Shaped
from beasy_sched.plugins.campaigns.campaign_table import check_installed, failed_of, row_of, write_tables
from beasy_sched.plugins.campaigns.folder import (
    Folder,
    check_same,
    manifest_of,
    must_be_empty,
    read_manifest,
    scenario_hash,
)
from beasy_sched.plugins.campaigns.parts import CampaignPart
from beasy_sched.plugins.campaigns.run_inputs import (
    ForecastInputs,
    RealInputs,
    forecast_csv,
    forecast_inputs,
    forecast_production,
    forecast_workload,
    make_folder,
    make_real_power,
    make_real_workload,
)
from beasy_sched.plugins.campaigns.scenario import Scenario, quick
from beasy_sched.plugins.campaigns.scenario_file import check_code
from beasy_sched.plugins.campaigns.shared_plans import MadePlan, SharedPlans, solve
from beasy_sched.plugins.campaigns.sweep import Point, RunSpec, expand, shaping
from beasy_sched.plugins.campaigns.tasks import Keep, RunResult, RunTask, execute
from beasy_sched.plugins.campaigns.workers import Executor, Failure, Task, work_through

Value = TypeVar("Value")
Progress = Callable[[int, int], None]
"""Function called with the number of runs that have ended and the number of all."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a campaign."""

    folder: Path
    runs: int
    executed: int
    """Number of runs that this call executed, without runs that were already finished."""
    failed: int
    left: int = 0
    """Number of runs left to other parts of the campaign."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    """Warnings of this call's runs, and the number of each; warnings that differ only in figures count as
    one, with the text of the first."""


def begin(
    scenarios: Sequence[Scenario], folder: Path, *, small: bool = False, keep: Keep = "nothing"
) -> None:
    """Create the folder of a campaign, or check that it belongs to the same campaign.

    ``small`` uses the quick versions of the scenarios. Raises ConfigError and InputError.
    """
    expand(scenarios)
    check_installed(scenarios)
    if small:
        scenarios = [quick(scenario) for scenario in scenarios]
    manifest, place = manifest_of(scenarios, quick=small, keep=keep), Folder(folder)
    if place.manifest.exists():
        check_same(folder, read_manifest(place.manifest), manifest)
    else:
        must_be_empty(folder, "a campaign")
    make_folder(folder)
    write_atomic(place.manifest, json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n")


def go_on(
    folder: Path,
    executor: Executor,
    *,
    progress: Progress | None = None,
    retry_failed: bool = False,
    allowed: Collection[str] = (),
    part: CampaignPart | None = None,
) -> Outcome:
    """Execute the unfinished runs of the campaign in ``folder``, and write its tables.

    With a ``part``, only its runs are executed, and the last part to finish writes the tables.
    ``executor`` is closed in any case; ``allowed`` are the policies ``package.module:Class`` that the
    folder's description may have imported. Raises ConfigError, InputError and MachineError; a run that fails,
    or whose process dies, is a row with the error.
    """
    with contextlib.closing(executor):
        place = Folder(folder)
        manifest = read_manifest(place.manifest)
        scenarios = manifest.parsed()
        for scenario in scenarios:
            check_code(scenario, allowed)
        now = manifest_of(scenarios, quick=manifest.quick, keep=manifest.keep)
        check_same(folder, manifest, now)  # another version, or files that have changed
        with place.locked(shared=part is not None):
            specs = expand(scenarios)
            own = specs if part is None else part.take(specs)
            work = Work(place, Preparation(place), executor, manifest.keep, progress)
            work.run(own, retry_failed=retry_failed)
            left = 0 if part is None else sum(not place.row_path(spec.key).exists() for spec in specs)
            failed = failed_of(place, own) if left else write_tables(place, specs)
            return Outcome(folder, len(specs), work.executed, failed, left, work.warnings)


@dataclass
class Work:
    """Executor of unfinished runs, after their plans; more may be added later."""

    folder: Folder
    prepared: Preparation
    executor: Executor
    keep: Keep = "nothing"
    progress: Progress | None = None
    executed: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    """Number of runs that gave each warning; see `Outcome`."""
    _pending: list[RunSpec] = field(default_factory=list)
    _ended: int = 0
    """Number of the requested runs that had finished before this call."""
    _total: int = 0
    _no_plan: dict[str, str] = field(default_factory=dict)
    """Reason why there is no plan, by recipe."""
    _provenance: dict[str, dict[str, str]] = field(default_factory=dict)
    """Hashes of the inputs of the current runs."""
    _first_words: dict[str, str] = field(default_factory=dict)
    """First warning of each kind; warnings of one kind differ only in numbers."""

    def run(self, specs: Sequence[RunSpec], *, retry_failed: bool = False) -> None:
        """Execute the unfinished runs. Raises MachineError."""
        self._pending = []
        for spec in specs:
            ended = self.folder.ended(spec.key) if self.folder.has(spec.key, self.keep) else None
            if ended is None or (retry_failed and ended.row["status"] == "failed"):
                self._pending.append(spec)
        self._ended += len(specs) - len(self._pending)
        self._total = self._ended + self.executed + len(self._pending)
        self._tell()
        work_through(self.executor, self._plans(), self._plan_done)
        work_through(self.executor, self._runs(), self._run_done)

    def _plans(self) -> Iterator[Task]:
        """Yield the missing plans of pending runs, each once."""
        asked = set(self._no_plan)
        for spec in self._pending:
            if not spec.scenario.plan.make:
                continue
            try:
                task = self.prepared.forecast(spec).plan
            except Exception:  # the runs will report it
                continue
            if task.recipe not in asked and not self._has_plan(task.recipe):
                yield task.recipe, solve, task
            asked.add(task.recipe)

    def _has_plan(self, recipe: str) -> bool:
        """Whether the folder has a plan, possibly from a neighbouring campaign."""
        if self.folder.has_plan(recipe):
            return True
        shared = SharedPlans.beside(self.folder.path).find(recipe)
        if shared is None:
            return False
        self.folder.add_plan(recipe, shared)
        return self.folder.has_plan(recipe)  # unless it is damaged

    def _plan_done(self, recipe: str, result: MadePlan | Failure) -> None:
        if isinstance(result, Failure):
            self._no_plan[recipe] = result.error
        else:
            self.folder.add_plan(recipe, result.content)
            SharedPlans.beside(self.folder.path).add(recipe, result)

    def _runs(self) -> Iterator[Task]:
        for spec in self._pending:
            self._provenance[spec.key] = self.prepared.provenance(spec)
            try:
                recipe = self.prepared.forecast(spec).plan.recipe
                if recipe in self._no_plan:
                    raise ConfigError(f"there is no plan: {self._no_plan[recipe]}")
                task, self._provenance[spec.key] = self.prepared.task(spec, self.keep)
            except Exception as error:  # a row with the error; the campaign continues
                if machine_error(error) is not None:
                    raise
                self._run_done(spec, Failure(why(error)))
            else:
                yield spec, execute, task

    def _run_done(self, spec: RunSpec, result: RunResult | Failure) -> None:
        if isinstance(result, Failure):
            result = RunResult(result.error)
        elif result.version != __version__:
            result = RunResult(f"a worker with beasy-sched {result.version} executed it")
        run_warnings = result.summary.warnings if result.summary is not None else ()
        for sort, text in {re.sub(r"\d[\d.,e+-]*", "#", text): text for text in run_warnings}.items():
            self.warnings[self._first_words.setdefault(sort, text)] += 1
        row = row_of(
            spec,
            self._provenance.pop(spec.key),
            result.summary,
            result.error,
            work_finished_pct=result.work_finished_pct,
        )
        self.folder.add(spec.key, row, result, self.keep)
        self.executed += 1
        self._tell()

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self._ended + self.executed, self._total)


class Preparation:
    """Inputs of the runs of a campaign; the most recent ones stay in memory.

    Inputs that do not depend on an axis of a sweep are the same at all its points, and created once.
    """

    def __init__(self, folder: Folder) -> None:
        """Store the inputs in ``folder``."""
        self._folder = folder
        self._forecasts = _Recent[ForecastInputs](4)
        self._executions = _Recent[tuple[RealInputs, dict[str, str]]](4)
        self._workloads = _Recent[tuple[GeneratedWorkload, bytes]](4)
        self._real_workloads = _Recent[bytes](4)
        self._productions = _Recent[SitePower](64)
        self._hashes = _Recent[str](64)

    def forecast(self, spec: RunSpec) -> ForecastInputs:
        """Return the forecasts of a run's tuple. Raises InputError and ConfigError."""
        key = spec.scenario.name, spec.tuple_number, spec.point
        return self._forecasts.get(key, lambda: self._forecast(spec))

    def task(self, spec: RunSpec, keep: Keep) -> tuple[RunTask, dict[str, str]]:
        """Return a run's task, and the hashes for its row. Raises InputError and ConfigError."""
        scenario = spec.scenario
        forecast = self.forecast(spec)
        real, hashes = self._executions.get(
            (scenario.name, spec.tuple_number, spec.seed, spec.point),
            lambda: self._execution(spec, forecast),
        )
        site = scenario.site_text(spec.guard)
        plan = None
        if scenario.plan.make:
            plan = read_bytes(self._folder.input_path("plan", forecast.plan.recipe))
        task = RunTask(
            policy=spec.policy,
            site=site,
            windows=scenario.windows,
            platform=forecast.plan.platform,
            workload=real.workload,
            power=real.power,
            plan=plan,
            keep=keep,
            replan=scenario.plan.replan,
            expected=(forecast.plan.workload, forecast.plan.production) if scenario.plan.replan else None,
            forecast=scenario.forecast,
            forecast_file=(
                forecast_csv(forecast.production.total_w, scenario)
                if scenario.forecast is not None and scenario.forecast.source == "plan"
                else None
            ),
        )
        return task, {
            **self.provenance(spec),
            **hashes,
            "site_sha256": self._folder.add_input("site", site.encode()),
            "plan_sha256": "" if plan is None else hashlib.sha256(plan).hexdigest(),
        }

    def provenance(self, spec: RunSpec) -> dict[str, str]:
        """Return the origin of a run, which is available even if its inputs cannot be created."""
        key = spec.scenario.name, spec.point, spec.mark
        return {
            "version": __version__,
            "numpy_version": np.__version__,
            "scenario_sha256": self._hashes.get(key, lambda: scenario_hash(spec.scenario)),
            **{f"{kind}_sha256": "" for kind in ("platform", "workload", "power", "site", "plan")},
        }

    def _forecast(self, spec: RunSpec) -> ForecastInputs:
        scenario, number = spec.scenario, spec.tuple_number

        def workload() -> tuple[GeneratedWorkload, bytes]:
            made = forecast_workload(scenario, number)
            return made, b"".join(made.json_pieces())

        jobs, as_json = self._workloads.get(_key(spec, "workload"), workload)
        production = self._productions.get(
            _key(spec, "production"), lambda: forecast_production(scenario, number)
        )
        return forecast_inputs(scenario, jobs, as_json, production)

    def _execution(self, spec: RunSpec, forecast: ForecastInputs) -> tuple[RealInputs, dict[str, str]]:
        """Return the actual inputs of an execution, stored in the folder, and their hashes."""
        scenario, number, seed = spec.scenario, spec.tuple_number, spec.seed
        workload = self._real_workloads.get(
            (_key(spec, "workload"), seed),
            lambda: make_real_workload(scenario, forecast.workload, number, seed),
        )
        real = RealInputs(workload, make_real_power(scenario, forecast.production, number, seed))
        contents = {"workload": real.workload, "power": real.power, "platform": forecast.plan.platform}
        add = self._folder.add_input
        return real, {f"{kind}_sha256": add(kind, content) for kind, content in contents.items()}


def _key(spec: RunSpec, kind: Shaped) -> tuple[str, int, Point]:
    return spec.scenario.name, spec.tuple_number, shaping(spec.point, kind)


class _Recent(Generic[Value]):
    """Cache of the most recent values, or of the errors in creating them, which take as long to find."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Any, Value | Exception] = {}

    def get(self, key: Any, make: Callable[[], Value]) -> Value:
        try:
            value = self._values.pop(key) if key in self._values else make()
        except Exception as error:
            value = error
        self._values[key] = value  # the last one
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        if isinstance(value, Exception):
            raise value
        return value
