"""Sources of plans made during a run: files named in the settings, or a plan's forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.forecast.quantiles import Quantiles, Uncertainty
from beasy_sched.formats.batsim_workload import expected_jobs
from beasy_sched.formats.plan_file import read_plans
from beasy_sched.formats.power_series import read_demand, read_power_series
from beasy_sched.formats.site_file import parse_site
from beasy_sched.model.platform import Platform
from beasy_sched.planner.offline import hashes_of, season_targets_kg
from beasy_sched.planner.plan import Plan, Rolled
from beasy_sched.planner.power_problem import Surplus
from beasy_sched.planner.requests import (
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
from beasy_sched.planner.servers import ServerRules
from beasy_sched.planner.windows import (
    FORECAST_STEP,
    TANK_TARGETS,
    NoPlan,
    OfflineOptions,
    ReplanRule,
    first_shortage,
)
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.units import parse_duration


def replan_rule(settings: RunSettings, platform: Platform | None) -> ReplanRule | None:
    """Read the settings of plans made during the run; None if there are none.

    Raises ConfigError and InputError like a run with these settings.
    """
    if settings.replan is None:
        return None
    return ReplanSources(settings, settings.replan, site_of(settings)).rule(platform)


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


class ReplanSources:
    """Sources of plans: the files named in the settings, or else the forecasts of the plan file."""

    def __init__(self, settings: RunSettings, replan: ReplanSettings, site: Site) -> None:
        """Raises ConfigError if the settings give no forecasts, or give them twice."""
        self.settings, self.replan, self.site = settings, replan, site
        self.every_steps = every_steps(replan.every, site)
        self._steps = site.steps * settings.windows
        self.plans = None if settings.plan is None else read_plans(settings.plan)
        if replan.workloads and replan.demand is not None:
            raise ConfigError("give only one of --replan-workload and --replan-demand")
        if not replan.workloads and replan.demand is None and self.plans is None:
            raise ConfigError(
                "--replan requires the expected demand: --replan-workload, --replan-demand, or a --plan"
            )
        if replan.production is None and settings.forecast is None and self.plans is None:
            raise ConfigError(
                "--replan requires the expected production: --forecast, --replan-production, or a --plan"
            )

    def rule(self, platform: Platform | None) -> ReplanRule:
        """Return the rule for the session."""
        options, season = self._options(), self.replan.season
        if season is not None:
            targets_kg = season_targets_kg(season, self.site, self.settings.windows)
            options = replace(options, tank_targets_kg=targets_kg)
        return ReplanRule(self.every_steps, self._demand(platform), self._production_w(), options)

    def _demand(self, platform: Platform | None) -> DemandForecast:
        if self.replan.workloads:
            if platform is None:
                raise ConfigError(
                    "--replan-workload requires the platform (-p): its speed determines the run times"
                )
            return expected_jobs(self.replan.workloads, platform)
        if self.replan.demand is not None:
            return PowerForecast(*read_demand(self.replan.demand, steps=self._steps, step_s=self.site.step_s))
        return PowerForecast(self._of_plans("load_w"), self._quantiles_of_plans())

    def _production_w(self) -> FloatArray | None:
        if self.replan.production is not None:
            step_s = self.site.step_s
            return read_power_series(self.replan.production, steps=self._steps, step_s=step_s, as_run=True)
        return None if self.settings.forecast is not None else self._of_plans("renew_w")

    def _of_plans(self, name: str) -> FloatArray:
        if self.plans is None:
            raise RuntimeError("there is no plan with forecasts")
        return np.concatenate([getattr(plan.power, name) for plan in self.plans])

    def _quantiles_of_plans(self) -> Quantiles | None:
        """Return the demand quantiles common to all plans; None if one has none, or other levels."""
        found = [plan.load_quantiles for plan in self.plans or ()]
        known = [quantiles for quantiles in found if quantiles is not UNSET]
        if len(known) < len(found) or len({tuple(each.levels) for each in known}) > 1:
            return None
        return Quantiles(known[0].levels, np.concatenate([each.power_w for each in known], axis=1))

    def _options(self) -> OfflineOptions:
        """Return the options of the plan file, or else the defaults."""
        if self.plans is None:
            return OfflineOptions()
        plan, options = self.plans[0], self.plans[0].provenance.settings
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

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of the plans' sources, by role."""
        files: dict[str, str | None] = {
            **{f"workload {number}": path for number, path in enumerate(self.replan.workloads)},
            "demand": self.replan.demand,
            "production": self.replan.production,
            "plan": self.settings.plan,
            "season": self.replan.season,
        }
        return hashes_of(files, self.settings.site or "")


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


def first_request(rule: ReplanRule, site: Site, platform: Platform, settings: RunSettings) -> PlanRequest:
    """Request the plans of the first two windows, from the site's levels and with all servers on.

    Raises ConfigError if the platform has no powers or speeds.
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
    source = "given before the run"
    if rule.renew_w is not None:
        renew_w = part_of(rule.renew_w, span)
    else:
        from beasy_sched.formats.forecast_source import read_forecast

        forecast = read_forecast(settings.forecast or "none", site, settings.windows)
        renew_w, source = forecast.renewable_w(0.0, site.step_s, span.steps), forecast.name
    level = site.storage.start()
    parts = tuple(
        WindowForecast(window, load_w[rows], renew_w[rows], quantiles and quantiles.during(rows))
        for window in range(windows)
        for rows in [slice(window * site.steps, (window + 1) * site.steps)]
    )
    rolled = Rolled(0, 0.0, level.battery_j, level.hydrogen_kg, 0, 0, source)
    return PlanRequest(0.0, level, ServerStart.all_on(platform), parts, rolled)
