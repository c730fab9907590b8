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
from typing import TypeVar

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.devices.battery import charge_power_limit, energy_after_step
from beasy_sched.energy.end_value import planned_worth
from beasy_sched.energy.grid_charging import GridCharge
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import LoadAhead
from beasy_sched.energy.storage import Storage, StorageState
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.forecast.outlook import ForecastSource
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import (
    checked_powers,
    full_draw_w,
    mean_over,
)
from beasy_sched.planner.offline_options import OfflineOptions
from beasy_sched.planner.plan import INFEASIBLE, Plan, PlannedServers, PlanStore, Provenance, Solved
from beasy_sched.planner.power_plan import plan_power, sleep_shortage
from beasy_sched.planner.power_problem import PowerPlan, PowerProblem
from beasy_sched.planner.requests import DemandForecast, PlanRequest, ServerStart, WindowForecast
from beasy_sched.planner.servers import least_power_w, plan_servers
from beasy_sched.planner.solver import solver_name

T = TypeVar("T")


class NoPlan(BeasyError):
    """No plan was found; the message has the reason."""


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
    site_load = None
    if site.has_load_ahead:
        site_load = site.load_ahead(0.0, site.step_s * np.arange(len(load) + 1, dtype=np.float64))
    plans: list[Plan] = []
    count = len(load) // site.steps
    if options.tank_targets_kg and len(options.tank_targets_kg) < count:
        raise ConfigError(
            f"the season has targets for {len(options.tank_targets_kg)} windows, expected {count}"
        )
    for window in range(count):
        steps = slice(window * site.steps, (window + 1) * site.steps)
        edges_s = site.step_s * np.arange(steps.start, steps.stop + 1, dtype=np.float64)
        charge = GridCharge.ahead(site.grid, site.storage.battery, 0.0, edges_s)
        start = WindowStart(
            window, steps.start * site.step_s, storage, servers, site_load and site_load.during(steps), charge
        )
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
    site_load: LoadAhead | None = None
    """Load besides the servers in the steps to plan, where it changes or depends on them; None: the site's
    constant base load."""
    grid_charge: GridCharge | None = None
    """Charge from the grid that its rule is expected to allow; None without a rule."""


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
    power, power_solved = _planned_power(problem, start, options, explain)
    envelope_w = power.envelope_w
    servers = plan_servers(platform, envelope_w, step_s, rules=rules, start=start.servers, window=window)
    if servers.solved.status == INFEASIBLE:
        raise NoPlan(f"window {window}: {servers.solved.message}")
    plan = Plan(
        start_s=start.start_s,
        step_s=step_s,
        storage=problem.storage,
        power=power,
        load_uncertainty=options.load_uncertainty.over(steps, step_s),
        renew_uncertainty=options.renew_uncertainty.over(steps, step_s),
        servers=PlannedServers(platform.kinds, platform.kind_of, servers.states, servers.energy_j),
        provenance=replace(provenance, solved=(power_solved, servers.solved)),
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
        services_w=None if start.site_load is None else start.site_load.services_w,
        pue=None if start.site_load is None else start.site_load.pue,
        tank_from_surplus=bool(options.tank_targets_kg),
        grid_charge=start.grid_charge,
        end_worth=planned_worth(site, start.start_s, start.start_s + len(load_w) * site.step_s),
    )


def _planned_power(
    problem: PowerProblem, start: WindowStart, options: OfflineOptions, explain: bool
) -> tuple[PowerPlan, Solved]:
    """Return the window's power plan. Raises NoPlan; with ``explain``, with the unreachable requirement."""
    decision = plan_power(problem, options.limits, explain=explain)
    if decision.plan is None:
        raise NoPlan(f"window {start.window}: {decision.solved.message}")
    return decision.plan, decision.solved


@dataclass(frozen=True)
class ReplanRule:
    """Rule for plans made during a run: interval and forecasts."""

    every_steps: int
    """Number of steps between plans, counted from time 0."""
    demand: DemandForecast
    renew_w: FloatArray | None
    """Expected production of each step from time 0 on, W; None for the run's forecast at each planning."""
    options: OfflineOptions = field(default_factory=OfflineOptions)
    plans: tuple[Plan, ...] | None = None
    """The plan file's plans, with which the run begins; None without a plan file."""
    production: ForecastSource | None = None
    """Expected production that is renewed during the run; replaces ``renew_w`` and the run's forecast."""


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
        start = WindowStart(part.window, start_s, level, servers, part.site_load, part.grid_charge)
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
    hydrogen_kg = min(max(level.hydrogen_kg, 0.0), tank_kg)
    return StorageState(battery_j, hydrogen_kg, storage.within_bounds(level.others))


def first_shortage(site: Site, platform: Platform, request: PlanRequest, options: OfflineOptions) -> str:
    """Describe what the first plan of ``request`` lacks with all servers asleep, "" if nothing.

    Only powers are planned. Raises NoPlan like `make_plans` for the same request, and ConfigError.
    """
    part = request.parts[0]
    level = _possible(site.storage, request.level)
    start = WindowStart(
        part.window, request.start_s, level, request.servers, part.site_load, part.grid_charge
    )

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
                planned_window = attempt(explain=False)
            except NoPlan:
                first = first or attempt
                continue
            if begin == start.storage:
                return planned_window, ""
            asked = _problem(site, platform, part.load_w, part.renew_w, start, options)
            return planned_window, sleep_shortage(asked)
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
    site_load = LoadAhead(site.base_w) if start.site_load is None else start.site_load
    floor_w = site_load.cooled(least_power_w(platform, len(part.renew_w), step_s, start.servers))
    floor_w = floor_w + site_load.always_w
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
    return StorageState(min(raised_j, battery.max_j), level.hydrogen_kg, level.others)


def _targets(storage: Storage, level: StorageState) -> list[Storage]:
    """Yield the storage with its targets, and with lower ones, the highest first."""
    targets = [storage]
    for lowest in (level, storage.least()):
        lower = storage.with_targets_from(lowest)
        if lower != targets[-1]:
            targets.append(lower)
    return targets
