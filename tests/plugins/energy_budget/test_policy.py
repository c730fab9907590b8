"""One pass over the queue: when the first job that cannot start is promised its start."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import FAST

from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.energy_budget.choice import Fleet
from beasy_sched.plugins.energy_budget.energy_budget_options import EnergyBudgetOptions
from beasy_sched.plugins.energy_budget.energy_budget_policy import BudgetPass, BudgetReservation
from beasy_sched.plugins.energy_budget.ledger import JobCost


class Promises:
    """Hosts from one time on, energy from another; what is set aside is noted."""

    def __init__(self, hosts_s: float, energy_s: float) -> None:
        self.hosts_s, self.energy_s = hosts_s, energy_s
        self.hosts_reserved: list[float] = []
        self.energy_kept: list[tuple[float, float, float]] = []

    def reservation(self, walltime_s: float) -> BudgetReservation:
        cluster = Cluster(Platform((FAST,), np.zeros(4, dtype=np.intp), tuple(f"n{i:03}" for i in range(4))))
        job, view = cluster.submit(Job(JobRequest("w0!a", 0.0, 2, "p", walltime_s))), View(cluster)
        energy, options = self.Energy(self), EnergyBudgetOptions()
        made = BudgetPass(view, Fleet(view, switches=False), None, lambda: energy, options)
        made.choice = self.Choice(self)
        made.cost = JobCost(power_w=10.0, switching_j=0.0, lead_s=20.0)
        return made.reserve(job)

    class Choice:
        free = 1

        def __init__(self, promises: Promises) -> None:
            self.promises = promises

        def earliest(self, job: object) -> float:
            return self.promises.hosts_s

        def reserve(self, job: object, at_s: float) -> None:
            self.promises.hosts_reserved.append(at_s)

    class Energy:
        def __init__(self, promises: Promises) -> None:
            self.promises = promises

        def earliest(self, from_s: float, extra_w: float, lasts_s: float) -> float:
            assert (extra_w, lasts_s) == (2 * 10.0, 300.0 + 20.0)
            return max(from_s, self.promises.energy_s)

        def promise(self, *energy: float) -> float:
            self.promises.energy_kept.append(energy)  # type: ignore[arg-type]
            return 7.0


@pytest.mark.parametrize(
    ("hosts_s", "energy_s", "begin_s", "start_s"),
    [(50.0, 80.0, 80.0, 100.0), (50.0, 35.0, 35.0, 55.0), (50.0, 0.0, 30.0, 50.0), (10.0, 0.0, 0.0, 20.0)],
)
def test_hosts_wake_when_there_is_energy_and_the_job_starts_when_they_are_on(
    hosts_s: float, energy_s: float, begin_s: float, start_s: float
) -> None:
    """Hosts need 20 s to wake, the job's walltime is 300 s."""
    promises = Promises(hosts_s, energy_s)
    promise = promises.reservation(300.0)
    assert (promise.ready_s, promise.begin_s, promise.start_s) == (hosts_s, begin_s, start_s)
    assert promises.hosts_reserved == [start_s]
    assert promises.energy_kept == [(begin_s, 20.0, start_s - begin_s + 300.0)]
    assert promise.reserved == 7.0
