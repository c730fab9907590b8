"""Several policies on the same window, a row each: the columns, and the table as text or Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beasy_sched.outputs.summary import job_share_pct

Summary = dict[str, Any]
"""A run's summary, as `summary.json` holds it."""


@dataclass(frozen=True)
class Column:
    """A figure of a run's summary."""

    name: str
    """What it is called in files, with its unit."""
    heading: tuple[str, str]
    """Its two lines above a table on a terminal; the unit stands below them."""
    title: str
    """Its name for people, written out."""
    unit: str
    value: Callable[[Summary], float | None]
    """Reads it off a summary; None where the run has no such figure."""
    digits: int = 1
    signed: bool = False
    where_any: bool = False
    """Whether it is shown only where a run has something other than 0 in it."""

    def text(self, summary: Summary, digits: int | None = None) -> str:
        """Return the figure as a table shows it; ``-`` where there is none."""
        value, places = self.value(summary), self.digits if digits is None else digits
        if value is None:
            return "-"
        shown = round(value, places) + 0.0  # never -0.0
        return f"{shown:+,.{places}f}" if self.signed else f"{shown:,.{places}f}"


def _share(state: str) -> Callable[[Summary], float | None]:
    """Percent of the submitted jobs that ended in ``state``."""
    return lambda summary: job_share_pct(summary["jobs"], state)


def _figure(part: str, name: str) -> Callable[[Summary], float | None]:
    def value(summary: Summary) -> float | None:
        found = summary.get(part, {}).get(name)
        return None if found is None else float(found)

    return value


COLUMNS = (
    Column("finished_pct", ("fin-", "ished"), "finished", "%", _share("finished")),
    Column("postponed_pct", ("post-", "poned"), "postponed", "%", _share("postponed")),
    Column("reached_walltime_pct", ("wall-", "time"), "reached walltime", "%", _share("reached_walltime")),
    Column("not_completely_finished_pct", ("not", "done"), "not completely finished", "%",
           _share("not_completely_finished")),
    Column("killed_pct", ("", "killed"), "killed", "%", _share("killed")),
    Column("failed_pct", ("of it", "failed"), "failed", "%", _share("failed"), where_any=True),
    Column("rejected_pct", ("re-", "jected"), "rejected", "%", _share("rejected"), where_any=True),
    Column("soc_final_pct", ("final", "SoC"), "final SoC", "%", _figure("site", "soc_final_pct")),
    Column("soc_distance_points", ("off", "target"), "final SoC less target", "points",
           _figure("site", "soc_distance_points"), signed=True),
    Column("wasted_kwh", ("", "wasted"), "wasted energy", "kWh", _figure("energy_kwh", "wasted")),
    Column("curtailed_kwh", ("cur-", "tailed"), "curtailed energy", "kWh",
           _figure("energy_kwh", "curtailed")),
    Column("unserved_kwh", ("un-", "served"), "unserved energy", "kWh", _figure("energy_kwh", "unserved"),
           where_any=True),
    Column("bounded_slowdown_mean", ("slow-", "down"), "bounded slowdown, mean", "",
           _figure("quality", "bounded_slowdown_mean"), digits=2),
)  # fmt: skip
"""What policies are compared by; jobs in percent of those submitted."""


@dataclass(frozen=True)
class Contender:
    """A policy and what came of its run."""

    policy: str
    summary: Summary | None = None
    """None where the run has left none."""
    failure: str | None = None
    """Why the run failed, where it did."""

    @property
    def problem(self) -> str | None:
        """Why there are no figures to compare: the run failed or ended early; None where all is well."""
        if self.failure is not None:
            return f"failed: {self.failure}"
        if self.summary is None:
            return "failed: no summary was written"
        if not self.summary["complete"]:
            return f"ended early: {self.summary['error'] or 'not complete'}"
        return None


def shown_columns(contenders: Sequence[Contender]) -> list[Column]:
    """Return the columns for these runs: all but those that are 0 throughout and need not be shown."""
    summaries = _complete(contenders)
    return [c for c in COLUMNS if not c.where_any or any(round(c.value(s) or 0.0, 2) for s in summaries)]


def comparison_lines(contenders: Sequence[Contender], width: int = 100) -> list[str]:
    """Return the table as lines of plain text: names, units, a row a contender.

    Columns stand two blanks apart, or one where that is what fits ``width``.
    """
    columns = shown_columns(contenders)
    head = [["", *(c.heading[0] for c in columns)], ["policy", *(c.heading[1] for c in columns)]]
    head.append(["", *("pts" if c.unit == "points" else c.unit for c in columns)])
    rows = [_cells(contender, columns) for contender in contenders]
    whole = [*head, *(row for row in rows if len(row) > 2)]
    widths = [max(len(row[at]) for row in whole) for at in range(len(columns) + 1)]
    widths[0] = max(len(row[0]) for row in (*head, *rows))
    gap = "  " if sum(widths) + 2 * len(columns) <= width else " "
    return [_line(row, widths, gap, width) for row in (*head, *rows)]


def comparison_markdown(contenders: Sequence[Contender]) -> str:
    """Return the table in Markdown, percentages with two digits."""
    columns = shown_columns(contenders)
    names = [f"{c.title} ({c.unit})" if c.unit else c.title for c in columns]
    lines = [["policy", *names], ["---", *["---:"] * len(columns)]]
    for contender in contenders:
        cells = _cells(contender, columns, digits=2)
        lines.append([*cells, *[""] * (len(columns) + 1 - len(cells))])
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def conditions(contenders: Sequence[Contender]) -> list[str]:
    """Say what the runs have in common that changes results: jobs, servers, the site's guard and target."""
    found: dict[str, None] = {}  # ordered, each once
    for summary in _complete(contenders):
        found[f"{summary['jobs']['submitted']:,} jobs on {summary['hosts']:,} servers"] = None
        if (site := summary.get("site")) is not None:
            veto = "with" if site["veto"] else "without"
            found[f"guard {site['guard']}, {veto} veto"] = None
            found[f"battery from {site['soc_start_pct']:g} % to a target of {site['soc_target_pct']:g} %"] = (
                None
            )
    return list(found)


def _complete(contenders: Sequence[Contender]) -> list[Summary]:
    return [c.summary for c in contenders if c.summary is not None and c.problem is None]


def _cells(contender: Contender, columns: Sequence[Column], digits: int | None = None) -> list[str]:
    """A row's cells; two of them, policy and problem, where there is a problem."""
    if contender.problem is not None or contender.summary is None:
        return [contender.policy, " ".join((contender.problem or "").split())]
    return [contender.policy, *(column.text(contender.summary, digits) for column in columns)]


def _line(row: Sequence[str], widths: Sequence[int], gap: str, width: int) -> str:
    name = row[0].ljust(widths[0])
    if len(row) == 2 < len(widths):
        return (
            name + gap + textwrap.shorten(row[1], max(width - widths[0] - len(gap), 20), placeholder=" ...")
        )
    return gap.join([name, *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True))]).rstrip()
