"""Reading files: bytes, text, and TOML into types; every error names the file and the place in it."""

from __future__ import annotations

import contextlib
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from beasy_sched.errors import ConfigError, InputError, PathLike

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Raise InputError where the block cannot read the file ``path``."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: PathLike) -> bytes:
    """Return the contents of a file. Raises InputError."""
    with reading(path):
        return Path(path).read_bytes()


def read_text(path: PathLike) -> str:
    """Return the contents of a UTF-8 text file. Raises InputError."""
    try:
        with reading(path):
            return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text (byte {error.start})") from None


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_toml(text: str, path: PathLike) -> dict[str, Any]:
    """Read TOML text; ``path`` is named in errors. Raises InputError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, f"is not valid TOML: {error}") from None


@contextlib.contextmanager
def in_file(path: PathLike, kind: type[Exception] = ConfigError) -> Iterator[None]:
    """Turn an error of this kind, raised by the block, into an InputError that names the file."""
    try:
        yield
    except kind as error:
        raise InputError(path, str(error)) from None


def as_type(values: dict[str, Any], kind: type[T], *, shorthands: Sequence[str] = ()) -> T:
    """Convert the values of a file to the struct ``kind``.

    Raises ConfigError such as "noise.sigma: found 'x', expected a number"; ``shorthands`` are fields that
    the file may have instead of those of ``kind``.
    """
    try:
        return msgspec.convert(values, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ConfigError(_reworded(str(error), values, kind, shorthands)) from None


def field_names(struct: type[Any], shorthands: Sequence[str] = ()) -> list[str]:
    """Name the fields that a part of a file may have."""
    tag = getattr(getattr(struct, "__struct_config__", None), "tag_field", None)
    own = [field.encode_name for field in msgspec.structs.fields(struct)] if _is_struct(struct) else []
    return [*([tag] if tag else []), *shorthands, *own]


_UNIONS: Final = (Union, UnionType)
_QUOTED: Final = re.compile("`(.+?)`")
_STEP: Final = re.compile(r"\.?([A-Za-z_]+)|\[(\d+|\.\.\.)\]")
_KINDS: Final = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "object": "a section",
    "null": "nothing",
    "array": "a list",
}


def _reworded(message: str, values: dict[str, Any], root: type[Any], shorthands: Sequence[str]) -> str:
    """msgspec's "... - at `$.noise.sigma`" as "noise.sigma: found ..., expected ..."."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".").removeprefix("key in ")
    quoted = _QUOTED.findall(what)
    kind, found = _at(place, values, root)
    if "unknown field" in what:
        known = ", ".join(field_names(kind, shorthands if kind is root else ()))
        expected = f"one of {known}" if known else "no field at all"
        return f"{place}.{quoted[0]}: no such field, expected {expected}".lstrip(".")
    if "missing required field" in what:
        return f"{place}.{quoted[0]}: is missing".lstrip(".")
    return f"{place}: found {found!r:.60}, expected {_expected(kind, what, quoted)}"


def _at(place: str, values: Any, root: type[Any]) -> tuple[Any, Any]:
    """The declared type of a place, and the value found there or the innermost one around it."""
    kind: Any = root
    found: Any = values
    for name, index in _STEP.findall(place):
        if index:
            found = found[int(index)] if index.isdigit() and isinstance(found, list) else found
            kind = (get_args(kind) or (Any,))[0 if get_origin(kind) is tuple else -1]
        else:
            found = found.get(name, found) if isinstance(found, dict) else found
            if get_origin(kind) in _UNIONS:  # the place is the tag that tells the options apart
                break
            fields = msgspec.structs.fields(kind) if _is_struct(kind) else ()
            kind = next((field.type for field in fields if field.encode_name == name), Any)
        if isinstance(found, dict):
            kind = _chosen(kind, found)
    return kind, found


def _chosen(kind: Any, found: dict[str, Any]) -> Any:
    """The struct among the options of a union that ``found`` is meant to be."""
    structs = [option for option in get_args(kind) if _is_struct(option)]
    for option in structs if get_origin(kind) in _UNIONS else ():
        config = option.__struct_config__
        if len(structs) == 1 or config.tag == found.get(config.tag_field):
            return option
    return kind


def _expected(kind: Any, what: str, quoted: list[str]) -> str:
    options = get_args(kind)
    if (isinstance(kind, type) and issubclass(kind, Enum)) or get_origin(kind) is Literal:
        return f"one of {', '.join(_allowed(kind))}"
    if what.startswith("Invalid enum value") and (allowed := _allowed(kind)):
        return f"one of {', '.join(allowed)}"
    if get_origin(kind) in _UNIONS and all(_is_struct(option) for option in options):
        return "one of " + ", ".join(option.__struct_config__.tag for option in options)
    if what.startswith("Expected") and quoted:
        return " or ".join(_KINDS.get(name, name) for name in quoted[0].split(" | "))
    return what[:1].lower() + what[1:]


def _allowed(kind: Any) -> list[str]:
    """The values of an enumeration or a literal, also where it is one option of several."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    options = get_args(kind)
    if get_origin(kind) is Literal:
        return [*map(str, options)]
    return [name for option in options for name in _allowed(option)]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
