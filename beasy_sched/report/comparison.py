"""What is shown of all runs together: outcomes, energy, curves on one axis, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.errors import InputError
from beasy_sched.outputs.tables import summary_rows
from beasy_sched.report.chart import MOST_POINTS, Chart, TimeChart, bars
from beasy_sched.report.charts import step_edges_s, waiting
from beasy_sched.report.run_data import OUTCOMES, RunData

OUTCOME_COLORS: Final = tuple(state.value.replace(" ", "-") for state in OUTCOMES)
"""The colour's name of each outcome."""
_ENERGIES: Final = {
    "finished_jobs": ("jobs that finished", "finished"),
    "other_jobs": ("other jobs", "killed"),
    "idle": ("idle servers", "idle"),
    "transitions": ("switching on and off", "switching-on"),
    "sleeping": ("sleeping servers", "sleeping"),
}
RUN_COLORS: Final = 7
"""How many colours the style sheet has for runs."""


def overall_bars(runs: Sequence[RunData]) -> list[Chart]:
    """Outcomes and energy."""
    return [chart for chart in (_outcomes(runs), _energy(runs)) if chart is not None]


def curves_together(runs: Sequence[RunData]) -> list[Chart]:
    """State of charge and queue of several runs on one axis."""
    if len(runs) < 2:
        return []
    return [chart for chart in (_soc(runs), _queues(runs)) if chart is not None]


def _outcomes(runs: Sequence[RunData]) -> Chart | None:
    counted = [(run.name, run.outcome_counts()) for run in runs]
    counted = [(name, counts) for name, counts in counted if sum(counts.values())]
    if not counted:
        return None
    parts, texts = {}, {}
    for state, paint in zip(OUTCOMES, OUTCOME_COLORS, strict=True):
        counts = np.array([found[state.value] for _, found in counted], dtype=np.float64)
        shares = 100.0 * counts / np.array([sum(found.values()) for _, found in counted])
        parts[state.value] = (shares, paint)
        texts[state.value] = [f"{c:,.0f} ({s:.2f} %)" for c, s in zip(counts, shares, strict=True)]
    names = [name for name, _ in counted]
    return bars("outcomes", "Outcomes", names, parts, x_title="share of the jobs [%]", unit="%", texts=texts)


def _energy(runs: Sequence[RunData]) -> Chart | None:
    known = [run for run in runs if run.summary is not None and "energy_kwh" in run.summary]
    if not known:
        return None
    parts = {}
    for field, (name, paint) in _ENERGIES.items():
        values = [float((run.summary or {})["energy_kwh"].get(field, 0.0)) for run in known]
        parts[name] = (np.array(values), paint)
    return bars(
        "energy",
        "Energy of the servers",
        [run.name for run in known],
        parts,
        x_title="energy [kWh]",
        unit="kWh",
        note="All but that of jobs that finished is wasted.",
    )


def _soc(runs: Sequence[RunData]) -> Chart | None:
    chart = TimeChart("all-soc", "State of charge of all runs", "all", _end_s(runs), "%",
                      "state of charge [%]", height=320)  # fmt: skip
    for number, run in enumerate(runs):
        if run.trace is not None and len(run.trace):
            times_s, levels = step_edges_s(run.trace)[1:], run.trace["soc_pct"].to_numpy(np.float64)
            paint, dash = _paint(number)
            chart.line(run.name, times_s, levels, paint, dash=dash)
    sites = [(run.summary or {}).get("site", {}) for run in runs]
    for name, field in (("minimum", "soc_min_pct"), ("maximum", "soc_max_pct"), ("target", "soc_target_pct")):
        found = {site[field] for site in sites if field in site}
        if len(found) == 1:
            chart.limit(name, float(found.pop()), "ink-soft" if name == "target" else "limit")
    chart.y_axis(range=[0, 102])
    return chart.chart() if chart.traces else None


def _queues(runs: Sequence[RunData]) -> Chart | None:
    chart = TimeChart("all-queue", "Waiting jobs of all runs", "all", _end_s(runs), "", "waiting jobs")
    for number, run in enumerate(runs):
        if run.jobs is not None and run.jobs.ids:
            curve = waiting(run, run.jobs).thinned(run.end_s, MOST_POINTS)
            paint, dash = _paint(number)
            chart.steps(run.name, curve.times_s, curve.values[:, 0], paint, dash=dash)
    chart.y_axis(rangemode="tozero")
    return chart.chart() if chart.traces else None


def _paint(number: int) -> tuple[str, Any]:
    """Colour and dash of a run's curve."""
    return f"run-{number % RUN_COLORS}", ("solid", "dash", "dot", "dashdot")[number // RUN_COLORS % 4]


def _end_s(runs: Sequence[RunData]) -> float:
    return max(run.end_s for run in runs)


Table = list[tuple[str, list[str]]]
"""Rows: what, and its text in each run, empty where the run does not tell."""


def table(runs: Sequence[RunData]) -> Table:
    """All runs side by side, in the words of the terminal's table, with their settings."""
    columns = [_rows(run) for run in runs]
    labels: list[tuple[str, str]] = []
    for column in columns:
        place = 0
        for label in column:
            if label in labels:
                place = labels.index(label) + 1
            else:
                labels.insert(place, label)
                place += 1
    return [(label[1], [column.get(label, "") for column in columns]) for label in labels]


def _rows(run: RunData) -> dict[tuple[str, str], str]:
    """The run's texts by (heading above, label): a label may come under several headings."""
    if run.summary is None:
        counts = run.outcome_counts()
        rows = [("jobs", f"{sum(counts.values()):,}")]
        rows += [(f"  {name}", f"{count:,}") for name, count in counts.items() if count]
        rows.append(("settings", "not known: no summary.json"))
    else:
        try:
            policy, *outcomes = summary_rows(run.summary)
            rows = [policy, *_setting_rows(run.summary), *outcomes]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(
                f"{run.prefix}_summary.json", f"is not a summary that can be shown: {error!r}"
            ) from None
    found, heading = {}, ""
    for label, text in rows:
        heading = heading if label.startswith("  ") else label
        found[(heading, label)] = text
    return found


def _setting_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    settings = summary["settings"]
    rows = [
        ("version", str(summary.get("version", ""))),
        ("complete", "yes" if summary.get("complete") else "no"),
    ]
    for field in ("options", "plan", "windows", "energy"):
        if settings.get(field):
            value = settings[field]
            rows.append((field if field != "energy" else "energy used known from", _words(value)))
    if not settings.get("power_actions", True):
        rows.append(("power actions", "none"))
    if summary.get("hosts"):
        rows.append(("servers", f"{summary['hosts']:,}"))
    if summary.get("end_s") is not None:
        rows.append(("end of the run", f"{summary['end_s'] / 3600:,.2f} h"))
    return rows


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {each}" for name, each in value.items())
    return str(value)
