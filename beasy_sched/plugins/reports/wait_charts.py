"""Charts of waiting jobs: the queue, and waiting times by submission and as a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.reports.page import Chart, TimeChart, color, plain
from beasy_sched.plugins.reports.run_data import RunData, RunJobs, StepCurve, count_changes

SPANS: Final = 240
"""Number of time spans over which waits are aggregated."""
_UNITS: Final = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
_TICKS: Final = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 86_400: "1 d",
                 864_000: "10 d", 8_640_000: "100 d"}  # fmt: skip


def until_s(run: RunData, jobs: RunJobs) -> FloatArray:
    """Return the end of each job's wait, s: its start, its rejection, or the end of the run."""
    rejected_s = {line.job: line.time for line in run.endings or [] if line.action == "reject"}
    found_s = jobs.start_s.copy()
    for place in np.flatnonzero(np.isnan(found_s)):
        found_s[place] = rejected_s.get(jobs.ids[place], max(run.end_s, jobs.submit_s[place]))
    return found_s


def waiting(run: RunData, jobs: RunJobs) -> StepCurve:
    """Return the number of waiting jobs and of the servers they request, two columns."""
    counts = np.column_stack([np.ones(len(jobs.ids)), jobs.servers])
    times_s = np.concatenate([jobs.submit_s, until_s(run, jobs)])
    return count_changes(times_s, np.concatenate([counts, -counts]), run.end_s)


def queue(run: RunData, jobs: RunJobs, prefix: str) -> Chart:
    """Chart of waiting jobs and the servers they request."""
    curve = waiting(run, jobs).thinned()
    chart = TimeChart(f"{prefix}-queue", "Queue", prefix, run.end_s, "", "waiting")
    chart.steps("servers requested", curve.edges_s, curve.values[:, 1], "asked", width=1.2)
    chart.steps("jobs", curve.edges_s, curve.values[:, 0], "waiting")
    return chart.chart(*curve.notes, rangemode="tozero")


def waits_s(run: RunData, jobs: RunJobs) -> FloatArray:
    """Return the wait of each job, s: until its start, its rejection, or the end of the run."""
    return np.maximum(until_s(run, jobs) - jobs.submit_s, 0.0)


def waits_over_time(run: RunData, jobs: RunJobs, prefix: str) -> Chart:
    """Chart of the mean and longest wait of the jobs submitted in each time span."""
    waited_s = waits_s(run, jobs)
    edges_s = np.linspace(0.0, max(run.end_s, float(jobs.submit_s.max()), 1e-6), SPANS + 1)
    span = np.clip(np.searchsorted(edges_s, jobs.submit_s, "right") - 1, 0, SPANS - 1)
    counts, sums_s = np.bincount(span, minlength=SPANS), np.bincount(span, waited_s, SPANS)
    longest_s = np.zeros(SPANS)
    np.maximum.at(longest_s, span, waited_s)
    unit, size_s = next((u for u in _UNITS if float(waited_s.max()) >= 2 * u[1]), _UNITS[-1])
    chart = TimeChart(
        f"{prefix}-waits", "Waiting times, by submission", prefix, run.end_s, unit, f"wait [{unit}]"
    )
    means_s = np.divide(sums_s, counts, out=np.full(SPANS, np.nan), where=counts > 0)
    chart.steps("longest", edges_s, np.where(counts > 0, longest_s, np.nan) / size_s, "asked", width=1.2)
    chart.steps("mean", edges_s, means_s / size_s, "waiting")
    note = f"Jobs submitted in intervals of {edges_s[1]:,.0f} s."
    if np.isnan(jobs.start_s).any():
        note += " Jobs that never started count as waiting until rejection or the end of the run."
    return chart.chart(note, rangemode="tozero")


def wait_distribution(waited_s: Mapping[str, tuple[FloatArray, str, str]], key: str, title: str) -> Chart:
    """Chart of the distribution of waits: by name the waits (s), with colour and dash.

    All curves end at the longest wait of all runs, at least 10 s: beyond the longest wait of a run, its share
    remains 100 %.
    """
    traces: list[dict[str, Any]] = []
    longest_s = max(10.0, *(float(waits.max()) for waits, *_ in waited_s.values()))
    for name, (waits, paint, dash) in waited_s.items():
        x, y = shares(waits)
        x, y = np.append(np.maximum(x, 1.0), longest_s), np.append(y, 100.0)
        traces.append({
            "type": "scatter", "mode": "lines", "name": plain(name), "x": x, "y": y,
            "line": {"color": color(paint), "width": 1.8, "dash": dash, "shape": "hv"},
            "hovertemplate": "%{y:.2f} % waited at most %{x:,.0f} s",
        })  # fmt: skip
    ticks = [tick for tick in _TICKS if tick <= longest_s]
    layout = {
        "xaxis": {"type": "log", "title": {"text": "waited at most"}, "tickmode": "array", "tickvals": ticks,
                  "ticktext": [_TICKS[tick] for tick in ticks], "tickangle": 0, "fixedrange": True},
        "yaxis": {"title": {"text": "share of the jobs [%]"}, "range": [0, 102], "fixedrange": True},
        "hovermode": "x unified",
    }  # fmt: skip
    spec = {"kind": "plot", "height": 270, "traces": traces, "layout": layout}
    return Chart(key, title, spec, "Waits of less than 1 s are drawn at 1 s.")


def shares(waited_s: FloatArray, most: int = 1000) -> tuple[FloatArray, FloatArray]:
    """Return sorted waits (s), and the percentage of jobs that waited no longer; about ``most`` points."""
    x, counts = np.unique(waited_s, return_counts=True)
    y = 100.0 * np.cumsum(counts) / len(waited_s)
    kept = np.unique(np.linspace(0, len(x) - 1, min(most, len(x))).astype(np.int64))
    return x[kept], y[kept]
