"""Inputs of GreenSlot's evaluation: weeks of solar power, predictions, prices, and the site's file.

Goiri et al., "GreenSlot: Scheduling Energy Consumption in Green Datacenters", SC 2011, Section 5.1. A week is
Monday 9:00 to Friday 17:00, 104 hours. The sun of the week "Average" was measured in the paper's figures;
other weeks are synthetic, or cut out of a file of production.

Files of prices and carbon intensities are of another year and place than the solar power. The site is
assumed to be there: its week begins at 9:00 in the file's time zone, in the week of the file that is
nearest in the year to the week of solar power.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import numpy as np
from msgspec import Struct

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.calendar import Calendar
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.grid_rates import PRICE, RateFile, RateGaps, RateQuantity, read_rate
from beasy_sched.formats.power_series import read_weather_file
from beasy_sched.formats.reading import in_file, parse_toml, read_bytes
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.formats.table import POWER
from beasy_sched.generate.greenslot_week import ACTUAL_W, PREDICTED_W
from beasy_sched.generate.power_events import Window, pv_production, step_power, synthetic_series
from beasy_sched.generate.power_options import SyntheticWeather
from beasy_sched.structs import as_type
from beasy_sched.units import SECONDS_PER_HOUR

SERVER: Final = "greenslot-xeon"
"""Preset of the paper's nodes."""
HOURS: Final = 104
PANELS: Final = 10
PANELS_W: Final = 2300.0
"""Most power that the paper's ten panels give, W."""
BASE_KW: Final = 0.085
"""Power of switch and scheduler, for 16 nodes, kW."""
_BEST_HOUR_W: Final = 2000.0
"""Power that the paper's ten panels give in the best hour of a year, W."""
LATITUDE_DEG: Final = 40.5
"""Latitude of the paper's site, in New Jersey, degrees."""
STEP_S: Final = 900.0
"""Length of the runs' steps, s: that of the paper's slots."""
_START_HOUR: Final = 9
_HOUR_S: Final = int(SECONDS_PER_HOUR)

IDEAL_DAY_KWH: Final = 14.8
"""The most that the panels produce in a day, as printed."""


ZONE: Final = "Europe/Paris"
"""Default time zone of a file: Central European Time, as in ENTSO-E's files."""
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
    """A day of the week that is taken."""


@dataclass(frozen=True)
class GridFile:
    """A price or a carbon intensity from a file, and the week of it that runs have."""

    quantity: RateQuantity
    path: Path
    fields: Mapping[str, str]
    """Options for reading the file: ``column``, ``unit``, ``gaps`` and ``start``, as far as given."""
    zone: str
    start: datetime
    """Start of the week: Monday 9:00 in ``zone``."""
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
        """The entry of a site file's section ``[grid]`` for a copy in the same folder."""
        fields = {"file": self.copy_name, **self.fields}
        inside = ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
        return f"{self.quantity.name} = {{ {inside} }}\n"


def grid_file(text: str, quantity: RateQuantity, near: datetime, hours: int) -> GridFile:
    """Read the value of ``--prices`` or ``--carbon``: a file's name, or a table as in a site's ``[grid]``.

    Such as ``{ file = "omie.csv", column = "Precio_DA", zone = "Europe/Madrid" }``. The week is ``hours``
    long; where the table has no ``week``, it is the one nearest to ``near`` in the year. Raises InputError.
    """
    given = _given(text)
    path, zone = Path(given.file), _zone(given)
    source = RateFile(path, quantity, given.column, given.unit, gaps=given.gaps, start=given.start)
    calendar = Calendar(_LONG_AGO.replace(tzinfo=zone), zone)
    first, last = (calendar.local(at_s) for at_s in read_rate(source, calendar).signal.span_s)
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
    """The Mondays, 9:00, from which ``hours`` hours lie between two moments of one time zone."""
    monday = first.date() - timedelta(days=first.weekday())
    start = datetime.combine(monday, time(_START_HOUR), first.tzinfo)
    while start.timestamp() + hours * SECONDS_PER_HOUR <= last.timestamp():
        if start.timestamp() >= first.timestamp():
            yield start
        start += timedelta(days=7)


def _apart_days(week: datetime, near: datetime) -> int:
    """Number of days between two times of the year."""
    apart = abs(week.timetuple().tm_yday - near.timetuple().tm_yday)
    return min(apart, _DAYS_A_YEAR - apart)


def distinct(files: Iterable[GridFile]) -> list[GridFile]:
    """Return the files. Raises ConfigError if two have the same name, which identifies them."""
    found: dict[str, GridFile] = {}
    for file in files:
        if file.name in found:
            raise ConfigError(f"two files have the name {file.name!r}: rename one of them")
        found[file.name] = file
    return [*found.values()]


@dataclass(frozen=True)
class SunWeek:
    """A week's production by ten panels."""

    name: str
    start: datetime
    """Start of the week: Monday 9:00, with the offset from UTC."""
    hourly_w: FloatArray
    """Mean production of each hour, W; 104 hours in the paper."""
    predicted_w: FloatArray | None = None
    """Production predicted one hour ahead, W, where it is known."""
    price: GridFile | None = None
    """Prices of the week from a file, in place of a tariff."""
    carbon: GridFile | None = None
    """Carbon intensity of the week from a file, in place of a made-up one."""
    best_hour_w: float = _BEST_HOUR_W
    """Power that ten panels give in the best hour of the file that the week is from, W."""

    @property
    def hours(self) -> int:
        """Number of hours in the week."""
        return len(self.hourly_w)

    @property
    def contents(self) -> list[Any]:
        """Everything that makes runs in two weeks differ, as JSON can hold it."""
        files = [file.copy_name + file.toml for file in (self.price, self.carbon) if file is not None]
        return [self.hourly_w.tolist(), *([self.start.isoformat(), *files] if files else [])]

    def with_file(self, file: GridFile) -> SunWeek:
        """Return the same sun in the week of a price or carbon file, by whose name it is called."""
        week = replace(self, name=file.name, start=file.start)
        return replace(week, price=file) if file.quantity is PRICE else replace(week, carbon=file)

    def longer(self, hours: int) -> SunWeek:
        """Return the week, its last three days repeated until it has ``hours`` hours."""
        at = np.arange(hours)
        at = np.where(at < self.hours, at, self.hours - 72 + (at - self.hours) % 72)
        predicted_w = None if self.predicted_w is None else self.predicted_w[at]
        return replace(self, name=f"{self.name}, longer", hourly_w=self.hourly_w[at], predicted_w=predicted_w)

    def forecast_rows(self, kind: str) -> Iterator[tuple[int, int, float]]:
        """Predictions, made in one of `FORECASTS`: issued (s), valid (s), W of that hour."""
        if kind == "paper":
            if self.predicted_w is None:
                raise ConfigError(f"week {self.name}: has no predictions of the paper's")
            yield from ((0, hour * _HOUR_S, float(w)) for hour, w in enumerate(self.predicted_w))
            return
        for now in range(self.hours):
            ahead_w = self._persisting_w(now) if kind == "persistence" else self._mean_day_w(now)
            for hour, power_w in enumerate(ahead_w.tolist(), now):
                yield now * _HOUR_S, hour * _HOUR_S, power_w

    def _persisting_w(self, now: int) -> FloatArray:
        """Return the forecast, W: the last 24 hours repeated; on the first day, the present hour."""
        hours = np.arange(now, self.hours)
        before = hours - 24 * ((hours - now) // 24 + 1)
        ahead_w = np.where(before >= 0, self.hourly_w[np.maximum(before, 0)], 0.0)
        ahead_w[0] = self.hourly_w[now]
        return ahead_w

    def _mean_day_w(self, now: int) -> FloatArray:
        """Return the forecast, W: for three hours that of one hour ahead, then the mean of the week."""
        near_w = self.hourly_w if self.predicted_w is None else self.predicted_w
        of_day = np.arange(self.hours) % 24
        mean_w = np.bincount(of_day, self.hourly_w) / np.bincount(of_day)
        ahead_w = mean_w[of_day[now:]]
        ahead_w[:3] = near_w[now : now + 3]
        return np.asarray(ahead_w)


FORECASTS: Final = {
    "paper": "Green predicted of Figure 7, one hour ahead, taken as known at every horizon",
    "mean-day": "one hour ahead for three hours, beyond that only the mean of the week's days",
    "perfect": "the real production",
    "persistence": "the last 24 hours again",
    "none": "nothing but the production of the present slot",
}
PREDICTED: Final = "predictor"
"""A further forecast, for weeks out of a file: GreenSlot's predictor, trained with a year's production."""


def predictor_toml(history: Path, week: SunWeek, panels: int) -> str:
    """Return the predictor's file: it learns from ``history``, scaled to the week's panels.

    Raises InputError.
    """
    known = read_solar_history(history)
    best_w = float(np.nanmax(known.production_w, initial=0.0))
    capacity_w = known.capacity_w * week.best_hour_w / best_w * panels / PANELS if best_w > 0.0 else 0.0
    return f"training = {json.dumps(str(history.absolute()))}\ncapacity_kw = {capacity_w / 1000.0:.9g}\n"


def _new_jersey(year: int, month: int, day: int) -> datetime:
    """9:00 of that day; summer time from the second Sunday of March on."""
    summer = datetime(year, month, day) >= datetime(year, 3, 14)
    return datetime(year, month, day, _START_HOUR, tzinfo=timezone(timedelta(hours=-4 if summer else -5)))


AVERAGE: Final = SunWeek("average", _new_jersey(2010, 7, 12), ACTUAL_W, PREDICTED_W)
PAPER_WEEKS: Final = {
    "most": _new_jersey(2010, 5, 31),
    "average": AVERAGE.start,
    "best": _new_jersey(2010, 8, 23),
    "worst": _new_jersey(2011, 3, 7),
}


def synthetic_weeks(seeds: int) -> list[SunWeek]:
    """Return stand-ins for the paper's four weeks: synthetic sun on their dates, by ``seeds`` seeds each."""
    weeks = []
    for at, (name, start) in enumerate(PAPER_WEEKS.items()):
        for seed in range(1, seeds + 1):
            series = synthetic_series(
                SyntheticWeather(latitude_deg=LATITUDE_DEG),
                seed=100 * at + seed,
                start_s=_standard_time_s(start),
                hours=HOURS,
            )
            steps = Window(HOURS, SECONDS_PER_HOUR)
            hourly_w = step_power(pv_production(series, installed_w=PANELS_W), steps)
            weeks.append(SunWeek(f"{name}-{seed}", start, hourly_w))
    return weeks


def _standard_time_s(start: datetime) -> int:
    """The local standard time, in seconds since 1970 as if it were UTC: the synthetic sun has no zones."""
    return int((start.astimezone(timezone(timedelta(hours=-5))).replace(tzinfo=timezone.utc)).timestamp())


def weeks_of_file(path: Path, most: int) -> list[SunWeek]:
    """Cut ``most`` weeks, evenly spread, out of a series of a solar plant (an hour or finer, with dates).

    Power is scaled so that its largest value is that of the ten panels, 2 kW: a stated capacity is often that
    of a grid connection. Local time is New Jersey's. Raises InputError and ConfigError.
    """
    series = read_weather_file(path)
    if series.start_s is None:
        raise InputError(path, "has no dates, so its weeks are unknown: expected a dated series")
    stated_w = None
    if POWER in series.columns:
        stated_w = float(np.nanmax(series.columns[POWER], initial=0.0)) * PANELS_W / _BEST_HOUR_W
    production = pv_production(series, installed_w=PANELS_W, stated_w=stated_w)
    zone = timezone(timedelta(hours=-4))
    begin = datetime.fromtimestamp(series.start_s, zone)
    monday = begin.replace(hour=_START_HOUR, minute=0, second=0) + timedelta(days=-begin.weekday() % 7 or 7)
    until_s = series.start_s + len(series) * series.interval_s - HOURS * _HOUR_S
    weeks = int((until_s - monday.timestamp()) // (7 * 86_400)) + 1
    if weeks < 1:
        raise InputError(path, "holds no whole week from Monday 9:00 to Friday 17:00")
    hours = int(len(series) * series.interval_s // SECONDS_PER_HOUR)
    whole_w = step_power(production, Window(hours, SECONDS_PER_HOUR, series.start_s))
    found = []
    for number in sorted({int(w) for w in np.linspace(0, weeks - 1, min(most, weeks))}):
        start = monday + timedelta(days=7 * number)
        steps = Window(HOURS, SECONDS_PER_HOUR, int(start.timestamp()))
        week = SunWeek(start.strftime("%Y-%m-%d"), start, step_power(production, steps))
        found.append(replace(week, best_hour_w=float(whole_w.max())))
    return found


TARIFFS: Final = {
    "pseg": "the paper's",
    "flat": "the same price at all hours",
    "steep": "twice PSEG's difference between day and night",
}
"""Prices of the studies."""
_PER_KWH: Final = {"pseg": (0.13, 0.12, 0.08), "flat": (0.11, 0.11, 0.11), "steep": (0.155, 0.145, 0.055)}
"""Prices per kWh, USD: from 9:00 to 23:00 in June to September, in the other months, and at night."""


def site_text(week: SunWeek, step_s: float, prices: str, carbon: str, base_kw: float = BASE_KW) -> str:
    """Return the site file: no battery, a grid, and the load in addition to the nodes.

    Prices are those of the week's file, or else of one of `TARIFFS`; carbon is that of the week's file, or
    else of the file ``carbon``.
    """
    tariff = "" if week.price else "".join(_tariff_rows(*_PER_KWH[prices]))
    price_line = week.price.toml if week.price else ""
    carbon_line = week.carbon.toml if week.carbon else f'carbon = "{carbon}"\n'
    zone = next((f'zone = "{file.zone}"\n' for file in (week.price, week.carbon) if file is not None), "")
    return (
        f"[grid]\n{price_line}{carbon_line}{tariff}[load]\nbase_kw = {base_kw:g}\n"
        f'[time]\nstep_s = {step_s:g}\nwindow_h = {week.hours}\nstart = "{week.start.isoformat()}"\n{zone}'
    )


def _tariff_rows(summer: float, other: float, night: float) -> Iterator[str]:
    months = ([6, 7, 8, 9], summer), ([1, 2, 3, 4, 5, 10, 11, 12], other)
    for which, on_peak in months:
        for hours, price in (([9, 23], on_peak), ([23, 9], night)):
            yield f"[[grid.tariff]]\nmonths = {which}\nhours = {hours}\nper_kwh = {price:g}\n"


def carbon_lines(hours: int = HOURS) -> Iterator[str]:
    """A made-up carbon intensity, g/kWh: low at noon, high in the evening, somewhat lower at night."""
    yield "time_s,g_per_kwh\n"
    for hour in range(hours + 73):
        of_day = (hour + _START_HOUR) % 24
        noon = 180.0 * np.exp(-(((of_day - 13.0) / 3.5) ** 2))
        evening = 90.0 * np.exp(-(((of_day - 20.0) / 2.5) ** 2))
        yield f"{hour * _HOUR_S},{330.0 - noon + evening:.1f}\n"
