"""Options of generated workloads and of those from traces. It imports little: commands start fast."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from beasy_sched.declared import ABOVE_0, AT_LEAST_1, HOSTS, SEEDS, OptionDoc, check
from beasy_sched.formats.swf_fields import FIELDS_A_ROW, SWF_FIELDS
from beasy_sched.numbers import Range
from beasy_sched.units import SECONDS_PER_HOUR

ProfileType = Literal["parallel_homogeneous", "delay"]


Chains = Literal["none", "keep", "wait"]
"""Whether jobs wait for the preceding job of the trace, and how they are submitted.

``keep``: at the trace's times, which in an archive contain that system's waiting and running; ``wait``: with
their predecessor, after whose end they wait for their think time.
"""


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
class WorkloadOptions:
    """Options common to synthetic workloads and those of traces."""

    reference: Annotated[
        str,
        OptionDoc(
            "server (preset or file) whose median P-state's speed turns run times into flops",
            "Take the median P-state's speed of this preset or server file as the reference speed "
            "(default: gros; greenslot-xeon for --workflows).",
        ),
    ] = "gros"
    reference_speed_flops: Annotated[
        float | None,
        OptionDoc(
            "that speed itself",
            "Speed at which a job takes its run time, such as 25.57Gf: cpu = run time x speed.",
            ABOVE_0,
            "flops/s per host",
        ),
    ] = None
    hosts: Annotated[
        int | None,
        OptionDoc(
            "hosts of the site (synthetic: 50; trace: as its header states, or its largest job needs)",
            "Hosts of the site (default: the trace's size; 50).",
            HOSTS,
        ),
    ] = None
    walltimes: Annotated[
        bool | Literal["trace", "groups", "none"],
        OptionDoc(
            "synthetic: whether jobs have walltimes, from five groups of overestimation (True). Trace: "
            '``"trace"`` (the requested time), ``"groups"`` or ``"none"``',
            "The trace's requested time; or five equal groups of jobs with 5, 3.33, 2, 1.43 and 1.11 times "
            "the run time; or no limit. (default: trace; groups for --synthetic)",
        ),
    ]
    profile_type: Annotated[
        ProfileType,
        OptionDoc(
            '``"parallel_homogeneous"`` (run times depend on the speed) or ``"delay"``',
            "A delay takes the same time at every speed and draws only idle power.",
        ),
    ] = "parallel_homogeneous"
    seed: Annotated[int, OptionDoc("seed of all random numbers", range=SEEDS)] = 0

    @property
    def speed_flops(self) -> float:
        """The speed at which a job takes its run time, flops/s per host.

        Raises ConfigError and InputError for a server that there is not.
        """
        from beasy_sched.generate.platform_file import load_server

        if self.reference_speed_flops is not None:
            return self.reference_speed_flops
        return load_server(self.reference).kind().reference_speed_flops


@dataclass(frozen=True, kw_only=True)
class SwfOptions(WorkloadOptions):
    """Selection and mapping of `workload_from_swf`; the defaults take every job that ran."""

    start_s: Annotated[
        float | None,
        OptionDoc(
            "start of the window after the trace's first submission",
            "Start of the window after the trace's first submission: seconds, or such as 3d or 12h.",
            Range(0),
            "s",
        ),
    ] = None
    """Beginning of the window; None means the first submission."""
    end_s: Annotated[float, OptionDoc("end of the window", unit="s")] = math.inf
    """The window ends before it; it is counted in the same way."""
    absolute: Annotated[
        bool,
        OptionDoc(
            "``start_s`` and ``end_s`` are in the trace's own time",
            "Read --from and --to in the trace's own time.",
        ),
    ] = False
    carry_over: Annotated[
        bool,
        OptionDoc(
            "include jobs that the trace shows running when the window starts (submitted at 0, with what is "
            "left of them) or waiting then (submitted at 0.1)"
        ),
    ] = False
    cores_per_host: Annotated[int, OptionDoc("processors of the trace per host; rounded up", range=HOSTS)] = 1
    keep_oversize: Annotated[
        bool,
        OptionDoc(
            "keep jobs that need more hosts than the site has",
            "Keep jobs larger than --hosts (dropped otherwise).",
        ),
    ] = False
    processors: Annotated[
        Literal["allocated", "requested"],
        OptionDoc(
            'which count to take, ``"allocated"`` or ``"requested"``; the other one where it is missing',
            "Processor count to use; falls back to the other one if missing.",
        ),
    ] = "allocated"
    requested_time_field: Annotated[
        int,
        OptionDoc(
            "number of the field with the requested time; conversions of ALCF logs have it in 6",
            range=Range(1, FIELDS_A_ROW, whole=True),
        ),
    ] = SWF_FIELDS["requested_time_s"]
    keep: Annotated[
        Mapping[str, Collection[int]],
        OptionDoc('values to keep of fields such as status, as ``{"status": {1}}``'),
    ] = field(default_factory=dict)
    """The names are some of `FILTER_FIELDS`."""
    min_run_s: Annotated[float, OptionDoc("drop jobs that ran for less", unit="s")] = 0.0
    max_run_s: Annotated[float, OptionDoc("drop jobs that ran for longer", unit="s")] = math.inf
    max_hosts: Annotated[int | None, OptionDoc("drop jobs that need more hosts", range=HOSTS)] = None
    zero_run_time_s: Annotated[
        float | None,
        OptionDoc(
            "run time, s, for jobs whose run time is 0 ({default}: omit them)",
            "Run time for jobs whose run time is 0 (otherwise dropped). Jobs without one are always dropped.",
            ABOVE_0,
        ),
    ] = None
    walltimes: Literal["trace", "groups", "none"] = "trace"
    missing_walltime: Annotated[
        float | Literal["drop", "none"],
        OptionDoc(
            "walltime of jobs that requested none: a multiple of the run time, 'none' (no limit) or 'drop'",
            range=Range(1, 1e6),
        ),
    ] = 2.0
    clip_run_time: Annotated[
        bool, OptionDoc("shorten jobs that ran longer than their walltime (otherwise Batsim kills them)")
    ] = False
    chains: Annotated[
        Chains,
        OptionDoc(
            'how preceding jobs and think times are handled: ``"none"``, ``"keep"`` or ``"wait"``',
            "Let jobs wait for the preceding job of the trace (column 17): keep submits them at the trace's "
            "times; wait submits them with that job, after whose end they wait for their think time (column "
            "18).",
        ),
    ] = "none"
    extras: Annotated[
        Sequence[str],
        OptionDoc(f"give jobs these extra fields, for the scheduler: {', '.join(EXTRA_FIELDS)}"),
    ] = ()
    accept_damaged: Annotated[bool, OptionDoc("use the readable part of a truncated gzip file")] = False

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        from beasy_sched.energy.fields import require

        check(self)
        start_s, fields = self.start_s or 0.0, ", ".join(EXTRA_FIELDS)
        require(self.end_s > start_s, "end_s", self.end_s, f"a time after the window's start, {start_s:g} s")
        require(self.max_run_s >= self.min_run_s, "max_run_s", self.max_run_s, "no less than min_run_s")
        require(set(self.extras) <= set(EXTRA_FIELDS), "extras", self.extras, f"some of {fields}")
        require(
            set(self.keep) <= set(FILTER_FIELDS), "keep", [*self.keep], f"some of {', '.join(FILTER_FIELDS)}"
        )


ArrivalShape = Literal["begin", "end", "uniform"]


ARRIVAL_SHAPES: Final[Mapping[ArrivalShape, tuple[float, ...]]] = {
    "begin": (75.0, 17.0, 8.0),
    "end": (8.0, 17.0, 75.0),
    "uniform": (1.0, 1.0, 1.0),
}
"""Share of the arrivals of each day, by the name of the shape."""


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions(WorkloadOptions):
    """Parameters of `synthetic_workload`; the defaults are those of the project's scenarios."""

    jobs: Annotated[int, OptionDoc("number of jobs", range=AT_LEAST_1)] = 900
    hosts: int = 50
    day_shares: Annotated[
        Sequence[float], OptionDoc("share of the arrivals of each day, for any number of days")
    ] = ARRIVAL_SHAPES["begin"]
    night_ratio: Annotated[
        float,
        OptionDoc(
            "arrival rate at the quietest time of day over that at the busiest ({default}: no cycle)",
            "Arrival rate in the night over that at 14:00 (default: 1, no cycle; 0.3 for uniform).",
            Range(0, 1, above=True),
        ),
    ] = 1.0
    quiet_end_h: Annotated[
        float, OptionDoc("hours at the end of the last day in which no job arrives", range=Range(0, 23))
    ] = 0.0
    """The jobs of that day come before them."""
    gap_log_sd: Annotated[
        float,
        OptionDoc(
            "standard deviation of the logarithm of the gaps between arrivals: 0 is even, 1 is as irregular "
            "as real users",
            range=Range(0, 10),
        ),
    ] = 1.0
    run_median_s: Annotated[float, OptionDoc("median run time", range=Range(1), unit="s")] = 1800.0
    run_log_sd: Annotated[
        float, OptionDoc("standard deviation of the logarithm of the run times", range=Range(0, 10))
    ] = 1.3
    run_cap_s: Annotated[float, OptionDoc("longest run time", range=Range(1), unit="s")] = (
        6 * SECONDS_PER_HOUR
    )
    """Longer ones are cut to it."""
    host_shares: Annotated[
        Mapping[int, float], OptionDoc("numbers of hosts that jobs request, and the share of each")
    ] = field(default_factory=lambda: {1: 70.0, 2: 15.0, 4: 15.0})
    walltimes: bool = True

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        from beasy_sched.energy.fields import require

        check(self)
        shares, counts = "numbers of 0 or more, one of them above 0", [*self.host_shares]
        require(_are_shares(self.day_shares), "day_shares", self.day_shares, shares)
        require(_are_shares(self.host_shares.values()), "host_shares", self.host_shares, shares)
        fit = all(1 <= count <= self.hosts for count in counts)
        require(fit, "host_shares", counts, f"counts from 1 to {self.hosts}, the site's hosts")


def _are_shares(shares: Collection[float]) -> bool:
    return bool(shares) and all(0 <= share < math.inf for share in shares) and 0 < sum(shares) < math.inf
