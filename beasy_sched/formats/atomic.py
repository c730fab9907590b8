"""Whole files or none: what is written appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from beasy_sched.errors import InputError

Content = str | bytes


def write_atomic(path: str | os.PathLike[str], content: Content | Iterable[Content]) -> None:
    """Write ``content`` (one text or many pieces; text as UTF-8) to ``path``, whole or not at all.

    Raises InputError, naming ``path``, where it cannot be written. A piece that fails to be made
    leaves an older file as it was.
    """
    pieces = [content] if isinstance(content, (str, bytes)) else content
    with atomic_file(path) as file:
        for piece in pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            with _explained(path):
                file.write(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the name ``path`` when the block ends without an exception.

    The bytes go to a temporary name in the same folder first. A device or a pipe (``/dev/stdout``) is
    written directly. Raises InputError where the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    special = os.path.exists(path) and not os.path.isfile(path)  # a pipe's link leads to no name of a file
    place = Path(path) if special else target.with_name(f".{target.name}.{os.getpid()}.part")
    with _explained(path):
        file = place.open("wb")
    try:
        try:
            yield file
        finally:
            with _explained(path):
                file.close()
        if not special:
            with _explained(path):
                os.replace(place, target)
    finally:
        if not special:
            place.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            reason = "its folder does not exist; create it first"
        else:
            reason = error.strerror or str(error)
        raise InputError(path, f"cannot be written: {reason}") from error
