"""Options of offline plans. This module imports little, so that a command starts fast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from beasy_sched.declared import OptionDoc, check
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.limits import LATEST_S
from beasy_sched.model.choices import Surplus
from beasy_sched.numbers import Range
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.server_rules import ServerRules

if TYPE_CHECKING:
    from beasy_sched.planner.solver_limits import SolverLimits


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """User options of planning. Raises ConfigError."""

    surplus: Annotated[
        Surplus,
        OptionDoc(
            'priority for surplus power: the servers (``"envelope"``), or the battery (``"store"``)',
            "Priority for surplus power: servers (envelope) or battery (store).",
        ),
    ] = OfflineOptions.surplus
    load_uncertainty_pct: Annotated[
        tuple[float, float], OptionDoc("uncertainty of the demand, at the start and after 72 h, percent")
    ] = (100.0 * Uncertainty.at_once, 100.0 * Uncertainty.at_horizon)
    renew_uncertainty_pct: Annotated[tuple[float, float], OptionDoc("the same for the production")] = (
        load_uncertainty_pct
    )
    minimum_on_s: Annotated[
        float,
        OptionDoc("minimum time that a server stays on after waking, seconds", range=Range(0, LATEST_S)),
    ] = ServerRules.minimum_on_s
    forecast_step_s: Annotated[
        float,
        OptionDoc(
            "plan for the demand's mean over this time, s, a multiple of the site's step; {default}: over"
            " each step",
            "Plan for the demand's mean over this time, such as 1h, because individual job times cannot be"
            " forecast. [default: the site's step]",
        ),
    ] = OfflineOptions.forecast_step_s
    time_limit_s: Annotated[
        float | None,
        OptionDoc(
            "stop each search after this time, s; the plan then depends on the machine",
            "Stop each search after this time; results then depend on the machine (noted in the plan).",
            Range(0, LATEST_S),
        ),
    ] = None

    def __post_init__(self) -> None:
        check(self)
        self.uncertainty("load")
        self.uncertainty("renew")

    def uncertainty(self, name: Literal["load", "renew"]) -> Uncertainty:
        """Return u of the demand or of the production. Raises ConfigError."""
        at_once, later = getattr(self, f"{name}_uncertainty_pct")
        try:
            return Uncertainty(at_once / 100.0, later / 100.0)
        except ConfigError as error:
            raise ConfigError(f"{name}_uncertainty_pct: {error}") from None

    def settled(self, tank_targets_kg: tuple[float, ...] = ()) -> OfflineOptions:
        """Return the options for planning; the hydrogen targets are those of `OfflineOptions`."""
        limits = _limits(self.time_limit_s)
        return OfflineOptions(
            surplus=self.surplus,
            load_uncertainty=self.uncertainty("load"),
            renew_uncertainty=self.uncertainty("renew"),
            limits=limits,
            rules=ServerRules(minimum_on_s=self.minimum_on_s, time_s=limits.time_s),
            forecast_step_s=self.forecast_step_s,
            tank_targets_kg=tank_targets_kg,
        )


def _limits(time_limit_s: float | None) -> SolverLimits:
    from beasy_sched.planner.solver_limits import SolverLimits

    return SolverLimits(time_s=math.inf if time_limit_s is None else time_limit_s)
