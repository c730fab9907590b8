"""The HTML report of runs: what is shown of all together, and the charts of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from beasy_sched.errors import InputError
from beasy_sched.outputs.tables import summary_rows
from beasy_sched.plan.plan import PlanStore
from beasy_sched.report.charts import BATTERY_LIMITS, energy_charts, job_charts, levels, waiting
from beasy_sched.report.page import (
    MOST_POINTS,
    Absent,
    Chart,
    Section,
    TimeChart,
    bars,
    check_installed,
    page,
    table_html,
    warning_html,
)
from beasy_sched.report.run_data import OUTCOME_COLORS, OUTCOMES, RunData, read_run_data
from beasy_sched.results import find_runs

MOST_DETAILED = 12
"""With more runs than this only the comparison is shown: a page with all charts would not open."""


def report_html(
    places: Sequence[str | os.PathLike[str]],
    *,
    plans: PlanStore | None = None,
    title: str | None = None,
    report: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """Read the runs at ``places`` (see `find_runs`), and yield the pieces of one HTML file.

    ``plans`` marks the dangerous steps; ``report`` is called with the share of runs that are read. The
    same files give the same bytes. Raises InputError for files that cannot be read, and ConfigError
    where pandas or plotly is missing.
    """
    check_installed()
    runs = []
    found = find_runs(places)
    for name, prefix in found.items():
        runs.append(read_run_data(name, prefix))
        if report is not None:
            report(len(runs) / len(found))
    return page(title or _title(runs), _subtitle(runs), _sections(runs, plans))


def _title(runs: Sequence[RunData]) -> str:
    if len(runs) == 1:
        return runs[0].name
    return f"{len(runs)} runs: {', '.join(run.name for run in runs[:6])}{', ...' if len(runs) > 6 else ''}"


def _subtitle(runs: Sequence[RunData]) -> str:
    policies = dict.fromkeys(run.summary["settings"]["policy"] for run in runs if run.summary)
    return f"policy {', '.join(policies)}" if policies else "settings not known: no summary.json"


def _sections(runs: Sequence[RunData], plans: PlanStore | None) -> list[Section]:
    several = len(runs) > 1
    rows = table(runs)
    warnings = [
        f"{run.name}: {text}" if several else text
        for run in runs
        for text in (_ended_early(run), *run.summary.get("warnings", ()))
        if text
    ]
    heads = [run.name for run in runs]
    left, right = ('<div class="pair">', "<div>") if len(runs) < 3 else ("<div>", '<div class="pair">')
    overview: list[Chart | Absent | str] = [
        warning_html(warnings),
        left,
        table_html(heads, rows),
        right,
        *overall_bars(runs),
        "</div></div>\n",
        *curves_together(runs),
    ]
    sections = [Section("overview", "All runs" if several else "Outcomes", overview)]
    if len(runs) > MOST_DETAILED:
        note = f"<p class='note'>The charts of single runs are shown for at most {MOST_DETAILED} runs.</p>\n"
        overview.append(note)
        return sections
    for number, run in enumerate(runs):
        prefix = f"run-{number + 1}"
        charts = [*energy_charts(run, plans, prefix), *job_charts(run, prefix)]
        sections.append(
            Section(prefix, run.name if several else "Over time", charts, folded=several and number > 0)
        )
    return sections


def _ended_early(run: RunData) -> str:
    if run.summary.get("error"):
        return f"ended early: {run.summary['error']}"
    return "" if run.summary.get("complete", True) else "is not complete"


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
    known = [run for run in runs if "energy_kwh" in run.summary]
    if not known:
        return None
    parts = {}
    for field, (name, paint) in _ENERGIES.items():
        values = [float(run.summary["energy_kwh"].get(field, 0.0)) for run in known]
        parts[name] = (np.array(values), paint)
    return bars(
        "energy",
        "Energy of the servers",
        [run.name for run in known],
        parts,
        x_title="energy [kWh]",
        unit="kWh",
        note="Everything but the energy of finished jobs is wasted.",
    )


def _soc(runs: Sequence[RunData]) -> Chart | None:
    chart = TimeChart("all-soc", "State of charge of all runs", "all", max(run.end_s for run in runs), "%",
                      "state of charge [%]", height=320)  # fmt: skip
    for number, run in enumerate(runs):
        if run.trace is not None and len(run.trace):
            paint, dash = _paint(number)
            chart.line(run.name, *levels(run.trace, "soc_pct"), paint, dash=dash)
    for name, field in BATTERY_LIMITS.items():
        found = {run.site[field] for run in runs if field in run.site}
        if len(found) == 1:
            chart.limits({name: float(found.pop())})
    chart.y_axis(range=[0, 102])
    return chart.chart() if chart.traces else None


def _queues(runs: Sequence[RunData]) -> Chart | None:
    end_s = max(run.end_s for run in runs)
    chart = TimeChart("all-queue", "Waiting jobs of all runs", "all", end_s, "", "waiting jobs")
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


def table(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """All runs side by side, in the words of the terminal's table, with their settings.

    Rows of what, and its text in each run, empty where the run does not tell.
    """
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
    if not run.summary:
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
        if value := settings.get(field):
            if isinstance(value, dict):
                value = ", ".join(f"{name} = {each}" for name, each in value.items())
            rows.append((field if field != "energy" else "energy used known from", str(value)))
    if not settings.get("power_actions", True):
        rows.append(("power actions", "none"))
    if summary.get("hosts"):
        rows.append(("servers", f"{summary['hosts']:,}"))
    if summary.get("end_s") is not None:
        rows.append(("end of the run", f"{summary['end_s'] / 3600:,.2f} h"))
    return rows
