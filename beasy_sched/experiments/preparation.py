"""Makes what runs read, each input once, and keeps it in the campaign's folder."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.experiments.execute import Keep, RunTask
from beasy_sched.experiments.expansion import RunSpec
from beasy_sched.experiments.folder import Folder
from beasy_sched.experiments.inputs import (
    forecast_production_w,
    forecast_workload,
    real_production_w,
    real_workload,
)
from beasy_sched.experiments.manifest import scenario_hash
from beasy_sched.experiments.planning import PlanTask
from beasy_sched.experiments.scenario import Scenario
from beasy_sched.formats.power_events import power_event_lines
from beasy_sched.generate.platform import platform_xml, preset_platform
from beasy_sched.generate.workload import GeneratedWorkload

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
