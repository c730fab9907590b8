"""The storage of a site: its devices, and their levels between two steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.hydrogen import HydrogenPlan, HydrogenSpec
from beasy_sched.energy.devices.kinds import device_from
from beasy_sched.errors import ConfigError


class StorageState(Struct, frozen=True):
    """Storage levels between two steps."""

    battery_j: float
    hydrogen_kg: float = 0.0
    others: tuple[float, ...] = ()
    """Levels of the other devices, in the storage's order and each in its own unit."""


@dataclass(frozen=True)
class Storage:
    """The devices of a site: a battery (`NO_BATTERY` where it has none), and those that it has.

    Raises ConfigError for devices that are unknown or have numbers out of range.
    """

    battery: BatterySpec
    hydrogen: HydrogenSpec | None = None
    others: dict[str, dict[str, Any]] | UnsetType = UNSET
    """Fields of the other devices by section, as in a plan file, in the order in which they serve; unset
    without any."""

    def __post_init__(self) -> None:
        _ = self.other_devices

    @classmethod
    def of(cls, devices: Iterable[Device], battery: BatterySpec) -> Storage:
        """Return the storage of these devices; ``battery`` is that of a site whose devices have none."""
        by_section = {device.section: device for device in devices}
        first = by_section.pop(BatterySpec.section, battery)
        hydrogen = by_section.pop(HydrogenSpec.section, None)
        others = {section: msgspec.to_builtins(device) for section, device in by_section.items()}
        assert isinstance(first, BatterySpec)
        assert hydrogen is None or isinstance(hydrogen, HydrogenSpec)
        return cls(first, hydrogen, others or UNSET)

    @cached_property
    def other_devices(self) -> tuple[Device, ...]:
        """Devices other than battery and hydrogen, in the order in which they serve."""
        if self.others is UNSET:
            return ()
        return tuple(device_from(section, values) for section, values in self.others.items())

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices: the battery, which may be `NO_BATTERY`, hydrogen if there is any, and the others."""
        hydrogen = () if self.hydrogen is None else (self.hydrogen,)
        return (self.battery, *hydrogen, *self.other_devices)

    @property
    def tank_kg(self) -> float:
        """Size of the tank, kg; 0 without hydrogen."""
        return self.hydrogen.tank_kg if self.hydrogen else 0.0

    def start(self) -> StorageState:
        """The state at the start of the first window."""
        level_kg = self.hydrogen.level_start_kg if self.hydrogen else 0.0
        others = tuple(device.start for device in self.other_devices)
        return StorageState(self.battery.start_j, level_kg, others)

    def levels(self, state: StorageState) -> tuple[float, ...]:
        """Return the levels of all `devices`, in their order."""
        hydrogen = () if self.hydrogen is None else (state.hydrogen_kg,)
        return (state.battery_j, *hydrogen, *state.others)

    def with_targets_from(self, state: StorageState) -> Storage:
        """Return the storage with targets reachable from ``state`` in place of higher ones."""
        pairs = zip(self.devices, self.levels(state), strict=True)
        lower = (device.with_target(level) if level < device.least_end else device for device, level in pairs)
        return Storage.of(lower, self.battery)

    def least(self) -> StorageState:
        """Return the least levels."""
        others = tuple(device.bounds.least for device in self.other_devices)
        return StorageState(self.battery.min_j, 0.0, others)

    def within_bounds(self, levels: Sequence[float]) -> tuple[float, ...]:
        """Return levels of the other devices, moved within their bounds."""
        pairs = zip(self.other_devices, levels, strict=True)
        return tuple(min(max(level, device.bounds.least), device.bounds.most) for device, level in pairs)

    def check_plan(self, planned: HydrogenPlan) -> None:
        """Raise ConfigError if the plan uses hydrogen and the site has none, or asks for less than 0."""
        if not (planned.electrolyzer_w >= 0 and planned.fuel_cell_w >= 0):
            raise ConfigError(
                f"planned hydrogen powers must not be negative: electrolyzer {planned.electrolyzer_w} W, "
                f"fuel cell {planned.fuel_cell_w} W"
            )
        if self.hydrogen is None and (planned.electrolyzer_w or planned.fuel_cell_w):
            raise ConfigError(
                "the plan uses hydrogen but the site has none: add a [hydrogen] section to the site file, "
                "or use a plan that was made for this site"
            )
