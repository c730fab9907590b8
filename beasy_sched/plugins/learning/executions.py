"""Executions of scenarios for training, on days and noise seeds that no reported table uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from beasy_sched.errors import ConfigError
from beasy_sched.generate.workload_options import ARRIVAL_SHAPES
from beasy_sched.plugins.campaigns.run_inputs import ForecastInputs, make_forecast, make_plan, make_real
from beasy_sched.plugins.campaigns.scenario import (
    PolicyPart,
    Scenario,
    SyntheticProduction,
    SyntheticWorkload,
    TuplePart,
)
from beasy_sched.plugins.campaigns.tasks import RunTask

FIRST_SEED: Final = 10_000
SEEDS_END: Final = 500_000
"""Training uses seeds from the first to below this one; smaller ones are for tuning and for tables."""
NOISES_PER_DAY: Final = 4
"""Number of executions on the same days, which share a plan."""
_SHAPES: Final = tuple(ARRIVAL_SHAPES)


@dataclass(frozen=True)
class TrainingExecution:
    """Jobs and weather of some days, and a noise seed."""

    scenario: Scenario
    day: int
    noise: int

    @property
    def days(self) -> Scenario:
        """Return the scenario on these days alone. Raises ConfigError if jobs or weather come from files."""
        scenario, part = self.scenario, self.scenario.tuples[0]
        workload, production = part.workload, part.production
        if not isinstance(workload, SyntheticWorkload) or not isinstance(production, SyntheticProduction):
            raise ConfigError(
                f"scenario {scenario.name!r} has jobs or weather from files: agents learn from generated days"
            )
        shape = _SHAPES[self.day % len(_SHAPES)] if len(scenario.tuples) > 1 else workload.shape
        days = TuplePart(
            workload=msgspec.structs.replace(workload, seed=self.day, shape=shape),
            production=msgspec.structs.replace(production, seed=self.day),
        )
        return msgspec.structs.replace(scenario, tuples=(days,), sweep={})


def executions(
    scenarios: Sequence[Scenario], count: int, first_seed: int = FIRST_SEED
) -> list[TrainingExecution]:
    """Return ``count`` executions, with alternating scenarios. Raises ConfigError for reserved seeds."""
    pairs = math.ceil(count / (NOISES_PER_DAY * len(scenarios)))
    if not FIRST_SEED <= first_seed <= first_seed + max(pairs, count) <= SEEDS_END:
        raise ConfigError(
            f"seeds {first_seed} to {first_seed + max(pairs, count) - 1}: training uses {FIRST_SEED} to"
            f" {SEEDS_END - 1}; others belong to reported tables, or were used to tune policies"
        )
    for scenario in scenarios:
        if not scenario.plan.make:
            raise ConfigError(f"scenario {scenario.name!r} has no plan, which agents require: set plan.make")
    return [
        TrainingExecution(
            scenarios[number % len(scenarios)],
            first_seed + number // (NOISES_PER_DAY * len(scenarios)),
            first_seed + number,
        )
        for number in range(count)
    ]


@dataclass
class Days:
    """Common inputs of the executions on some days."""

    forecast: ForecastInputs
    plan: bytes


def prepare(execution: TrainingExecution) -> Days:
    """Create the forecasts and the plan of an execution's days. Raises ConfigError, InputError and NoPlan."""
    forecast = make_forecast(execution.days, 0)
    return Days(forecast, make_plan(forecast.plan))


def task_of(execution: TrainingExecution, days: Days, policy: str = "random") -> RunTask:
    """Return the run of an execution, under the scenario's first guard. Raises ConfigError and InputError."""
    scenario = execution.days
    real = make_real(scenario, days.forecast, 0, execution.noise)
    return RunTask(
        policy=PolicyPart(name=policy, label=policy),
        site=scenario.site_text(scenario.guards[0]),
        windows=scenario.windows,
        platform=days.forecast.plan.platform,
        workload=real.workload,
        power=real.power,
        plan=days.plan,
    )
