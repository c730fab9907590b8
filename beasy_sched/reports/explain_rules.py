"""Sentences for the decision log, with the numbers behind each decision, and readable formats of numbers.

The templates are those of the policies and of the engine; `engine.session_words` describes their syntax.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.policies.registry import words_for
from beasy_sched.units import j_to_kwh, parse_duration, w_to_kw

Facts: TypeAlias = Mapping[str, float | int | str | None]
_Known: TypeAlias = Mapping[str, float | int | str]

_PART: Final = re.compile(r"\[(?:(\w+)(?:=([\w-]+))?\?)?([^\]]*)\]")
_FACT: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")
_MOST_KINDS: Final = 1 << 12
"""Maximum number of cached choices of a template."""


def sentence(action: str, rule: str, facts: Facts, own: Sentences | None = None) -> str:
    """Return the reason for an action as a sentence; ``own`` are the words of a user's policy.

    If several policies describe a rule, the template that uses most of the facts is chosen. An unknown
    rule, or one whose facts are missing, is shown by its name, with the facts that exist.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    words = _words(action.partition(" ")[0], rule, own)
    found = _filled(tuple(each.sentence for each in words), known)
    if found is not None:
        return found.strip()
    numbers = ", ".join(f"{name} {fact(name, value)}" for name, value in known.items())
    return f"{rule or 'no rule was given'}" + (f" ({numbers})" if numbers else "")


def in_short(rule: str, facts: Facts, own: Sentences | None = None) -> str:
    """Return a short description of a compensation, after a blank; empty if it did nothing."""
    known = {name: value for name, value in facts.items() if value is not None}
    texts = (_filled((words.in_short,), known) for words in _words("compensate", rule, own))
    return next((text for text in texts if text is not None), "")


def _words(done: str, rule: str, own: Sentences | None) -> Sequence[Words]:
    """Words for a rule: those of the user's policy if it has some, else the built-in ones."""
    return [own[done, rule]] if own and (done, rule) in own else _of_ours(done, rule)


@cache
def _of_ours(done: str, rule: str) -> Sequence[Words]:
    """Words of the built-in policies for a rule, without duplicates."""
    return tuple(dict.fromkeys(words_for(done, rule)))


def _filled(templates: tuple[str, ...], known: _Known) -> str | None:
    """The template that uses most facts, filled in; None if no template has content."""
    answers = tuple(
        bool(value := known.get(asked)) and wanted in (None, value) for asked, wanted in _asked(templates)
    )
    told = _told(templates, tuple(known), answers)
    if told is None:
        return None
    pieces = [told.texts[0]]
    for (name, spec), text in zip(told.facts, told.texts[1:], strict=True):
        pieces += fact(name, known[name], spec), text
    return "".join(pieces)


class _Told(NamedTuple):
    """Template without bracketed parts: facts, and the strings before, between and after them."""

    texts: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    """Name of each fact, and its format."""


@lru_cache(_MOST_KINDS)
def _asked(templates: tuple[str, ...]) -> Sequence[tuple[str, str | None]]:
    """Facts required by parts of the templates, each with the value that it must have, if any."""
    parts = (match.groups() for template in templates for match in _PART.finditer(template))
    return tuple(dict.fromkeys((asked, wanted) for asked, wanted, _ in parts if asked))


@lru_cache(_MOST_KINDS)
def _told(templates: tuple[str, ...], names: tuple[str, ...], answers: tuple[bool, ...]) -> _Told | None:
    """Return the template that uses most of the facts ``names``; None if all are empty or lack a fact.

    ``answers`` states for each of `_asked` whether it holds.
    """
    so = dict(zip(_asked(templates), answers, strict=True))

    def part(match: re.Match[str]) -> str:
        asked, wanted, text = match.groups()
        left_out = asked is not None and not so[asked, wanted]
        return "" if left_out or any(name not in names for name, _ in _FACT.findall(text)) else text

    found = []
    for template in templates:
        text = _PART.sub(part, template)
        facts = tuple(_FACT.findall(text))
        if text and all(name in names for name, _ in facts):
            found.append(_Told(tuple(_FACT.sub("\0", text).split("\0")), facts))
    return max(found, key=lambda told: len(told.facts), default=None)


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


def energy(joules: float) -> str:
    """Format an energy with three digits: ``1.25 kWh``, ``109 Wh``."""
    kwh = j_to_kwh(joules)
    return f"{_digits(kwh)} kWh" if abs(kwh) >= 1 else f"{_digits(1000 * kwh)} Wh"


def power(watts: float) -> str:
    """Format a power with three digits: ``970 W``, ``1.25 kW``."""
    return f"{_digits(w_to_kw(watts))} kW" if abs(watts) >= 1000 else f"{_digits(watts)} W"


def percent(value: float) -> str:
    """Format a percentage with two decimals: ``19.98 %``."""
    return f"{value:.2f} %"


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
    units = (("_host_s", _host_hours), (_MOMENTS, clock), ("_s", span), ("_j", energy), ("_w", power),
             ("_pct", percent))  # fmt: skip
    return next((words for unit, words in units if name.endswith(unit)), None)


def _host_hours(host_s: float) -> str:
    return f"{host_s / 3600:.3g} host-hours"


def _digits(value: float) -> str:
    """Format a number with three digits but no exponent: all digits before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return "0" if float(text) == 0 or "e" in text else text
