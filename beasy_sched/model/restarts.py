"""Restarts of jobs: what a kill costs, checkpoints, and the fields of a job about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from beasy_sched.limits import LATEST_S, shortened
from beasy_sched.model.jobs import TermsError

LINEAGE_MARK: Final = "#"
"""Sign between the id of a job and the number of its life: ``w0!12#1``."""
SHORTEST_REST_S: Final = 60.0
"""Least walltime of a job that came back, in addition to the time of reading its checkpoint, s."""
MEMBERS: Final = frozenset(("checkpoint", "requeue"))
"""Fields of a job that concern its restarts."""


class Checkpoints(Struct, frozen=True, gc=False):
    """Checkpoints of a job: when they are written, and what they cost."""

    interval_s: float = 3600.0
    """Time that a job works from one checkpoint to the next, s."""
    dump_s: float = 60.0
    """Time for which a job does not advance while it writes a checkpoint, s; its hosts draw full power."""
    read_s: float = 90.0
    """Time for which a job that came back reads its checkpoint, s; its hosts draw full power."""


class RestartSettings(Struct, frozen=True, gc=False):
    """The section ``[restart]`` of a site file."""

    checkpoints: Checkpoints = Checkpoints()
    """Checkpoints of jobs that have no own."""
    notice_s: float = 0.0
    """Time between the guard's decision to kill a job and the kill, s; 0: at once. In this time, the job
    writes a last checkpoint."""
    most: int | None = None
    """Number of times that a job may come back; None: any."""


NO_RESTART_SECTION: Final = RestartSettings()
"""Settings where the site file has no such section."""


def daly_interval_s(dump_s: float, between_kills_s: float) -> float:
    """Return the interval between checkpoints with the least loss, s (J. T. Daly 2006, Eq. 37).

    ``dump_s``: time of writing a checkpoint, ``between_kills_s``: mean time between kills of a job, s.
    """
    if dump_s >= 2.0 * between_kills_s:
        return between_kills_s
    ratio = math.sqrt(dump_s / (2.0 * between_kills_s))
    return math.sqrt(2.0 * dump_s * between_kills_s) * (1.0 + ratio / 3.0 + ratio**2 / 9.0) - dump_s


class RestartTerms(Struct, frozen=True, gc=False):
    """Terms of a job about its restarts."""

    requeue: bool = True
    """Whether the job may come back."""
    checkpoints: Checkpoints | None = None
    """Checkpoints of the job; None if it writes none."""


def read_restart_terms(members: Mapping[str, Any] | None, default: Checkpoints) -> RestartTerms:
    """Read the fields ``checkpoint`` and ``requeue`` of a job; ``default`` applies where it has none.

    Raises TermsError.
    """
    if members is None or MEMBERS.isdisjoint(members):
        return RestartTerms(checkpoints=default)
    requeue = members.get("requeue", True)
    if not isinstance(requeue, bool):
        raise TermsError(f"requeue: found {shortened(repr(requeue))}, expected true or false")
    return RestartTerms(requeue, _checkpoints(members.get("checkpoint"), default))


def _checkpoints(value: Any, default: Checkpoints) -> Checkpoints | None:
    if value is None:
        return default
    if value is False:
        return None
    names = Checkpoints.__struct_fields__
    if not isinstance(value, Mapping):
        expected = f"false, or an object with {', '.join(names)}"
        raise TermsError(f"checkpoint: found {shortened(repr(value))}, expected {expected}")
    if others := [name for name in value if name not in names]:
        raise TermsError(
            f"checkpoint.{shortened(str(others[0]))}: no such field, expected one of {', '.join(names)}"
        )
    checkpoints = Checkpoints(**{name: value.get(name, getattr(default, name)) for name in names})
    if (wrong := wrong_checkpoints(checkpoints)) is not None:
        name, expected = wrong
        raise TermsError(
            f"checkpoint.{name}: found {shortened(repr(getattr(checkpoints, name)))}, expected {expected}"
        )
    return checkpoints


def wrong_checkpoints(given: Checkpoints) -> tuple[str, str] | None:
    """Return the name of the first field with an invalid value, and the values expected; None if all fit."""
    for name in Checkpoints.__struct_fields__:
        value = getattr(given, name)
        above = name == "interval_s"
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= LATEST_S or (above and value == 0):
            return name, f"a number above 0, at most {LATEST_S:g} s" if above else (
                f"a number from 0 to {LATEST_S:g} s"
            )
    if given.dump_s >= given.interval_s:
        return "dump_s", f"less than the interval of {given.interval_s:g} s between checkpoints"
    return None


def full_id(job_id: str, life: int) -> str:
    """Return the id of a life of the job ``job_id``; life 0 is the job as it was submitted."""
    return f"{job_id}{LINEAGE_MARK}{life}" if life else job_id


def first_id(job_id: str) -> str:
    """Return the id of the first life of a lineage, from the id of any of its lives."""
    return job_id.partition(LINEAGE_MARK)[0]


def next_id(job_id: str) -> str:
    """Return the id of the life after that of ``job_id``."""
    first, _, life = job_id.partition(LINEAGE_MARK)
    return full_id(first, int(life) + 1 if life.isdecimal() else 1)
