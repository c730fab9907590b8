"""Sizes from an hourly energy balance alone, for the same question as the search over whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.hourly_balance import balance_hours
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.generate.power_events import SitePower
from beasy_sched.planner.forecast import draw_by_busy_w
from beasy_sched.plugins.campaigns.run_inputs import (
    forecast_inputs,
    forecast_production,
    forecast_workload,
    make_real_workload,
    read_back,
    real_production_w,
)
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.sizing import Found, SizeQuestion, found_by
from beasy_sched.plugins.campaigns.sweep import at_point
from beasy_sched.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class BalanceAnswer:
    """The smallest size in one noise realization, from the balance."""

    tuple_number: int
    seed: int
    found: Found
    served_pct: FloatArray
    """Share of the jobs' energy that is served, by rung."""


def balance_sizes(question: SizeQuestion) -> list[BalanceAnswer]:
    """Compute the balance of every noise realization with every size, without a run.

    The goal's share applies to the jobs' energy: that drawn above a site whose servers all sleep. Unlimited
    power serves all of it.
    Raises ConfigError and InputError.
    """
    if question.goal.measure == "jobs":
        raise ConfigError("--balance supports only --goal work")
    if question.goal.no_kills or question.goal.end_at_target:
        raise ConfigError("--balance cannot be used with --no-kills or --end-at-target")
    sized = [at_point(question.scenario, ((question.axis.name, size),)) for size in question.sizes]
    sites = [scenario.parsed_site() for scenario in sized]
    answers = []
    for number, seed in question.noises:
        served_pct = _served_pct(question, sized, sites, number, seed)
        met = {rung: bool(share >= question.goal.least_pct - 1e-9) for rung, share in enumerate(served_pct)}
        answers.append(BalanceAnswer(number, seed, found_by(met), served_pct))
    return answers


def _served_pct(
    question: SizeQuestion, sized: list[Scenario], sites: list[Site], number: int, seed: int
) -> FloatArray:
    """Return the share of the jobs' energy that is served with each size, %."""
    step_s, per_hour = _hours(sites[0])
    shapes = question.axis.shapes
    production_w = _productions_w(question.sizes, sized, number, seed, "production" in shapes)
    differ = sized if shapes & {"workload", "platform"} else sized[:1]
    demands = [_demand_w(scenario, number, seed) for scenario in differ]
    demand_w = np.array([_means(demand, per_hour) for demand, _ in demands]).T
    asleep_w = np.array([asleep for _, asleep in demands])
    load_w = np.array(
        [_load_w(site, power, step_s) for site, power in zip(sites, _for_each(demand_w, sites), strict=True)]
    ).T
    limit_w = np.array([0.0 if site.grid is None else site.grid.import_limit_w for site in sites])
    balance = balance_hours(
        np.array([_means(power, per_hour) for power in production_w]).T,
        load_w,
        [site.storage for site in sites],
        step_s=step_s,
        import_limit_w=limit_w,
    )
    jobs_j = step_s * np.sum(np.maximum(demand_w - asleep_w, 0.0), axis=0)
    lost = np.minimum(balance.unserved_j / np.where(jobs_j > 0, jobs_j, np.inf), 1.0)
    return np.asarray(100.0 * (1.0 - lost))


def _for_each(demand_w: FloatArray, sites: list[Site]) -> FloatArray:
    """Return the demand at each site, [sites, hours], of one demand for all, or one for each."""
    return np.broadcast_to(demand_w, (len(demand_w), len(sites))).T


def _load_w(site: Site, demand_w: FloatArray, step_s: float) -> FloatArray:
    """Return the power that a site draws, W by hour: servers, their cooling, services and base load."""
    loads = [site.load_during(hour * step_s, (hour + 1) * step_s) for hour in range(len(demand_w))]
    return np.array([load.site_w(w) for load, w in zip(loads, demand_w.tolist(), strict=True)])


def _hours(site: Site) -> tuple[float, int]:
    """Return the length of the intervals (s), an hour or the nearest multiple of steps, and their number."""
    steps = max(round(SECONDS_PER_HOUR / site.step_s), 1)
    return steps * site.step_s, steps


def _productions_w(
    sizes: Sequence[float], sized: Sequence[Scenario], number: int, seed: int, differ: bool
) -> list[FloatArray]:
    """Return the actual production, W per step, for each size; only one if it is the same for all.

    It is linear in the size of a plant, so the others follow from the smallest and the largest.
    """
    ends = [sized[0], sized[-1]] if differ and sizes[0] < sizes[-1] else [sized[0]]
    powers = [
        real_production_w(scenario, forecast_production(scenario, number).total_w, seed, number)
        for scenario in ends
    ]
    if len(powers) == 1:
        return powers
    slope = (powers[1] - powers[0]) / (sizes[-1] - sizes[0])
    return [powers[0] + slope * (size - sizes[0]) for size in sizes]


def _demand_w(scenario: Scenario, number: int, seed: int) -> tuple[FloatArray, float]:
    """Return the demand of the actual jobs, W per step, and that of sleeping servers."""
    nothing = np.zeros(scenario.windows * scenario.parsed_site().steps)
    forecast = forecast_inputs(
        scenario, forecast_workload(scenario, number), b"", SitePower(nothing, nothing)
    )
    workload = make_real_workload(scenario, forecast.workload, number, seed)
    files = forecast.plan.platform, workload, forecast.plan.production
    servers, demand_w, _ = read_back(scenario.parsed_site(), scenario.windows, *files)
    return demand_w, float(draw_by_busy_w(servers)[0])


def _means(powers_w: FloatArray, count: int) -> FloatArray:
    """Return the means of each ``count`` values; the last may have fewer."""
    starts = np.arange(0, len(powers_w), count)
    sizes = np.diff(np.append(starts, len(powers_w)))
    return np.asarray(np.add.reduceat(powers_w, starts) / sizes)
