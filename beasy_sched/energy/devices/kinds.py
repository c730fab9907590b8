"""The kinds of storage device, by the names of their sections in a site file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.errors import ConfigError

ENTRY_POINTS: Final = "beasy_sched.devices"
"""Entry-point group through which other packages add kinds of device: a section's name, and its class."""

KINDS: Final[dict[str, type[Device]]] = {kind.section: kind for kind in (BatterySpec, HydrogenSpec)}
"""Known kinds, in the order in which reports name them."""


def register(kind: type[Device]) -> None:
    """Add a kind of device. Raises ConfigError if its section or a column is another kind's."""
    for other in KINDS.values():
        if other is not kind and (
            other.section == kind.section or {*other.columns[:3]} & {*kind.columns[:3]}
        ):
            raise ConfigError(
                f"device {kind.section!r} ({kind.__module__}.{kind.__name__}): its section or a column is"
                f" also that of {other.__module__}.{other.__name__}: choose other names"
            )
    KINDS[kind.section] = kind


def kind_named(section: str) -> type[Device] | None:
    """Return the kind of a section, of this package or another's entry point; None if there is none.

    Raises ConfigError for an entry point that cannot be loaded.
    """
    if section not in KINDS:
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINTS, name=section):
            try:
                register(point.load())
            except ConfigError:
                raise
            except Exception as error:
                raise ConfigError(f"device {section!r}: cannot load {point.value}: {error}") from error
    return KINDS.get(section)


def all_kinds() -> tuple[type[Device], ...]:
    """Return all kinds, with those of other packages."""
    _load_others()
    return tuple(KINDS.values())


@cache
def _load_others() -> None:
    """Load the kinds of other packages, once a process: the entry points are read from files."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        kind_named(point.name)


def device_from(section: str, values: Mapping[str, Any]) -> Device:
    """Return a device from the fields in a plan file. Raises ConfigError if it cannot be made."""
    kind = kind_named(section)
    if kind is None:
        raise ConfigError(f"device {section!r}: unknown; expected one of {', '.join(KINDS)}")
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"device {section!r}: {error}") from None
