"""JSON files and tables of several blocks, as the tables that they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import Malformed, csv_line, decode_json
from beasy_sched.formats.table import Table

_NULL: Final = "null"


def json_object(path: PathLike, text: str) -> dict[str, Any]:
    """Return the object of a JSON text. Raises InputError."""
    try:
        return decode_json(text.encode(), dict[str, Any])
    except Malformed as error:
        raise InputError(path, str(error), line=error.line) from None


def member(contents: Mapping[str, Any], *names: str) -> Any:
    """Return a member of nested objects; None where there is none."""
    value: Any = contents
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def rows_of(path: PathLike, where: str, rows: object) -> dict[str, list[Any]]:
    """Return the columns of a list of objects; fields of objects in these are ``outer.inner``.

    Lists are skipped, and a field that an object does not have is null. Raises InputError, naming ``where``.
    """
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(path, f"{where}: expected a list of objects")
    flat = [dict(_flat(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", each) for inner, each in value.items() if _is_scalar(each))
        elif _is_scalar(value):
            yield name, value


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)


def columns_table(path: PathLike, columns: Mapping[str, Any], preamble: Sequence[str] = ()) -> Table:
    """Return a table of lists of values, without lines. Raises InputError for unequal lengths."""
    lengths = {len(values) if isinstance(values, list) else -1 for values in columns.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise InputError(path, "has columns that are not lists of equal length")
    texts = [[_NULL if value is None else str(value) for value in values] for values in columns.values()]
    rows = [list(row) for row in zip(*texts, strict=True)]
    none = np.zeros(len(rows), dtype=np.int64)
    return Table(os.fspath(path), tuple(preamble), tuple(columns), rows, none)


def one_block(text: str, is_header: Callable[[list[str]], bool]) -> str:
    """Return the text up to the empty line below the table whose header ``is_header`` accepts."""
    lines, inside = text.splitlines(), False
    for number, line in enumerate(lines):
        if inside and not line.strip():
            return "\n".join(lines[:number])
        inside = inside or is_header([cell.strip() for cell in csv_line(line)] or [""])
    return text
