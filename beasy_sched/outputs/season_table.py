"""Coarse plan as a text table: energies and the tank's level by month."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.outputs.tables import aligned, widths_of
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY, j_to_kwh

if TYPE_CHECKING:
    from beasy_sched.energy.calendar import Calendar
    from beasy_sched.planner.season import Season

_DAYS: Final = 30
"""Length of a row if the months are unknown, days."""

_ENERGIES: Final = (
    ("demand", "load_w"),
    ("produced", "renew_w"),
    ("not met", "unmet_w"),
    ("curtailed", "curtailed_w"),
    ("into H2", "electrolyzer_w"),
    ("from H2", "fuel_cell_w"),
)


def season_calendar(season: Season) -> Calendar | None:
    """Return the calendar of a coarse plan; None if its site file does not define time 0."""
    from beasy_sched.energy.calendar import Calendar

    start = season.provenance.settings.get("start")
    if start is None:
        return None
    zone = season.provenance.settings.get("zone")
    if zone is None:
        return Calendar(datetime.fromisoformat(start))
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return Calendar(datetime.fromisoformat(start), ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return Calendar(datetime.fromisoformat(start))


def month_starts(season: Season, calendar: Calendar | None) -> tuple[list[int], list[str]]:
    """Return the first step and name (``2019-07``) of each month; of every 30 days if dates are unknown."""
    times_s = season.step_s * np.arange(season.steps)
    if calendar is None:
        marks = (times_s // (_DAYS * SECONDS_PER_DAY)).astype(np.int64).tolist()
        names = [f"days {_DAYS * mark + 1}-{_DAYS * (mark + 1)}" for mark in marks]
    else:
        # A step belongs to the month of its middle, so that steps of a day are correct in every time zone.
        moments = [calendar.local(time_s + season.step_s / 2.0) for time_s in times_s.tolist()]
        names = [f"{moment:%Y-%m}" for moment in moments]
    starts = [at for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
    return starts, [names[at] for at in starts]


def season_lines(season: Season) -> list[str]:
    """Return the table as lines of plain text of at most 80 characters: kWh, and the tank's level in kg.

    With several years, the means over them.
    """
    starts, names = month_starts(season, season_calendar(season))
    energies = [_kwh_by(season, name, starts) for _, name in _ENERGIES]
    level_kg, ends = season.hydrogen_kg, [*starts[1:], season.steps]
    lowest = [float(level_kg[start : end + 1].min()) for start, end in zip(starts, ends, strict=True)]
    heads = ["", *(head for head, _ in _ENERGIES), "least", "at end"]
    units = ["", *["kWh"] * len(_ENERGIES), "kg", "kg"]
    rows = [
        [name, *(f"{energy[at]:,.0f}" for energy in energies), f"{lowest[at]:.1f}", f"{level_kg[end]:.1f}"]
        for at, (name, end) in enumerate(zip(names, ends, strict=True))
    ]
    whole = [
        "all",
        *(f"{energy.sum():,.0f}" for energy in energies),
        f"{min(lowest):.1f}",
        f"{level_kg[-1]:.1f}",
    ]
    return [*_aligned([heads, units, *rows, whole]), *_notes(season)]


def _kwh_by(season: Season, name: str, starts: Sequence[int]) -> FloatArray:
    power_w = season.load_w + season.always_w if name == "load_w" else season.mean(name)
    return np.asarray(np.add.reduceat(power_w, starts) * season.step_s / JOULES_PER_KWH)


def _notes(season: Season) -> list[str]:
    years = "" if len(season.years) == 1 else f", mean of {len(season.years)} years"
    count, hours = len(season.targets_kg), season.window_s / 3600.0
    notes = [f"tank: {season.tank_kg:g} kg, {season.hydrogen_kg[0]:.1f} kg at the start{years}"]
    notes.append(f"targets for {count} windows of {hours:g} h, from steps of {season.step_s / 3600.0:g} h")
    imported_kwh = j_to_kwh(float(season.mean("import_w").sum()) * season.step_s)
    return [*notes, f"from the grid: {imported_kwh:,.0f} kWh"] if imported_kwh > 0.0 else notes


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = widths_of(rows)
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= 80 else " "
    return [aligned(row, widths, gap) for row in rows]
