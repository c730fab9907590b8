"""Batsim's execution profiles: what a job does once it runs.

Modelled: ``delay``, ``parallel_homogeneous``, ``parallel_homogeneous_total`` and ``parallel`` without
communication, and ``composed`` sequences of them. Everything else is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beasy_sched.formats.json_numbers import as_batsim_reads

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
MODELLED = ("delay", "parallel_homogeneous", "parallel_homogeneous_total", "parallel", "composed")
"""The types of profile that can be simulated."""


class ProfileError(ValueError):
    """A profile is wrong, or of a sort that is not simulated: the text says which and why."""


class ProfileNotModelled(ProfileError):
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
    """A computation of its own on every host."""

    flops: tuple[float, ...]
    """Flops of each executor, in the order of the allocation."""


@dataclass(frozen=True, slots=True)
class Composed(Profile):
    """Other profiles one after the other, the whole sequence ``repeat`` times."""

    sequence: tuple[str, ...]
    repeat: int


def parse_profile(name: str, raw: Any) -> Profile:
    """Check one profile as Batsim does. Raises ProfileError."""
    if not isinstance(raw, Mapping):
        raise ProfileError(f"profile {name!r} is not an object")
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise ProfileError(f"profile {name!r} has no 'type' text")
    reader = _READERS.get(kind)
    if reader is None:
        raise _unknown(name, kind)
    code = raw.get("ret", 0)
    if not isinstance(code, int) or isinstance(code, bool) or code < 0:
        raise ProfileError(
            f"profile {name!r}: 'ret' is {code!r}, expected an integer of 0 or more (-1 and -2 are for kills)"
        )
    return reader(name, code, raw)


def _unknown(name: str, kind: str) -> ProfileError:
    if kind in _OTHERS:
        return ProfileNotModelled(
            f"profile {name!r} has type {kind!r}, which {_OTHERS[kind]}: this simulator models"
            f" {', '.join(MODELLED)}; use Batsim itself"
        )
    if kind in _OLD_NAMES:
        return ProfileError(
            f"profile {name!r} has type {kind!r}, the name before Batsim 3 of {_OLD_NAMES[kind]!r}: rename it"
            f" in the file, for example with sed -i 's/{kind}/{_OLD_NAMES[kind]}/'"
        )
    return ProfileError(f"profile {name!r} has the unknown type {kind!r}: expected {', '.join(MODELLED)}")


def _number(name: str, raw: Mapping[str, Any], field: str, *, positive: bool = False) -> float:
    value = raw.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        found = "is missing" if field not in raw else f"is {value!r}"
        raise ProfileError(f"profile {name!r}: {field!r} {found}, expected a number")
    if value < 0 or (positive and value == 0):
        wanted = "a strictly positive number" if positive else "0 or more"
        raise ProfileError(f"profile {name!r}: {field!r} is {value:g}, expected {wanted}")
    return as_batsim_reads(value)


def _refuse_communication(name: str) -> ProfileNotModelled:
    return ProfileNotModelled(
        f"profile {name!r} communicates ('com' is not 0), and the network is not simulated: set 'com' to 0,"
        " or use Batsim itself"
    )


def _delay(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    return Delay(name, code, _number(name, raw, "delay", positive=True))


def _homogeneous(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    flops = _number(name, raw, "cpu")
    if _number(name, raw, "com") > 0:
        raise _refuse_communication(name)
    return Homogeneous(name, code, flops, raw["type"] == "parallel_homogeneous_total")


def _parallel(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    vectors: dict[str, list[Any]] = {}
    for field in ("cpu", "com"):
        values = raw.get(field)
        if not isinstance(values, list):
            raise ProfileError(f"profile {name!r}: {field!r} is not an array")
        for value in values:
            _number(name, {field: value}, field)
        vectors[field] = values
    size = len(vectors["cpu"])
    if size == 0 or len(vectors["com"]) != size * size:
        raise ProfileError(
            f"profile {name!r}: 'cpu' has {size} values and 'com' {len(vectors['com'])},"
            f" expected {size * size}"
        )
    if any(vectors["com"]):
        raise _refuse_communication(name)
    return Parallel(name, code, tuple(map(as_batsim_reads, vectors["cpu"])))


def _composed(name: str, code: int, raw: Mapping[str, Any]) -> Profile:
    repeat = raw.get("repeat", 1)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 1:
        raise ProfileError(f"profile {name!r}: 'repeat' is {repeat!r}, expected 1 or more")
    sequence = raw.get("seq")
    if not isinstance(sequence, list) or not sequence or not all(isinstance(s, str) for s in sequence):
        raise ProfileError(f"profile {name!r}: 'seq' is not an array of profile names")
    return Composed(name, code, tuple(sequence), repeat)


_READERS: dict[str, Callable[[str, int, Mapping[str, Any]], Profile]] = {
    "delay": _delay,
    "parallel_homogeneous": _homogeneous,
    "parallel_homogeneous_total": _homogeneous,
    "parallel": _parallel,
    "composed": _composed,
}


def check_sequences(profiles: Mapping[str, Profile], names: list[str]) -> None:
    """Check that the sequences reachable from ``names`` exist and do not contain themselves.

    Raises ProfileError.
    """
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        profile = profiles[name]
        if name in done or not isinstance(profile, Composed):
            return
        for part in dict.fromkeys(profile.sequence):
            if part not in profiles:
                raise ProfileError(f"profile {name!r}: 'seq' names {part!r}, which does not exist")
            if part == name or part in above:
                raise ProfileError(f"profile {name!r}: 'seq' contains itself by way of {part!r}")
            visit(part, (*above, name))
        done.add(name)

    for name in names:
        visit(name, ())
