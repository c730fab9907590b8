"""Readable formats of numbers: times, durations, energies, powers, and facts of decisions."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from beasy_sched.units import energy_text, parse_duration, percent_text, power_text

_MOST_KINDS: Final = 1 << 12
"""Maximum number of cached formats."""
_MOMENTS: Final = ("_at_s", "_by_s", "_until_s", "_end_s", "deadline_s", "planned_start_s", "earliest_s")
_LATEST_S: Final = 1e11
"""Upper limit of times: 3000 years."""
_CLOCK: Final = re.compile(r"(?:(\d+)\s*d\s*)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock(time_s: float) -> str:
    """Format a time since the start of the run: ``06:05:10``, ``2d 06:05:10``."""
    days, seconds = divmod(round(time_s), 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days}d {text}" if days else text


def parse_moment(text: str) -> float:
    """Parse a time of the run: seconds, ``1d6h``, or the format of `clock`; returns s.

    Raises ValueError.
    """
    time_s = math.inf
    if match := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        time_s = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    else:
        with contextlib.suppress(ValueError):
            time_s = parse_duration(text)
    if time_s > _LATEST_S:
        expected = "expected seconds or a value such as 1d6h or '1d 06:30:00'"
        raise ValueError(f"{text!r} is not a valid time: {expected}")
    return time_s


def span(seconds: float) -> str:
    """Format a duration in its two largest units: ``45 s``, ``5 min 12 s``, ``2 h 05 min``."""
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


def count(number: float, noun: str) -> str:
    """Format a count with its noun: ``1 host``, ``4 hosts``."""
    return f"{number:g} {noun}" if number == 1 else f"{number:,.0f} {noun}s"


def fact(name: str, value: float | int | str, spec: str = "") -> str:
    """Format a fact by the unit in its name; ``spec`` is ``abs``, or the noun that it counts."""
    if isinstance(value, str):
        return value
    if spec == "abs":
        value = abs(value)
    elif spec:
        return count(value, spec)
    words = _words_of_unit(name)
    if words is not None:
        return words(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@lru_cache(_MOST_KINDS)
def _words_of_unit(name: str) -> Callable[[float], str] | None:
    """Return the format function for the unit in a name; None if it has no unit."""
    units = (("_host_s", _host_hours), (_MOMENTS, clock), ("_s", span), ("_j", energy_text),
             ("_w", power_text), ("_pct", percent_text))  # fmt: skip
    return next((words for unit, words in units if name.endswith(unit)), None)


def _host_hours(host_s: float) -> str:
    return f"{host_s / 3600:.3g} host-hours"


def printable(text: str) -> str:
    """Escape control characters for terminals: names come from untrusted files."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
