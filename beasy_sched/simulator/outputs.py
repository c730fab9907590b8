"""Batsim's five CSV files; they replace those of an earlier run together, when the run is over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from beasy_sched.formats import run_files
from beasy_sched.formats.atomic import PartFile, hold_folder
from beasy_sched.formats.file_set import FileSet
from beasy_sched.formats.held_folder import HeldFolder
from beasy_sched.formats.run_files import path_of
from beasy_sched.model.events import JobEnd
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.clock import TIMING_PRECISION_S
from beasy_sched.simulator.machines import STATE_NAMES, Machines
from beasy_sched.simulator.simulated_jobs import SimJob

BATSIM_VERSION = "v4.2.1"
"""The version whose behaviour is reproduced, as the schedule file names it."""

_HEADERS = {
    run_files.JOBS: (
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
        "final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,"
        "allocated_resources,consumed_energy,metadata\n"
    ),
    run_files.STATES: "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing\n",
    run_files.PSTATES: "time,machine_id,new_pstate\n",
    run_files.ENERGY: "time,energy,event_type,wattmin,epower\n",
    run_files.SCHEDULE: "",
}
"""Batsim's files, each with its first line; that of the schedule file is written with the rest."""

_DIVIDES = re.compile(r"""[,;"\t\r\n]""")
_FORMULA = frozenset("=+-@\t\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")

_ROWS = 4096
"""Rows that wait before they are written."""

_STATES_FORMAT = "%g,%d,%d,%d,%d,%d\n"
_StatesRow = tuple[float | int, ...]
"""Row of the machine-states file: the time (s), and the number of hosts in each state."""


_EnergyRow = tuple[float, float, str, float]
"""Row of the energy file: the time (s), the energy until then (J), the event, and the sum of the hosts' least
powers (W). The event is ``s`` for a job's start, ``e`` for its end, ``p`` for a P-state change."""


class Tracer:
    """The files of one run, with a common prefix."""

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        *,
        energy: bool,
        machine_states: bool = True,
        pstates: bool | None = None,
    ) -> None:
        """Open the files under temporary names; ``pstates`` defaults to ``energy``.

        Raises InputError where that is not possible.
        """
        self.prefix = os.fspath(prefix)
        written = {
            run_files.STATES: machine_states,
            run_files.PSTATES: energy if pstates is None else pstates,
            run_files.ENERGY: energy,
        }
        self._files: dict[str, PartFile] = {}
        self._set, self._alone = FileSet(), True
        self._folder: HeldFolder | None = None
        try:
            for name in _HEADERS:
                if written.get(name, True):
                    self._files[name] = PartFile(self._place(name))
                    self._files[name].write(_HEADERS[name])
            self._folder = hold_folder(self._place(run_files.JOBS).parent)
            self._own(self._set)
        except BaseException:
            self.discard()
            raise
        self._rows: dict[str, list[Any]] = {name: [] for name in self._files}
        self._jobs: list[str] = self._rows[run_files.JOBS]
        self.states_rows: list[_StatesRow] | None = self._rows.get(run_files.STATES)
        """Rows that wait for the machine-states file; None if it is not written."""
        self.energy_rows: list[_EnergyRow] | None = self._rows.get(run_files.ENERGY)
        """Rows that wait for the energy file; None if it is not written."""
        self._last_energy: _EnergyRow = (0.0, 0.0, "", 0.0)

    def join(self, files: FileSet) -> None:
        """Add the files to others of the same run when they are complete. Raises InputError."""
        self._own(files)
        self._set, self._alone = files, False

    def _own(self, files: FileSet) -> None:
        files.own(map(self._both_places, self._names()), self._folder)

    def _names(self) -> tuple[str, ...]:
        """Return the names of the files that a run may have."""
        return run_files.OF_BATSIM

    def _both_places(self, name: str) -> tuple[Path, Path]:
        """Return where a file goes, and where it goes if the run fails."""
        return self._place(name), self._place(name, run_files.FAILED)

    def _place(self, name: str, further: str = "") -> Path:
        """Return where a file goes whose name begins with something ``further``."""
        return path_of(self.prefix, further + name)

    _no_note = '""'
    """Cell of a job of which the scheduler has noted nothing."""

    def _profile(self, job: SimJob) -> str:
        """Return how the jobs file names a job's profile."""
        return job.request.profile

    def _schedule_text(self, schedule: Mapping[str, str]) -> str:
        """Return the text of the schedule file."""
        return f"{','.join(schedule)}\n{','.join(schedule.values())}\n"

    def _asked(self, job: SimJob) -> str:
        """Return the cells of a job's row that are known at its submission."""
        request = job.request
        job_id, workload, profile = request.id.partition("!")[2], job.workload, self._profile(job)
        if not f"{job_id}{workload}{profile}".isalnum():
            job_id, workload, profile = map(_cell, (job_id, workload, profile))
        return f"{job_id},{workload},{profile},{job.subtime:.6f},{request.res},{job.walltime:.6f}"

    def job(self, job: SimJob) -> None:
        """Write the row of a job that has run."""
        start, subtime, runtime = job.start, job.subtime, job.runtime
        finish = start + runtime
        turnaround = finish - subtime
        end = job.end
        self._jobs.append(
            f"{self._asked(job)},{1 if end is JobEnd.SUCCESS else 0},{end._value_},{start:.6f},{runtime:.6f},"
            f"{finish:.6f},{start - subtime:.6f},{turnaround:.6f},{turnaround / runtime:.6f},{job.alloc},"
            f"{job.energy_j:.6f},{_note(job.metadata) if job.metadata else self._no_note}\n"
        )
        if len(self._jobs) >= _ROWS:
            self._flush(*self._files)

    def rejected(self, job: SimJob) -> None:
        """Write the row of a rejected job."""
        note = _note(job.metadata) if job.metadata else self._no_note
        self._jobs.append(f"{self._asked(job)},0,REJECTED,,,,,,,,,{note}\n")

    def pstate(self, now: float, hosts: HostSet, pstate: int) -> None:
        """Write a P-state change: a number, -1 or -2 on the way to computing or asleep, -42 if unknown."""
        rows = self._rows.get(run_files.PSTATES)
        if rows is not None:
            rows.append(f"{now:g},{hosts},{pstate}\n")
            if len(rows) >= _ROWS:
                self._flush(*self._files)

    def _flush(self, *names: str) -> None:
        for name in names:
            lines = rows = self._rows[name]
            if name == run_files.STATES:
                lines = [_STATES_FORMAT % row for row in rows]
            elif name == run_files.ENERGY:
                lines = self._energy_lines(rows)
            self._files[name].write("".join(lines))
            rows.clear()

    def _energy_lines(self, rows: list[_EnergyRow]) -> list[str]:
        """Return lines of the energy file, with the mean power since the row before each (W)."""
        befores = [self._last_energy, *rows]
        self._last_energy = befores[-1]
        mean_w = [
            f"{(energy_j - before_j) / (now - before_s):.6f}" if now - before_s > TIMING_PRECISION_S else "NA"
            for (before_s, before_j, _, _), (now, energy_j, _, _) in pairwise(befores)
        ]
        wattmin = {wattmin_w: f"{wattmin_w:.6f}" for _, _, _, wattmin_w in rows}
        return [
            f"{now:.6f},{energy_j:.6f},{kind},{wattmin[wattmin_w]},{power}\n"
            for (now, energy_j, kind, wattmin_w), power in zip(rows, mean_w, strict=True)
        ]

    def keep(self) -> dict[str, int]:
        """Hand all rows to the system, so that they outlive this process; return each file's size, bytes.

        The schedule file is excluded: it is empty before the end. Raises InputError.
        """
        names = [name for name in self._files if name != run_files.SCHEDULE]
        self._flush(*names)
        return {name: self._files[name].keep() for name in names}

    def commit(self, schedule: Mapping[str, str]) -> list[Path]:
        """Write the schedule file, and bring all files to their names; return them.

        Files that have joined others get their names with these; nothing is returned then. Raises InputError,
        and leaves an earlier run's files then.
        """
        self._rows[run_files.SCHEDULE].append(self._schedule_text(schedule))
        self._flush(*(name for name in self._files if name in self._rows))
        for name, file in self._files.items():
            self._set.add(file, self._place(name, run_files.FAILED))
        self._files.clear()
        return self._set.publish() if self._alone else []

    def discard(self) -> None:
        """Remove what has been written so far (nothing happens after `commit`)."""
        for file in self._files.values():
            file.discard()
        if self._alone:
            self._set.discard()
        if self._folder is not None:
            self._folder.close()


def _cell(text: str) -> str:
    """A cell that is quoted only where it must be: Batsim itself never quotes these."""
    return _quoted(text) if _DIVIDES.search(text) else text


def _note(text: str) -> str:
    """A cell with what the scheduler has noted of a job."""
    return _quoted(f"'{text}" if is_formula(text) else text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def is_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a CSV file with this cell may run it, and not only show it."""
    return first_formula((text,)) is not None


def first_formula(texts: Iterable[str]) -> str | None:
    """Return the first of the cells that is a formula (see `is_formula`), or None."""
    return next((text for text in texts if text[:1] in _FORMULA and not _NUMBER.fullmatch(text)), None)


_MEASURES = ("slowdown", "turnaround_time", "waiting_time")
"""Quantities whose mean and maximum over all jobs the schedule file has."""


class Tally:
    """The figures of Batsim's schedule file: counts, sums and maxima, kept as the run goes."""

    __slots__ = (
        "_maxima",
        "_sums",
        "energy_at_first_submission_j",
        "energy_at_last_end_j",
        "finished",
        "grouped_switches",
        "machine_switches",
        "makespan_s",
        "rejected",
        "success",
    )

    def __init__(self) -> None:
        self.finished = self.success = self.rejected = 0
        self.makespan_s = 0.0
        self._sums = [0.0] * len(_MEASURES)
        self._maxima = [0.0] * len(_MEASURES)
        self.grouped_switches = self.machine_switches = 0
        self.energy_at_first_submission_j = -1.0
        """Energy used at the first submission, J; below 0, as Batsim has it, where there was none (like
        `energy_at_last_end_j`)."""
        self.energy_at_last_end_j = -1.0

    def add(self, subtime: float, start: float, runtime: float, end: JobEnd) -> None:
        """Count a job that ran."""
        self.finished += 1
        if end is JobEnd.SUCCESS:
            self.success += 1
        finish = start + runtime
        turnaround, waiting = finish - subtime, start - subtime
        slowdown = turnaround / runtime
        sums, maxima = self._sums, self._maxima
        sums[0] += slowdown
        sums[1] += turnaround
        sums[2] += waiting
        if slowdown > maxima[0]:
            maxima[0] = slowdown
        if turnaround > maxima[1]:
            maxima[1] = turnaround
        if waiting > maxima[2]:
            maxima[2] = waiting
        if finish > self.makespan_s:
            self.makespan_s = finish

    def switch(self, machines: int) -> None:
        """Count a request that switches hosts."""
        self.grouped_switches += 1
        self.machine_switches += machines

    @property
    def jobs(self) -> int:
        """Jobs that ended in any way, rejected ones included."""
        return self.finished + self.rejected

    def row(self, machines: Machines, seconds: tuple[float, float]) -> dict[str, str]:
        """Return the columns of the schedule file; ``seconds``: in the scheduler, and altogether."""

        def mean(total: float) -> str:
            return f"{total / self.jobs:.6f}" if self.jobs else "-nan"

        energy_j = self.energy_at_last_end_j - self.energy_at_first_submission_j
        return {
            "batsim_version": BATSIM_VERSION,
            "consumed_joules": f"{energy_j:.6f}",
            "makespan": f"{self.makespan_s:.6f}",
            **{f"max_{name}": f"{most:.6f}" for name, most in zip(_MEASURES, self._maxima, strict=True)},
            **{f"mean_{name}": mean(total) for name, total in zip(_MEASURES, self._sums, strict=True)},
            "nb_computing_machines": str(machines.size),
            "nb_grouped_switches": str(self.grouped_switches),
            "nb_jobs": str(self.jobs),
            "nb_jobs_finished": str(self.finished),
            "nb_jobs_killed": str(self.finished - self.success),
            "nb_jobs_rejected": str(self.rejected),
            "nb_jobs_success": str(self.success),
            "nb_machine_switches": str(self.machine_switches),
            "scheduling_time": f"{seconds[0]:.6f}",
            "simulation_time": f"{seconds[1]:.6f}",
            "success_rate": mean(self.success),
            **{f"time_{k}": f"{s:.6f}" for k, s in sorted(zip(STATE_NAMES, machines.time_in, strict=True))},
        }
