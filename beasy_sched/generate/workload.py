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
from beasy_sched.declared import ABOVE_0, AT_LEAST_1, HOSTS, SEEDS, OptionDoc, check
from beasy_sched.energy.fields import require
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_versions import BatsimFormat, job_for_batsim5, profile_for_batsim5
from beasy_sched.formats.swf import FIELDS_A_ROW, SWF_FIELDS
from beasy_sched.generate.platform_file import load_server
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
    """Outcome of reading the input: counts by reason, and remarks for the user."""

    rows: int = 0
    """Jobs found in the input."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Jobs omitted, by reason."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Lines of the first few of them (``line 7``), by reason."""
    notes: list[str] = field(default_factory=list)
    """Decisions taken for the jobs that were kept."""
    warnings: list[str] = field(default_factory=list)
    """Possible mistakes, in the file or in the options."""

    @property
    def dropped_total(self) -> int:
        """Number of jobs omitted."""
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
    """Further members of the jobs; None is omitted."""
    report: Report = field(default_factory=Report)
    midnight_s: float | None = 0.0
    """Time of a local midnight, counted as submissions are, s; None where a trace does not state it."""

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
        """Write the workload file atomically. Raises InputError, and ConfigError as below."""
        write_atomic(path, self.json_pieces())

    def json_pieces(self, form: BatsimFormat = BatsimFormat.BATSIM4) -> Iterator[bytes]:
        """Make the JSON text, one job per line; jobs of the same run time share a profile.

        Policies see the names of profiles, so these reveal nothing: numbers in the order of first use.

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
    """Make integral numbers integers, and NaN None: as people write numbers in a file."""
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
BUSIEST_HOUR: Final = 14.0
"""Time of day at which most jobs arrive, where there is a day and night cycle."""


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
        check(self)
        shares, counts = "numbers of 0 or more, one of them above 0", [*self.host_shares]
        require(_are_shares(self.day_shares), "day_shares", self.day_shares, shares)
        require(_are_shares(self.host_shares.values()), "host_shares", self.host_shares, shares)
        fit = all(1 <= count <= self.hosts for count in counts)
        require(fit, "host_shares", counts, f"counts from 1 to {self.hosts}, the site's hosts")


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
        reference_speed_flops=options.speed_flops,
        profile_type=options.profile_type,
        report=Report(rows=options.jobs),
    )


def split_by_shares(total: int, shares: Sequence[float]) -> list[int]:
    """Split ``total`` into integers in proportion to ``shares`` (largest remainders first)."""
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
    """Return when (0 to 1) a share of the day's arrivals has occurred, for a sinusoidal rate of arrival."""
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
