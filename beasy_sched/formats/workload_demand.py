"""The demand that workload files foresee."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.expected_runs import expected_runs_s
from beasy_sched.model.platform import Platform
from beasy_sched.plan.demand import demand_power_w, reference_speed_flops


def workload_demand_w(
    paths: Sequence[Path], platform: Platform, *, steps: int, step_s: float, walltimes: bool = False
) -> FloatArray:
    """Return the demand (W a step) of Batsim workloads that are played together.

    Runs are expected to last as their profiles say, or to their ``walltimes``. Raises InputError.
    """
    speed = reference_speed_flops(platform)
    submit, runs, hosts = [], [], []
    for number, path in enumerate(paths):
        workload = read_workload(path, f"w{number}")
        submit.append(np.array([float(job.subtime) for job in workload.jobs]))
        runs.append(expected_runs_s(workload, speed, walltimes=walltimes))
        hosts.append(np.array([job.res for job in workload.jobs], dtype=np.intp))
    return demand_power_w(
        platform,
        np.concatenate(submit),
        np.concatenate(runs),
        np.concatenate(hosts),
        steps=steps,
        step_s=step_s,
    )
