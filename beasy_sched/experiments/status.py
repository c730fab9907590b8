"""A campaign in a few lines, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beasy_sched.experiments.tables import read_campaign
from beasy_sched.outputs.comparison import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_MOST_FAILURES = 10


def status_lines(folder: Path) -> Iterator[str]:
    """How far the campaign is, by scenario, and what failed. Raises InputError."""
    found = read_campaign(folder)
    runs = found.runs.set_index("run")
    yield f"{len(runs)} of {len(found.specs)} runs have ended"
    for scenario in found.manifest.parsed():
        own = [spec for spec in found.specs if spec.scenario.name == scenario.name]
        ended = [spec.key for spec in own if spec.key in runs.index]
        failed = int((runs.loc[ended, "status"] == "failed").sum())
        yield f"  {scenario.name}: {len(ended)} of {len(own)}" + (f", {failed} failed" if failed else "")
    failures = runs[runs["status"] == "failed"]
    for name, error in failures["error"].head(_MOST_FAILURES).items():
        yield f"failed: {name}: {error}"
    if len(failures) > _MOST_FAILURES:
        yield f"... and {len(failures) - _MOST_FAILURES} more: status is 'failed' in the table of runs"
    if len(runs) < len(found.specs):
        yield f"to go on: beasy-sched campaign resume {folder}"
    else:
        yield f"the table is {found.folder.table}" if found.complete else "the table is yet to be written"


_SHOWN = {
    "finished_pct": "finished_pct",
    "killed_as_in_paper_pct": "killed_pct",
    "postponed_pct": "postponed_pct",
    "soc_final_pct": "soc_final_pct",
    "wasted_kwh": "wasted_kwh",
    "bounded_slowdown_mean": "bounded_slowdown_mean",
}
"""Columns of the runs' table, and under which heading of a comparison they stand."""


def result_lines(folder: Path) -> Iterator[str]:
    """Means by scenario, guard and policy over the runs that ended well, as a table of some 70 columns."""
    campaign = read_campaign(folder)
    runs = campaign.runs[campaign.runs["status"] == "ok"]
    if runs.empty:
        return
    headings = {column.name: column for column in COLUMNS}
    shown = [headings[name] for name in _SHOWN.values()]
    head = [
        ["", "", *(column.heading[0] for column in shown)],
        ["policy", "runs", *(column.heading[1] for column in shown)],
        ["", "", *(column.unit for column in shown)],
    ]
    groups = {
        f"{scenario}, guard {guard} {'with' if veto else 'without'} veto:": [
            [policy, str(len(own)), *(_mean(own[name]) for name in _SHOWN)]
            for policy, own in runs_of_group.groupby("policy", sort=False)
        ]
        for (scenario, guard, veto), runs_of_group in runs.groupby(["scenario", "guard", "veto"], sort=False)
    }
    rows = [*head, *(row for group in groups.values() for row in group)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head[0]))]
    yield from (_line(row, widths) for row in head)
    for heading, group in groups.items():
        yield heading
        yield from (_line(row, widths) for row in group)
    yield "killed: also jobs that reached their walltime or still ran at the end"


def _mean(values: pd.Series[float]) -> str:
    mean = values.mean()
    return "-" if mean != mean else f"{mean:,.2f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()
