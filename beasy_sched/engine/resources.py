"""From SIMULATION_BEGINS to a platform: which kinds of servers the simulator has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.model.events import Resource, SimulationBegins
from beasy_sched.model.platform import (
    OLD_POWERS_PROPERTY,
    POWERS_PROPERTY,
    SPEEDS_PROPERTY,
    START_PROPERTY,
    Platform,
    ServerKind,
)


def platform_of(begins: SimulationBegins, known: Platform | None = None) -> Platform:
    """Describe the simulator's hosts, by their properties or, by name, from ``known``.

    So is the P-state in which each starts: it comes from ``known``, or from the property `START_PROPERTY`.

    Raises PeerError for host ids that are not 0, 1, 2, ..., and ConfigError for a host that ``known``
    does not have or for properties that cannot be read.
    """
    resources = sorted(begins.resources, key=lambda resource: resource.id)
    if [resource.id for resource in resources] != list(range(len(resources))):
        raise PeerError("the hosts of SIMULATION_BEGINS are not numbered 0, 1, 2, ...")
    names = tuple(resource.name for resource in resources)
    if known is not None:
        return _by_name(names, known)
    kinds: dict[tuple[str, ...], ServerKind] = {}
    rows: list[int] = []
    order: dict[tuple[str, ...], int] = {}
    for resource in resources:
        key = _kind_key(resource)
        if key not in kinds:
            kinds[key] = ServerKind.from_properties(resource.name, resource.properties)
            order[key] = len(order)
        rows.append(order[key])
    built, kind_of = tuple(kinds.values()), np.array(rows, dtype=np.intp)
    return Platform(built, kind_of, names, _initial_pstates(resources, [built[row] for row in rows]))


def start_note(begins: SimulationBegins, platform: Platform) -> str | None:
    """Tell of the first host whose start state had to be guessed, else None. See `platform_of`."""
    for resource in sorted(begins.resources, key=lambda resource: resource.id):
        kind = platform.kind(resource.id)
        if START_PROPERTY not in resource.properties and 0 not in kind.computing:
            assert platform.initial_pstates is not None
            pstate = int(platform.initial_pstates[resource.id])
            state = "asleep" if pstate in kind.asleep_in else "on"
            return (
                f"the simulator does not tell in which P-state its hosts start, and P-state 0 of host"
                f" {resource.name!r} is no computing one: such hosts are taken to start {state}, in P-state"
                f" {pstate}; name the platform file with -p to be sure"
            )
    return None


def _initial_pstates(resources: Sequence[Resource], kinds: Sequence[ServerKind]) -> IntArray:
    """Return where each host starts: as its property says, else in 0 where that computes.

    Where P-state 0 is one of sleep or transition, a host that is said to be idle is in its first computing
    P-state. Batsim says so of all hosts, also of those that start asleep.
    """
    initial = np.zeros(len(resources), dtype=np.intp)
    for resource, kind in zip(resources, kinds, strict=True):
        told = resource.properties.get(START_PROPERTY, "")
        if told:
            if not (told.isascii() and told.isdigit() and int(told) < kind.pstates):
                raise ConfigError(
                    f"host {resource.name!r}: {START_PROPERTY} {told!r} is none of its P-states, expected 0"
                    f" to {kind.pstates - 1}"
                )
            initial[resource.id] = int(told)
        elif kind.sleep is not None and resource.state == "sleeping":
            initial[resource.id] = kind.sleep.pstate
        elif 0 not in kind.computing:
            initial[resource.id] = kind.computing[0]
    return initial


def _kind_key(resource: Resource) -> tuple[str, ...]:
    return tuple(resource.properties.get(name, "") for name in _KIND_PROPERTIES)


_KIND_PROPERTIES = (POWERS_PROPERTY, OLD_POWERS_PROPERTY, "sleep_pstates", SPEEDS_PROPERTY)


def _by_name(names: tuple[str, ...], known: Platform) -> Platform:
    at = {name: index for index, name in enumerate(known.names)}
    missing = [name for name in names if name not in at]
    if missing:
        raise ConfigError(
            f"the platform file lacks host {missing[0]!r}, which the simulator has"
            f" ({len(missing)} of {len(names)} hosts are missing): is it the file that Batsim was given?"
        )
    rows = np.array([at[name] for name in names], dtype=np.intp)
    initial = None if known.initial_pstates is None else known.initial_pstates[rows]
    return Platform(known.kinds, known.kind_of[rows], names, initial)
