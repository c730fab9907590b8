"""Checks of a scenario that its types do not make: each error names the field of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from beasy_sched.energy.checks import FieldError
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.experiments.inputs import start_in_trace_s, synthetic_options
from beasy_sched.experiments.scenario import FileProduction, Scenario, SwfWorkload
from beasy_sched.formats.timestamps import parse_moment
from beasy_sched.generate.noise import gaussian_factors
from beasy_sched.generate.server_spec import load_server
from beasy_sched.limits import shortened
from beasy_sched.policies.registry import check_named_in_data, make_policy, policy_class

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST_SEED: Final = 1 << 63
_MOST_SERVERS: Final = 1_000_000
_MOST_JOBS: Final = 100_000_000


_HOW_TO_ALLOW: Final = "allow it by name with --allow-policy {name}"


def check_scenario(scenario: Scenario, allowed: Collection[str] = ()) -> None:
    """Raise ConfigError, naming the field, for what cannot be run.

    Policies ``package.module:Class`` are code, and imported only where ``allowed`` names them.
    """
    check_code(scenario, allowed)
    _check_name("name", scenario.name)
    with _at("site"):
        scenario.parsed_site()
    _require(scenario.windows >= 1, "windows", scenario.windows, "1 or more")
    _check_platform(scenario)
    for number in range(len(scenario.tuples)):
        prefix = f"tuples[{number}]." if len(scenario.tuples) > 1 else ""
        _check_workload(scenario, number, prefix)
        _check_production(scenario, number, prefix)
    for name in ("arrivals_sigma", "run_time_sigma"):
        with _at(f"noise.{name}"):
            gaussian_factors(np.empty(0), getattr(scenario.noise, name))
    with _at("plan.load_uncertainty_pct"):
        scenario.plan.uncertainty("load")
    with _at("plan.renew_uncertainty_pct"):
        scenario.plan.uncertainty("renew")
    least_s = scenario.plan.minimum_on_s
    _require(0 <= least_s < np.inf, "plan.minimum_on_s", least_s, "0 s or more")
    _check_policies(scenario)
    _check_distinct("guards", [guard.label for guard in scenario.guards])
    _check_distinct("seeds", scenario.seeds)
    for seed in scenario.seeds:
        _require(0 <= seed < _LARGEST_SEED, "seeds", seed, "whole numbers from 0 to 2**63 - 1")


def _check_platform(scenario: Scenario) -> None:
    servers = scenario.platform.servers
    _require(bool(servers), "platform.servers", servers, "one at least, such as { gros = 50 }")
    for source, count in servers.items():
        with _at("platform.servers"):
            load_server(source)
        expected = f"1 to {_MOST_SERVERS:,}"
        _require(1 <= count <= _MOST_SERVERS, f"platform.servers.{source}", count, expected)
    if scenario.platform.reference is not None:
        with _at("platform.reference"):
            load_server(scenario.platform.reference)


def _check_workload(scenario: Scenario, number: int, prefix: str) -> None:
    part = scenario.tuples[number].workload
    if isinstance(part, SwfWorkload):
        _check_file(f"{prefix}workload.file", part.file)
        with _at(f"{prefix}workload.from"):
            start_in_trace_s(part)
        _require(
            part.cores_per_host >= 1, f"{prefix}workload.cores_per_host", part.cores_per_host, "1 or more"
        )
        return
    _require(part.jobs <= _MOST_JOBS, f"{prefix}workload.jobs", part.jobs, f"{_MOST_JOBS:,} at most")
    with _at(f"{prefix}workload"):
        synthetic_options(scenario, part)


def _check_production(scenario: Scenario, number: int, prefix: str) -> None:
    part = scenario.tuples[number].production
    where = f"{prefix}production"
    for name in ("pv_kw", "wind_kw"):
        _require(0 <= getattr(part, name) < np.inf, f"{where}.{name}", getattr(part, name), "0 kW or more")
    if part.start is not None:
        _require(
            parse_moment(part.start) is not None, f"{where}.start", part.start, "a date such as 2024-06-01"
        )
    if not isinstance(part, FileProduction):
        _require(part.seed >= 0, f"{where}.seed", part.seed, "0 or more")
        try:
            part.weather()
        except FieldError as error:
            raise ConfigError(f"{where}.{error}") from None
        return
    if part.pv is None and part.wind is None:
        raise ConfigError(f"{where}: expected a file for pv, for wind, or for both")
    for name in ("pv", "wind"):
        file, size_kw = getattr(part, name), getattr(part, f"{name}_kw")
        if file is not None:
            _check_file(f"{where}.{name}", file)
            _require(size_kw > 0, f"{where}.{name}_kw", size_kw, "the plant's size, above 0")


def check_code(scenario: Scenario, allowed: Collection[str]) -> None:
    """Raise ConfigError for policies ``package.module:Class`` that are not among those ``allowed``."""
    for number, policy in enumerate(scenario.policies):
        with _at(f"policies[{number}]"):
            check_named_in_data(policy.name, allowed, _HOW_TO_ALLOW.format(name=shortened(policy.name)))


def _check_policies(scenario: Scenario) -> None:
    for number, policy in enumerate(scenario.policies):
        with _at(f"policies[{number}]"):
            make_policy(policy.name, policy.options)
        _check_name(f"policies[{number}].label", policy.label)
        if policy_class(policy.name).needs_plan and not scenario.plan.make:
            raise ConfigError(
                f"plan.make: found false, but policies[{number}], {policy.name!r}, needs a plan"
            )
    _check_distinct("policies", [policy.label for policy in scenario.policies])


def _check_distinct(field: str, names: Sequence[object]) -> None:
    _require(len(names) > 0, field, list(names), "one at least")
    for index, name in enumerate(names):
        _require(
            name not in names[:index], f"{field}[{index}]", name, "each only once (labels tell them apart)"
        )


def _check_name(field: str, name: str) -> None:
    _require(
        _NAME.fullmatch(name) is not None,
        field,
        name,
        "letters, digits, '.', '_' and '-', 64 at most",
    )


def _check_file(field: str, path: str) -> None:
    _require(os.path.isfile(path), field, path, "a file; there is none")


def _require(ok: bool, field: str, found: object, expected: str) -> None:
    if not ok:
        raise ConfigError(f"{field}: found {found!r}, expected {expected}")


@contextmanager
def _at(field: str) -> Iterator[None]:
    """Put the field before an error."""
    try:
        yield
    except BeasyError as error:
        raise ConfigError(f"{field}: {error}") from None
