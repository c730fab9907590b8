"""Commented site files from a few sizes: the site file of the package with other numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from beasy_sched.declared import ABOVE_0, OptionDoc
from beasy_sched.errors import ConfigError
from beasy_sched.numbers import ANY_NUMBER, Range

_HEADER: Final = """\
# A site, made by 'beasy-sched generate site'. Change it as you like, and pass it with --site FILE;
# 'beasy-sched check --site FILE' checks it.
"""
_CHARGE_PER_H: Final = 0.25
_DISCHARGE_PER_H: Final = 0.5
_ELECTROLYZER_KW_PER_KG: Final = 0.5
_FUEL_CELL_KW_PER_KG: Final = 0.3
"""Powers where none are given, by the sizes of the battery and of the tank: as in the program's site file."""
_LEAST_ELECTROLYZER: Final = 0.1
"""The least power of an electrolyzer that is on, as a part of the largest."""
_COMMENT_COLUMN: Final = 34


_PCT: Final = Range(0, 100)


@dataclass(frozen=True)
class SiteSizes:
    """Sizes of a site file; those that are None follow from the others."""

    battery_kwh: Annotated[float, OptionDoc("capacity of the battery; none: a site without one")] = 100.0
    """0 for a site without one."""
    charge_kw: Annotated[
        float | None,
        OptionDoc(
            f"largest power into the battery. [default: {_CHARGE_PER_H:g} of the capacity an hour]",
            range=ABOVE_0,
        ),
    ] = None
    discharge_kw: Annotated[
        float | None,
        OptionDoc(
            f"largest power out of the battery. [default: {_DISCHARGE_PER_H:g} of the capacity an hour]",
            range=ABOVE_0,
        ),
    ] = None
    soc_start_pct: Annotated[float, OptionDoc("state of charge at the start", range=_PCT)] = 50.0
    soc_target_pct: Annotated[
        float | None,
        OptionDoc(
            "state of charge where each window should end. [default: as at the start]",
            range=_PCT,
        ),
    ] = None
    hydrogen_kg: Annotated[
        float,
        OptionDoc("size of the hydrogen tank, half full at the start; none: a site without hydrogen"),
    ] = 0.0
    electrolyzer_kw: Annotated[
        float | None,
        OptionDoc(
            "largest power of the electrolyzer. "
            f"[default: {_ELECTROLYZER_KW_PER_KG:g} for each kg of the tank]",
            range=ABOVE_0,
        ),
    ] = None
    fuel_cell_kw: Annotated[
        float | None,
        OptionDoc(
            f"largest power of the fuel cell. [default: {_FUEL_CELL_KW_PER_KG:g} for each kg of the tank]",
            range=ABOVE_0,
        ),
    ] = None
    grid_kw: Annotated[
        float, OptionDoc("largest power from the grid, or unlimited; none: a site without a connection")
    ] = 0.0
    """0 for a site without a connection, infinity for one without a limit."""
    price_per_kwh: Annotated[
        float | None,
        OptionDoc(
            "price of a kWh from the grid, EUR; requires --start. For other currencies, and prices by hour,"
            " change the file",
            range=ANY_NUMBER,
        ),
    ] = None
    base_kw: Annotated[float, OptionDoc("constant base load besides the servers", range=Range(0))] = 0.0
    pue: Annotated[
        float | None,
        OptionDoc(
            "power of servers and cooling, divided by that of the servers. For a table by outside"
            " temperature, change the file",
            range=Range(1, 5),
        ),
    ] = None
    charge_hours: Annotated[
        tuple[int, int] | None,
        OptionDoc(
            "local hours in which the grid charges the battery; requires --grid-kw and --start. For a limit"
            " of price or carbon intensity, change the file"
        ),
    ] = None
    peak_kw: Annotated[
        float | None,
        OptionDoc(
            "import that the battery defends: the grid serves up to it; requires --grid-kw",
            range=ABOVE_0,
        ),
    ] = None
    peak_price_per_kw: Annotated[
        float | None,
        OptionDoc(
            "price of a kW of the highest mean import of 15 minutes, EUR; requires --grid-kw", range=Range(0)
        ),
    ] = None
    target_band_pct: Annotated[
        float | None,
        OptionDoc(
            "percentage points on both sides of the target within which an end counts as on target",
            range=_PCT,
        ),
    ] = None
    step_s: Annotated[float, OptionDoc("length of a step", range=ABOVE_0)] = 300.0
    window_h: Annotated[float, OptionDoc("length of a window", range=ABOVE_0)] = 72.0
    start: Annotated[
        str | None,
        OptionDoc("date and time of simulation time 0, with UTC offset, such as 2024-07-01T00:00:00+02:00"),
    ] = None
    guard: Annotated[
        Literal["shed", "kill-all"],
        OptionDoc("action of the storage guard on an energy shortage: kill as few jobs as necessary, or all"),
    ] = "shed"
    veto: Annotated[bool, OptionDoc("reject job starts that exceed the energy left in the time step")] = True


def site_text(sizes: SiteSizes) -> str:
    """Return the text of a site file, with the comments of the file that is included in the package.

    Sections that the site does not have are in it as well, as comments. Whether the numbers make sense is for
    the reader of the file to decide. Raises ConfigError for sizes of what the site does not have.
    """
    from beasy_sched.formats.site_file import default_site_text

    _check(sizes)
    values = _values(sizes)
    lines = default_site_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("# Units"))
    return _HEADER + "#\n" + "".join(f"{line}\n" for line in _filled_in(lines[begin:], values))


def _check(sizes: SiteSizes) -> None:
    needs = {
        "battery_kwh": ("charge_kw", "discharge_kw", "charge_hours", "peak_kw", "target_band_pct"),
        "hydrogen_kg": ("electrolyzer_kw", "fuel_cell_kw"),
        "grid_kw": ("price_per_kwh", "charge_hours", "peak_kw", "peak_price_per_kw"),
    }
    for size, others in needs.items():
        lone = next((name for name in others if getattr(sizes, name) is not None), None)
        if lone is not None and not getattr(sizes, size):
            raise ConfigError(f"{_flag(lone)} requires {_flag(size)}")
    if sizes.price_per_kwh is not None and sizes.start is None:
        raise ConfigError("--price requires --start, such as --start 2024-07-01T00:00:00+02:00")
    if sizes.charge_hours is not None and sizes.start is None:
        raise ConfigError("--charge-hours requires --start, such as --start 2024-07-01T00:00:00+02:00")


_FLAGS: Final = {
    "price_per_kwh": "--price",
    "peak_price_per_kw": "--peak-price",
    "target_band_pct": "--target-band",
}


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def _values(sizes: SiteSizes) -> dict[str, dict[str, Any]]:
    """Return the values of each section that the site has."""
    values: dict[str, dict[str, Any]] = {
        "time": {"step_s": sizes.step_s, "window_h": sizes.window_h},
        "guard": {"mode": sizes.guard, "veto": sizes.veto},
    }
    if sizes.start is not None:
        values["time"]["start"] = sizes.start
    if sizes.battery_kwh:
        target_pct = sizes.soc_start_pct if sizes.soc_target_pct is None else sizes.soc_target_pct
        values["battery"] = {
            "capacity_kwh": sizes.battery_kwh,
            "charge_limit_kw": _or(sizes.charge_kw, _CHARGE_PER_H * sizes.battery_kwh),
            "discharge_limit_kw": _or(sizes.discharge_kw, _DISCHARGE_PER_H * sizes.battery_kwh),
            "soc_start_pct": sizes.soc_start_pct,
            "soc_target_pct": target_pct,
            **({} if sizes.target_band_pct is None else {"target_band_pct": sizes.target_band_pct}),
        }
    if sizes.hydrogen_kg:
        electrolyzer_kw = _or(sizes.electrolyzer_kw, _ELECTROLYZER_KW_PER_KG * sizes.hydrogen_kg)
        values["hydrogen"] = {
            "tank_kg": sizes.hydrogen_kg,
            "level_start_kg": sizes.hydrogen_kg / 2.0,
            "level_target_kg": sizes.hydrogen_kg / 2.0,
            "electrolyzer_min_kw": _LEAST_ELECTROLYZER * electrolyzer_kw,
            "electrolyzer_max_kw": electrolyzer_kw,
            "fuel_cell_max_kw": _or(sizes.fuel_cell_kw, _FUEL_CELL_KW_PER_KG * sizes.hydrogen_kg),
        }
    if sizes.grid_kw:
        limit = {"import_limit_kw": sizes.grid_kw} if sizes.grid_kw < math.inf else {}
        values["grid"] = {**limit, "export": "none", "currency": "EUR", **_grid_rules(sizes)}
    if sizes.price_per_kwh is not None:
        values["grid.tariff"] = {"hours": [0, 24], "per_kwh": sizes.price_per_kwh}
    if sizes.base_kw:
        values["load"] = {"base_kw": sizes.base_kw}
    if sizes.pue is not None:
        values["cooling"] = {"pue": sizes.pue}
    return values


def _grid_rules(sizes: SiteSizes) -> dict[str, Any]:
    """Return the fields of the grid for the battery and the peak."""
    rules: dict[str, Any] = {}
    if sizes.charge_hours is not None:
        rules["charge"] = {"hours": [*sizes.charge_hours]}
    if sizes.peak_kw is not None:
        rules |= {"battery": "shave", "peak_kw": sizes.peak_kw}
    if sizes.peak_price_per_kw is not None:
        rules["peak_per_kw"] = sizes.peak_price_per_kw
    return rules


def _or(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given


_OPTIONAL: Final = {"grid", "grid.tariff", "load", "cooling"}
"""Sections that are comments in the program's file, and of which the fields that are not given stay comments,
as in the sections that are not."""


def _filled_in(lines: list[str], values: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the program's site file, with these values, as a comment where there are none.

    Of several tables of one name, the first one gets the values.
    """
    section, seen, here, optional = "", set(), False, False
    for line in lines:
        if heading := re.fullmatch(r"(# )?(\[\[?)([a-z.]+)(\]\]?)", line):
            section, optional = heading[3], heading[1] is None or heading[3] in _OPTIONAL
            here = section in values and section not in seen
            seen.add(section)
            yield ("" if here else "# ") + "".join(heading.groups()[1:])
        elif field := re.fullmatch(r"(# )?(\w+) = (\S.*?)(?:\s+# (.*))?", line):
            mark, name, value, comment = field.groups()
            given = values.get(section, {}) if here else {}
            stays = mark and optional
            shown = "" if name in given or (here and not stays) else "# "
            if name in given:
                value, comment = _toml(given[name]), _comment(name, given) or comment
            yield _line(f"{shown}{name} = {value}", comment)
        else:
            yield line


def _comment(name: str, given: dict[str, Any]) -> str | None:
    """Return the comment of a field whose comment in the program's file depends on its value there."""
    if name in ("charge_limit_kw", "discharge_limit_kw"):
        return f"{given[name] / given['capacity_kwh']:.3g} of the capacity an hour"
    return {
        "hours": "all hours; months = [6, 7, 8, 9] limits it to these",
        "pue": "or by outside temperature: [[-10, 1.06], [25, 1.25]]",
    }.get(name)


def _line(text: str, comment: str | None) -> str:
    return text if comment is None else f"{text:<{_COMMENT_COLUMN - 2}}  # {comment}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:.12g}"
