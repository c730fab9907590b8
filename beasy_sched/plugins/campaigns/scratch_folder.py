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


def new_scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for temporary files, and remove those of killed campaigns."""
    _remove_abandoned()
    return tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)


def hold(scratch: str) -> BinaryIO:
    """Hold the folder until the returned object is closed, or the process ends."""
    lock_file = (Path(scratch) / _ALIVE).open("ab")
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
