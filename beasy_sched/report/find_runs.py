"""From the words on the command line to runs: a prefix, one of a run's files, or a folder of runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from beasy_sched.errors import InputError

_ENDINGS = (
    "summary.json",
    "jobs.csv",
    "energy_trace.csv",
    "decisions.jsonl",
    "machine_states.csv",
    "pstate_changes.csv",
)
"""Files that make a run, the one that tells most first."""


def find_runs(places: Sequence[str | os.PathLike[str]]) -> dict[str, str]:
    """Return the runs by name, each with the prefix of its files, in the order asked for, no run twice.

    A place is an export prefix (``out/run``), one of a run's files, or a folder: all runs in it, by name.
    A run's name is its prefix without the folder, or with as much of it as tells the runs apart.
    Raises InputError where there is no run.
    """
    prefixes: dict[str, str] = {}
    for place in places:
        for prefix in _prefixes(os.fspath(place)):
            prefixes.setdefault(os.path.abspath(prefix), prefix)
    return dict(zip(_names([*prefixes]), prefixes.values(), strict=True))


def _prefixes(place: str) -> list[str]:
    if os.path.isdir(place):
        found = _in_folder(Path(place))
        if not found:
            raise InputError(
                place, "holds no run: expected files such as NAME_summary.json, made with '-e FOLDER/NAME'"
            )
        return found
    for ending in _ENDINGS:
        if place.endswith(f"_{ending}") and os.path.isfile(place):
            return [place[: -len(ending) - 1]]
    if any(os.path.isfile(f"{place}_{ending}") for ending in _ENDINGS):
        return [place]
    raise InputError(
        place,
        f"is no run: there is no {Path(place).name}_summary.json, nor another of a run's files; "
        "give the prefix that '-e' was given, or a folder",
    )


def _in_folder(folder: Path) -> list[str]:
    """The prefixes of all runs in a folder, or else in the folders in it.

    Where one has a summary, only runs with a summary count.
    """
    for pattern in ("*_", "*/*_"):
        for endings in (_ENDINGS[:1], _ENDINGS[1:]):
            found = {str(path)[: -len(e) - 1] for e in endings for path in folder.glob(pattern + e)}
            if found:
                return sorted(found)
    return []


def _names(paths: list[str]) -> list[str]:
    """The shortest endings of the paths, in whole parts, that tell them apart, without what ends all."""
    parts = [Path(path).parts for path in paths]
    while len(parts) > 1 and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    for count in range(1, max(map(len, parts), default=1)):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return paths
