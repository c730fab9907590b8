"""Profiles of Batsim workloads: what jobs execute, checked as Batsim checks it, and how long it takes.

Of the execution profiles, ``delay``, ``parallel_homogeneous``, ``parallel_homogeneous_total`` and
``parallel`` without communication are modelled, and ``composed`` sequences of them. Everything else is
rejected by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beasy_sched.formats.batsim_versions import TYPES_OF_BATSIM5_ALONE
from beasy_sched.limits import LARGEST_INT, LATEST_S, MOST_FLOPS, MOST_NESTED
from beasy_sched.numbers import found_text
from beasy_sched.protocol.json_numbers import as_batsim_reads

_MODELLED = ("delay", "parallel_homogeneous", "parallel_homogeneous_total", "parallel", "composed")
_OTHERS = {
    "smpi": "needs the replay of MPI traces",
    "usage_trace": "needs the replay of usage traces",
    "parallel_homogeneous_pfs": "reads and writes a parallel file system",
    "parallel_homogeneous_pfs_multiple_tiers": "reads and writes a parallel file system",
    "data_staging": "moves data between storages",
    "send": "sends messages to the scheduler",
    "recv": "receives messages from the scheduler",
}
_OLD_NAMES = {
    "msg_par": "parallel",
    "msg_par_hg": "parallel_homogeneous",
    "msg_par_hg_tot": "parallel_homogeneous_total",
    "msg_par_hg_pfs": "parallel_homogeneous_pfs",
    "msg_par_hg_pfs0": "parallel_homogeneous_pfs",
}


class WorkloadError(ValueError):
    """A job or profile is wrong, or of a sort that is not simulated: the text states which and why."""


class ProfileNotModelled(WorkloadError):
    """A profile that Batsim could run, but that is not simulated here."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Base of all profiles."""

    name: str
    return_code: int
    """0, or what the job returns: above 0 it has failed."""


@dataclass(frozen=True, slots=True)
class Delay(Profile):
    """Wait, drawing idle power."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Homogeneous(Profile):
    """The same computation on every host."""

    flops: float
    """Flops of each executor, or of all together if ``total``."""
    total: bool = False


@dataclass(frozen=True, slots=True)
class Parallel(Profile):
    """A separate computation on every host."""

    flops: tuple[float, ...]
    """Flops of each executor, in the order of the allocation."""


@dataclass(frozen=True, slots=True)
class Composed(Profile):
    """Other profiles one after the other, the whole sequence ``repeat`` times."""

    sequence: tuple[str, ...]
    repeat: int


def parse_profile(name: str, raw: Any, takes: Callable[[float], float] = as_batsim_reads) -> Profile:
    """Check one profile as Batsim does, which ``takes`` numbers so. Raises WorkloadError."""
    if not isinstance(raw, Mapping):
        raise WorkloadError(f"profile {name!r} is not an object")
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise WorkloadError(f"profile {name!r} has no 'type' text")
    if kind not in _MODELLED:
        raise _unknown(name, kind)
    code = raw.get("ret", 0)
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= LARGEST_INT:
        raise WorkloadError(
            f"profile {name!r}: 'ret' is {found_text(code)}, expected an integer of 0 or more"
            " (-1 and -2 are for kills)"
        )
    if kind == "delay":
        return Delay(name, code, _number(name, raw, "delay", takes, positive=True))
    if kind == "composed":
        return _composed(name, code, raw)
    profile: Profile
    if kind == "parallel":
        profile, communicates = Parallel(name, code, _amounts(name, raw, takes)), any(raw["com"])
    else:
        flops, communicates = _number(name, raw, "cpu", takes), _number(name, raw, "com", takes) > 0
        profile = Homogeneous(name, code, flops, kind == "parallel_homogeneous_total")
    if communicates:
        raise ProfileNotModelled(
            f"profile {name!r} communicates ('com' is not 0), and the network is not simulated: set 'com' to"
            " 0, or use Batsim itself"
        )
    return profile


def _unknown(name: str, kind: str) -> WorkloadError:
    if kind in _OTHERS:
        return ProfileNotModelled(
            f"profile {name!r} has type {kind!r}, which {_OTHERS[kind]}: this simulator models"
            f" {', '.join(_MODELLED)}; use Batsim itself"
        )
    if kind in TYPES_OF_BATSIM5_ALONE:
        return ProfileNotModelled(
            f"profile {name!r} has type {kind!r}, which is not simulated here: use Batsim 5 itself"
        )
    if kind in _OLD_NAMES:
        return WorkloadError(
            f"profile {name!r} has type {kind!r}, the name before Batsim 3 of {_OLD_NAMES[kind]!r}: rename it"
            f" in the file, for example with sed -i 's/{kind}/{_OLD_NAMES[kind]}/'"
        )
    return WorkloadError(f"profile {name!r} has the unknown type {kind!r}: expected {', '.join(_MODELLED)}")


def _number(
    name: str, raw: Mapping[str, Any], field: str, takes: Callable[[float], float], *, positive: bool = False
) -> float:
    value = raw.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        problem = "is missing" if field not in raw else f"is {found_text(value)}"
        raise WorkloadError(f"profile {name!r}: {field!r} {problem}, expected a number")
    most = LATEST_S if field == "delay" else MOST_FLOPS
    if value > most:
        raise WorkloadError(f"profile {name!r}: {field!r} is {found_text(value)}, expected at most {most:g}")
    taken = takes(value)
    if taken < 0 or (positive and taken == 0):
        wanted = "a strictly positive number" if positive else "0 or more"
        raise WorkloadError(f"profile {name!r}: {field!r} is {value:g}, expected {wanted}")
    return taken


def _amounts(name: str, raw: Mapping[str, Any], takes: Callable[[float], float]) -> tuple[float, ...]:
    """The flops of each executor of a parallel task."""
    for field in ("cpu", "com"):
        values = raw.get(field)
        if not isinstance(values, list):
            raise WorkloadError(f"profile {name!r}: {field!r} is not an array")
        for value in values:
            _number(name, {field: value}, field, takes)
    size, pairs = len(raw["cpu"]), len(raw["com"])
    if size == 0 or pairs != size * size:
        raise WorkloadError(
            f"profile {name!r}: 'cpu' has {size} values and 'com' {pairs}, expected {size * size}"
        )
    return tuple(map(takes, raw["cpu"]))


def _composed(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    repeat = raw.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or not 1 <= repeat <= LARGEST_INT:
        raise WorkloadError(
            f"profile {name!r}: 'repeat' is {found_text(repeat)}, expected an integer from 1 to {LARGEST_INT}"
        )
    sequence = raw.get("seq")
    if not isinstance(sequence, list) or not sequence or not all(isinstance(s, str) for s in sequence):
        raise WorkloadError(f"profile {name!r}: 'seq' is not an array of profile names")
    return Composed(name, code, tuple(sequence), repeat)


def add_with_parts(
    name: str, profiles: Mapping[str, Profile | ProfileNotModelled], depths: dict[str, int]
) -> None:
    """Add a profile, and those that its sequence reaches, to ``depths``: how deep each nests sequences.

    Raises ProfileNotModelled, and WorkloadError for a part that does not exist or contains itself, and for
    sequences that are nested too deep.
    """

    def visit(name: str, above: tuple[str, ...]) -> None:
        profile = profiles[name]
        if isinstance(profile, ProfileNotModelled):
            raise profile
        depths[name] = depth = 0
        for part in dict.fromkeys(profile.sequence) if isinstance(profile, Composed) else ():
            if part not in profiles:
                raise WorkloadError(f"profile {name!r}: 'seq' names {part!r}, which does not exist")
            if part in (*above, name):
                raise WorkloadError(f"profile {name!r}: 'seq' contains itself by way of {part!r}")
            if part not in depths and len(above) < MOST_NESTED:
                visit(part, (*above, name))
            depth = max(depth, depths.get(part, MOST_NESTED) + 1)
            if depth > MOST_NESTED:
                raise WorkloadError(f"profile {name!r}: sequences are nested more than {MOST_NESTED} deep")
        depths[name] = depth

    if name not in depths:
        visit(name, ())


def profile_run_s(name: str, profiles: Mapping[str, Profile], hosts: int, speed_flops: float) -> float:
    """Seconds that a profile runs on ``hosts`` hosts of this speed; 0 for one that is not modelled."""
    known_s: dict[str, float] = {}

    def run_s(name: str) -> float:
        if name not in known_s:
            known_s[name] = once_s(profiles[name])
        return known_s[name]

    def once_s(profile: Profile) -> float:
        if isinstance(profile, Delay):
            return profile.delay_s
        if isinstance(profile, Homogeneous):
            return profile.flops / (max(hosts, 1) if profile.total else 1) / speed_flops
        if isinstance(profile, Parallel):
            return max(profile.flops, default=0.0) / speed_flops
        if isinstance(profile, Composed):
            return profile.repeat * sum(map(run_s, profile.sequence))
        return 0.0

    return run_s(name)
