"""What to take from a trace, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from beasy_sched.errors import ConfigError
from beasy_sched.formats.swf import FIELDS_A_ROW, SWF_FIELDS
from beasy_sched.generate.workload import ProfileType

EXTRA_FIELDS: Final[Mapping[str, str]] = {
    "user": "user",
    "group": "group",
    "executable": "executable",
    "queue": "queue",
    "partition": "partition",
    "status": "status",
    "job_number": "job_number",
    "preceding_job": "preceding_job",
    "think_time": "think_time_s",
    "wait": "wait_s",
    "requested_time": "requested_time_s",
    "requested_processors": "requested_processors",
    "requested_memory": "requested_memory_kb",
}
"""Members that a job can carry to the scheduler, and the SWF fields they come from."""
FILTER_FIELDS: Final = ("status", "user", "group", "queue", "partition")
"""Fields by whose values jobs can be chosen."""


@dataclass(frozen=True, kw_only=True)
class SwfOptions:
    """Selection and mapping of `workload_from_swf`; the defaults take every job that ran."""

    reference_speed_flops: float
    """Speed of a host that a second of run time stands for, flops/s."""
    start_s: float | None = None
    """Start of the window, after the first submission of the trace (None: that submission)."""
    end_s: float = math.inf
    """End of the window (not in it), counted in the same way."""
    absolute: bool = False
    """Read the window's ends in the trace's own time, not from its first submission."""
    carry_over: bool = False
    """Take along the jobs that the trace shows running or waiting at the window's start."""
    cores_per_host: int = 1
    """Processors of the trace that one host stands for: res = ceil(processors / cores_per_host)."""
    hosts: int | None = None
    """Hosts of the site; None: as the header says, or as the largest job needs."""
    keep_oversize: bool = False
    """Keep jobs that need more hosts than the site has."""
    processors: Literal["allocated", "requested"] = "allocated"
    """Which count to take; the other one stands in where it is missing."""
    requested_time_field: int = SWF_FIELDS["requested_time_s"]
    """Number of the field that holds the requested time (foreign conversions put it elsewhere)."""
    keep: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Values to keep of some of `FILTER_FIELDS`, such as ``{"status": {1}}``."""
    min_run_s: float = 0.0
    max_run_s: float = math.inf
    max_hosts: int | None = None
    zero_run_time_s: float | None = None
    """Run time for jobs whose run time is 0; None drops them."""
    walltimes: Literal["trace", "groups", "none"] = "trace"
    """The trace's requested time, five random groups of overestimation, or no limit."""
    missing_walltime: float | Literal["drop", "none"] = 2.0
    """Where the trace has no requested time: a multiple of the run time, no limit, or drop the job."""
    clip_run_time: bool = False
    """Shorten run times to the walltime."""
    profile_type: ProfileType = "parallel_homogeneous"
    extras: tuple[str, ...] = ()
    """Some of `EXTRA_FIELDS`, to travel with the jobs."""
    seed: int = 0
    """Seed of the walltime groups."""
    accept_damaged: bool = False
    """Take what comes before the damage in a gzip file that is cut or corrupt."""

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        problems = {
            "the reference speed must be above 0": not 0 < self.reference_speed_flops < math.inf,
            f"the window ends ({self.end_s:g} s) where it starts or before": self.end_s
            <= (self.start_s or 0.0),
            "cores_per_host must be 1 or more": self.cores_per_host < 1,
            "the window's start must not be negative": (self.start_s or 0.0) < 0,
            "hosts must be 1 or more": self.hosts is not None and self.hosts < 1,
            "max_hosts must be 1 or more": self.max_hosts is not None and self.max_hosts < 1,
            "the largest run time is below the least": self.max_run_s < self.min_run_s,
            "zero_run_time_s must be above 0": self.zero_run_time_s is not None
            and not self.zero_run_time_s > 0,
            f"requested_time_field must be 1 to {FIELDS_A_ROW}": not (
                1 <= self.requested_time_field <= FIELDS_A_ROW
            ),
            "missing_walltime must be 1 or more times the run time": (
                not isinstance(self.missing_walltime, str) and not 1 <= self.missing_walltime < math.inf
            ),
            f"extras must be among {', '.join(EXTRA_FIELDS)}": not set(self.extras) <= set(EXTRA_FIELDS),
            f"keep takes {', '.join(FILTER_FIELDS)}": not set(self.keep) <= set(FILTER_FIELDS),
            "the seed must be 0 or more": self.seed < 0,
        }
        for message, wrong in problems.items():
            if wrong:
                raise ConfigError(message)
