"""Two folders of outputs, compared byte by byte but for what a clock on the wall wrote."""

from __future__ import annotations

import csv
from pathlib import Path

WALL_CLOCK = ("scheduling_time", "simulation_time")
"""Columns of Batsim's schedule file that tell how long the program ran."""


def differing(one: Path, two: Path) -> list[str]:
    """Return the names of files that differ, or that only one of the folders has."""
    names = {path.name for folder in (one, two) for path in folder.iterdir()}
    assert names
    return sorted(name for name in names if _content(one / name) != _content(two / name))


def _content(path: Path) -> object:
    if not path.exists():
        return None
    if not path.name.endswith("_schedule.csv"):
        return path.read_bytes()
    with path.open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in WALL_CLOCK} for row in csv.DictReader(file)]
