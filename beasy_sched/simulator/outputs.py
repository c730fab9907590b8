"""Batsim's five CSV files, row by row; they appear under their names only when the run is over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from beasy_sched.errors import InputError
from beasy_sched.model.events import JobEnd
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.instant import SAME_INSTANT_S
from beasy_sched.simulator.job import SimJob

JOBS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
MACHINE_STATES = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
PSTATES = "time,machine_id,new_pstate"
ENERGY = "time,energy,event_type,wattmin,epower"

_BUFFER = 1 << 18


class Tracer:
    """The files of one run, with a common prefix."""

    def __init__(self, prefix: str | os.PathLike[str], *, energy: bool, machine_states: bool = True) -> None:
        """Open the files under temporary names beside the final ones. Raises InputError."""
        self.prefix = os.fspath(prefix)
        self._partial: dict[Path, Path] = {}
        self._open: list[TextIO] = []
        self._jobs = self._file("jobs", JOBS)
        self._states = self._file("machine_states", MACHINE_STATES) if machine_states else None
        self._pstates = self._file("pstate_changes", PSTATES) if energy else None
        self._energy = self._file("consumed_energy", ENERGY) if energy else None
        self._last_row = (0.0, 0.0)
        self._wattmin = (-1.0, "")

    def _file(self, name: str, header: str) -> TextIO:
        final = Path(f"{self.prefix}_{name}.csv")
        partial = final.with_name(f".{final.name}.{os.getpid()}.part")
        try:
            file = open(partial, "w", encoding="utf-8", newline="", buffering=_BUFFER)  # noqa: SIM115
        except OSError as error:
            self.discard()
            raise InputError(final, f"cannot be written: {error.strerror}; see -e/--export") from None
        file.write(header + "\n")
        self._partial[partial] = final
        self._open.append(file)
        return file

    def job(self, job: SimJob, runtime: float) -> None:
        """Write the row of a job that ran for ``runtime`` s."""
        request, start = job.request, job.start
        finish = start + runtime
        subtime = job.subtime
        wait = start - subtime
        turnaround = finish - subtime
        assert job.end is not None
        self._jobs.write(
            f"{_local(request.id)},{job.workload},{request.profile},{subtime:.6f},{request.res},"
            f"{job.walltime:.6f},{1 if job.end is JobEnd.SUCCESS else 0},{job.end.value},{start:.6f},{runtime:.6f},"
            f"{finish:.6f},{wait:.6f},{turnaround:.6f},{turnaround / runtime:.6f},{job.alloc},"
            f'{job.energy_j:.6f},"{job.metadata}"\n'
        )

    def rejected(self, job: SimJob) -> None:
        """Write the row of a rejected job."""
        request = job.request
        self._jobs.write(
            f"{_local(request.id)},{job.workload},{request.profile},{job.subtime:.6f},{request.res},"
            f'{job.walltime:.6f},0,REJECTED,,,,,,,,,"{job.metadata}"\n'
        )

    def machine_states(self, now: float, counts: Sequence[int]) -> None:
        """Write how many hosts are in each state."""
        if self._states is not None:
            self._states.write(f"{now:g},{counts[0]},{counts[1]},{counts[2]},{counts[3]},{counts[4]}\n")

    def pstate(self, now: float, hosts: HostSet, pstate: int) -> None:
        """Write a P-state change: a number, -1 or -2 on the way to computing or asleep, -42 if unknown."""
        if self._pstates is not None:
            self._pstates.write(f"{now:g},{hosts},{pstate}\n")

    def energy(self, now: float, energy_j: float, kind: str, wattmin_w: float) -> None:
        """Write an energy row: ``s`` a job's start, ``e`` its end, ``p`` a P-state change."""
        if self._energy is None:
            return
        before, used_j = self._last_row
        lasted_s = now - before
        power = f"{(energy_j - used_j) / lasted_s:.6f}" if lasted_s > SAME_INSTANT_S else "NA"
        if wattmin_w != self._wattmin[0]:
            self._wattmin = (wattmin_w, f"{wattmin_w:.6f}")
        self._energy.write(f"{now:.6f},{energy_j:.6f},{kind},{self._wattmin[1]},{power}\n")
        self._last_row = (now, energy_j)

    def commit(self, schedule: Mapping[str, str]) -> list[Path]:
        """Write the schedule file, and bring all files to their names; return them."""
        file = self._file("schedule", ",".join(schedule))
        file.write(",".join(schedule.values()) + "\n")
        for file in self._open:
            file.close()
        for partial, final in self._partial.items():
            os.replace(partial, final)
        files, self._partial, self._open = list(self._partial.values()), {}, []
        return files

    def discard(self) -> None:
        """Remove what has been written so far (nothing happens after `commit`)."""
        for file in self._open:
            file.close()
        for partial in self._partial:
            partial.unlink(missing_ok=True)
        self._partial, self._open = {}, []


def _local(job_id: str) -> str:
    return job_id.partition("!")[2]
