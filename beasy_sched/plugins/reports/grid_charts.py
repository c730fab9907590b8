"""Charts of runs on a site with a grid: green and brown power, price, carbon, deadlines and costs.

Green is power from the site's sources and storage, brown is imported power (Goiri et al., "GreenSlot",
SC 2011, Figures 6 to 15, on which the main chart is modelled).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.energy.sources import SUN, source_kinds
from beasy_sched.plugins.reports.energy_charts import other_kinds, parts_of, rest_of
from beasy_sched.plugins.reports.page import Chart, TimeChart, bars, power_unit, share_bars
from beasy_sched.plugins.reports.run_data import RunData, StepCurve, powers, step_edges_s
from beasy_sched.plugins.reports.run_table import RunTable
from beasy_sched.units import SECONDS_PER_HOUR, some_of

Shown = dict[str, tuple[str, str]]
"""Columns of the energy trace, each with name and colour."""
_FROM_STORAGE: Final[Shown] = {
    "discharge_w": ("from the battery", "battery"),
    "fuel_cell_w": ("from the fuel cell", "hydrogen"),
}
_NOT_GREEN: Final[Shown] = {
    "grid_import_w": ("from the grid", "import"),
    "unserved_w": ("unserved", "unserved"),
}
_INTO_STORAGE: Final[Shown] = {
    "charge_w": ("into the battery", "charge"),
    "electrolyzer_w": ("into the electrolyzer", "electrolyzer"),
}
_LEFT: Final[Shown] = {
    "grid_export_w": ("exported", "export"),
    "curtailed_w": ("not used (curtailed)", "curtailed"),
}
_SUN: Final = "solar"
"""Name of the solar part in the chart of green power."""
_NEEDED: Final = {
    *("base_w", "carbon_g", "import_price_per_kwh", "import_cost", "predicted_renewable_w"),
    *(_FROM_STORAGE | _NOT_GREEN | _INTO_STORAGE | _LEFT),
}
"""Columns of the energy trace of a site with a grid."""
_MOST_MARKS: Final = 200
_MARKS: Final = {
    "met": ("deadlines met", "ink-soft", "triangle-down"),
    "late": ("deadlines missed or rejected", "killed", "x-thin"),
}


def has_grid(run: RunData) -> bool:
    """Whether the run was on a site with a grid and completed a step."""
    return run.grid is not None and len(run.trace) > 0 and all(name in run.trace for name in _NEEDED)


def grid_charts(run: RunData, prefix: str) -> list[Chart]:
    """Charts of green and brown power, and of carbon if known; none for a site without a grid."""
    if not has_grid(run):
        return []
    charts = [green_and_brown(run, prefix)]
    if not np.isnan(run.trace["carbon_g"]).all():
        charts.append(carbon(run, prefix))
    return charts


def green_and_brown(run: RunData, prefix: str) -> Chart:
    """Stacked sources up to the load, and above it the green power that the load did not use.

    The kinds of source that the trace has separately are shown separately.
    """
    served, left, parts = _served(run.trace), _left(run.trace), _parts(run.trace)
    load = load_columns(run.trace)
    names = [*load, *parts, *served, *left]
    trace = _with_direct_use(_without_grid_charge(run.trace), parts, served)
    curve = powers(trace, names)
    columns = dict(zip(names, curve.values.T, strict=True))
    load_w = sum(columns[name] for name in load)
    direct_w = np.maximum(load_w - sum(columns[name] for name in served), 0.0)
    stack = [("green, used directly", "production", direct_w)]
    if parts:
        rest_w = np.maximum(direct_w - sum(columns[name] for name in parts), 0.0)
        rest, rest_paint = rest_of([*parts])
        direct = [(*parts[column], columns[column]) for column in parts] + [(rest, rest_paint, rest_w)]
        stack = [(f"{name}, used directly", paint, values_w) for name, paint, values_w in direct]
    stack += [(name, paint, columns[column]) for column, (name, paint) in (served | left).items()]
    most_w = max(float(sum(values for *_, values in stack).max()), 1.0)
    unit, size_w = power_unit(most_w)
    chart = TimeChart(f"{prefix}-green", "Green and brown power", prefix, run.end_s, unit, f"power [{unit}]",
                      height=360)  # fmt: skip
    for name, paint, values_w in stack:
        if values_w.max() > 1e-9 * most_w:
            chart.steps(name, curve.edges_s, values_w / size_w, paint, stack="power")
    parts_of_load = "servers, cooling and base" if "cooling_w" in load else "servers and base"
    chart.steps(f"load ({parts_of_load})", curve.edges_s, load_w / size_w, "ink", width=1.1)
    predicted = _known_means(trace, "predicted_renewable_w")
    if predicted is not None:
        name = "production, predicted"
        chart.steps(name, predicted.edges_s, predicted.values / size_w, "predicted", dash="dash", width=1.2)
        most_w = max(most_w, float(np.nanmax(predicted.values)))
    _add_price(chart, run)
    top = most_w / size_w
    _mark_deadlines(chart, run, 1.07 * top)
    return chart.chart(*curve.notes, range=[0, 1.14 * top])


def load_columns(trace: RunTable) -> list[str]:
    """Return the columns of the load: servers, their cooling, and the base load."""
    return [name for name in ("demand_w", "cooling_w", "base_w") if name in trace]


def _served(trace: RunTable) -> Shown:
    """Sources of a trace that serve the load in addition to the production."""
    others = {kind.columns.out: (f"from the {kind.title}", "battery") for kind in other_kinds(trace)}
    return _FROM_STORAGE | others | _NOT_GREEN


def _left(trace: RunTable) -> Shown:
    """Uses of the production that the load does not use."""
    others = {kind.columns.into: (f"into the {kind.title}", "charge") for kind in other_kinds(trace)}
    return _INTO_STORAGE | others | _LEFT


def _parts(trace: RunTable) -> Shown:
    """Parts of the production that a trace has separately."""
    kinds = (kind for kind in source_kinds() if kind.column in parts_of(trace))
    return {kind.column: (_SUN if kind is SUN else kind.title, kind.paint) for kind in kinds}


def _without_grid_charge(trace: RunTable) -> RunTable:
    """Return the trace without the power that the grid charged into the battery, which served no load."""
    if "grid_charge_w" not in trace:
        return trace
    for column in ("grid_import_w", "charge_w"):
        trace = trace.plus(column, trace[column] - trace["grid_charge_w"])
    return trace


def _with_direct_use(trace: RunTable, parts: Iterable[str], served: Iterable[str]) -> RunTable:
    """Replace each part of the production by its power used directly by the load, W per step.

    Its share in the power used directly is that in the production.
    """
    renew_w, load_w = trace["renewable_w"], trace.side_by_side(load_columns(trace)).sum(axis=1)
    direct_w = np.maximum(load_w - trace.side_by_side(served).sum(axis=1), 0.0)
    used = trace
    for column in parts:
        share = np.divide(trace[column], renew_w, out=np.zeros(len(trace)), where=renew_w > 0.0)
        used = used.plus(column, direct_w * np.clip(share, 0.0, 1.0))
    return used


def carbon(run: RunData, prefix: str) -> Chart:
    """Carbon emissions of the imported energy, total and per kWh (right axis)."""
    edges_s = step_edges_s(run.trace)
    kg_per_h = run.trace["carbon_g"] / np.diff(edges_s) * SECONDS_PER_HOUR / 1e3
    import_kw = run.trace["grid_import_w"] / 1e3
    without_gaps = np.column_stack([np.nan_to_num(kg_per_h), np.where(np.isnan(kg_per_h), 0.0, import_kw)])
    curve = StepCurve(edges_s, without_gaps).thinned()
    rate, power_kw = curve.values.T
    chart = TimeChart(f"{prefix}-carbon", "Carbon of the imported energy", prefix, run.end_s, "kg/h",
                      "carbon [kg/h]", height=240)  # fmt: skip
    chart.steps("carbon", curve.edges_s, rate, "import", stack="carbon")
    g_per_kwh = np.divide(1e3 * rate, power_kw, out=np.full(len(rate), np.nan), where=power_kw > 1e-6)
    chart.steps("carbon per kWh (right axis)", curve.edges_s, g_per_kwh, "price", width=1.4)
    chart.on_the_right("g/kWh", "carbon [g/kWh]", _range_of(g_per_kwh))
    return chart.chart(*curve.notes, rangemode="tozero")


def _known_means(trace: RunTable, column: str) -> StepCurve | None:
    """Column with gaps, thinned over its known values; None if there are none."""
    values = trace[column]
    is_known = np.isfinite(values)
    if not is_known.any():
        return None
    both = StepCurve(step_edges_s(trace), np.column_stack([np.where(is_known, values, 0.0), is_known]))
    curve = both.thinned()
    sums, shares = curve.values.T
    means = np.divide(sums, shares, out=np.full(len(sums), np.nan), where=shares > 0.0)
    return StepCurve(curve.edges_s, means)


def _range_of(values: FloatArray) -> list[float]:
    """Range of a right axis, from 0 or below, with room above; all values may be unknown."""
    finite = values[np.isfinite(values)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    return [1.1 * low, high + 0.3 * (high - low) if high > low else 1.0]


def _add_price(chart: TimeChart, run: RunData) -> None:
    """Price of the imported energy on the right axis, if there is one."""
    price = _known_means(run.trace, "import_price_per_kwh")
    if price is not None and run.grid is not None and np.nanmax(np.abs(price.values)) > 0.0:
        unit = f"{run.grid.currency}/kWh"
        chart.steps("price (right axis)", price.edges_s, price.values, "price", width=1.5)
        chart.on_the_right(unit, f"price [{unit}]", _range_of(price.values))


def _mark_deadlines(chart: TimeChart, run: RunData, level: float) -> None:
    """Mark the deadlines of workflows, and of jobs without a workflow, above the curves."""
    if not len(run.deadlines):
        return
    ends: dict[tuple[float, str], str] = {}
    times_s = run.deadlines["deadline_s"].tolist()
    columns = (run.deadlines.texts(name) for name in ("workflow", "job", "outcome"))
    for deadline_s, workflow, job, outcome in zip(times_s, *columns, strict=True):
        name = workflow or job
        if deadline_s <= run.end_s:
            kept = "met" if outcome == "met" else "late"
            ends[deadline_s, name] = "late" if ends.get((deadline_s, name)) == "late" else kept
    for kept, (title, paint, symbol) in _MARKS.items():
        at_once: dict[float, list[str]] = {}
        for (deadline_s, name), end in ends.items():
            if end == kept:
                at_once.setdefault(deadline_s, []).append(name)
        if len(at_once) > _MOST_MARKS and kept == "met":
            chart.notes.append(f"{len(at_once):,} times with met deadlines are not marked.")
        elif at_once:
            times_s, word = np.array(sorted(at_once)), title.removeprefix("deadlines ")
            texts = [f"{some_of(at_once[time_s], 4)}: {word}" for time_s in times_s.tolist()]
            levels = np.full(len(times_s), level)
            chart.marks(title, times_s, levels, paint, texts, symbol=symbol)


def grid_bars(runs: Sequence[RunData]) -> list[Chart]:
    """Charts of green and brown energy of the load; for several runs also deadlines, cost and carbon."""
    charts = []
    grids = {run.name: run.grid for run in runs if run.grid is not None}
    if grids:
        green = np.array([grid.green_kwh for grid in grids.values()], np.float64)
        brown = np.array([run.grid.import_kwh - _charged_kwh(run) for run in runs if run.grid], np.float64)
        parts = {"green": (green, "production"), "from the grid": (brown, "import")}
        texts = {}
        for name, (kwh, _) in parts.items():
            pct = 100.0 * kwh / np.maximum(green + brown, 1e-9)
            texts[name] = [f"{e:,.2f} kWh ({p:.2f} %)" for e, p in zip(kwh, pct, strict=True)]
        charts.append(bars("load", "Energy of the load", [*grids], parts, "energy [kWh]", "kWh", texts))
    if len(runs) < 2:
        return charts
    charts += _deadline_bars(runs)
    for currency in dict.fromkeys(grid.currency for grid in grids.values()):
        costs = {name: grid.cost for name, grid in grids.items() if grid.currency == currency}
        charts.append(_one_bar_each("cost", "Cost of the imported energy", costs, currency))
    grams = {name: grid.carbon_kg for name, grid in grids.items() if grid.carbon_kg is not None}
    if grams:
        charts.append(_one_bar_each("carbon", "Carbon of the imported energy", grams, "kg"))
    return charts


def _charged_kwh(run: RunData) -> float:
    """Return the import that did not reach the load: the grid's charge minus what was discharged of it."""
    energy, grid = run.energy_kwh, run.grid
    if energy is None or grid is None or energy.grid_charged is None:
        return 0.0
    load_kwh = energy.consumed + (energy.base or 0.0) - energy.unserved
    return grid.import_kwh - (load_kwh - grid.green_kwh)


def _one_bar_each(name: str, title: str, values: dict[str, float], unit: str) -> Chart:
    parts = {name: (np.array([*values.values()], dtype=np.float64), "import")}
    key = f"{name}-{unit}" if name == "cost" else name
    return bars(key, title, [*values], parts, f"{name} [{unit}]", unit)


def _deadline_bars(runs: Sequence[RunData]) -> list[Chart]:
    """Share of the jobs with a deadline that met it."""
    deadlines = {
        run.name: run.summary.deadlines
        for run in runs
        if run.summary is not None and run.summary.deadlines is not None
    }
    if not deadlines:
        return []
    totals = {name: max(each.jobs, 1) for name, each in deadlines.items()}
    counts = {
        outcome: ([getattr(each, f"jobs_{outcome}") for each in deadlines.values()], paint)
        for outcome, paint in (("met", "finished"), ("missed", "killed"), ("refused", "rejected"))
    }
    return [share_bars("deadlines", "Deadlines", totals, counts, "share of the jobs with a deadline [%]")]


def cost_so_far(run: RunData) -> tuple[FloatArray, FloatArray] | None:
    """Cumulative cost of the imported energy at each step's end; None for a run without a grid."""
    if not has_grid(run):
        return None
    edges_s, costs = step_edges_s(run.trace), run.trace["import_cost"]
    places = np.unique(np.linspace(0, len(costs), 2000).astype(np.int64))
    return edges_s[places], np.concatenate([[0.0], np.cumsum(np.nan_to_num(costs))])[places]
