"""Generated workloads: jobs as arrays, written as Batsim's JSON; what to take from a trace; synthetic ones.

Batsim 4's format (its documentation of workloads): ``nb_res``, ``jobs`` with ``id``, ``subtime``, ``res``,
``profile`` and, where there is a limit, ``walltime``; ``profiles`` by name. Other members of a job travel
to the scheduler unchanged.

Synthetic workloads are in the manner of MetaCentrum: the thesis (Section 3.2.1) finds log-normal run times
and inter-arrival times in its trace. Here each day gets its share of the jobs; within a day the gaps between
arrivals are log-normal, stretched to fill the day, and follow a day and night cycle if one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_versions import BatsimFormat, job_for_batsim5, profile_for_batsim5
from beasy_sched.formats.swf import FIELDS_A_ROW, SWF_FIELDS
from beasy_sched.generate.declared import AT_LEAST_1, HOSTS, Means, outside
from beasy_sched.generate.random_streams import Stream, grouped_walltimes, log_normal, uniforms
from beasy_sched.limits import LARGEST_INT
from beasy_sched.numbers import Range
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

ProfileType = Literal["parallel_homogeneous", "delay"]
Chains = Literal["none", "keep", "wait"]
"""Whether jobs wait for the preceding job of the trace, and how they are submitted.

``keep``: at the trace's times, which in an archive contain that system's waiting and running; ``wait``: with
their predecessor, after whose end they wait for their think time.
"""

_JOBS_A_PIECE: Final = 20_000
_LARGEST_INTEGER: Final = 2.0**63


@dataclass
class Report:
    """What became of the input: counts by reason, and remarks for people."""

    rows: int = 0
    """Jobs found in the input."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Jobs left out, by reason."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Where the first few of them stand (``line 7``), by reason."""
    notes: list[str] = field(default_factory=list)
    """Decisions taken for the jobs that were kept."""
    warnings: list[str] = field(default_factory=list)
    """What may well be a mistake, in the file or in the options."""

    @property
    def dropped_total(self) -> int:
        """Number of jobs left out."""
        return sum(self.dropped.values())


@dataclass(frozen=True)
class GeneratedWorkload:
    """Jobs sorted by submission; every array has one entry per job."""

    nb_res: int
    """Hosts of the site."""
    window_s: float
    """Length of the time window, s."""
    ids: Sequence[str]
    submit_s: FloatArray
    run_s: FloatArray
    """Run time at the reference speed, s."""
    hosts: IntArray
    """Hosts requested."""
    walltime_s: FloatArray
    """Time limit, s; NaN for none."""
    reference_speed_flops: float
    """Speed at which a job takes its run time, flops/s per host."""
    profile_type: ProfileType = "parallel_homogeneous"
    extras: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Further members of the jobs; None is left out."""
    report: Report = field(default_factory=Report)
    midnight_s: float | None = 0.0
    """Time of a local midnight, counted as submissions are, s; None where a trace does not say."""

    @property
    def size(self) -> int:
        """Number of jobs."""
        return len(self.ids)

    @property
    def load(self) -> float:
        """Host-seconds asked for, over those that the site has in the window (NaN for no window)."""
        offered = self.nb_res * self.window_s
        return float(self.run_s @ self.hosts) / offered if offered > 0 else float("nan")

    @property
    def beyond_walltime(self) -> int:
        """Number of jobs that Batsim will kill at their walltime, at the reference speed."""
        exceeds = np.greater_equal if self.profile_type == "delay" else np.greater
        return int(np.count_nonzero(exceeds(self.run_s, self.walltime_s)))

    def write(self, path: PathLike) -> None:
        """Write the workload file, whole or not at all. Raises InputError, and ConfigError as below."""
        write_atomic(path, self.json_pieces())

    def json_pieces(self, form: BatsimFormat = BatsimFormat.BATSIM4) -> Iterator[bytes]:
        """Make the JSON text, one job per line; jobs of the same run time share a profile.

        Policies see the names of profiles, so these tell nothing: numbers in the order of first use.

        Raises ConfigError for numbers that Batsim could not read.
        """
        new = form is BatsimFormat.BATSIM5
        self._check_numbers()
        encode = msgspec.json.Encoder().encode
        run_times, profile_of = _by_first_use(self.run_s)
        names = [f"p{number}" for number in range(1, len(run_times) + 1)]
        yield b'{"nb_res":%d,"jobs":[' % self.nb_res
        for start in range(0, self.size, _JOBS_A_PIECE):
            jobs = self._jobs(slice(start, start + _JOBS_A_PIECE), names, profile_of)
            jobs = map(job_for_batsim5, jobs) if new else jobs
            yield (b",\n" if start else b"\n") + b",\n".join(map(encode, jobs))
        profiles: Iterator[dict[str, Any]]
        if self.profile_type == "delay":
            profiles = ({"type": "delay", "delay": run_s} for run_s in plain_numbers(run_times))
        else:
            flops = plain_numbers(run_times * self.reference_speed_flops)
            profiles = ({"type": "parallel_homogeneous", "cpu": cpu, "com": 0} for cpu in flops)
        named = zip(names, profiles, strict=True)
        lines = (
            b"%s:%s" % (encode(name), encode(profile_for_batsim5(name, profile) if new else profile))
            for name, profile in named
        )
        yield b'\n],"profiles":{\n' + b",\n".join(lines) + b"\n}}\n"

    def _check_numbers(self) -> None:
        largest = max(self.nb_res, int(self.hosts.max(initial=0)))
        if largest > LARGEST_INT:
            raise ConfigError(f"{largest} hosts: Batsim reads numbers of hosts up to {LARGEST_INT}")
        with np.errstate(over="ignore"):
            columns = {
                "submission time": self.submit_s,
                "number of flops": self.run_s * self.reference_speed_flops,
                "walltime": np.nan_to_num(self.walltime_s, nan=0.0, posinf=np.inf),
            }
        for name, values in columns.items():
            wrong = np.flatnonzero(~np.isfinite(values))
            if len(wrong):
                raise ConfigError(
                    f"job {self.ids[wrong[0]]}: the {name} is {values[wrong[0]]:g}, expected a finite number;"
                    f" its run time is {self.run_s[wrong[0]]:g} s at {self.reference_speed_flops:g} flops/s"
                )

    def _jobs(self, part: slice, names: list[str], profile_of: IntArray) -> Iterator[dict[str, Any]]:
        extras = {key: values[part] for key, values in self.extras.items()}
        rows = zip(
            self.ids[part],
            plain_numbers(self.submit_s[part]),
            self.hosts[part].tolist(),
            plain_numbers(self.walltime_s[part]),
            profile_of[part].tolist(),
            strict=True,
        )
        for index, (job_id, submit, hosts, walltime, profile) in enumerate(rows):
            job: dict[str, Any] = {"id": job_id, "subtime": submit, "res": hosts}
            if walltime is not None:
                job["walltime"] = walltime
            job["profile"] = names[profile]
            for key, values in extras.items():
                if values[index] is not None:
                    job[key] = values[index]
            yield job


def _by_first_use(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the different values in order of first use, and where each of ``values`` is among them."""
    different, first, place = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return different[order], np.argsort(order)[place]


def plain_numbers(values: FloatArray) -> list[int | float | None]:
    """Make whole numbers integers, and NaN None: as people write numbers in a file."""
    return [
        int(v) if v.is_integer() and abs(v) < _LARGEST_INTEGER else None if v != v else v
        for v in values.tolist()
    ]


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
    """Speed of a host at which run times are converted to flops, flops/s."""
    start_s: float | None = None
    """Start of the window, after the first submission of the trace (None: that submission)."""
    end_s: float = math.inf
    """End of the window (not in it), counted in the same way."""
    absolute: Annotated[
        bool,
        Means(
            "``start_s`` and ``end_s`` are in the trace's own time ({default})",
            "Read --from and --to in the trace's own time.",
        ),
    ] = False
    carry_over: Annotated[
        bool,
        Means(
            "take along the jobs that run or wait when the part starts ({default})",
            "Include jobs that the trace shows running at --from (submitted at 0, with what is left of "
            "them) or waiting then (submitted at 0.1).",
        ),
    ] = False
    cores_per_host: Annotated[
        int,
        Means(
            "processors of the trace per host ({default})",
            "Processors of the trace per host; rounded up.",
            HOSTS,
        ),
    ] = 1
    hosts: int | None = None
    """Hosts of the site; None: as the header says, or as the largest job needs."""
    keep_oversize: Annotated[
        bool,
        Means(
            "keep jobs that need more hosts than the site has ({default})",
            "Keep jobs larger than --hosts (dropped otherwise).",
        ),
    ] = False
    processors: Annotated[
        Literal["allocated", "requested"],
        Means(
            'which count to take, ``"allocated"`` or ``"requested"``',
            "Which count of the trace to use; the other one is used where it is missing.",
        ),
    ] = "allocated"
    requested_time_field: Annotated[
        int,
        Means(
            "number of the field that has the requested time ({default})",
            "Field with the requested time; conversions of ALCF logs have it in 6.",
            Range(1, FIELDS_A_ROW, whole=True),
        ),
    ] = SWF_FIELDS["requested_time_s"]
    keep: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Values to keep of some of `FILTER_FIELDS`, such as ``{"status": {1}}``."""
    min_run_s: float = 0.0
    max_run_s: float = math.inf
    max_hosts: Annotated[
        int | None, Means("most hosts of a job", "Drop jobs that need more hosts.", HOSTS)
    ] = None
    zero_run_time_s: Annotated[
        float | None,
        Means(
            "run time, s, for jobs whose run time is 0 ({default}: leave them out)",
            "Run time for jobs whose run time is 0 (otherwise dropped). Jobs without one are always dropped.",
        ),
    ] = None
    walltimes: Literal["trace", "groups", "none"] = "trace"
    """The trace's requested time, five random groups of overestimation, or no limit."""
    missing_walltime: float | Literal["drop", "none"] = 2.0
    """Where the trace has no requested time: a multiple of the run time, no limit, or drop the job."""
    clip_run_time: Annotated[
        bool,
        Means(
            "shorten run times to the walltimes ({default})",
            "Shorten jobs that ran longer than their walltime (otherwise Batsim kills them).",
        ),
    ] = False
    chains: Annotated[
        Chains,
        Means(
            'what becomes of preceding jobs and think times: ``"none"``, ``"keep"`` or ``"wait"``',
            "Let jobs wait for the preceding job of the trace (column 17): keep submits them at the trace's "
            "times; wait submits them with that job, after whose end they wait for their think time (column "
            "18).",
        ),
    ] = "none"
    profile_type: ProfileType = "parallel_homogeneous"
    extras: tuple[str, ...] = ()
    """Some of `EXTRA_FIELDS`, to travel with the jobs."""
    seed: int = 0
    """Seed of the walltime groups."""
    accept_damaged: Annotated[
        bool,
        Means(
            "take what comes before the damage in a gzip file that is cut ({default})",
            "Use what comes before the damage in a truncated gzip file.",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        begin_s, zero_s, factor = self.start_s or 0.0, self.zero_run_time_s, self.missing_walltime
        _refuse(
            {
                "the reference speed must be above 0": not 0 < self.reference_speed_flops < math.inf,
                f"the window ends ({self.end_s:g} s) where it starts or before": self.end_s <= begin_s,
                "cores_per_host must be 1 or more": self.cores_per_host < 1,
                "the window's start must not be negative": begin_s < 0,
                "hosts must be 1 or more": self.hosts is not None and self.hosts < 1,
                "max_hosts must be 1 or more": self.max_hosts is not None and self.max_hosts < 1,
                "the largest run time is below the least": self.max_run_s < self.min_run_s,
                "zero_run_time_s must be above 0": zero_s is not None and not zero_s > 0,
                f"requested_time_field must be 1 to {FIELDS_A_ROW}": (
                    not 1 <= self.requested_time_field <= FIELDS_A_ROW
                ),
                "missing_walltime must be 1 or more times the run time": (
                    not isinstance(factor, str) and not 1 <= factor < math.inf
                ),
                f"extras must be among {', '.join(EXTRA_FIELDS)}": not set(self.extras) <= set(EXTRA_FIELDS),
                f"keep takes {', '.join(FILTER_FIELDS)}": not set(self.keep) <= set(FILTER_FIELDS),
                "the seed must be 0 or more": self.seed < 0,
            }
        )


ARRIVAL_SHAPES: Final[Mapping[str, tuple[float, ...]]] = {
    "begin": (75.0, 17.0, 8.0),
    "end": (8.0, 17.0, 75.0),
    "uniform": (1.0, 1.0, 1.0),
}
"""Share of the arrivals of each day, by the name of the shape."""
BUSIEST_HOUR: Final = 14.0
"""Time of day at which most jobs arrive, where there is a day and night cycle."""


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Parameters of `synthetic_workload`; the defaults are those of the project's scenarios."""

    reference_speed_flops: float
    """Speed at which a job takes its run time, flops/s per host."""
    jobs: Annotated[int, Means("number of jobs ({default})", "Number of jobs.", AT_LEAST_1)] = 900
    hosts: Annotated[int, Means("hosts of the site ({default})", range=AT_LEAST_1)] = 50
    day_shares: Annotated[
        tuple[float, ...],
        Means(
            "relative number of arrivals of each day ({default}); as many days as numbers",
            "Share of the arrivals of each day, for any number of days.",
        ),
    ] = ARRIVAL_SHAPES["begin"]
    night_ratio: Annotated[
        float,
        Means(
            "arrival rate at the quietest time of day over that at the busiest ({default}: no cycle)",
            "Arrival rate in the night over that at 14:00 (default: 1, no cycle; 0.3 for uniform).",
            Range(0, 1, above=True),
        ),
    ] = 1.0
    quiet_end_h: Annotated[
        float,
        Means(
            "hours at the end of the last day in which no job arrives ({default})",
            "Hours at the end of the last day in which no job arrives.",
            Range(0, 23),
        ),
    ] = 0.0
    """The jobs of that day come before them."""
    gap_log_sd: Annotated[
        float,
        Means(
            "standard deviation of the logarithm of the gaps between arrivals ({default})",
            "Log-sd of the gaps between arrivals: 0 is even, 1 is as irregular as real users.",
            Range(0, 10),
        ),
    ] = 1.0
    run_median_s: Annotated[float, Means("median run time, s ({default})", "Median run time.")] = 1800.0
    run_log_sd: Annotated[
        float,
        Means("standard deviation of the logarithm of the run times ({default})", range=Range(0, 10)),
    ] = 1.3
    run_cap_s: Annotated[float, Means("longest run time, s ({default})", "Longest run time.")] = (
        6 * SECONDS_PER_HOUR
    )
    """Longer ones are cut to it."""
    host_shares: Annotated[
        Mapping[int, float],
        Means(
            "relative number of jobs by the hosts that they ask for ({default})",
            "Numbers of hosts that jobs request, and the share of each.",
        ),
    ] = field(default_factory=lambda: {1: 70.0, 2: 15.0, 4: 15.0})
    walltimes: bool = True
    """Five groups of overestimation; False: no limit."""
    profile_type: ProfileType = "parallel_homogeneous"
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError for values that make no sense."""
        _refuse(
            {
                "the reference speed must be above 0": not 0 < self.reference_speed_flops < math.inf,
                "jobs must be 1 or more": outside(self, "jobs"),
                "hosts must be 1 or more": outside(self, "hosts"),
                "the shares of the days must be 0 or more, and one above 0": not _are_shares(self.day_shares),
                "the night ratio must be above 0, and 1 at most": outside(self, "night_ratio"),
                "the quiet end must be 0 to 23 h": outside(self, "quiet_end_h"),
                "the log-sd of gaps and run times must be 0 to 10": outside(self, "gap_log_sd", "run_log_sd"),
                "the median run time must be 1 s or more": not 1 <= self.run_median_s < math.inf,
                "the run time cap must be 1 s or more": not 1 <= self.run_cap_s < math.inf,
                "the shares of the host counts must be 0 or more, and one above 0": (
                    not _are_shares(self.host_shares.values())
                ),
                f"host counts must be 1 to {self.hosts}, the site's size": not all(
                    1 <= count <= self.hosts for count in self.host_shares
                ),
                "the seed must be 0 or more": self.seed < 0,
            }
        )


def _refuse(problems: Mapping[str, bool]) -> None:
    """Raise ConfigError for the first that is true."""
    for message, wrong in problems.items():
        if wrong:
            raise ConfigError(message)


def _are_shares(shares: Collection[float]) -> bool:
    return bool(shares) and all(0 <= share < math.inf for share in shares) and 0 < sum(shares) < math.inf


def synthetic_workload(options: SyntheticOptions) -> GeneratedWorkload:
    """Draw a workload; the same options give the same jobs."""
    uniform = uniforms(options.seed, Stream.RUN_TIMES, options.jobs)
    drawn_s = log_normal(uniform, options.run_median_s, options.run_log_sd)
    run_s = np.maximum(np.rint(np.minimum(drawn_s, options.run_cap_s)), 1.0)
    no_limit = np.full(options.jobs, math.nan)
    return GeneratedWorkload(
        nb_res=options.hosts,
        window_s=len(options.day_shares) * SECONDS_PER_DAY,
        ids=[str(number) for number in range(options.jobs)],
        submit_s=_arrivals(options),
        run_s=run_s,
        hosts=_hosts(options),
        walltime_s=grouped_walltimes(run_s, options.seed) if options.walltimes else no_limit,
        reference_speed_flops=options.reference_speed_flops,
        profile_type=options.profile_type,
        report=Report(rows=options.jobs),
    )


def split_by_shares(total: int, shares: tuple[float, ...]) -> list[int]:
    """Split ``total`` into whole numbers in proportion to ``shares`` (largest remainders first)."""
    exact = [total * share / sum(shares) for share in shares]
    counts = [math.floor(value) for value in exact]
    remainders = sorted(range(len(shares)), key=lambda i: (counts[i] - exact[i], i))
    for index in remainders[: total - sum(counts)]:
        counts[index] += 1
    return counts


def _arrivals(options: SyntheticOptions) -> FloatArray:
    """Return the submission times in whole seconds, rising."""
    counts = split_by_shares(options.jobs, options.day_shares)
    uniform = uniforms(options.seed, Stream.ARRIVAL_GAPS, options.jobs + len(counts))
    gaps = log_normal(uniform, 1.0, options.gap_log_sd)
    days, start = [], 0
    for day, count in enumerate(counts):
        quiet_s = options.quiet_end_h * SECONDS_PER_HOUR if day == len(counts) - 1 else 0.0
        until = np.cumsum(gaps[start : start + count + 1])
        start += count + 1
        in_day = _time_of_day(until[:-1] / until[-1], options.night_ratio)
        days.append(day * SECONDS_PER_DAY + np.floor(in_day * (SECONDS_PER_DAY - quiet_s)))
    return np.concatenate(days)


def _time_of_day(share: FloatArray, night_ratio: float) -> FloatArray:
    """Return when (0 to 1) a share of the day's arrivals has come, for a sinusoidal rate of arrival."""
    if night_ratio == 1.0:
        return share
    times = np.linspace(0.0, 1.0, 1441)
    swing = (1 - night_ratio) / (1 + night_ratio)
    peak = BUSIEST_HOUR / 24
    angle = 2 * math.pi
    arrived = times + swing / angle * (np.sin(angle * (times - peak)) + math.sin(angle * peak))
    return np.interp(share, arrived, times)


def _hosts(options: SyntheticOptions) -> IntArray:
    counts, shares = zip(*sorted(options.host_shares.items()), strict=True)
    limits = np.cumsum(shares)
    drawn = uniforms(options.seed, Stream.HOSTS, options.jobs)
    return np.array(counts, dtype=np.int64)[np.searchsorted(limits / limits[-1], drawn, side="right")]
