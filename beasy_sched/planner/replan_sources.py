"""Sources of plans made during a run: files named in the settings, or a plan's forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.energy.sources import with_own_w
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.outlook import ForecastSource
from beasy_sched.forecast.quantiles import Quantiles
from beasy_sched.forecast.uncertainty import Uncertainty
from beasy_sched.formats.batsim_workload import expected_jobs
from beasy_sched.formats.forecast_source import only_live, read_forecast
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.power_series import read_demand, read_power_series
from beasy_sched.formats.site_file import parse_site
from beasy_sched.formats.source_names import is_command
from beasy_sched.model.choices import Surplus
from beasy_sched.model.platform import Platform
from beasy_sched.planner.offline import hashes_of, season_targets_kg
from beasy_sched.planner.offline_options import FORECAST_STEP, TANK_TARGETS, OfflineOptions
from beasy_sched.planner.plan import Plan, Rolled
from beasy_sched.planner.requests import (
    GIVEN_BEFORE,
    NO_JOBS,
    PLANNED_AHEAD,
    DemandForecast,
    PlanRequest,
    PowerForecast,
    ServerStart,
    Span,
    WindowForecast,
    part_of,
)
from beasy_sched.planner.server_rules import ServerRules
from beasy_sched.planner.windows import NoPlan, ReplanRule, first_shortage
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.units import parse_duration

Plans: TypeAlias = tuple[Plan, ...]


def replan_rule(
    settings: RunSettings,
    replan: ReplanSettings,
    platform: Callable[[], Platform | None],
    production: ForecastSource | None = None,
) -> ReplanRule:
    """Read the rule for plans made during the run from ``replan`` of the settings.

    ``platform`` reads the platform, if it is known before the run; ``production`` replaces the production
    of the settings. Raises ConfigError and InputError like a
    run with these settings.
    """
    site = site_of(settings)
    every = every_steps(replan.every, site)
    plans = None if settings.plan is None else (*read_plans(settings.plan),)
    _check_forecasts(settings, replan, plans is not None)
    servers = platform()
    options = _options(plans)
    if replan.season is not None:
        targets_kg = season_targets_kg(replan.season, site, settings.windows)
        options = replace(options, tank_targets_kg=targets_kg)
    demand = _demand(settings, replan, site, plans, servers)
    renew_w = None if production is not None else _production_w(settings, replan, site, plans)
    return ReplanRule(every, demand, renew_w, options, plans, production)


def first_plan_shortage(settings: RunSettings, rule: ReplanRule, platform: Platform) -> str:
    """Describe what the site lacks with all servers asleep in a run's initial plan, "" if nothing.

    The settings, from which ``rule`` was read, do not name an initial plan. Raises ConfigError, InputError
    and NoPlan like the run, as far as powers show this.
    """
    site = site_of(settings)
    try:
        return first_shortage(site, platform, first_request(rule, site, platform, settings), rule.options)
    except NoPlan as error:
        raise no_first_plan(error) from None


def no_first_plan(problem: object) -> NoPlan:
    """Return the error for a missing initial plan, caused by ``problem``."""
    return NoPlan(f"no initial plan for the run: {problem}")


def site_of(settings: RunSettings) -> Site:
    """Return the site of the plans. Raises ConfigError and InputError."""
    if settings.site is None:
        raise ConfigError("--replan requires a site: pass --site FILE")
    return parse_site(settings.site, settings.site_name)


def _check_forecasts(settings: RunSettings, replan: ReplanSettings, planned: bool) -> None:
    """Raise ConfigError if there are no forecasts, or two; ``planned``: those of a plan are there."""
    if replan.workloads and replan.demand is not None:
        raise ConfigError("give only one of --replan-workload and --replan-demand")
    if not replan.workloads and replan.demand is None and not planned:
        raise ConfigError(
            "--replan requires the expected demand: --replan-workload, --replan-demand, or a --plan"
        )
    if replan.production is None and settings.forecast is None and not planned:
        raise ConfigError(
            "--replan requires the expected production: --forecast, --replan-production, or a --plan"
        )


def _demand(
    settings: RunSettings,
    replan: ReplanSettings,
    site: Site,
    plans: Plans | None,
    platform: Platform | None,
) -> DemandForecast:
    if replan.workloads:
        if platform is None:
            raise ConfigError(
                "--replan-workload requires the platform (-p): its speed determines the run times"
            )
        return expected_jobs(replan.workloads, platform)
    if replan.demand is not None:
        steps = site.steps * settings.windows
        return PowerForecast(*read_demand(replan.demand, steps=steps, step_s=site.step_s))
    return PowerForecast(_of_plans(plans, "load_w"), _quantiles_of(plans or ()))


def _production_w(
    settings: RunSettings, replan: ReplanSettings, site: Site, plans: Plans | None
) -> FloatArray | None:
    if replan.production is not None:
        if is_command(replan.production):
            raise ConfigError(only_live(f"--replan-production {replan.production}"))
        steps = site.steps * settings.windows
        announced_w = read_power_series(replan.production, steps=steps, step_s=site.step_s, as_run=True)
        return with_own_w(site.sources, announced_w, site.step_s)
    return None if settings.forecast is not None else _of_plans(plans, "renew_w")


def _of_plans(plans: Plans | None, name: str) -> FloatArray:
    if plans is None:
        raise RuntimeError("there is no plan with forecasts")
    return np.concatenate([getattr(plan.power, name) for plan in plans])


def _quantiles_of(plans: Plans) -> Quantiles | None:
    """Return the demand quantiles common to all plans; None if one has none, or other levels."""
    of_plans = [plan.load_quantiles for plan in plans]
    given = [quantiles for quantiles in of_plans if quantiles is not UNSET]
    if len(given) < len(of_plans) or len({tuple(each.levels) for each in given}) > 1:
        return None
    return Quantiles(given[0].levels, np.concatenate([each.power_w for each in given], axis=1))


def _options(plans: Plans | None) -> OfflineOptions:
    """Return the options of the plan file, or else the defaults."""
    if plans is None:
        return OfflineOptions()
    plan, options = plans[0], plans[0].provenance.settings
    rules, usual = ServerRules(), OfflineOptions()
    return OfflineOptions(
        surplus=Surplus(options.get("surplus", usual.surplus.value)),
        load_uncertainty=_uncertainty(plan, plan.load_uncertainty),
        renew_uncertainty=_uncertainty(plan, plan.renew_uncertainty),
        rules=ServerRules(
            minimum_on_s=float(options.get("minimum_on_s", rules.minimum_on_s)),
            switch_cost_s=float(options.get("switch_cost_s", rules.switch_cost_s)),
            gap=float(options.get("server_gap", rules.gap)),
        ),
        forecast_step_s=float(options.get(FORECAST_STEP, usual.forecast_step_s)),
        tank_targets_kg=tuple(map(float, options.get(TANK_TARGETS, "").split())),
    )


def source_hashes(settings: RunSettings, replan: ReplanSettings, known: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of the sources of plans made during the run, by role; ``known`` has some of them."""
    files: dict[str, str | None] = {
        **{f"workload {number}": path for number, path in enumerate(replan.workloads)},
        "demand": replan.demand,
        "production": None if is_command(replan.production) else replan.production,
        "plan": settings.plan,
        "season": replan.season,
    }
    computed = hashes_of(
        {role: None if role in known else path for role, path in files.items()}, settings.site or ""
    )
    return {
        role: known.get(role) or computed[role] for role in (*files, "site") if role in {*known, *computed}
    }


def _uncertainty(plan: Plan, shares: FloatArray) -> Uncertainty:
    """Return the straight line of a plan's uncertainties (one share per step)."""
    usual = Uncertainty()
    last = min(len(shares) - 1, int(usual.horizon_s / plan.step_s))
    if last == 0:
        return Uncertainty(float(shares[0]), float(shares[0]))
    slope = float(shares[last] - shares[0]) / (last * plan.step_s)
    later = min(max(float(shares[0]) + slope * usual.horizon_s, 0.0), 1.0)
    return Uncertainty(float(shares[0]), round(later, 12))


def every_steps(every: str, site: Site) -> int:
    """Return the number of steps between plans: ``window``, or a time such as ``12h``. Raises ConfigError."""
    if every == "window":
        return site.steps
    try:
        steps = round(parse_duration(every) / site.step_s)
    except ValueError as error:
        raise ConfigError(f"replan: {error}; expected 'window', or a time such as 12h") from None
    if not 0 < steps <= site.steps:
        raise ConfigError(
            f"replan: found {every!r}, expected between a step ({site.step_s:g} s) and a window"
            f" ({site.window_s:g} s)"
        )
    return steps


def first_request(
    rule: ReplanRule,
    site: Site,
    platform: Platform,
    settings: RunSettings,
    forecast: ForecastSource | None = None,
) -> PlanRequest:
    """Request the plans of the first two windows, from the site's levels and with all servers on.

    ``forecast`` replaces that of the settings. Raises ConfigError if the platform has no powers or speeds.
    """
    if not (platform.has_powers and platform.has_speeds):
        raise ConfigError(
            "--replan requires the speeds and powers of every host: generate the platform with"
            " 'beasy-sched generate platform'"
        )
    windows = min(PLANNED_AHEAD, settings.windows)
    span = Span(-1.0, 0.0, windows * site.steps, site.step_s)
    load_w = rule.demand.load_w(platform, NO_JOBS, span)
    quantiles = rule.demand.load_quantiles(platform, NO_JOBS, span)
    source, age_s = GIVEN_BEFORE, None
    if rule.renew_w is not None:
        renew_w = part_of(rule.renew_w, span)
    else:
        expected = rule.production or forecast
        if expected is None:
            expected = read_forecast(settings.forecast or "none", site, settings.windows)
        renew_w, age_s = expected.renewable_w(0.0, site.step_s, span.steps), expected.age_s(0.0)
        source = GIVEN_BEFORE if rule.production is not None and age_s is None else expected.name
    level = site.storage.start()
    parts = tuple(
        WindowForecast(window, load_w[rows], renew_w[rows], quantiles and quantiles.during(rows))
        for window in range(windows)
        for rows in [slice(window * site.steps, (window + 1) * site.steps)]
    )
    rolled = Rolled(
        0,
        0.0,
        level.battery_j,
        level.hydrogen_kg,
        0,
        0,
        source,
        level.others or UNSET,
        UNSET if age_s is None else age_s,
    )
    return PlanRequest(0.0, level, ServerStart.all_on(platform), parts, rolled)
