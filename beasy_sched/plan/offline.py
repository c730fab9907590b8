"""The offline side as a whole: windows planned one after the other, each from where the last one ends.

How power and servers agree on an envelope (the negotiation module, thesis Section 3.1.1).

The thesis negotiates once, in three steps. Another way, with rounds and a timeout, is another function
of the type `Negotiation`; neither the power decisions nor the server decisions know about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import StorageState
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plan.forecast import Uncertainty, full_draw_w
from beasy_sched.plan.plan import Plan, PlannedServers, Provenance, Solved
from beasy_sched.plan.power import PowerDecision, plan_power
from beasy_sched.plan.power_problem import PowerProblem, Surplus, checked_powers
from beasy_sched.plan.servers import ServerPlan, ServerRules, ServerStart, least_power_w, plan_servers
from beasy_sched.plan.solver import SolverLimits, solver_name
from beasy_sched.plan.store import PlanStore

PowerModule = Callable[[FloatArray], PowerDecision]
"""Answers a demand (W a step) with the best power plan for it."""
ServerModule = Callable[[FloatArray], ServerPlan]
"""Fits the servers into an envelope (W a step)."""


@dataclass(frozen=True)
class Agreement:
    """What was agreed on; ``servers`` is None where there is no power plan."""

    power: PowerDecision
    servers: ServerPlan | None


Negotiation = Callable[[FloatArray, PowerModule, ServerModule], Agreement]


def negotiate_once(demand_w: FloatArray, power: PowerModule, servers: ServerModule) -> Agreement:
    """The thesis's way: ask for the demand, take the envelope that is offered, fit the servers into it."""
    decision = power(demand_w)
    if decision.plan is None:
        return Agreement(decision, None)
    return Agreement(decision, servers(decision.plan.envelope_w))


class NoPlan(BeasyError):
    """No plan was found: the message says why."""


@dataclass(frozen=True)
class OfflineOptions:
    """Choices that shape plans, beside site, platform and forecasts."""

    surplus: Surplus = Surplus.ENVELOPE
    load_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    renew_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    limits: SolverLimits = field(default_factory=SolverLimits)
    rules: ServerRules = field(default_factory=ServerRules)
    negotiation: Negotiation = negotiate_once

    def described(self) -> dict[str, str]:
        """For a plan's provenance."""
        return {
            "surplus": self.surplus.value,
            "minimum_on_s": f"{self.rules.minimum_on_s:g}",
            "switch_cost_s": f"{self.rules.switch_cost_s:g}",
            "server_gap": f"{self.rules.gap:g}",
            "power_gap": f"{self.limits.relative_gap:g}",
        }


def plan_windows(
    site: Site,
    platform: Platform,
    load_w: FloatArray,
    renew_w: FloatArray,
    *,
    options: OfflineOptions | None = None,
    provenance: Provenance,
    report: Callable[[float], None] | None = None,
) -> PlanStore:
    """Plan as many windows of the site as the forecasts (W a step, from time 0) fill.

    ``report`` is called with the share that is done. Raises ConfigError for forecasts that do not fill
    whole windows or a platform without powers, and NoPlan where a window has no plan.
    """
    options = options or OfflineOptions()
    load, renew = checked_powers("demand", load_w), checked_powers("production", renew_w)
    if len(load) != len(renew) or len(load) % site.steps:
        raise ConfigError(
            f"the demand has {len(load)} steps and the production {len(renew)}: "
            f"expected the same number, whole windows of {site.steps}"
        )
    if not (platform.has_powers and platform.has_speeds):
        raise ConfigError("planning needs the speeds and powers of every host, and the platform lacks some")
    provenance = replace(provenance, solver=solver_name(), settings=options.described())
    storage, servers = site.storage.start(), ServerStart.all_on(platform)
    plans: list[Plan] = []
    count = len(load) // site.steps
    for window in range(count):
        steps = slice(window * site.steps, (window + 1) * site.steps)
        try:
            plan, servers = _window(
                site, platform, load[steps], renew[steps], options, storage, servers, window
            )
        except NoPlan as error:
            raise NoPlan(f"window {window}: {error}") from None
        plans.append(replace(plan, provenance=replace(provenance, solved=plan.provenance.solved)))
        storage = plan.level_at(-1)
        if report is not None:
            report((window + 1) / count)
    return PlanStore(plans)


def _window(
    site: Site,
    platform: Platform,
    load_w: FloatArray,
    renew_w: FloatArray,
    options: OfflineOptions,
    storage: StorageState,
    start: ServerStart,
    window: int,
) -> tuple[Plan, ServerStart]:
    """One window, and how its servers stand at its end."""
    steps, step_s = site.steps, site.step_s
    floor_w = least_power_w(platform, steps, step_s, start)
    most_w = full_draw_w(platform)

    def power(demand_w: FloatArray) -> PowerDecision:
        problem = PowerProblem(
            site.storage,
            np.minimum(demand_w, most_w),
            renew_w,
            step_s,
            floor_w * (1 + 1e-9),
            max(most_w, float(floor_w.max())),
            options.surplus,
            storage,
        )
        return plan_power(problem, options.limits)

    def servers(envelope_w: FloatArray) -> ServerPlan:
        return plan_servers(platform, envelope_w, step_s, rules=options.rules, start=start, window=window)

    agreed = options.negotiation(load_w, power, servers)
    if agreed.power.plan is None or agreed.servers is None:
        raise NoPlan(agreed.power.outcome.message)
    fitted = agreed.servers
    if not fitted.outcome.has_point:
        raise NoPlan(fitted.outcome.message)
    solved = tuple(
        Solved(name, outcome.status.value, outcome.gap, outcome.message)
        for name, outcome in (("power", agreed.power.outcome), ("servers", fitted.outcome))
    )
    plan = Plan(
        start_s=window * steps * step_s,
        step_s=step_s,
        storage=site.storage,
        power=agreed.power.plan,
        load_uncertainty=options.load_uncertainty.over(steps, step_s),
        renew_uncertainty=options.renew_uncertainty.over(steps, step_s),
        servers=PlannedServers(platform.kinds, platform.kind_of, fitted.states, fitted.energy_j),
        provenance=Provenance("", solved=solved),
    )
    return plan, fitted.end
