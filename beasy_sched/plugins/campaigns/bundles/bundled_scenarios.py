"""Scenario files (TOML) of a bundle, and the files named in them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.atomic import write_inside
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.bundles.layout import FILES, SCENARIOS, sha256
from beasy_sched.plugins.campaigns.folder import named_files, plain_values, scenario_hash
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.scenario_file import scenario_as_written

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def write_scenarios(
    folder: Path, scenarios: Iterable[Scenario], hashes: Mapping[str, str]
) -> tuple[str, ...]:
    """Write scenario files, and the files named in them, into a bundle; return the paths of the scenarios.

    ``hashes`` has the SHA-256 of each of these files at the start of the campaign. Raises ConfigError for
    references to other files of the user, which a bundle cannot contain, and InputError.
    """
    places = _places(hashes)
    for path, place in places.items():
        content = read_bytes(path)
        if sha256(content) != hashes[path]:
            raise InputError(path, "has changed since the start of the campaign: restore the original file")
        write_inside(folder, place, content)
    written = []
    for scenario in scenarios:
        _refuse_files_in_options(scenario)
        place = f"{SCENARIOS}/{scenario.name}.toml"
        text = scenario_toml(scenario, {path: f"../{there}" for path, there in places.items()})
        write_inside(folder, place, text)
        _check(scenario, text, folder / place)
        written.append(place)
    return tuple(written)


def scenario_toml(scenario: Scenario, names: Mapping[str, str]) -> str:
    """Return the file of a scenario, all defaults filled in; ``names`` are the new names of its files."""
    values = _renamed(plain_values(scenario), names)
    site = values.pop("site")
    tuples = values.pop("tuples")
    if "battery" not in site:
        site = {"battery": "none", **site}
    sections = {name: part for name, part in values.items() if isinstance(part, dict)}
    lines = [f"{name} = {_toml(part)}" for name, part in values.items() if name not in sections]
    plain = {name: part for name, part in site.items() if not isinstance(part, dict)}
    lines += _section("site", plain) if plain else []
    for name, part in site.items():
        lines += _section(f"site.{_key(name)}", part) if name not in plain else []
    for name, part in sections.items():
        lines += _section(name, part)
    for part in tuples:
        lines += _section("[tuples]", part)
    return "\n".join(lines) + "\n"


def _section(name: str, values: Mapping[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a JSON value without nulls, and with new names of files."""
    if isinstance(value, dict):
        return {names.get(k, k): _renamed(part, names) for k, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(key)} = {_toml(part)}" for key, part in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        if any(isinstance(part, dict) for part in value):
            return "[\n" + "".join(f"    {_toml(part)},\n" for part in value) + "]"
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool) else repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _places(paths: Iterable[str]) -> dict[str, str]:
    """Return the path of each file; relative positions are kept, since files may refer to each other."""
    folders = [os.path.dirname(path) for path in paths]
    top = os.path.commonpath(folders) if folders else ""
    return {path: f"{FILES}/{Path(os.path.relpath(path, top)).as_posix()}" for path in paths}


def _refuse_files_in_options(scenario: Scenario) -> None:
    for number, policy in enumerate(scenario.policies):
        for name, value in policy.options.items():
            if isinstance(value, str) and os.path.isfile(value):
                raise ConfigError(
                    f"scenario {scenario.name}: policies[{number}].options.{name} refers to the file {value},"
                    " but a bundle cannot contain files named in options"
                )


def _check(scenario: Scenario, text: str, path: Path) -> None:
    """Raise ConfigError unless the file in the bundle is the scenario, with all files named in it."""
    again = scenario_as_written(text, path)
    inside = str(path.parents[1].absolute() / FILES) + os.sep
    for name in named_files(again):
        if not os.path.abspath(name).startswith(inside):
            raise ConfigError(
                f"scenario {scenario.name}: another file refers to {name} by its absolute path: use a path "
                "relative to that file, and run the campaign again"
            )
    if scenario_hash(again) != scenario_hash(scenario):
        raise ConfigError(f"scenario {scenario.name}: cannot be written as a file")
