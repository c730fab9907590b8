"""Charts of a run's energy: energy flows, power balance, storage levels, demand against the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from msgspec import UNSET

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.kinds import all_kinds
from beasy_sched.energy.sources import SUN, source_kinds
from beasy_sched.engine.session_words import RUN_OVER
from beasy_sched.formats.run_summary import BatteryLevels, RiskFigures
from beasy_sched.planner.plan import Plan, PlanStore
from beasy_sched.plugins.reports.page import Absent, Chart, TimeChart, color, faded, plain, power_unit
from beasy_sched.plugins.reports.run_data import RunData, levels, powers, step_edges_s
from beasy_sched.plugins.reports.run_table import RunTable
from beasy_sched.run.results import LogLine
from beasy_sched.units import SECONDS_PER_HOUR, counted, some_of

SOURCES: Final = {
    "renewable_w": ("production (solar, wind)", "production"),
    "discharge_w": ("battery discharge", "battery"),
    "fuel_cell_w": ("fuel cell", "hydrogen"),
    "grid_import_w": ("grid import", "import"),
    "unserved_w": ("unserved", "unserved"),
}
"""Sources of power: columns of the energy trace, with name and colour."""
USES: Final = {
    "demand_w": ("demand of the servers", "demand"),
    "cooling_w": ("cooling of the servers", "wind"),
    "base_w": ("base load", "base"),
    "charge_w": ("battery charge", "charge"),
    "electrolyzer_w": ("electrolyzer", "electrolyzer"),
    "grid_export_w": ("grid export", "export"),
    "curtailed_w": ("curtailed", "curtailed"),
}
"""Uses of power: columns of the energy trace, with name and colour."""
REST: Final = "wind_w"
"""Column of the production minus its known parts: wind, if the solar part is known."""


def parts_of(trace: RunTable) -> list[str]:
    """Columns of the parts of the production that a trace has separately, in all steps."""
    return [kind.column for kind in source_kinds() if trace.knows_all(kind.column)]


def rest_w(trace: RunTable) -> FloatArray:
    """Return the production minus its known parts, W per step."""
    left_w: FloatArray = trace["renewable_w"]
    for column in parts_of(trace):
        left_w = left_w - trace[column]
    return left_w


def rest_of(parts: Sequence[str]) -> tuple[str, str]:
    """Name and colour of the production minus the parts in these columns."""
    return ("wind" if SUN.column in parts else "solar and wind", "wind")


def sources_of(trace: RunTable) -> dict[str, tuple[str, str]]:
    """Sources of a trace, with the parts of the production separately if it has them."""
    shown = {column: labels for column, labels in SOURCES.items() if column in trace}
    shown |= {kind.columns.out: (f"from {kind.title}", "battery") for kind in other_kinds(trace)}
    parts = parts_of(trace)
    if not parts:
        return shown
    apart = {kind.column: (kind.title, kind.paint) for kind in source_kinds() if kind.column in parts}
    del shown["renewable_w"]
    return apart | {REST: rest_of(parts)} | shown


def uses_of(trace: RunTable) -> dict[str, tuple[str, str]]:
    """Uses of a trace."""
    shown = {column: labels for column, labels in USES.items() if column in trace}
    return shown | {kind.columns.into: (f"into {kind.title}", "charge") for kind in other_kinds(trace)}


def other_kinds(trace: RunTable) -> Iterator[type[Device]]:
    """Yield the kinds of device of a trace other than battery and hydrogen."""
    return (kind for kind in all_kinds() if kind.columns.level in trace and kind.fields is None)


BATTERY_LIMITS: Final = {"minimum": "soc_min_pct", "maximum": "soc_max_pct", "target": "soc_target_pct"}
"""Levels of the battery, with their fields in a summary and in a site."""


def target_band(battery: BatteryLevels | BatterySpec | None) -> tuple[float, float] | None:
    """Return the states of charge (%) between which an end counts as on target; None without a band."""
    points = None if battery is None else battery.target_band_pct
    if battery is None or points is None or points is UNSET or not points:
        return None
    return max(battery.soc_target_pct - points, 0.0), min(battery.soc_target_pct + points, 100.0)


def energy_charts(run: RunData, plans: PlanStore | None, prefix: str) -> list[Chart | Absent]:
    """All charts that need the energy trace, or a line with the reason why there are none."""
    if not len(run.trace):
        no_file = "the run has no energy_trace.csv, or an empty one"
        why = "the run ended before its first time step was complete" if run.trace.is_there else no_file
        return [Absent("Power balance, state of charge", f"{why} (runs with --site write one)")]
    trace = run.trace
    tank = run.hydrogen is not None or ("hydrogen_kg" in trace and bool(trace["hydrogen_kg"].any()))
    charts: list[Chart | Absent] = []
    if (
        run.has_battery or tank or run.grid is None
    ):  # otherwise the chart of green and brown power contains it
        charts.append(power_balance(run, prefix))
    if run.has_battery:
        charts.append(state_of_charge(run, plans, prefix))
    if tank:
        charts.append(hydrogen(run, plans, prefix))
    charts += [level_of(kind, run, prefix) for kind in other_kinds(trace)]
    if "planned_envelope_w" in trace:
        charts.append(against_plan(run, prefix))
    if run.summary is not None and run.summary.risk is not None and run.summary.risk.windows:
        charts.append(promised_and_seen(run, run.summary.risk, prefix))
    return charts


def power_balance(run: RunData, prefix: str) -> Chart:
    """Sources above zero and uses below, equal in every step."""
    trace, sources, uses = run.trace, sources_of(run.trace), uses_of(run.trace)
    if REST in sources:
        trace = trace.plus(REST, np.maximum(rest_w(trace), 0.0))
    columns = [*sources, *uses]
    curve = powers(trace, columns)
    by_column = dict(zip(columns, curve.values.T, strict=True))
    total_w = sum((by_column[c] for c in sources), np.zeros(len(curve.values)))
    unit, size_w = power_unit(float(total_w.max()))
    chart = TimeChart(f"{prefix}-balance", "Power balance", prefix, run.end_s, unit,
                      f"\u2190 uses\u2003power [{unit}]\u2003sources \u2192", height=330)  # fmt: skip
    nothing = []
    for names, stack in ((sources, "sources"), (uses, "uses")):
        for column, (name, paint) in names.items():
            values_w = by_column[column]
            if values_w.max() <= 1e-9 * max(1.0, float(total_w.max())):
                nothing.append(name)
                continue
            signed = -values_w / size_w if stack == "uses" else values_w / size_w
            chart.steps(name, curve.edges_s, signed, paint, stack=stack)
    if nothing:
        chart.notes.append(f"Zero at all times: {', '.join(nothing)}.")
    return chart.chart(*curve.notes, **_same_scale_both_ways(float(total_w.max()) / size_w))


def state_of_charge(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """Battery level, actual and planned, with its limits, dangerous steps and kills."""
    chart = TimeChart(f"{prefix}-soc", "State of charge", prefix, run.end_s, "%", "state of charge [%]")
    times_s, real_pct = levels(run.trace, "soc_pct", run.soc_start_pct)
    if plans is not None:
        dangerous = dangerous_steps(run, plans)
        turns = np.flatnonzero(np.diff(np.concatenate([[False], dangerous, [False]]).astype(np.int8)))
        chart.shade(step_edges_s(run.trace)[turns].reshape(-1, 2).tolist(), "danger-shade")
        chart.notes.append(
            f"Dangerous steps (shaded; more than half of the plan's nine curves are below the minimum): "
            f"{int(dangerous.sum()):,} of {len(dangerous):,}."
        )
    if "planned_soc_pct" in run.trace:
        chart.line("planned", *levels(run.trace, "planned_soc_pct"), "planned", dash="dash")
    chart.line("real", times_s, real_pct, "battery")
    battery = None if plans is None else plans[0].storage.battery
    limits = {name: getattr(run.battery or battery, field, None) for name, field in BATTERY_LIMITS.items()}
    if (band := target_band(run.battery or battery)) is not None:
        chart.band(*band)
        chart.notes.append(f"On target (grey): {band[0]:g} to {band[1]:g} %.")
    chart.limits({name: float(value) for name, value in limits.items() if value is not None})
    _mark_kills(chart, run, times_s, real_pct)
    return chart.chart(range=[0, 102])


def level_of(kind: type[Device], run: RunData, prefix: str) -> Chart:
    """Level of a device other than battery and hydrogen, actual and planned."""
    unit, title = kind.level_unit(), f"{kind.title[0].upper()}{kind.title[1:]}: {kind.level_words}"
    chart = TimeChart(
        f"{prefix}-{kind.section}", title, prefix, run.end_s, unit, f"{kind.level_words} [{unit}]"
    )
    column = kind.columns.level
    if f"planned_{column}" in run.trace:
        chart.line("planned", *levels(run.trace, f"planned_{column}"), "planned", dash="dash")
    chart.line("real", *levels(run.trace, column), "battery")
    return chart.chart(rangemode="tozero")


def hydrogen(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """Hydrogen in the tank, actual and planned."""
    chart = TimeChart(f"{prefix}-hydrogen", "Hydrogen in the tank", prefix, run.end_s, "kg", "hydrogen [kg]")
    if "planned_hydrogen_kg" in run.trace:
        chart.line("planned", *levels(run.trace, "planned_hydrogen_kg"), "planned", dash="dash")
    chart.line("real", *levels(run.trace, "hydrogen_kg"), "hydrogen")
    if run.hydrogen is not None:
        chart.limits({"target": run.hydrogen.target_kg})
    tank = None if plans is None else plans[0].storage.hydrogen
    if tank is not None:
        chart.limits({"tank full": tank.tank_kg})
    return chart.chart(rangemode="tozero")


def against_plan(run: RunData, prefix: str) -> Chart:
    """Power of the servers, with the demand forecast and the planned envelope."""
    curve = powers(run.trace, ["demand_w", "planned_load_w", "planned_envelope_w"])
    demand_w, load_w, envelope_w = curve.values.T
    unit, size_w = power_unit(float(np.nanmax(curve.values)))
    title = "Demand against the plan"
    chart = TimeChart(f"{prefix}-plan", title, prefix, run.end_s, unit, f"power [{unit}]")
    chart.steps("demand, actual", curve.edges_s, demand_w / size_w, "demand")
    chart.steps("demand, forecast", curve.edges_s, load_w / size_w, "forecast", dash="dot")
    chart.steps("planned for the servers", curve.edges_s, envelope_w / size_w, "planned", dash="dash")
    return chart.chart(*curve.notes, rangemode="tozero")


def promised_and_seen(run: RunData, risk: RiskFigures, prefix: str) -> Chart:
    """Share of violated windows so far, the risk limit, and the production level used for starts."""
    windows = risk.windows
    edges_s = np.array([*(window.start_s for window in windows), run.end_s])
    wrong = np.array([window.wrong for window in windows])
    seen_pct = 100.0 * wrong.cumsum() / np.arange(1, len(windows) + 1)
    level_pct = 100.0 * np.array([window.level for window in windows])
    title = "Risk limit and observed share"
    chart = TimeChart(f"{prefix}-risk", title, prefix, run.end_s, "%", "share of windows [%]")
    chart.steps("violated so far", edges_s, seen_pct, "killed")
    chart.limits({"promised": 100.0 * risk.promised})
    chart.steps("production level used for starts", edges_s, level_pct, "forecast", dash="dot")
    texts = [
        f"{window.killed:,} jobs killed, {window.below:,} steps below the minimum"
        for window in windows
        if window.wrong
    ]
    chart.marks("violated window", edges_s[1:][wrong], seen_pct[wrong], "killed", texts)
    return chart.chart(range=[min(0.0, float(level_pct.min())) - 2.0, 102.0])


def dangerous_steps(run: RunData, plans: Iterable[Plan]) -> BoolArray:
    """Whether each step is dangerous by the plan's predictions, from the window's actual initial level."""
    edges_s = step_edges_s(run.trace)
    levels_pct = run.trace["soc_pct"]
    dangerous = np.zeros(len(levels_pct), dtype=bool)
    for plan in plans:
        first = int(np.searchsorted(edges_s, plan.start_s - plan.step_s / 2))
        battery = plan.storage.battery
        start_j = battery.capacity_j * levels_pct[first - 1] / 100.0 if 0 < first <= len(levels_pct) else None
        of_window = plan.predictions(start_j).dangerous[: len(levels_pct) - first]
        dangerous[first : first + len(of_window)] = of_window
    return dangerous


def _mark_kills(chart: TimeChart, run: RunData, times_s: FloatArray, levels_pct: FloatArray) -> None:
    """Mark the times of job kills, once per instant, at the battery level of that time."""
    at_once: dict[float, list[LogLine]] = {}
    for line in run.endings or []:
        if line.action == "kill" and line.rule != RUN_OVER:
            at_once.setdefault(line.time, []).append(line)
    if at_once:
        texts = []
        for lines in at_once.values():
            names = some_of([line.job for line in lines], 5)
            texts.append(f"{counted(len(lines), 'job')} killed: {names} ({lines[0].rule})")
        at_s = np.array([*at_once])
        chart.marks("kills", at_s, np.interp(at_s, times_s, levels_pct), "killed", texts)


def _same_scale_both_ways(most: float) -> dict[str, Any]:
    """Axis that labels powers above and below zero without a sign."""
    raw = max(most, 1e-9) * 1.05 / 3
    size = 10.0 ** np.floor(np.log10(raw))
    spacing = next(s for s in (1 * size, 2 * size, 2.5 * size, 5 * size, 10 * size) if s >= raw)
    ticks = spacing * np.arange(-3, 4)
    return {"range": [-1.05 * most, 1.05 * most], "tickmode": "array", "tickvals": ticks.tolist(),
            "ticktext": [f"{abs(tick):g}" for tick in ticks]}  # fmt: skip


# --- energy flows -------------------------------------------------------------------------------------------

SITE: Final = "site"
SERVERS: Final = "demand_w"
"""Node of the servers: the trace's column of their power."""
SERVER_USES: Final = {
    "finished_jobs": ("jobs that finished", "finished"),
    "other_jobs": ("other jobs", "killed"),
    "idle": ("idle servers", "idle"),
    "transitions": ("switching on and off", "switching-on"),
    "sleeping": ("sleeping servers", "sleeping"),
}
"""Uses of the servers' energy: fields of the summary, with name and colour."""
_NOTHING: Final = 1e-7
"""Flows below this share of the total are omitted: 1 Wh of 10 MWh."""
_ACCOUNTS_APART: Final = 1e-4


@dataclass(frozen=True)
class Flow:
    """Energy flow from one node to another."""

    start: str
    end: str
    kwh: float


def energy_flows(run: RunData) -> list[Flow]:
    """Energy flows into the site, out of it, and through the servers.

    Nodes are columns of the trace, `SITE`, and fields of `SERVER_USES`. Flows of zero are omitted. The
    energy of the servers is divided in the proportions of the scheduler's own accounting.
    """
    hours = np.diff(step_edges_s(run.trace)) / SECONDS_PER_HOUR

    def kwh(column: str) -> float:
        if column == REST:
            return kwh("renewable_w") - sum(kwh(part) for part in parts_of(run.trace))
        return float(run.trace[column] @ hours) / 1e3

    flows = [Flow(column, SITE, kwh(column)) for column in sources_of(run.trace)]
    flows += [Flow(SITE, column, kwh(column)) for column in uses_of(run.trace)]
    parts: dict[str, float] = {name: getattr(run.energy_kwh, name, 0.0) for name in SERVER_USES}
    if (own_kwh := sum(parts.values())) > 0.0:
        scale = kwh(SERVERS) / own_kwh
        flows += [Flow(SERVERS, name, scale * part_kwh) for name, part_kwh in parts.items()]
    least = _NOTHING * sum(flow.kwh for flow in flows if flow.end == SITE)
    return [flow for flow in flows if flow.kwh > least]


def energy_flow(run: RunData, prefix: str) -> Chart | Absent:
    """Sankey diagram, sources on the left."""
    title = "Energy flows"
    flows = energy_flows(run)
    if not flows:
        return Absent(title, "no energy flowed")
    labels = {SITE: ("site", "ink-soft")} | sources_of(run.trace) | uses_of(run.trace) | SERVER_USES
    labels[SERVERS] = ("servers", "demand")
    nodes = list(dict.fromkeys(node for flow in flows for node in (flow.start, flow.end)))
    through = {node: max(sum(f.kwh for f in flows if f.start == node),
                         sum(f.kwh for f in flows if f.end == node)) for node in nodes}  # fmt: skip
    trace = {
        "type": "sankey", "arrangement": "snap", "valueformat": ",.2f", "valuesuffix": " kWh",
        "node": {
            "label": [plain(labels[node][0]) for node in nodes],
            "customdata": [f"{through[node]:,.4g} kWh" for node in nodes],
            "color": [color(labels[node][1]) for node in nodes],
            "pad": 16, "thickness": 14, "line": {"width": 0},
            "hovertemplate": "%{label}: %{customdata}<extra></extra>",
        },
        "link": {
            "source": [nodes.index(flow.start) for flow in flows],
            "target": [nodes.index(flow.end) for flow in flows],
            "value": [flow.kwh for flow in flows],
            "color": [faded(labels[f.end if f.start in (SITE, SERVERS) else f.start][1]) for f in flows],
            "hovertemplate": "%{value:,.2f} kWh<extra></extra>",
        },
    }  # fmt: skip
    spec = {"kind": "plot", "height": 380, "traces": [trace], "layout": {"margin": {"l": 12, "b": 16}}}
    return Chart(f"{prefix}-flow", title, spec, " ".join(_notes(run, flows)))


def _notes(run: RunData, flows: list[Flow]) -> list[str]:
    notes = []
    came = sum(flow.kwh for flow in flows if flow.end == SITE)
    went = sum(flow.kwh for flow in flows if flow.start == SITE)
    notes.append(f"In: {came:,.2f} kWh, out: {went:,.2f} kWh.")
    if any(flow.start == "renewable_w" for flow in flows):
        notes.append("The power events of this run do not distinguish solar and wind.")
    if (own := run.energy_kwh) is None:
        return notes
    metered, account = own.consumed, own.consumed_by_own_account
    if metered > 0.0 and account > 0.0 and abs(account / metered - 1.0) > _ACCOUNTS_APART:
        notes.append(
            "The servers' energy is divided by the scheduler's model and scaled to the metered total."
        )
    return notes
