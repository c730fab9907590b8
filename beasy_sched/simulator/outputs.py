"""Batsim's five CSV files, row by row; they appear under their names only when the run is over."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from beasy_sched.errors import Failures
from beasy_sched.formats.atomic import PartFile, remove_old
from beasy_sched.model.events import JobEnd
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.clock import TIMING_PRECISION_S
from beasy_sched.simulator.jobs import SimJob

JOBS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
MACHINE_STATES = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
PSTATES = "time,machine_id,new_pstate"
ENERGY = "time,energy,event_type,wattmin,epower"

_DIVIDES = re.compile(r"""[,;"\t\r\n]""")
_FORMULA = frozenset("=+-@\t\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")

_NAMES = ("jobs", "schedule", "machine_states", "pstate_changes", "consumed_energy")

_ROWS = 4096
"""Rows that wait before they are written."""


class _RowFile:
    """A file of rows, which wait in a list."""

    def __init__(self, path: Path, header: str) -> None:
        self.file = PartFile(path)
        self.rows: list[str] = [header + "\n"] if header else []

    def flush(self) -> None:
        self.file.write("".join(self.rows))
        self.rows.clear()

    def finish(self) -> Path:
        self.flush()
        return self.file.finish()


class Tracer:
    """The files of one run, with a common prefix."""

    def __init__(self, prefix: str | os.PathLike[str], *, energy: bool, machine_states: bool = True) -> None:
        """Open the files under temporary names. Raises InputError where that is not possible."""
        self.prefix = os.fspath(prefix)
        self._files: list[_RowFile] = []
        try:
            self._jobs = self._open("jobs", JOBS)
            self._states = self._open("machine_states", MACHINE_STATES) if machine_states else []
            self._writes_states = machine_states
            self._pstates = self._open("pstate_changes", PSTATES) if energy else []
            self._energy = self._open("consumed_energy", ENERGY) if energy else []
            self._writes_energy = energy
            self._schedule = self._open("schedule", "")
        except BaseException:
            self.discard()
            raise
        self._last_s = self._last_j = 0.0
        self._wattmin = (-1.0, "")

    def _open(self, name: str, header: str) -> list[str]:
        """Open a file; return the list that takes its rows."""
        file = _RowFile(self._path(name), header)
        self._files.append(file)
        return file.rows

    def _path(self, name: str) -> Path:
        return Path(f"{self.prefix}_{name}.csv")

    def begin(self) -> None:
        """Remove the files of an earlier run under the same prefix, as Batsim does when it opens its own.

        Raises InputError where that is not possible.
        """
        remove_old(self._path(name) for name in _NAMES)

    def job(self, job: SimJob, runtime: float) -> None:
        """Write the row of a job that ran for ``runtime`` s."""
        request, start, subtime = job.request, job.start, job.subtime
        finish = start + runtime
        turnaround = finish - subtime
        end = job.end
        assert end is not None
        self._jobs.append(
            f"{_who(job)},{subtime:.6f},{request.res},"
            f"{job.walltime:.6f},{1 if end is JobEnd.SUCCESS else 0},{end._value_},{start:.6f},{runtime:.6f},"
            f"{finish:.6f},{start - subtime:.6f},{turnaround:.6f},{turnaround / runtime:.6f},{job.alloc},"
            f"{job.energy_j:.6f},{_quoted(_harmless(job.metadata))}\n"
        )
        if len(self._jobs) >= _ROWS:
            self._flush()

    def rejected(self, job: SimJob) -> None:
        """Write the row of a rejected job."""
        request = job.request
        self._jobs.append(
            f"{_who(job)},{job.subtime:.6f},{request.res},"
            f"{job.walltime:.6f},0,REJECTED,,,,,,,,,{_quoted(_harmless(job.metadata))}\n"
        )

    def machine_states(self, now: float, counts: Sequence[int]) -> None:
        """Write how many hosts are in each state."""
        if self._writes_states:
            asleep, on, off, idle, computing, _ = counts
            self._states.append(f"{now:g},{asleep},{on},{off},{idle},{computing}\n")

    def pstate(self, now: float, hosts: HostSet, pstate: int) -> None:
        """Write a P-state change: a number, -1 or -2 on the way to computing or asleep, -42 if unknown."""
        if self._writes_energy:
            self._pstates.append(f"{now:g},{hosts},{pstate}\n")
            if len(self._pstates) >= _ROWS:
                self._flush()

    def energy(self, now: float, energy_j: float, kind: str, wattmin_w: float) -> None:
        """Write an energy row: ``s`` a job's start, ``e`` its end, ``p`` a P-state change."""
        lasted_s = now - self._last_s
        power = f"{(energy_j - self._last_j) / lasted_s:.6f}" if lasted_s > TIMING_PRECISION_S else "NA"
        if wattmin_w != self._wattmin[0]:
            self._wattmin = (wattmin_w, f"{wattmin_w:.6f}")
        self._energy.append(f"{now:.6f},{energy_j:.6f},{kind},{self._wattmin[1]},{power}\n")
        self._last_s, self._last_j = now, energy_j

    def _flush(self) -> None:
        for file in self._files:
            file.flush()

    def commit(self, schedule: Mapping[str, str]) -> list[Path]:
        """Write the schedule file, and bring all files to their names; return them.

        Raises InputError for the first that cannot be written, once all have been tried.
        """
        self._schedule += (",".join(schedule) + "\n", ",".join(schedule.values()) + "\n")
        failures = Failures()
        written: list[Path] = []
        for file in self._files:
            with failures.noted(str(file.file.path)):
                written.append(file.finish())
        failures.raise_first()
        return written

    def discard(self) -> None:
        """Remove what has been written so far (nothing happens after `commit`)."""
        for file in self._files:
            file.file.discard()


def _who(job: SimJob) -> str:
    """The first three cells of a job's row."""
    request = job.request
    return f"{_cell(request.id.partition('!')[2])},{_cell(job.workload)},{_cell(request.profile)}"


def _cell(text: str) -> str:
    """A cell that is quoted only where it must be: Batsim itself never quotes these."""
    return _quoted(text) if _DIVIDES.search(text) else text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _harmless(text: str) -> str:
    return f"'{text}" if is_formula(text) else text


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a CSV file with this cell may run it, and not only show it."""
    return text[:1] in _FORMULA and not _NUMBER.fullmatch(text)
