"""How many servers compute in which P-state, idle, switch and sleep, over time, as a heat map.

Counts are means over equal spans of time, exact: every change is counted where it happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.report.charts import (
    BATSIMS,
    Rectangles,
    ServerState,
    changes_by_host,
    job_bars,
    state_bars,
)
from beasy_sched.report.page import Absent, Chart, color
from beasy_sched.report.run_data import RunData

SPANS: Final = 480
"""Spans of time of the map."""
MOST_ROWS: Final = 20_000_000
"""Jobs times their servers, above which the map is left out."""
_TITLE: Final = "Servers by state and P-state"
_STATES: Final = (
    (ServerState.SWITCHING_ON, "\u2192 on"),
    (ServerState.SWITCHING_OFF, "\u2192 off"),
    (ServerState.SLEEPING, "asleep"),
)


@dataclass(frozen=True)
class Occupation:
    """One row per job and server of it: the server, from when to when (s)."""

    host: IntArray
    start_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True)
class Changes:
    """Instants (s) at which the count of a row rises or falls by an amount."""

    row: IntArray
    time_s: FloatArray
    amount: FloatArray


def mean_counts(changes: Changes, rows: int, edges_s: FloatArray) -> FloatArray:
    """The time-weighted means of counts between the edges, of shape (rows, spans).

    All counts begin with 0.
    """
    places = np.searchsorted(edges_s, changes.time_s)  # the first edge that comes at the change, or after it
    within = places < len(edges_s)
    cells = (changes.row * len(edges_s) + places)[within]
    size = rows * len(edges_s)
    shape = (rows, len(edges_s))
    rises = np.bincount(cells, changes.amount[within], size).reshape(shape).cumsum(axis=1)
    moments = np.bincount(cells, (changes.amount * changes.time_s)[within], size).reshape(shape)
    integrals = rises * edges_s - moments.cumsum(axis=1)
    means: FloatArray = np.diff(integrals, axis=1) / np.diff(edges_s)
    return means


def occupation(bars: Rectangles, end_s: float) -> Occupation:
    """What jobs occupy, up to the end of the run; ordered by server and start."""
    sizes = bars.high - bars.low + 1
    which = np.repeat(np.arange(len(bars)), sizes)
    host = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + bars.low[which]
    start_s, until_s = bars.start_s[which], np.minimum(bars.end_s[which], end_s)
    order = np.lexsort((start_s, host))
    return Occupation(host[order], start_s[order], until_s[order])


def computing_changes(busy: Occupation, hosts: IntArray, times_s: FloatArray, pstates: IntArray) -> Changes:
    """Changes of how many servers compute in each P-state, which is the row.

    ``hosts``, ``times_s`` and ``pstates`` are the changes of P-states, ordered by server and time. A server
    without any, or that is said to be under way while a job runs on it, counts as in P-state 0.
    """
    width_s = 1.0 + max(float(times_s.max(initial=0.0)), float(busy.end_s.max(initial=0.0)))
    keys, starts = hosts * width_s + times_s, busy.host * width_s + busy.start_s

    def pstate_at(at: FloatArray, side: str) -> IntArray:
        place = np.searchsorted(keys, busy.host * width_s + at, side=side) - 1  # type: ignore[call-overload]
        known = (place >= 0) & (hosts[place] == busy.host) if len(hosts) else np.zeros(len(place), dtype=bool)
        return np.maximum(np.where(known, pstates[place] if len(hosts) else 0, 0), 0)

    job = np.searchsorted(starts, keys) - 1  # the last to start before each change
    if len(starts):
        running = (job >= 0) & (busy.host[job] == hosts) & (busy.start_s[job] < times_s)
        running &= busy.end_s[job] > times_s
    else:
        running = np.zeros(len(keys), dtype=bool)
    before = np.maximum(np.where(np.diff(hosts, prepend=-1) == 0, np.roll(pstates, 1), 0), 0)
    ones, changed = np.ones(len(busy.host)), np.ones(int(running.sum()))
    return Changes(
        np.concatenate([pstate_at(busy.start_s, "right"), pstate_at(busy.end_s, "left"),
                        before[running], np.maximum(pstates[running], 0)]),
        np.concatenate([busy.start_s, busy.end_s, times_s[running], times_s[running]]),
        np.concatenate([ones, -ones, -changed, changed]),
    )  # fmt: skip


def server_heat(run: RunData, prefix: str) -> Chart | Absent:
    """The map: computing by P-state above, then idle, switching and sleeping servers."""
    if run.jobs is None or run.pstates is None or not len(run.pstates):
        missing = "jobs.csv" if run.jobs is None else "pstate_changes.csv"
        return Absent(_TITLE, f"the run has no {missing}, {BATSIMS}")
    bars = job_bars(run.jobs, f"{run.prefix}_jobs.csv")
    if run.end_s <= 0.0:
        return Absent(_TITLE, "the run took no time")
    if (bars.high - bars.low + 1).sum() > MOST_ROWS:
        return Absent(_TITLE, f"the jobs have more than {MOST_ROWS:,} servers altogether")
    edges_s = np.linspace(0.0, run.end_s, SPANS + 1)
    names, means = _rows(run, bars, edges_s)
    most = max(float(means.max()), 1.0)
    trace = {
        "type": "heatmap", "name": "servers", "x": 0.5 * (edges_s[1:] + edges_s[:-1]), "y": names,
        "z": [row.astype(np.float32) for row in means], "zmin": 0.0, "zmax": most, "showscale": False,
        "colorscale": [[0.0, color("heat-0")], [0.5, color("heat-1")], [1.0, color("heat-2")]],
        "ygap": 1,
    }  # fmt: skip
    layout = {"yaxis": {"type": "category", "autorange": "reversed", "fixedrange": True}}
    spec = {"kind": "heat", "group": prefix, "end": run.end_s, "height": 70 + 19 * len(names),
            "traces": [trace], "layout": layout}  # fmt: skip
    note = (
        f"P: computing in that P-state. No colour stands for none, the strongest for {most:,.0f} servers."
        f" Means over {run.end_s / SPANS:,.0f} s each."
    )
    return Chart(f"{prefix}-heat", _TITLE, spec, note)


def _rows(run: RunData, bars: Rectangles, edges_s: FloatArray) -> tuple[list[str], FloatArray]:
    """Names and mean counts of the rows that ever count a server."""
    path = f"{run.prefix}_pstate_changes.csv"
    busy = occupation(bars, run.end_s)
    computing = computing_changes(busy, *changes_by_host(run.pstates, path))
    pstates = int(computing.row.max(initial=0)) + 1
    by_pstate = mean_counts(computing, pstates, edges_s)
    found = state_bars(run.pstates, run.end_s, path)
    sizes = (found.high - found.low + 1).astype(np.float64)
    states = Changes(np.tile(found.what, 2), np.concatenate([found.start_s, found.end_s]),
                     np.concatenate([sizes, -sizes]))  # fmt: skip
    by_state = mean_counts(states, len(ServerState), edges_s)
    rows = [(f"P{number}", by_pstate[number]) for number in range(pstates)]
    rows.append(("idle", np.maximum(by_state[ServerState.ON] - by_pstate.sum(axis=0), 0.0)))
    rows += [(name, by_state[state]) for state, name in _STATES]
    rows = [(name, counts) for name, counts in rows if counts.max() > 1e-9] or rows[:1]
    return [name for name, _ in rows], np.array([counts for _, counts in rows])
