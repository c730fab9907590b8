"""The offline planner: plans one window after the other, each starting where the previous one ends.

In each window, power and servers negotiate once (thesis, Section 3.1.1): the servers ask for their demand,
the power decisions offer an envelope, and the servers are planned within it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.plan.forecast import Uncertainty, checked_powers, full_draw_w
from beasy_sched.plan.plan import Plan, PlannedServers, PlanStore, Provenance, Solved
from beasy_sched.plan.power import plan_power
from beasy_sched.plan.power_problem import PowerProblem, Surplus
from beasy_sched.plan.servers import ServerRules, ServerStart, least_power_w, plan_servers
from beasy_sched.plan.solver import SolverLimits, solver_name

TANK_TARGETS: Final = "tank_targets_kg"
"""Setting of a plan's provenance that has `OfflineOptions.tank_targets_kg`, separated by spaces."""


class NoPlan(BeasyError):
    """No plan was found: the message says why."""


@dataclass(frozen=True)
class OfflineOptions:
    """Options for planning, in addition to site, platform and forecasts."""

    surplus: Surplus = Surplus.ENVELOPE
    load_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    renew_uncertainty: Uncertainty = Uncertainty()  # noqa: RUF009 - immutable
    limits: SolverLimits = field(default_factory=SolverLimits)
    rules: ServerRules = field(default_factory=ServerRules)
    tank_targets_kg: tuple[float, ...] = ()
    """Hydrogen wanted at the end of each window, kg, from a plan of the season (`Season.targets_kg`); empty:
    the site's ``level_target_kg`` at the end of every window. Windows beyond them have the last one."""

    def described(self) -> dict[str, str]:
        """The options as text, for a plan's provenance."""
        return {
            "surplus": self.surplus.value,
            "minimum_on_s": f"{self.rules.minimum_on_s:g}",
            "switch_cost_s": f"{self.rules.switch_cost_s:g}",
            "server_gap": f"{self.rules.gap:g}",
            "power_gap": f"{self.limits.relative_gap:g}",
            **({TANK_TARGETS: " ".join(map(repr, self.tank_targets_kg))} if self.tank_targets_kg else {}),
        }

    def storage_of(self, site: Site, window: int) -> Storage:
        """The site's storage, with the hydrogen target of a window."""
        hydrogen = site.storage.hydrogen
        if not self.tank_targets_kg or hydrogen is None:
            return site.storage
        target_kg = min(
            max(self.tank_targets_kg[min(window, len(self.tank_targets_kg) - 1)], 0.0), hydrogen.tank_kg
        )
        return replace(site.storage, hydrogen=replace(hydrogen, level_target_kg=target_kg))


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
    """Plan as many windows of the site as the forecasts (W per step, from time 0) fill.

    ``report`` is called with the fraction completed. Raises ConfigError for forecasts that do not fill
    whole windows or a platform without powers, and NoPlan where a window has no plan.
    """
    options = options or OfflineOptions()
    load, renew = checked_powers("demand", load_w), checked_powers("production", renew_w)
    if len(load) != len(renew) or len(load) % site.steps:
        raise ConfigError(
            f"the demand has {len(load)} steps and the production {len(renew)}: "
            f"expected the same number for both, filling whole windows of {site.steps} steps"
        )
    if not (platform.has_powers and platform.has_speeds):
        raise ConfigError(
            "planning needs the speeds and powers of every host, but the platform does not have them all"
        )
    provenance = replace(provenance, solver=solver_name(), settings=options.described())
    storage, servers = site.storage.start(), ServerStart.all_on(platform)
    plans: list[Plan] = []
    count = len(load) // site.steps
    if options.tank_targets_kg and len(options.tank_targets_kg) < count:
        raise ConfigError(
            f"the season has targets for {len(options.tank_targets_kg)} windows, {count} are to be planned"
        )
    for window in range(count):
        steps = slice(window * site.steps, (window + 1) * site.steps)
        start = WindowStart(window, steps.start * site.step_s, storage, servers)
        plan, servers = plan_window(site, platform, load[steps], renew[steps], start, options, provenance)
        plans.append(plan)
        storage = plan.level_at(-1)
        if report is not None:
            report((window + 1) / count)
    return PlanStore(plans)


@dataclass(frozen=True)
class WindowStart:
    """How a window begins."""

    window: int
    """Number of the window in the run."""
    start_s: float
    """When what is planned starts, on the run's clock: with the window, or within it."""
    storage: StorageState
    servers: ServerStart


def plan_window(
    site: Site,
    platform: Platform,
    load_w: FloatArray,
    renew_w: FloatArray,
    start: WindowStart,
    options: OfflineOptions,
    provenance: Provenance,
) -> tuple[Plan, ServerStart]:
    """Plan a window, or the rest of one; return its plan and the state of the servers at its end.

    The forecasts have one value (W) for each step to plan. Raises NoPlan.
    """
    steps, step_s, rules, window = len(load_w), site.step_s, options.rules, start.window
    floor_w = least_power_w(platform, steps, step_s, start.servers)
    most_w = full_draw_w(platform)
    target = options.storage_of(site, window)
    problem = PowerProblem(
        target,
        np.minimum(load_w, most_w),
        renew_w,
        step_s,
        floor_w * (1 + 1e-9),
        max(most_w, float(floor_w.max())),
        options.surplus,
        start.storage,
        import_limit_w=0.0 if site.grid is None else site.grid.import_limit_w,
        base_w=site.base_w,
        tank_from_surplus=bool(options.tank_targets_kg),
    )
    power = plan_power(problem, options.limits)
    if power.plan is None:
        raise NoPlan(f"window {window}: {power.outcome.message}")
    envelope_w = power.plan.envelope_w
    servers = plan_servers(platform, envelope_w, step_s, rules=rules, start=start.servers, window=window)
    if not servers.outcome.has_point:
        raise NoPlan(f"window {window}: {servers.outcome.message}")
    solved = tuple(
        Solved(name, outcome.status.value, outcome.gap, outcome.message)
        for name, outcome in (("power", power.outcome), ("servers", servers.outcome))
    )
    plan = Plan(
        start_s=start.start_s,
        step_s=step_s,
        storage=target,
        power=power.plan,
        load_uncertainty=options.load_uncertainty.over(steps, step_s),
        renew_uncertainty=options.renew_uncertainty.over(steps, step_s),
        servers=PlannedServers(platform.kinds, platform.kind_of, servers.states, servers.energy_j),
        provenance=replace(provenance, solved=solved),
    )
    return plan, servers.end
