"""How long the jobs of a workload are expected to run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_profiles import Composed, Delay, Homogeneous, Parallel, Profile
from beasy_sched.formats.batsim_workload import Workload


def expected_runs_s(workload: Workload, speed_flops: float, *, walltimes: bool = False) -> FloatArray:
    """Seconds that each job runs on hosts of this speed (flops/s), its walltime at most.

    With ``walltimes``, the walltimes themselves: all that a scheduler may know. Raises InputError for a
    job without one then.
    """
    runs = np.empty(len(workload.jobs))
    for index, job in enumerate(workload.jobs):
        limit = np.inf if job.walltime is None else float(job.walltime)
        if not walltimes:
            runs[index] = min(limit, profile_run_s(job.profile, workload.profiles, job.res, speed_flops))
        elif limit < np.inf:
            runs[index] = limit
        else:
            raise InputError(workload.path, f"job {job.id!r} has no walltime to forecast its run from")
    return runs


def profile_run_s(name: str, profiles: Mapping[str, Profile], hosts: int, speed_flops: float) -> float:
    """Seconds that a profile runs on ``hosts`` hosts of this speed; 0 for one that is not modelled."""
    profile = profiles[name]
    if isinstance(profile, Delay):
        return profile.delay_s
    if isinstance(profile, Homogeneous):
        return profile.flops / (hosts if profile.total else 1) / speed_flops
    if isinstance(profile, Parallel):
        return max(profile.flops, default=0.0) / speed_flops
    if isinstance(profile, Composed):
        once = sum(profile_run_s(part, profiles, hosts, speed_flops) for part in profile.sequence)
        return profile.repeat * once
    return 0.0
