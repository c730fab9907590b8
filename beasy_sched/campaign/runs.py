"""Makes what runs read, each input once, and keeps it in the campaign's folder.

From scenarios to runs: scenario x tuple x seed x guard x policy, in this order.

The inputs of one execution as files, for Batsim or for a look at them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.campaign.folder import Folder, scenario_hash
from beasy_sched.campaign.inputs import (
    PlanTask,
    forecast_production_w,
    forecast_workload,
    make_plan,
    real_production_w,
    real_workload,
)
from beasy_sched.campaign.scenario import GuardPart, PolicyPart, Scenario, SyntheticWorkload
from beasy_sched.campaign.tasks import Keep, RunTask
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.generate.platform import platform_xml, preset_platform
from beasy_sched.generate.workload import GeneratedWorkload

QUICK_WINDOW_H = 24.0
QUICK_TUPLES = 2


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    scenario: Scenario
    tuple_number: int
    seed: int
    guard: GuardPart
    policy: PolicyPart

    @property
    def key(self) -> str:
        """Its name, unique in a campaign and fit for a file."""
        where = f"{self.scenario.name}.t{self.tuple_number}.s{self.seed}"
        return f"{where}.{self.guard.label}.{self.policy.label}"


def expand(scenarios: Sequence[Scenario]) -> list[RunSpec]:
    """Return all runs in the order of result tables. Raises ConfigError for scenarios of one name."""
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two scenarios are called {name!r}: rename one")
    return [
        RunSpec(scenario, number, seed, guard, policy)
        for scenario in scenarios
        for number in range(len(scenario.tuples))
        for seed in scenario.seeds
        for guard in scenario.guards
        for policy in scenario.policies
    ]


def quick(scenario: Scenario) -> Scenario:
    """Return a small relative of a scenario, to try things out: 24 h, two tuples, one seed.

    Synthetic jobs become fewer in proportion; the rest stays. Its results say little about the scenario.
    """
    site = scenario.parsed_site()
    window_h = min(site.window_s / 3600.0, QUICK_WINDOW_H)
    share = window_h * 3600.0 / site.window_s
    sections = {**scenario.site, "time": {**scenario.site.get("time", {}), "window_h": window_h}}
    tuples = []
    for part in scenario.tuples[:QUICK_TUPLES]:
        workload = part.workload
        if isinstance(workload, SyntheticWorkload):
            workload = msgspec.structs.replace(workload, jobs=max(round(workload.jobs * share), 1))
        tuples.append(msgspec.structs.replace(part, workload=workload))
    return msgspec.structs.replace(scenario, site=sections, tuples=tuple(tuples), seeds=scenario.seeds[:1])


Value = TypeVar("Value")


@dataclass(frozen=True)
class Forecast:
    """What a tuple foresees."""

    platform: bytes
    workload: GeneratedWorkload
    production_w: FloatArray
    plan: PlanTask
    """Everything for its plan."""


@dataclass(frozen=True)
class Execution:
    """What comes in an execution, and the hashes of it."""

    workload: bytes
    power: bytes
    hashes: dict[str, str]


class Preparation:
    """Inputs of the runs of a campaign; the few that were used last stay in memory."""

    def __init__(self, folder: Folder) -> None:
        """Keep everything in ``folder``."""
        self._folder = folder
        self._forecasts = _Recent[Forecast](4)
        self._executions = _Recent[Execution](4)
        self._hashes = _Recent[str](64)

    def forecast(self, scenario: Scenario, number: int) -> Forecast:
        """Return what tuple ``number`` foresees. Raises InputError and ConfigError."""
        return self._forecasts.get((scenario.name, number), lambda: make_forecast(scenario, number))

    def execution(self, scenario: Scenario, number: int, seed: int) -> Execution:
        """Return what comes. Raises InputError and ConfigError."""
        return self._executions.get(
            (scenario.name, number, seed), lambda: self._execution(scenario, number, seed)
        )

    def _execution(self, scenario: Scenario, number: int, seed: int) -> Execution:
        forecast = self.forecast(scenario, number)
        execution = make_execution(scenario, forecast, number, seed)
        for kind in ("workload", "power"):
            self._folder.add_input(kind, getattr(execution, kind))
        self._folder.add_input("platform", forecast.platform)
        return execution

    def task(self, spec: RunSpec, keep: Keep) -> tuple[RunTask, dict[str, str]]:
        """Return a run's task, and the hashes for its row. Raises InputError and ConfigError."""
        scenario = spec.scenario
        forecast = self.forecast(scenario, spec.tuple_number)
        execution = self.execution(scenario, spec.tuple_number, spec.seed)
        site = scenario.site_text(spec.guard)
        plan = None
        if scenario.plan.make:
            plan = self._folder.input_path("plan", forecast.plan.recipe).read_bytes()
        task = RunTask(
            policy=spec.policy.name,
            options=spec.policy.options,
            site=site,
            windows=scenario.windows,
            platform=forecast.platform,
            workload=execution.workload,
            power=execution.power,
            plan=plan,
            keep=keep,
        )
        hashes = {
            **self.provenance(scenario),
            **execution.hashes,
            "site_sha256": self._folder.add_input("site", site.encode()),
            "plan_sha256": "" if plan is None else hashlib.sha256(plan).hexdigest(),
        }
        return task, hashes

    def provenance(self, scenario: Scenario) -> dict[str, str]:
        """Return what is known of a run's origin even where its inputs cannot be made."""
        return {
            "version": __version__,
            "numpy_version": np.__version__,
            "scenario_sha256": self._hashes.get(scenario.name, lambda: scenario_hash(scenario)),
            **dict.fromkeys(
                ("platform_sha256", "workload_sha256", "power_sha256", "site_sha256", "plan_sha256"), ""
            ),
        }


def make_forecast(scenario: Scenario, number: int) -> Forecast:
    """Make what tuple ``number`` foresees. Raises InputError and ConfigError."""
    servers = preset_platform(scenario.platform.servers, one_pstate=scenario.platform.one_pstate)
    platform = "".join(platform_xml(servers)).encode()
    workload = forecast_workload(scenario, number)
    production_w = forecast_production_w(scenario, number)
    plan = PlanTask(
        site=scenario.site_text(),
        windows=scenario.windows,
        platform=platform,
        workload=b"".join(workload.json_pieces()),
        production=power_text(production_w, scenario),
        options=scenario.plan,
    )
    return Forecast(platform, workload, production_w, plan)


def make_execution(scenario: Scenario, forecast: Forecast, number: int, seed: int) -> Execution:
    """Make what comes in the execution ``seed`` of tuple ``number``."""
    workload = b"".join(real_workload(scenario, forecast.workload, seed, number).json_pieces())
    power = power_text(real_production_w(scenario, forecast.production_w, seed, number), scenario)
    contents = {"platform": forecast.platform, "workload": workload, "power": power}
    hashes = {f"{kind}_sha256": hashlib.sha256(part).hexdigest() for kind, part in contents.items()}
    return Execution(workload, power, hashes)


def power_text(power_w: FloatArray, scenario: Scenario) -> bytes:
    """Return a power file."""
    return "".join(power_event_lines(power_w, scenario.parsed_site().step_s)).encode()


class _Recent(Generic[Value]):
    """The few values that were asked for last; or why they could not be made, which costs as much to find."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Any, Value | Exception] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Value]) -> Value:
        if key not in self._values:
            try:
                self._values[key] = make()
            except Exception as error:
                self._values[key] = error
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        value = self._values[key]
        if isinstance(value, Exception):
            raise value
        return value


def materialize(scenario: Scenario, folder: Path, *, seed: int, number: int = 0) -> list[Path]:
    """Write what the execution ``seed`` of tuple ``number`` reads; return the files.

    ``platform.xml``, ``workload.json`` and ``power.txt`` are what comes, ``forecast_workload.json`` and
    ``forecast_power.txt`` what had been foreseen, ``plan.msgpack`` the plan made of it, and ``site.toml``
    the site with the scenario's first guard. The bytes are those of a campaign's run. Raises ConfigError,
    InputError and NoPlan.
    """
    if not 0 <= number < len(scenario.tuples):
        raise ConfigError(f"tuple: found {number}, expected 0 to {len(scenario.tuples) - 1}")
    forecast = make_forecast(scenario, number)
    files = dict(_contents(scenario, forecast, number, seed, scenario.guards[0]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None
    for name, content in files.items():
        write_atomic(folder / name, content)
    return [folder / name for name in files]


def _contents(
    scenario: Scenario, forecast: Forecast, number: int, seed: int, guard: GuardPart
) -> Iterator[tuple[str, bytes]]:
    execution = make_execution(scenario, forecast, number, seed)
    yield "platform.xml", forecast.platform
    yield "workload.json", execution.workload
    yield "power.txt", execution.power
    yield "forecast_workload.json", forecast.plan.workload
    yield "forecast_power.txt", forecast.plan.production
    yield "site.toml", scenario.site_text(guard).encode()
    if scenario.plan.make:
        yield "plan.msgpack", make_plan(forecast.plan)
