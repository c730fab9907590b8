"""Settings of offline plans."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from beasy_sched.errors import ConfigError
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.model.choices import Surplus
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.solver_limits import SolverLimits

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.energy.storage import Storage


FORECAST_STEP: Final = "forecast_step_s"
"""Setting of a plan's provenance that has `OfflineOptions.forecast_step_s`, if that is not 0."""


TANK_TARGETS: Final = "tank_targets_kg"
"""Setting of a plan's provenance that has `OfflineOptions.tank_targets_kg`, separated by spaces."""


@dataclass(frozen=True)
class OfflineOptions:
    """Options for planning, in addition to site, platform and forecasts."""

    surplus: Surplus = Surplus.ENVELOPE
    load_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    renew_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    limits: SolverLimits = field(default_factory=SolverLimits)
    rules: ServerRules = field(default_factory=ServerRules)
    forecast_step_s: float = 0.0
    """Time over which the demand is averaged for plans, s; 0: the plan's own step."""
    tank_targets_kg: tuple[float, ...] = ()
    """Hydrogen target at the end of each window, kg, from a seasonal plan (`Season.targets_kg`); empty:
    the site's ``level_target_kg`` at the end of every window. Windows beyond them have the last one."""

    def described(self) -> dict[str, str]:
        """Return the options as strings, for a plan's provenance."""
        return {
            "surplus": self.surplus.value,
            "minimum_on_s": f"{self.rules.minimum_on_s:g}",
            "switch_cost_s": f"{self.rules.switch_cost_s:g}",
            "server_gap": f"{self.rules.gap:g}",
            "power_gap": f"{self.limits.relative_gap:g}",
            **({FORECAST_STEP: f"{self.forecast_step_s:g}"} if self.forecast_step_s else {}),
            **({TANK_TARGETS: " ".join(map(repr, self.tank_targets_kg))} if self.tank_targets_kg else {}),
        }

    def forecast_steps(self, step_s: float) -> int:
        """Return the number of steps over which demand is averaged. Raises ConfigError for parts of steps."""
        steps = self.forecast_step_s / step_s
        if abs(steps - round(steps)) > 1e-9 or (self.forecast_step_s and steps < 1):
            raise ConfigError(
                f"forecast step: found {self.forecast_step_s:g} s, expected a multiple of the site's step"
                f" ({step_s:g} s)"
            )
        return max(round(steps), 1)

    def storage_of(self, site: Site, window: int) -> Storage:
        """Return the site's storage, with the hydrogen target of a window."""
        hydrogen = site.storage.hydrogen
        if not self.tank_targets_kg or hydrogen is None:
            return site.storage
        target_kg = min(
            max(self.tank_targets_kg[min(window, len(self.tank_targets_kg) - 1)], 0.0), hydrogen.tank_kg
        )
        return replace(site.storage, hydrogen=replace(hydrogen, level_target_kg=target_kg))
