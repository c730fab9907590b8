"""Long runs by month: production, jobs and storage levels, as a table and as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.energy.devices.device import Device
from beasy_sched.energy.devices.hydrogen import HydrogenSpec
from beasy_sched.errors import ConfigError
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.summary import DONE, LOST
from beasy_sched.plugins.reports.drawing import RUN_COLORS, figure_bytes, stacked_panels
from beasy_sched.plugins.reports.energy_charts import other_kinds
from beasy_sched.plugins.reports.run_data import CAME_BACK, OUTCOMES, RunData, RunJobs, levels
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_DAY

_MOST_DAYS: Final = 62
"""Maximum number of days drawn one by one; longer runs are drawn by week."""
_BLOCK_DAYS: Final = 30
"""Length of a month if the date of time 0 is unknown."""


@dataclass(frozen=True)
class Month:
    """Results of a run in a month: jobs (by submission), energies, levels; NaN if there is no value."""

    name: str
    """Name such as ``2019-07``, or ``days 31-60`` if the date of time 0 is unknown."""
    jobs: int
    """Number of jobs submitted."""
    finished_pct: float
    """Share of the month's jobs that finished at any time, %."""
    killed_pct: float
    """Share of the month's jobs that started but did not finish, %, counted as in the BEASY paper."""
    production_kwh: float
    soc_lowest_pct: float
    hydrogen_kg: float
    """Hydrogen in the tank at the end of the month, kg."""


def months_of(run: RunData) -> list[Month]:
    """Divide a run with a site by calendar months, or by blocks of 30 days if its dates are unknown.

    Raises ConfigError for a run without an energy trace or jobs.
    """
    if run.jobs is None or not len(run.trace):
        raise ConfigError(f"{run.prefix}: found no energy trace or no jobs, expected a run with a site")
    edges_s, names = _month_edges(run)
    step_month = _places(edges_s, run.trace["start_s"])
    job_month = _places(edges_s, run.jobs.submit_s)
    count = len(names)
    jobs = np.bincount(job_month[run.jobs.outcome != CAME_BACK], minlength=count)
    produced_j = np.bincount(step_month, run.trace["renewable_w"] * run.trace["duration_s"], count)
    soc_pct, hydrogen_kg = run.trace["soc_pct"], run.trace["hydrogen_kg"]
    lowest_pct = [np.min(soc_pct[step_month == at], initial=np.inf) for at in range(count)]
    last = np.searchsorted(step_month, np.arange(count), side="right") - 1
    columns = (
        jobs.tolist(), _share_pct(run.jobs, DONE, job_month, count),
        _share_pct(run.jobs, LOST, job_month, count), produced_j / JOULES_PER_KWH, lowest_pct,
        hydrogen_kg[last],
    )  # fmt: skip
    return [Month(name, *values) for name, *values in zip(names, *columns, strict=True)]


def _share_pct(jobs: RunJobs, states: Sequence[JobState], places: IntArray, count: int) -> FloatArray:
    """Share of the jobs at each of ``count`` positions that ended in one of the states, %."""
    places = places[jobs.outcome != CAME_BACK]
    ended = np.isin(jobs.outcome[jobs.outcome != CAME_BACK], [OUTCOMES.index(state) for state in states])
    number, share = np.bincount(places, minlength=count), np.full(count, np.nan)
    ended_there = np.bincount(places[ended], minlength=count)
    np.divide(100.0 * ended_there, number, out=share, where=number > 0)
    return share


def _month_edges(run: RunData) -> tuple[FloatArray, list[str]]:
    """Return the start of each month after the first, s, and the names of all months."""
    end_s = _days(run) * SECONDS_PER_DAY
    if run.start_s is None:
        length_s = _BLOCK_DAYS * SECONDS_PER_DAY
        count = max(1, int(np.ceil(end_s / length_s - 1e-9)))
        last = int(np.ceil(end_s / SECONDS_PER_DAY - 1e-9))
        bounds = [(_BLOCK_DAYS * at + 1, min(_BLOCK_DAYS * (at + 1), last)) for at in range(count)]
        return length_s * np.arange(1.0, count), [f"days {first}-{until}" for first, until in bounds]
    zero = datetime.fromtimestamp(run.start_s, timezone.utc)
    names: list[str] = []
    edges_s: list[float] = []
    month = zero.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    while not names or (month - zero).total_seconds() < end_s:
        if names:
            edges_s.append((month - zero).total_seconds())
        names.append(f"{month:%Y-%m}")
        month = (month + timedelta(days=32)).replace(day=1)
    return np.array(edges_s), names


def _days(run: RunData) -> float:
    """Length of the run, days, without small delays of the last step or of the end of the run."""
    start_s, duration_s = (round(run.trace[name].item(-1)) for name in ("start_s", "duration_s"))
    return float(start_s + duration_s) / SECONDS_PER_DAY


def _longest(runs: Sequence[RunData]) -> RunData:
    return max(runs, key=_days)


def _places(edges_s: FloatArray, times_s: FloatArray) -> IntArray:
    return np.searchsorted(edges_s, times_s, side="right")


# --- the table ----------------------------------------------------------------------------------------------

_HEADS: Final = {"finished_pct": ("fin.", "%", 1), "killed_pct": ("killed", "%", 2),
                 "soc_lowest_pct": ("low", "%", 0), "hydrogen_kg": ("H2", "kg", 1)}  # fmt: skip


def month_lines(runs: Sequence[RunData], width: int = 100) -> list[str]:
    """Return a table of the runs side by side, one row per month, or several tables of at most ``width``.

    All runs have the same jobs and production. Runs that ended earlier have no values in the last months.
    """
    months = [months_of(run) for run in runs]
    shared = [[m.name, f"{m.production_kwh:,.0f}", f"{m.jobs:,}"] for m in months_of(_longest(runs))]
    left = _block([["", "renewable", "jobs"], ["month", "kWh", ""], *shared])
    groups = [_policy_block(run.name, own, len(shared)) for run, own in zip(runs, months, strict=True)]
    lines: list[str] = []
    while groups:
        table = [line.ljust(len(left[1])) for line in ["", *left]]
        taken = 0
        while groups and (not taken or len(table[1]) + 3 + len(groups[0][1]) <= width):
            table = [f"{old} | {new}" for old, new in zip(table, groups.pop(0), strict=True)]
            taken += 1
        lines += [*([""] if lines else []), *(line.rstrip() for line in table)]
    return lines


def _policy_block(name: str, months: Sequence[Month], count: int) -> list[str]:
    fields = [field for field in _HEADS if any(np.isfinite(getattr(m, field)) for m in months)]
    rows = [[_cell(getattr(month, field), _HEADS[field][2]) for field in fields] for month in months]
    rows += [["-"] * len(fields)] * (count - len(rows))
    block = _block([[_HEADS[f][0] for f in fields], [_HEADS[f][1] for f in fields], *rows])
    wide = max(len(name), len(block[0]))
    return [name.center(wide), *(line.rjust(wide) for line in block)]


def _cell(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if np.isfinite(value) else "-"


def _block(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(n) for cell, n in zip(row, widths, strict=True)) for row in rows]


# --- the figure ---------------------------------------------------------------------------------------------

_PRODUCTION: Final = "#bbbbbb"
_SMALL: Final = 0.25
"""Minimum change of a tank's level, as a share of its highest level, for a panel that begins at 0."""
_SAME_LEVEL: Final = 1e-6
"""Largest change of a level, in its unit, that counts as none."""


def draw_year(runs: Sequence[RunData], title: str) -> bytes:
    """Draw production, consumption and storage levels of several runs by day, or by week (PNG).

    Raises ConfigError for a run without an energy trace, and where matplotlib is not installed.
    """
    for run in runs:
        months_of(run)  # raises if the run cannot be drawn
    draws: list[tuple[Any, float]] = [(_draw_energy, 1.0)]
    if any(run.has_battery for run in runs):
        draws.append((_draw_soc, 1.0))
    others = dict.fromkeys(kind for run in runs for kind in other_kinds(run.trace))
    kinds: list[type[Device]] = [HydrogenSpec, *others]
    draws += [(partial(_draw_level_of, kind), 1.0) for kind in kinds if _span_of_levels(kind, runs)[1] > 0.0]
    if any(run.jobs is not None and run.jobs.ids for run in runs):
        draws.append((_draw_jobs, 1.0))
    figure, panels = stacked_panels(".png", (12.0, 1.2, 2.1), draws, runs, title)
    panels[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    panels[-1].set_xlim(0.0, _days(_longest(runs)))
    _mark_months(panels[-1], _longest(runs))
    return figure_bytes(figure, ".png")


def _stretches(runs: Sequence[RunData]) -> list[_Stretches]:
    """Divide the runs into days, or into weeks if the longest run has too many days."""
    days = 1 if _days(_longest(runs)) <= _MOST_DAYS else 7
    return [_Stretches(run, days) for run in runs]


class _Stretches:
    """Run divided into periods of some days; the last one may be shorter."""

    def __init__(self, run: RunData, days: int) -> None:
        whole = _days(run)
        self.days = days
        self.edges = np.minimum(np.arange(math.ceil(whole / self.days) + 1) * self.days, whole)
        """Start and end times of the periods, days."""
        self._trace = run.trace
        start_s, self._duration_s = run.trace["start_s"], run.trace["duration_s"]
        self._place = (start_s // (self.days * SECONDS_PER_DAY)).astype(np.int64)

    def kwh_per_day(self, column: str) -> FloatArray:
        """Mean of a power over each period, as energy."""
        return np.asarray(self._joules(column) / (JOULES_PER_KWH * np.diff(self.edges)))

    def mean(self, column: str) -> FloatArray:
        """Mean of a level over each period."""
        seconds = np.bincount(self._place, self._duration_s)
        return np.asarray(self._joules(column) / seconds[: len(self.edges) - 1])

    def lowest(self, column: str) -> FloatArray:
        """Minimum of a level in each period."""
        begins = np.searchsorted(self._place, np.arange(len(self.edges) - 1))
        return np.asarray(np.minimum.reduceat(self._trace[column], begins))

    def draw(self, panel: Any, values: FloatArray, **style: Any) -> None:
        """Draw a value for each period, as a step."""
        panel.stairs(values, self.edges, baseline=0.0 if "fill" in style else None, **style)

    def _joules(self, column: str) -> FloatArray:
        sums = np.bincount(self._place, self._trace[column] * self._duration_s)
        return np.asarray(sums[: len(self.edges) - 1])  # a very short last step may form its own period


def _draw_energy(panel: Any, runs: Sequence[RunData]) -> None:
    stretches = _stretches(runs)
    every = max(stretches, key=lambda each: float(each.edges[-1]))
    made = every.kwh_per_day("renewable_w")
    every.draw(panel, made, fill=True, color=_PRODUCTION, label="solar and wind")
    for color, run, each in zip(_cycled(runs), runs, stretches, strict=True):
        each.draw(panel, each.kwh_per_day("demand_w"), color=color, linewidth=1.1, label=run.name)
    panel.set_ylabel("energy per day, kWh" + ("\n(mean of a week)" if every.days > 1 else ""))
    panel.set_ylim(bottom=0.0)


def _draw_soc(panel: Any, runs: Sequence[RunData]) -> None:
    """Draw the lowest charge of each day; for weeks the mean, and the lowest as a thin line."""
    stretches = _stretches(runs)
    for color, run, each in zip(_cycled(runs), runs, stretches, strict=True):
        lowest = each.lowest("soc_pct")
        if each.days > 1:
            each.draw(panel, each.mean("soc_pct"), color=color, linewidth=1.4, label=run.name)
            each.draw(panel, lowest, color=color, linewidth=0.7, alpha=0.5)
        else:
            each.draw(panel, lowest, color=color, linewidth=1.1, label=run.name)
    if (battery := runs[0].battery) is not None:
        panel.axhline(battery.soc_min_pct, color="#444444", linestyle=":")
    weekly = stretches[0].days > 1
    label = "charge, mean of a week, %\n(thin: lowest," if weekly else "lowest charge of a day, %\n("
    panel.set_ylabel(label + (" " if weekly else "") + "dotted: minimum)")
    panel.set_ylim(0.0, 100.0)


def _draw_level_of(kind: type[Device], panel: Any, runs: Sequence[RunData]) -> None:
    """Draw the level of a device other than the battery."""
    for color, run in zip(_cycled(runs), runs, strict=True):
        if kind.columns.level in run.trace:
            ends_s, level = levels(run.trace, kind.columns.level)
            panel.plot(ends_s / SECONDS_PER_DAY, level, color=color, linewidth=1.2, label=run.name)
    panel.set_ylabel(f"{kind.title}, {kind.level_unit()}")
    lowest, highest = _span_of_levels(kind, runs)
    # An axis from 0 would show a flat line if the device was little used.
    little_used = highest - lowest < _SMALL * highest
    span = highest - lowest if little_used else highest
    panel.set_ylim(lowest - 0.08 * span if little_used else 0.0, highest + 0.08 * span)
    panel.locator_params(axis="y", nbins=5, min_n_ticks=2)


def _span_of_levels(kind: type[Device], runs: Sequence[RunData]) -> tuple[float, float]:
    """Return the lowest and highest level of a device in any run; both 0 if the level hardly changes."""
    column = kind.columns.level
    of_all_runs = np.concatenate([levels(run.trace, column)[1] for run in runs if column in run.trace])
    low, high = float(of_all_runs.min()), float(of_all_runs.max())
    return (low, high) if high - low > _SAME_LEVEL else (0.0, 0.0)


def _draw_jobs(panel: Any, runs: Sequence[RunData]) -> None:
    """Draw the share of finished jobs by month or, for a run drawn by days, by day."""
    stretches, lowest_pct = _stretches(runs), 90.0
    by_day = stretches[0].days == 1
    for color, run, each in zip(_cycled(runs), runs, stretches, strict=True):
        edges = np.concatenate(([0.0], _month_edges(run)[0] / SECONDS_PER_DAY, each.edges[-1:]))
        if by_day:
            edges = each.edges
        if run.jobs is not None and run.jobs.ids:
            places = _places(edges[1:-1] * SECONDS_PER_DAY, run.jobs.submit_s)
            share = _share_pct(run.jobs, DONE, places, len(edges) - 1)
            lowest_pct = min(lowest_pct, float(np.nanmin(share)))
            panel.stairs(share, edges, color=color, linewidth=1.6, label=run.name, baseline=None)
    panel.set_ylabel(f"finished jobs\nby {'day' if by_day else 'month'}, %")
    panel.set_ylim(10.0 * math.floor(lowest_pct / 10.0) - 2.0, 102.0)


def _cycled(runs: Sequence[RunData]) -> list[str]:
    colors = [*RUN_COLORS.values()]
    return [colors[at % len(colors)] for at in range(len(runs))]


_MOST_MARKS: Final = 12


def _mark_days(panel: Any, start_s: float, days: float) -> None:
    """Label midnights with their dates."""
    first = -start_s % SECONDS_PER_DAY / SECONDS_PER_DAY
    places = np.arange(first, days + 1e-6, max(1, math.ceil(days / _MOST_MARKS)))
    dates = [datetime.fromtimestamp(start_s + at * SECONDS_PER_DAY, timezone.utc) for at in places]
    panel.set_xticks(places, [f"{date.day} {date:%b}" for date in dates])
    panel.set_xlabel(f"{dates[0]:%Y}" if dates else "")


def _mark_months(panel: Any, run: RunData) -> None:
    edges_s, names = _month_edges(run)
    if run.start_s is None:
        panel.set_xlabel("day")
        return
    if len(names) < 2:
        _mark_days(panel, run.start_s, _days(run))
        return
    places = np.concatenate(([0.0], edges_s / SECONDS_PER_DAY))
    words = [datetime.strptime(name, "%Y-%m").strftime("%b %Y" if at == 0 else "%b") for at, name in
             enumerate(names)]  # fmt: skip
    panel.set_xticks(places, words, ha="left")
