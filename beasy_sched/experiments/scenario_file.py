"""Reading scenario files (TOML).

Conveniences that a `Scenario` itself does not have: a site by its file, policies as plain names, seeds as
a first one and a count, one ``[workload]`` and ``[production]`` for all tuples, of which each of
``[[tuples]]`` changes some fields.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from beasy_sched.energy.site import DEFAULT_SITE, parse_site, read_site_text
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.experiments.scenario import Scenario
from beasy_sched.experiments.scenario_check import check_scenario
from beasy_sched.experiments.scenario_errors import reworded

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PathLike = str | os.PathLike[str]
_MOST_SEEDS = 100_000


def read_scenario(path: PathLike, *, allowed: Collection[str] = ()) -> Scenario:
    """Read a scenario file, with ``allowed`` as for `parse_scenario`.

    Raises InputError that names file and field.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text (byte {error.start})") from None
    return parse_scenario(text, path, allowed=allowed)


def parse_scenario(text: str, path: PathLike = "scenario.toml", *, allowed: Collection[str] = ()) -> Scenario:
    """Read a scenario from TOML text; files that it names are sought beside ``path``. Raises InputError.

    A policy ``package.module:Class`` is imported only if it is in ``allowed``, and else an error.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"is not valid TOML: {error}") from None
    try:
        _check_numbers(raw)
        filled = _filled_in(raw, Path(path).parent.absolute())
        scenario = scenario_of(filled)
        check_scenario(scenario, allowed)
    except msgspec.ValidationError as error:
        raise InputError(path, reworded(str(error), filled, several="tuples" in raw)) from None
    except ConfigError as error:
        raise InputError(path, str(error)) from None
    return scenario


def _check_numbers(value: Any, place: str = "") -> None:
    """Raise ConfigError, naming the field, for a number that is none: TOML knows nan."""
    if isinstance(value, dict):
        for name, part in value.items():
            _check_numbers(part, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check_numbers(part, f"{place}[{number}]")
    elif isinstance(value, float) and math.isnan(value):
        raise ConfigError(f"{place}: found nan, expected a number")


def scenario_of(values: dict[str, Any]) -> Scenario:
    """Return the scenario that ``msgspec.to_builtins`` made ``values`` of. Raises msgspec.ValidationError."""
    return msgspec.convert(values, Scenario, str_keys=True)


def _filled_in(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values of a `Scenario`, with the file's conveniences resolved. Raises ConfigError."""
    filled = {key: value for key, value in raw.items() if key not in ("workload", "production")}
    filled["tuples"] = _tuples(raw, folder)
    filled["site"] = _site(raw, folder)
    if isinstance(raw.get("policies"), list):
        filled["policies"] = [_policy(value) for value in raw["policies"]]
    if isinstance(raw.get("seeds"), dict):
        filled["seeds"] = _seeds(raw["seeds"])
    platform = raw.get("platform")
    if isinstance(platform, dict) and isinstance(platform.get("servers"), dict):
        servers = {_server(name, folder): count for name, count in platform["servers"].items()}
        filled["platform"] = {**platform, "servers": servers}
    return filled


def _tuples(raw: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    changes = raw.get("tuples", [{}])
    if not isinstance(changes, list) or not changes or not all(isinstance(c, dict) for c in changes):
        raise ConfigError("tuples: expected [[tuples]] sections, one at least")
    result = []
    for number, change in enumerate(changes):
        unknown = sorted(set(change) - {"workload", "production"})
        if unknown:
            raise ConfigError(f"tuples[{number}].{unknown[0]}: expected workload or production")
        merged: dict[str, Any] = {}
        for part in ("workload", "production"):
            base, own = raw.get(part, {}), change.get(part, {})
            if not (isinstance(base, dict) and isinstance(own, dict)):
                raise ConfigError(f"{part}: expected a section")
            if own.get("source", base.get("source")) != base.get("source"):
                base = {}
            if base or own:
                merged[part] = _absolute({**base, **own}, folder)
        result.append(merged)
    return result


def _absolute(part: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the file names of a part absolute."""
    names = {key: part[key] for key in ("file", "pv", "wind") if isinstance(part.get(key), str)}
    return {**part, **{key: os.path.abspath(folder / name) for key, name in names.items()}}


def _server(name: str, folder: Path) -> str:
    return os.path.abspath(folder / name) if name.endswith(".toml") else name


def _site(raw: dict[str, Any], folder: Path) -> Any:
    """The sections of the site; a guard in a file of its own is left out, those of the scenario count."""
    site = raw.get("site", DEFAULT_SITE)
    if isinstance(site, str):
        path = site if site == DEFAULT_SITE else os.path.abspath(folder / site)
        text = read_site_text(path)
        parse_site(text, path)
        return {name: section for name, section in tomllib.loads(text).items() if name != "guard"}
    if isinstance(site, dict) and "guard" in site:
        raise ConfigError("site.guard: a scenario has its guards in [[guards]]")
    return site


def _policy(value: Any) -> Any:
    if isinstance(value, str):
        value = {"name": value}
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {"label": value["name"], **value}
    return value


def _seeds(value: dict[str, Any]) -> list[int]:
    first, count = value.get("first"), value.get("count")
    if set(value) != {"first", "count"} or not (isinstance(first, int) and isinstance(count, int)):
        raise ConfigError(f"seeds: found {value!r}, expected a list, or {{ first = 1, count = 10 }}")
    if not 0 <= count <= _MOST_SEEDS:
        raise ConfigError(f"seeds.count: found {count}, expected at most {_MOST_SEEDS:,}")
    return list(range(first, first + count))
