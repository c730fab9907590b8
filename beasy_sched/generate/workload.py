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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError, PathLike
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_versions import job_for_batsim5, profile_for_batsim5
from beasy_sched.generate.random_streams import Stream, grouped_walltimes, log_normal, uniforms
from beasy_sched.generate.workload_options import ProfileType, SyntheticOptions
from beasy_sched.limits import LARGEST_INT
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

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


BUSIEST_HOUR: Final = 14.0
"""Time of day at which most jobs arrive, where there is a day and night cycle."""


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
