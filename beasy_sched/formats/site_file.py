"""Site files (TOML): for people, in kWh, kW and percent; a `Site` is in joules, watts and fractions."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec

from beasy_sched.energy.battery_life import (
    CHEMISTRIES,
    BatteryLife,
    CellModel,
    LifeSection,
    check_installed,
    data_sheet_cell,
)
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.devices.battery import NO_BATTERY, BatterySpec
from beasy_sched.energy.devices.device import Device, DeviceSection, SiteSection
from beasy_sched.energy.devices.kinds import KINDS, kind_named
from beasy_sched.energy.fields import FieldError, require, shown
from beasy_sched.energy.grid import Export, Foreseen, Grid, Known, Tariff, tariff_table
from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.sources import SiteSource, SourceSection, source_kinds
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.currencies import currency_named
from beasy_sched.formats.grid_rules_section import GridRulesSection, peak_price, rules_of
from beasy_sched.formats.reading import in_file, package_text, parse_toml, read_text
from beasy_sched.formats.restart_section import RestartSection
from beasy_sched.formats.site_load_files import CoolingSection, ServicesFile, cooling_of, services_of
from beasy_sched.structs import as_type
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, kw_to_w

DEFAULT_SITE: Final = "default"
"""Name that selects the site file that is included in the package."""


def default_site_text() -> str:
    """The commented site file that is included in the package."""
    return package_text("beasy_sched.formats", "default_site.toml")


def default_site() -> Site:
    """The site of the file that is included in the package."""
    return parse_site(default_site_text(), "default_site.toml")


def read_site_text(name: PathLike) -> str:
    """Return the text of a site file; ``DEFAULT_SITE`` names the one included in the package.

    Raises InputError.
    """
    return default_site_text() if os.fspath(name) == DEFAULT_SITE else read_text(name)


def read_site(path: PathLike) -> Site:
    """Read a site file. Raises InputError that names file and field."""
    return parse_site(read_site_text(path), path)


_NAMES_FILE: Final = (("grid", "price"), ("grid", "carbon"), ("cooling", "temperature"), ("load", "series"))
"""Fields of a site file that name another file, by section."""


def files_named_by(text: str, path: PathLike) -> list[Path]:
    """Return the files that a site file, which :func:`parse_site` can read, names."""
    values, folder, found = parse_toml(text, path), Path(path).parent, []
    for section, field in _NAMES_FILE:
        given = values.get(section, {}).get(field)
        name = given.get("file") if isinstance(given, dict) else given
        if isinstance(name, str):
            found.append(folder / name)
    return list(dict.fromkeys(found))


def site_fields(text: str, path: PathLike) -> dict[str, Any]:
    """Return the fields of a site file by ``section.field``, as in the file, with defaults for omitted ones.

    Sections that are omitted have no fields. Names of files include their folder. Raises InputError.
    """
    with in_file(path):
        file = _sections(parse_toml(text, path))
    found: dict[str, Any] = {}
    for section, value in msgspec.structs.asdict(file).items():
        if isinstance(value, msgspec.Struct):
            found |= {f"{section}.{name}": each for name, each in msgspec.structs.asdict(value).items()}
        elif value is not None:
            found[section] = value
    for name in (f"{section}.{field}" for section, field in _NAMES_FILE):
        given = found.get(name)
        if isinstance(given, str):
            found[name] = _placed(given, path)
        elif given is not None:
            found[name] = msgspec.structs.replace(given, file=_placed(given.file, path))
    return found


def _placed(name: str, path: PathLike) -> str:
    """Return the absolute path of a file that the site file ``path`` names."""
    return os.path.abspath(Path(path).parent / name)


def parse_site(text: str, path: PathLike = "site.toml") -> Site:
    """Read a site from TOML text; ``path`` is named in errors. Raises InputError."""
    values = parse_toml(text, path)
    with in_file(path):
        file = _sections(values)
        storage = Storage.of(_devices(file), NO_BATTERY)
        with _named(file.time, "time"):
            _check_time(file.time)
        calendar = _calendar(file.time)
        grid = None
        if file.grid is not None:
            with _named(file.grid, "grid"):
                grid = _grid(file.grid, calendar, Path(path).parent)
                grid = _with_rules(grid, file.grid, storage.battery, calendar)
        _check_end_value(storage.battery, grid)
        battery_life = None
        battery = getattr(file, BatterySpec.section)
        if battery is not None and battery.life is not None:
            with _named(battery.life, "battery.life"):
                battery_life = _battery_life(battery.life, grid)
        sources = tuple(_sources(getattr(file, _SOURCE, ())))
        with _named(file.load, "load"):
            require(0 <= file.load.base_kw < _LARGEST_KW, "base_kw", file.load.base_kw, _KW_EXPECTED)
        folder, cooling, services = Path(path).parent, None, None
        if file.cooling is not None:
            with _named(file.cooling, "cooling"):
                cooling = cooling_of(file.cooling, calendar, folder, _zone)
        if file.load.series is not None:
            services = services_of(file.load.series, calendar, folder, _zone)
        with _named(file.restart, "restart"):
            restarts = file.restart.settings(file.time.step_s)
    return Site(
        storage=storage,
        step_s=file.time.step_s,
        window_s=file.time.window_h * SECONDS_PER_HOUR,
        guard=GuardSettings(file.guard.mode, file.guard.veto),
        grid=grid,
        base_w=kw_to_w(file.load.base_kw),
        calendar=calendar,
        sources=sources,
        restarts=restarts,
        battery_life=battery_life,
        cooling=cooling,
        services=services,
    )


_MOST_END_VALUE: Final = 100.0
"""Largest credible value of a kWh left in the battery, kWh of finished jobs."""


def _check_end_value(battery: BatterySpec, grid: Grid | None) -> None:
    """Raise ConfigError for a value of energy left in another unit, or that no price makes comparable."""
    value = battery.end_value
    if not value:
        return
    if grid is None:
        found, most, hint = "", _MOST_END_VALUE, "kWh of finished jobs (money counts only with a [grid])"
    elif grid.price is None:
        raise ConfigError(
            f"battery.end_value_per_kwh: found {value:g}, in money, but the grid has no price: add price or"
            " tariff to [grid]"
        )
    else:
        found, most = f" {grid.currency}", currency_named(grid.currency).most_per_kwh
        hint = f"{grid.currency} (is it in another unit?)"
    if value > most:
        raise ConfigError(
            f"battery.end_value_per_kwh: found {value:g}{found}, expected at most {most:g} {hint}"
        )


class _Time(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    step_s: float = Site.step_s
    window_h: float = Site.window_s / SECONDS_PER_HOUR
    start: datetime | None = None
    zone: str | None = None


class _Row(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A price for some local hours of some months."""

    months: tuple[int, ...] = tuple(range(1, 13))
    hours: tuple[int, int] = (0, 24)
    per_kwh: float


class _Rate(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A price or a carbon intensity from a file."""

    file: str
    column: str | None = None
    unit: str | None = None
    gaps: Literal["refuse", "hold", "interpolate"] = "refuse"
    start: datetime | None = None
    """Moment of the first value, for a file without times."""
    zone: str | None = None
    """Time zone of times that state none; without it, they are UTC."""
    sequence: str | None = None
    """Auction of ENTSO-E's prices, where the file has several."""
    known: Known = Known.DAY_AHEAD


class _GridSection(GridRulesSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    conversions: ClassVar[Mapping[str, tuple[str, Callable[[float], float]]]] = {
        "import_limit_kw": ("import_limit_w", kw_to_w),
        "export_limit_kw": ("export_limit_w", kw_to_w),
    }

    import_limit_kw: float = math.inf
    export: Export = Grid.export
    export_limit_kw: float = math.inf
    feed_in_per_kwh: float = Grid.feed_in_per_kwh
    currency: str | None = None
    price: str | _Rate | None = None
    carbon: str | _Rate | None = None
    tariff: tuple[_Row, ...] = ()


class _Load(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    base_kw: float = 0.0
    series: str | ServicesFile | None = None


class _Guard(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mode: GuardMode = GuardSettings.mode
    veto: bool = GuardSettings.veto


class _AnySource(msgspec.Struct, kw_only=True):
    """Keys of every source, in addition to those of its kind."""

    name: str
    kind: str


class _SiteFile(SiteSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sections other than those of devices."""

    grid: _GridSection | None = None
    cooling: CoolingSection | None = None
    load: _Load = _Load()
    time: _Time = _Time()
    guard: _Guard = _Guard()
    restart: RestartSection = RestartSection()


_SOURCE: Final = "source"
_OWN_SECTIONS: Final = frozenset((*(field.name for field in msgspec.structs.fields(_SiteFile)), _SOURCE))


def _sections(values: dict[str, Any]) -> _SiteFile:
    """Return the sections of a file's ``values``. Raises ConfigError."""
    for name in values.keys() - _OWN_SECTIONS:
        kind_named(name)  # a kind of another package is loaded
    sections = _site_file(tuple(KINDS.items()), sources=_SOURCE in values)
    return as_type(values, sections, infinite=("import_limit_kw", "export_limit_kw"))


@lru_cache(maxsize=8)
def _site_file(devices: tuple[tuple[str, type[Device]], ...], *, sources: bool) -> type[_SiteFile]:
    """Return the sections of a site file, with those of ``devices``, and with ``sources`` if it has any."""
    own = [(section, kind.file | None, None) for section, kind in devices]
    others = [(field.name, field.type, field.default) for field in msgspec.structs.fields(_SiteFile)]
    tables = [(_SOURCE, tuple[dict[str, Any], ...], ())] if sources else []
    fields: Any = [*own, *others, *tables]
    return msgspec.defstruct(
        "_SiteFile", fields, bases=(SiteSection,), frozen=True, forbid_unknown_fields=True, kw_only=True
    )  # type: ignore[return-value]


def _sources(tables: Sequence[dict[str, Any]]) -> Iterator[SiteSource]:
    """Yield the sources of the file's tables. Raises ConfigError for one that is wrong, or named twice."""
    kinds = {kind.name: kind for kind in source_kinds()} if tables else {}
    names: set[str] = set()
    for number, table in enumerate(tables):
        where = f"{_SOURCE}[{number}]"
        own = {key: value for key, value in table.items() if key in ("name", "kind")}
        with _located(where):
            source = as_type(own, _AnySource)
            if (kind := kinds.get(source.kind)) is None:
                raise ConfigError(f"kind: found {source.kind!r}, expected one of {', '.join(kinds)}")
            if source.name in names:
                raise ConfigError(f"name: found {source.name!r} twice, expected a name for each source")
            section = as_type(
                {key: table[key] for key in table if key not in own}, kind.section or SiteSection
            )
        names.add(source.name)
        with _named(section, where):
            series = section.series() if isinstance(section, SourceSection) else None
            yield SiteSource(source.name, kind, series)


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Put a place before the field in an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None


def _devices(file: _SiteFile) -> Iterator[Device]:
    """Yield the devices of the file's sections, in the order of `KINDS`."""
    for name, kind in KINDS.items():
        section: DeviceSection | None = getattr(file, name)
        if section is not None:
            with _named(section, name):
                section.check()
                yield kind(**section.values())


@contextlib.contextmanager
def _named(section: SiteSection, where: str) -> Iterator[None]:
    """Put the file's own name and value into an error about a field of ``section``."""
    try:
        yield
    except FieldError as error:
        names = {field: name for name, (field, _) in section.conversions.items()}
        name = names.get(error.field, error.field)
        value = getattr(section, name, error.found)
        found = f"{value:.15g}" if isinstance(value, float) else shown(value)
        raise ConfigError(f"{where}.{name}: found {found}, expected {error.expected}") from error


_LARGEST_KW: Final = 1e6
_KW_EXPECTED: Final = "at least 0 and below 1e6 kW (is the value in W?)"


_MOST_YEARS: Final = 100.0
_MOST_FOR_CAPACITY: Final = 1e4
"""Largest price of a kWh of capacity, in times the largest credible price of a kWh."""


def _battery_life(section: LifeSection, grid: Grid | None) -> BatteryLife:
    """Return how the battery ages. Raises FieldError, and ConfigError where the extra is not installed."""
    if section.chemistry is None and section.cycles is None:
        field = "" if section.price_per_kwh is None else ".price_per_kwh"
        raise ConfigError(
            f'battery.life{field}: requires a chemistry or a data sheet: add chemistry = "lmo", or'
            " cycles = [[80, 4000], [100, 2500]] (depth of discharge in %, cycles) and calendar_years = 15"
        )
    model = _chemistry(section) if section.cycles is None else _data_sheet(section, section.cycles)
    expected = "between 0 and 60 degrees Celsius, where the model holds"
    require(0 <= section.temperature_c <= 60, "temperature_c", section.temperature_c, expected)
    currency = section.currency or (BatteryLife.currency if grid is None else grid.currency)
    expected = "" if grid is None else f"{grid.currency}, the currency of [grid]"
    require(grid is None or currency == grid.currency, "currency", currency, expected)
    price, most = section.price_per_kwh, _MOST_FOR_CAPACITY * currency_named(currency).most_per_kwh
    expected = f"at least 0 and at most {most:g} {currency} for a kWh of capacity"
    require(price is None or 0 <= price <= most, "price_per_kwh", price, expected)
    check_installed()
    return BatteryLife(model, section.temperature_c, price, currency)


def _chemistry(section: LifeSection) -> CellModel:
    years = section.calendar_years
    require(years is None, "calendar_years", years, "no value together with a chemistry")
    expected = (
        f"{' or '.join(CHEMISTRIES)}, or in its place a data sheet: cycles = [[80, 4000], [100, 2500]]"
        " (depth of discharge in %, cycles) and calendar_years = 15"
    )
    require(section.chemistry in CHEMISTRIES, "chemistry", section.chemistry, expected)
    return CHEMISTRIES[section.chemistry or ""]


def _data_sheet(section: LifeSection, cycles: tuple[tuple[float, float], ...]) -> CellModel:
    if section.chemistry is not None:
        raise ConfigError("battery.life: found both a chemistry and a table of cycles, expected one of them")
    if section.calendar_years is None:
        raise ConfigError(
            "battery.life.calendar_years: is missing: the years until 80 % of the capacity at rest, which a"
            " table of cycles requires"
        )
    years = section.calendar_years
    require(0 < years <= _MOST_YEARS, "calendar_years", years, f"above 0 and at most {_MOST_YEARS:g}")
    if not cycles:
        raise ConfigError("battery.life.cycles: found [], expected at least one row, such as [80, 4000]")
    before = (0.0, math.inf)
    for place, (depth, count) in enumerate(cycles):
        expected = f"a depth of discharge above {before[0]:g} and at most 100 %: rows are in rising order"
        require(before[0] < depth <= 100, f"cycles[{place}]", depth, expected)
        expected = f"cycles above 0, and not more than those of shallower ones ({before[1]:g})"
        require(0 < count <= before[1], f"cycles[{place}]", count, expected)
        before = (depth, count)
    return data_sheet_cell([(depth / 100.0, count) for depth, count in cycles], years)


def _check_time(section: _Time) -> None:
    step, window = section.step_s, section.window_h
    require(1 <= step <= SECONDS_PER_DAY, "step_s", step, "between 1 and 86400 seconds")
    require(0 < window <= 24 * 366, "window_h", window, "above 0 and at most 8784 hours (is it in seconds?)")
    steps = window * SECONDS_PER_HOUR / step
    expected = f"a whole number of steps of {step:g} s"
    require(steps >= 1 and abs(steps - round(steps)) < 1e-9 * steps, "window_h", window, expected)


def _calendar(section: _Time) -> Calendar | None:
    """Return the calendar of time 0; None if the file does not state it."""
    if section.start is None:
        if section.zone is not None:
            raise ConfigError('time.zone: requires time.start, such as start = "2010-07-12T09:00:00-04:00"')
        return None
    if section.start.tzinfo is None:
        raise ConfigError(
            f"time.start: found {section.start.isoformat()}, expected a time with its offset from UTC,"
            f" such as {section.start.isoformat()}-04:00"
        )
    zone = _zone("time.zone", section.zone)
    if zone is not None:
        offset = section.start.astimezone(zone).utcoffset()
        if section.start.utcoffset() != offset:
            raise ConfigError(
                f"time.start: {section.start.isoformat()} has another offset from UTC than {section.zone}"
                f" at that time ({section.start.astimezone(zone).isoformat()})"
            )
    return Calendar(section.start, zone)


def _zone(field: str, name: str | None) -> tzinfo | None:
    """Return the time zone of a field, or None. Raises ConfigError."""
    if name is None:
        return None
    from beasy_sched.formats.local_time import named_zone

    try:
        return named_zone(name)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}") from None


def _grid(section: _GridSection, calendar: Calendar | None, folder: Path) -> Grid:
    if section.tariff and section.price is not None:
        raise ConfigError("grid.price: found both a tariff and a price file, expected one of them")
    price, currency = _price(section, calendar, folder)
    require(
        abs(section.feed_in_per_kwh) <= currency_named(currency).most_per_kwh,
        "feed_in_per_kwh",
        section.feed_in_per_kwh,
        _price_expected(currency),
    )
    carbon = None if section.carbon is None else _rate(section.carbon, "carbon", section, calendar, folder)
    return Grid(
        import_limit_w=kw_to_w(section.import_limit_kw),
        export=section.export,
        export_limit_w=kw_to_w(section.export_limit_kw),
        feed_in_per_kwh=section.feed_in_per_kwh,
        currency=currency,
        price=price,
        carbon=None if carbon is None else carbon[0],
    )


def _with_rules(grid: Grid, section: _GridSection, battery: BatterySpec, calendar: Calendar | None) -> Grid:
    """Return the grid with its rules for the battery and its price of peaks, if it has any."""
    rules, peak = rules_of(section, grid, battery, calendar), peak_price(section, grid, calendar)
    return grid if rules is None and peak is None else replace(grid, rules=rules, peak=peak)


def _price(section: _GridSection, calendar: Calendar | None, folder: Path) -> tuple[Foreseen | None, str]:
    """Return the import price, and the currency of all prices."""
    currency = section.currency or Grid.currency
    if section.tariff:
        table = tariff_table(_tariff_row(place, row, currency) for place, row in enumerate(section.tariff))
        return Foreseen(Tariff(table, _required(calendar, "tariff"))), currency
    if section.price is None:
        return None, currency
    price, of_file = _rate(section.price, "price", section, calendar, folder)
    return price, of_file or currency


def _required(calendar: Calendar | None, field: str) -> Calendar:
    if calendar is None:
        raise ConfigError(f'grid.{field}: requires [time] start, such as start = "2010-07-12T09:00:00-04:00"')
    return calendar


def _rate(
    given: str | _Rate, field: str, section: _GridSection, calendar: Calendar | None, folder: Path
) -> tuple[Foreseen, str | None]:
    """Read a price or a carbon intensity, and its currency; the file is next to the site file."""
    from beasy_sched.formats.grid_rates import CARBON, PRICE, RateFile, RateGaps, read_rate

    rate = _Rate(file=given) if isinstance(given, str) else given
    calendar = _required(calendar, field)
    source = RateFile(
        folder / rate.file,
        PRICE if field == "price" else CARBON,
        rate.column,
        rate.unit,
        RateGaps(rate.gaps),
        rate.start,
        section.currency,
        _zone(f"grid.{field}.zone", rate.zone),
        rate.sequence,
    )
    read = read_rate(source, calendar)
    return Foreseen(read.signal, calendar, rate.known), read.currency


def _price_expected(currency: str) -> str:
    return f"at most {currency_named(currency).most_per_kwh:g} {currency} per kWh (is it in another unit?)"


def _tariff_row(place: int, row: _Row, currency: str) -> tuple[tuple[int, ...], tuple[int, int], float]:
    where = f"tariff[{place}]"
    if wrong := [month for month in row.months if not 1 <= month <= 12]:
        raise ConfigError(f"grid.{where}.months: found {wrong[0]}, expected months from 1 to 12")
    first, last = row.hours
    if not (0 <= first < 24 and 0 <= last <= 24 and first != last):
        raise ConfigError(
            f"grid.{where}.hours: found {list(row.hours)}, expected two different hours from 0 to 24,"
            " the first one before 24"
        )
    if not abs(row.per_kwh) <= currency_named(currency).most_per_kwh:
        expected = _price_expected(currency)
        raise ConfigError(f"grid.{where}.per_kwh: found {row.per_kwh:g}, expected {expected}")
    return row.months, row.hours, row.per_kwh
