"""The books of a budget: what is projected of a moment's hosts and jobs."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import FAST

from beasy_sched.engine.policy import View
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import JobRequest
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.energy_budget.energy_budget_options import (
    BudgetPeriod,
    EnergyBudgetOptions,
    EstimatedPowers,
)
from beasy_sched.plugins.energy_budget.ledger import Ledger
from beasy_sched.plugins.energy_budget.projection import Commitments, Projection

PERIOD = BudgetPeriod(100.0, 200.0, 10.0, 1e6, False)
ASLEEP = 2


@pytest.mark.parametrize(("busy", "admitted"), [(0, True), (1, False)])
def test_hosts_that_come_free_before_the_period_are_switched_off_at_its_cost(
    busy: int, admitted: bool
) -> None:
    """Nothing is there at 100 s. A host that is busy until 90 s is idle then and takes 7 s at 60 W to go
    off: no job may go on into the period, however little it draws."""
    pstates = np.array([0] * busy + [ASLEEP] * 2, dtype=np.intp)
    names = tuple(f"n{i:03}" for i in range(len(pstates)))
    cluster = Cluster(Platform((FAST,), np.zeros(len(pstates), dtype=np.intp), names, pstates))
    jobs = Commitments()
    if busy:
        cluster.start(cluster.submit(Job(JobRequest("w0!a", 0.0, 1, "p", 90.0))), HostSet.of([0]), 0.0)
        jobs.add("w0!a", 90.0, 95.0, 1)
    view = View(cluster)
    powers = EstimatedPowers(
        cluster.platform, view.power_model, EnergyBudgetOptions(shutdown="opportunistic")
    )
    ledger = Ledger(PERIOD, powers, jobs, view)
    assert ledger.test_at(0.0, Projection).allows(1.0, 150.0, 0) == admitted
    assert ledger.test_at(0.0, Projection).allows(1.0, 100.0, 0)  # it has ended when the period begins
