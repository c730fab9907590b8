"""Site files (TOML): for people, in kWh, kW and percent; a `Site` is in joules, watts and fractions."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from beasy_sched.energy.battery_life import (
    CHEMISTRIES,
    BatteryLife,
    CellModel,
    check_installed,
    data_sheet_cell,
)
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Export, Foreseen, Grid, Known, Tariff, tariff_table
from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.storage import (
    NO_BATTERY,
    BatterySpec,
    FieldError,
    Hold,
    HydrogenSpec,
    LossConvention,
    Storage,
    require,
)
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.currencies import currency_named
from beasy_sched.formats.reading import in_file, package_text, parse_toml, read_text
from beasy_sched.structs import as_type
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, kw_to_w, kwh_to_j

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


def parse_site(text: str, path: PathLike = "site.toml") -> Site:
    """Read a site from TOML text; ``path`` is named in errors. Raises InputError."""
    values = parse_toml(text, path)
    with in_file(path):
        file = as_type(values, _SiteFile, infinite=("import_limit_kw", "export_limit_kw"))
        battery = NO_BATTERY
        if file.battery is not None:
            with _named(file.battery, "battery"):
                _check_battery(file.battery)
                battery = _spec(BatterySpec, file.battery)
        hydrogen = None
        if file.hydrogen is not None:
            with _named(file.hydrogen, "hydrogen"):
                _check_hydrogen(file.hydrogen)
                hydrogen = _spec(HydrogenSpec, file.hydrogen)
        with _named(file.time, "time"):
            _check_time(file.time)
        calendar = _calendar(file.time)
        grid = None
        if file.grid is not None:
            with _named(file.grid, "grid"):
                grid = _grid(file.grid, calendar, Path(path).parent)
        battery_life = None
        if file.battery is not None and file.battery.life is not None:
            with _named(file.battery.life, "battery.life"):
                battery_life = _battery_life(file.battery.life, grid)
        with _named(file.load, "load"):
            require(0 <= file.load.base_kw < _LARGEST_KW, "base_kw", file.load.base_kw, _KW_EXPECTED)
    return Site(
        storage=Storage(battery, hydrogen),
        step_s=file.time.step_s,
        window_s=file.time.window_h * SECONDS_PER_HOUR,
        guard=GuardSettings(file.guard.mode, file.guard.veto),
        grid=grid,
        base_w=kw_to_w(file.load.base_kw),
        calendar=calendar,
        battery_life=battery_life,
    )


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the file's sections: unknown names are rejected."""


class _Life(_Section, frozen=True, kw_only=True):
    """Ageing of the battery: a chemistry, or a data sheet."""

    chemistry: str | None = None
    cycles: tuple[tuple[float, float], ...] | None = None
    """Depths of discharge, %, and cycles until 80 % of the capacity."""
    calendar_years: float | None = None
    temperature_c: float = BatteryLife.temperature_c
    price_per_kwh: float | None = None
    currency: str | None = None


class _Battery(_Section, frozen=True, kw_only=True):
    capacity_kwh: float
    charge_limit_kw: float
    discharge_limit_kw: float
    soc_min_pct: float = BatterySpec.soc_min_pct
    soc_max_pct: float = BatterySpec.soc_max_pct
    soc_start_pct: float = BatterySpec.soc_start_pct
    soc_target_pct: float = BatterySpec.soc_target_pct
    charge_efficiency: float = BatterySpec.charge_efficiency
    discharge_efficiency: float = BatterySpec.discharge_efficiency
    self_discharge_pct_per_day: float = 0.2
    loss: LossConvention = BatterySpec.loss
    life: _Life | None = None


class _Hydrogen(_Section, frozen=True, kw_only=True):
    tank_kg: float
    level_start_kg: float
    level_target_kg: float
    electrolyzer_max_kw: float
    fuel_cell_max_kw: float
    electrolyzer_min_kw: float = 0.0
    electrolyzer_efficiency: float = HydrogenSpec.electrolyzer_efficiency
    fuel_cell_efficiency: float = HydrogenSpec.fuel_cell_efficiency
    hold: Hold = HydrogenSpec.hold


class _Time(_Section, frozen=True, kw_only=True):
    step_s: float = Site.step_s
    window_h: float = Site.window_s / SECONDS_PER_HOUR
    start: datetime | None = None
    zone: str | None = None


class _Row(_Section, frozen=True, kw_only=True):
    """A price for some local hours of some months."""

    months: tuple[int, ...] = tuple(range(1, 13))
    hours: tuple[int, int] = (0, 24)
    per_kwh: float


class _Rate(_Section, frozen=True, kw_only=True):
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


class _GridSection(_Section, frozen=True, kw_only=True):
    import_limit_kw: float = math.inf
    export: Export = Grid.export
    export_limit_kw: float = math.inf
    feed_in_per_kwh: float = Grid.feed_in_per_kwh
    currency: str | None = None
    price: str | _Rate | None = None
    carbon: str | _Rate | None = None
    tariff: tuple[_Row, ...] = ()


class _Load(_Section, frozen=True, kw_only=True):
    base_kw: float = 0.0


class _Guard(_Section, frozen=True, kw_only=True):
    mode: GuardMode = GuardSettings.mode
    veto: bool = GuardSettings.veto


class _SiteFile(_Section, frozen=True, kw_only=True):
    battery: _Battery | None = None
    hydrogen: _Hydrogen | None = None
    grid: _GridSection | None = None
    load: _Load = _Load()
    time: _Time = _Time()
    guard: _Guard = _Guard()


_CONVERSIONS: Final[dict[str, tuple[str, Callable[[float], float]]]] = {
    "capacity_kwh": ("capacity_j", kwh_to_j),
    "charge_limit_kw": ("charge_limit_w", kw_to_w),
    "discharge_limit_kw": ("discharge_limit_w", kw_to_w),
    "self_discharge_pct_per_day": ("self_discharge_per_day", lambda percent: percent / 100.0),
    "electrolyzer_max_kw": ("electrolyzer_max_w", kw_to_w),
    "electrolyzer_min_kw": ("electrolyzer_min_w", kw_to_w),
    "fuel_cell_max_kw": ("fuel_cell_max_w", kw_to_w),
    "import_limit_kw": ("import_limit_w", kw_to_w),
    "export_limit_kw": ("export_limit_w", kw_to_w),
}
"""Fields in units for people: the field in SI units, and the conversion. All others are the same in both."""
_FILE_NAMES: Final = {name: field for field, (name, _) in _CONVERSIONS.items()}

Spec = TypeVar("Spec", BatterySpec, HydrogenSpec)


def _spec(kind: type[Spec], section: _Section) -> Spec:
    values: dict[str, Any] = {}
    for field, value in msgspec.structs.asdict(section).items():
        if field == "life":  # which is not part of the specification
            continue
        name, convert = _CONVERSIONS.get(field, (field, None))
        values[name] = value if convert is None else convert(value)
    return kind(**values)


@contextlib.contextmanager
def _named(section: object, where: str) -> Iterator[None]:
    """Put the file's own name and value into an error about a field of ``section``."""
    try:
        yield
    except FieldError as error:
        name = _FILE_NAMES.get(error.field, error.field)
        found = getattr(section, name, error.found)
        shown = f"{found:.15g}" if isinstance(found, float) else repr(found)
        raise ConfigError(f"{where}.{name}: found {shown}, expected {error.expected}") from error


_LARGEST_BATTERY_KWH: Final = 1e6
_LARGEST_RATE_PER_H: Final = 60.0
_LARGEST_TANK_KG: Final = 1e6
_LARGEST_KW: Final = 1e6
_KW_EXPECTED: Final = "at least 0 and below 1e6 kW (is the value in W?)"


def _check_battery(section: _Battery) -> None:
    size = section.capacity_kwh
    expected = "a finite number > 0 (a site without a battery has no section [battery])"
    require(0 < size < math.inf, "capacity_kwh", size, expected)
    require(
        not size > _LARGEST_BATTERY_KWH, "capacity_kwh", size, "at most 1e6 kWh (is the value in J or Wh?)"
    )
    for name in ("charge_limit_kw", "discharge_limit_kw"):
        value = getattr(section, name)
        most = _LARGEST_RATE_PER_H * size
        expected = f"at most {most:g} kW, {_LARGEST_RATE_PER_H:g} times the capacity an hour (is it in W?)"
        require(not value > most, name, value, expected)
    rate = section.self_discharge_pct_per_day
    require(0 <= rate < 100, "self_discharge_pct_per_day", rate, "at least 0 and below 100")


_MOST_YEARS: Final = 100.0
_MOST_FOR_CAPACITY: Final = 1e4
"""Largest price of a kWh of capacity, in times the largest credible price of a kWh."""


def _battery_life(section: _Life, grid: Grid | None) -> BatteryLife:
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


def _chemistry(section: _Life) -> CellModel:
    years = section.calendar_years
    require(years is None, "calendar_years", years, "no value together with a chemistry")
    expected = (
        f"{' or '.join(CHEMISTRIES)}, or in its place a data sheet: cycles = [[80, 4000], [100, 2500]]"
        " (depth of discharge in %, cycles) and calendar_years = 15"
    )
    require(section.chemistry in CHEMISTRIES, "chemistry", section.chemistry, expected)
    return CHEMISTRIES[section.chemistry or ""]


def _data_sheet(section: _Life, cycles: tuple[tuple[float, float], ...]) -> CellModel:
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


def _check_hydrogen(section: _Hydrogen) -> None:
    tank = section.tank_kg
    require(not tank > _LARGEST_TANK_KG, "tank_kg", tank, "at most 1e6 kg (is the value in g?)")
    for name in ("electrolyzer_max_kw", "fuel_cell_max_kw"):
        value = getattr(section, name)
        require(not value > _LARGEST_KW, name, value, "at most 1e6 kW (is the value in W?)")


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
    known = _required(calendar, field)
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
    read = read_rate(source, known)
    return Foreseen(read.signal, known, rate.known), read.currency


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
