"""Conversion of decoded values to typed structs; errors name the field, the found and expected value."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from beasy_sched.errors import ConfigError
from beasy_sched.limits import LARGEST_NUMBER, shortened
from beasy_sched.numbers import found_text, wrong_number

T = TypeVar("T")


def as_type(
    values: dict[str, Any], kind: type[T], *, shorthands: Sequence[str] = (), infinite: Collection[str] = ()
) -> T:
    """Convert the values of a file to the struct ``kind``.

    Raises ConfigError such as "noise.sigma: found 'x', expected a number"; ``shorthands`` are fields that
    the file may have instead of those of ``kind``, and ``infinite`` those that may be infinite.
    """
    check_numbers(values, infinite)
    try:
        return msgspec.convert(values, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ConfigError(reworded(str(error), values, kind, shorthands)) from None


def has_usual_numbers(members: dict[str, Any]) -> bool:
    """Whether an object obviously needs no `check_numbers`: ordinary numbers and strings, nothing nested."""
    for value in members.values():
        kind = value.__class__
        if kind is float or kind is int:
            if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                return False
        elif kind is dict or kind is list:
            return False
    return True


def check_numbers(value: Any, infinite: Collection[str] = (), place: str = "") -> None:
    """Check every number of a JSON or TOML value: finite, and not absurdly large.

    Raises ConfigError that names the field; fields in ``infinite`` may be infinite.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            check_numbers(part, infinite, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            check_numbers(part, infinite, f"{place}[{number}]")
    elif (wrong := wrong_number(value)) is not None and not (
        value == math.inf and place.rpartition(".")[2] in infinite
    ):
        raise ConfigError(f"{shortened(place)}: {wrong}")


def field_names(struct: type[Any], shorthands: Sequence[str] = ()) -> list[str]:
    """Return the names of the fields that a part of a file may have."""
    tag = getattr(getattr(struct, "__struct_config__", None), "tag_field", None)
    own = [field.encode_name for field in msgspec.structs.fields(struct)] if _is_struct(struct) else []
    return [*([tag] if tag else []), *shorthands, *own]


_UNIONS: Final = (Union, UnionType)
_QUOTED: Final = re.compile("`(.*?)`")
_KEY_IN: Final = "key` in `"
_STEP: Final = re.compile(r"\.?([A-Za-z_]+)|\[(\d+|\.\.\.)\]")
_LIMIT: Final = re.compile(r"` (>=|<=|>|<) (\S+)$")
_LENGTH: Final = re.compile(r"` of length (\d+)")
_LIMITS: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_KINDS: Final = {
    "str": "a string",
    "float": "a number",
    "int": "an integer",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "datetime": "a date and time",
}


def reworded(
    message: str, values: Any, root: Any, shorthands: Sequence[str] = (), *, section: str = "a section"
) -> str:
    """Return msgspec's "... - at `$.noise.sigma`" as "noise.sigma: found ..., expected ..."."""
    what, _, place = message.partition(" - at `")
    is_key = place.startswith(_KEY_IN)
    place, kind, value = _at(place.removeprefix(_KEY_IN).removeprefix("$").rstrip("`"), values, root)
    if is_key and isinstance(value, dict):
        kind = get_args(kind)[0]
        value = next((name for name in value if not _fits(name, kind, strict=False)), value)
    quoted = _QUOTED.findall(what)
    if "unknown field" in what:
        names = ", ".join(field_names(kind, shorthands if kind is root else ()))
        expected = f"one of {names}" if names else "no fields"
        name = quoted[0] or "''"
        return f"{place}.{name}: no such field, expected {expected}".lstrip(".")
    if "missing required field" in what:
        return f"{place}.{quoted[0]}: is missing".lstrip(".")
    return (
        f"{place}: found {found_text(value)}, expected {_expected(kind, what, quoted, section)}".removeprefix(
            ": "
        )
    )


def _at(place: str, values: Any, root: Any) -> tuple[str, Any, Any]:
    """Return a position with the names that msgspec omits, its declared type, and the value found there."""
    kind: Any = root
    value_there: Any = values
    for name, index in _STEP.findall(place):
        if index == "..." and isinstance(value_there, dict):
            kind = (get_args(kind) or (Any,))[-1]
            wrong = next((key for key, value in value_there.items() if not _fits(value, kind)), None)
            if wrong is not None:
                place, value_there = (
                    place.replace("[...]", f".{shortened(str(wrong))}", 1),
                    value_there[wrong],
                )
        elif index:
            value_there = (
                value_there[int(index)] if index.isdigit() and isinstance(value_there, list) else value_there
            )
            kind = (get_args(kind) or (Any,))[0 if get_origin(kind) is tuple else -1]
        else:
            value_there = value_there.get(name, value_there) if isinstance(value_there, dict) else value_there
            if get_origin(kind) in _UNIONS:  # the position is the tag that distinguishes the options
                break
            fields = msgspec.structs.fields(kind) if _is_struct(kind) else ()
            kind = next((field.type for field in fields if field.encode_name == name), Any)
        if isinstance(value_there, dict):
            kind = _chosen(kind, value_there)
    return place.lstrip("."), kind, value_there


def _fits(value: Any, kind: Any, *, strict: bool = True) -> bool:
    """Whether a value of an object, or (not ``strict``) a name in it, is of this type."""
    try:
        msgspec.convert(value, kind, strict=strict, str_keys=True)
    except msgspec.ValidationError:
        return False
    return True


def _chosen(kind: Any, members: dict[str, Any]) -> Any:
    """Return the struct among the options of a union that ``members`` represents."""
    structs = [option for option in get_args(kind) if _is_struct(option)]
    for option in structs if get_origin(kind) in _UNIONS else ():
        config = option.__struct_config__
        if len(structs) == 1 or config.tag == members.get(config.tag_field):
            return option
    return kind


def _expected(kind: Any, what: str, quoted: list[str], section: str) -> str:
    options = get_args(kind)
    if (isinstance(kind, type) and issubclass(kind, Enum)) or get_origin(kind) is Literal:
        return f"one of {', '.join(_allowed(kind))}"
    if what.startswith("Invalid enum value") and (allowed := _allowed(kind)):
        return f"one of {', '.join(allowed)}"
    if get_origin(kind) in _UNIONS and all(_is_struct(option) for option in options):
        return "one of " + ", ".join(option.__struct_config__.tag for option in options)
    if what.startswith("Invalid RFC3339"):
        return "a date and time with its offset from UTC, such as 2024-07-01T00:00:00+02:00"
    if what.startswith("Expected") and quoted:
        kinds = {**_KINDS, "object": section}
        names = quoted[0].split(" | ")
        kinds_text = " or ".join(
            kinds.get(name, name) for name in names if name != "int" or "float" not in names
        )
        if length := _LENGTH.search(what):
            return f"{kinds_text} of {length[1]}"
        limit = _LIMIT.search(what)
        return f"{kinds_text}, {_LIMITS[limit[1]]} {limit[2]}" if limit else kinds_text
    return what[:1].lower() + what[1:]


def _allowed(kind: Any) -> list[str]:
    """Return the values of an enumeration or a literal, also if it is one of several options."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    options = get_args(kind)
    if get_origin(kind) is Literal:
        return [*map(str, options)]
    return [name for option in options for name in _allowed(option)]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
