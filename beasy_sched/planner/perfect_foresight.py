"""Perfect foresight: the least cost at which a battery and a grid could have served a given load.

It is a yardstick, never a policy: rates, load and production are given, and only the battery's
powers are free. They follow the site's model: production that the load does not need charges the battery or
is exported, the battery does not export, imports exclude exports and curtailment, charge excludes discharge,
and the battery ends with at least the energy that it had at the end of the run. The highest mean imports of
15 minutes cost as they do in the run.

The problem is linear; integer variables are added only for steps in which the solution of the linear problem
violates an exclusion, which it can at negative prices, or if exports earn more than imports cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IndexArray
from beasy_sched.energy.grid_peak import QUARTER_S, PeakMeter
from beasy_sched.planner.solver import LinearModel, Solver
from beasy_sched.planner.solver_limits import SolverLimits
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR

_OVERLAP = 1e-7
"""Scaled power beyond which an exclusion is violated."""
_LIMITS = SolverLimits(relative_gap=1e-6)


@dataclass(frozen=True)
class BatteryTerms:
    """The battery, in joules and watts; see `energy.devices.battery.BatterySpec`."""

    min_j: float
    max_j: float
    start_j: float
    end_j: float
    """Least energy at the end, J."""
    charge_efficiency: float = 1.0
    drawn_per_delivered: float = 1.0
    self_discharge_per_day: float = 0.0
    charge_limit_w: float = math.inf
    discharge_limit_w: float = math.inf


@dataclass(frozen=True)
class ForesightProblem:
    """Given rates and net load of the steps of a run, one value for each step."""

    start_s: FloatArray
    dt_s: FloatArray
    net_w: FloatArray
    """Load minus production, W; negative for a surplus."""
    price_per_kwh: FloatArray
    """Price of imports."""
    earned_per_kwh: FloatArray
    """Price of exports."""
    battery: BatteryTerms
    import_limit_w: float = math.inf
    may_export_w: float = 0.0
    peak: PeakMeter | None = None
    """Meter of the run's clock and periods, of which only the quarters are used; None without a price."""
    levels_j: FloatArray | None = None
    """Levels of the run at the ends of steps, within which the battery may also be beyond its limits: one
    that was measured may be. None: only within its limits."""
    jumps_j: FloatArray | None = None
    """Measured minus computed level at the end of each step, J; None: nothing was measured."""


@dataclass(frozen=True)
class LeastCost:
    """Least cost, with its powers, W by step."""

    cost: float
    """Cost of the imports and their peaks, minus the revenue of exports."""
    import_w: FloatArray
    export_w: FloatArray
    charge_w: FloatArray
    discharge_w: FloatArray
    peak_cost: float = 0.0


@dataclass
class _Columns:
    """Columns of the model: powers by step, and the peak of each period."""

    imported: IndexArray
    exported: IndexArray
    charge: IndexArray
    discharge: IndexArray
    curtailed: IndexArray
    level: IndexArray
    peaks: IndexArray
    costs: list[tuple[IndexArray, float | FloatArray]] = field(default_factory=list)


def perfect_foresight(problem: ForesightProblem) -> LeastCost | None:
    """Return the least cost; None if the load cannot be served within the import limit.

    Raises ConfigError if the solver is not installed.
    """
    steps = len(problem.dt_s)
    exclusive = np.zeros((3, steps), dtype=np.bool_)
    while True:
        model, scale_w = LinearModel(), _scale_w(problem)
        columns = _add(model, problem, scale_w, exclusive)
        values = Solver(model, _LIMITS, tolerance=1e-9).minimize(*columns.costs).incumbent
        if values is None:
            return None
        pairs = (
            (columns.charge, columns.discharge),
            (columns.imported, columns.exported),
            (columns.imported, columns.curtailed),
        )
        broken = np.array([np.minimum(values[one], values[other]) > _OVERLAP for one, other in pairs])
        if not (broken & ~exclusive).any():
            return _found(problem, values, columns, scale_w)
        exclusive |= broken


def _scale_w(problem: ForesightProblem) -> float:
    return max(1.0, float(np.abs(problem.net_w).max(initial=0.0)))


def _add(model: LinearModel, problem: ForesightProblem, scale_w: float, exclusive: BoolArray) -> _Columns:
    """Add columns and rows: powers in units of ``scale_w``, energies in that unit times an hour."""
    battery, hours, steps = problem.battery, problem.dt_s / SECONDS_PER_HOUR, len(problem.dt_s)
    unit_j = scale_w * SECONDS_PER_HOUR
    net = problem.net_w / scale_w
    surplus, room_w = np.maximum(-net, 0.0), _most_w(problem)
    columns = _Columns(
        imported=model.columns(steps, 0.0, np.minimum(problem.import_limit_w, room_w) / scale_w),
        exported=model.columns(steps, 0.0, np.minimum(problem.may_export_w / scale_w, surplus)),
        charge=model.columns(steps, 0.0, np.minimum(battery.charge_limit_w, room_w) / scale_w),
        discharge=model.columns(steps, 0.0, np.minimum(battery.discharge_limit_w / scale_w, net.clip(0.0))),
        curtailed=model.columns(steps, 0.0, surplus),
        level=model.columns(steps, *_level_bounds(problem, unit_j)),
        peaks=np.empty(0, dtype=np.intp),
    )
    supply = (columns.imported, 1.0), (columns.discharge, 1.0)
    use = (columns.exported, -1.0), (columns.charge, -1.0), (columns.curtailed, -1.0)
    model.rows(steps, net, net, *supply, *use)
    kept = (1.0 - battery.self_discharge_per_day) ** (problem.dt_s / SECONDS_PER_DAY)
    given = np.zeros(steps) if problem.jumps_j is None else problem.jumps_j / unit_j
    before = np.concatenate((columns.level[:1], columns.level[:-1]))
    share = kept.copy()
    share[0], given = 0.0, given + np.concatenate(([kept[0] * battery.start_j / unit_j], np.zeros(steps - 1)))
    gains = (columns.charge, -battery.charge_efficiency * hours)
    losses = (columns.discharge, battery.drawn_per_delivered * hours)
    model.rows(steps, given, given, (columns.level, 1.0), (before, -share), gains, losses)
    _exclude(model, columns.charge, columns.discharge, exclusive[0], room_w / scale_w)
    _exclude(model, columns.imported, columns.exported, exclusive[1], room_w / scale_w)
    _exclude(model, columns.imported, columns.curtailed, exclusive[2], room_w / scale_w)
    kwh = scale_w * problem.dt_s / JOULES_PER_KWH
    columns.costs = [
        (columns.imported, problem.price_per_kwh * kwh),
        (columns.exported, -problem.earned_per_kwh * kwh),
    ]
    if problem.peak is not None:
        _add_peaks(model, problem, problem.peak, columns, scale_w)
    return columns


def _most_w(problem: ForesightProblem) -> FloatArray:
    """Return a power that no step needs to exceed, W: the net power and the fastest charge."""
    battery = problem.battery
    fastest_w = (battery.max_j / battery.charge_efficiency + abs(battery.start_j)) / problem.dt_s
    return np.abs(problem.net_w) + np.minimum(battery.charge_limit_w, fastest_w) + 1.0


def _level_bounds(problem: ForesightProblem, unit_j: float) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the level at the end of each step: the battery's, the run's, and the last one."""
    battery, steps = problem.battery, len(problem.dt_s)
    lower, upper = np.full(steps, battery.min_j), np.full(steps, battery.max_j)
    if problem.levels_j is not None:
        lower, upper = np.minimum(lower, problem.levels_j), np.maximum(upper, problem.levels_j)
    lower[-1] = max(lower[-1], min(battery.end_j, upper[-1]))
    slack = 1e-9 * battery.max_j
    return (lower - slack) / unit_j, (upper + slack) / unit_j


def _exclude(
    model: LinearModel, one: IndexArray, other: IndexArray, where: BoolArray, most: FloatArray
) -> None:
    """Allow power in only one of two columns in some steps."""
    chosen = np.flatnonzero(where)
    if len(chosen):
        on, high = model.columns(len(chosen), 0.0, 1.0, integer=True), most[chosen]
        model.rows(len(chosen), -np.inf, 0.0, (one[chosen], 1.0), (on, -high))
        model.rows(len(chosen), -np.inf, high, (other[chosen], 1.0), (on, high))


def _add_peaks(
    model: LinearModel, problem: ForesightProblem, meter: PeakMeter, columns: _Columns, scale_w: float
) -> None:
    """Add the highest mean import of each period, and its cost."""
    quarters, steps, shares = _shares(problem, meter)
    rows_of = {quarter: row for row, quarter in enumerate(dict.fromkeys(quarters))}
    periods = {quarter: meter.period_of(quarter) for quarter in rows_of}
    place = {period: number for number, period in enumerate(dict.fromkeys(periods.values()))}
    columns.peaks = model.columns(len(place))
    of_quarter = columns.peaks[[place[periods[quarter]] for quarter in rows_of]]
    rows = model.rows(len(rows_of), 0.0, np.inf, (of_quarter, 1.0))
    where = np.array([rows_of[quarter] for quarter in quarters])
    model.add_entries(rows[where], columns.imported[np.array(steps)], -np.array(shares))
    columns.costs.append((columns.peaks, meter.price.per_kw * scale_w / 1e3))


def _shares(problem: ForesightProblem, meter: PeakMeter) -> tuple[list[int], list[int], list[float]]:
    """Return the overlaps of quarters and steps: quarter, step, and the step's share of the quarter."""
    quarters: list[int] = []
    steps: list[int] = []
    shares: list[float] = []
    for step, (start_s, dt_s) in enumerate(zip(problem.start_s.tolist(), problem.dt_s.tolist(), strict=True)):
        quarter = meter.quarter_at(start_s)
        while meter.start_of(quarter) < start_s + dt_s:
            first_s = max(meter.start_of(quarter), start_s)
            share = (min(meter.start_of(quarter + 1), start_s + dt_s) - first_s) / QUARTER_S
            if share > 0.0:
                quarters.append(quarter)
                steps.append(step)
                shares.append(share)
            quarter += 1
    return quarters, steps, shares


def _found(problem: ForesightProblem, values: FloatArray, columns: _Columns, scale_w: float) -> LeastCost:
    """Return the powers of a point, and their cost."""

    def watts(column: IndexArray) -> FloatArray:
        return np.maximum(values[column], 0.0) * scale_w

    import_w, export_w = watts(columns.imported), watts(columns.exported)
    energy_cost, peak_cost = cost_of(problem, import_w, export_w)
    return LeastCost(
        energy_cost + peak_cost,
        import_w,
        export_w,
        watts(columns.charge),
        watts(columns.discharge),
        peak_cost,
    )


def cost_of(problem: ForesightProblem, import_w: FloatArray, export_w: FloatArray) -> tuple[float, float]:
    """Return the cost of energies (W by step) minus the revenue of exports, and that of the peaks."""
    kwh = problem.dt_s / JOULES_PER_KWH
    cost = float((import_w * problem.price_per_kwh - export_w * problem.earned_per_kwh) @ kwh)
    if problem.peak is None:
        return cost, 0.0
    meter = PeakMeter(problem.peak.price, problem.peak.window_s)
    for each in zip(problem.start_s.tolist(), problem.dt_s.tolist(), import_w.tolist(), strict=True):
        meter.add(*each)
    return cost, meter.cost


def cost_without_battery(problem: ForesightProblem) -> float | None:
    """Return the cost if the battery did nothing; None if the import limit does not allow it."""
    import_w = np.maximum(problem.net_w, 0.0)
    if (import_w > problem.import_limit_w * (1 + 1e-9)).any():
        return None
    return sum(cost_of(problem, import_w, np.minimum(np.maximum(-problem.net_w, 0.0), problem.may_export_w)))
