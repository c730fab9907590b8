"""What the session tells the decision log: one line an action that was carried out or refused.

What became of every job, kept in compact columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beasy_sched.engine.actions import Compensate, Facts, Postpone, SetPState, Start
from beasy_sched.errors import PolicyError
from beasy_sched.model.cluster import Cluster, HostState
from beasy_sched.model.jobs import Job, JobState

DecisionLog = Callable[[float, str, str, str, str, Facts], None]
"""Called with (now in s, action, job id or "", hosts, rule, the numbers behind it)."""


class Diary:
    """Turns actions into lines of the decision log; says nothing where there is none."""

    def __init__(self, log: DecisionLog | None, cluster: Cluster) -> None:
        """Write to ``log`` what happens on ``cluster``."""
        self._log = log
        self._cluster = cluster
        kinds = cluster.platform.kinds
        sleep = np.array([kind.sleep.pstate if kind.sleep else -1 for kind in kinds], dtype=np.intp)
        self._sleep = sleep[cluster.platform.kind_of]

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
