"""A quirk of SimGrid: hosts that do not start in P-state 0 are first charged by P-state 0's table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.machines import NOBODY, Machines
from beasy_sched.simulator.modes import STATES, ModeTable
from beasy_sched.simulator.tasks import powers, used_flops


def first_settlement(
    table: ModeTable, machines: Machines, slots: list[SimJob | None]
) -> Callable[[float], float] | None:
    """Return what the first metering after time 0 has to do, or None if every host starts in P-state 0.

    The function corrects the energy of the jobs concerned, and returns the correction of the total, J.
    A host whose P-state was changed at time 0 has been metered then, and is charged properly.
    """
    stale = np.flatnonzero(table.pstates[machines.mode] != 0)
    if not len(stale):
        return None
    initial = table.pstates[machines.mode[stale]]

    def settle(now: float) -> float:
        still = stale[table.pstates[machines.mode[stale]] == initial]
        return sum(_correct(table, machines, slots, host, now) for host in still.tolist())

    return settle


def _correct(
    table: ModeTable, machines: Machines, slots: list[SimJob | None], host: int, now: float
) -> float:
    mode = machines.mode[host : host + 1]
    used = np.zeros(1)
    owner = int(machines.owner[host])
    job = slots[owner] if owner != NOBODY else None
    if job is not None and job.task is not None:
        place = int(np.searchsorted(job.alloc.ids, host))
        used = used_flops(job.task, job.task.rate, len(job.alloc))[place : place + 1]
    zero = mode - table.pstates[mode] * STATES
    wrong_j = float((powers(table, zero, used) - powers(table, mode, used))[0]) * now
    if job is not None:
        job.energy_j += wrong_j
    return wrong_j
