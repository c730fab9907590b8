"""pybatsim's example schedulers, which its 3.2.0 package leaves out when it is installed.

They are downloaded once and kept: those of 3.2.1, whose files of the schedulers used here are the same,
and which is a wheel. BEASY_PYBATSIM_SCHEDULERS names a folder that has them already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RELEASE = "pybatsim==3.2.1"
FOLDER = "BEASY_PYBATSIM_SCHEDULERS"


class NoExamples(Exception):
    """They are not here and cannot be had."""


def examples_folder(keep: Path) -> Path:
    """Return the folder of the schedulers, below ``keep`` if they must be downloaded. Raises NoExamples."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    folder = keep / "schedulers"
    if not (folder / "easyBackfill.py").exists():
        _download(keep)
    return folder


def _download(keep: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        command += ["--retries", "1", "--timeout", "10", "-d", temporary, RELEASE]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoExamples(
                f"pybatsim's schedulers cannot be downloaded (pip download {RELEASE}): is an index in reach?"
                f" {FOLDER} may name a folder that has them"
            )
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("schedulers/")]
            archive.extractall(keep, names)
