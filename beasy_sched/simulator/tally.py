"""The figures of Batsim's schedule file, kept as the run goes."""

from __future__ import annotations

from collections.abc import Sequence

from beasy_sched.model.events import JobEnd
from beasy_sched.simulator.modes import COMPUTING, IDLE, SLEEPING, SWITCHING_OFF, SWITCHING_ON, UNAVAILABLE

NOT_YET = -1.0
"""Batsim's energy of something that never happened."""


class Tally:
    """Counts, sums and maxima over the jobs that have ended."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.finished = self.success = self.rejected = 0
        self.makespan_s = 0.0
        self.sum_waiting_s = self.sum_turnaround_s = self.sum_slowdown = 0.0
        self.max_waiting_s = self.max_turnaround_s = self.max_slowdown = 0.0
        self.grouped_switches = self.machine_switches = 0
        self.energy_at_first_submission_j = NOT_YET
        self.energy_at_last_end_j = NOT_YET

    def add(self, subtime: float, start: float, runtime: float, end: JobEnd) -> None:
        """Count a job that ran."""
        self.finished += 1
        if end is JobEnd.SUCCESS:
            self.success += 1
        waiting = start - subtime
        turnaround = start + runtime - subtime
        slowdown = turnaround / runtime
        self.sum_waiting_s += waiting
        self.sum_turnaround_s += turnaround
        self.sum_slowdown += slowdown
        if start + runtime > self.makespan_s:
            self.makespan_s = start + runtime
        if waiting > self.max_waiting_s:
            self.max_waiting_s = waiting
        if turnaround > self.max_turnaround_s:
            self.max_turnaround_s = turnaround
        if slowdown > self.max_slowdown:
            self.max_slowdown = slowdown

    @property
    def jobs(self) -> int:
        """Jobs that ended in any way, rejected ones included."""
        return self.finished + self.rejected

    def row(
        self, version: str, machines: int, time_in: Sequence[float], seconds: tuple[float, float]
    ) -> dict[str, str]:
        """Return the columns of the schedule file; ``seconds``: in the scheduler, and altogether."""

        def mean(total: float) -> str:
            return f"{total / self.jobs:.6f}" if self.jobs else "-nan"

        energy_j = self.energy_at_last_end_j - self.energy_at_first_submission_j
        columns = {
            "batsim_version": version,
            "consumed_joules": f"{energy_j:.6f}",
            "makespan": f"{self.makespan_s:.6f}",
            "max_slowdown": f"{self.max_slowdown:.6f}",
            "max_turnaround_time": f"{self.max_turnaround_s:.6f}",
            "max_waiting_time": f"{self.max_waiting_s:.6f}",
            "mean_slowdown": mean(self.sum_slowdown),
            "mean_turnaround_time": mean(self.sum_turnaround_s),
            "mean_waiting_time": mean(self.sum_waiting_s),
            "nb_computing_machines": str(machines),
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
        }
        columns |= {name: f"{time_in[state]:.6f}" for name, state in _TIMES.items()}
        return columns


_TIMES = {
    "time_computing": COMPUTING,
    "time_idle": IDLE,
    "time_sleeping": SLEEPING,
    "time_switching_off": SWITCHING_OFF,
    "time_switching_on": SWITCHING_ON,
    "time_unavailable": UNAVAILABLE,
}
