"""The decision log in words: sentences with the numbers behind a decision, and numbers as people read them.

The words are those of the policies and of the engine; `engine.words` shows how they are written.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from beasy_sched.engine.words import Sentences, Words
from beasy_sched.policies.registry import words_for
from beasy_sched.units import j_to_kwh, parse_duration, w_to_kw

Facts = Mapping[str, float | int | str | None]

_PART: Final = re.compile(r"\[(?:(\w+)(?:=([\w-]+))?\?)?([^\]]*)\]")
_FACT: Final = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def sentence(action: str, rule: str, facts: Facts, own: Sentences | None = None) -> str:
    """Why an action was taken, in words; ``own`` are those of a policy of one's own.

    Of policies that tell a rule in different ways, the one counts that tells most of the facts. An unknown
    rule, or one whose facts are missing, is shown as it is, with the facts that exist.
    """
    texts = (_filled(words.sentence, facts) for words in _words(action.partition(" ")[0], rule, own))
    found = max((text for text in texts if text is not None), key=lambda text: text[1], default=None)
    if found is not None:
        return found[0].strip()
    numbers = ", ".join(f"{name} {fact(name, value)}" for name, value in facts.items() if value is not None)
    return f"{rule or 'no rule was given'}" + (f" ({numbers})" if numbers else "")


def in_short(rule: str, facts: Facts, own: Sentences | None = None) -> str:
    """What a compensation did, in a few words, a blank before them; nothing if it did nothing."""
    texts = (_filled(words.in_short, facts) for words in _words("compensate", rule, own))
    return next((text[0] for text in texts if text is not None), "")


def _words(done: str, rule: str, own: Sentences | None) -> Sequence[Words]:
    """How a rule is told: by the policy of one's own if it does, else by ours."""
    return [own[done, rule]] if own and (done, rule) in own else _of_ours(done, rule)


@cache
def _of_ours(done: str, rule: str) -> Sequence[Words]:
    """How our policies tell a rule, each way once."""
    return tuple(dict.fromkeys(words_for(done, rule)))


def _filled(template: str, facts: Facts) -> tuple[str, int] | None:
    """The template with its facts, and how many these are; None if it is empty, or one of them is missing."""
    known = {name: value for name, value in facts.items() if value is not None}

    def part(match: re.Match[str]) -> str:
        asked, wanted, text = match.groups()
        left_out = asked is not None and (not known.get(asked) or wanted not in (None, known[asked]))
        return "" if left_out or any(name not in known for name, _ in _FACT.findall(text)) else text

    text = _PART.sub(part, template)
    told = [name for name, _ in _FACT.findall(text)]
    if not text or any(name not in known for name in told):
        return None
    return _FACT.sub(lambda match: fact(match[1], known[match[1]], match[2] or ""), text), len(told)


_MOMENTS: Final = ("_at_s", "_by_s", "_until_s", "_end_s", "deadline_s", "planned_start_s", "earliest_s")
_LATEST_S: Final = 1e11
"""No run lasts 3000 years."""
_CLOCK: Final = re.compile(r"(?:(\d+)\s*d\s*)?(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?")


def clock(time_s: float) -> str:
    """A moment of the run, counted from its start: ``06:05:10``, ``2d 06:05:10``."""
    days, seconds = divmod(round(time_s), 86_400)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{days}d {text}" if days else text


def parse_moment(text: str) -> float:
    """Read a moment of the run: seconds, ``1d6h``, or as `clock` writes it; returns s.

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
        raise ValueError(f"{text!r} is not a time of a run: expected seconds, or such as 1d6h, '1d 06:30:00'")
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
