"""Files of coarse plans, and such plans for other programs: JSON, and CSV with one row per step."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.packed_file import PackedFormat
from beasy_sched.limits import shortened
from beasy_sched.plan.season import Season

SEASON_FORMAT = PackedFormat("beasy-sched season", 1, "plan of the season")


def write_season(path: PathLike, season: Season) -> None:
    """Write a coarse plan to ``path``, whole or not at all. Raises InputError."""
    SEASON_FORMAT.write(path, season)


def read_season(path: PathLike) -> Season:
    """Read and check a coarse plan. Raises InputError: not one, damaged, too new, or inconsistent."""
    season = SEASON_FORMAT.read(path, Season)
    try:
        season.check()
    except ConfigError as error:
        raise InputError(path, shortened(str(error))) from None
    return season


def season_csv_lines(season: Season) -> Iterator[str]:
    """The header, then one line per year and step; levels are those at the end of the step."""
    for number, year in enumerate(season.years):
        columns = {
            "year": np.full(season.steps, number),
            "time_s": season.step_s * np.arange(season.steps),
            "load_w": season.load_w,
            **{name: getattr(year, name)[-season.steps :] for name in year.__dataclass_fields__},
        }
        if number == 0:
            yield ",".join(columns) + "\n"
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield ",".join(map(str, row)) + "\n"


def season_json(season: Season) -> bytes:
    """The whole plan and its targets as one JSON object."""
    return (
        msgspec.json.encode({"targets_kg": season.targets_kg, **_fields(season)}, enc_hook=np.ndarray.tolist)
        + b"\n"
    )


def _fields(season: Season) -> dict[str, object]:
    return {name: getattr(season, name) for name in season.__dataclass_fields__}
