"""Numbers of the decision log as people read them: kWh, %, hours, moments of the run."""

from __future__ import annotations

import math
import re
from typing import Final

from beasy_sched.model.durations import parse_duration
from beasy_sched.units import j_to_kwh, w_to_kw

_MOMENTS: Final = ("_at_s", "_by_s", "_until_s", "_end_s")
_LATEST_S: Final = 1e11
"""No run lasts 3000 years."""
_CLOCK: Final = re.compile(r"(?:(\d+)\s*d\s*)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock(time_s: float) -> str:
    """A moment of the run, counted from its start: ``06:05:10``, ``2d 06:05:10``."""
    seconds = round(time_s)
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days}d {text}" if days else text


def parse_moment(text: str) -> float:
    """Read a moment of the run: seconds, ``1d6h``, or as `clock` writes it; returns s.

    Raises ValueError.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        time_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    else:
        try:
            time_s = parse_duration(text)
        except ValueError:
            time_s = math.inf
    if time_s > _LATEST_S:
        raise ValueError(f"{text!r} is no time of a run: seconds, or such as 1d6h, '1d 06:30:00'")
    return time_s


def span(seconds: float) -> str:
    """How long something takes, in its two largest units: ``45 s``, ``5 min 12 s``, ``2 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    minutes = whole // 60
    if minutes < 10 and whole % 60:
        return f"{minutes} min {whole % 60} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 1440:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def energy(joules: float) -> str:
    """Three digits of an energy: ``1.25 kWh``, ``109 Wh``."""
    kwh = j_to_kwh(joules)
    return f"{_digits(kwh)} kWh" if abs(kwh) >= 1 else f"{_digits(1000 * kwh)} Wh"


def power(watts: float) -> str:
    """Three digits of a power: ``970 W``, ``1.25 kW``."""
    return f"{_digits(w_to_kw(watts))} kW" if abs(watts) >= 1000 else f"{_digits(watts)} W"


def percent(value: float) -> str:
    """Two digits after the point: ``19.98 %``."""
    return f"{value:.2f} %"


def count(number: float, noun: str) -> str:
    """``1 host``, ``4 hosts``."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.0f} {noun}s"


def fact(name: str, value: float | int | str, spec: str = "") -> str:
    """A fact in words, by the unit in its name; ``spec`` is ``abs``, or the noun that it counts."""
    if isinstance(value, str):
        return value
    if spec == "abs":
        value = abs(value)
    elif spec:
        return count(value, spec)
    if name.endswith("_host_s"):
        return f"{value / 3600:.3g} host-hours"
    if name.endswith(_MOMENTS):
        return clock(value)
    for unit, words in (("_s", span), ("_j", energy), ("_w", power), ("_pct", percent)):
        if name.endswith(unit):
            return words(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _digits(value: float) -> str:
    """Three digits, but all before the point: no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if float(text) == 0 or "e" in text else text
