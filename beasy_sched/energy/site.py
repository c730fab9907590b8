"""The site: its storage, its grid, how long a step and a window are, how the guard acts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from beasy_sched.energy.battery_life import BatteryLife
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.storage import Storage


class GuardMode(str, Enum):
    """Which running jobs the storage guard kills when there is no energy for them."""

    SHED = "shed"
    """As few running jobs as keep the battery at SoC_min, those that have spent the least energy first."""
    KILL_ALL = "kill-all"
    """Every running job: the papers' wording."""


@dataclass(frozen=True)
class GuardSettings:
    """How the storage guard acts; named in every result, since it changes results much."""

    mode: GuardMode = GuardMode.SHED
    veto: bool = True
    """Whether starts and wakes must fit into what is left of the step's headroom."""


@dataclass(frozen=True)
class Site:
    """Everything a run needs to know about the place, in SI units."""

    storage: Storage
    step_s: float = 300.0
    window_s: float = 259_200.0
    guard: GuardSettings = GuardSettings()
    grid: Grid | None = None
    """Grid beside sun and wind; None for a site without a grid."""
    base_w: float = 0.0
    """Power of what always runs beside the servers (switches, the scheduler's own host), W."""
    calendar: Calendar | None = None
    """Calendar of the site; None where the site file does not say what time 0 is."""
    battery_life: BatteryLife | None = None
    """How the battery ages, and its price; None where the site file does not say."""

    @property
    def metered(self) -> bool:
        """Whether the results of the site tell base load, import and export."""
        return self.grid is not None or self.base_w > 0.0

    @property
    def import_limit_w(self) -> float:
        """Most power that the grid gives, W; 0 without a grid."""
        return 0.0 if self.grid is None else self.grid.import_limit_w

    @property
    def steps(self) -> int:
        """T: steps in a window."""
        return round(self.window_s / self.step_s)
