"""Options, each declared once as a field of a class: name, type and default, with meaning and range.

Commands derive their options from these fields (`cli.options.option_of`), functions of the Python
interface their parameters (`api.declared_parameters`), and scenario files their defaults; the classes
check their numbers with `check`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from beasy_sched.errors import ConfigError
from beasy_sched.limits import LARGEST_WHOLE, MOST_HOSTS, MOST_WINDOWS
from beasy_sched.numbers import Range

AT_LEAST_0: Final = Range(0, LARGEST_WHOLE, whole=True)
SEEDS: Final = Range(0, math.inf, whole=True)
AT_LEAST_1: Final = Range(1, LARGEST_WHOLE, whole=True)
ABOVE_0: Final = Range(0, above=True)
HOSTS: Final = Range(1, MOST_HOSTS, whole=True)
WINDOWS: Final = Range(1, MOST_WINDOWS, whole=True)
T = TypeVar("T")


@dataclass(frozen=True)
class OptionDoc:
    """Metadata of an option: ``Annotated[float, OptionDoc("longest run", unit="s")]``."""

    meaning: str
    """Short description; ``{default}`` is replaced by the default."""
    told: str = ""
    """Sentences for the command line's help, if they differ from the description."""
    range: Range | None = None
    """The allowed numbers; None for any."""
    unit: str = ""
    """The unit, if only Python's parameter has one: the command line reads strings such as 12h."""

    @property
    def sentence(self) -> str:
        """The text of the command line's help."""
        end = "" if self.meaning.endswith("]") else "."  # as in "[default: ...]"
        return self.told or f"{self.meaning[0].upper()}{self.meaning[1:]}{end}"


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def meaning_of(kind: type[Any], name: str) -> OptionDoc:
    """Return the metadata of a field of a class of options, or of its base class.

    Raises LookupError if there is none.
    """
    for each in kind.__mro__:
        if name in inspect.get_annotations(each):
            for said in getattr(_hints(each)[name], "__metadata__", ()):
                if isinstance(said, OptionDoc):
                    return said
    raise LookupError(f"{kind.__name__}.{name}: has no description")


def _fields(kind: type[Any]) -> tuple[Any, ...]:
    """Return the fields of a dataclass or of a struct."""
    return msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else dataclasses.fields(kind)


def default_of(kind: type[Any], name: str) -> Any:
    """Return the default of a field of a dataclass or of a struct; None if it has none."""
    field = next(field for field in _fields(kind) if field.name == name)
    if field.default_factory not in (dataclasses.MISSING, msgspec.NODEFAULT):
        return field.default_factory()
    return None if field.default in (dataclasses.MISSING, msgspec.NODEFAULT) else field.default


def help_of(kind: type[Any], name: str, *, default: bool = True) -> str:
    """Return the meaning of a field with its unit, and its default if requested, for Python's help."""
    means, value = meaning_of(kind, name), default_of(kind, name)
    words = f"{means.meaning}, {means.unit}" if means.unit else means.meaning
    if "{default}" in words:
        return words.replace("{default}", _written(value))
    nothing = value is None or value == math.inf or (isinstance(value, Collection) and not value)
    return words if nothing or not default else f"{words} ({_written(value)})"


def _written(default: Any) -> str:
    if isinstance(default, tuple):
        return ", ".join(map(_written, default))
    if isinstance(default, Mapping):
        return "{" + ", ".join(f"{name}: {_written(value)}" for name, value in default.items()) + "}"
    if isinstance(default, str):
        return f'``"{default}"``'
    return f"{default:g}" if isinstance(default, float) else str(default)


def made_of(kind: type[T], given: Mapping[str, Any], **settled: Any) -> T:
    """Return a dataclass of options from the values, by field name, that are not None, and ``settled``."""
    names = [field.name for field in _fields(kind)]
    return kind(**{name: given[name] for name in names if given.get(name) is not None}, **settled)


def check(options: Any) -> None:
    """Raise ConfigError for the first number of the options that is out of its range."""
    kind: Any = type(options)
    for field in _fields(kind):
        value = getattr(options, field.name)
        try:
            allowed = meaning_of(kind, field.name).range
        except LookupError:
            continue
        words = _choices(_hints(kind)[field.name])
        if allowed is None or value == default_of(kind, field.name) or value in words:
            continue
        try:
            allowed.checked(value.item() if hasattr(value, "item") else value)  # also NumPy's
        except ValueError as error:
            raise ConfigError(f"{field.name}: {error}") from None


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise ConfigError unless the value of an option is one of its choices."""
    allowed = [*choices]
    if value not in allowed:
        raise ConfigError(f"{name}: found {value!r}, expected one of {', '.join(map(str, allowed))}")


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the strings that a type allows in addition to numbers."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _choices(part))
