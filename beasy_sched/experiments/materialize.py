"""The inputs of one execution as files, for Batsim or for a look at them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beasy_sched.errors import ConfigError
from beasy_sched.experiments.planning import make_plan
from beasy_sched.experiments.preparation import Forecast, make_execution, make_forecast
from beasy_sched.experiments.scenario import GuardPart, Scenario
from beasy_sched.formats.atomic import write_atomic


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
