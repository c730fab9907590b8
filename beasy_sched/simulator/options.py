"""How a simulation is to be run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SimulationOptions:
    """What Batsim's command-line options say."""

    energy: bool = False
    """Meter energy and allow P-state changes (``-E``)."""
    forward_profiles: bool = False
    """Attach its profile to each submitted job (``--forward-profiles-on-submission``)."""
    dynamic_jobs: bool = False
    """Let the scheduler register jobs and profiles (``--enable-dynamic-jobs``)."""
    acknowledge_dynamic_jobs: bool = False
    """Answer a registration with JOB_SUBMITTED (``--acknowledge-dynamic-jobs``)."""
    profile_reuse: bool = False
    """Only told to the scheduler: profiles are never forgotten here (``--enable-profile-reuse``)."""
    compute_sharing: bool = False
    """Allow several jobs on a host (``--enable-compute-sharing``)."""
    storage_sharing: bool = True
    """Only told to the scheduler."""
    forward_unknown_events: bool = False
    """Only told to the scheduler; the events file was read with it."""
    sched_config: str = ""
    """Text for the scheduler (``--sched-cfg``)."""
    send_profiles: bool = True
    """Put the profiles into SIMULATION_BEGINS, as Batsim does; large workloads run leaner without."""
