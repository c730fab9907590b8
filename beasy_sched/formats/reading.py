"""The boundary where files are read: bytes, text, and TOML into types; errors name the file and the place.

No other module opens a file to read it. JSON, CSV and MessagePack are read in `decoding`, beside this.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import math
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from importlib import resources
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from beasy_sched import limits
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.limits import LARGEST_NUMBER, shortened
from beasy_sched.numbers import found_text, wrong_number

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

_GLANCE_S: Final = 0.02
"""So often it is seen whether somebody writes to a pipe."""


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Raise InputError where the block cannot read the file ``path``."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(path, f"is a damaged gzip file ({error}): fetch it, or pack it, again") from None
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None


def open_file(path: PathLike) -> io.BufferedReader:
    """Open a file to read bytes from; whoever asks closes it.

    Raises InputError for what is no file: a folder, a pipe that nobody opens to write to, a name that no file
    can have.
    """
    with reading(path):
        try:
            return io.BufferedReader(_unbuffered(os.fspath(path)), 1 << 17)
        except ValueError as error:  # of a name with a null byte
            raise InputError(repr(os.fspath(path)), f"cannot be read: {error}") from None


@contextlib.contextmanager
def opened(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a file as `open_file` does, for a block; one that cannot read on raises InputError, too."""
    with open_file(path) as file, reading(path):
        yield file


def _unbuffered(path: str) -> _File:
    """Open a file without waiting; of a pipe, wait a moment for somebody who writes to it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        head = _first_of_pipe(descriptor) if stat.S_ISFIFO(mode) else b""
        if sys.platform != "win32":
            os.set_blocking(descriptor, True)
        return _File(descriptor, head)
    except BaseException:
        os.close(descriptor)
        raise


def _first_of_pipe(descriptor: int) -> bytes:
    """Return the first byte of a pipe, or none where somebody will write to it. Raises OSError for nobody."""
    end_s = time.monotonic() + limits.SILENT_PIPE_S
    while True:
        try:
            if head := os.read(descriptor, 1):
                return head
        except BlockingIOError:
            return b""
        if time.monotonic() > end_s:
            raise OSError(errno.EPIPE, "it is a pipe that nobody writes to")
        time.sleep(_GLANCE_S)


class _File(io.FileIO):
    """A file that has been opened, of which ``head`` has been read already."""

    def __init__(self, descriptor: int, head: bytes) -> None:
        super().__init__(descriptor, "rb")
        self._head = head

    def readinto(self, buffer: Any) -> int | None:
        if not self._head:
            return super().readinto(buffer)
        head, self._head = self._head, b""
        buffer[: len(head)] = head
        return len(head)

    def readall(self) -> bytes:
        head, self._head = self._head, b""
        return head + super().readall()


def read_bytes(
    path: PathLike, *, most: int | None = None, what: str = "for a file that is read at once"
) -> bytes:
    """Return the contents of a file. Raises InputError, also for more than ``most`` bytes.

    ``what`` says then for what they are too many.
    What is no plain file, such as a pipe, may have `MOST_UNPACKED_BYTES`.
    """
    with opened(path) as file:
        if most is None:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
            most = limits.MOST_UNPACKED_BYTES
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(path, f"has more than {most >> 20} MiB of text: too much {what}")
    return data


def read_lines(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each line, with its line end. Raises InputError."""
    with opened(path) as file:
        yield from enumerate(file, 1)


def read_text(path: PathLike) -> str:
    """Return the contents of a UTF-8 text file. Raises InputError."""
    return as_text(read_bytes(path), path)


def as_text(data: bytes, path: PathLike | None, *, line: int | None = None, as_written: bool = False) -> str:
    r"""Return UTF-8 text, each of its lines ended by ``\n``. Raises InputError that names the line.

    ``as_written`` keeps the ends of lines, which may be part of quoted cells. ``line`` is that of ``data``
    where it is a single line of a file.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, not_utf8(data, error.start), line=line or line_at(data, error.start)) from None
    return text if as_written or "\r" not in text else text.replace("\r\n", "\n").replace("\r", "\n")


def not_utf8(data: bytes, at: int) -> str:
    """What is said of a byte that makes a file no UTF-8 text."""
    before = data.rfind(b"\n", 0, at) + 1
    return f"is not UTF-8 text: found the byte 0x{data[at]:02x} as byte {at - before + 1} of the line"


def line_at(data: bytes, at: int) -> int:
    """Return the line, from 1, in which a byte is."""
    return data.count(b"\n", 0, at) + 1


def package_text(package: str, *path: str) -> str:
    """Return a text file that comes with the program."""
    return resources.files(package).joinpath(*path).read_text("utf-8")


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
    except ValueError:  # Python reads no number of more than some thousand digits
        raise InputError(path, "is not valid TOML: a number in it has too many digits") from None
    except RecursionError:
        raise InputError(path, "is not valid TOML: it is nested too deeply") from None


@contextlib.contextmanager
def in_file(path: PathLike, kind: type[Exception] = ConfigError) -> Iterator[None]:
    """Turn an error of this kind, raised by the block, into an InputError that names the file."""
    try:
        yield
    except kind as error:
        raise InputError(path, str(error)) from None


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
    """Whether an object needs no `check_numbers`, seen at a glance: usual numbers, texts, nothing nested."""
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

    Raises ConfigError that names the field; those called one of ``infinite`` may be infinite.
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
    """Name the fields that a part of a file may have."""
    tag = getattr(getattr(struct, "__struct_config__", None), "tag_field", None)
    own = [field.encode_name for field in msgspec.structs.fields(struct)] if _is_struct(struct) else []
    return [*([tag] if tag else []), *shorthands, *own]


_UNIONS: Final = (Union, UnionType)
_QUOTED: Final = re.compile("`(.*?)`")
_KEY_IN: Final = "key` in `"
_STEP: Final = re.compile(r"\.?([A-Za-z_]+)|\[(\d+|\.\.\.)\]")
_LIMIT: Final = re.compile(r"` (>=|<=|>|<) (\S+)$")
_LIMITS: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_KINDS: Final = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "datetime": "a date and time",
}


def reworded(
    message: str, values: Any, root: Any, shorthands: Sequence[str] = (), *, section: str = "a section"
) -> str:
    """msgspec's "... - at `$.noise.sigma`" as "noise.sigma: found ..., expected ..."."""
    what, _, place = message.partition(" - at `")
    is_key = place.startswith(_KEY_IN)
    place, kind, found = _at(place.removeprefix(_KEY_IN).removeprefix("$").rstrip("`"), values, root)
    if is_key and isinstance(found, dict):
        kind = get_args(kind)[0]
        found = next((name for name in found if not _fits(name, kind, strict=False)), found)
    quoted = _QUOTED.findall(what)
    if "unknown field" in what:
        known = ", ".join(field_names(kind, shorthands if kind is root else ()))
        expected = f"one of {known}" if known else "no field at all"
        name = quoted[0] or "''"
        return f"{place}.{name}: no such field, expected {expected}".lstrip(".")
    if "missing required field" in what:
        return f"{place}.{quoted[0]}: is missing".lstrip(".")
    return (
        f"{place}: found {found_text(found)}, expected {_expected(kind, what, quoted, section)}".removeprefix(
            ": "
        )
    )


def _at(place: str, values: Any, root: Any) -> tuple[str, Any, Any]:
    """A place with the names that msgspec leaves out, its declared type, and what was found there."""
    kind: Any = root
    found: Any = values
    for name, index in _STEP.findall(place):
        if index == "..." and isinstance(found, dict):
            kind = (get_args(kind) or (Any,))[-1]
            wrong = next((key for key, value in found.items() if not _fits(value, kind)), None)
            if wrong is not None:
                place, found = place.replace("[...]", f".{shortened(str(wrong))}", 1), found[wrong]
        elif index:
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
    return place.lstrip("."), kind, found


def _fits(value: Any, kind: Any, *, strict: bool = True) -> bool:
    """Whether a value of an object, or (not ``strict``) a name in it, is of this type."""
    try:
        msgspec.convert(value, kind, strict=strict, str_keys=True)
    except msgspec.ValidationError:
        return False
    return True


def _chosen(kind: Any, found: dict[str, Any]) -> Any:
    """The struct among the options of a union that ``found`` is meant to be."""
    structs = [option for option in get_args(kind) if _is_struct(option)]
    for option in structs if get_origin(kind) in _UNIONS else ():
        config = option.__struct_config__
        if len(structs) == 1 or config.tag == found.get(config.tag_field):
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
        told = " or ".join(kinds.get(name, name) for name in names if name != "int" or "float" not in names)
        limit = _LIMIT.search(what)
        return f"{told}, {_LIMITS[limit[1]]} {limit[2]}" if limit else told
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
