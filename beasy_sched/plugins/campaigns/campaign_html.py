"""The HTML report of a campaign: policies compared, scenario by scenario, guard by guard.

For each policy it shows the job outcomes and the spread of the runs' figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from beasy_sched.plugins.campaigns.axes import AXES
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.sweep_charts import SweptAxis, sweep_charts
from beasy_sched.plugins.reports.comparison import (
    FIGURES,
    ComparedColumn,
    ComparedRow,
    Figure,
    comparison_html,
    figures_of,
    values_of,
)
from beasy_sched.plugins.reports.intervals import METHOD, mean_of
from beasy_sched.plugins.reports.page import (
    Absent,
    Chart,
    Section,
    bars,
    check_installed,
    color,
    page,
    plain,
    warning_html,
)
from beasy_sched.plugins.reports.run_data import OUTCOME_COLORS, OUTCOMES
from beasy_sched.units import some_of


def outcome_bars(runs: Any, policies: Sequence[str], key: str) -> Chart:
    """Mean shares of the job outcomes, one bar per policy."""
    submitted = runs["jobs_submitted"].to_numpy(np.float64, na_value=np.nan)
    parts = {}
    for state, paint in zip(OUTCOMES, OUTCOME_COLORS, strict=True):
        count = runs[f"jobs_{state.value.replace(' ', '_')}"].to_numpy(np.float64, na_value=np.nan)
        shares = 100.0 * count / np.where(submitted > 0, submitted, np.nan)
        rows = [shares[(runs["policy"] == policy).to_numpy() & np.isfinite(shares)] for policy in policies]
        parts[state.value] = (np.array([row.mean() if len(row) else 0.0 for row in rows]), paint)
    return bars(key, "Outcomes", list(policies), parts, "share of the jobs, mean [%]", "%")


def spread(runs: Any, policies: Sequence[str], figure: Figure, key: str) -> Chart | None:
    """Every run as a point, with boxes and means with intervals; None if no run has a value."""
    by_policy = {policy: values_of(runs, policy, figure.column) for policy in policies}
    by_policy = {policy: values for policy, values in by_policy.items() if len(values)}
    if not any(np.any(np.abs(values) > 1e-9) for values in by_policy.values()):
        return None
    unit = f" {figure.unit}" if figure.unit else ""
    boxes = {
        "type": "box", "orientation": "h", "name": "runs", "boxpoints": "all", "jitter": 0.5, "pointpos": 0,
        "x": np.concatenate([*by_policy.values()]),
        "y": [plain(policy) for policy, values in by_policy.items() for _ in values],
        "marker": {"color": color("run-4"), "size": 4, "opacity": 0.7},
        "line": {"width": 1, "color": color("run-0")},
        "fillcolor": color("box"), "hoveron": "points",
        "hovertemplate": f"%{{x:,.{figure.digits}f}}{unit}<extra></extra>",
    }  # fmt: skip
    means = [mean_of(values, figure.range) for values in by_policy.values()]
    marks = {
        "type": "scatter", "mode": "markers", "name": "mean, 95 % interval",
        "x": np.array([mean.value for mean in means]), "y": [plain(policy) for policy in by_policy],
        "marker": {"symbol": "diamond", "size": 9, "color": color("run-1")},
        "error_x": {"type": "data", "symmetric": False, "color": color("run-1"), "thickness": 2,
                    "array": np.nan_to_num([mean.high - mean.value for mean in means]),
                    "arrayminus": np.nan_to_num([mean.value - mean.low for mean in means])},
        "customdata": [
            f"mean {figure.mean_text(mean)} {figure.unit}" if mean.has_interval
            else f"{figure.mean_text(mean)} {figure.unit}, one run"
            for mean in means
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": figure.unit}, "fixedrange": True},
        "yaxis": {"autorange": "reversed", "fixedrange": True, "type": "category", "automargin": True,
                  "categoryarray": [plain(policy) for policy in policies]},
    }  # fmt: skip
    spec = {"kind": "plot", "height": 76 + 27 * len(by_policy), "traces": [boxes, marks], "layout": layout}
    return Chart(key, figure.title, spec)


def load_bars(runs: Any, policies: Sequence[str], key: str) -> Chart | None:
    """Mean energy of the load, green and from the grid, one bar per policy; None without a grid."""
    if "green_kwh" not in runs.columns or not runs["green_kwh"].notna().any():
        return None
    parts = {}
    for name, column, paint in (("green", "green_kwh", "production"),
                                ("from the grid", "import_kwh", "import")):  # fmt: skip
        rows = [values_of(runs, policy, column) for policy in policies]
        parts[name] = (np.array([row.mean() if len(row) else 0.0 for row in rows]), paint)
    return bars(key, "Energy of the load", list(policies), parts, "energy, mean [kWh]", "kWh")


def compared_policies(runs: Any, policies: Sequence[str]) -> tuple[list[ComparedColumn], list[ComparedRow]]:
    """Return the table's columns and a row per policy with means and intervals.

    Figures that are 0 or unknown in every run are omitted.
    """
    figures = [f for f in figures_of(runs) if any(values_of(runs, p, f.column).any() for p in policies)]
    rows = []
    for policy in policies:
        means = [figure.mean_of(runs, policy) for figure in figures]
        number = int((runs["policy"] == policy).sum())
        rows.append(
            ComparedRow(
                policy,
                [float(number), *(mean.value for mean in means)],
                [
                    f"{number:,}",
                    *(figure.mean_text(mean) for figure, mean in zip(figures, means, strict=True)),
                ],
            )
        )
    runs_column = ComparedColumn("runs", "", digits=0)
    return [runs_column, *figures], rows


_MATTERS_MOST = ("finished_pct", "killed_as_in_paper_pct", "soc_distance_points", "wasted_kwh")
_MOST_ERRORS = 20
"""Maximum number of different errors shown."""
_MOST_NAMED = 8
"""Maximum number of runs named with an error."""


def campaign_html(
    name: str,
    runs: Any,
    expected: int,
    *,
    title: str | None = None,
    sweeps: Mapping[str, Sequence[SweptAxis]] | None = None,
) -> Iterator[str]:
    """Yield the pieces of the HTML file of a campaign.

    ``runs`` is its table (a data frame, one row per run, see docs/guides/campaigns.md); ``expected`` is
    the number of runs it should have, and ``sweeps`` has the axes of each swept scenario. The same table
    gives the same bytes. Raises ConfigError where plotly is missing.
    """
    good = runs[runs["status"] == "ok"]
    conditions = [
        (f"{scenario}: guard {guard}, {'with' if veto else 'without'} veto", rows)
        for (scenario, guard, veto), rows in good.groupby(["scenario", "guard", "veto"], sort=False)
    ]
    axes = sweeps or {}
    alike = [(heading, rows) for heading, rows in conditions if not axes.get(rows["scenario"].iloc[0])]
    sections = [] if len(alike) < 2 else [_overview(alike)]
    for number, (heading, rows) in enumerate(conditions):
        swept = axes.get(rows["scenario"].iloc[0], ())
        sections.append(
            _swept_section(number, heading, rows, swept) if swept else _section(number, heading, rows)
        )
    if notes := [*_notes(runs, expected)]:
        sections.insert(0, Section("notes", "Missing runs", [warning_html(notes)]))
    versions = ", ".join(sorted(set(runs["version"].dropna()) - {""}))
    subtitle = f"{len(good):,} runs" + (f" of beasy-sched {versions}" if versions else "")
    return page(title or f"Campaign {name}", subtitle, sections)


def _overview(conditions: list[tuple[str, Any]]) -> Section:
    """Means of the most important figures, one row per policy and one column per condition."""
    heads = [heading for heading, _ in conditions]
    policies = dict.fromkeys(policy for _, runs in conditions for policy in runs["policy"])
    tables = []
    for figure in FIGURES:
        if figure.column in _MATTERS_MOST:
            columns = [replace(figure, title=heading, unit="") for heading in heads]
            rows = [
                ComparedRow(policy, [figure.mean_of(runs, policy).value for _, runs in conditions])
                for policy in policies
            ]
            tables.append(f"<h3>{escape(figure.title)}, mean [{escape(figure.unit)}]</h3>\n")
            tables.append(comparison_html(columns, rows, "policy"))
    return Section("overview", "All conditions", tables)


def _section(number: int, title: str, runs: Any) -> Section:
    key = f"part-{number + 1}"
    policies = list(dict.fromkeys(runs["policy"]))
    figures = figures_of(runs)
    charts = [spread(runs, policies, each, f"{key}-{each.column.replace('.', '-')}") for each in figures]
    nothing = [figure.title.lower() for figure, chart in zip(figures, charts, strict=True) if chart is None]
    load = load_bars(runs, policies, f"{key}-load")
    several = int(runs.groupby("policy").size().max())
    text = "One run per policy, so no intervals."
    if several > 1:
        text = f"Up to {several:,} runs per policy (seeds, and pairs of workload and production); {METHOD}."
    if nothing:
        text += f" Zero or unknown in every run: {', '.join(nothing)}."
    parts: list[Chart | Absent | str] = [
        comparison_html(*compared_policies(runs, policies), "policy"),
        '<div class="grid">',
        outcome_bars(runs, policies, f"{key}-outcomes"),
        *([] if load is None else [load]),
        *(chart for chart in charts if chart is not None),
        "</div>\n",
        f'<p class="note">{text}</p>\n',
    ]
    return Section(key, title, parts, folded=number > 0)


def _swept_section(number: int, title: str, runs: Any, axes: Sequence[SweptAxis]) -> Section:
    """Maps or lines over the axes, and a table of all points."""
    key = f"part-{number + 1}"
    charts, absent = sweep_charts(runs, axes, key)
    points = runs.assign(policy=_point_names(runs, axes))
    compared = compared_policies(points, list(dict.fromkeys(points["policy"])))
    left_out = f"Zero or unknown in every run: {', '.join(absent)}." if absent else ""
    parts: list[Chart | Absent | str] = [
        '<div class="grid">',
        *charts,
        "</div>\n",
        f'<p class="note">{left_out}</p>\n',
        comparison_html(*compared, "policy and sizes"),
    ]
    return Section(key, title, parts, folded=number > 0)


def _point_names(runs: Any, axes: Sequence[SweptAxis]) -> list[str]:
    """Policy of each run, with the sizes of its point."""
    columns = [axis.column for axis in axes]
    return [
        ", ".join([policy, *(f"{name} {size:g}" for name, size in zip(columns, sizes, strict=True))])
        for policy, *sizes in runs[["policy", *columns]].itertuples(index=False)
    ]


def _notes(runs: Any, expected: int) -> Iterator[str]:
    """Missing and failed runs; each error once, with the runs that it ended."""
    if len(runs) < expected:
        missing = expected - len(runs)
        yield f"{missing:,} of {expected:,} runs are not finished; the results are preliminary."
    failed = runs[runs["status"] != "ok"]
    same = [(error, [*own["run"]]) for error, own in failed.groupby("error", sort=False)]
    for error, names in same[:_MOST_ERRORS]:
        yield f"{some_of(names, _MOST_NAMED)} failed: {error}"
    if rest := sum(len(names) for _, names in same[_MOST_ERRORS:]):
        yield f"{rest:,} more runs failed."


def folder_page(folder: str, title: str | None) -> Iterator[str]:
    """Return the pieces of the report of the campaign in a folder. Raises ConfigError and InputError."""
    check_installed()
    campaign = read_campaign(folder)
    return campaign_html(
        Path(folder).resolve().name,
        campaign.runs,
        len(campaign.specs),
        title=title,
        sweeps={scenario.name: swept_axes(scenario) for scenario in campaign.manifest.parsed()},
    )


def swept_axes(scenario: Scenario) -> list[SweptAxis]:
    """Return the axes of a scenario's sweep, as reports name them."""
    return [SweptAxis(name, AXES[name].title) for name in scenario.sweep]
