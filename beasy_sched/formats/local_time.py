"""Local times of files: time zones, and the changes between winter and summer time.

An hour that the clocks show twice in autumn is read in the order of the rows; one that they skip in spring is
not a gap. A value for a time that the clocks skip is an error: the times are not those of the zone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final

import numpy as np

from beasy_sched.arrays import BoolArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.limits import shortened

_FIXED: Final = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
_UTC_NAMES: Final = ("UTC", "GMT", "Z")
_CENTRAL_EUROPE: Final = ("CET/CEST", "MEZ/MESZ")
_OFFSETS_H: Final = {"CEST": 2, "MESZ": 2}
AMBIGUOUS: Final = ("CET", "MEZ")
"""Names that files use for winter time all year, and for the local time with summer time."""
_MOST_OFFSET: Final = timedelta(hours=15)
_FIRST_S, _LAST_S = -62_000_000_000, 253_000_000_000
"""Seconds since 1970 of years that the calendar has."""
_BLOCK_S: Final = 900
"""The clocks change at full quarters of an hour."""


class CentralEurope(tzinfo):
    """Local time of central Europe by the rule that holds since 1996; it requires no database of zones."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Return the offset of a local time; of one that spring skips or autumn repeats, by its ``fold``."""
        if moment is None:
            return timedelta(hours=1)
        local = moment.replace(tzinfo=None)
        ends = [datetime(local.year, month, 31, 2) for month in (3, 10)]
        spring, autumn = (end - timedelta(days=(end.weekday() + 1) % 7) for end in ends)  # the last Sundays
        hour = timedelta(hours=1)
        if spring <= local < spring + hour:
            return timedelta(hours=2 if moment.fold else 1)
        if autumn <= local < autumn + hour:
            return timedelta(hours=1 if moment.fold else 2)
        return timedelta(hours=2 if spring < local < autumn else 1)

    def dst(self, moment: datetime | None) -> timedelta:
        """Return the part of the offset that is summer time."""
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        """Return the name of the zone."""
        return "CET/CEST"


def named_zone(name: str) -> tzinfo:
    """Return the zone of a name such as ``Europe/Berlin``, ``UTC``, ``+02:00`` or ``UTC+1``.

    Raises ConfigError for an unknown name, and where this computer has no database of time zones.
    """
    if (fixed_zone := stated_zone(name)) is not None:
        return fixed_zone
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    found_name = f"found {shortened(name, 40)!r}"
    try:
        ZoneInfo("Europe/Paris")
    except (ZoneInfoNotFoundError, OSError):
        raise ConfigError(
            f"{found_name}, but this computer has no database of time zones: install the Python package"
            " tzdata, or give an offset such as +01:00"
        ) from None
    raise ConfigError(
        f"{found_name}, expected a time zone such as Europe/Berlin, or an offset such as +01:00"
    )


def stated_zone(text: str) -> tzinfo | None:
    """Return the zone of a name that needs no database: UTC, an offset, CET/CEST; None for others."""
    name = text.strip().upper()
    if name in _UTC_NAMES:
        return timezone.utc
    if name in _CENTRAL_EUROPE:
        return CentralEurope()
    if name in _OFFSETS_H:
        return timezone(timedelta(hours=_OFFSETS_H[name]))
    match = _FIXED.fullmatch(name)
    if match is None:
        return None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    if offset > _MOST_OFFSET:
        return None
    return timezone(-offset if match[1] == "-" else offset)


def to_utc(local_s: IntArray, zone: tzinfo) -> tuple[IntArray, BoolArray]:
    """Return seconds since 1970 (UTC) of local times, and whether the clocks show each of them.

    ``local_s`` are seconds since 1970 on the local clock, in the order of the rows, which may ascend or
    descend. Of a time that the clocks show twice, the first row is the earlier one.
    """
    if len(local_s) > 1 and local_s[0] > local_s[-1]:
        utc_s, exists = to_utc(local_s[::-1], zone)
        return utc_s[::-1], exists[::-1]
    blocks, at = np.unique(local_s // _BLOCK_S, return_inverse=True)
    pairs = np.array([_offsets_s(int(block) * _BLOCK_S, zone) for block in blocks.tolist()], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)[at]
    later = _later(local_s, pairs[:, 0] > pairs[:, 1])
    return local_s - np.where(later, pairs[:, 1], pairs[:, 0]), pairs[:, 0] >= pairs[:, 1]


def _offsets_s(local_s: int, zone: tzinfo) -> tuple[int, int]:
    """The first and the second offset of a local time: equal but where the clocks change."""
    if not _FIRST_S < local_s < _LAST_S:
        return 0, 0
    moment = datetime(1970, 1, 1) + timedelta(seconds=local_s)
    return tuple(  # type: ignore[return-value]
        int((zone.utcoffset(moment.replace(tzinfo=zone, fold=fold)) or timedelta()).total_seconds())
        for fold in (0, 1)
    )


def _later(local_s: IntArray, twice: BoolArray) -> BoolArray:
    """Whether each row is the second one of a time that the clocks show twice."""
    later = np.zeros(len(local_s), dtype=np.bool_)
    rows = np.flatnonzero(twice)
    seen: set[int] = set()
    second, before = False, 0
    for row in rows.tolist():
        time = int(local_s[row])
        if time - before > _BLOCK_S * 16:  # another autumn
            second = False
        second = second or time < before
        later[row] = second or time in seen
        seen.add(time)
        before = time
    return later
