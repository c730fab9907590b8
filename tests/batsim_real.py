"""A real Batsim 4.2.1 for tests: the program, its platforms, and runs with our daemon."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[1] / ".." / "shared" / "batsim"
"""Batsim's source and some of its platforms, beside the project."""
_INSTALLED = Path("/opt/batsim/batsim")


def real_batsim() -> Path:
    """Find Batsim: $BATSIM, /opt/batsim/batsim, or one that is built from the source beside the project.

    The test is skipped where there is none.
    """
    named = os.environ.get("BATSIM")
    if named:
        assert os.access(named, os.X_OK), f"BATSIM={named} is not a program"
        return Path(named)
    if os.access(_INSTALLED, os.X_OK):
        return _INSTALLED
    if not os.access(BESIDE / "build", os.X_OK):
        pytest.skip(f"no Batsim: neither $BATSIM, {_INSTALLED} nor {BESIDE / 'build'} exists")
    return _built()


@cache
def _built() -> Path:
    """Build Batsim once for all tests of a process; it takes about a minute."""
    program = Path(tempfile.gettempdir()) / f"batsim-of-tests-{os.getuid()}" / "batsim"
    if not os.access(program, os.X_OK):
        program.parent.mkdir(exist_ok=True)
        done = subprocess.run([BESIDE / "build", program], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no Batsim: {BESIDE / 'build'} failed: {done.stderr[-500:]}")
    return program


def batsims_platform(name: str) -> Path:
    """Find one of Batsim's own platforms beside the project; the test is skipped where it is missing."""
    path = BESIDE / "platforms" / name
    if not path.exists():
        pytest.skip(f"no platform: {path} does not exist")
    return path
