"""The site: storage, grid, lengths of steps and windows, and behaviour of the guard."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.battery_life import BatteryLife
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.cooling import Cooling
from beasy_sched.energy.grid import Grid
from beasy_sched.energy.site_load import Course, LoadAhead, StepLoad
from beasy_sched.energy.sources import SiteSource
from beasy_sched.energy.storage import Storage
from beasy_sched.model.restarts import NO_RESTART_SECTION, RestartSettings


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
    sources: tuple[SiteSource, ...] = ()
    """Sources of the site file; those with a series add to the announced production."""
    restarts: RestartSettings = NO_RESTART_SECTION
    """Checkpoints of jobs, and how often they come back."""
    battery_life: BatteryLife | None = None
    """Ageing and price of the battery; None if the site file has none."""
    cooling: Cooling | None = None
    """Cooling and losses in proportion to the servers' power; None without any."""
    services: Course | None = None
    """Services in addition to the base load, W over time; None without any."""

    @property
    def metered(self) -> bool:
        """Whether the site's results include base load, import and export."""
        return self.grid is not None or self.base_w > 0.0 or self.services is not None

    def load_during(self, start_s: float, end_s: float) -> StepLoad:
        """Return the load besides the servers in the present step, from ``start_s`` to ``end_s``."""
        if not self.has_load_ahead:
            return self._constant_load
        step_s = self.step_s
        services_w = 0.0 if self.services is None else self.services.during(start_s, end_s, step_s)
        pue = 1.0 if self.cooling is None else self.cooling.during(start_s, end_s, step_s)
        return StepLoad(self.base_w + services_w, pue, services_w)

    def load_ahead(self, now: float, edges_s: FloatArray) -> LoadAhead:
        """Return the load besides the servers in steps between ``edges_s`` (s), as known at ``now``."""
        if not self.has_load_ahead:
            return self._constant_ahead
        services, cooling = self.services, self.cooling
        return LoadAhead(
            self.base_w,
            None if services is None else services.expected(now, self.step_s, edges_s),
            None if cooling is None else cooling.expected(now, self.step_s, edges_s),
        )

    @cached_property
    def has_load_ahead(self) -> bool:
        """Whether the load besides the servers changes over time, or depends on them."""
        return self.services is not None or self.cooling is not None

    @cached_property
    def _constant_load(self) -> StepLoad:
        return StepLoad(self.base_w)

    @cached_property
    def _constant_ahead(self) -> LoadAhead:
        return LoadAhead(self.base_w)

    @property
    def import_limit_w(self) -> float:
        """Maximum grid power, W; 0 without a grid."""
        return 0.0 if self.grid is None else self.grid.import_limit_w

    @property
    def steps(self) -> int:
        """T: steps in a window."""
        return round(self.window_s / self.step_s)
