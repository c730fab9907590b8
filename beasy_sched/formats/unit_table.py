"""Units as people and files write them: one table of each quantity, for all readers and options.

Quantities are power and energy, prices and carbon per energy, irradiance, wind speed, temperature and shares.
Case does not matter, with one exception: ``mW`` and ``mWh`` with a capital after a small m are thousandths,
which no file of a plant or a market has: they are rejected, and so is any unit that is not in a table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from beasy_sched.formats.currencies import (
    CURRENCIES,
    DEFAULT_CURRENCY,
    Currency,
    currencies_with,
    currency_named,
    folded,
)
from beasy_sched.limits import shortened
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_HOUR, SECONDS_PER_MINUTE


class UnitError(ValueError):
    """A unit that cannot be converted: the text names it and states what is expected."""


_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_LONG_PREFIXES: Final = {"": 1.0, "kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12}


def _with_prefixes(*names: str, long: str, worth: float) -> dict[str, float]:
    """Return a unit of that worth with all prefixes, short and in full."""
    short = {prefix + name: factor * worth for prefix, factor in _PREFIXES.items() for name in names}
    full = {
        f"{prefix}{long}{plural}": factor * worth
        for prefix, factor in _LONG_PREFIXES.items()
        for plural in ("", "s")
    }
    return {**short, **full}


POWER_W: Final = _with_prefixes("w", "we", "wel", long="watt", worth=1.0)
"""Watts in one of each, by `folded` name."""
ENERGY_J: Final = {
    **_with_prefixes("wh", "whr", "whe", "whel", long="watthour", worth=SECONDS_PER_HOUR),
    **_with_prefixes("j", long="joule", worth=1.0),
}
"""Joules in one of each, by `folded` name."""
SHARES: Final = {
    **dict.fromkeys(("perunit", "pu", "fraction"), 1.0),
    **dict.fromkeys(("%", "percent", "pct"), 0.01),
}
"""Shares of a whole in one of each, by `folded` name."""
_OKTAS: Final = dict.fromkeys(("okta", "oktas"), 0.125)
_MASSES_G: Final = {
    **dict.fromkeys(("g", "gram", "grams", "gramme", "grammes"), 1.0),
    **dict.fromkeys(("kg", "kilogram", "kilograms", "kilogramme", "kilogrammes"), 1e3),
    **dict.fromkeys(("t", "tonne", "tonnes", "metricton", "metrictons"), 1e6),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), 453.59237),
    **dict.fromkeys(("shortton", "shorttons"), 907_184.74),
}
_SPEEDS_M_S: Final = {
    **dict.fromkeys(("m/s", "ms1", "m/sec", "mps"), 1.0),
    **dict.fromkeys(("km/h", "kmh1", "kmh", "kph", "km/hr"), 1 / 3.6),
    **dict.fromkeys(("mph", "mi/h", "mp/h", "mi/hr"), 0.44704),
    **dict.fromkeys(("kn", "kt", "kts", "knot", "knots"), 1852 / 3600),
    **dict.fromkeys(("ft/s", "fps"), 0.3048),
}
_TEMPERATURES: Final = {
    **dict.fromkeys(("c", "degc", "celsius", "degreescelsius"), (1.0, 0.0)),
    **dict.fromkeys(("f", "degf", "fahrenheit"), (5 / 9, -160 / 9)),
    **dict.fromkeys(("k", "kelvin"), (1.0, -273.15)),
}
_TIMES_S: Final = {
    **dict.fromkeys(("h", "hr", "hour"), SECONDS_PER_HOUR),
    **dict.fromkeys(("hh", "halfhour"), SECONDS_PER_HOUR / 2),
    **dict.fromkeys(("qh", "quarterhour"), SECONDS_PER_HOUR / 4),
    **dict.fromkeys(("min", "mins", "minutes"), SECONDS_PER_MINUTE),
}
_TIMED: Final = re.compile(rf"(\d{{0,3}})({'|'.join(_TIMES_S)})")
_PEAK: Final = _with_prefixes("wp", "wpeak", "wdc", "wac", long="wattpeak", worth=1.0)
"""Capacity of panels, in W: the denominators of specific yields."""
_REASONS: Final = {
    **dict.fromkeys(("va", "kva", "mva", "gva"), "apparent power, from which the power does not follow"),
    **dict.fromkeys(("var", "kvar", "mvar", "gvar"), "reactive power"),
    **dict.fromkeys(("wp", "kwp", "mwp", "gwp"), "a plant's capacity, not its power"),
    **dict.fromkeys(("hp", "ps", "bhp"), "not one of the units of electric power"),
}
"""Units other than those of power that must not be taken for one."""
_MILLI: Final = re.compile(r"m(Wh?|J)(?![a-z])")
_LONGEST_NAME: Final = 400
"""Characters of a column's name in which a unit is looked for."""
EXPECTED_POWER: Final = "W, kW, MW or GW; Wh, kWh or MWh for the energy of each row; per-unit or %"
"""Units of a column of power, for messages."""
_EXPECTED_ENERGY: Final = "J, kJ, MJ, GJ, Wh, kWh, MWh or GWh"
_EXPECTED_PRICE: Final = "money per energy, such as EUR/MWh or ct/kWh"
_EXPECTED_CARBON: Final = "mass per energy, such as g/kWh, kg/MWh or lb/MWh"


def _unknown(unit: str, expected: str) -> UnitError:
    milli = next((name for name in (unit, *re.split(r"[/\s_]+", unit)) if _MILLI.match(name)), None)
    if milli is not None:
        reason = f" has thousandths (write {'M' + milli[1:]} for millions)"
    elif (other_quantity := _REASONS.get(folded(unit))) is not None:
        reason = f" is {other_quantity}"
    else:
        reason = ""
    return UnitError(f"unit {shortened(unit.strip(), 60)!r}{reason}: expected {expected}")


def _worth(table: dict[str, float], text: str) -> float | None:
    """Return a unit's worth by a table; None where the table has none, and for thousandths."""
    return None if _MILLI.match(text.strip()) else table.get(folded(text))


# --- power and energy ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerUnit:
    """Unit of a column of power: a power, the energy of each row, or a share of the capacity."""

    worth: float
    """W, or J where ``of_rows``; of a capacity of 1 W where ``per_unit``."""
    of_rows: bool = False
    """Whether the values are the energy of each row."""
    per_unit: bool = False
    """Whether the values are shares of the capacity."""

    @property
    def is_power(self) -> bool:
        """Whether the values are powers already."""
        return not (self.of_rows or self.per_unit)

    def watts(self, row_s: float) -> float:
        """Return the power (W) of a row of ``row_s`` seconds that has one of this unit."""
        return self.worth / row_s if self.of_rows else self.worth


def energy_j(unit: str) -> float:
    """Return the joules in one unit of energy. Raises UnitError."""
    worth = _worth(ENERGY_J, unit)
    if worth is None:
        raise _unknown(unit, _EXPECTED_ENERGY)
    return worth


def power_unit(unit: str) -> PowerUnit:
    """Return the unit of a column of power. Raises UnitError."""
    power = _power_unit(unit)
    if power is None:
        raise _unknown(unit, EXPECTED_POWER)
    return power


def _power_unit(unit: str) -> PowerUnit | None:
    if (worth := _worth(POWER_W, unit)) is not None:
        return PowerUnit(worth)
    if (worth := _worth(ENERGY_J, unit)) is not None:
        return PowerUnit(worth, of_rows=True)
    if (worth := SHARES.get(folded(unit))) is not None:
        return PowerUnit(worth, per_unit=True)
    above, slash, below = unit.partition("/")
    return _power_ratio(above, below) if slash else None


def _power_ratio(above: str, below: str) -> PowerUnit | None:
    """Return the unit of ``MWh/h`` (a power) or of ``kW/kWp`` and ``kWh/kWp`` (of a capacity)."""
    energy, power = _worth(ENERGY_J, above), _worth(POWER_W, above)
    if timed := _TIMED.fullmatch(folded(below)):
        lasts_s = float(timed[1] or 1) * _TIMES_S[timed[2]]
        return None if energy is None or not lasts_s else PowerUnit(energy / lasts_s)
    capacity = _worth({**POWER_W, **_PEAK}, below)
    if capacity is None or (energy is None and power is None):
        return None
    worth = (energy or power or 0.0) / capacity
    return PowerUnit(worth, of_rows=energy is not None, per_unit=True)


_BRACKETED: Final = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_GLUED: Final = re.compile(r"(?:(?<=[a-z])[KMG]Wh?|(?<=[a-jl-z])Wh)$")
"""A unit at the end of a name in camel case: ``PowerKW``, ``energyKWh``; not ``peakW``."""


def unit_in_name(column: str) -> str | None:
    """Return the unit of power or energy in a column's name: ``Solar [MW]``, ``power (W)``, ``energy_kwh``.

    The unit may be one that must not be taken for power, such as kVA, for `power_unit` to refuse.
    """
    if len(column) > _LONGEST_NAME:
        return None
    for bracketed in reversed(_BRACKETED.findall(column)):
        if _is_of_power(bracketed):
            return str(bracketed).strip()
    words = re.split(r"[\s_.]+", _BRACKETED.sub(" ", column).strip())
    for count in (2, 1):
        last = " ".join(words[-count:])
        before = words[: -count or None]
        if len(words) >= count and _is_of_power(last) and before[-1:] != ["per"]:
            return last
    if glued := _GLUED.search(column.strip()):
        return glued[0]
    energies = (
        word
        for place, word in enumerate(words)
        if word.lower().endswith("wh")
        and not re.fullmatch(r"\d+|per", (words[place - 1] if place else "").lower())
    )
    return next((word for word in energies if _worth(ENERGY_J, word) is not None), None)


def _is_of_power(unit: str) -> bool:
    """Whether a string is a unit of power or energy, or one that must not be taken for it."""
    return _power_unit(unit) is not None or folded(unit) in _REASONS or bool(_MILLI.fullmatch(unit.strip()))


# --- money and mass per energy ------------------------------------------------------------------------------

_RATIO: Final = re.compile(r"(?P<above>.*?)(?:\s*/\s*|(?:^|[\s_])per[\s_]+)(?P<below>[^/]+)", re.IGNORECASE)
_SUBSTANCE: Final = re.compile(r"co2(equivalents?|equiv|eq|e)?$")
_AMONG_WORDS: Final = re.compile(
    r"(?:/\s*|(?<![a-z])per[\s_]+)(?P<below>[kmgt]?wh(?:r|el?)?|[kmgt]?j|[a-z]*watt[\s-]?hours?)(?![a-z])",
    re.IGNORECASE,
)
"""An energy that a name's words are for."""
_UNDERSCORED: Final = re.compile(r".*?[\s_](?P<below>[A-Za-z-]+)")
_NO_UNIT: Final = re.compile(r"(prices?|tariff|cost|rate|preis|prix|precio|pris)$", re.IGNORECASE)
"""Words in front of "per kWh" that name the quantity, and no unit of money."""


@dataclass(frozen=True)
class RateUnit:
    """Unit of a price or of a carbon intensity."""

    in_one: float
    """Number of this unit in one per kWh: of the currency, or of a gram."""
    currency: Currency | None = None
    """Currency of a price."""


def price_unit(unit: str, site_currency: str | None) -> RateUnit:
    """Return the unit of a price, such as ``EUR/MWh``, ``ct/kWh``, or ``/kWh`` for the site's currency.

    ``site_currency`` is the site's, or None where it states none: then it is the one that the unit names, and
    US dollars where that is one of several. Raises UnitError, also for another currency than the site's.
    """
    above, kwh = _per_kwh(unit, _EXPECTED_PRICE)
    money = None if site_currency is None else currency_named(site_currency)
    if not above or folded(above) == "currency":
        return RateUnit(kwh, money or currency_named(DEFAULT_CURRENCY))
    worth = None if money is None else money.units.get(folded(above))
    if money is not None and worth is not None:
        return RateUnit(kwh / worth, money)
    others = currencies_with(above)
    if not others:
        raise _unknown(unit, _EXPECTED_PRICE)
    if money is not None:
        raise UnitError(
            f"unit {shortened(unit.strip(), 60)!r} is not one of {money.name}, the site's currency: convert"
            f' the prices, or set currency = "{others[0].name}" in [grid]'
        )
    meant = next((each for each in others if each.name == DEFAULT_CURRENCY), others[0])
    if len(others) > 1 and meant.name != DEFAULT_CURRENCY:
        names = ", ".join(each.name for each in others)
        raise UnitError(f"unit {shortened(unit.strip(), 60)!r} may be one of {names}: set currency in [grid]")
    return RateUnit(kwh / meant.units[folded(above)], meant)


def carbon_unit(unit: str) -> RateUnit:
    """Return the unit of a carbon intensity, such as ``kg/MWh`` or ``gCO2eq/kWh``. Raises UnitError."""
    above, kwh = _per_kwh(unit, _EXPECTED_CARBON)
    mass_g = _MASSES_G.get(_SUBSTANCE.sub("", folded(above)))
    if mass_g is None:
        raise _unknown(unit, _EXPECTED_CARBON)
    return RateUnit(kwh / mass_g)


def _per_kwh(unit: str, expected: str) -> tuple[str, float]:
    """Return what is above the energy of a ratio, and that energy in kWh. Raises UnitError."""
    ratio = _RATIO.fullmatch(unit.strip())
    energy = None if ratio is None else _worth(ENERGY_J, ratio["below"].replace("_", " "))
    if ratio is None or energy is None:
        raise _unknown(unit, expected)
    return ratio["above"].strip(" _"), energy / JOULES_PER_KWH


def rate_in_name(column: str) -> str | None:
    """Return the unit per energy in a column's name, such as ``EUR/MWh``, ``ct/kWh`` or ``/kWh``.

    The name may have it in brackets (``Price [EUR/MWh]``), after its words (``Carbon Intensity gCO2eq/kWh
    (direct)``), or with underscores (``price_eur_per_mwh``). A word in front of it that is not a unit is part
    of the text that is returned, unless it is one for a price.
    """
    if len(column) > _LONGEST_NAME:
        return None
    ratios = [
        bracketed.strip()
        for bracketed in reversed(_BRACKETED.findall(column))
        if _RATIO.fullmatch(bracketed.strip())
    ]
    of_energy = (ratio for ratio in ratios if _is_per_energy(ratio))
    return next(of_energy, None) or _rate_after_words(_BRACKETED.sub(" ", column)) or next(iter(ratios), None)


def _is_per_energy(ratio: str) -> bool:
    match = _RATIO.fullmatch(ratio)
    return match is not None and _worth(ENERGY_J, match["below"].replace("_", " ")) is not None


def _rate_after_words(text: str) -> str | None:
    text = text.strip()
    match = _AMONG_WORDS.search(text) or _UNDERSCORED.fullmatch(text)
    if match is None or _worth(ENERGY_J, match["below"]) is None:
        return None
    energy, before = match["below"], re.split(r"[\s_]+", text[: match.start("below")].rstrip(" _/"))
    if before[-1].lower() == "per":
        del before[-1]
    for count in (3, 2, 1):
        above = " ".join(before[-count:])
        if len(before) >= count and _is_money_or_mass(above):
            return f"{above}/{energy}"
    after = re.split(r"[\s_]+", text[match.end() :])
    above = next((word for word in after if word.upper() in CURRENCIES), before[-1] if before else "")
    return f"/{energy}" if not above or _NO_UNIT.search(above) else f"{above}/{energy}"


def _is_money_or_mass(text: str) -> bool:
    return _SUBSTANCE.sub("", folded(text)) in _MASSES_G or bool(currencies_with(text))


# --- weather ------------------------------------------------------------------------------------------------


def irradiance_w_m2(unit: str, row_s: float) -> float:
    """Return the mean irradiance (W/m2) of a row of ``row_s`` seconds that has one of this unit.

    Decoration is ignored: ``kW/m²``, ``kW/m^2``, ``kWh/m2``, ``J m**-2``, ``MJ/m^2/hr``, ``kW/m??``.
    Raises UnitError.
    """
    plain = unicodedata.normalize("NFKC", unit).strip().replace("^", "").replace("â2", "2")
    plain = re.sub(
        r"[\s./]*(?:c?m)\*{0,2}-2", lambda match: "/" + match[0].lstrip(" ./")[:-2].strip("*") + "2", plain
    )
    plain = re.sub(r"/m(\?+|�+)?$", "/m2", plain)
    ratio = re.fullmatch(r"(.+?)\s*(?:/(c?m2))?(?:/(h|hr|hour))?", plain, re.IGNORECASE)
    if ratio is not None and (ratio[2] or ratio[3]):
        area = 1e4 if (ratio[2] or "").lower() == "cm2" else 1.0
        energy, power = _worth(ENERGY_J, ratio[1]), _worth(POWER_W, ratio[1])
        if energy is not None:
            return area * energy / (SECONDS_PER_HOUR if ratio[3] else row_s)
        if power is not None and not ratio[3]:
            return area * power
    raise _unknown(unit, "W/m2, kW/m2, Wh/m2, kWh/m2, J/m2 or MJ/m2")


def speed_m_s(unit: str) -> float:
    """Return the m/s in one unit of speed. Raises UnitError."""
    worth = _SPEEDS_M_S.get(folded(unit).replace("**", "").replace("^", ""))
    if worth is None:
        raise _unknown(unit, "m/s, km/h, mph or knots")
    return worth


def temperature_c(unit: str) -> tuple[float, float]:
    """Return a and b of a x + b, the temperature in degrees Celsius of x in this unit. Raises UnitError."""
    to_celsius = _TEMPERATURES.get(folded(unit).lstrip("°o"))
    if to_celsius is None:
        raise _unknown(unit, "°C, °F or K")
    return to_celsius


def share_in_name(column: str) -> str | None:
    """Return the unit of a share in a column's name, such as ``cloud cover (%)`` or ``cloud_cover_pct``."""
    words = re.split(r"[\s_\[\]()]+", column[:_LONGEST_NAME])
    named = next((word for word in words if folded(word) in {**SHARES, **_OKTAS}), None)
    return named or ("%" if "%" in column else None)


def cover_share(unit: str) -> float:
    """Return the share of the sky in one unit of cloud cover. Raises UnitError."""
    worth = {**SHARES, **_OKTAS}.get(folded(unit))
    if worth is None:
        raise _unknown(unit, "a fraction, % or oktas")
    return worth


def is_unit(text: str) -> bool:
    """Whether a string is a unit of one of the quantities of this module."""
    if _is_of_power(text) or rate_in_name(f"[{text}]") is not None:
        return True
    readers: tuple[Callable[[str], object], ...] = (
        lambda unit: irradiance_w_m2(unit, SECONDS_PER_HOUR),
        speed_m_s,
        temperature_c,
        cover_share,
    )
    return any(_reads(read, text) for read in readers)


def _reads(read: Callable[[str], object], unit: str) -> bool:
    try:
        read(unit)
    except UnitError:
        return False
    return True
