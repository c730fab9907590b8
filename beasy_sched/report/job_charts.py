"""Charts of a run's jobs and servers: the Gantt chart, the queue, servers by state."""

from __future__ import annotations

from typing import Any

import numpy as np

from beasy_sched.report.chart import MOST_POINTS, Absent, Chart, TimeChart
from beasy_sched.report.gantt import job_bars, state_bars
from beasy_sched.report.run_data import OUTCOMES, Jobs, RunData
from beasy_sched.report.steps import StepCurve, count_changes, last_of_each_time

STATES = {
    "nb_computing": ("computing", "computing"),
    "nb_idle": ("idle", "idle"),
    "nb_switching_on": ("switching on", "switching-on"),
    "nb_switching_off": ("switching off", "switching-off"),
    "nb_sleeping": ("sleeping", "sleeping"),
}
"""Batsim's columns of server states, with name and colour, from the bottom of the stack."""
_BATSIMS = "Batsim writes it; export under the same prefix with 'batsim -e'"


def job_charts(run: RunData, prefix: str) -> list[Chart | Absent]:
    """The charts that need Batsim's files; for each file that is missing a line that says so."""
    charts: list[Chart | Absent] = []
    if run.jobs is None:
        charts.append(
            Absent("Servers and jobs, queue", f"the run has no jobs.csv, or an empty one ({_BATSIMS})")
        )
    elif not run.jobs.ids:
        charts.append(Absent("Servers and jobs, queue", "the run has no job"))
    else:
        charts += [gantt(run, run.jobs, prefix), queue(run, run.jobs, prefix)]
    if run.states is None or not len(run.states):
        charts.append(
            Absent("Servers by state", f"the run has no machine_states.csv, or an empty one ({_BATSIMS})")
        )
    else:
        charts.append(servers_by_state(run, prefix))
    return charts


def gantt(run: RunData, jobs: Jobs, prefix: str) -> Chart:
    """Every job on its servers, and what the servers did besides."""
    bars = job_bars(jobs, f"{run.prefix}_jobs.csv")
    note = "Drag to zoom in, double-click for all; the mouse tells which job."
    states: dict[str, object] = {}
    highest = int(bars.high.max(initial=-1))
    if run.pstates is None:
        note += " Which servers slept is not known: the run has no pstate_changes.csv."
    else:
        found = state_bars(run.pstates, run.end_s, f"{run.prefix}_pstate_changes.csv")
        highest = max(highest, int(found.high.max(initial=-1)))
        states = {
            "start": found.start_s.astype(np.float32), "end": found.end_s.astype(np.float32),
            "low": found.low.astype(np.int32), "high": found.high.astype(np.int32),
            "state": found.what.astype(np.int8), "pstate": found.pstate.astype(np.int16),
        }  # fmt: skip
    servers = max(highest + 1, int((run.summary or {}).get("hosts") or 0))
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
                 **_kill_rules(run, jobs),
                 "outcome": jobs.outcome, "servers": jobs.servers.astype(np.int32)},
    }  # fmt: skip
    return Chart(f"{prefix}-gantt", "Servers and jobs", spec, note)


def _kill_rules(run: RunData, jobs: Jobs) -> dict[str, Any]:
    """Why jobs were killed, as the decision log has it: the rules, and the one of each job (-1: none)."""
    rule_of = {line.job: line.rule for line in run.endings or [] if line.action == "kill"}
    rules = list(dict.fromkeys(rule_of.values()))
    number = {rule: place for place, rule in enumerate(rules)}
    killed = [number[rule_of[job]] if job in rule_of else -1 for job in jobs.ids]
    return {"rules": rules, "rule": np.array(killed, dtype=np.int16)}


def waiting(run: RunData, jobs: Jobs) -> StepCurve:
    """How many jobs wait, and for how many servers, two columns; one that never starts waits to the end.

    A job that the policy rejected waits until then.
    """
    rejected_s = {line.job: line.time for line in run.endings or [] if line.action == "reject"}
    until_s = jobs.start_s.copy()
    for place in np.flatnonzero(np.isnan(until_s)):
        until_s[place] = rejected_s.get(jobs.ids[place], max(run.end_s, jobs.submit_s[place]))
    times_s = np.concatenate([jobs.submit_s, until_s])
    both = [
        count_changes(times_s, np.concatenate([counts, -counts]))
        for counts in (np.ones(len(jobs.ids)), jobs.servers.astype(np.float64))
    ]
    return StepCurve(both[0].times_s, np.column_stack([curve.values for curve in both]))


def queue(run: RunData, jobs: Jobs, prefix: str) -> Chart:
    """Jobs that wait, and servers that they ask for."""
    exact = waiting(run, jobs)
    curve = exact.thinned(run.end_s, MOST_POINTS)
    chart = TimeChart(f"{prefix}-queue", "Queue", prefix, run.end_s, "", "waiting")
    chart.steps("servers asked for", curve.times_s, curve.values[:, 1], "asked", width=1.2)
    chart.steps("jobs", curve.times_s, curve.values[:, 0], "waiting")
    chart.y_axis(rangemode="tozero")
    _say_thinned(chart, exact, curve)
    return chart.chart()


def servers_by_state(run: RunData, prefix: str) -> Chart:
    """Servers that compute, idle, switch and sleep, stacked; planned ones as a line."""
    columns = [column for column in STATES if column in run.states.columns]
    exact = last_of_each_time(
        run.states["time"].to_numpy(np.float64), run.states[columns].to_numpy(np.float64)
    )
    curve = exact.thinned(run.end_s, MOST_POINTS)
    chart = TimeChart(f"{prefix}-states", "Servers by state", prefix, run.end_s, "", "servers")
    for column, values in zip(columns, curve.values.T, strict=True):
        name, paint = STATES[column]
        chart.steps(name, curve.times_s, values, paint, stack="states")
    if run.trace is not None and "planned_servers_on" in run.trace.columns:
        on = run.trace["planned_servers_on"].to_numpy(np.float64)
        if np.isfinite(on).any():
            times_s = run.trace["start_s"].to_numpy(np.float64)
            chart.steps("planned on", times_s, on, "planned", dash="dash")
    chart.y_axis(range=[0, 1.02 * float(exact.values.sum(axis=1).max())])
    _say_thinned(chart, exact, curve)
    return chart.chart()


def _say_thinned(chart: TimeChart, exact: StepCurve, curve: StepCurve) -> None:
    if curve is not exact:
        span_s = float(curve.times_s[1] - curve.times_s[0])
        chart.notes.append(f"Means over {span_s:,.0f} s each.")
