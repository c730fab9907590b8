"""What the session tells the decision log: one line an action that was carried out or refused.

What became of every job, kept in compact columns.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from beasy_sched.engine.actions import Compensate, Facts, Postpone, SetPState, Start
from beasy_sched.errors import PolicyError
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.jobs import SLOWDOWN_FLOOR_S, Job, JobState
from beasy_sched.model.power import HostState

DecisionLog = Callable[[float, str, str, str, str, Facts], None]
"""Called with (now in s, action, job id or "", hosts, rule, the numbers behind it)."""


class Diary:
    """Turns actions into lines of the decision log; says nothing where there is none."""

    def __init__(self, log: DecisionLog | None, cluster: Cluster) -> None:
        """Write to ``log`` what happens on ``cluster``."""
        self._log = log
        self._cluster = cluster
        self._sleep = cluster.platform.sleep_pstate

    def started(self, now: float, action: Start) -> None:
        """A job starts."""
        if self._log is not None:
            self._log(now, "start", action.job.id, str(action.hosts), action.rule, action.facts)

    def doomed(self, now: float, job: Job, rule: str, facts: Facts) -> None:
        """A running job is to be killed."""
        if self._log is not None:
            self._log(now, "kill", job.id, str(job.hosts), rule, facts)

    def refused(self, now: float, job: Job, rule: str, facts: Facts) -> None:
        """A waiting job is rejected."""
        if self._log is not None:
            self._log(now, "reject", job.id, "", rule, facts)

    def postponed(self, now: float, action: Postpone) -> None:
        """A job waits: a line only where the reason is not the one given last for it.

        Raises PolicyError where the job is not waiting.
        """
        job = action.job
        if job.state is not JobState.WAITING:
            raise PolicyError(f"job {job.id} is {job.state.value}: it cannot be postponed")
        if self._log is not None and job.postponed_for != action.rule:
            job.postponed_for = action.rule
            self._log(now, "postpone", job.id, "", action.rule, action.facts)

    def compensated(self, now: float, action: Compensate) -> None:
        """The plan for the steps to come has been changed."""
        if self._log is not None:
            self._log(now, "compensate", "", "", action.rule, action.facts)

    def wished(self, now: float, action: SetPState) -> None:
        """Hosts are wished into a P-state; call it with the cluster as it was before."""
        if self._log is not None:
            facts = {**self._directions(action), **action.facts}
            self._log(now, f"P-state {action.pstate}", "", str(action.hosts), action.rule, facts)

    def _directions(self, action: SetPState) -> dict[str, int]:
        """How many of the hosts go to sleep, how many wake, and how many only change their speed."""
        hosts, cluster = action.hosts.ids, self._cluster
        to_sleep = int(np.count_nonzero(self._sleep[hosts] == action.pstate))
        state = cluster.state[hosts]
        down = (state == HostState.ASLEEP) | (state == HostState.SWITCHING_OFF)
        to_wake = int(np.count_nonzero(down & (self._sleep[hosts] != action.pstate)))
        counts = {
            "hosts_to_sleep": to_sleep,
            "hosts_to_wake": to_wake,
            "hosts_to_speed": len(hosts) - to_sleep - to_wake,
        }
        return {name: count for name, count in counts.items() if count}


_STATES = list(JobState)
_CODES = {state: code for code, state in enumerate(_STATES)}


class Outcomes:
    """One row a job that has left the system."""

    def __init__(self) -> None:
        """No rows yet."""
        self.ids: list[str] = []
        self._subtime = array("d")
        self._start = array("d")
        self._end = array("d")
        self._walltime = array("d")
        self._energy = array("d")
        self._res = array("q")
        self._state = array("b")

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: Job) -> None:
        """Add a job whose state is final."""
        self.ids.append(job.id)
        self._subtime.append(job.subtime_s)
        self._start.append(job.start_s)
        self._end.append(job.end_s)
        self._walltime.append(job.walltime_s)
        self._energy.append(job.energy_j)
        self._res.append(job.res)
        self._state.append(_CODES[job.state])

    def counts(self) -> dict[str, int]:
        """Count the outcomes by name, every outcome present."""
        counter = Counter(self._state)
        return {
            state.value: counter[code]
            for code, state in enumerate(_STATES)
            if state not in (JobState.WAITING, JobState.RUNNING)
        }

    def energy_j(
        self, *states: JobState, until_s: float = math.inf, running_j: Mapping[str, float] | None = None
    ) -> float:
        """Energy up to ``until_s`` of the jobs that ended in one of ``states``, where it was counted, J.

        ``running_j`` is what each job that ran at ``until_s`` had spent by then.
        """
        chosen = np.isin(np.array(self._state), [_CODES[state] for state in states])
        chosen &= np.array(self._start) < until_s  # false for those that never started
        spent_j, known_j = np.array(self._energy), running_j or {}
        for row in np.flatnonzero(chosen).tolist():
            spent_j[row] = known_j.get(self.ids[row], spent_j[row])
        return float(np.nansum(spent_j[chosen]))

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns as arrays; times in s, NaN for a job that never started."""
        return {
            "subtime_s": np.array(self._subtime),
            "start_s": np.array(self._start),
            "end_s": np.array(self._end),
            "walltime_s": np.array(self._walltime),
            "energy_j": np.array(self._energy),
            "res": np.array(self._res),
            "state": np.array([state.value for state in _STATES])[np.array(self._state, dtype=np.intp)],
        }

    def median_run_share(self) -> float | None:
        """Median of run time over walltime, of the jobs that finished; None where there is none."""
        columns = self.columns()
        chosen = (columns["state"] == JobState.FINISHED.value) & np.isfinite(columns["walltime_s"])
        run_s = (columns["end_s"] - columns["start_s"])[chosen]
        return float(np.median(run_s / columns["walltime_s"][chosen])) if len(run_s) else None

    def metrics(self, *, until_s: float = math.inf) -> dict[str, float | int | None]:
        """Mean and quantiles of waiting time and bounded slowdown, over the jobs that started.

        ``host_seconds`` are those in use up to ``until_s``, the end of the last window.
        """
        columns = self.columns()
        started = np.isfinite(columns["start_s"]) & np.isfinite(columns["end_s"])
        wait_s = (columns["start_s"] - columns["subtime_s"])[started]
        run_s = (columns["end_s"] - columns["start_s"])[started]
        used_s = np.minimum(columns["end_s"], until_s)[started] - columns["start_s"][started]
        slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, SLOWDOWN_FLOOR_S), 1.0)
        result: dict[str, float | int | None] = {
            "started": int(started.sum()),
            "host_seconds": float((used_s * columns["res"][started]).sum()),
        }
        for name, values in (("waiting_s", wait_s), ("bounded_slowdown", slowdown)):
            result[f"{name}_mean"] = float(values.mean()) if len(values) else None
            for quantile in (50, 95, 100):
                key = f"{name}_max" if quantile == 100 else f"{name}_p{quantile}"
                result[key] = float(np.percentile(values, quantile)) if len(values) else None
        return result
