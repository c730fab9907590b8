"""The folder for temporary files of a campaign's processes, removed even if all of them are killed.

Each process holds a lock on a file in it; a later campaign removes the folders that no process holds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

_PREFIX: Final = "beasy-campaign-"
_ALIVE: Final = ".alive"
"""Name of the locked file."""


def new_scratch_folder() -> tuple[tempfile.TemporaryDirectory[str], BinaryIO]:
    """Create a folder for temporary files, held until the second object is closed or the process ends.

    Removes the folders of killed campaigns.
    """
    _remove_abandoned()
    folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    alive = Path(folder.name) / _ALIVE
    # Another campaign sees the file only when it is locked, and so does not remove the folder before.
    place = alive if sys.platform == "win32" else alive.with_name(f"{_ALIVE}.new")
    lock_file = _locked(place)
    if place != alive:
        place.rename(alive)
    return folder, lock_file


def hold(scratch: str) -> BinaryIO:
    """Also hold the folder of another process until the returned object is closed or the process ends."""
    return _locked(Path(scratch) / _ALIVE)


def _locked(path: Path) -> BinaryIO:
    """Open a file, and lock it."""
    lock_file = path.open("ab")
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(lock_file, fcntl.LOCK_SH)
    return lock_file


def _remove_abandoned() -> None:
    """Remove the folders that no process holds."""
    if sys.platform == "win32":
        return
    import fcntl

    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
                continue
            with (folder / _ALIVE).open("rb") as lock_file:
                fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
