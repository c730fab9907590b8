"""The site: storage, grid, lengths of steps and windows, and behaviour of the guard."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from beasy_sched.energy.battery_life import BatteryLife
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.storage import Storage


class GuardMode(str, Enum):
    """Selection of the running jobs that the storage guard kills for lack of energy."""

    SHED = "shed"
    """The fewest running jobs needed to keep the battery at SoC_min, those that spent least energy first."""
    KILL_ALL = "kill-all"
    """Every running job, as worded in the papers."""


@dataclass(frozen=True)
class GuardSettings:
    """Behaviour of the storage guard; included in every result, because of its large effect."""

    mode: GuardMode = GuardMode.SHED
    veto: bool = True
    """Whether starts and wakes must fit into the step's remaining headroom."""


@dataclass(frozen=True)
class Site:
    """All data of a run about its site, in SI units."""

    storage: Storage
    step_s: float = 300.0
    window_s: float = 259_200.0
    guard: GuardSettings = GuardSettings()
    grid: Grid | None = None
    """Grid in addition to solar and wind; None for a site without a grid."""
    base_w: float = 0.0
    """Base load in addition to the servers (switches, the scheduler's host), W."""
    calendar: Calendar | None = None
    """Calendar of the site; None if the site file does not define time 0."""
    battery_life: BatteryLife | None = None
    """Ageing and price of the battery; None if the site file has none."""

    @property
    def metered(self) -> bool:
        """Whether the site's results include base load, import and export."""
        return self.grid is not None or self.base_w > 0.0

    @property
    def import_limit_w(self) -> float:
        """Maximum grid power, W; 0 without a grid."""
        return 0.0 if self.grid is None else self.grid.import_limit_w

    @property
    def steps(self) -> int:
        """T: steps in a window."""
        return round(self.window_s / self.step_s)
