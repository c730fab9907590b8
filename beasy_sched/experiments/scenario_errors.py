"""What is wrong with a scenario file, in the words of the file."""

from __future__ import annotations

import functools
import operator
import re
from enum import Enum
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from beasy_sched.experiments.scenario import Scenario

_QUOTED = re.compile("`(.+?)`")
_STEP = re.compile(r"\.?([A-Za-z_]+)|\[(\d+|\.\.\.)\]")
_KINDS = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "object": "a section",
    "array": "a list",
}


def reworded(message: str, values: dict[str, Any], *, several: bool) -> str:
    """msgspec's "... - at `$.noise.sigma`" as "noise.sigma: found ..., expected ...".

    ``several``: whether the file itself has ``[[tuples]]``.
    """
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".").removeprefix("key in ")
    name = place if several else place.removeprefix("tuples[0]").lstrip(".")
    quoted = _QUOTED.findall(what)
    struct = _type_at(place, values)
    if "unknown field" in what:
        return (
            f"{name}.{quoted[0]}: ".lstrip(".")
            + f"no such field, expected one of {', '.join(field_names(struct))}"
        )
    if "missing required field" in what:
        return f"{name}.{quoted[0]}: ".lstrip(".") + "is missing"
    found = _value_at(place, values)
    return f"{name}: found {found!r:.60}, expected {_expected(struct, what, quoted)}"


def field_names(struct: Any) -> list[str]:
    """Name the fields that a part of the file may have."""
    names = [] if struct is Scenario else _tags(struct)
    own = [field.encode_name for field in msgspec.structs.fields(struct)] if _is_struct(struct) else []
    return [*names, *(["workload", "production"] if struct is Scenario else []), *own]


def _tags(struct: Any) -> list[str]:
    field = getattr(getattr(struct, "__struct_config__", None), "tag_field", None)
    return [field] if field else []


def _expected(struct: Any, what: str, quoted: list[str]) -> str:
    options = get_args(struct)
    if isinstance(struct, type) and issubclass(struct, Enum):
        return "one of " + ", ".join(member.value for member in struct)
    if get_origin(struct) is Literal:
        return "one of " + ", ".join(map(str, options))
    if get_origin(struct) is UnionType and all(_is_struct(option) for option in options):
        return "one of " + ", ".join(option.__struct_config__.tag for option in options)
    if what.startswith("Expected") and quoted:
        return " or ".join(_KINDS.get(kind, kind) for kind in quoted[0].split(" | "))
    return what[:1].lower() + what[1:]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _type_at(place: str, values: dict[str, Any]) -> Any:
    """The declared type of a place; a tagged union resolved by the value that stands there."""
    kind: Any = Scenario
    found: Any = values
    for name, index in _STEP.findall(place):
        if name == "source":
            return functools.reduce(operator.or_, _siblings(kind)) if _is_struct(kind) else kind
        if index:
            found = found[int(index)] if index.isdigit() and isinstance(found, list) else None
            kind = (get_args(kind) or (Any,))[0 if get_origin(kind) is tuple else -1]
        else:
            found = found.get(name) if isinstance(found, dict) else None
            hints = get_type_hints(kind) if _is_struct(kind) else {}
            kind = hints.get("start" if name == "from" else name, Any)
        kind = _chosen(kind, found)
    return kind


def _chosen(kind: Any, found: Any) -> Any:
    options = get_args(kind) if get_origin(kind) is UnionType else ()
    if isinstance(found, dict):
        for option in options:
            if _is_struct(option) and option.__struct_config__.tag == found.get("source"):
                return option
    return kind


def _siblings(kind: Any) -> list[Any]:
    return [option for option in kind.__mro__[1].__subclasses__() if option.__struct_config__.tag]


def _value_at(place: str, values: Any) -> Any:
    found = values
    for name, index in _STEP.findall(place):
        try:
            found = found[int(index)] if index.isdigit() else found[name]
        except (KeyError, IndexError, TypeError):
            return found
    return found
