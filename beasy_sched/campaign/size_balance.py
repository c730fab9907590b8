"""Sizes by an hourly balance of energy alone, for the same question as the search over whole runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.campaign.inputs import (
    ForecastInputs,
    forecast_inputs,
    forecast_production_w,
    forecast_workload,
    make_real_power,
    make_real_workload,
    read_back,
)
from beasy_sched.campaign.scenario import Scenario
from beasy_sched.campaign.size import SizeQuestion
from beasy_sched.campaign.size_search import Found, found_by
from beasy_sched.campaign.sweep import at_point
from beasy_sched.energy.hourly_balance import balance_hours
from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.plan.forecast import draw_by_busy_w
from beasy_sched.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class BalanceAnswer:
    """The smallest size in one noise, by the balance."""

    tuple_number: int
    seed: int
    found: Found
    served_pct: FloatArray
    """Share of the jobs' energy that is served, by rung."""


def balance_sizes(question: SizeQuestion) -> list[BalanceAnswer]:
    """Balance every noise with every size, without a run.

    The goal's share counts as that of the jobs' energy: what is drawn above a site whose servers all sleep.
    Unlimited power serves all of it.
    Raises ConfigError and InputError.
    """
    if question.goal.measure == "jobs":
        raise ConfigError("--balance knows energy, not jobs: ask for --goal work")
    if question.goal.no_kills or question.goal.end_at_target:
        raise ConfigError("--balance knows the share of the work only: leave out --no-kills, --end-at-target")
    sized = [at_point(question.scenario, ((question.axis.name, size),)) for size in question.sizes]
    answers = []
    for number, seed in question.noises:
        served_pct = _served_pct(sized, number, seed, set(question.axis.shapes))
        met = {rung: bool(share >= question.goal.least_pct - 1e-9) for rung, share in enumerate(served_pct)}
        answers.append(BalanceAnswer(number, seed, found_by(met), served_pct))
    return answers


def _served_pct(sized: list[Scenario], number: int, seed: int, shapes: set[str]) -> FloatArray:
    """Share of the jobs' energy that is served with each size, %."""
    sites = [scenario.parsed_site() for scenario in sized]
    step_s, per_hour = _hours(sites[0])
    differ = sized if shapes else sized[:1]
    powers = [_hourly_w(scenario, number, seed, per_hour) for scenario in differ]
    production_w, demand_w = (np.array([each[at] for each in powers]).T for at in (0, 1))
    asleep_w = np.array([each[2] for each in powers])
    base_w = np.array([site.base_w for site in sites])
    limit_w = np.array([0.0 if site.grid is None else site.grid.import_limit_w for site in sites])
    balance = balance_hours(
        production_w,
        demand_w + base_w,
        [site.storage for site in sites],
        step_s=step_s,
        import_limit_w=limit_w,
    )
    jobs_j = step_s * np.sum(np.maximum(demand_w - asleep_w, 0.0), axis=0)
    lost = np.minimum(balance.unserved_j / np.where(jobs_j > 0, jobs_j, np.inf), 1.0)
    return np.asarray(100.0 * (1.0 - lost))


def _hours(site: Site) -> tuple[float, int]:
    """Length of what is balanced (s): an hour, or as many steps as come nearest; and their number."""
    steps = max(round(SECONDS_PER_HOUR / site.step_s), 1)
    return steps * site.step_s, steps


def _hourly_w(
    scenario: Scenario, number: int, seed: int, per_hour: int
) -> tuple[FloatArray, FloatArray, float]:
    """What really comes: production and demand (W an hour), and the demand of sleeping servers (W)."""
    forecast = _forecast(scenario, number)
    workload = make_real_workload(scenario, forecast.workload, number, seed)
    power = make_real_power(scenario, forecast.production_w, number, seed)
    with TemporaryDirectory(prefix="beasy-size-") as place:
        servers, demand_w, renew_w = read_back(
            Path(place), scenario.parsed_site(), scenario.windows, forecast.plan.platform, workload, power
        )
    return _means(renew_w, per_hour), _means(demand_w, per_hour), float(draw_by_busy_w(servers)[0])


def _forecast(scenario: Scenario, number: int) -> ForecastInputs:
    workload = forecast_workload(scenario, number)
    production_w = forecast_production_w(scenario, number)
    return forecast_inputs(scenario, workload, b"", production_w)


def _means(powers_w: FloatArray, count: int) -> FloatArray:
    """Means of each ``count`` values; the last may be of fewer."""
    starts = np.arange(0, len(powers_w), count)
    sizes = np.diff(np.append(starts, len(powers_w)))
    return np.asarray(np.add.reduceat(powers_w, starts) / sizes)
