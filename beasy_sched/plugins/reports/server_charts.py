"""Charts of a run's servers: jobs on them (Gantt), their states over time, utilization, a map of P-states.

`Rectangles` show jobs and server states over time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.formats.run_summary import value_at
from beasy_sched.limits import MOST_HOSTS_NAMED, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import JobState
from beasy_sched.plugins.reports.page import Absent, Chart, TimeChart, color
from beasy_sched.plugins.reports.run_data import OUTCOMES, RunData, RunJobs, last_of_each_time, step_edges_s
from beasy_sched.plugins.reports.run_table import RunTable
from beasy_sched.plugins.reports.wait_charts import queue
from beasy_sched.run.results import LogLine

_TO_ON, _TO_SLEEP = -1, -2
"""Batsim's P-state numbers of servers that are switching on and off."""


class ServerState(IntEnum):
    """State of a server in the chart."""

    ON = 0
    SLEEPING = 1
    SWITCHING_ON = 2
    SWITCHING_OFF = 3
    LOST = 4
    """Out of service, or failed to wake; takes precedence over other states."""


@dataclass(frozen=True)
class Rectangles:
    """Rectangles of servers ``low`` to ``high`` (inclusive), from ``start_s`` to ``end_s``."""

    start_s: FloatArray
    end_s: FloatArray
    low: IntArray
    high: IntArray
    what: IntArray
    """Content of each rectangle: for jobs, the index in `RunJobs`; for states, a `ServerState`."""
    pstate: IntArray
    """P-state of each rectangle of a server that is on; -1 elsewhere."""

    def __len__(self) -> int:
        return len(self.start_s)

    def and_then(self, other: Rectangles) -> Rectangles:
        """Return these rectangles followed by others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Rectangles(*(np.concatenate(pair) for pair in pairs)) if len(self) else other


def job_bars(jobs: RunJobs, path: str | os.PathLike[str]) -> Rectangles:
    """Return one rectangle for every range of adjacent servers of every job that ran.

    ``path`` is for messages. Raises InputError for servers that cannot be read.
    """
    bars: list[tuple[int, int, int]] = []
    for job, text in enumerate(jobs.hosts):
        try:
            bars += ((job, first, last) for first, last in HostSet.ranges(text))
        except ValueError as error:
            problem = f"{jobs.ids[job]}: found servers {shortened(text)!r}"
            raise InputError(path, f"{problem}, expected a value such as '0 3-5': {error}") from None
    what, low, high = np.array(bars, dtype=np.int64).reshape(-1, 3).T
    return Rectangles(jobs.start_s[what], jobs.end_s[what], low, high, what, np.full(len(what), -1))


def state_bars(changes: RunTable, end_s: float) -> Rectangles:
    """Return the states of all servers up to ``end_s``, from Batsim's table of P-state changes.

    A server that was switching off sleeps in the P-state that it reaches, until it is switched on again; if
    it returns to that P-state after switching on, it failed to wake.
    """
    hosts, times_s, pstates = changes_by_host(changes)
    first = np.diff(hosts, prepend=-1) != 0
    before = np.roll(pstates, 1)
    fell = ~first & (before == _TO_SLEEP)
    before_that = ~first & (np.roll(hosts, 2) == hosts)
    fell |= before_that & (before == _TO_ON) & (np.roll(pstates, 2) == pstates)
    state = np.select(
        [pstates == _TO_ON, pstates == _TO_SLEEP, fell],
        [ServerState.SWITCHING_ON, ServerState.SWITCHING_OFF, ServerState.SLEEPING],
        ServerState.ON,
    )
    until_s = np.where(np.roll(first, -1), end_s, np.roll(times_s, -1))
    pstate = np.where(state == ServerState.ON, pstates, -1)
    lasts = until_s > times_s
    columns: list[Any] = [column[lasts] for column in (times_s, until_s, state, pstate, hosts)]
    order = np.lexsort(tuple(reversed(columns)))
    columns = [column[order] for column in columns]
    new = np.ones(len(order), dtype=bool)  # equal adjacent servers form one rectangle
    new[1:] = np.any([c[1:] != c[:-1] for c in columns[:-1]], axis=0) | (np.diff(columns[-1]) != 1)
    start_s, ends_s, state, pstate, low = (column[new] for column in columns)
    return Rectangles(start_s, ends_s, low, columns[-1][np.roll(new, -1)], state, pstate)


def lost_bars(lines: Sequence[LogLine], end_s: float, path: str | os.PathLike[str]) -> Rectangles:
    """Return the periods in which servers were lost or out of service, from the decision log.

    ``path`` is for messages. Raises InputError for servers that cannot be read.
    """
    since_s: dict[int, float] = {}
    periods: list[tuple[float, float, int]] = []
    for line in lines:
        try:
            hosts = line.host_set()
        except ValueError as error:
            raise InputError(path, f"hosts: {error}") from None
        if line.action == "lost":
            for host in hosts:
                since_s.setdefault(host, line.time)
        else:
            periods += ((since_s.pop(host), line.time, host) for host in hosts if host in since_s)
    periods += ((start_s, end_s, host) for host, start_s in since_s.items())
    times = np.array([each[:2] for each in periods], dtype=np.float64).reshape(-1, 2)
    hosts_of: IntArray = np.array([host for *_, host in periods], dtype=np.int64)
    kept = times[:, 1] > times[:, 0]
    times, hosts_of = times[kept], hosts_of[kept]
    state = np.full(len(hosts_of), int(ServerState.LOST), dtype=np.int64)
    return Rectangles(times[:, 0], times[:, 1], hosts_of, hosts_of, state, np.full(len(hosts_of), -1))


def changes_by_host(changes: RunTable) -> tuple[IntArray, FloatArray, IntArray]:
    """Return one row per server and change, by server and in the order of the file."""
    texts = changes.texts("machine_id")
    ids_of = {text: HostSet.parse(text).ids for text in set(texts)}
    rows, count = [], 0
    for line, text in enumerate(texts, 2):
        rows.append(ids_of[text])
        count += len(rows[-1])
        if count > MOST_HOSTS_NAMED:
            problem = f"found more than {MOST_HOSTS_NAMED:,} servers in total"
            raise InputError(changes.path, problem, line=line)
    lengths = [len(row) for row in rows]
    hosts = np.concatenate(rows) if rows else np.empty(0, np.int64)
    times_s = np.repeat(changes["time"], lengths)
    pstates = np.repeat(changes["new_pstate"].astype(np.int64), lengths)
    order = np.argsort(hosts, kind="stable")
    return hosts[order].astype(np.int64), times_s[order], pstates[order]


STATES = {
    "nb_computing": ("computing", "computing"),
    "nb_idle": ("idle", "idle"),
    "nb_switching_on": ("switching on", "switching-on"),
    "nb_switching_off": ("switching off", "switching-off"),
    "nb_sleeping": ("sleeping", "sleeping"),
}
"""Batsim's columns of server states, with name and colour, from the bottom of the stack."""
BATSIMS: Final = "or an empty one (written by Batsim; export it under the same prefix with 'batsim -e')"
"""Note on a missing file of Batsim."""


def server_charts(run: RunData, prefix: str) -> list[Chart | Absent]:
    """All charts of servers, and the queue; a note for each chart whose data are missing."""
    if run.jobs is not None and run.jobs.ids:
        charts: list[Chart | Absent] = [gantt(run, run.jobs, prefix), queue(run, run.jobs, prefix)]
    else:
        why = f"the run has no jobs.csv, {BATSIMS}" if run.jobs is None else "the run has no jobs"
        charts = [Absent("Servers and jobs, queue, waiting times", why)]
    if not len(run.states):
        charts.append(
            Absent("Servers by state, utilization", f"the run has no machine_states.csv, {BATSIMS}")
        )
    else:
        charts += [servers_by_state(run, prefix), utilization(run, prefix)]
    return [*charts, server_heat(run, prefix)]


def gantt(run: RunData, jobs: RunJobs, prefix: str) -> Chart:
    """Every job on its servers, and the other states of the servers."""
    bars = job_bars(jobs, f"{run.prefix}_jobs.csv")
    note = "Drag to zoom in, double-click to zoom out; hover for details of a job, click for explanations."
    states: dict[str, object] = {}
    all_bars = _lost(run)
    if not run.pstates.is_there:
        note += " The run has no pstate_changes.csv, so sleeping servers are not shown."
    else:
        all_bars = all_bars.and_then(state_bars(run.pstates, run.end_s))
        states = {
            "start": all_bars.start_s.astype(np.float32), "end": all_bars.end_s.astype(np.float32),
            "low": all_bars.low.astype(np.int32), "high": all_bars.high.astype(np.int32),
            "state": all_bars.what.astype(np.int8), "pstate": all_bars.pstate.astype(np.int16),
        }  # fmt: skip
    highest = max(int(each.high.max(initial=-1)) for each in (bars, all_bars))
    servers = max(highest + 1, (run.summary and run.summary.hosts) or 0)
    spec: dict[str, Any] = {
        "kind": "gantt", "group": prefix, "end": run.end_s, "height": 460, "servers": servers,
        "layout": {"yaxis": {"range": [-0.5, servers - 0.5], "title": {"text": "server"}}, "hovermode": False,
                   "showlegend": False},
        "outcomes": [state.value for state in OUTCOMES],
        "bars": {"job": bars.what.astype(np.int32), "low": bars.low.astype(np.int32),
                 "high": bars.high.astype(np.int32)},
        "states": states,
        "jobs": {"id": jobs.ids, "submit": jobs.submit_s.astype(np.float32),
                 "start": jobs.start_s.astype(np.float32), "end": jobs.end_s.astype(np.float32),
                 **_known(jobs), **_rules(run, jobs),
                 "outcome": jobs.outcome, "servers": jobs.servers.astype(np.int32)},
    }  # fmt: skip
    if jobs.count < len(jobs.ids):
        spec["outcomes"] = [*(state.value for state in OUTCOMES), JobState.CAME_BACK.value]
        spec["jobs"] = {**spec["jobs"], "next": jobs.next_lives().astype(np.int32)}
        note += " A dashed line joins the lives of a job that came back."
    return Chart(f"{prefix}-gantt", "Servers and jobs", spec, note)


def _lost(run: RunData) -> Rectangles:
    return lost_bars(run.absences, run.end_s, f"{run.prefix}_decisions.jsonl")


def _known(jobs: RunJobs) -> dict[str, Any]:
    """Walltimes (s) and energies (J) of the jobs, if the table has them."""
    columns = {"walltime": jobs.walltime_s, "energy": jobs.energy_j}
    return {name: values.astype(np.float32) for name, values in columns.items() if values is not None}


def _rules(run: RunData, jobs: RunJobs) -> dict[str, Any]:
    """Rules of the decision log, and those that started and killed each job (-1: none)."""
    kills = {line.job: line.rule for line in run.endings or [] if line.action == "kill"}
    rules = list(dict.fromkeys([*run.start_rules.values(), *kills.values()]))
    number = {rule: place for place, rule in enumerate(rules)}

    def places(rule_of: dict[str, str]) -> IntArray:
        rule_numbers = [number[rule_of[job]] if job in rule_of else -1 for job in jobs.ids]
        return np.array(rule_numbers, dtype=np.int64)

    return {"rules": rules, "start_rule": places(run.start_rules), "rule": places(kills)}


def servers_by_state(run: RunData, prefix: str) -> Chart:
    """Stacked numbers of computing, idle, switching and sleeping servers; planned ones as a line."""
    columns = [column for column in STATES if column in run.states]
    exact = last_of_each_time(run.states["time"], run.states.side_by_side(columns), run.end_s)
    curve = exact.thinned()
    chart = TimeChart(f"{prefix}-states", "Servers by state", prefix, run.end_s, "", "servers")
    for column, values in zip(columns, curve.values.T, strict=True):
        name, paint = STATES[column]
        chart.steps(name, curve.edges_s, values, paint, stack="states")
    if "planned_servers_on" in run.trace:
        on = run.trace["planned_servers_on"]
        if np.isfinite(on).any():
            chart.steps("planned on", step_edges_s(run.trace), on, "planned", dash="dash")
    most = float(exact.values.sum(axis=1).max())
    return chart.chart(*curve.notes, range=[0, 1.02 * most])


def utilization(run: RunData, prefix: str) -> Chart:
    """Share of computing servers among all, and among those that are on."""
    computing = run.states["nb_computing"]
    on = computing + run.states["nb_idle"]
    of_all = run.states.side_by_side([c for c in STATES if c in run.states]).sum(axis=1)
    counts = np.column_stack([computing, on, of_all])
    curve = last_of_each_time(run.states["time"], counts, run.end_s).thinned(480)
    computing, on, of_all = curve.values.T
    chart = TimeChart(f"{prefix}-utilization", "Utilization", prefix, run.end_s, "%", "computing servers [%]")
    for name, whole, paint in (("of the servers that are on", on, "asked"), ("of all", of_all, "computing")):
        share_pct = np.divide(100.0 * computing, whole, out=np.zeros(len(whole)), where=whole > 0.0)
        chart.steps(name, curve.edges_s, share_pct, paint)
    share = value_at(run.summary, "quality", "utilization")
    if share is None and (whole_s := float(of_all @ np.diff(curve.edges_s))) > 0.0:
        share = float(computing @ np.diff(curve.edges_s)) / whole_s
    mean = [] if share is None else [f"On average {100.0 * share:.2f} % of all."]
    return chart.chart(*curve.notes, *mean, range=[0, 102])


# --- the map of servers by state and P-state ----------------------------------------------------------------
#
# Counts are means over equal spans of time, exact: every change is counted where it happens.

SPANS: Final = 480
"""Number of time spans of the map."""
MOST_ROWS: Final = 20_000_000
"""Maximum sum of the servers of all jobs; above it the map is omitted."""
_TITLE: Final = "Servers by state and P-state"
_MAP_STATES: Final = (
    (ServerState.SWITCHING_ON, "\u2192 on"),
    (ServerState.SWITCHING_OFF, "\u2192 off"),
    (ServerState.SLEEPING, "asleep"),
    (ServerState.LOST, "lost"),
)


@dataclass(frozen=True)
class Occupation:
    """Pairs of a job and one of its servers: the server, start and end (s)."""

    host: IntArray
    start_s: FloatArray
    end_s: FloatArray


@dataclass(frozen=True)
class Changes:
    """Times (s) at which the count of a row changes, and the amounts."""

    row: IntArray
    time_s: FloatArray
    amount: FloatArray


def mean_counts(changes: Changes, rows: int, edges_s: FloatArray) -> FloatArray:
    """Return the time-weighted means of counts between the edges, of shape (rows, spans).

    All counts begin with 0.
    """
    places = np.searchsorted(edges_s, changes.time_s)  # the first edge at or after the change
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
    """Servers occupied by jobs up to the end of the run, ordered by server and start."""
    sizes = bars.high - bars.low + 1
    which = np.repeat(np.arange(len(bars)), sizes)
    host = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + bars.low[which]
    start_s, until_s = bars.start_s[which], np.minimum(bars.end_s[which], end_s)
    order = np.lexsort((start_s, host))
    return Occupation(host[order], start_s[order], until_s[order])


def computing_changes(busy: Occupation, hosts: IntArray, times_s: FloatArray, pstates: IntArray) -> Changes:
    """Changes of the number of servers computing in each P-state (the row).

    ``hosts``, ``times_s`` and ``pstates`` are the changes of P-states, ordered by server and time. A server
    without any, or recorded as switching while a job runs on it, counts as in P-state 0.
    """
    width_s = 1.0 + max(float(times_s.max(initial=0.0)), float(busy.end_s.max(initial=0.0)))
    keys, starts = hosts * width_s + times_s, busy.host * width_s + busy.start_s

    def pstate_at(at: FloatArray, side: str) -> IntArray:
        place = np.searchsorted(keys, busy.host * width_s + at, side=side) - 1  # type: ignore[call-overload]
        is_same_host = (
            (place >= 0) & (hosts[place] == busy.host) if len(hosts) else np.zeros(len(place), dtype=bool)
        )
        return np.maximum(np.where(is_same_host, pstates[place] if len(hosts) else 0, 0), 0)

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
    """Map of computing servers by P-state at the top, then idle, switching and sleeping ones."""
    if run.jobs is None or not len(run.pstates):
        missing = "jobs.csv" if run.jobs is None else "pstate_changes.csv"
        return Absent(_TITLE, f"the run has no {missing}, {BATSIMS}")
    bars = job_bars(run.jobs, f"{run.prefix}_jobs.csv")
    if run.end_s <= 0.0:
        return Absent(_TITLE, "the run has zero length")
    if (bars.high - bars.low + 1).sum() > MOST_ROWS:
        return Absent(_TITLE, f"the jobs have more than {MOST_ROWS:,} servers in total")
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
        f"P: computing in that P-state. No colour: 0 servers; strongest colour: {most:,.0f} servers."
        f" Means over {run.end_s / SPANS:,.0f} s each."
    )
    if "lost" in names:
        note += " Unavailable servers are also counted in their previous state."
    return Chart(f"{prefix}-heat", _TITLE, spec, note)


def _rows(run: RunData, bars: Rectangles, edges_s: FloatArray) -> tuple[list[str], FloatArray]:
    """Names and mean counts of the rows that are not always 0."""
    busy = occupation(bars, run.end_s)
    computing = computing_changes(busy, *changes_by_host(run.pstates))
    pstates = int(computing.row.max(initial=0)) + 1
    by_pstate = mean_counts(computing, pstates, edges_s)
    all_bars = _lost(run).and_then(state_bars(run.pstates, run.end_s))
    sizes = (all_bars.high - all_bars.low + 1).astype(np.float64)
    states = Changes(np.tile(all_bars.what, 2), np.concatenate([all_bars.start_s, all_bars.end_s]),
                     np.concatenate([sizes, -sizes]))  # fmt: skip
    by_state = mean_counts(states, len(ServerState), edges_s)
    rows = [(f"P{number}", by_pstate[number]) for number in range(pstates)]
    rows.append(("idle", np.maximum(by_state[ServerState.ON] - by_pstate.sum(axis=0), 0.0)))
    rows += [(name, by_state[state]) for state, name in _MAP_STATES]
    rows = [(name, counts) for name, counts in rows if counts.max() > 1e-9] or rows[:1]
    return [name for name, _ in rows], np.array([counts for _, counts in rows])
