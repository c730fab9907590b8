"""Shared by the programs behind scripts/reproduce_* and compare_policies: options, errors."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError, Interrupted
from beasy_sched.limits import shortened
from beasy_sched.numbers import Range

ENVIRONMENT = (
    "Variables: PYTHON names the Python for the environment; BEASY_VENV=DIR uses a ready environment and "
    "installs nothing."
)


MOST = 1_000_000
"""Largest number of whatever an option counts: days, seeds, servers, runs at a time."""


@dataclass(frozen=True)
class Number:
    """The type of an option: a number in a range."""

    allowed: Range

    def __call__(self, text: str) -> Any:
        """Return the number that a string contains."""
        try:
            return self.allowed.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None


def count(least: int, most: int = MOST) -> Number:
    """Return the type of integers from ``least`` to ``most``."""
    return Number(Range(least, most, whole=True))


SEED = count(0, 2**62)


def readable(text: str) -> Path:
    """Parse the name of an input file; refused before all runs if there is none."""
    path = Path(text)
    if path.is_dir() or not path.exists():
        raise argparse.ArgumentTypeError(f"found {shortened(text)!r}, expected a file that exists")
    return path


def exit_code_of(name: str, work: Callable[[], int], *, stopped: str | None = None) -> int:
    """Run a program; report an error or a signal in one line on stderr, and return the exit code.

    ``stopped`` is the message if a signal ends it: the signal's name by default, none if empty.
    """

    def stop(number: int, _: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):  # one is enough: processes are being stopped
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(signal.Signals(number).name, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        return work()
    except Interrupted as error:
        if stopped != "":
            print_line(f"{name}: {stopped or error}")
        return 128 + error.number
    except BeasyError as error:
        print_line(f"{name}: {error}")
        return error.exit_code
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print_line(f"{name}: {where}{error.strerror}")
        return 1
