"""Coarse plan of the whole horizon: hydrogen to keep for later, for example from summer to winter.

A linear program in steps of an hour or more gives the tank's level at the end of each window, and the plans
of windows take it as their target. It is a relaxation without the electrolyzer's minimum power, the
start-ups of servers and everything shorter than its steps.

Objectives, in this order: little unmet demand, spread evenly over the windows; a tank filled early with
surplus power; little throughput of the storages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.devices.battery import energy_after_step
from beasy_sched.energy.devices.hydrogen import HydrogenSpec, level_after_step
from beasy_sched.energy.site import Site
from beasy_sched.energy.site_load import LoadAhead
from beasy_sched.energy.storage import Storage
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import (
    check_shape,
    checked_forecasts,
    checked_powers,
    draw_by_busy_w,
    full_draw_w,
)
from beasy_sched.planner.plan import OPTIMAL, Provenance, Solved
from beasy_sched.planner.solver import LinearModel, SearchEnd, Solver, Term, solver_name
from beasy_sched.planner.solver_limits import SolverLimits
from beasy_sched.units import SECONDS_PER_HOUR, format_duration

# Prices of a unit of energy. Each kind is far more expensive than all that follow it together.
_DARK: Final = 2e4
"""Price of unmet power of sleeping servers and base load, and of a missed battery target."""
_UNMET: Final = 1e3
"""Price of unmet demand, for the first tenth of its window's demand."""
_UNEVEN: Final = 1.0
"""Increase of the price for each further tenth of unmet demand: shortages are spread over the windows."""
_IMPORT: Final = 20.0
"""Price of energy from the grid."""
_KEPT: Final = 0.4
"""Worth of a unit of the fuel cell's energy that is stored for the whole horizon: surplus is stored early."""
_LEFT: Final = 0.4
"""Worth of a unit of the fuel cell's energy stored at the end of the horizon."""
_CYCLE: Final = 0.01
"""Price of the throughput of battery, electrolyzer and fuel cell."""

_TENTHS: Final = 10

_SMALL_TOLERANCE: Final = 1e-9
"""Tolerance of rows and bounds if the solver's default, 1e-7, is too large."""


class NoSeason(BeasyError):
    """There is no coarse plan; the message has the reason."""


def season_steps(step_s: float, window_s: float, field: str) -> int:
    """Return the number of coarse steps per window. Raises ConfigError, naming the field or option."""
    ratio = window_s / step_s if step_s > 0 else 0.0
    if ratio < 1 or abs(ratio - round(ratio)) > 1e-9 * ratio:
        raise ConfigError(
            f"{field} {format_duration(step_s)}: the site's windows of "
            f"{format_duration(window_s)} must be a whole number of such steps"
        )
    return round(ratio)


@dataclass(frozen=True)
class SeasonProblem:
    """The whole horizon, for one weather forecast. Raises ConfigError for invalid values.

    ``load_w`` and ``renew_w`` are forecasts, means (W) over steps of ``step_s`` seconds from time 0.
    """

    storage: Storage
    load_w: FloatArray
    """Demand of the servers, including their power asleep, and of their cooling."""
    renew_w: FloatArray
    step_s: float
    window_s: float
    """Length of the windows that need targets, s."""
    floor_w: float | FloatArray = 0.0
    """Power of sleeping servers, W: the part of the demand with the highest priority."""
    base_w: float = 0.0
    """Base load."""
    services_w: FloatArray | None = None
    """Services; None for a site without any."""
    import_limit_w: float = 0.0
    """Maximum grid power for servers and base load, W; 0 without a grid."""
    end_kg: float | None = None
    """Minimum hydrogen at the end of the horizon, kg; None for the level at its start."""

    def __post_init__(self) -> None:
        load, renew = checked_forecasts(self.load_w, self.renew_w)
        object.__setattr__(self, "load_w", load)
        object.__setattr__(self, "renew_w", renew)
        if self.storage.hydrogen is None:
            raise ConfigError(
                "the site has no hydrogen, so a seasonal plan is not possible: add a section "
                "[hydrogen] to the site file, or plan without --season"
            )
        season_steps(self.step_s, self.window_s, "--season-step")
        if len(load) < 2 * self.window_steps:
            raise ConfigError(
                f"the forecasts cover {len(load) * self.step_s / SECONDS_PER_HOUR:g} h: a plan of the season "
                f"needs at least two windows of {self.window_s / SECONDS_PER_HOUR:g} h"
            )
        tank_kg = self.storage.hydrogen.tank_kg
        if self.end_kg is not None and not 0.0 <= self.end_kg <= tank_kg:
            raise ConfigError(f"--season-end: found {self.end_kg:g} kg, expected 0 to tank_kg ({tank_kg:g})")

    @classmethod
    def of_site(
        cls,
        site: Site,
        platform: Platform,
        load_w: FloatArray,
        renew_w: FloatArray,
        step_s: float,
        end_kg: float | None = None,
    ) -> SeasonProblem:
        """Return the problem of a site with the servers of ``platform``; the other parameters are fields.

        Raises ConfigError.
        """
        edges_s = step_s * np.arange(len(load_w) + 1, dtype=np.float64)
        site_load = site.load_ahead(0.0, edges_s)
        floor_w: float | FloatArray = float(draw_by_busy_w(platform)[0])
        if site_load.pue is not None:
            floor_w = floor_w * site_load.pue
        return cls(
            site.storage,
            site_load.cooled(np.minimum(load_w, full_draw_w(platform))),
            renew_w,
            step_s,
            site.window_s,
            floor_w=floor_w,
            base_w=site.base_w,
            services_w=site_load.services_w,
            import_limit_w=site.import_limit_w,
            end_kg=end_kg,
        )

    @property
    def steps(self) -> int:
        """T."""
        return len(self.load_w)

    @property
    def always_w(self) -> float | FloatArray:
        """Power of base load and services, W: one value, or one by step."""
        return LoadAhead(self.base_w, self.services_w).always_w

    @property
    def window_steps(self) -> int:
        """Steps in a window."""
        return round(self.window_s / self.step_s)

    @property
    def hydrogen(self) -> HydrogenSpec:
        """Hydrogen chain of the site."""
        if self.storage.hydrogen is None:
            raise ConfigError("the site has no hydrogen")
        return self.storage.hydrogen


@dataclass(frozen=True)
class SeasonYear:
    """One horizon's powers (W, T values) and levels (T + 1, from start to end)."""

    renew_w: FloatArray
    charge_w: FloatArray
    discharge_w: FloatArray
    electrolyzer_w: FloatArray
    fuel_cell_w: FloatArray
    import_w: FloatArray
    curtailed_w: FloatArray
    unmet_w: FloatArray
    """Unmet demand of servers and base load."""
    battery_j: FloatArray
    hydrogen_kg: FloatArray


@dataclass(frozen=True)
class Season:
    """Coarse plan. `check` verifies its consistency and is called by file readers.

    Several years are several possible weathers of the same horizon, each planned separately.
    """

    storage: Storage
    step_s: float
    window_s: float
    load_w: FloatArray
    """Demand of the servers and their cooling, W."""
    base_w: float
    years: tuple[SeasonYear, ...]
    provenance: Provenance
    services_w: FloatArray | UnsetType = UNSET
    """Services, W; unset without any."""

    @property
    def always_w(self) -> float | FloatArray:
        """Power of base load and services, W: one value, or one by step."""
        return LoadAhead(self.base_w, None if self.services_w is UNSET else self.services_w).always_w

    @property
    def steps(self) -> int:
        """T."""
        return len(self.load_w)

    @property
    def tank_kg(self) -> float:
        """Size of the tank, kg."""
        return self.storage.tank_kg

    def mean(self, name: str) -> FloatArray:
        """Return one of the quantities of `SeasonYear`, as the mean over the years."""
        return np.asarray(np.mean([getattr(year, name) for year in self.years], axis=0))

    @cached_property
    def hydrogen_kg(self) -> FloatArray:
        """Tank level at the start of each step and at the end of the last: mean of the years."""
        return self.mean("hydrogen_kg")

    @property
    def targets_kg(self) -> tuple[float, ...]:
        """Hydrogen target at the end of each whole window, kg."""
        width = round(self.window_s / self.step_s)
        return tuple(self.hydrogen_kg[width::width].tolist())

    def check_site(self, storage: Storage, window_s: float) -> None:
        """Raise ConfigError, naming the first difference, if the plan was made for another site."""
        if window_s != self.window_s:
            raise ConfigError(
                f"the season was planned for windows of {self.window_s / SECONDS_PER_HOUR:g} h, the site has "
                f"windows of {window_s / SECONDS_PER_HOUR:g} h: plan the season again"
            )
        if storage.hydrogen is None or storage.hydrogen.tank_kg != self.tank_kg:
            there = (
                "no hydrogen" if storage.hydrogen is None else f"a tank of {storage.hydrogen.tank_kg:g} kg"
            )
            raise ConfigError(
                f"the season was planned for a tank of {self.tank_kg:g} kg, the site has {there}: "
                "plan the season again"
            )

    def targets_for(self, windows: int) -> tuple[float, ...]:
        """Return the targets of the first windows. Raises ConfigError if the season has fewer."""
        targets = self.targets_kg
        if windows > len(targets):
            raise ConfigError(
                f"the season covers {len(targets)} windows, the plan has {windows}: plan fewer windows, or "
                "the season with a longer production"
            )
        return targets[:windows]

    def check(self) -> None:
        """Raise ConfigError for the first inconsistency: shapes, limits, balance or levels."""
        if not (0 < self.step_s < np.inf and self.step_s <= self.window_s < np.inf and self.years):
            raise ConfigError("the season has no years, or no steps or windows of a possible length")
        hydrogen = self.storage.hydrogen
        if hydrogen is None:
            raise ConfigError("the season is for a site without hydrogen")
        checked_powers("demand", self.load_w)
        if self.services_w is not UNSET:
            check_shape("services_w", checked_powers("services", self.services_w), self.steps)
        for number, year in enumerate(self.years):
            for name, values in vars(year).items():
                check_shape(name, values, self.steps + (name in ("battery_j", "hydrogen_kg")))
            for what, broken in _broken(self, hydrogen, year):
                if not np.all(broken <= 0.0):  # a NaN is also a violation
                    step = int(np.argmax(~(broken <= 0.0)))
                    raise ConfigError(f"year {number}: {what} is violated at step {step}")


_TOLERANCE: Final = 1e-6
"""Share of a quantity's size by which a limit or balance may be missed because of rounding."""


def _lost_w(season: Season | SeasonProblem) -> float:
    """Return the self-discharge of the battery at its minimum, W."""
    battery = season.storage.battery
    return (1.0 - battery.kept_fraction(season.step_s)) * battery.min_j / season.step_s


def _largest_w(season: Season | SeasonProblem, renew_w: FloatArray) -> float:
    """Return the largest of production, demand and self-discharge at the minimum (W, at least 1)."""
    kept_w = _lost_w(season) / season.storage.battery.charge_efficiency
    always_w = float(np.max(season.always_w))
    return max(1.0, float(season.load_w.max()), float(renew_w.max()), always_w, kept_w)


def _broken(
    season: Season | SeasonProblem, hydrogen: HydrogenSpec, year: SeasonYear
) -> list[tuple[str, FloatArray]]:
    """Yield the constraints, each with its violation (above 0) beyond the tolerance."""
    battery, step_s = season.storage.battery, season.step_s
    power_w = _largest_w(season, year.renew_w)
    size_j, size_kg = battery.capacity_j + power_w * step_s, hydrogen.tank_kg
    size_kg += hydrogen.produced_kg(power_w, step_s)
    level_j, level_kg = year.battery_j, year.hydrogen_kg
    arriving_w = year.renew_w + year.discharge_w + year.fuel_cell_w + year.import_w + year.unmet_w
    leaving_w = season.load_w + season.always_w + year.charge_w + year.electrolyzer_w + year.curtailed_w
    next_j = energy_after_step(battery, level_j[:-1], year.charge_w, year.discharge_w, step_s)  # type: ignore[arg-type]
    next_kg = level_after_step(hydrogen, level_kg[:-1], year.electrolyzer_w, year.fuel_cell_w, step_s)  # type: ignore[arg-type]
    flows = [getattr(year, name) for name in year.__dataclass_fields__ if name.endswith("_w")]
    rules = (
        ("a power >= 0", -np.min(flows, axis=0), power_w),
        ("the balance of power", np.abs(arriving_w - leaving_w), power_w),
        ("the limit of charging", year.charge_w - battery.charge_limit_w, power_w),
        ("the limit of discharging", year.discharge_w - battery.discharge_limit_w, power_w),
        ("the limit of the electrolyzer", year.electrolyzer_w - hydrogen.electrolyzer_max_w, power_w),
        ("the limit of the fuel cell", year.fuel_cell_w - hydrogen.fuel_cell_max_w, power_w),
        ("the development of the battery", np.abs(level_j[1:] - next_j), size_j),
        ("the development of the tank", np.abs(level_kg[1:] - next_kg), size_kg),
        ("the range of the battery", np.maximum(battery.min_j - level_j, level_j - battery.max_j), size_j),
        ("the range of the tank", np.maximum(-level_kg, level_kg - hydrogen.tank_kg), size_kg),
    )
    return [(what, np.asarray(excess) - _TOLERANCE * scale) for what, excess, scale in rules]


class _SeasonColumns(NamedTuple):
    """Columns of the model's quantities."""

    charge: IntArray
    discharge: IntArray
    electrolyzer: IntArray
    fuel_cell: IntArray
    imported: IntArray
    curtailed: IntArray
    unmet: IntArray
    dark: IntArray
    tenths: IntArray
    target_missed: IntArray
    battery: IntArray
    tank: IntArray


class _SeasonModel:
    """The linear program; powers in units of the largest one, energies in that unit times an hour."""

    def __init__(self, problem: SeasonProblem) -> None:
        self.problem, self.model = problem, LinearModel()
        self.power_w = _largest_w(problem, problem.renew_w)
        self.hours = problem.step_s / SECONDS_PER_HOUR
        self.energy_j = self.power_w * SECONDS_PER_HOUR
        self.hour_kg = problem.hydrogen.produced_kg(self.power_w, SECONDS_PER_HOUR)
        self.drawn = problem.hydrogen.used_kg(self.power_w, SECONDS_PER_HOUR) / self.hour_kg
        self.columns = self._add_columns()
        self._add_balance()
        self._add_levels()
        self._add_windows()

    def _add_columns(self) -> _SeasonColumns:
        problem, steps, columns = self.problem, self.problem.steps, self.model.columns
        battery, hydrogen = problem.storage.battery, problem.hydrogen
        floor_w = np.minimum(problem.floor_w, problem.load_w)
        # The battery's loss at its minimum may also be missing, so that every problem has a point.
        dark_w = floor_w + problem.always_w + _lost_w(problem) / battery.charge_efficiency
        limit_w = np.minimum(problem.import_limit_w, problem.load_w + problem.always_w)
        limit_w = limit_w if problem.import_limit_w else np.empty(0)
        windows = -(-steps // problem.window_steps)
        starts = np.arange(0, steps, problem.window_steps)
        demand = np.add.reduceat((problem.load_w - floor_w) / self.power_w, starts) * self.hours
        end_kg = hydrogen.level_start_kg if problem.end_kg is None else problem.end_kg
        least = np.zeros(steps)
        least[-1] = end_kg / self.hour_kg
        # An infinite limit is replaced by one that is never reached.
        most_w = 1e3 * self.power_w + hydrogen.fuel_cell_max_w + hydrogen.electrolyzer_max_w
        charge_w, discharge_w = min(battery.charge_limit_w, most_w), min(battery.discharge_limit_w, most_w)
        exists = float(battery.exists)
        return _SeasonColumns(
            charge=columns(steps, 0.0, charge_w / self.power_w * exists),
            discharge=columns(steps, 0.0, discharge_w / self.power_w * exists),
            electrolyzer=columns(steps, 0.0, hydrogen.electrolyzer_max_w / self.power_w),
            fuel_cell=columns(steps, 0.0, hydrogen.fuel_cell_max_w / self.power_w),
            imported=columns(len(limit_w), 0.0, limit_w / self.power_w),
            curtailed=columns(steps),
            unmet=columns(steps, 0.0, (problem.load_w - floor_w) / self.power_w),
            dark=columns(steps, 0.0, dark_w / self.power_w),
            tenths=columns(windows * _TENTHS, 0.0, np.repeat(demand / _TENTHS, _TENTHS)),
            target_missed=columns(windows),
            battery=columns(steps, battery.min_j / self.energy_j, battery.max_j / self.energy_j),
            tank=columns(steps, least, hydrogen.tank_kg / self.hour_kg),
        )

    def _add_balance(self) -> None:
        """Power balance constraint of each step."""
        at, problem = self.columns, self.problem
        net = (problem.load_w + problem.always_w - problem.renew_w) / self.power_w
        arriving: list[Term] = [(at.discharge, 1.0), (at.fuel_cell, 1.0), (at.unmet, 1.0), (at.dark, 1.0)]
        if len(at.imported):
            arriving.append((at.imported, 1.0))
        leaving = (at.charge, -1.0), (at.electrolyzer, -1.0), (at.curtailed, -1.0)
        self.model.rows(problem.steps, net, net, *arriving, *leaving)

    def _add_levels(self) -> None:
        """Level after a step = kept share of the previous level + inflow - outflow."""
        at, problem = self.columns, self.problem
        battery, start = problem.storage.battery, problem.storage.start()
        kept, hours, chain = battery.kept_fraction(problem.step_s), self.hours, self.model.chain
        into = at.charge, battery.charge_efficiency * hours
        out = at.discharge, -battery.drawn_per_delivered() * hours
        chain(at.battery, kept, start.battery_j / self.energy_j, into, out)
        into, out = (at.electrolyzer, hours), (at.fuel_cell, -self.drawn * hours)
        chain(at.tank, 1.0, start.hydrogen_kg / self.hour_kg, into, out)

    def _add_windows(self) -> None:
        """The unmet demand of each window, in tenths; the battery's target at each window's end."""
        at, problem = self.columns, self.problem
        steps, width = problem.steps, problem.window_steps
        windows = len(at.target_missed)
        rows = self.model.rows(windows, 0.0, 0.0)
        self.model.add_entries(rows[np.arange(steps) // width], at.unmet, np.full(steps, self.hours))
        self.model.add_entries(np.repeat(rows, _TENTHS), at.tenths, np.full(windows * _TENTHS, -1.0))
        ends = np.minimum(width * np.arange(1, windows + 1), steps) - 1
        target = problem.storage.battery.least_end_j / self.energy_j
        self.model.rows(windows, target, np.inf, (at.battery[ends], 1.0), (at.target_missed, 1.0))

    def costs(self) -> list[Term]:
        """Return the columns and their costs."""
        at, hours = self.columns, self.hours
        tenths = np.asarray(_UNMET + _UNEVEN * (np.arange(len(at.tenths)) % _TENTHS), dtype=np.float64)
        cycled = [(column, _CYCLE * hours) for column in at[:4]]
        missing: list[Term] = [(at.tenths, tenths), (at.dark, _DARK * hours), (at.target_missed, _DARK)]
        worth = np.full(self.problem.steps, _KEPT / self.drawn / self.problem.steps)
        worth[-1] += _LEFT / self.drawn
        kept = (at.tank, -worth)
        return [*missing, (at.imported, _IMPORT * hours), *cycled, kept]

    def most_kg(self, limits: SolverLimits) -> float | None:
        """Return the maximum hydrogen at the end, kg; None if the solver fails."""
        solver = Solver(self.model, limits)
        last = self.columns.tank[-1:]
        solver.set_bounds(last, 0.0, self.problem.hydrogen.tank_kg / self.hour_kg)
        most = solver.minimize((last, -1.0))
        return -most.bound * self.hour_kg if most.ending is SearchEnd.DONE else None

    def year(self, values: FloatArray) -> SeasonYear:
        """Return a point of the model in watts, joules and kilograms."""
        problem, at, start = self.problem, self.columns, self.problem.storage.start()
        battery = problem.storage.battery

        def watts(column: IntArray) -> FloatArray:
            return np.maximum(values[column], 0.0) * self.power_w

        battery_j = np.clip(values[at.battery] * self.energy_j, battery.min_j, battery.max_j)
        tank_kg = np.clip(values[at.tank] * self.hour_kg, 0.0, problem.hydrogen.tank_kg)
        return SeasonYear(
            renew_w=problem.renew_w,
            charge_w=watts(at.charge),
            discharge_w=watts(at.discharge),
            electrolyzer_w=watts(at.electrolyzer),
            fuel_cell_w=watts(at.fuel_cell),
            import_w=watts(at.imported) if len(at.imported) else np.zeros(problem.steps),
            curtailed_w=watts(at.curtailed),
            unmet_w=watts(at.unmet) + watts(at.dark),
            battery_j=np.concatenate(([start.battery_j], battery_j)),
            hydrogen_kg=np.concatenate(([start.hydrogen_kg], tank_kg)),
        )


def _cannot_hold(problem: SeasonProblem) -> str:
    """Return the reason why the battery falls below its minimum at any power, "" if it does not."""
    battery, lost_w = problem.storage.battery, _lost_w(problem)
    most_w = battery.charge_limit_w * battery.charge_efficiency
    if lost_w <= most_w:
        return ""
    return (
        f"the battery cannot stay at soc_min_pct ({battery.soc_min_pct:g} %): there it loses {lost_w:.4g} W"
        f" by self-discharge, and charging adds at most {most_w:.4g} W: raise charge_limit_kw, or lower"
        " self_discharge_pct_per_day"
    )


def _plan_year(model: _SeasonModel, limits: SolverLimits) -> tuple[SeasonYear, float]:
    """Plan one year; return it, and the distance to the best. Raises NoSeason.

    A smaller solver tolerance is set if the default is too large for the sizes of the storages.
    """
    one = model.problem
    for tolerance in (None, _SMALL_TOLERANCE):
        outcome = Solver(model.model, limits, tolerance=tolerance).minimize(*model.costs())
        if outcome.ending is SearchEnd.INFEASIBLE and (why := _cannot_hold(one)):
            raise NoSeason(why)
        if outcome.ending is SearchEnd.INFEASIBLE and one.end_kg is not None:
            most_kg = model.most_kg(limits)
            raise NoSeason(
                f"--season-end: the tank cannot reach {one.end_kg:g} kg"
                + (
                    ""
                    if most_kg is None
                    else f": even without serving any load, it reaches at most {most_kg:g} kg"
                )
            )
        if outcome.ending is not SearchEnd.DONE or outcome.incumbent is None:
            raise NoSeason(f"the search for a seasonal plan was stopped by {outcome.ending.value}")
        year = model.year(outcome.incumbent)
        if all(np.all(broken <= 0.0) for _, broken in _broken(one, one.hydrogen, year)):
            break
    return year, outcome.gap


def plan_season(
    problem: SeasonProblem,
    other_years_w: tuple[FloatArray, ...] = (),
    *,
    provenance: Provenance,
    limits: SolverLimits | None = None,
    report: Callable[[float], None] | None = None,
) -> Season:
    """Plan the whole horizon, for the production of the problem and for each of ``other_years_w`` (W).

    ``report`` is called with the fraction completed. Raises ConfigError for years of different lengths and
    if the solver is not installed, NoSeason if the end cannot be reached or a limit stopped the search.
    """
    problems = [problem, *(replace(problem, renew_w=renew_w) for renew_w in other_years_w)]
    limits = limits or SolverLimits()
    years, solved = [], []
    for number, one in enumerate(problems):
        year, gap = _plan_year(_SeasonModel(one), limits)
        years.append(year)
        solved.append(Solved(f"year {number}", OPTIMAL, gap))
        if report is not None:
            report((number + 1) / len(problems))
    season = Season(
        storage=problem.storage,
        step_s=problem.step_s,
        window_s=problem.window_s,
        load_w=problem.load_w,
        base_w=problem.base_w,
        services_w=UNSET if problem.services_w is None else problem.services_w,
        years=tuple(years),
        provenance=replace(provenance, solver=solver_name(), solved=tuple(solved)),
    )
    season.check()
    return season
