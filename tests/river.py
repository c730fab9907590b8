"""A source in one file: a run-of-river plant, whose power is that of its flow and head."""

from __future__ import annotations

from dataclasses import dataclass

from beasy_sched.energy.fields import require_fraction, require_positive
from beasy_sched.energy.sources import SourceKind, SourceSection
from beasy_sched.units import SECONDS_PER_DAY

WATER_KG_M3, GRAVITY_M_S2 = 1000.0, 9.81


@dataclass(frozen=True)
class Flow:
    """Power of a flow that falls by a share of it a day."""

    first_w: float
    falls_per_day: float

    def mean_w(self, start_s: float, end_s: float) -> float:
        middle_s = 0.5 * (start_s + end_s)
        return self.first_w * max(0.0, 1.0 - self.falls_per_day * middle_s / SECONDS_PER_DAY)


class RiverSection(SourceSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of a plant in a site file."""

    flow_m3_s: float
    head_m: float
    efficiency: float = 0.8
    falls_per_day: float = 0.0

    def series(self) -> Flow:
        require_positive("flow_m3_s", self.flow_m3_s)
        require_positive("head_m", self.head_m)
        require_fraction("efficiency", self.efficiency)
        return Flow(
            WATER_KG_M3 * GRAVITY_M_S2 * self.flow_m3_s * self.head_m * self.efficiency, self.falls_per_day
        )


RIVER = SourceKind("river", "river", "river_available", "river_w", RiverSection)
