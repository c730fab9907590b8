"""Prices and carbon intensities from files, for GreenSlot's study: which week of a file is taken, and where.

A file is of another year than the sun of the study, and of another place. The site is thought to be there:
its week begins at 9:00 of the file's own time zone, in that week of the file which is nearest in the year to
the week of sun.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from beasy_sched.energy.calendar import Calendar
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.grid_rates import RateFile, RateGaps, RateQuantity, read_rate
from beasy_sched.formats.reading import as_type, in_file, parse_toml, read_bytes
from beasy_sched.units import SECONDS_PER_HOUR

ZONE: Final = "Europe/Paris"
"""Where a file is from that is not said to be from elsewhere: Central European Time, as ENTSO-E's."""
_START: Final = time(9)
_DAYS_A_YEAR: Final = 365
_LONG_AGO: Final = datetime(2000, 1, 3, 9)


class _Given(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file, as the site file's ``[grid]`` names it, and where and when the site is."""

    file: str
    column: str | None = None
    unit: str | None = None
    gaps: RateGaps = RateGaps.REFUSE
    start: datetime | None = None
    zone: str = ZONE
    week: date | None = None
    """A day of the week to take."""


@dataclass(frozen=True)
class GridFile:
    """A price or a carbon intensity from a file, and the week of it that runs have."""

    quantity: RateQuantity
    path: Path
    fields: Mapping[str, str]
    """How to read it: ``column``, ``unit``, ``gaps`` and ``start``, as far as they are given."""
    zone: str
    start: datetime
    """Monday 9:00 of the week, in ``zone``."""
    content: bytes

    @property
    def name(self) -> str:
        """The file's name, without its ending."""
        return self.path.stem

    @property
    def label(self) -> str:
        """The file, its week and its place, for readers."""
        return f"{self.name}: week of {self.start:%Y-%m-%d}, {self.zone}"

    @property
    def copy_name(self) -> str:
        """Name of a copy among a study's inputs."""
        return f"{self.name}-{hashlib.sha256(self.content).hexdigest()[:12]}{self.path.suffix}"

    @property
    def toml(self) -> str:
        """The entry of a site file's section ``[grid]`` for a copy beside it."""
        fields = {"file": self.copy_name, **self.fields}
        inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
        return f"{self.quantity.name} = {{ {inside} }}\n"


def grid_file(text: str, quantity: RateQuantity, near: datetime, hours: int) -> GridFile:
    """Read what ``--prices`` or ``--carbon`` says: a file's name, or a table as in a site file's ``[grid]``.

    Such as ``{ file = "omie.csv", column = "Precio_DA", zone = "Europe/Madrid" }``. The week is ``hours``
    long; where the table has no ``week``, it is the one nearest to ``near`` in the year. Raises InputError.
    """
    given = _given(text)
    path, zone = Path(given.file), _zone(given)
    source = RateFile(path, quantity, given.column, given.unit, given.gaps, given.start)
    calendar = Calendar(_LONG_AGO.replace(tzinfo=zone), zone)
    first, last = (calendar.local(at_s) for at_s in read_rate(source, calendar).span_s)
    weeks = [*_weeks(first, last, hours)]
    covered = f"it covers {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({given.zone})"
    if not weeks:
        raise InputError(path, f"holds no whole week from Monday 9:00 to Friday 17:00: {covered}")
    if given.week is not None:
        monday = given.week - timedelta(days=given.week.weekday())
        weeks = [week for week in weeks if week.date() == monday]
        if not weeks:
            raise InputError(path, f"does not cover the week of {monday}: {covered}")
    start = min(weeks, key=lambda week: _apart_days(week, near))
    values = msgspec.to_builtins(given)
    fields = {name: values[name] for name in ("column", "unit", "gaps", "start") if values[name] is not None}
    return GridFile(quantity, path, fields, given.zone, start, read_bytes(path))


def _given(text: str) -> _Given:
    values: dict[str, Any] = {"file": text}
    if text.lstrip().startswith("{"):
        values = parse_toml(f"given = {text}", text)["given"]
    with in_file(text):
        return as_type(values, _Given)


def _zone(given: _Given) -> ZoneInfo:
    try:
        return ZoneInfo(given.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            given.file, f"zone: found {given.zone!r}, expected a time zone such as America/New_York"
        ) from None


def _weeks(first: datetime, last: datetime, hours: int) -> Iterator[datetime]:
    """The Mondays, 9:00, from which on so many hours lie between two moments of one time zone."""
    monday = first.date() - timedelta(days=first.weekday())
    start = datetime.combine(monday, _START, first.tzinfo)
    while start.timestamp() + hours * SECONDS_PER_HOUR <= last.timestamp():
        if start.timestamp() >= first.timestamp():
            yield start
        start += timedelta(days=7)


def _apart_days(week: datetime, near: datetime) -> int:
    """How many days two moments are apart within the year."""
    apart = abs(week.timetuple().tm_yday - near.timetuple().tm_yday)
    return min(apart, _DAYS_A_YEAR - apart)


def distinct(files: Iterable[GridFile]) -> list[GridFile]:
    """Return the files. Raises ConfigError where two have one name, by which they are told apart."""
    found: dict[str, GridFile] = {}
    for file in files:
        if file.name in found:
            raise ConfigError(f"two files have the name {file.name!r}: rename one of them")
        found[file.name] = file
    return [*found.values()]
