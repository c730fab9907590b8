"""The summary of a run as reports and explanations take it: every part with its type."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from beasy_sched.errors import InputError
from beasy_sched.formats.decoding import Malformed, convert_json
from beasy_sched.formats.run_files import SUMMARY, path_of
from beasy_sched.limits import LATEST_S, MOST_HOSTS
from beasy_sched.outputs.summary import SITE_CHOICES
from beasy_sched.run.results import Number, RunTables

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Settings(msgspec.Struct):
    policy: str
    options: dict[str, Any] = {}


class _PlannedFigures(msgspec.Struct):
    steps: Count
    energy_kwh: dict[str, Number]


class _GridFigures(msgspec.Struct):
    currency: str
    cost: Number
    import_kwh: Number
    green_kwh: Number
    carbon_kg: Number | None = None


class _Deadlines(msgspec.Struct):
    jobs: Count
    jobs_met: Count
    jobs_missed: Count
    jobs_refused: Count


class _Summary(msgspec.Struct):
    """What reports and explanations take from a summary, with its types."""

    settings: _Settings
    jobs: dict[str, Count]
    quality: dict[str, Number | None]
    warnings: list[str]
    reasons: dict[str, dict[str, Count]] = {}
    hosts: Annotated[int, msgspec.Meta(ge=0, le=MOST_HOSTS)] | None = None
    end_s: Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)] | None = None
    error: str | None = None
    site: dict[str, Number | bool | str] = {}
    energy_kwh: dict[str, Number] = {}
    planned: _PlannedFigures | None = None
    budget: dict[str, Any] = {}
    grid: _GridFigures | None = None
    deadlines: _Deadlines | None = None


def checked_summary(run: RunTables) -> dict[str, Any]:
    """Return a run's summary, empty where there is none. Raises InputError that names what is wrong."""
    path = path_of(run.prefix, SUMMARY)
    if not path.is_file():
        return {}
    for part in ("settings", "jobs", "quality", "warnings"):
        if part not in run.summary:
            raise InputError(path, f"is not the summary of a run: it has no {part!r}")
    try:
        found: _Summary = convert_json(run.summary, _Summary)
    except Malformed as error:
        raise InputError(path, f"is not the summary of a run: {error}") from None
    site = found.site
    try:
        msgspec.convert(site.get("start"), datetime | None)
    except msgspec.ValidationError:
        expected = "a time such as 2019-06-01T00:00:00+02:00"
        raise InputError(path, f"site.start: found {site['start']!r}, expected {expected}") from None
    for name, value in site.items():
        if name not in SITE_CHOICES and isinstance(value, bool | str):
            raise InputError(path, f"site.{name}: found {value!r}, expected a number")
    return run.summary
