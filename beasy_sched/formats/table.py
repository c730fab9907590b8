"""Tables in text files as people leave them: comment lines, spreadsheet damage, odd line ends."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.limits import MOST_TABLE_BYTES

_NOTHING = frozenset({"", "-", "n/e", "na", "n/a", "nan", "null", "none"})
"""What files write where there is no value, in lower case."""
DELIMITERS = (",", ";", "\t")
"""What may divide the cells of a line."""


@dataclass(frozen=True)
class Table:
    """The cells of a file, as text."""

    path: str
    preamble: tuple[str, ...]
    """The lines above the header line, as they are."""
    names: tuple[str, ...]
    rows: list[list[str]]
    lines: IntArray
    """1-based line of each row."""
    decimal_comma: bool = False

    def texts(self, name: str) -> list[str]:
        """One column as text. Raises InputError where the file has no such column."""
        index = self._index(name)
        return [row[index].strip() for row in self.rows]

    def numbers(self, name: str) -> FloatArray:
        """One column as numbers, NaN where a cell is empty. Raises InputError with the line."""
        texts = self.texts(name)
        if self.decimal_comma:
            texts = [text.replace(",", ".") for text in texts]
        try:
            values = np.array(texts, dtype=np.float64)
        except ValueError:
            values = np.array([self._number(text, i, name) for i, text in enumerate(texts)])
        if np.isinf(values).any():
            at = int(np.argmax(np.isinf(values)))
            raise InputError(self.path, f"{name}: found {texts[at]!r}", line=int(self.lines[at]))
        return values

    def _number(self, text: str, row: int, name: str) -> float:
        if text.lower() in _NOTHING:
            return float("nan")
        try:
            return float(text)
        except ValueError:
            message = f"{name}: found {text!r}, expected a number"
            raise InputError(self.path, message, line=int(self.lines[row])) from None

    def _index(self, name: str) -> int:
        if name not in self.names:
            found = ", ".join(self.names)
            raise InputError(self.path, f"has no column {name!r}; its columns are: {found}")
        return self.names.index(name)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file (gzip or not): UTF-8, or Latin-1 as old spreadsheets write. Raises InputError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_TABLE_BYTES + 1)
            if data[:2] == b"\x1f\x8b":
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as unpacked:
                    data = unpacked.read(MOST_TABLE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MOST_TABLE_BYTES:
        raise InputError(path, f"has more than {MOST_TABLE_BYTES >> 20} MiB of text: too much for a table")
    if b"\0" in data[:4096]:
        raise InputError(path, "is not a text file (a spreadsheet? save it as CSV)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def split_line(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one line, without quotes; empty where it is no line of a table."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def parse_table(path: str | os.PathLike[str], text: str, is_header: Callable[[list[str]], bool]) -> Table:
    """Find the header line (the first whose cells ``is_header`` accepts) and the rows below it.

    Cells may be divided by commas, semicolons (with decimal commas) or tabs; empty columns at the end
    and empty lines are dropped. Raises InputError for rows that do not fit the header.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        readings = [(_stripped(split_line(line, d)), d) for d in DELIMITERS]
        headers = [(names, d) for names, d in readings if names and is_header(names)]
        if headers:
            names, delimiter = max(headers, key=lambda header: len(header[0]))
            body = "\n".join(lines[number + 1 :])
            rows, places = _rows(path, body, delimiter, len(names), number + 1)
            decimal_comma = delimiter == ";"
            return Table(os.fspath(path), tuple(lines[:number]), tuple(names), rows, places, decimal_comma)
    raise InputError(path, f"no header line was found in {len(lines)} lines")


def _rows(
    path: str | os.PathLike[str], body: str, delimiter: str, width: int, skipped: int
) -> tuple[list[list[str]], IntArray]:
    rows, places = [], []
    reader = csv.reader(io.StringIO(body), delimiter=delimiter)
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = skipped + reader.line_num
            if len(cells) < width:
                found = f"has {len(cells)} values where the header names {width} columns"
                raise InputError(path, f"{found}: is the file cut off here?", line=line)
            if any(cell.strip() for cell in cells[width:]):
                found = f"has {len(_stripped(cells))} values where the header names {width} columns"
                raise InputError(path, f"{found} (decimal commas?)", line=line)
            rows.append(cells)
            places.append(line)
    except csv.Error as error:
        raise InputError(path, f"is not a table: {error}", line=skipped + reader.line_num) from error
    return rows, np.array(places, dtype=np.int64)


def _stripped(cells: list[str]) -> list[str]:
    """Cells without blanks around them and without the empty ones at the end."""
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    return cells
