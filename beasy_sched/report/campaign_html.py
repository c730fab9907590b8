"""The HTML report of a campaign: policies compared, scenario by scenario, guard by guard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beasy_sched.report.campaign_charts import FIGURES, across, outcome_bars, spread, table_rows
from beasy_sched.report.chart import Absent, Chart
from beasy_sched.report.page import Section, page, table_html, warning_html

_CONDITIONS = ["scenario", "guard", "veto"]
_MATTERS_MOST = ("finished_pct", "killed_as_in_paper_pct", "soc_distance_points", "wasted_kwh")
_MOST_ERRORS = 20


def campaign_html(name: str, runs: Any, expected: int, *, title: str | None = None) -> Iterator[str]:
    """Yield the pieces of one HTML file about a campaign.

    ``runs`` is its table (a data frame, one row a run, see docs/campaigns.md); ``expected`` says how many
    runs it should have. The same table gives the same bytes. Raises ConfigError where plotly is missing.
    """
    good = runs[runs["status"] == "ok"]
    conditions = [(_heading(*key), rows) for key, rows in good.groupby(_CONDITIONS, sort=False)]
    sections = [] if len(conditions) < 2 else [_overview(conditions)]
    for number, (heading, rows) in enumerate(conditions, 1):
        sections.append(_section(f"part-{number}", heading, rows, folded=number > 1))
    notes = _notes(runs, expected)
    if notes:
        sections.insert(0, Section("notes", "What is missing", [warning_html(notes)]))
    versions = ", ".join(sorted(set(runs["version"].dropna()) - {""}))
    subtitle = f"{len(good):,} runs" + (f" of beasy-sched {versions}" if versions else "")
    return page(title or f"Campaign {name}", subtitle, sections)


def _heading(scenario: str, guard: str, veto: bool) -> str:
    return f"{scenario}: guard {guard}, {'with' if veto else 'without'} veto"


def _overview(conditions: list[tuple[str, Any]]) -> Section:
    """The means of what matters most, in every condition."""
    heads = [heading for heading, _ in conditions]
    tables: list[Chart | Absent | str] = [
        table_html(heads, across(conditions, figure), f"{figure.title}, mean [{figure.unit}]")
        for figure in FIGURES
        if figure.column in _MATTERS_MOST
    ]
    return Section("overview", "All conditions", tables)


def _section(key: str, title: str, runs: Any, *, folded: bool) -> Section:
    policies = list(dict.fromkeys(runs["policy"]))
    heads, rows = table_rows(runs, policies)
    charts = [spread(runs, policies, figure, f"{key}-{figure.column}") for figure in FIGURES]
    parts: list[Chart | Absent | str] = [table_html(heads, rows, "policy"), '<div class="grid">']
    parts += [
        outcome_bars(runs, policies, f"{key}-outcomes"),
        *(chart for chart in charts if chart is not None),
    ]
    nothing = [figure.title for figure, chart in zip(FIGURES, charts, strict=True) if chart is None]
    parts.append("</div>\n")
    parts.append(_explained(runs, nothing))
    return Section(key, title, parts, folded)


def _explained(runs: Any, nothing: list[str]) -> str:
    several = int(runs.groupby("policy").size().max())
    text = "One run a policy: no intervals."
    if several > 1:
        text = (
            f"Up to {several:,} runs a policy (seeds, and pairs of workload and production); "
            "intervals are Student's, 95 % of the mean."
        )
    left_out = (
        f" Nothing in any run, or not known: {', '.join(t.lower() for t in nothing)}." if nothing else ""
    )
    return f'<p class="note">{text}{left_out}</p>\n'


def _notes(runs: Any, expected: int) -> list[str]:
    """Runs that are missing or failed."""
    notes = []
    if len(runs) < expected:
        notes.append(
            f"{expected - len(runs):,} of {expected:,} runs have not ended: this is what there is so far."
        )
    failed = runs[runs["status"] != "ok"]
    notes += [f"{run} failed: {error}" for run, error in zip(failed["run"], failed["error"], strict=True)][
        :_MOST_ERRORS
    ]
    if len(failed) > _MOST_ERRORS:
        notes.append(f"{len(failed) - _MOST_ERRORS:,} more runs failed.")
    return notes
