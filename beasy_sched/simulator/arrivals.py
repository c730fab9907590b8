"""What comes from the input files at known times: job submissions and external events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import merge
from typing import Any

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import Workload, WorkloadJob
from beasy_sched.model.events import JobRequest, JobSubmitted, Notify
from beasy_sched.simulator.job import SimJob
from beasy_sched.simulator.modes import COMPUTING, IDLE, UNAVAILABLE
from beasy_sched.simulator.rates import Rates
from beasy_sched.simulator.world import World

NEVER = float("inf")


class Arrivals:
    """Two sorted streams with a position each; none of them needs the event heap."""

    def __init__(
        self,
        world: World,
        rates: Rates,
        workloads: Sequence[Workload],
        events: Sequence[ExternalEvent] | None,
    ) -> None:
        """``events`` is None where no events file was given: its end is not announced then."""
        self._world = world
        self._rates = rates
        self._workloads = {workload.name: workload for workload in workloads}
        self._raw = {w.name: w.raw_profiles for w in workloads} if world.options.forward_profiles else {}
        self._jobs: list[WorkloadJob] = (
            workloads[0].jobs
            if len(workloads) == 1
            else list(merge(*(w.jobs for w in workloads), key=lambda job: (job.subtime, job.id)))
        )
        self._next_job = 0
        self._events = list(events or ())
        self._next_event = 0
        self._jobs_announced = not workloads
        self._events_announced = events is None
        self.next_s = 0.0
        """When something comes next (in the past: at once)."""
        self._find_next()

    @property
    def over(self) -> bool:
        """Whether nothing more will come, and the scheduler has been told."""
        return self._jobs_announced and self._events_announced

    @property
    def submitted(self) -> int:
        """How many jobs have been submitted."""
        return self._next_job

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return len(self._jobs)

    def _find_next(self) -> None:
        """Note when something comes next; the announcement of an end is due at once."""
        at = NEVER
        if self._next_job < len(self._jobs):
            at = float(self._jobs[self._next_job].subtime)
        elif not self._jobs_announced:
            at = 0.0
        if self._next_event < len(self._events):
            at = min(at, self._events[self._next_event].timestamp)
        elif not self._events_announced:
            at = 0.0
        self.next_s = at

    def play(self, until: float) -> None:
        """Let everything up to ``until`` come. Raises InputError where Batsim aborts."""
        if self._events:
            self._play_events(until)
        self._submit_until(until)
        if not self._events_announced and self._next_event >= len(self._events):
            self._events_announced = True
            self._notify("no_more_external_event_to_occur")
        self._find_next()

    def _play_events(self, until: float) -> None:
        world = self._world
        while self._next_event < len(self._events) and self._events[self._next_event].timestamp <= until:
            event = self._events[self._next_event]
            self._next_event += 1
            if event.hosts is None:
                world.outbox.append(Notify(world.stamp, event.kind, event.data))
            else:
                self._change_availability(event)

    def _notify(self, kind: str, **data: Any) -> None:
        self._world.outbox.append(Notify(self._world.stamp, kind, {"type": kind, **data}))

    def _change_availability(self, event: ExternalEvent) -> None:
        world, machines = self._world, self._world.machines
        assert event.hosts is not None
        ids = event.hosts.ids
        if ids.item(-1) >= machines.size:
            raise InputError(None, f"{event.where}: Cannot get machine {ids[-1]}: it does not exist")
        states = world.table.states[machines.mode[ids]]
        if event.kind == "machine_unavailable":
            machines.change_state(ids, UNAVAILABLE, world.now)
            for job in self._rates.jobs_on(ids):
                job.moved = True
        else:
            if (states != UNAVAILABLE).any():
                host = int(ids[states != UNAVAILABLE][0])
                raise InputError(
                    None,
                    f"{event.where}: The making of machine {host} available was requested but this machine"
                    f" was not in UNAVAILABLE state (current state: {machines.state_name(host)})",
                )
            busy = machines.owner[ids] >= 0
            machines.change_state(ids[busy], COMPUTING, world.now)
            machines.change_state(ids[~busy], IDLE, world.now)
        self._notify(f"event_{event.kind}", resources=str(event.hosts))

    def _submit_until(self, until: float) -> None:
        """Submit jobs; after the last one, say so."""
        world, jobs = self._world, self._jobs
        position, last = self._next_job, len(jobs)
        if position == 0 and last and jobs[0].subtime <= until and world.options.energy:
            world.tally.energy_at_first_submission_j = world.meter.meter_all(world.now)
        while position < last and jobs[position].subtime <= until:
            self._submit(jobs[position])
            position += 1
        self._next_job = position
        if position == last and not self._jobs_announced:
            self._jobs_announced = True
            self._notify("no_more_static_job_to_submit")

    def _submit(self, job: WorkloadJob) -> None:
        world = self._world
        workload = job.id.partition("!")[0]
        subtime, walltime = job.subtime, job.walltime
        if subtime.__class__ is float:
            subtime = round(subtime, 6)
        if walltime.__class__ is float:
            walltime = round(walltime, 6)
        request = JobRequest(job.id, subtime, job.res, job.profile, walltime, job.extras)
        world.jobs[job.id] = SimJob(workload, request, world.profiles[workload][job.profile], job)
        raw = self._raw[workload][job.profile] if self._raw else None
        world.outbox.append(JobSubmitted(world.stamp, request, raw))

    # --- for refusals ---

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {job.id: index for index, job in enumerate(self._jobs)}

    def knows(self, job_id: str) -> bool:
        """Whether a workload has this job, submitted or not."""
        return job_id in self._ids

    def explain_absence(self, job_id: str) -> str:
        """Say in Batsim's words why a job is not among the submitted ones."""
        workload, bang, local = job_id.partition("!")
        if not bang or "!" in local:
            return (
                f"Invalid string job identifier '{job_id}': should be formatted as two '!'-separated parts,"
                " the second one being any string without '!'. Example: 'some_text!42'."
            )
        if workload not in self._world.profiles:
            return f"Cannot get job '{job_id}': there is no workload '{workload}'"
        if self._ids.get(job_id, -1) >= self._next_job:
            return f"Cannot execute job '{job_id}': its state (NOT_SUBMITTED) is not JOB_STATE_SUBMITTED."
        return f"Cannot get job '{job_id}': it does not exist"
