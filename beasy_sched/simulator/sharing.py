"""Several tasks on one host: SimGrid's fair-bottleneck sharing of computing power."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.machines import Machines
from beasy_sched.simulator.tasks import NEVER, powers, speed_limit, used_flops

_TINY = 1e-12


def share(machines: Machines, jobs: Sequence[SimJob]) -> FloatArray:
    """Set the rate of every running task; return the power of every host, W.

    In each round all tasks on a host get an equal part of what is left of it; a task grows by the least
    of its parts, and is settled when its hosts are used up or one of its cores is fully busy.
    """
    table = machines.table
    active = [job for job in jobs if job.task is not None]
    weights = [_weights(job) for job in active]
    limits = [speed_limit(job.task, table, machines.mode[job.alloc.ids]) for job in active if job.task]
    rates = [0.0] * len(active)
    capacity = table.speeds[machines.mode] * table.cores[machines.mode]
    left = capacity.copy()
    growing = [i for i, limit in enumerate(limits) if limit != NEVER]
    while growing:
        sharers = np.zeros(machines.size)
        for i in growing:
            sharers[active[i].alloc.ids[weights[i] > 0]] += 1
        part = np.divide(left, sharers, out=np.zeros_like(left), where=sharers > 0)
        steps = {}
        for i in growing:
            busy = weights[i] > 0
            steps[i] = min(
                float((part[active[i].alloc.ids[busy]] / weights[i][busy]).min()), limits[i] - rates[i]
            )
        for i, step in steps.items():
            rates[i] += step
            left[active[i].alloc.ids] -= weights[i] * step
        full = left <= capacity * 1e-9
        growing = [
            i
            for i in growing
            if rates[i] < limits[i] * (1 - _TINY) and not full[active[i].alloc.ids[weights[i] > 0]].any()
        ]
    used = np.zeros(machines.size)
    for i, job in enumerate(active):
        assert job.task is not None
        job.task.rate = NEVER if limits[i] == NEVER else rates[i]
        used[job.alloc.ids] += used_flops(job.task, job.task.rate, len(job.alloc))
    switching = table.switching[machines.mode]
    used[switching] = table.speeds[machines.mode[switching]]
    return powers(table, machines.mode, used)


def _weights(job: SimJob) -> FloatArray:
    assert job.task is not None
    task = job.task
    return np.full(len(job.alloc), task.amount) if task.flops is None else task.flops
