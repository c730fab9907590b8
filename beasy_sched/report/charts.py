"""Charts of one run: its energy (power balance, levels, demand against the plan), jobs and servers.

A `StepCurve` is a quantity that changes at instants; `Rectangles` show jobs and server states over time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.limits import MOST_HOSTS_NAMED, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.plan.plan import Plan, PlanStore
from beasy_sched.report.page import MOST_POINTS, Absent, Chart, TimeChart, power_unit
from beasy_sched.report.run_data import OUTCOMES, RunData, RunJobs
from beasy_sched.results import RUN_OVER, LogLine


@dataclass(frozen=True)
class StepCurve:
    """A value (row i of ``values``, of shape (n,) or (n, k)) from each time to the next; n times, rising."""

    times_s: FloatArray
    values: FloatArray
    notes: list[str] = field(default_factory=list)
    """What has to be said of it below its chart."""

    def mean_over(self, edges_s: FloatArray) -> StepCurve:
        """The time-weighted means between ``edges_s``: sums over time stay what they were.

        Before the first time the value is 0; after the last it stays.
        """
        values = self.values.reshape(len(self.times_s), -1)
        lengths_s = np.diff(self.times_s)[:, None]
        sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values[:-1] * lengths_s, axis=0)])
        at = np.searchsorted(self.times_s, edges_s, "right") - 1
        since_s = np.where(at >= 0, edges_s - self.times_s[at], 0.0)[:, None]
        reached = np.where(at[:, None] >= 0, sums[at] + values[at] * since_s, 0.0)
        means = np.diff(reached, axis=0) / np.diff(edges_s)[:, None]
        return StepCurve(edges_s[:-1], means.reshape(-1, *self.values.shape[1:]))

    def thinned(self, end_s: float, most: int = MOST_POINTS) -> StepCurve:
        """Itself where it has at most ``most`` times, means over that many equal spans elsewhere."""
        if len(self.times_s) <= most or end_s <= self.times_s[0]:
            return self
        edges_s = np.linspace(self.times_s[0], end_s, most + 1)
        note = f"Means over {edges_s[1] - edges_s[0]:,.0f} s each."
        return replace(self.mean_over(edges_s), notes=[note])


def count_changes(times_s: FloatArray, changes: FloatArray) -> StepCurve:
    """Add up ``changes`` in the order of their times; several at one time count as one."""
    order = np.argsort(times_s, kind="stable")
    return last_of_each_time(times_s[order], np.cumsum(changes[order], axis=0))


def last_of_each_time(times_s: FloatArray, values: FloatArray) -> StepCurve:
    """Keep the last row of each time; the times must not fall."""
    last = np.diff(times_s, append=np.inf) > 0
    return StepCurve(times_s[last], values[last])


SOURCES: Final = {
    "renewable_w": ("production (sun, wind)", "production"),
    "discharge_w": ("battery discharge", "battery"),
    "fuel_cell_w": ("fuel cell", "hydrogen"),
    "grid_import_w": ("grid import", "import"),
    "unserved_w": ("unserved", "unserved"),
}
"""Where power comes from: columns of the energy trace, with name and colour."""
USES: Final = {
    "demand_w": ("demand of the servers", "demand"),
    "base_w": ("base load", "base"),
    "charge_w": ("battery charge", "charge"),
    "electrolyzer_w": ("electrolyzer", "electrolyzer"),
    "grid_export_w": ("grid export", "export"),
    "curtailed_w": ("curtailed", "curtailed"),
}
"""Where it goes."""
_APART: Final = {"sun_w": ("sun", "production"), "wind_w": ("wind", "wind")}
"""Sun and wind, in the place of the production where the trace has them apart."""


def sources_of(trace: Any) -> dict[str, tuple[str, str]]:
    """The sources of a trace, sun and wind apart where it has them; wind is production less sun."""
    known = {column: told for column, told in SOURCES.items() if column in trace.columns}
    if "sun_w" not in trace.columns or trace["sun_w"].isna().any():
        return known
    return _APART | {column: told for column, told in known.items() if column != "renewable_w"}


def uses_of(trace: Any) -> dict[str, tuple[str, str]]:
    """The uses of a trace."""
    return {column: told for column, told in USES.items() if column in trace.columns}


BATTERY_LIMITS: Final = {"minimum": "soc_min_pct", "maximum": "soc_max_pct", "target": "soc_target_pct"}
"""Levels of the battery, with their fields in a summary and in a site."""


def energy_charts(run: RunData, plans: PlanStore | None, prefix: str) -> list[Chart | Absent]:
    """All charts that need the energy trace, or one line that says why there are none."""
    if run.trace is None or not len(run.trace):
        no_file = "the run has no energy_trace.csv, or an empty one"
        why = no_file if run.trace is None else "no step of the site was settled"
        return [Absent("Power balance, state of charge", f"{why} (runs with --site write one)")]
    columns = run.trace.columns
    tank = "hydrogen_final_kg" in run.site or ("hydrogen_kg" in columns and run.trace["hydrogen_kg"].any())
    charts: list[Chart | Absent] = []
    if run.has_battery or tank or not run.grid:  # the chart of green and brown power has all of it otherwise
        charts.append(power_balance(run, prefix))
    if run.has_battery:
        charts.append(state_of_charge(run, plans, prefix))
    if tank:
        charts.append(hydrogen(run, plans, prefix))
    if "planned_envelope_w" in columns:
        charts.append(against_plan(run, prefix))
    return charts


def step_edges_s(trace: Any) -> FloatArray:
    """The start of each step, and the end of the last."""
    starts_s = trace["start_s"].to_numpy(np.float64)
    return np.append(starts_s, starts_s[-1] + float(trace["duration_s"].iloc[-1]))


def powers(trace: Any, columns: list[str]) -> StepCurve:
    """The mean powers of the steps (W), one column each, thinned."""
    edges_s = step_edges_s(trace)
    return StepCurve(edges_s[:-1], trace[columns].to_numpy(np.float64)).thinned(float(edges_s[-1]))


def levels(trace: Any, column: str, start: float | None = None) -> tuple[FloatArray, FloatArray]:
    """A level at the ends of the steps, with the one at the start where it is known."""
    edges_s, values = step_edges_s(trace), trace[column].to_numpy(np.float64)
    if start is None:
        return edges_s[1:], values
    return edges_s, np.append(start, values)


def power_balance(run: RunData, prefix: str) -> Chart:
    """Sources above zero and uses below, equal in every step."""
    trace, sources, uses = run.trace, sources_of(run.trace), uses_of(run.trace)
    if "wind_w" in sources:
        trace = trace.assign(wind_w=(trace["renewable_w"] - trace["sun_w"]).clip(lower=0.0))
    columns = [*sources, *uses]
    curve = powers(trace, columns)
    by_column = dict(zip(columns, curve.values.T, strict=True))
    total_w = sum((by_column[c] for c in sources), np.zeros(len(curve.times_s)))
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
            chart.steps(name, curve.times_s, signed, paint, stack=stack)
    if nothing:
        chart.notes.append(f"Zero at all times: {', '.join(nothing)}.")
    return chart.chart(*curve.notes, **_same_scale_both_ways(float(total_w.max()) / size_w))


def state_of_charge(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """The battery, real and planned, with its limits, dangerous steps and kills."""
    chart = TimeChart(f"{prefix}-soc", "State of charge", prefix, run.end_s, "%", "state of charge [%]")
    times_s, real_pct = levels(run.trace, "soc_pct", run.site.get("soc_start_pct"))
    if plans is not None:
        dangerous = dangerous_steps(run, plans)
        turns = np.flatnonzero(np.diff(np.concatenate([[False], dangerous, [False]]).astype(np.int8)))
        chart.shade(step_edges_s(run.trace)[turns].reshape(-1, 2).tolist(), "danger-shade")
        chart.notes.append(
            f"Dangerous steps (shaded; more than half of the plan's nine curves are below the minimum): "
            f"{int(dangerous.sum()):,} of {len(dangerous):,}."
        )
    if "planned_soc_pct" in run.trace.columns:
        chart.line("planned", *levels(run.trace, "planned_soc_pct"), "planned", dash="dash")
    chart.line("real", times_s, real_pct, "battery")
    battery = None if plans is None else plans[0].storage.battery
    found = {
        name: run.site.get(field, getattr(battery, field, None)) for name, field in BATTERY_LIMITS.items()
    }
    chart.limits({name: float(value) for name, value in found.items() if value is not None})
    _mark_kills(chart, run, times_s, real_pct)
    return chart.chart(range=[0, 102])


def hydrogen(run: RunData, plans: PlanStore | None, prefix: str) -> Chart:
    """The hydrogen in the tank, real and planned."""
    chart = TimeChart(f"{prefix}-hydrogen", "Hydrogen in the tank", prefix, run.end_s, "kg", "hydrogen [kg]")
    if "planned_hydrogen_kg" in run.trace.columns:
        chart.line("planned", *levels(run.trace, "planned_hydrogen_kg"), "planned", dash="dash")
    chart.line("real", *levels(run.trace, "hydrogen_kg"), "hydrogen")
    if "hydrogen_final_kg" in run.site:
        chart.limits({"target": run.site["hydrogen_final_kg"] - run.site["hydrogen_distance_kg"]})
    tank = None if plans is None else plans[0].storage.hydrogen
    if tank is not None:
        chart.limits({"tank full": tank.tank_kg})
    return chart.chart(rangemode="tozero")


def against_plan(run: RunData, prefix: str) -> Chart:
    """What the servers drew, beside the demand forecast and what the plan allots to them."""
    curve = powers(run.trace, ["demand_w", "planned_load_w", "planned_envelope_w"])
    demand_w, load_w, envelope_w = curve.values.T
    unit, size_w = power_unit(float(np.nanmax(curve.values)))
    title = "Demand against the plan"
    chart = TimeChart(f"{prefix}-plan", title, prefix, run.end_s, unit, f"power [{unit}]")
    chart.steps("demand, real", curve.times_s, demand_w / size_w, "demand")
    chart.steps("demand, forecast", curve.times_s, load_w / size_w, "forecast", dash="dot")
    chart.steps("planned for the servers", curve.times_s, envelope_w / size_w, "planned", dash="dash")
    return chart.chart(*curve.notes, rangemode="tozero")


def dangerous_steps(run: RunData, plans: Iterable[Plan]) -> BoolArray:
    """Whether each step of the trace is dangerous by the plan's predictions, from the window's real level."""
    edges_s = step_edges_s(run.trace)
    levels_pct = run.trace["soc_pct"].to_numpy(np.float64)
    dangerous = np.zeros(len(levels_pct), dtype=bool)
    for plan in plans:
        first = int(np.searchsorted(edges_s, plan.start_s - plan.step_s / 2))
        battery = plan.storage.battery
        start_j = battery.capacity_j * levels_pct[first - 1] / 100.0 if 0 < first <= len(levels_pct) else None
        found = plan.predictions(start_j).dangerous[: len(levels_pct) - first]
        dangerous[first : first + len(found)] = found
    return dangerous


def _mark_kills(chart: TimeChart, run: RunData, times_s: FloatArray, levels_pct: FloatArray) -> None:
    """Mark where jobs were killed, once per instant, at the level at that time."""
    at_once: dict[float, list[LogLine]] = {}
    for line in run.endings or []:
        if line.action == "kill" and line.rule != RUN_OVER:
            at_once.setdefault(line.time, []).append(line)
    if at_once:
        texts = []
        for lines in at_once.values():
            names = ", ".join(line.job for line in lines[:5])
            more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
            count = "1 job" if len(lines) == 1 else f"{len(lines)} jobs"
            texts.append(f"{count} killed: {names}{more} ({lines[0].rule})")
        at_s = np.array([*at_once])
        chart.marks("kills", at_s, np.interp(at_s, times_s, levels_pct), "killed", texts)


def _same_scale_both_ways(most: float) -> dict[str, Any]:
    """An axis that labels powers above and below zero alike, without a sign."""
    raw = max(most, 1e-9) * 1.05 / 3
    size = 10.0 ** np.floor(np.log10(raw))
    spacing = next(s for s in (1 * size, 2 * size, 2.5 * size, 5 * size, 10 * size) if s >= raw)
    ticks = spacing * np.arange(-3, 4)
    return {"range": [-1.05 * most, 1.05 * most], "tickmode": "array", "tickvals": ticks.tolist(),
            "ticktext": [f"{abs(tick):g}" for tick in ticks]}  # fmt: skip


_TO_ON, _TO_SLEEP = -1, -2
"""How Batsim writes P-states of servers under way."""


class ServerState(IntEnum):
    """What a server does, as the chart tells states apart."""

    ON = 0
    SLEEPING = 1
    SWITCHING_ON = 2
    SWITCHING_OFF = 3


@dataclass(frozen=True)
class Rectangles:
    """Rectangles: servers ``low`` to ``high`` (both within), from ``start_s`` to ``end_s``."""

    start_s: FloatArray
    end_s: FloatArray
    low: IntArray
    high: IntArray
    what: IntArray
    """Of jobs: the place in `RunJobs`. Of states: a `ServerState`."""
    pstate: IntArray
    """Of states: the P-state of servers that are on; -1 elsewhere."""

    def __len__(self) -> int:
        return len(self.start_s)


def job_bars(jobs: RunJobs, path: str | os.PathLike[str]) -> Rectangles:
    """One rectangle for every range of neighbouring servers of every job that ran.

    ``path`` is for messages. Raises InputError for servers that cannot be read.
    """
    found: list[tuple[int, int, int]] = []
    for job, text in enumerate(jobs.hosts):
        try:
            found += ((job, first, last) for first, last in HostSet.ranges(text))
        except ValueError as error:
            told = f"{jobs.ids[job]}: cannot read the servers {shortened(text)!r}"
            raise InputError(path, f"{told}, expected such as '0 3-5': {error}") from None
    what, low, high = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Rectangles(jobs.start_s[what], jobs.end_s[what], low, high, what, np.full(len(what), -1))


def state_bars(changes: Any, end_s: float, path: str | os.PathLike[str]) -> Rectangles:
    """The states of all servers up to ``end_s``, from Batsim's table of P-state changes.

    A server that was switching off sleeps in the P-state that it reaches, until it is switched on again.
    """
    hosts, times_s, pstates = changes_by_host(changes, path)
    first = np.diff(hosts, prepend=-1) != 0
    fell = ~first & (np.roll(pstates, 1) == _TO_SLEEP)
    state = np.select(
        [pstates == _TO_ON, pstates == _TO_SLEEP, fell],
        [ServerState.SWITCHING_ON, ServerState.SWITCHING_OFF, ServerState.SLEEPING],
        ServerState.ON,
    )
    until_s = np.where(np.roll(first, -1), end_s, np.roll(times_s, -1))
    pstate = np.where(state == ServerState.ON, pstates, -1)
    lasts = until_s > times_s
    columns: list[Any] = [column[lasts] for column in (times_s, until_s, state, pstate, hosts)]
    order = np.lexsort(tuple(reversed(columns)))
    columns = [column[order] for column in columns]
    new = np.ones(len(order), dtype=bool)  # neighbouring servers alike for the same time are one rectangle
    new[1:] = np.any([c[1:] != c[:-1] for c in columns[:-1]], axis=0) | (np.diff(columns[-1]) != 1)
    start_s, ends_s, state, pstate, low = (column[new] for column in columns)
    return Rectangles(start_s, ends_s, low, columns[-1][np.roll(new, -1)], state, pstate)


def changes_by_host(changes: Any, path: str | os.PathLike[str]) -> tuple[IntArray, FloatArray, IntArray]:
    """One row per server and change, by server and in the order of the file."""
    rows, count = [], 0
    for line, text in enumerate(changes["machine_id"].astype(str), 2):
        try:
            rows.append(HostSet.parse(text).ids)
        except ValueError as error:
            raise InputError(path, f"machine_id: {error}", line=line) from None
        count += len(rows[-1])
        if count > MOST_HOSTS_NAMED:
            raise InputError(path, f"names more than {MOST_HOSTS_NAMED:,} servers altogether", line=line)
    lengths = [len(row) for row in rows]
    hosts = np.concatenate(rows) if rows else np.empty(0, np.int64)
    times_s = np.repeat(changes["time"].to_numpy(np.float64), lengths)
    pstates = np.repeat(changes["new_pstate"].to_numpy(np.int64), lengths)
    order = np.argsort(hosts, kind="stable")
    return hosts[order].astype(np.int64), times_s[order], pstates[order]


STATES = {
    "nb_computing": ("computing", "computing"),
    "nb_idle": ("idle", "idle"),
    "nb_switching_on": ("switching on", "switching-on"),
    "nb_switching_off": ("switching off", "switching-off"),
    "nb_sleeping": ("sleeping", "sleeping"),
}
"""Batsim's columns of server states, with name and colour, from the bottom of the stack."""
BATSIMS: Final = "or an empty one (Batsim writes it; export under the same prefix with 'batsim -e')"
"""What is said of a file of Batsim's that is missing."""


def job_charts(run: RunData, prefix: str) -> list[Chart | Absent]:
    """The charts that need Batsim's files; for each file that is missing a line that says so."""
    if run.jobs is not None and run.jobs.ids:
        charts: list[Chart | Absent] = [gantt(run, run.jobs, prefix), queue(run, run.jobs, prefix)]
    else:
        why = f"the run has no jobs.csv, {BATSIMS}" if run.jobs is None else "the run has no job"
        charts = [Absent("Servers and jobs, queue, waiting times", why)]
    if run.states is None or not len(run.states):
        missing = Absent("Servers by state, utilization", f"the run has no machine_states.csv, {BATSIMS}")
        return [*charts, missing]
    return [*charts, servers_by_state(run, prefix), utilization(run, prefix)]


def gantt(run: RunData, jobs: RunJobs, prefix: str) -> Chart:
    """Every job on its servers, and what the servers did besides."""
    bars = job_bars(jobs, f"{run.prefix}_jobs.csv")
    note = "Drag to zoom in, double-click to zoom out; hover to see the job, click to see why."
    states: dict[str, object] = {}
    highest = int(bars.high.max(initial=-1))
    if run.pstates is None:
        note += " The run has no pstate_changes.csv, so sleeping servers are not shown."
    else:
        found = state_bars(run.pstates, run.end_s, f"{run.prefix}_pstate_changes.csv")
        highest = max(highest, int(found.high.max(initial=-1)))
        states = {
            "start": found.start_s.astype(np.float32), "end": found.end_s.astype(np.float32),
            "low": found.low.astype(np.int32), "high": found.high.astype(np.int32),
            "state": found.what.astype(np.int8), "pstate": found.pstate.astype(np.int16),
        }  # fmt: skip
    servers = max(highest + 1, int(run.summary.get("hosts") or 0))
    spec = {
        "kind": "gantt", "group": prefix, "end": run.end_s, "height": 460, "servers": servers,
        "layout": {"yaxis": {"range": [-0.5, servers - 0.5], "title": {"text": "server"}}, "hovermode": False,
                   "showlegend": False},
        "outcomes": [state.value for state in OUTCOMES],
        "bars": {"job": bars.what.astype(np.int32), "low": bars.low.astype(np.int32),
                 "high": bars.high.astype(np.int32)},
        "states": states,
        "jobs": {"id": jobs.ids, "submit": jobs.submit_s.astype(np.float32),
                 "start": jobs.start_s.astype(np.float32), "end": jobs.end_s.astype(np.float32),
                 **_known(jobs), **_rules(run, jobs),
                 "outcome": jobs.outcome, "servers": jobs.servers.astype(np.int32)},
    }  # fmt: skip
    return Chart(f"{prefix}-gantt", "Servers and jobs", spec, note)


def _known(jobs: RunJobs) -> dict[str, Any]:
    """Walltimes (s) and energies (J) of the jobs, where the table has them."""
    columns = {"walltime": jobs.walltime_s, "energy": jobs.energy_j}
    return {name: values.astype(np.float32) for name, values in columns.items() if values is not None}


def _rules(run: RunData, jobs: RunJobs) -> dict[str, Any]:
    """Why jobs were started and killed, as the log has it: rules, and those of each job (-1: none)."""
    kills = {line.job: line.rule for line in run.endings or [] if line.action == "kill"}
    rules = list(dict.fromkeys([*run.start_rules.values(), *kills.values()]))
    number = {rule: place for place, rule in enumerate(rules)}

    def places(rule_of: dict[str, str]) -> IntArray:
        found = [number[rule_of[job]] if job in rule_of else -1 for job in jobs.ids]
        return np.array(found, dtype=np.int64)

    return {"rules": rules, "start_rule": places(run.start_rules), "rule": places(kills)}


def until_s(run: RunData, jobs: RunJobs) -> FloatArray:
    """Until when each job waited, s: until it started, was rejected by the policy, or the run ended."""
    rejected_s = {line.job: line.time for line in run.endings or [] if line.action == "reject"}
    found_s = jobs.start_s.copy()
    for place in np.flatnonzero(np.isnan(found_s)):
        found_s[place] = rejected_s.get(jobs.ids[place], max(run.end_s, jobs.submit_s[place]))
    return found_s


def waiting(run: RunData, jobs: RunJobs) -> StepCurve:
    """How many jobs wait, and for how many servers, two columns."""
    counts = np.column_stack([np.ones(len(jobs.ids)), jobs.servers])
    times_s = np.concatenate([jobs.submit_s, until_s(run, jobs)])
    return count_changes(times_s, np.concatenate([counts, -counts]))


def queue(run: RunData, jobs: RunJobs, prefix: str) -> Chart:
    """Jobs that wait, and servers that they ask for."""
    curve = waiting(run, jobs).thinned(run.end_s)
    chart = TimeChart(f"{prefix}-queue", "Queue", prefix, run.end_s, "", "waiting")
    chart.steps("servers asked for", curve.times_s, curve.values[:, 1], "asked", width=1.2)
    chart.steps("jobs", curve.times_s, curve.values[:, 0], "waiting")
    return chart.chart(*curve.notes, rangemode="tozero")


def servers_by_state(run: RunData, prefix: str) -> Chart:
    """Servers that compute, idle, switch and sleep, stacked; planned ones as a line."""
    columns = [column for column in STATES if column in run.states.columns]
    times_s, counts = run.states["time"].to_numpy(np.float64), run.states[columns].to_numpy(np.float64)
    exact = last_of_each_time(times_s, counts)
    curve = exact.thinned(run.end_s)
    chart = TimeChart(f"{prefix}-states", "Servers by state", prefix, run.end_s, "", "servers")
    for column, values in zip(columns, curve.values.T, strict=True):
        name, paint = STATES[column]
        chart.steps(name, curve.times_s, values, paint, stack="states")
    if run.trace is not None and "planned_servers_on" in run.trace.columns:
        on = run.trace["planned_servers_on"].to_numpy(np.float64)
        if np.isfinite(on).any():
            chart.steps("planned on", step_edges_s(run.trace)[:-1], on, "planned", dash="dash")
    most = float(exact.values.sum(axis=1).max())
    return chart.chart(*curve.notes, range=[0, 1.02 * most])


def utilization(run: RunData, prefix: str) -> Chart:
    """Share of the servers that compute: of all, and of those that are on."""
    computing = run.states["nb_computing"].to_numpy(np.float64)
    on = computing + run.states["nb_idle"].to_numpy(np.float64)
    of_all = run.states[[c for c in STATES if c in run.states.columns]].to_numpy(np.float64).sum(axis=1)
    counts = np.column_stack([computing, on, of_all])
    curve = last_of_each_time(run.states["time"].to_numpy(np.float64), counts).thinned(run.end_s, 480)
    computing, on, of_all = curve.values.T
    chart = TimeChart(
        f"{prefix}-utilization", "Utilization", prefix, run.end_s, "%", "share that computes [%]"
    )
    for name, whole, paint in (("of the servers that are on", on, "asked"), ("of all", of_all, "computing")):
        share_pct = np.divide(100.0 * computing, whole, out=np.zeros(len(whole)), where=whole > 0.0)
        chart.steps(name, curve.times_s, share_pct, paint)
    lasts_s = np.diff(curve.times_s, append=max(run.end_s, curve.times_s[-1]))
    whole = float(of_all @ lasts_s)
    mean = f"On average {100.0 * float(computing @ lasts_s) / whole:.2f} % of all." if whole > 0.0 else ""
    return chart.chart(*curve.notes, *([mean] if mean else []), range=[0, 102])
