"""The HTML report of runs: from their files to the pieces of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from beasy_sched.errors import ConfigError
from beasy_sched.plan.store import PlanStore
from beasy_sched.report.chart import Absent, Chart
from beasy_sched.report.comparison import curves_together, overall_bars, table
from beasy_sched.report.energy_charts import energy_charts
from beasy_sched.report.find_runs import find_runs
from beasy_sched.report.job_charts import job_charts
from beasy_sched.report.page import Section, page, table_html, warning_html
from beasy_sched.report.run_data import RunData, read_run_data

MOST_DETAILED = 12
"""Of more runs than these only the comparison is shown: a page of them all would not open."""


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


def check_installed() -> None:
    """Raise ConfigError where pandas or plotly is missing."""
    try:
        import pandas  # noqa: F401
        import plotly  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"reports need {error.name}: pip install 'beasy-sched[report]'") from None


def _title(runs: Sequence[RunData]) -> str:
    return (
        runs[0].name
        if len(runs) == 1
        else f"{len(runs)} runs: {', '.join(run.name for run in runs[:6])}"
        + (", ..." if len(runs) > 6 else "")
    )


def _subtitle(runs: Sequence[RunData]) -> str:
    policies = dict.fromkeys(run.summary["settings"]["policy"] for run in runs if run.summary is not None)
    return f"policy {', '.join(policies)}" if policies else "settings not known: no summary.json"


def _sections(runs: Sequence[RunData], plans: PlanStore | None) -> list[Section]:
    several = len(runs) > 1
    rows = table(runs)
    warnings = [
        f"{run.name}: {text}" if several else text
        for run in runs
        for text in (_ended_early(run), *(run.summary or {}).get("warnings", ()))
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
    summary = run.summary or {}
    if summary.get("error"):
        return f"ended early: {summary['error']}"
    return "" if summary.get("complete", True) else "is not complete"
