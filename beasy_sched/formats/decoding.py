"""The boundary where bytes become values: JSON, CSV and MessagePack, checked as UTF-8 and against types.

Every error states what was found and what is expected, with the line where that is known.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.extras import load_optional
from beasy_sched.formats.reading import as_text, line_at, not_utf8, read_bytes
from beasy_sched.limits import MOST_NESTED, shortened
from beasy_sched.numbers import ANY_NUMBER
from beasy_sched.structs import check_numbers, reworded

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
_AT_BYTE: Final = re.compile(r"\s*\(byte (\d+)\)$")
_TOO_DEEP: Final = "is nested too deeply"
_NO_BRACKETS: Final = bytes(sorted({*range(256)} - {*b"[]{}"}))
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class Malformed(ValueError):
    """Bytes that cannot be read: the text states why, ``line`` (from 1) where, as far as it is known."""

    def __init__(self, message: str, line: int | None = None, *, ends_early: bool = False) -> None:
        """State what is wrong, and in which line of the bytes; or that only their end is missing."""
        super().__init__(message)
        self.line = line
        self.ends_early = ends_early


class JsonDecoder(Generic[T]):
    """Decodes JSON to one type. Numbers are checked as far as the type states it."""

    def __init__(self, kind: type[T]) -> None:
        """``kind`` is whatever msgspec decodes."""
        self._kind = kind
        decoder = msgspec.json.Decoder(kind)
        self._decode: Callable[[bytes], T] = decoder.decode
        self._decode_lines: Callable[[bytes], list[T]] = decoder.decode_lines

    def decode(self, data: bytes) -> T:
        """Decode UTF-8 bytes. Raises Malformed."""
        try:
            _check_text(data)
            return self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._explained(error, data) from None

    def decode_lines(self, data: bytes) -> list[T] | None:
        """Decode UTF-8 bytes with a value in each line; None where a line cannot be decoded, or is empty."""
        try:
            _check_text(data)
            decoded = self._decode_lines(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Malformed):
            return None
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        return decoded if len(decoded) == lines else None

    def attempt(self, data: bytes) -> T | None:
        """Decode UTF-8 bytes; None for JSON of another shape. Raises Malformed for what is not JSON."""
        try:
            _check_text(data)
            return self._decode(data)
        except msgspec.ValidationError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._explained(error, data) from None

    def _explained(self, error: Exception, data: bytes) -> Malformed:
        if isinstance(error, RecursionError):
            return Malformed(_TOO_DEEP)
        if isinstance(error, UnicodeDecodeError):
            return Malformed(not_utf8(error.object, error.start), line_at(error.object, error.start))
        if isinstance(error, msgspec.ValidationError):
            return _out_of_range(data, str(error)) or self._misfit(str(error), data)
        return _not_json(data, str(error))

    def _misfit(self, message: str, data: bytes) -> Malformed:
        """The error for data of another shape, which may not be JSON behind that place."""
        try:
            return Malformed(shortened(_in_words(message, msgspec.json.decode(data), self._kind)))
        except RecursionError:
            return Malformed(_TOO_DEEP)
        except msgspec.ValidationError:
            return Malformed(shortened(message))
        except msgspec.DecodeError as error:
            return _not_json(data, str(error))


def _check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError, and Malformed for JSON so deep that walking through its values would fail."""
    if not data.isascii():
        data.decode("utf-8")
    if data.count(b"{") + data.count(b"[") <= MOST_NESTED or not _is_deep(data):
        return
    if _is_deep(_TEXT.sub(b"", data)):
        raise Malformed(_TOO_DEEP)


def _is_deep(data: bytes) -> bool:
    """Return whether pairs of brackets are left when the innermost ones are removed again and again."""
    brackets = data.translate(None, _NO_BRACKETS)
    for _ in range(MOST_NESTED):
        before, brackets = brackets, brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == len(before):
            return False
    return bool(brackets)


_NUMBER: Final = re.compile(rb"-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?(?=[\s,}\]]|$)")


def _out_of_range(data: bytes, message: str) -> Malformed | None:
    """The error for a number that no double can hold: msgspec does not state which one."""
    if "out of range" not in message:
        return None
    for number in _NUMBER.finditer(data):
        if abs(float(number[0])) == float("inf"):
            text = shortened(number[0].decode(), 40)
            return Malformed(
                f"found {text}, expected a number, at most {ANY_NUMBER.most:g}", line_at(data, number.start())
            )
    return None


def _not_json(data: bytes, message: str) -> Malformed:
    """The error for text that is not valid JSON."""
    if data.startswith(codecs.BOM_UTF8):
        return Malformed("begins with a byte order mark, which JSON must not have: save it without one", 1)
    at = _AT_BYTE.search(message)
    if at is None:
        if not data.strip():
            return Malformed("is not valid JSON: it is empty", ends_early=True)
        if "truncated" in message:
            line = line_at(data, len(data.rstrip()))
            return Malformed("is not valid JSON: it ends in the middle", line, ends_early=True)
        return Malformed("is not valid JSON: " + message[:1].lower() + message[1:])
    what = _AT_BYTE.sub("", message).removeprefix("JSON is malformed: ")
    return Malformed(f"is not valid JSON: {what}", line_at(data, int(at[1])))


def _in_words(message: str, value: Any, kind: Any) -> str:
    return reworded(message, value, kind, section="an object")


def check_names(data: bytes, names: int | None = None) -> None:
    """Raise Malformed where an object has a name twice: decoding keeps the last, other programs the first.

    ``data`` is valid JSON. ``names`` is how many names were found in it, where that is known: there are none
    next to them if there are no more colons.
    """
    if data.count(b":") != names:
        # What numbers are does not matter, and Python's have limits.
        json.loads(data, object_pairs_hook=_unlike, parse_int=str, parse_float=str)


def _unlike(members: list[tuple[str, Any]]) -> None:
    if len(members) > 1 and len({name for name, _ in members}) < len(members):
        twice, _ = Counter(name for name, _ in members).most_common(1)[0]
        raise Malformed(f"the name {shortened(twice)!r} occurs twice in an object: remove one of them")


ANY_JSON: Final[JsonDecoder[Any]] = JsonDecoder(Any)
JSON_OBJECT: Final[JsonDecoder[dict[str, Any]]] = JsonDecoder(dict[str, Any])


def decode_json(data: bytes, kind: type[T]) -> T:
    """Decode JSON to a type, its numbers finite and none absurdly large, no name twice. Raises Malformed."""
    value = ANY_JSON.decode(data)
    check_names(data)
    try:
        check_numbers(value)
    except ConfigError as error:
        raise Malformed(str(error)) from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    return convert_json(value, kind)


def convert_json(value: Any, kind: type[T]) -> T:
    """Convert a decoded value to a type. Raises Malformed that names the field."""
    try:
        converted: Any = msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise Malformed(shortened(_in_words(str(error), value, kind))) from None
    return cast(T, converted)


def read_json(path: PathLike, kind: type[T]) -> T:
    """Read a JSON file as `decode_json` does. Raises InputError that names file, line and field."""
    data = read_bytes(path)
    try:
        return decode_json(data, kind)
    except Malformed as error:
        raise InputError(path, str(error), line=error.line) from None


def decode_msgpack(data: bytes, kind: type[T], dec_hook: Callable[[Any, Any], Any] | None = None) -> T:
    """Decode MessagePack to a type. Raises Malformed, and ConfigError of the type's own checks."""
    try:
        decoded: Any = msgspec.msgpack.decode(data, type=kind, dec_hook=dec_hook)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(shortened(str(error))) from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    return cast(T, decoded)


def csv_rows(
    text: str, path: PathLike, *, delimiter: str = ",", skipped: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line (from 1) where each row ends, and its cells; ``skipped`` lines are before the text.

    Raises InputError.
    """
    lines = io.StringIO(text, newline="") if "\r" in text else _lines(text)  # which needs less memory
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for cells in reader:
            yield skipped + reader.line_num, cells
    except csv.Error as error:
        raise InputError(path, f"is not a table: {error}", line=skipped + reader.line_num) from None


def _lines(text: str) -> Iterator[str]:
    start = 0
    while end := text.find("\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def csv_line(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line, without quotes; empty where it is not a line of a table."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def read_csv_rows(path: PathLike) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the cells by column of each row of a CSV file, as `read_csv` reads it."""
    names, rows = read_csv(path)
    for line, cells in rows:
        yield line, dict(zip(names, cells, strict=True))


def read_csv(path: PathLike, mentioned: str = "") -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the columns' names of a CSV file, and its rows, each with its line and its cells.

    ``mentioned``: only rows with this text are asked for; there may be others among them. Raises InputError
    with the line, also for a file that is empty or ends in the middle of a line.
    """
    text = as_text(read_bytes(path), path, as_written=True)
    if not text.strip():
        raise InputError(path, "is empty: expected a table whose first line names its columns")
    if not text.endswith("\n"):
        raise InputError(path, "is truncated: the last line is incomplete", line=1 + text.count("\n"))
    rows = csv_rows(text, path)
    names = next(rows)[1]
    if mentioned and '"' not in text.replace('""', "") and "\r" not in text:
        rows = _rows_with(mentioned, text)
    return names, _of_width(path, names, rows)


def _rows_with(mentioned: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows with a given string, below the header of a table in which only empty cells are quoted."""
    start, line = text.index("\n") + 1, 2
    while (place := text.find(mentioned, start)) >= 0:
        line += text.count("\n", start, place)
        start, end = text.rfind("\n", 0, place) + 1, text.index("\n", place) + 1
        yield line, csv_line(text[start:end])
        start, line = end, line + 1


def _of_width(
    path: PathLike, names: list[str], rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty. Raises InputError for one that is not as wide as the header."""
    for line, cells in rows:
        if len(cells) == len(names):
            yield line, cells
        elif cells:
            raise _misshapen(path, cells, names, line)


def _misshapen(path: PathLike, cells: list[str], names: list[str], line: int) -> InputError:
    """The error for a row that is not as wide as its header."""
    return InputError(path, f"has {len(cells)} values but the header has {len(names)} columns", line=line)


_MOST_BLOCK: Final = (1 << 31) - 1
"""pyarrow reads no larger blocks; a row must fit into one."""


def read_columns(path: PathLike) -> dict[str, Any]:
    """Read a CSV file as columns of texts, as pyarrow has them.

    Raises InputError, and ConfigError without pyarrow.
    """
    table_of = load_optional("pyarrow.csv", "beasy-sched[data]", "tables")
    data = read_bytes(path)
    names = csv_line(as_text(data, path).partition("\n")[0].rstrip("\r"))
    texts = table_of.ConvertOptions(column_types=dict.fromkeys(names, "string"))
    whole = table_of.ReadOptions(use_threads=False, block_size=min(len(data) + 1, _MOST_BLOCK))
    try:
        table = table_of.read_csv(io.BytesIO(data), read_options=whole, convert_options=texts)
    except ValueError as error:
        for _ in _of_width(path, names, csv_rows(data.decode(), path)):
            pass  # a row of another width is reported with its line
        raise InputError(path, f"cannot be read as a table: {shortened(str(error))}") from None
    return dict(zip(table.column_names, table.columns, strict=True))


def read_frame(path: PathLike, types: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Read a CSV file as a data frame with columns of ``types``. Raises InputError and ConfigError."""
    pandas, data = _pandas(), read_bytes(path)
    names, cells = (csv_line(line) for line in [*as_text(data, path).split("\n", 2), ""][:2])
    if len(cells) > len(names):  # pandas would make an index of the first ones
        raise _misshapen(path, cells, names, 2)
    try:
        return pandas.read_csv(io.BytesIO(data), dtype=types, low_memory=False)
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(path, f"cannot be read as a table: {shortened(str(error))}") from None


def read_frame_of_lines(path: PathLike) -> pd.DataFrame:
    """Read a file of JSON objects, one a line, as a data frame. Raises InputError, and ConfigError."""
    pandas, data = _pandas(), read_bytes(path)
    as_text(data, path)  # or pandas names no line
    try:
        return pandas.read_json(io.BytesIO(data), lines=True)
    except (ValueError, OverflowError, RecursionError, AttributeError, TypeError) as error:
        raise InputError(path, f"cannot be read as a table: {shortened(str(error))}") from None


def _pandas() -> Any:
    return load_optional("pandas", "beasy-sched[data]", "data frames")
