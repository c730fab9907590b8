"""Sentences for the decision log, with the numbers behind each decision.

The templates are those of the policies and of the engine; `engine.session_words` describes their syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from beasy_sched.engine.session_words import Sentences, Words
from beasy_sched.outputs.quantities import fact
from beasy_sched.policies.registry import words_for

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
    given = {name: value for name, value in facts.items() if value is not None}
    words = _words(action.partition(" ")[0], rule, own)
    text = _filled(tuple(each.sentence for each in words), given)
    if text is not None:
        return text.strip()
    numbers = ", ".join(f"{name} {fact(name, value)}" for name, value in given.items())
    return f"{rule or 'no rule was given'}" + (f" ({numbers})" if numbers else "")


def in_short(rule: str, facts: Facts, own: Sentences | None = None) -> str:
    """Return a short description of a compensation, after a blank; empty if it did nothing."""
    given = {name: value for name, value in facts.items() if value is not None}
    texts = (_filled((words.in_short,), given) for words in _words("compensate", rule, own))
    return next((text for text in texts if text is not None), "")


def _words(done: str, rule: str, own: Sentences | None) -> Sequence[Words]:
    """Words for a rule: those of the user's policy if it has some, else the built-in ones."""
    return [own[done, rule]] if own and (done, rule) in own else _of_ours(done, rule)


@cache
def _of_ours(done: str, rule: str) -> Sequence[Words]:
    """Words of the built-in policies for a rule, without duplicates."""
    return tuple(dict.fromkeys(words_for(done, rule)))


def _filled(templates: tuple[str, ...], given: _Known) -> str | None:
    """The template that uses most facts, filled in; None if no template has content."""
    answers = tuple(
        bool(value := given.get(asked)) and wanted in (None, value) for asked, wanted in _asked(templates)
    )
    chosen = _told(templates, tuple(given), answers)
    if chosen is None:
        return None
    pieces = [chosen.texts[0]]
    for (name, spec), text in zip(chosen.facts, chosen.texts[1:], strict=True):
        pieces += fact(name, given[name], spec), text
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

    candidates = []
    for template in templates:
        text = _PART.sub(part, template)
        facts = tuple(_FACT.findall(text))
        if text and all(name in names for name, _ in facts):
            candidates.append(_Told(tuple(_FACT.sub("\0", text).split("\0")), facts))
    return max(candidates, key=lambda told: len(told.facts), default=None)
