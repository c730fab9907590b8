"""The boundary where files are read: bytes, text, and TOML into types; errors name the file and the place.

No other module opens a file to read it. JSON, CSV and MessagePack are read in `decoding`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import io
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final, TypeVar

from beasy_sched import limits
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.numbers import number_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

_PIECE_BYTES: Final = 1 << 17
_BLOCK_BYTES: Final = 1 << 18
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

    Raises InputError for what is not a file: a folder, a pipe that nobody opens to write to, an invalid
    name. Of a pipe or a device, no more than `MOST_UNPACKED_BYTES` can be read.
    """
    with reading(path):
        try:
            return io.BufferedReader(_unbuffered(os.fspath(path)), _PIECE_BYTES)
        except ValueError as error:  # of a name with a null byte
            raise InputError(repr(os.fspath(path)), f"cannot be read: {error}") from None


@contextlib.contextmanager
def opened(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a file as `open_file` does, for a block; one that cannot read on raises InputError as well."""
    with open_file(path) as file, reading(path):
        yield file


def _unbuffered(path: str) -> io.FileIO:
    """Open a file without waiting; of a pipe, wait a moment for somebody who writes to it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        head = _first_of_pipe(descriptor) if stat.S_ISFIFO(mode) else b""
        if sys.platform != "win32":
            os.set_blocking(descriptor, True)
        return io.FileIO(descriptor, "rb") if stat.S_ISREG(mode) else _Stream(descriptor, head, path)
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


class _Stream(io.FileIO):
    """A pipe or a device, which may never end: of more than `MOST_UNPACKED_BYTES`, reading raises InputError.

    ``head`` has been read from it already.
    """

    def __init__(self, descriptor: int, head: bytes, path: str) -> None:
        super().__init__(descriptor, "rb")
        self._head, self._path = head, path
        self._left_bytes = limits.MOST_UNPACKED_BYTES

    def readinto(self, buffer: Any) -> int | None:
        head, self._head = self._head, b""
        if head:
            buffer[: len(head)] = head
        count = len(head) or super().readinto(buffer)
        self._left_bytes -= count or 0
        if self._left_bytes < 0:
            most = f"{limits.MOST_UNPACKED_BYTES >> 20} MiB"
            raise InputError(self._path, f"is not a regular file and exceeds {most}")
        return count

    def readall(self) -> bytes:
        pieces, buffer = [], bytearray(_PIECE_BYTES)
        while count := self.readinto(buffer):
            pieces.append(bytes(buffer[:count]))
        return b"".join(pieces)


def read_bytes(path: PathLike, *, most: int | None = None, what: str = "") -> bytes:
    """Return the contents of a file. Raises InputError, also for more than ``most`` bytes.

    ``what`` then names the purpose for which they are too many.
    """
    with opened(path) as file:
        if most is None:
            return file.read()
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(path, f"is larger than the limit of {most >> 20} MiB of text {what}")
    return data


_ENCODINGS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Byte order marks at the start of a file, and the encoding that they mean."""


def plain_bytes(data: bytes, path: PathLike, *, most: int = limits.MOST_UNPACKED_BYTES) -> bytes:
    """Return a text file's bytes without gzip and byte order mark; UTF-16 becomes UTF-8.

    Raises InputError, also for more than ``most`` unpacked bytes.
    """
    if data[:2] == b"\x1f\x8b":
        with reading(path), gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
            data = unpacked.read(most + 1)
        if len(data) > most:
            raise InputError(path, f"is larger than the limit of {most >> 20} MiB of text when unpacked")
    mark = next((mark for mark in _ENCODINGS if data.startswith(mark)), None)
    if mark is None or _ENCODINGS[mark] == "utf-8":
        return data[len(mark or b"") :]
    try:
        return data.decode(_ENCODINGS[mark]).encode()
    except UnicodeError as error:
        raise InputError(path, f"is not the UTF-16 text that it begins as: {error}") from None


def read_plain_bytes(path: PathLike) -> bytes:
    """Return the bytes of a text file as `plain_bytes` does. Raises InputError."""
    return plain_bytes(read_bytes(path), path)


def read_lines(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each line, with its line end. Raises InputError."""
    with opened(path) as file:
        yield from enumerate(file, 1)


def read_blocks(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, many at a time, with the number (from 1) of the first. Raises InputError.

    Only the last block may lack the end of its last line.
    """
    number, rest = 1, b""
    with opened(path) as file:
        while piece := file.read(_BLOCK_BYTES):
            end = piece.rfind(b"\n") + 1
            if not end:
                rest += piece
                continue
            block, rest = rest + piece[:end], piece[end:]
            yield number, block
            number += block.count(b"\n")
    if rest:
        yield number, rest


def read_text(path: PathLike) -> str:
    """Return the contents of a UTF-8 text file. Raises InputError."""
    return as_text(read_bytes(path), path)


def as_text(data: bytes, path: PathLike | None, *, as_written: bool = False) -> str:
    r"""Return UTF-8 text, each of its lines ended by ``\n``. Raises InputError that names the line.

    ``as_written`` keeps the ends of lines, which may be part of quoted cells.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, not_utf8(data, error.start), line=line_at(data, error.start)) from None
    return text if as_written or "\r" not in text else text.replace("\r\n", "\n").replace("\r", "\n")


_OTHER_FILES: Final = {
    b"\x1f\x8b": "is a gzip file: unpack it first",
    codecs.BOM_UTF16_LE: "is not UTF-8 text but UTF-16: save it as UTF-8",
    codecs.BOM_UTF16_BE: "is not UTF-8 text but UTF-16: save it as UTF-8",
}
"""Starts of files that are not UTF-8 text, and messages about them."""


def not_utf8(data: bytes, at: int) -> str:
    """Return the error message for a byte that is not valid UTF-8."""
    for start, message in _OTHER_FILES.items():
        if data.startswith(start):
            return message
    before = data.rfind(b"\n", 0, at) + 1
    return f"is not UTF-8 text: found the byte 0x{data[at]:02x} as byte {at - before + 1} of the line"


def line_at(data: bytes, at: int) -> int:
    """Return the line, from 1, in which a byte is."""
    return data.count(b"\n", 0, at) + 1


def package_text(package: str, *path: str) -> str:
    """Return a text file that is included in the package."""
    return resources.files(package).joinpath(*path).read_text("utf-8")


def is_number(text: str) -> bool:
    """Whether a string is a number."""
    try:
        number_in(text)
    except ValueError:
        return False
    return True


def parse_toml(text: str, path: PathLike) -> dict[str, Any]:
    """Read TOML text, with or without a byte order mark; ``path`` is named in errors. Raises InputError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
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
