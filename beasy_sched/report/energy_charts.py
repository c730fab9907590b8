"""Charts of a run's energy: the power balance, levels of the storages, demand against the plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plan.plan import Plan
from beasy_sched.plan.predictions import predict_window
from beasy_sched.plan.store import PlanStore
from beasy_sched.report.chart import MOST_POINTS, Absent, Chart, TimeChart, power_unit
from beasy_sched.report.run_data import RUN_OVER, Ending, RunData
from beasy_sched.report.steps import StepCurve

SOURCES: Final = {
    "renewable_w": ("production (sun, wind)", "production"),
    "discharge_w": ("battery discharge", "battery"),
    "fuel_cell_w": ("fuel cell", "hydrogen"),
    "unserved_w": ("unserved", "unserved"),
}
"""Where power comes from: columns of the energy trace, with name and colour."""
USES: Final = {
    "demand_w": ("demand of the servers", "demand"),
    "charge_w": ("battery charge", "battery"),
    "electrolyzer_w": ("electrolyzer", "hydrogen"),
    "curtailed_w": ("curtailed", "curtailed"),
}
"""Where it goes."""


def energy_charts(run: RunData, plans: PlanStore | None, prefix: str) -> list[Chart | Absent]:
    """All charts that need the energy trace, or one line that says why there are none."""
    if run.trace is None or not len(run.trace):
        why = (
            "the run has no energy_trace.csv, or an empty one"
            if run.trace is None
            else "no step of the site was settled"
        )
        return [Absent("Power balance, state of charge", f"{why} (runs with --site write one)")]
    return [
        power_balance(run, prefix),
        state_of_charge(run, plans, prefix),
        *([hydrogen(run, plans, prefix)] if _has_hydrogen(run) else []),
        *([against_plan(run, prefix)] if "planned_envelope_w" in run.trace.columns else []),
    ]


def step_edges_s(trace: Any) -> FloatArray:
    """The start of each step, and the end of the last."""
    starts_s = trace["start_s"].to_numpy(np.float64)
    return np.append(starts_s, starts_s[-1] + float(trace["duration_s"].iloc[-1]))


def powers(trace: Any, columns: list[str]) -> StepCurve:
    """The mean powers of the steps (W), one column each; thinned where there are very many steps."""
    values = trace[columns].to_numpy(np.float64)
    edges_s = step_edges_s(trace)
    return StepCurve(edges_s[:-1], values).thinned(float(edges_s[-1]), MOST_POINTS)


def power_balance(run: RunData, prefix: str) -> Chart:
    """Sources above zero and uses below, equal in every step."""
    columns = [c for c in (*SOURCES, *USES) if c in run.trace.columns]
    curve = powers(run.trace, columns)
    by_column = dict(zip(columns, curve.values.T, strict=True))
    total_w = sum((by_column[c] for c in SOURCES if c in by_column), np.zeros(len(curve.times_s)))
    unit, size_w = power_unit(float(total_w.max()))
    chart = TimeChart(f"{prefix}-balance", "Power balance", prefix, run.end_s, unit,
                      f"\u2190 uses\u2003power [{unit}]\u2003sources \u2192", height=330)  # fmt: skip
    nothing = []
    for names, stack in ((SOURCES, "sources"), (USES, "uses")):
        for column, (name, paint) in names.items():
            values_w = by_column.get(column)
            if values_w is None or values_w.max() <= 1e-9 * max(1.0, float(total_w.max())):
                nothing.append(name)
                continue
            down = stack == "uses"
            chart.steps(name, curve.times_s, values_w / size_w, paint, stack=stack, down=down)
    _same_scale_both_ways(chart, float(total_w.max()) / size_w)
    if nothing:
        chart.notes.append(f"Nothing at any time: {', '.join(nothing)}.")
    _say_thinned(chart, curve, run.trace)
    return chart.chart()


def state_of_charge(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """The battery, real and planned, with its limits, dangerous steps and kills."""
    chart = TimeChart(f"{prefix}-soc", "State of charge", prefix, run.end_s, "%", "state of charge [%]")
    site = (run.summary or {}).get("site", {})
    times_s, real_pct = _levels(run.trace, "soc_pct", site.get("soc_start_pct"))
    if plans is not None:
        dangerous = dangerous_steps(run, plans)
        chart.shade(_spans(dangerous, step_edges_s(run.trace)), "danger-shade")
        chart.notes.append(
            f"Dangerous steps (shaded; more than half of the plan's nine curves are below the minimum): "
            f"{int(dangerous.sum()):,} of {len(dangerous):,}."
        )
    if "planned_soc_pct" in run.trace.columns:
        chart.line("planned", *_levels(run.trace, "planned_soc_pct", None), "planned", dash="dash")
    chart.line("real", times_s, real_pct, "battery")
    for name, value in _battery_limits(site, plans).items():
        chart.limit(name, value, "ink-soft" if name == "target" else "limit")
    _mark_kills(chart, run, times_s, real_pct)
    chart.y_axis(range=[0, 102])
    return chart.chart()


def hydrogen(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """The hydrogen in the tank, real and planned."""
    chart = TimeChart(f"{prefix}-hydrogen", "Hydrogen in the tank", prefix, run.end_s, "kg", "hydrogen [kg]")
    if "planned_hydrogen_kg" in run.trace.columns:
        chart.line("planned", *_levels(run.trace, "planned_hydrogen_kg", None), "planned", dash="dash")
    chart.line("real", *_levels(run.trace, "hydrogen_kg", None), "hydrogen")
    site = (run.summary or {}).get("site", {})
    if "hydrogen_final_kg" in site:
        chart.limit("target", site["hydrogen_final_kg"] - site["hydrogen_distance_kg"], "ink-soft")
    tank = None if plans is None else plans[0].storage.hydrogen
    if tank is not None:
        chart.limit("tank full", tank.tank_kg)
    chart.y_axis(rangemode="tozero")
    return chart.chart()


def against_plan(run: RunData, prefix: str) -> Chart:
    """What the servers drew, beside the demand forecast and what the plan allots to them."""
    columns = ["demand_w", "planned_load_w", "planned_envelope_w"]
    curve = powers(run.trace, columns)
    demand_w, load_w, envelope_w = curve.values.T
    unit, size_w = power_unit(float(np.nanmax(curve.values)))
    chart = TimeChart(f"{prefix}-plan", "Demand against the plan", prefix, run.end_s, unit,
                      f"power [{unit}]")  # fmt: skip
    chart.steps("demand, real", curve.times_s, demand_w / size_w, "demand")
    chart.steps("demand, forecast", curve.times_s, load_w / size_w, "forecast", dash="dot")
    chart.steps("planned for the servers", curve.times_s, envelope_w / size_w, "planned", dash="dash")
    chart.y_axis(rangemode="tozero")
    _say_thinned(chart, curve, run.trace)
    return chart.chart()


def dangerous_steps(run: RunData, plans: Iterable[Plan]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each step of the trace is dangerous by the plan's predictions, from the window's real level."""
    edges_s = step_edges_s(run.trace)
    levels_pct = run.trace["soc_pct"].to_numpy(np.float64)
    dangerous = np.zeros(len(levels_pct), dtype=bool)
    for plan in plans:
        first = int(np.searchsorted(edges_s, plan.start_s - plan.step_s / 2))
        battery = plan.storage.battery
        start_j = battery.capacity_j * levels_pct[first - 1] / 100.0 if 0 < first <= len(levels_pct) else None
        found = predict_window(plan, start_j).dangerous[: len(levels_pct) - first]
        dangerous[first : first + len(found)] = found
    return dangerous


def _levels(trace: Any, column: str, start: float | None) -> tuple[FloatArray, FloatArray]:
    """A level at the ends of the steps, with the one at the start where it is known."""
    edges_s, levels = step_edges_s(trace), trace[column].to_numpy(np.float64)
    if start is None:
        return edges_s[1:], levels
    return edges_s, np.append(start, levels)


def _battery_limits(site: dict[str, Any], plans: PlanStore | None) -> dict[str, float]:
    names = {"minimum": "soc_min_pct", "maximum": "soc_max_pct", "target": "soc_target_pct"}
    battery = None if plans is None else plans[0].storage.battery
    found = {name: site.get(field, getattr(battery, field, None)) for name, field in names.items()}
    return {name: float(value) for name, value in found.items() if value is not None}


def _mark_kills(chart: TimeChart, run: RunData, times_s: FloatArray, levels_pct: FloatArray) -> None:
    """A cross where jobs were killed, one an instant, at the level of then."""
    kills = [line for line in run.endings or [] if line.action == "kill" and line.rule != RUN_OVER]
    if not kills:
        return
    at_once: dict[float, list[Ending]] = {}
    for line in kills:
        at_once.setdefault(line.time, []).append(line)
    at_s = np.array([*at_once])
    chart.marks("kills", at_s, np.interp(at_s, times_s, levels_pct), "killed", symbol="x-thin",
                texts=[_kill_words(lines) for lines in at_once.values()])  # fmt: skip


def _kill_words(lines: list[Ending], shown: int = 5) -> str:
    names = ", ".join(line.job for line in lines[:shown])
    more = f" and {len(lines) - shown} more" if len(lines) > shown else ""
    count = "1 job" if len(lines) == 1 else f"{len(lines)} jobs"
    return f"{count} killed: {names}{more} ({lines[0].rule})"


def _spans(wanted: np.ndarray[Any, np.dtype[np.bool_]], edges_s: FloatArray) -> list[tuple[float, float]]:
    """The spans of neighbouring steps that are wanted."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    return [(float(edges_s[a]), float(edges_s[b])) for a, b in turns.reshape(-1, 2)]


def _same_scale_both_ways(chart: TimeChart, most: float) -> None:
    """Label powers above and below zero alike, without a sign."""
    raw = max(most, 1e-9) * 1.05 / 3
    size = 10.0 ** np.floor(np.log10(raw))
    spacing = next(s for s in (1 * size, 2 * size, 2.5 * size, 5 * size, 10 * size) if s >= raw)
    ticks = spacing * np.arange(-3, 4)
    chart.y_axis(range=[-1.05 * most, 1.05 * most], tickmode="array", tickvals=ticks.tolist(),
                 ticktext=[f"{abs(tick):g}" for tick in ticks])  # fmt: skip


def _say_thinned(chart: TimeChart, curve: StepCurve, trace: Any) -> None:
    if len(curve.times_s) != len(trace):
        chart.notes.append(f"Means of {len(trace) / len(curve.times_s):.3g} steps each.")


def _has_hydrogen(run: RunData) -> bool:
    if "hydrogen_final_kg" in (run.summary or {}).get("site", {}):
        return True
    return "hydrogen_kg" in run.trace.columns and bool(run.trace["hydrogen_kg"].any())
