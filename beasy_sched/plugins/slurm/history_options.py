"""Options of a workload from a cluster's past jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from beasy_sched.declared import HOSTS, OptionDoc
from beasy_sched.generate.workload_options import ProfileType
from beasy_sched.numbers import Range


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Selection and mapping of `workload_from_history`."""

    reference_speed_flops: float
    """Speed of a host at which run times are converted to flops, flops/s."""
    from_s: Annotated[
        float,
        OptionDoc(
            "earliest submission to include, s since 1970",
            "Earliest submission to include, such as 2026-01-01, in local time.",
        ),
    ] = -math.inf
    to_s: Annotated[
        float,
        OptionDoc("end of the submissions to include, s since 1970", "End of the submissions to include."),
    ] = math.inf
    partition: Annotated[
        str | None, OptionDoc("partition whose jobs are included", "Include only the jobs of this partition.")
    ] = None
    cluster: Annotated[
        str | None,
        OptionDoc(
            "cluster whose jobs are included",
            "Include only the jobs of this cluster, if sacct lists those of several (-L, -M).",
        ),
    ] = None
    missing_walltime: Annotated[
        float | Literal["drop", "none"],
        OptionDoc(
            "walltime of jobs without a time limit: a multiple of the run time, 'none' (no limit) or 'drop'",
            range=Range(1, 1e6),
        ),
    ] = "none"
    hosts: Annotated[
        int | None,
        OptionDoc(
            "hosts of the site (the nodes on which these jobs ran)",
            "Hosts of the site (default: the partition's nodes; with --file, those on which these jobs ran).",
            HOSTS,
        ),
    ] = None
    profile_type: ProfileType = "parallel_homogeneous"
