"""HTML report of runs: comparison of all runs, and the charts of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Final

import numpy as np

from beasy_sched.formats.run_summary import RunSummary
from beasy_sched.outputs.tables import Contender, summary_rows
from beasy_sched.outputs.verdict import verdict
from beasy_sched.planner.plan import PlanStore
from beasy_sched.plugin import load, targets
from beasy_sched.plugins.reports.comparison import comparison_html
from beasy_sched.plugins.reports.drawing import RUN_COLORS
from beasy_sched.plugins.reports.energy_charts import (
    BATTERY_LIMITS,
    SERVER_USES,
    energy_charts,
    energy_flow,
    target_band,
)
from beasy_sched.plugins.reports.grid_charts import cost_so_far, grid_bars, grid_charts
from beasy_sched.plugins.reports.judgement import cards, cards_html, compared
from beasy_sched.plugins.reports.page import (
    Absent,
    Chart,
    Section,
    TimeChart,
    bars,
    check_installed,
    data_html,
    page,
    share_bars,
    table_html,
    warning_html,
)
from beasy_sched.plugins.reports.run_data import OUTCOME_COLORS, OUTCOMES, RunData, levels, read_run_data
from beasy_sched.plugins.reports.server_charts import server_charts
from beasy_sched.plugins.reports.wait_charts import wait_distribution, waiting, waits_over_time, waits_s
from beasy_sched.plugins.reports.why import explanations
from beasy_sched.run.results import find_runs
from beasy_sched.units import some_of

MOST_DETAILED = 12
"""Maximum number of runs with their own charts; above it a page would be too large to open."""


def report_html(
    places: Sequence[str | os.PathLike[str]],
    *,
    plans: PlanStore | None = None,
    title: str | None = None,
    report: Callable[[float], None] | None = None,
) -> Iterator[str]:
    """Read the runs at ``places`` (see `find_runs`), and yield the pieces of one HTML file.

    ``plans`` marks the dangerous steps; ``report`` is called with the share of runs read so far. The
    same files give the same bytes. Raises InputError for files that cannot be read, and ConfigError
    where pyarrow or plotly is missing.
    """
    check_installed()
    runs = []
    prefixes = find_runs(places)
    for name, prefix in prefixes.items():
        runs.append(read_run_data(name, prefix))
        if report is not None:
            report(len(runs) / len(prefixes))
    return page(title or _title(runs), _subtitle(runs), _sections(runs, plans))


def _title(runs: Sequence[RunData]) -> str:
    """Policy and site of the run, or the number of runs."""
    if len(runs) > 1:
        sites = {_site_name(run) for run in runs}
        return f"{len(runs)} runs compared" + (
            f" on {sites.pop()}" if len(sites) == 1 and "" not in sites else ""
        )
    run = runs[0]
    if run.summary is None:
        return run.name
    site = _site_name(run)
    return f"Policy {run.summary.settings.policy}" + (f" on {site}" if site else "")


def _site_name(run: RunData) -> str:
    """Name of the site's file without folder and suffix; "" if it is generic or unknown."""
    name = Path((run.summary and run.summary.settings.site) or "").stem
    return "" if name in ("", "site") else f"site {name}"


def _subtitle(runs: Sequence[RunData]) -> str:
    """Settings common to the runs, and their policies."""
    policies = dict.fromkeys(run.summary.settings.policy for run in runs if run.summary is not None)
    if not policies:
        return "settings unknown: no summary.json"
    facts = {"; ".join(_facts(run)) for run in runs}
    names = [runs[0].name] if len(runs) == 1 else [f"policies {', '.join(policies)}"]
    return "; ".join([*names, *facts]) if len(facts) == 1 else names[0]


def _facts(run: RunData) -> Iterator[str]:
    """Short descriptions of the sizes of a run."""
    if (summary := run.summary) is None:
        return
    if summary.hosts:
        yield f"{summary.hosts:,} servers"
    if summary.jobs.submitted:
        yield f"{summary.jobs.submitted:,} jobs"
    if summary.end_s:
        start = summary.site and summary.site.start
        yield f"{summary.end_s / 3600:,.4g} hours" + (
            f" from {start[:16].replace('T', ' ')}" if start else ""
        )
    if run.site is not None:
        for kind, figures in run.site.device_figures():
            yield kind.size_words(figures)
    if run.grid is not None:
        yield "a grid"


def _sections(runs: Sequence[RunData], plans: PlanStore | None) -> list[Section]:
    several = len(runs) > 1
    first = _side_by_side(runs) if several else cards_html(cards(runs[0]))
    of_each_run = [*overall_bars(runs), *grid_bars(runs)]
    for chart in of_each_run:
        chart.spec["layout"]["yaxis"]["showticklabels"] = several  # else the heading names the run
    overview: list[Chart | Absent | str] = [
        warning_html(_warnings(runs)),
        first,
        '<div class="pair">',
        *of_each_run,
        "</div>\n",
        *curves_together(runs),
        _all_figures(runs),
    ]
    sections = [Section("overview", "All runs" if several else "Outcomes", overview)]
    if len(runs) > MOST_DETAILED:
        note = f"<p class='note'>The charts of single runs are shown for at most {MOST_DETAILED} runs.</p>\n"
        overview.append(note)
        return sections
    for number, run in enumerate(runs, 1):
        prefix, title = f"run-{number}", run.name if several else "Over time"
        charts = _charts(run, plans, prefix)
        dated = [_dated(chart, run.start_s, aside=run.grid is not None) for chart in charts]
        own = [cards_html(cards(run))] if several else []
        why = _why_html(run, prefix, 1.0 / len(runs))
        sections.append(Section(prefix, title, [*own, *dated, why], folded=number > 1))
    return sections


def _side_by_side(runs: Sequence[RunData]) -> str:
    """Table with one row per run, preceded by the conclusion in words."""
    said = " ".join(verdict([Contender(run.name, run.summary) for run in runs if run.summary], "run"))
    text = f'<p class="said">{escape(said)}</p>\n' if said else ""
    return text + comparison_html(*compared(runs), "run")


_MOST_NAMED: Final = 8
"""Maximum number of runs named in a warning."""


def _warnings(runs: Sequence[RunData]) -> list[str]:
    """Warnings about the runs, each once; with several runs, with the names of those concerned."""
    names: dict[str, list[str]] = {}
    for run in runs:
        summary_warnings = () if run.summary is None else run.summary.warnings
        for text in filter(None, dict.fromkeys((_ended_early(run), *summary_warnings))):
            names.setdefault(text, []).append(run.name)
    if len(runs) == 1:
        return [*names]
    return [
        f"{'all runs' if len(warned) == len(runs) else some_of(warned, _MOST_NAMED)}: {text}"
        for text, warned in names.items()
    ]


def _charts(run: RunData, plans: PlanStore | None, prefix: str) -> list[Chart | Absent]:
    """All charts of a run: energy, servers and jobs, waits."""
    charts: list[Chart | Absent] = []
    if len(run.trace):
        charts.append(energy_flow(run, prefix))
    charts += [*grid_charts(run, prefix), *energy_charts(run, plans, prefix)]
    charts += server_charts(run, prefix)
    if run.jobs is not None and run.jobs.ids:
        charts.append(waits_over_time(run, run.jobs, prefix))
        own = {"jobs": (waits_s(run, run.jobs), "waiting", "solid")}
        charts.append(wait_distribution(own, f"{prefix}-wait-shares", "Waiting times"))
    for panels in targets("panels").values():
        charts += load(panels)(run, prefix)
    return charts


def _why_html(run: RunData, prefix: str, share: float) -> str:
    """Explanations of the run's jobs and steps for the page's script, and a note on their limits."""
    packed, note = explanations(run, share)
    text = f'<p class="note">{escape(note)}</p>\n' if note else ""
    return text if packed is None else text + data_html(f'data-why="{prefix}"', packed)


_MOST_COLUMNS: Final = 8
"""Maximum number of runs next to each other in a table of all figures."""


def _all_figures(runs: Sequence[RunData]) -> str:
    """All results and settings, folded; those common to all runs are in a separate table of one column."""
    rows = table(runs)
    alike, apart = ([], rows) if len(runs) == 1 else _alike_and_apart(rows)
    parts = [
        table_html([run.name for run in runs[at : at + _MOST_COLUMNS]],
                   [(label, texts[at : at + _MOST_COLUMNS]) for label, texts in apart])
        for at in range(0, len(runs), _MOST_COLUMNS)
    ]  # fmt: skip
    if alike:
        parts.append(table_html(["every run"], alike, "the same in all runs"))
    return f"<details><summary><h3>Settings and all results</h3></summary>{''.join(parts)}</details>\n"


def _alike_and_apart(
    rows: Sequence[tuple[str, list[str]]],
) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    """Split rows into those equal in all runs and the others; headings stay with the rows below them."""
    alike: list[tuple[str, list[str]]] = []
    apart: list[tuple[str, list[str]]] = []
    heading: tuple[str, list[str]] | None = None
    for label, texts in rows:
        below = label.startswith("  ")
        heading = heading if below else (label, texts)
        same = len(set(texts)) == 1
        into = alike if same else apart
        if below and heading is not None and not any(name == heading[0] for name, _ in into):
            into.append((heading[0], heading[1][:1] if same else heading[1]))
        into.append((label, texts[:1] if same else texts))
    return alike, apart


def _dated(chart: Chart | Absent, start_s: float | None, *, aside: bool = False) -> Chart | Absent:
    """Return the chart with dates on its time axis if the date of time 0 is known.

    ``aside`` leaves room for a right axis, so that the time axes of all charts align.
    """
    if isinstance(chart, Absent) or chart.spec["kind"] == "plot":
        return chart
    start = {} if start_s is None else {"start": start_s}
    return replace(chart, spec={**chart.spec, **start, **({"aside": True} if aside else {})})


def _ended_early(run: RunData) -> str:
    if run.summary is None:
        return ""
    if run.summary.error:
        return f"ended early: {run.summary.error}"
    return "" if run.summary.complete else "is not complete"


def overall_bars(runs: Sequence[RunData]) -> list[Chart]:
    """Charts of outcomes and energy, each for the runs that have these data."""
    charts = []
    counted = {run.name: run.outcome_counts() for run in runs}
    counted = {name: counts for name, counts in counted.items() if sum(counts.values())}
    if counted:
        totals = {name: sum(counts.values()) for name, counts in counted.items()}
        ends = {
            state.value: ([counts[state.value] for counts in counted.values()], paint)
            for state, paint in zip(OUTCOMES, OUTCOME_COLORS, strict=True)
        }
        charts.append(share_bars("outcomes", "Outcomes", totals, ends, "share of the jobs [%]"))
    energies = {run.name: run.energy_kwh for run in runs if run.energy_kwh is not None}
    if energies:
        parts = {
            name: (np.array([getattr(kwh, field) for kwh in energies.values()], np.float64), paint)
            for field, (name, paint) in SERVER_USES.items()
        }
        note = "'Wasted' is all energy not used by finished jobs."
        title = "Energy of the servers"
        charts.append(bars("energy", title, [*energies], parts, "energy [kWh]", "kWh", note=note))
    return charts


def curves_together(runs: Sequence[RunData]) -> list[Chart | Absent]:
    """Charts of state of charge, queue and costs, each with all runs on one axis."""
    if len(runs) < 2:
        return []
    end_s = max(run.end_s for run in runs)
    soc = TimeChart("all-soc", "State of charge of all runs", "all", end_s, "%", "state of charge [%]",
                    height=320)  # fmt: skip
    queues = TimeChart("all-queue", "Waiting jobs of all runs", "all", end_s, "", "waiting jobs")
    money = "/".join(dict.fromkeys(run.grid.currency for run in runs if run.grid is not None))
    costs = TimeChart("all-cost", "Cost of all runs so far", "all", end_s, money, f"cost [{money}]")
    waits = {}
    for number, run in enumerate(runs):
        paint = f"run-{number % len(RUN_COLORS)}"
        dash = ("solid", "dash", "dot", "dashdot")[number // len(RUN_COLORS) % 4]
        if run.has_battery:
            real = levels(run.trace, "soc_pct", run.soc_start_pct)
            soc.line(run.name, *real, paint, dash=dash)
        if (spent := cost_so_far(run)) is not None:
            costs.line(run.name, *spent, paint, dash=dash)
        if run.jobs is not None and run.jobs.ids:
            curve = waiting(run, run.jobs).thinned()
            queues.steps(run.name, curve.edges_s, curve.values[:, 0], paint, dash=dash)
            waits[run.name] = (waits_s(run, run.jobs), paint, dash)
    for name, field in BATTERY_LIMITS.items():
        levels_pct = {getattr(run.battery, field) for run in runs if run.battery is not None}
        if len(levels_pct) == 1:
            soc.limits({name: float(levels_pct.pop())})
    bands = {target_band(run.battery) for run in runs if run.battery is not None}
    if len(bands) == 1 and (band := bands.pop()) is not None:
        soc.band(*band)
    if any(run.grid is not None and run.grid.peak_cost for run in runs):
        costs.notes.append("Without the cost of the highest 15 minutes.")
    from_0 = {"rangemode": "tozero"}
    axes = ((soc, {"range": [0, 102]}), (costs, from_0), (queues, from_0))
    starts = {run.start_s for run in runs}
    start_s = starts.pop() if len(starts) == 1 else None
    charts = [_dated(chart.chart(**y_axis), start_s) for chart, y_axis in axes if chart.traces]
    if waits:
        charts.append(wait_distribution(waits, "all-waits", "Waiting times of all runs"))
    return charts


def table(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """Table rows of all runs side by side, with the labels of the terminal's table, and their settings.

    Each row has a label, and a string for each run, empty if the run has no such value.
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
    """Strings of the run by (heading above, label); a label may appear below several headings."""
    if run.summary is None:
        counts = run.outcome_counts()
        rows = [("jobs", f"{sum(counts.values()):,}")]
        rows += [(f"  {name}", f"{count:,}") for name, count in counts.items() if count]
        rows.append(("settings", "unknown: no summary.json"))
    else:
        policy, *outcomes = summary_rows(run.summary)
        rows = [policy, *_setting_rows(run.summary), *outcomes]
    texts, heading = {}, ""
    for label, text in rows:
        heading = heading if label.startswith("  ") else label
        texts[(heading, label)] = text
    return texts


def _setting_rows(summary: RunSummary) -> Iterator[tuple[str, str]]:
    settings = summary.settings
    yield "version", summary.version
    yield "complete", "yes" if summary.complete else "no"
    shown = {
        "options": ", ".join(f"{name} = {each}" for name, each in settings.options.items()),
        "site": settings.site,
        "plan": settings.plan,
        "forecast": settings.forecast,
        "windows": settings.windows,
        "source of energy used": settings.energy,
    }
    yield from ((name, str(value)) for name, value in shown.items() if value)
    if not settings.power_actions:
        yield "power actions", "none"
    if summary.hosts:
        yield "servers", f"{summary.hosts:,}"
    if summary.end_s is not None:
        yield "end of the run", f"{summary.end_s / 3600:,.2f} h"
