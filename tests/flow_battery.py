"""A second battery in one file: a redox flow battery, whose pumps take a share of what it delivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from beasy_sched.energy.devices.device import Device, DeviceBounds, DeviceSection, Linear, kwh_of, kwh_text
from beasy_sched.energy.fields import require_fraction, require_positive
from beasy_sched.units import SECONDS_PER_HOUR, kw_to_w, kwh_to_j


class FlowSection(DeviceSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Section ``[flow_battery]`` of a site file."""

    conversions: ClassVar[Mapping[str, tuple[str, Callable[[float], float]]]] = {
        "electrolyte_kwh": ("electrolyte_j", kwh_to_j),
        "start_kwh": ("start_j", kwh_to_j),
        "target_kwh": ("target_j", kwh_to_j),
        "power_kw": ("power_w", kw_to_w),
    }

    electrolyte_kwh: float
    power_kw: float
    start_kwh: float = 0.0
    target_kwh: float = 0.0
    pumps: float = 0.9
    """Share of the energy drawn that reaches the site."""


@dataclass(frozen=True)
class FlowBattery(Device):
    """Energies in joules; charging has no losses."""

    section = "flow_battery"
    title = "flow battery"
    file = FlowSection
    varies = frozenset({"start_j", "target_j"})

    electrolyte_j: float
    power_w: float
    start_j: float = 0.0
    target_j: float = 0.0
    pumps: float = 0.9

    def __post_init__(self) -> None:
        require_positive("electrolyte_j", self.electrolyte_j)
        require_positive("power_w", self.power_w)
        require_fraction("pumps", self.pumps)

    @property
    def bounds(self) -> DeviceBounds:
        return DeviceBounds(0.0, self.electrolyte_j, self.power_w, self.power_w)

    @property
    def start(self) -> float:
        return self.start_j

    @property
    def target(self) -> float:
        return self.target_j

    def takes_w(self, level: float, offered_w: float, dt_s: float) -> float:
        return min(offered_w, self.bounds.in_w, max(0.0, self.bounds.most - level) / dt_s)

    def gives_w(self, level: float, wanted_w: float, dt_s: float) -> float:
        return min(wanted_w, self.bounds.out_w, max(0.0, level) * self.pumps / dt_s)

    def after(self, level: float, in_w: float, out_w: float, dt_s: float) -> float:
        return level + in_w * dt_s - out_w * dt_s / self.pumps

    def with_target(self, level: float) -> FlowBattery:
        return replace(self, target_j=level)

    def linear(self, power_w: float, step_s: float) -> Linear:
        limit = self.power_w / power_w
        return Linear(
            power_w * SECONDS_PER_HOUR, 1.0, 1.0, 1.0 / self.pumps, limit, limit, excludes=True, rank=3.0
        )

    def shown(self, level: Any) -> Any:
        return kwh_of(level)

    @classmethod
    def level_text(cls, shown: float) -> str:
        return kwh_text(shown)
