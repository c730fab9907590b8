"""Plans of windows, each starting where the previous one ends, made before a run or during it.

In each window, power and servers negotiate once (thesis, Section 3.1.1): the servers request their demand,
the power decisions offer an envelope, and the servers are planned within it.

Plans made during a run start from the current levels, servers and jobs: `make_plans` serves a `PlanRequest`,
its only input. docs/decisions/beasy-and-plans.md#rolling-plans describes the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.storage import Storage, StorageState, charge_power_limit, energy_after_step
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.forecast.quantiles import Quantiles, Uncertainty
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import (
    checked_powers,
    full_draw_w,
    mean_over,
)
from beasy_sched.planner.plan import Plan, PlannedServers, PlanStore, Provenance, Solved
from beasy_sched.planner.power_plan import plan_power, sleep_shortage
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem, Surplus
from beasy_sched.planner.requests import DemandForecast, PlanRequest, ServerStart, WindowForecast
from beasy_sched.planner.servers import ServerRules, least_power_w, plan_servers
from beasy_sched.planner.solver import SolverLimits, SolverOutcome, solver_name

T = TypeVar("T")

FORECAST_STEP: Final = "forecast_step_s"
"""Setting of a plan's provenance that has `OfflineOptions.forecast_step_s`, if that is not 0."""
TANK_TARGETS: Final = "tank_targets_kg"
"""Setting of a plan's provenance that has `OfflineOptions.tank_targets_kg`, separated by spaces."""


class NoPlan(BeasyError):
    """No plan was found; the message has the reason."""


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


def plan_windows(
    site: Site,
    platform: Platform,
    load_w: FloatArray,
    renew_w: FloatArray,
    *,
    options: OfflineOptions | None = None,
    provenance: Provenance,
    report: Callable[[float], None] | None = None,
    load_quantiles: Quantiles | None = None,
) -> PlanStore:
    """Plan as many windows of the site as the forecasts (W per step, from time 0) fill.

    ``report`` is called with the fraction completed; ``load_quantiles`` has the demand's quantiles, if it has
    any. Raises ConfigError for forecasts that do not fill
    whole windows or a platform without powers, and NoPlan if a window has no plan.
    """
    options = options or OfflineOptions()
    load, renew = checked_powers("demand", load_w), checked_powers("production", renew_w)
    if len(load) != len(renew) or len(load) % site.steps:
        raise ConfigError(
            f"the demand has {len(load)} steps and the production {len(renew)}: "
            f"expected the same number for both, filling whole windows of {site.steps} steps"
        )
    provenance = replace(provenance, solver=solver_name(), settings=options.described())
    storage, servers = site.storage.start(), ServerStart.all_on(platform)
    plans: list[Plan] = []
    count = len(load) // site.steps
    if options.tank_targets_kg and len(options.tank_targets_kg) < count:
        raise ConfigError(
            f"the season has targets for {len(options.tank_targets_kg)} windows, expected {count}"
        )
    for window in range(count):
        steps = slice(window * site.steps, (window + 1) * site.steps)
        start = WindowStart(window, steps.start * site.step_s, storage, servers)
        plan, servers = plan_window(site, platform, load[steps], renew[steps], start, options, provenance)
        quantiles = load_quantiles and load_quantiles.during(steps)
        plans.append(_with_quantiles(plan, quantiles, platform, options))
        storage = plan.level_at(-1)
        if report is not None:
            report((window + 1) / count)
    return PlanStore(plans)


@dataclass(frozen=True)
class WindowStart:
    """Start of a window."""

    window: int
    """Number of the window in the run."""
    start_s: float
    """Simulated time from which the window is planned, s: its start, or a time within it."""
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
    explain: bool = True,
) -> tuple[Plan, ServerStart]:
    """Plan a window, or the rest of one; return its plan and the state of the servers at its end.

    The forecasts have one value (W) for each step to plan. Raises NoPlan; with ``explain``, its message
    names the unreachable requirement.
    """
    steps, step_s, rules, window = len(load_w), site.step_s, options.rules, start.window
    load_w = mean_over(load_w, options.forecast_steps(step_s))
    problem = _problem(site, platform, load_w, renew_w, start, options)
    power, power_outcome = _planned_power(problem, start, options, explain)
    envelope_w = power.envelope_w
    servers = plan_servers(platform, envelope_w, step_s, rules=rules, start=start.servers, window=window)
    if not servers.outcome.has_point:
        raise NoPlan(f"window {window}: {servers.outcome.message}")
    solved = tuple(
        Solved(name, outcome.status.value, outcome.gap, outcome.message)
        for name, outcome in (("power", power_outcome), ("servers", servers.outcome))
    )
    plan = Plan(
        start_s=start.start_s,
        step_s=step_s,
        storage=problem.storage,
        power=power,
        load_uncertainty=options.load_uncertainty.over(steps, step_s),
        renew_uncertainty=options.renew_uncertainty.over(steps, step_s),
        servers=PlannedServers(platform.kinds, platform.kind_of, servers.states, servers.energy_j),
        provenance=replace(provenance, solved=solved),
    )
    return plan, servers.end


def _with_quantiles(
    plan: Plan, quantiles: Quantiles | None, platform: Platform, options: OfflineOptions
) -> Plan:
    """Return the plan with the demand's quantiles, if any, averaged and limited like its demand."""
    if quantiles is None:
        return plan
    steps, most_w = options.forecast_steps(plan.step_s), full_draw_w(platform)
    limited = quantiles.mapped(lambda load_w: np.minimum(mean_over(load_w, steps), most_w))
    return replace(plan, load_quantiles=limited)


def _problem(
    site: Site,
    platform: Platform,
    load_w: FloatArray,
    renew_w: FloatArray,
    start: WindowStart,
    options: OfflineOptions,
) -> PowerProblem:
    """Return the input of the power decisions for a window, or the rest of one."""
    floor_w = least_power_w(platform, len(load_w), site.step_s, start.servers)
    most_w = full_draw_w(platform)
    return PowerProblem(
        options.storage_of(site, start.window),
        np.minimum(load_w, most_w),
        renew_w,
        site.step_s,
        floor_w * (1 + 1e-9),
        max(most_w, float(floor_w.max())),
        options.surplus,
        start.storage,
        import_limit_w=site.import_limit_w,
        base_w=site.base_w,
        tank_from_surplus=bool(options.tank_targets_kg),
    )


def _planned_power(
    problem: PowerProblem, start: WindowStart, options: OfflineOptions, explain: bool
) -> tuple[PowerPlan, SolverOutcome]:
    """Return the window's power plan. Raises NoPlan; with ``explain``, with the unreachable requirement."""
    decision = plan_power(problem, options.limits, explain=explain)
    if decision.plan is None:
        raise NoPlan(f"window {start.window}: {decision.outcome.message}")
    return decision.plan, decision.outcome


@dataclass(frozen=True)
class ReplanRule:
    """Rule for plans made during a run: interval and forecasts."""

    every_steps: int
    """Number of steps between plans, counted from time 0."""
    demand: DemandForecast
    renew_w: FloatArray | None
    """Expected production of each step from time 0 on, W; None for the run's forecast at each planning."""
    options: OfflineOptions = field(default_factory=OfflineOptions)


def make_plans(
    site: Site, platform: Platform, request: PlanRequest, options: OfflineOptions, provenance: Provenance
) -> tuple[Plan, ...]:
    """Make the requested plans: one for each part, each starting where the previous one ends.

    A target that cannot be reached from the level at the start is replaced: by that level, or else by the
    least level. The servers of later parts are planned quickly: these plans are replaced before they begin,
    unless planning fails. Raises NoPlan if the first part has no plan; if a later one has none, the plans end
    before it. A plan that starts above the level, because the site cannot stay above SoC_min even with all
    servers asleep, notes this in its provenance.
    """
    provenance = replace(
        provenance, solver=solver_name(), settings=options.described(), rolled=request.rolled
    )
    level, servers, start_s = _possible(site.storage, request.level), request.servers, request.start_s
    plans: list[Plan] = []
    for part in request.parts:
        start = WindowStart(part.window, start_s, level, servers)
        if plans:
            options = replace(options, rules=replace(options.rules, sketch=True))
        planned = partial(plan_window, provenance=provenance)
        try:
            (plan, servers), shortage = _within_reach(site, platform, part, start, options, planned)
        except NoPlan:
            if not plans:
                raise
            break
        plan = _with_quantiles(plan, part.load_quantiles, platform, options)
        plans.append(plan if not shortage else _with_shortage(plan, shortage))
        level, start_s = plan.level_at(-1), plan.end_s
    return tuple(plans)


def _possible(storage: Storage, level: StorageState) -> StorageState:
    """Return the level nearest to ``level`` at which a plan can start: the guard may go below SoC_min."""
    battery, tank_kg = storage.battery, storage.tank_kg
    battery_j = min(max(level.battery_j, battery.min_j), battery.max_j)
    return StorageState(battery_j, min(max(level.hydrogen_kg, 0.0), tank_kg))


def first_shortage(site: Site, platform: Platform, request: PlanRequest, options: OfflineOptions) -> str:
    """Describe what the first plan of ``request`` lacks with all servers asleep, "" if nothing.

    Only powers are planned. Raises NoPlan like `make_plans` for the same request, and ConfigError.
    """
    part = request.parts[0]
    level = _possible(site.storage, request.level)
    start = WindowStart(part.window, request.start_s, level, request.servers)

    def power_alone(
        site: Site,
        platform: Platform,
        load_w: FloatArray,
        renew_w: FloatArray,
        start: WindowStart,
        options: OfflineOptions,
        *,
        explain: bool = True,
    ) -> PowerPlan:
        problem = _problem(site, platform, load_w, renew_w, start, options)
        return _planned_power(problem, start, options, explain)[0]

    return _within_reach(site, platform, part, start, options, power_alone)[1]


def _with_shortage(plan: Plan, shortage: str) -> Plan:
    """Return the plan with the reason in its provenance why it starts above the requested level."""
    solved = tuple(
        replace(one, message="; ".join(filter(None, (shortage, one.message)))) if one.name == "power" else one
        for one in plan.provenance.solved
    )
    return replace(plan, provenance=replace(plan.provenance, solved=solved))


def _within_reach(
    site: Site,
    platform: Platform,
    part: WindowForecast,
    start: WindowStart,
    options: OfflineOptions,
    planned: Callable[..., T],
) -> tuple[T, str]:
    """Plan a part with ``planned`` and the highest of its reachable targets.

    If none can, because sleeping servers alone take the battery below SoC_min, the plan starts
    high enough above the level to stay there: a run's guard goes below SoC_min for them. Returns the plan and
    the missing energy. Raises NoPlan, for the first target.
    """
    first: Callable[[], T] | None = None
    higher = replace(start, storage=_with_sleep_paid(site, platform, part, start))
    for begin in dict.fromkeys((start.storage, higher.storage)):
        for storage in _targets(options.storage_of(site, part.window), begin):
            if options.tank_targets_kg and storage.hydrogen is not None:
                options = replace(options, tank_targets_kg=(storage.hydrogen.level_target_kg,))
            attempt = partial(
                planned,
                replace(site, storage=storage),
                platform,
                part.load_w,
                part.renew_w,
                replace(start, storage=begin),
                options,
            )
            try:
                found = attempt(explain=False)
            except NoPlan:
                first = first or attempt
                continue
            if begin == start.storage:
                return found, ""
            asked = _problem(site, platform, part.load_w, part.renew_w, start, options)
            return found, sleep_shortage(asked)
    if first is None:
        raise NoPlan(f"window {start.window}: no target")
    return first(), ""  # raises again, with the reason


def _with_sleep_paid(
    site: Site, platform: Platform, part: WindowForecast, start: WindowStart
) -> StorageState:
    """Return the least levels from the initial ones on at which all servers can sleep without hydrogen."""
    battery, step_s, level = site.storage.battery, site.step_s, start.storage
    if not battery.exists:
        return level
    floor_w = least_power_w(platform, len(part.renew_w), step_s, start.servers) + site.base_w
    net_w = part.renew_w - floor_w
    charge_w, discharge_w = np.maximum(net_w, 0.0), np.maximum(-net_w - site.import_limit_w, 0.0)
    lowest_j = now_j = level.battery_j
    for into_w, out_w in zip(charge_w.tolist(), discharge_w.tolist(), strict=True):
        into_w = min(into_w, charge_power_limit(battery, min(now_j, battery.max_j), step_s))
        now_j = energy_after_step(battery, now_j, into_w, out_w, step_s)
        lowest_j = min(lowest_j, now_j)
    missing_j = battery.min_j - lowest_j
    if missing_j <= 0.0:
        return level
    lost = max(battery.kept_fraction(part.renew_w.size * step_s), 0.5)
    raised_j = level.battery_j + 1.01 * missing_j / lost + 1e-5 * battery.capacity_j
    return StorageState(min(raised_j, battery.max_j), level.hydrogen_kg)


def _targets(storage: Storage, level: StorageState) -> list[Storage]:
    """Yield the storage with its targets, and with lower ones, the highest first."""
    battery, hydrogen = storage.battery, storage.hydrogen
    found = [storage]
    for lowest in (level, StorageState(battery.min_j, 0.0)):
        lower = storage
        if battery.exists and lowest.battery_j < battery.target_j:
            # Slightly below the level, which self-discharge would otherwise make unreachable.
            pct = max(battery.soc_min_pct, 0.98 * battery.soc_pct(lowest.battery_j))
            lower = replace(lower, battery=replace(battery, soc_target_pct=pct))
        if hydrogen is not None and lowest.hydrogen_kg < hydrogen.level_target_kg:
            lower = replace(lower, hydrogen=replace(hydrogen, level_target_kg=lowest.hydrogen_kg))
        if lower != found[-1]:
            found.append(lower)
    return found
