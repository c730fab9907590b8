"""From SIMULATION_BEGINS to a platform: which kinds of servers the simulator has."""

from __future__ import annotations

import numpy as np

from beasy_sched.errors import ConfigError, PeerError
from beasy_sched.model.events import Resource, SimulationBegins
from beasy_sched.model.platform import (
    OLD_POWERS_PROPERTY,
    POWERS_PROPERTY,
    SPEEDS_PROPERTY,
    Platform,
    ServerKind,
)


def platform_of(begins: SimulationBegins, known: Platform | None = None) -> Platform:
    """Describe the simulator's hosts, by their properties or, by name, from ``known``.

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
    return Platform(tuple(kinds.values()), np.array(rows, dtype=np.intp), names)


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
