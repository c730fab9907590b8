"""Rectangles of a Gantt chart: jobs and server states as ranges of servers over time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import InputError
from beasy_sched.limits import MOST_HOSTS_NAMED, shortened
from beasy_sched.model.hosts import HostSet
from beasy_sched.report.run_data import Jobs

_TO_ON, _TO_SLEEP = -1, -2
"""How Batsim writes P-states of servers under way."""


class ServerState(IntEnum):
    """What a server does, as the chart tells states apart."""

    ON = 0
    SLEEPING = 1
    SWITCHING_ON = 2
    SWITCHING_OFF = 3


@dataclass(frozen=True)
class Bars:
    """Rectangles: servers ``low`` to ``high`` (both within), from ``start_s`` to ``end_s``."""

    start_s: FloatArray
    end_s: FloatArray
    low: IntArray
    high: IntArray
    what: IntArray
    """Of jobs: the place in `Jobs`. Of states: a `ServerState`."""
    pstate: IntArray
    """Of states: the P-state of servers that are on; -1 elsewhere."""

    def __len__(self) -> int:
        return len(self.start_s)

    def __getitem__(self, place: int) -> tuple[float, float, int, int, int, int]:
        """One rectangle: start (s), end (s), lowest and highest server, what, P-state."""
        return (
            float(self.start_s[place]),
            float(self.end_s[place]),
            int(self.low[place]),
            int(self.high[place]),
            int(self.what[place]),
            int(self.pstate[place]),
        )


def job_bars(jobs: Jobs, path: str | os.PathLike[str]) -> Bars:
    """One rectangle for every range of neighbouring servers of every job that ran.

    ``path`` is for messages. Raises InputError for servers that cannot be read.
    """
    place, low, high = [], [], []
    for job, text in enumerate(jobs.hosts):
        if not text:
            continue
        for first, last in _ranges(text, path, jobs.ids[job]):
            place.append(job)
            low.append(first)
            high.append(last)
    what = np.array(place, dtype=np.int64)
    return Bars(
        jobs.start_s[what],
        jobs.end_s[what],
        np.array(low, dtype=np.int64),
        np.array(high, dtype=np.int64),
        what,
        np.full(len(what), -1),
    )


def _ranges(text: str, path: str | os.PathLike[str], what: str) -> list[tuple[int, int]]:
    """The ranges of ``"0 3-5"``."""
    try:
        return HostSet.ranges(text)
    except ValueError as error:
        raise InputError(
            path, f"{what}: cannot read the servers {shortened(text)!r}, expected such as '0 3-5': {error}"
        ) from None


def state_bars(changes: Any, end_s: float, path: str | os.PathLike[str]) -> Bars:
    """The states of all servers up to ``end_s``, from Batsim's table of P-state changes.

    A server that was switching off sleeps in the P-state that it reaches, until it is switched on again.
    """
    hosts, times_s, pstates = _by_host(changes, path)
    first = np.append(True, hosts[1:] != hosts[:-1]) if len(hosts) else np.zeros(0, bool)
    before = np.where(first, 0, np.append(0, pstates[:-1])) if len(hosts) else pstates
    state = np.full(len(hosts), ServerState.ON.value)
    state[(pstates >= 0) & (before == _TO_SLEEP)] = ServerState.SLEEPING
    state[pstates == _TO_ON] = ServerState.SWITCHING_ON
    state[pstates == _TO_SLEEP] = ServerState.SWITCHING_OFF
    until_s = np.append(times_s[1:], end_s) if len(hosts) else times_s
    until_s = np.where(np.append(first[1:], True), end_s, until_s) if len(hosts) else until_s
    pstate = np.where(state == ServerState.ON, pstates, -1)
    lasts = until_s > times_s
    return _joined(times_s[lasts], until_s[lasts], hosts[lasts], state[lasts], pstate[lasts])


def _by_host(changes: Any, path: str | os.PathLike[str]) -> tuple[IntArray, FloatArray, IntArray]:
    """One row a server and change, by server and in the order of the file."""
    rows, count = [], 0
    for line, text in enumerate(changes["machine_id"].astype(str), 2):
        try:
            rows.append(HostSet.parse(text).ids)
        except ValueError as error:
            raise InputError(path, f"machine_id: {error}", line=line) from None
        count += len(rows[-1])
        if count > MOST_HOSTS_NAMED:
            raise InputError(path, f"names more than {MOST_HOSTS_NAMED:,} servers in all", line=line)
    lengths = [len(row) for row in rows]
    hosts = np.concatenate(rows) if rows else np.empty(0, np.int64)
    times_s = np.repeat(changes["time"].to_numpy(np.float64), lengths)
    pstates = np.repeat(changes["new_pstate"].to_numpy(np.int64), lengths)
    order = np.argsort(hosts, kind="stable")
    return hosts[order].astype(np.int64), times_s[order], pstates[order]


def _joined(
    start_s: FloatArray, end_s: FloatArray, hosts: IntArray, state: IntArray, pstate: IntArray
) -> Bars:
    """Make one rectangle of neighbouring servers that are in the same state for the same time."""
    order = np.lexsort((hosts, pstate, state, end_s, start_s))
    columns = [column[order] for column in (start_s, end_s, state, pstate)]
    hosts = hosts[order]
    new = np.ones(len(hosts), dtype=bool)
    if len(hosts):
        new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0) | (np.diff(hosts) != 1)
    last = np.append(new[1:], True) if len(hosts) else new
    return Bars(
        start_s[order][new], end_s[order][new], hosts[new], hosts[last], state[order][new], pstate[order][new]
    )
