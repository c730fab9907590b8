"""A campaign in a few lines, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from beasy_sched.experiments.tables import read_campaign

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
    "finished_pct": "finished %",
    "killed_as_in_paper_pct": "killed %",
    "postponed_pct": "postponed %",
    "soc_final_pct": "final SoC %",
    "wasted_kwh": "wasted kWh",
    "bounded_slowdown_mean": "slowdown",
}


def result_lines(folder: Path) -> Iterator[str]:
    """Means by scenario, guard and policy over the runs that ended well, as a table."""
    campaign = read_campaign(folder)
    runs = campaign.runs[campaign.runs["status"] == "ok"]
    if runs.empty:
        return
    keys = ["scenario", "guard", "veto", "policy"]
    means = runs.groupby(keys, sort=False)[list(_SHOWN)].mean().round(2)
    counts = runs.groupby(keys, sort=False).size().rename("runs")
    table = means.rename(columns=_SHOWN).join(counts).reset_index()
    yield from table.to_string(index=False).splitlines()
