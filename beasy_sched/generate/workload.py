"""A generated workload: jobs as arrays, written as Batsim's JSON.

Batsim 4's format (its documentation of workloads): ``nb_res``, ``jobs`` with ``id``, ``subtime``, ``res``,
``profile`` and, where there is a limit, ``walltime``; ``profiles`` by name. Other members of a job travel
to the scheduler unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_workload import LARGEST_INT

ProfileType = Literal["parallel_homogeneous", "delay"]

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
    """Jobs sorted by submission; every array has one entry a job."""

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
    """Speed at which a job takes its run time, flops/s a host."""
    profile_type: ProfileType = "parallel_homogeneous"
    extras: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Further members of the jobs; None is left out."""
    report: Report = field(default_factory=Report)

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
        late = self.run_s > self.walltime_s
        if self.profile_type == "delay":
            late = self.run_s >= self.walltime_s
        return int(np.count_nonzero(late))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the workload file, whole or not at all. Raises InputError, and ConfigError as below."""
        write_atomic(path, self.json_pieces())

    def json_pieces(self) -> Iterator[bytes]:
        """Make the JSON text, one job a line; jobs of the same run time share a profile.

        Raises ConfigError for numbers that Batsim could not read.
        """
        self._check_numbers()
        encode = msgspec.json.Encoder().encode
        run_times, profile_of = np.unique(self.run_s, return_inverse=True)
        names = [f"p{run}" for run in plain_numbers(run_times)]
        yield b'{"nb_res":%d,"jobs":[' % self.nb_res
        for start in range(0, self.size, _JOBS_A_PIECE):
            jobs = self._jobs(slice(start, start + _JOBS_A_PIECE), names, profile_of)
            yield (b",\n" if start else b"\n") + b",\n".join(map(encode, jobs))
        profiles = zip(names, plain_numbers(run_times), self._flops(run_times), strict=True)
        lines = (b"%s:%s" % (encode(name), encode(self._profile(run, cpu))) for name, run, cpu in profiles)
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

    def _flops(self, run_times: FloatArray) -> list[int | float | None]:
        return plain_numbers(run_times * self.reference_speed_flops)

    def _profile(self, run_s: float | None, flops: float | None) -> dict[str, Any]:
        if self.profile_type == "delay":
            return {"type": "delay", "delay": run_s}
        return {"type": "parallel_homogeneous", "cpu": flops, "com": 0}


def plain_numbers(values: FloatArray) -> list[int | float | None]:
    """Make whole numbers integers, and NaN None: as people write numbers in a file."""
    return [
        int(v) if v.is_integer() and abs(v) < _LARGEST_INTEGER else None if v != v else v
        for v in values.tolist()
    ]
