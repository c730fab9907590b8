"""The inputs of a simulated run, ``PREFIX_inputs.json``: files with their SHA-256, and settings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.decoding import JsonDecoder, Malformed
from beasy_sched.formats.reading import read_bytes
from beasy_sched.formats.run_files import INPUTS, path_of


class InputFile(msgspec.Struct, frozen=True):
    """One input file."""

    path: str
    """Path, relative to the folder of the run's files."""
    sha256: str


class RunInputsFile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything from which a simulated run can be repeated."""

    platform: InputFile
    workloads: tuple[InputFile, ...]
    events: tuple[InputFile, ...] = ()
    failures: InputFile | None = None
    others: tuple[InputFile, ...] = ()
    """Further files that the settings or the site file name, such as a plan or prices."""
    master: str
    metering: bool
    settings: dict[str, Any]
    """Fields of `run.settings.RunSettings`; paths in them are relative to ``folder``."""
    folder: str
    """Working directory of the run, relative to the folder of its files."""


_DECODER = JsonDecoder(RunInputsFile)


def file_of(prefix: str, path: PathLike) -> InputFile:
    """Return the entry of a file. Raises InputError if it cannot be read."""
    return InputFile(os.path.relpath(path, _folder(prefix)), sha256_of(path))


def sha256_of(path: PathLike) -> str:
    """Return the SHA-256 of a file. Raises InputError if it cannot be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def relative_folder(prefix: str) -> str:
    """Return the working directory, relative to the folder of a run's files."""
    return os.path.relpath(os.getcwd(), _folder(prefix))


def _folder(prefix: str) -> str:
    return os.path.dirname(os.path.abspath(prefix))


def read_run_inputs(prefix: str) -> RunInputsFile:
    """Read the inputs of a run. Raises InputError if the file is missing or damaged."""
    path = path_of(prefix, INPUTS)
    if not path.is_file():
        raise InputError(
            path, "not found, so the run cannot be repeated: only runs of 'simulate' with -o have this file"
        )
    try:
        return _DECODER.decode(read_bytes(path))
    except Malformed as error:
        raise InputError(path, str(error)) from None


def checked_paths(prefix: str, files: Iterable[InputFile]) -> list[Path]:
    """Return where files are now. Raises InputError for one that has changed, or is gone."""
    found = []
    for file in files:
        path = Path(os.path.normpath(os.path.join(_folder(prefix), file.path)))
        if not path.is_file():
            raise InputError(path, f"the run {prefix} used this file, which is gone: restore it")
        if sha256_of(path) != file.sha256:
            raise InputError(
                path, f"the file has changed since the run {prefix}: restore it, or run 'simulate' again"
            )
        found.append(path)
    return found
