"""Reading and checking of scenario files (TOML); every error names the field of the file.

A file has some shorthands that a `Scenario` does not have: a site by its file, policies as plain names, seeds
as a first one and a count, one ``[workload]`` and ``[production]`` for all tuples, some fields of
which each of ``[[tuples]]`` may change.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.declared import HOSTS, WINDOWS
from beasy_sched.energy.fields import require
from beasy_sched.engine.run_findings import rates_too_short
from beasy_sched.errors import BeasyError, ConfigError, InputError, PathLike
from beasy_sched.formats.forecast_source import read_forecast
from beasy_sched.formats.reading import parse_toml, read_text
from beasy_sched.formats.site_file import DEFAULT_SITE, parse_site, read_site_text
from beasy_sched.formats.table import parse_moment
from beasy_sched.generate.job_deadlines import parse_deadlines
from beasy_sched.generate.noise import gaussian_factors
from beasy_sched.generate.platform_file import load_server
from beasy_sched.limits import shortened
from beasy_sched.planner.replan_sources import every_steps
from beasy_sched.planner.season import season_steps
from beasy_sched.plugins.campaigns.run_inputs import start_in_trace_s, swf_options, synthetic_options
from beasy_sched.plugins.campaigns.scenario import (
    NAMES,
    SITE_FILES,
    FileProduction,
    ProductionPart,
    Scenario,
    SwfWorkload,
    WorkloadPart,
    scenario_text,
)
from beasy_sched.plugins.campaigns.sweep import check_sweep
from beasy_sched.policies.registry import check_named_in_data, make_policy, policy_class
from beasy_sched.structs import as_type, check_numbers
from beasy_sched.units import parse_duration

_OF_TUPLES: Final = ("workload", "production", "real_workload")
"""Sections of a file that apply to all its tuples."""
SHORTHANDS: Final = (*_OF_TUPLES, "grid")
"""Sections of a file that have another position in a `Scenario`."""
_NO_BATTERY: Final = "none"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST_SEED: Final = 1 << 63
_MOST_SEEDS: Final = 100_000
_LARGEST_FACTOR: Final = 100.0
_MOST_JOBS: Final = 100_000_000
_INFINITE: Final = ("import_limit_kw", "export_limit_kw")
"""Fields that may be infinite: absent limits."""


def find_scenario(name: str, *, allowed: Collection[str] = ()) -> Scenario:
    """Read the scenario file ``name``, or the built-in scenario of this name.

    ``allowed`` are the policies ``package.module:Class`` that a file may have imported.

    Raises ConfigError and InputError.
    """
    if name in NAMES and not os.path.exists(name):
        return parse_scenario(scenario_text(name), f"{name}.toml")
    if not os.path.exists(name) and not name.endswith(".toml"):
        raise ConfigError(f"{name!r} is neither a file nor a scenario; the scenarios are {', '.join(NAMES)}")
    return read_scenario(name, allowed=allowed)


def read_scenario(path: PathLike, *, allowed: Collection[str] = ()) -> Scenario:
    """Read a scenario file; see `parse_scenario`. Raises InputError that names file and field."""
    return parse_scenario(read_text(path), path, allowed=allowed)


def parse_scenario(text: str, path: PathLike = "scenario.toml", *, allowed: Collection[str] = ()) -> Scenario:
    """Read a scenario from TOML text, with files relative to the folder of ``path``. Raises InputError.

    A policy ``package.module:Class`` is imported only if it is in ``allowed``; otherwise it is an error.
    """
    raw = parse_toml(text, path)
    try:
        scenario = _unchecked(raw, path)
        check_scenario(scenario, allowed)
    except ConfigError as error:
        message = str(error)
        raise InputError(path, message if "tuples" in raw else message.removeprefix("tuples[0].")) from None
    return scenario


def scenario_as_written(text: str, path: PathLike) -> Scenario:
    """Read a scenario as `parse_scenario` does, but check only its types, and import no policy.

    Raises InputError and ConfigError.
    """
    return _unchecked(parse_toml(text, path), path)


def _unchecked(raw: dict[str, Any], path: PathLike) -> Scenario:
    check_numbers(raw, infinite=_INFINITE)
    return scenario_of(_filled_in(raw, Path(path).parent.absolute()))


def scenario_of(values: dict[str, Any]) -> Scenario:
    """Return the scenario of the output ``values`` of ``msgspec.to_builtins``. Raises ConfigError."""
    return as_type(values, Scenario, shorthands=SHORTHANDS)


def _filled_in(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the values of a `Scenario`, with the file's shorthands resolved. Raises ConfigError."""
    filled = {key: value for key, value in raw.items() if key not in SHORTHANDS}
    filled["tuples"] = _tuples(raw, folder)
    filled["site"] = _with_grid(_site(raw, folder), raw, folder)
    forecast = raw.get("forecast")
    if isinstance(forecast, dict) and isinstance(forecast.get("file"), str):
        filled["forecast"] = {**forecast, "file": os.path.abspath(folder / forecast["file"])}
    if isinstance(raw.get("policies"), list):
        tables = [{"name": policy} if isinstance(policy, str) else policy for policy in raw["policies"]]
        filled["policies"] = _labelled(tables)
    if isinstance(raw.get("seeds"), dict):
        filled["seeds"] = _seeds(raw["seeds"])
    noise = raw.get("noise", {})
    traces = [part.get("workload", {}).get("source") == "swf" for part in filled["tuples"]]
    if isinstance(noise, dict) and all(traces):
        filled["noise"] = {"walltimes": "keep", **noise}  # a trace has its own walltimes
    platform = raw.get("platform")
    if isinstance(platform, dict) and isinstance(platform.get("servers"), dict):
        servers = {
            os.path.abspath(folder / name) if name.endswith(".toml") else name: count
            for name, count in platform["servers"].items()
        }
        filled["platform"] = {**platform, "servers": servers}
    return filled


def _tuples(raw: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    changes = raw.get("tuples", [{}])
    if not isinstance(changes, list) or not changes or not all(isinstance(c, dict) for c in changes):
        raise ConfigError("tuples: expected at least one [[tuples]] section")
    result = []
    for number, change in enumerate(changes):
        if unknown := sorted(set(change) - set(_OF_TUPLES)):
            expected = f"{', '.join(_OF_TUPLES[:-1])} or {_OF_TUPLES[-1]}"
            raise ConfigError(f"tuples[{number}].{unknown[0]}: expected {expected}")
        merged: dict[str, Any] = {}
        for part in _OF_TUPLES:
            base, own = raw.get(part, {}), change.get(part, {})
            if not (isinstance(base, dict) and isinstance(own, dict)):
                raise ConfigError(f"{part}: expected a section")
            if own.get("source", base.get("source")) != base.get("source"):
                base = {}
            if base or own:
                merged[part] = {**base, **own}
        for section in merged.values():
            for key in ("file", "pv", "wind"):
                if isinstance(section.get(key), str):
                    section[key] = os.path.abspath(folder / section[key])
        result.append(merged)
    return result


def _site(raw: dict[str, Any], folder: Path) -> Any:
    """Return the sections of the site; a guard in a site file is ignored in favour of the scenario's.

    Raises ConfigError for sections that do not define whether there is a battery, because a file with only
    ``[site.time]`` might expect that of the default site.
    """
    site = raw.get("site", DEFAULT_SITE)
    if isinstance(site, str):
        path = site if site == DEFAULT_SITE else os.path.abspath(folder / site)
        text = read_site_text(path)
        parse_site(text, path)
        sections = {name: section for name, section in parse_toml(text, path).items() if name != "guard"}
        return _located(sections, Path(path).parent)
    if not isinstance(site, dict):
        return site
    if "guard" in site:
        raise ConfigError("site.guard: a scenario's guards belong in [[guards]]")
    if "battery" not in site:
        raise ConfigError(
            "site: has no [site.battery]: the sections of [site] are the whole site, and nothing of the"
            f' default site is added; for a site without a battery, write battery = "{_NO_BATTERY}" in [site]'
        )
    return _located({name: part for name, part in site.items() if part != _NO_BATTERY}, folder)


def _with_grid(site: Any, raw: dict[str, Any], folder: Path) -> Any:
    """Return the sections with the file's own [grid]."""
    if "grid" not in raw:
        return site
    if not isinstance(raw["grid"], dict):
        raise ConfigError(f"grid: found {raw['grid']!r}, expected a section")
    if isinstance(site, dict) and "grid" in site:
        raise ConfigError("grid: the site also has a section [grid]: omit one of them")
    return {**site, **_located({"grid": raw["grid"]}, folder)} if isinstance(site, dict) else site


def _located(site: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the sections with absolute file names, times as strings, and without infinite limits."""
    plain: dict[str, Any] = {name: _plain(section) for name, section in site.items()}
    for section, field in SITE_FILES:
        part = plain.get(section)
        if not isinstance(part, dict):
            continue
        named = part.get(field)
        if isinstance(named, str):
            part[field] = os.path.abspath(folder / named)
        elif isinstance(named, dict) and isinstance(named.get("file"), str):
            named["file"] = os.path.abspath(folder / named["file"])
    grid = plain.get("grid")
    if isinstance(grid, dict):
        plain["grid"] = {name: value for name, value in grid.items() if value != math.inf}
    return plain


def _plain(value: Any) -> Any:
    """Return a copy of a TOML value with JSON's types."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _labelled(policies: list[Any]) -> list[Any]:
    """Set the label of each policy: its name, or the class of ``package.module:Class``.

    If several would have the same label, the module and the options are added.
    """
    short = [_short_label(policy) for policy in policies]
    both = [*zip(policies, short, strict=True)]
    used = Counter(str(policy.get("label", label)) for policy, label in both if label)
    return [
        {"label": label if used[label] == 1 else _long_label(policy), **policy} if label else policy
        for policy, label in both
    ]


def _short_label(policy: Any) -> str:
    """Return a policy's label without additions, "" for an invalid policy."""
    name = policy.get("name") if isinstance(policy, dict) else None
    return _label([name.rpartition(":")[2]]) if isinstance(name, str) else ""


def _long_label(policy: dict[str, Any]) -> str:
    options = policy.get("options", {})
    given = [
        f"{name}-{value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in (sorted(options.items()) if isinstance(options, dict) else ())
    ]
    return _label([policy["name"].replace(":", "."), *given])


def _label(parts: list[str]) -> str:
    """Join ``parts`` to a label that can be part of a file name."""
    text = re.sub(r"[^A-Za-z0-9._-]+", "_", ".".join(parts))
    return text.strip("._-")[:64] or "policy"


def _seeds(value: dict[str, Any]) -> list[int]:
    first, count = value.get("first"), value.get("count")
    if set(value) != {"first", "count"} or not (isinstance(first, int) and isinstance(count, int)):
        raise ConfigError(f"seeds: found {value!r}, expected a list, or {{ first = 1, count = 10 }}")
    if not 0 <= count <= _MOST_SEEDS:
        raise ConfigError(f"seeds.count: found {count}, expected at most {_MOST_SEEDS:,}")
    return list(range(first, first + count))


def check_scenario(scenario: Scenario, allowed: Collection[str] = ()) -> None:
    """Raise ConfigError, naming the field, for values that cannot be run.

    Policies ``package.module:Class`` are code, and imported only if they are in ``allowed``.
    """
    check_code(scenario, allowed)
    _check_name("name", scenario.name)
    try:
        scenario.parsed_site()
    except InputError as error:
        raise ConfigError(str(error)) from None  # it begins with "site: "
    check_sizes(scenario)
    _check_platform(scenario)
    for number, part in enumerate(scenario.tuples):
        prefix = f"tuples[{number}]." if len(scenario.tuples) > 1 else ""
        _check_workload(scenario, part.workload, f"{prefix}workload")
        if part.real_workload is not None:
            _check_workload(scenario, part.real_workload, f"{prefix}real_workload")
        _check_production(part.production, f"{prefix}production")
    for name in ("arrivals_sigma", "run_time_sigma"):
        with _at(f"noise.{name}"):
            gaussian_factors(np.empty(0), getattr(scenario.noise, name))
    for field, factor in (
        ("noise.production_band", scenario.noise.production_band),
        ("plan.demand_factor", scenario.plan.demand_factor),
    ):
        require(0 <= factor <= _LARGEST_FACTOR, field, factor, f"0 to {_LARGEST_FACTOR:g}")
    with _at("plan", joint="."):
        planned = scenario.plan.options().settled()
    with _at("plan.forecast_step"):
        planned.forecast_steps(scenario.parsed_site().step_s)
    _check_replan(scenario)
    _check_season(scenario)
    _check_foresight(scenario)
    _check_policies(scenario)
    check_sweep(scenario)
    _check_distinct("guards", [guard.label for guard in scenario.guards])
    _check_distinct("seeds", scenario.seeds)


def check_sizes(scenario: Scenario) -> None:
    """Raise ConfigError, naming the field, for invalid numbers that determine the runs."""
    require(WINDOWS.holds(scenario.windows), "windows", scenario.windows, WINDOWS.expected)
    for seed in scenario.seeds:
        require(0 <= seed < _LARGEST_SEED, "seeds", seed, "integers from 0 to 2**63 - 1")


def _check_replan(scenario: Scenario) -> None:
    if not scenario.plan.replan:
        return
    with _at("plan.replan"):
        every_steps(scenario.plan.replan, scenario.parsed_site())
    require(scenario.plan.make, "plan.replan", scenario.plan.replan, "no value if plan.make is false")
    factor = scenario.plan.demand_factor
    require(factor == 1.0, "plan.demand_factor", factor, "1 with plan.replan")


def _check_season(scenario: Scenario) -> None:
    season, site = scenario.plan.season, scenario.parsed_site()
    if not season:
        return
    with _at("plan.season", "; expected the length of its steps, such as 1h"):
        step_s = parse_duration(season)
    season_steps(step_s, site.window_s, "plan.season:")
    require(scenario.plan.make, "plan.season", season, "no value if plan.make is false")
    require(site.storage.hydrogen is not None, "plan.season", season, "no value without hydrogen")
    require(scenario.windows > 1, "plan.season", season, "no value with a single window")


def _check_platform(scenario: Scenario) -> None:
    servers = scenario.platform.servers
    require(bool(servers), "platform.servers", servers, "at least one, such as { gros = 50 }")
    for source, count in servers.items():
        with _at("platform.servers"):
            load_server(source)
        require(HOSTS.holds(count), f"platform.servers.{source}", count, HOSTS.expected)
    if scenario.platform.reference is not None:
        with _at("platform.reference"):
            load_server(scenario.platform.reference)


def _check_workload(scenario: Scenario, part: WorkloadPart, where: str) -> None:
    if isinstance(part, SwfWorkload):
        require(os.path.isfile(part.file), f"{where}.file", part.file, "an existing file")
        with _at(f"{where}.from"):
            start_in_trace_s(part)
        with _at(where, joint="."):
            swf_options(scenario, part)
        return
    require(part.jobs <= _MOST_JOBS, f"{where}.jobs", part.jobs, f"at most {_MOST_JOBS:,}")
    with _at(where, joint="."):
        synthetic_options(scenario, part)


def _check_foresight(scenario: Scenario) -> None:
    """Check that prices cover the runs, that the forecast can be read, and the rule of deadlines."""
    site = scenario.parsed_site()
    if (short := rates_too_short(site, scenario.windows * site.window_s)) is not None:
        raise ConfigError(f"site.{short.text}")
    part = scenario.forecast
    if part is not None:
        needs = part.source in ("file", "predictor")
        if needs != (part.file is not None):
            expected = f"{'a file' if needs else 'none'} for source {part.source!r}"
            raise ConfigError(f"forecast.file: found {part.file!r}, expected {expected}")
        if needs:
            with _at("forecast"):
                read_forecast(part.named(Path()), site, scenario.windows)
    if scenario.deadlines is not None:
        with _at("deadlines.rule"):
            parse_deadlines(scenario.deadlines.rule)


def _check_production(part: ProductionPart, where: str) -> None:
    for name in ("pv_kw", "wind_kw"):
        require(0 <= getattr(part, name) < np.inf, f"{where}.{name}", getattr(part, name), "0 kW or more")
    if part.start is not None:
        is_date = parse_moment(part.start) is not None
        require(is_date, f"{where}.start", part.start, "a date such as 2024-06-01")
    if not isinstance(part, FileProduction):
        require(part.seed >= 0, f"{where}.seed", part.seed, "0 or more")
        with _at(where, joint="."):
            part.weather()
        return
    if part.pv is None and part.wind is None:
        raise ConfigError(f"{where}: expected a file for pv, for wind, or for both")
    for name in ("pv", "wind"):
        file, size_kw = getattr(part, name), getattr(part, f"{name}_kw")
        if file is not None:
            require(os.path.isfile(file), f"{where}.{name}", file, "an existing file")
            require(size_kw > 0, f"{where}.{name}_kw", size_kw, "the plant's size, above 0")


def check_code(scenario: Scenario, allowed: Collection[str]) -> None:
    """Raise ConfigError for policies ``package.module:Class`` that are not among those ``allowed``."""
    for number, policy in enumerate(scenario.policies):
        with _at(f"policies[{number}]"):
            name = shortened(policy.name)
            check_named_in_data(
                policy.name,
                allowed,
                f"allow it by name: --allow-policy {name}, or for compare --policy {name}",
            )


def _check_policies(scenario: Scenario) -> None:
    for number, policy in enumerate(scenario.policies):
        with _at(f"policies[{number}]"):
            make_policy(policy.name, policy.options)
        _check_name(f"policies[{number}].label", policy.label)
        if policy_class(policy.name).needs_plan and not scenario.plan.make:
            raise ConfigError(
                f"plan.make: found false, but policies[{number}], {policy.name!r}, requires a plan"
            )
    _check_distinct("policies", [policy.label for policy in scenario.policies])


def _check_distinct(field: str, names: Sequence[object]) -> None:
    require(len(names) > 0, field, list(names), "at least one")
    for index, name in enumerate(names):
        require(name not in names[:index], f"{field}[{index}]", name, "unique values")


def _check_name(field: str, name: str) -> None:
    require(bool(_NAME.fullmatch(name)), field, name, "at most 64 letters, digits, '.', '_' and '-'")


@contextmanager
def _at(field: str, advice: str = "", joint: str = ": ") -> Iterator[None]:
    """Put the field (a trailing dot: its section) before an error, and advice after it."""
    try:
        yield
    except (BeasyError, ValueError) as error:
        raise ConfigError(f"{field}{joint}{error}{advice}") from None
