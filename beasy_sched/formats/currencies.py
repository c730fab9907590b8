"""Currencies: the names of their units in files, and the largest credible price of a kWh in each."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

DEFAULT_CURRENCY: Final = "USD"
"""Currency of a site whose files state none."""

_MOST_PER_KWH: Final = {
    10.0: "USD EUR GBP CHF CAD SGD BND BAM BGN AZN KWD BHD OMR JOD",
    25.0: "AUD NZD",
    100.0: "SEK NOK DKK PLN CNY BRL ZAR MXN RON ILS HKD MYR SAR AED QAR PEN GEL MAD TND BYN GTQ BOB GHS MDL",
    1e3: "JPY INR CZK TRY RUB UAH THB PHP TWD ISK MKD ALL RSD EGP KES BDT NPR UYU DOP HNL NIO",
    1e4: "KRW HUF CLP PKR LKR KZT AMD NGN ARS CRC XOF XAF TZS",
    1e5: "COP IDR MNT KHR PYG MMK UGX",
    1e6: "VND LAK UZS IRR LBP",
}
"""Largest credible price of a kWh, and the currencies (ISO 4217) that have it.

It is a power of ten that is worth 5 to 50 US dollars; in AUD and NZD it lies above the price caps of their
markets (about 20 per kWh).
"""
_LARGEST: Final = max(_MOST_PER_KWH)
_CENTS: Final = "c ct cts ¢ cent cents"
_NAMES: Final[dict[str, tuple[str, str]]] = {
    "USD": ("$ us$ dollar dollars", f"{_CENTS} mill/10 mills/10"),
    "EUR": ("€ euro euros", f"{_CENTS} centime centimes céntimo céntimos centesimi senti snt"),
    "GBP": ("£ pound pounds sterling", "p pence penny gbx"),
    "CHF": ("fr sfr franken", f"{_CENTS} rp rappen centime centimes"),
    "CAD": ("$ c$ ca$ dollar dollars", _CENTS),
    "AUD": ("$ a$ au$ dollar dollars", _CENTS),
    "NZD": ("$ nz$ dollar dollars", _CENTS),
    "SGD": ("$ s$ dollar dollars", _CENTS),
    "HKD": ("$ hk$ dollar dollars", _CENTS),
    "TWD": ("nt$ ntd", ""),
    "SEK": ("kr krona kronor", "öre ore"),
    "NOK": ("kr krone kroner", "øre ore öre"),
    "DKK": ("kr krone kroner", "øre ore öre"),
    "ISK": ("kr króna krónur", ""),
    "PLN": ("zł zl zloty", "gr grosz groszy"),
    "CZK": ("kč kc koruna", "hal haléř haléřů"),
    "HUF": ("ft forint", ""),
    "RON": ("lei leu", "ban bani"),
    "BGN": ("лв lv leva", "st stotinki"),
    "TRY": ("tl ₺ lira", "krş kuruş kurus"),
    "RUB": ("₽ руб rur", "kop коп"),
    "UAH": ("₴ грн", "kop коп"),
    "CNY": ("¥ 元 rmb yuan", "fen 分 jiao*10 角*10"),
    "JPY": ("¥ 円 yen", ""),
    "KRW": ("₩ 원 won", ""),
    "INR": ("₹ rs rupee rupees", "p ps paise paisa"),
    "PKR": ("rs rupee rupees", ""),
    "LKR": ("rs rupee rupees", ""),
    "NPR": ("rs rupee rupees", ""),
    "BRL": ("r$ real reais", "centavo centavos"),
    "MXN": ("$ mx$ peso pesos", "centavo centavos"),
    "CLP": ("$ peso pesos", ""),
    "COP": ("$ peso pesos", ""),
    "ARS": ("$ peso pesos", "centavo centavos"),
    "PHP": ("₱ peso pesos", "centavo centavos"),
    "ZAR": ("r rand", _CENTS),
    "ILS": ("₪ nis shekel", "ag agorot"),
    "THB": ("฿ baht", "satang"),
    "IDR": ("rp rupiah", ""),
    "VND": ("₫ đ dong", ""),
    "AED": ("dirham dirhams", "fils"),
    "KWD": ("kd", "fils/10"),
    "BHD": ("bd", "fils/10"),
    "OMR": ("ro", "baisa/10"),
}
"""Names of a currency's unit besides its code, and of its hundredth (``/10``: of a tenth of that)."""


@dataclass(frozen=True)
class Currency:
    """A currency, by its code or by a name that a site gives to its own."""

    name: str
    """Code (ISO 4217), or the site's own name."""
    most_per_kwh: float
    """Largest credible price of a kWh."""
    units: Mapping[str, float] = field(repr=False)
    """Worth of each unit, by its `folded` name."""


def folded(text: str) -> str:
    """Return a name without case, blanks, points and hyphens, for comparisons."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(sign for sign in plain if not sign.isspace() and sign not in "._-'’·")


def _known(code: str, most_per_kwh: float) -> Currency:
    majors, minors = _NAMES.get(code, ("", ""))
    low = code.casefold()
    wholes = {low, *majors.split()}
    units = dict.fromkeys(wholes, 1.0)
    for minor in minors.split():
        name, _, part = minor.replace("*", "/").partition("/")
        worth = 0.01 * (float(part) if "*" in minor else 1.0 / float(part or 1))
        units.setdefault(name, worth)
        for whole in (*wholes, low[:2]):
            units.setdefault(whole + name, worth)
            units.setdefault(name + whole, worth)
    return Currency(code, most_per_kwh, units)


CURRENCIES: Final[Mapping[str, Currency]] = {
    code: _known(code, most) for most, codes in _MOST_PER_KWH.items() for code in codes.split()
}
"""All currencies that are known, by code."""


def currency_named(name: str) -> Currency:
    """Return the currency that a site names; one that is not in the table has its own name as its one unit.

    No price in it is rejected for its size alone, unless it is beyond that of every known currency.
    """
    code = name.strip().upper()
    if code in CURRENCIES:
        return CURRENCIES[code]
    meant = [each for each in CURRENCIES.values() if each.units.get(folded(name)) == 1.0]
    if len(meant) == 1:
        return meant[0]
    return Currency(name, _LARGEST, {folded(name): 1.0})


def currencies_with(unit: str) -> list[Currency]:
    """Return the known currencies that have a unit of this name, such as ``ct`` or ``kr``."""
    return [each for each in CURRENCIES.values() if folded(unit) in each.units]
