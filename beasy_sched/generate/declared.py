"""Options of generators, each declared once: name, type and default as a field, meaning and range beside it.

Commands make their options of these fields (`cli.options.option_of`), scenario files take their defaults, and
the help of the Python interface has their meanings, which a test checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from beasy_sched.limits import MOST_HOSTS
from beasy_sched.numbers import Range

AT_LEAST_1: Final = Range(1, whole=True)
HOSTS: Final = Range(1, MOST_HOSTS, whole=True)


@dataclass(frozen=True)
class Means:
    """What is said of an option beside its field: ``Annotated[float, Means("..., s ({default})")]``."""

    meaning: str
    """In a few words, with its unit, for Python's help; ``{default}`` stands for the default."""
    told: str = ""
    """The same as sentences, for the command line's help."""
    range: Range | None = None
    """The numbers that it may be; None for any."""


def meaning_of(kind: type[Any], name: str) -> Means:
    """Return what is said of a field of a class of options. Raises LookupError where nothing is."""
    hint = get_type_hints(kind, include_extras=True)[name]
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, Means):
            return each
    raise LookupError(f"{kind.__name__}.{name}: nothing says what it means")


def default_of(kind: type[Any], name: str) -> Any:
    """Return the default of a field of a dataclass; None where it has none."""
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def help_of(kind: type[Any], name: str) -> str:
    """Return the meaning of a field with its default, as Python's help has it."""
    return meaning_of(kind, name).meaning.replace("{default}", _written(default_of(kind, name)))


def _written(default: Any) -> str:
    if isinstance(default, tuple):
        return ", ".join(map(_written, default))
    if isinstance(default, Mapping):
        return "{" + ", ".join(f"{name}: {_written(value)}" for name, value in default.items()) + "}"
    return f"{default:g}" if isinstance(default, float) else str(default)


def outside(options: Any, *names: str) -> bool:
    """Whether one of these numbers is out of its range."""
    allowed = {name: meaning_of(type(options), name).range or Range() for name in names}
    return not all(some.holds(getattr(options, name)) for name, some in allowed.items())
