"""The scheduler's decisions: allowed ones are carried out, those on which Batsim aborts are rejected.

The texts of rejections are those of Batsim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from beasy_sched.arrays import IntArray, distinct
from beasy_sched.errors import DecisionRefused
from beasy_sched.formats.batsim_jobs import parse_job
from beasy_sched.formats.batsim_profiles import Homogeneous, WorkloadError, add_with_parts, parse_profile
from beasy_sched.model import decisions as d
from beasy_sched.model.events import EnergyAnswer, JobsKilled, JobSubmitted, ResourceStateChanged
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.arrivals import Arrivals
from beasy_sched.simulator.clock import CALL, SWITCH, Action
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.machines import (
    COMPUTATION,
    COMPUTING,
    IDLE,
    SLEEP,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TRANSITION,
    UNAVAILABLE,
)
from beasy_sched.simulator.mailbox import KILLED, Item
from beasy_sched.simulator.outputs import is_formula
from beasy_sched.simulator.simulated_jobs import BY_HAND, ENDED, RUNNING, STATE_WORDS, SUBMITTED, SimJob
from beasy_sched.simulator.world import World

_SHORTEST_CALL_S = 1e-5
"""Shortest time to a requested call, s."""


class Requests:
    """Carries out decisions, one at a time."""

    def __init__(self, world: World, execution: Execution, arrivals: Arrivals) -> None:
        self._world = world
        self._execution = execution
        self._arrivals = arrivals
        self.power_states = self._make_power_states()
        self.dynamic_open = world.options.dynamic_jobs
        """Whether the scheduler may register more jobs, so that the simulation must not end."""
        self._raw_profiles: dict[tuple[str, str], dict[str, Any]] = {}
        self._met: set[str] = set()
        self.apply: dict[type[d.Decision], Callable[[Any], None]] = {
            d.ExecuteJob: self._execute,
            d.RejectJob: self._reject,
            d.KillJobs: self._kill,
            d.SetResourceState: self._set_state,
            d.CallMeLater: self._call,
            d.QueryEnergy: self._query,
            d.SetJobMetadata: self._metadata,
            d.RegisterProfile: self._register_profile,
            d.RegisterJob: self._register_job,
            d.FinishRegistration: partial(self._keep_open, False),
            d.ContinueRegistration: partial(self._keep_open, world.options.dynamic_jobs),
            d.ChangeJobState: self._change_state,
        }

    def _make_power_states(self) -> PowerStates:
        return PowerStates(self._world, self._execution)

    def _job(self, job_id: str, refusal: str = "") -> SimJob:
        job = self._world.jobs.get(job_id)
        if job is None:
            raise DecisionRefused(refusal + self._arrivals.explain_absence(job_id))
        return job

    # --- jobs ---

    def _execute(self, decision: d.ExecuteJob) -> None:
        world = self._world
        job = self._job(decision.job_id)
        if job.state != SUBMITTED:
            word = job.end.value if job.state == ENDED else STATE_WORDS[job.state]
            raise DecisionRefused(
                f"Cannot execute job '{decision.job_id}': its state ({word}) is not JOB_STATE_SUBMITTED."
            )
        hosts, table, machines = decision.alloc, world.table, world.machines
        self._check_hosts(hosts.ids)
        if world.fallible is not None and world.fallible.broken[hosts.ids].any():
            self._execution.fail_to_start(job, hosts)
            world.tell_end(job)
            return
        uniform = machines.common_mode(hosts)
        if not (table.ready_of[uniform] if uniform >= 0 else table.ready[machines.mode[hosts.ids]].all()):
            self._check_readiness(decision)
        self._place(decision, job)
        self._execution.start(job, hosts, uniform)

    def _place(self, decision: d.ExecuteJob, job: SimJob) -> None:
        """Find out which executor runs on which host, and whether the number of hosts will do."""
        ids = decision.alloc.ids
        if decision.mapping is not None:
            job.executors = executors_of(decision, job)
        elif ids.size != job.request.res and not (isinstance(job.profile, Homogeneous) and job.profile.total):
            raise DecisionRefused(
                f"Job '{decision.job_id}' allocation ('{decision.alloc}') is invalid. The job requires"
                f" {job.request.res} machines but {len(ids)} were given. If you meant to use multiple"
                " executors per machine, please specify a custom execution mapping."
            )

    def _check_hosts(self, ids: IntArray) -> None:
        if not ids.size:
            raise DecisionRefused("Invalid JSON message: an empty set of machines")
        last = ids.item(-1)
        if last >= self._world.machines.size or ids.item(0) < 0:
            raise DecisionRefused(f"Cannot get machine {last}: it does not exist")

    def _check_readiness(self, decision: d.ExecuteJob) -> None:
        """Reject unless jobs can start on every host; busy ones are allowed where hosts are shared."""
        world = self._world
        table, job, alloc = world.table, decision.job_id, decision.alloc
        for host in alloc:
            mode = int(world.machines.mode[host])
            stores = host >= world.machines.compute_hosts
            options = world.options
            shared = options.storage_sharing if stores else options.compute_sharing or options.host_parts
            if world.machines.owner[host] >= 0 and not shared:
                others = ", ".join(
                    o.request.id for o in self._execution.jobs_on(alloc.ids) if host in o.alloc
                )
                raise DecisionRefused(
                    f"Job '{job}': Invalid allocation ('{alloc}'): machine {host} is currently computing jobs"
                    f" (these ones: {{{others}}}) whereas time-sharing on"
                    f" {'storage' if stores else 'compute'} machines is disabled"
                )
            if table.state_of[mode] not in (IDLE, COMPUTING):
                word = world.machines.state_name(host)
                problem = (
                    f"cannot compute jobs now (the machine is not computing nor idle, its state is '{word}')"
                )
            elif table.sort_of[mode] != COMPUTATION:
                problem = f"is not in a computation pstate (ps={table.pstate_of[mode]})"
            else:
                continue
            raise DecisionRefused(
                f"Job '{job}': Invalid job allocation ('{alloc}'): machine {host} {problem}"
            )
        if (world.machines.owner[alloc.ids] >= 0).any():
            self._execution.share_hosts()

    def _reject(self, decision: d.RejectJob) -> None:
        world = self._world
        job = self._job(decision.job_id, f"Job '{decision.job_id}' does not exist. ")
        if job.state != SUBMITTED:
            raise DecisionRefused(
                f"Invalid rejection received: job '{decision.job_id}' cannot be rejected at the present time."
                " To be rejected, a job must be submitted and not allocated yet."
            )
        job.state = ENDED
        world.tally.rejected += 1
        if world.tracer is not None:
            world.tracer.rejected(job)
        del world.jobs[decision.job_id]

    def _kill(self, decision: d.KillJobs) -> None:
        world = self._world
        killed: list[str] = []
        ended: list[SimJob] = []
        progress: dict[str, Any] = {}
        for job_id in decision.job_ids:
            job = self._job(job_id, f"Trying to kill job '{job_id}': ")
            if job.state in (SUBMITTED, BY_HAND):
                raise DecisionRefused(
                    f"Invalid KILL_JOB: job_id '{job_id}' refers to a job not being executed nor completed."
                )
            if not job.kill_asked:
                job.kill_asked = True
                killed.append(job_id)
                if job.state == RUNNING:
                    progress[job_id] = self._execution.kill(job)
                    ended.append(job)
        if self._kills_some(killed):
            world.mailbox.put_late(Item(partial(self._tell_kills, tuple(killed), ended, progress)), KILLED)

    def _kills_some(self, killed: list[str]) -> bool:
        """Whether a kill is reported: not all of its jobs are being killed already."""
        return bool(killed)

    def _tell_kills(self, killed: tuple[str, ...], ended: list[SimJob], progress: dict[str, Any]) -> None:
        for job in ended:
            self._world.tell_end(job)
        self._world.outbox.append(JobsKilled(self._world.stamp, killed, progress))

    def _metadata(self, decision: d.SetJobMetadata) -> None:
        self._job(decision.job_id).metadata = decision.metadata

    def _change_state(self, decision: d.ChangeJobState) -> None:
        job = self._job(decision.job_id)
        if job.state == SUBMITTED and decision.job_state == "RUNNING":
            job.state = BY_HAND
            return
        if job.state == BY_HAND and decision.job_state.startswith("COMPLETED"):
            raise DecisionRefused(f"Job {decision.job_id.partition('!')[2]} did not complete")
        raise DecisionRefused(
            f"Cannot change the state of job '{decision.job_id}' from {STATE_WORDS[job.state]} to"
            f" {decision.job_state}: use EXECUTE_JOB, REJECT_JOB and KILL_JOB"
        )

    # --- hosts, calls, energy ---

    def _set_state(self, decision: d.SetResourceState) -> None:
        if not self._world.options.energy:
            raise DecisionRefused(
                "Receiving a pstate modification request, which is forbidden as the simulator has not been"
                " launched with energy support (-E)."
            )
        self._check_hosts(decision.resources.ids)
        self.power_states.request(decision.resources, decision.state)

    def _call(self, decision: d.CallMeLater) -> None:
        world = self._world
        if not decision.at > world.now:
            raise DecisionRefused(
                f"You asked to be awaken in the past! (you ask: {decision.at:.6f}, it is: {world.now:.6f})"
            )
        world.calls += 1
        world.clock.wait(
            CALL, decision, max(world.dialect.takes_time(decision.at) - world.now, _SHORTEST_CALL_S)
        )

    def _query(self, decision: d.QueryEnergy) -> None:
        world = self._world
        if not world.options.energy:
            raise DecisionRefused(
                "Received a request about the energy consumption of the machines but energy simulation is not"
                " enabled (-E)."
            )
        world.outbox.append(EnergyAnswer(world.stamp, round(world.meter.meter_all(world.now), 6)))

    # --- dynamic jobs ---

    def _need_dynamic(self, what: str) -> None:
        if not self._world.options.dynamic_jobs:
            raise DecisionRefused(
                f"Invalid JSON message: dynamic {what} registration received but the option seems disabled..."
                " It can be activated with the '--enable-dynamic-jobs' command line option."
            )

    def _register_profile(self, decision: d.RegisterProfile) -> None:
        self._need_dynamic("profile")
        workload, name = decision.workload_name, decision.profile_name
        numbers = self._world.dialect.from_schedulers
        profiles = self._world.profiles.setdefault(workload, {})
        if name in profiles:
            raise DecisionRefused(
                f"Invalid new profile registration: profile '{name}' already existed in workload '{workload}'"
            )
        try:
            profiles[name] = parse_profile(name, decision.profile, numbers.takes)
            add_with_parts(name, profiles, {})
        except WorkloadError as error:
            raise DecisionRefused(f"Invalid JSON profile received from the scheduler: {error}") from None
        self._raw_profiles[workload, name] = numbers.tells(decision.profile)

    def _register_job(self, decision: d.RegisterJob) -> None:
        self._need_dynamic("job")
        world, job_id = self._world, decision.job_id
        numbers = world.dialect.from_schedulers
        workload, bang, local = job_id.partition("!")
        if not bang or "!" in local:
            raise DecisionRefused(
                f"Invalid string job identifier '{job_id}': should be formatted as 'workload!id'."
            )
        if job_id in world.jobs or job_id in self._met or self._arrivals.knows(job_id):
            raise DecisionRefused(f"Cannot register new job '{job_id}', it already exists.")
        if "subtime" not in decision.job:
            raise DecisionRefused(
                f"Invalid job received from the scheduler: job '{job_id}' has no 'subtime' field"
            )
        try:
            job = parse_job(workload, {**decision.job, "id": job_id}, tells=numbers.tells)
        except WorkloadError as error:
            raise DecisionRefused(f"Invalid job received from the scheduler: {error}") from None
        profile = world.profiles.get(workload, {}).get(job.profile)
        if profile is None:
            raise DecisionRefused(
                f"Dynamically submitted job '{job_id}' has no profile: '{job.profile}' is unknown."
            )
        for text in (workload, local, job.profile):
            if world.tracer is not None and is_formula(text):
                raise DecisionRefused(
                    f"Invalid job received from the scheduler: {text!r} in '{job_id}' would be run as a"
                    " formula by a spreadsheet that opens the CSV files (Batsim itself would take it)"
                )
        self._met.add(job_id)
        submitted = world.jobs[job_id] = SimJob.submitted(workload, profile, job, numbers)
        if world.options.acknowledge_dynamic_jobs:
            raw = self.raw_profile(workload, job.profile) if world.options.forward_profiles else None
            world.outbox.append(JobSubmitted(world.stamp, submitted.request, raw))

    def raw_profile(self, workload: str, name: str) -> dict[str, Any] | None:
        """Return a profile as an object, whether it is in a file or was registered; None if unknown."""
        registered = self._raw_profiles.get((workload, name))
        return self._arrivals.raw_profile(workload, name) if registered is None else registered

    def _keep_open(self, is_open: bool, decision: d.Decision) -> None:
        self.dynamic_open = is_open


def executors_of(decision: d.ExecuteJob, job: SimJob) -> IntArray:
    """Read a custom mapping: executor number to position in the allocation."""
    mapping = decision.mapping or {}
    try:
        pairs = {int(executor): int(place) for executor, place in mapping.items()}
    except ValueError:
        raise DecisionRefused(
            f"Job '{decision.job_id}': the mapping {mapping} is not made of numbers"
        ) from None
    if sorted(pairs) != list(range(job.request.res)):
        raise DecisionRefused(
            f"Job '{decision.job_id}': the mapping names {len(pairs)} executors,"
            f" expected 0 to {job.request.res - 1}"
        )
    places = np.array([pairs[executor] for executor in range(len(pairs))], dtype=np.intp)
    if places.min() < 0 or places.max() >= len(decision.alloc):
        raise DecisionRefused(
            f"Job '{decision.job_id}': the mapping points outside the allocation ('{decision.alloc}')"
        )
    return places


_ON_THE_WAY = {COMPUTATION: -1, SLEEP: -2, TRANSITION: -42}
"""Numbers in the P-state file at a request, by the sort of P-state that is asked for."""


class PowerStates:
    """Carries out P-state requests: changes on the spot, and switches through transition P-states.

    It keeps Batsim's books of unanswered requests, quirk included: a request that Batsim loses (for a host in
    transition) stays in them, and is answered by mistake when a later request for the same P-state completes
    on that host.
    """

    _tells_switches: bool | None = None
    """Sign by which answers distinguish switches from other changes of P-states; None if they do not."""

    def __init__(self, world: World, execution: Execution) -> None:
        self._world = world
        self._execution = execution
        self._waiting: dict[int, list[tuple[HostSet, set[int]]]] = {}
        """Requests by P-state: the hosts of each, and those of them that have not arrived yet."""
        self._failed_wakes: set[int] = set()
        """Hosts that failed to wake, until that has been reported."""

    def request(self, hosts: HostSet, pstate: int) -> None:
        """Begin to bring hosts to a P-state. Raises DecisionRefused where Batsim aborts.

        Hosts in transition, and transition P-states as targets, are passed over without an answer.
        """
        world = self._world
        table, machines = world.table, world.machines
        modes = machines.mode[hosts.ids]
        wanted_modes = distinct(modes)
        by_mode = [
            (mode, hosts.ids if len(wanted_modes) == 1 else hosts.ids[modes == mode]) for mode in wanted_modes
        ]
        for mode, ids in by_mode:
            self._check(mode, ids, pstate)
        self._waiting.setdefault(pstate, []).append((hosts, set(hosts.ids.tolist())))
        world.meter_row("p")
        if world.tracer is not None:
            wanted = table.sort_of_pstate(modes.item(0), pstate)
            world.tracer.pstate(world.now, hosts, _ON_THE_WAY[wanted])
        world.tally.switch(len(hosts))
        at_once: list[IntArray] = []
        for mode, ids in by_mode:
            was, wanted = table.sort_of[mode], table.sort_of_pstate(mode, pstate)
            if was == COMPUTATION and wanted == COMPUTATION:
                at_once.append(ids)
            elif was == COMPUTATION and wanted == SLEEP:
                self._begin(ids, table.transition(mode, pstate)[0], SWITCHING_OFF, pstate)
            elif was == SLEEP:
                self._begin(ids, table.transition(mode, table.pstate_of[mode])[1], SWITCHING_ON, pstate)
        if at_once:
            ids = at_once[0] if len(at_once) == 1 else np.sort(np.concatenate(at_once))
            self._execution.change_pstate(ids, pstate)
            self._answer(ids, pstate)
        world.states_row()

    def _check(self, mode: int, ids: IntArray, pstate: int) -> None:
        table = self._world.table
        was, wanted = table.sort_of[mode], table.sort_of_pstate(mode, pstate)
        if was == TRANSITION:
            return
        if not 0 <= pstate < table.pstate_count(mode):
            raise DecisionRefused(
                f"Invalid parameters for machine {ids[0]} (pstate {pstate} of pstates 0 to"
                f" {table.pstate_count(mode) - 1})"
            )
        if was == SLEEP and wanted != COMPUTATION:
            raise DecisionRefused(
                "Switching from a sleep pstate to a non-computation pstate on machine"
                f" {ids[0]} : {table.pstate_of[mode]} -> {pstate}, which is forbidden"
            )
        if wanted == SLEEP and len(busy := ids[self._world.machines.owner[ids] >= 0]):
            raise DecisionRefused(f"jobs are running on machine {busy[0]}")

    def _begin(self, ids: IntArray, through: int, state: int, target: int) -> Action:
        """Put hosts of one mode into a transition: 1 flop is run at the transition P-state's speed."""
        world = self._world
        world.machines.change_state(ids, state, world.now)
        self._execution.change_pstate(ids, through)
        mode = int(world.machines.mode[ids[0]])
        world.switching += len(ids)
        return world.clock.work(SWITCH, (ids, target), world.table.speed_of[mode])

    def resume(self, hosts: HostSet, pstate: int, left_s: float) -> None:
        """Let hosts of one kind, which are in transition to a P-state, arrive there after ``left_s`` (s)."""
        world, ids = self._world, hosts.ids
        self._waiting.setdefault(pstate, []).append((hosts, set(ids.tolist())))
        world.switching += len(ids)
        speed = world.table.speed_of[int(world.machines.mode[ids[0]])]
        world.clock.work(SWITCH, (ids, pstate), speed, left_s * speed)

    def answer_soon(self, hosts: HostSet, pstate: int) -> None:
        """Answer a request whose hosts are there, with the next message."""
        self._world.outbox.append(
            ResourceStateChanged(self._world.stamp, hosts, pstate, self._tells_switches)
        )

    def leave_transition(self, ids: IntArray, pstate: int) -> None:
        """Bring hosts into the P-state that they were switched to, shortly before they are there."""
        if self._world.fallible is None:
            self._execution.change_pstate(ids, pstate)

    def arrived(self, ids: IntArray, pstate: int) -> None:
        """Bring hosts out of their transition."""
        world = self._world
        asleep = world.table.sort_of_pstate(int(world.machines.mode[ids[0]]), pstate) == SLEEP
        world.switching -= len(ids)
        came = ids
        if world.fallible is not None and not asleep:
            away = world.fallible.stay_away(ids)
            came = ids[~away]
            self._fall_back(ids[away])
        world.machines.change_state(came, SLEEPING if asleep else IDLE, world.now)
        self._execution.change_pstate(came, pstate)
        if world.fallible is not None:
            world.machines.change_state(ids[world.fallible.broken[ids]], UNAVAILABLE, world.now)

    def _fall_back(self, ids: IntArray) -> None:
        """Let hosts of one mode that were being woken be asleep again."""
        if len(ids):
            world = self._world
            self._failed_wakes.update(ids.tolist())
            world.machines.change_state(ids, SLEEPING, world.now)
            self._execution.change_pstate(ids, world.table.slept_in(int(world.machines.mode[ids[0]])))

    def tell(self, ids: IntArray, pstate: int) -> None:
        """Let each host of those arrived report to the server; the last one answers what that completes."""
        mailbox = self._world.mailbox
        *others, last = ids.tolist()
        for host in others:
            mailbox.put(Item(host=host))
        mailbox.put(Item(partial(self.complete, ids, pstate), host=last))

    def complete(self, ids: IntArray, pstate: int) -> None:
        """Answer what the arrival of hosts completes, if anything."""
        if self._failed_wakes:
            ids = self._report_failed_wakes(ids, pstate)
        if self._answer(ids, pstate):
            self._world.states_row()

    def _report_failed_wakes(self, ids: IntArray, pstate: int) -> IntArray:
        """Report the hosts that failed to wake; return the others, which are acknowledged."""
        world = self._world
        away = np.array([host in self._failed_wakes for host in ids.tolist()], dtype=np.bool_)
        if not away.any():
            return ids
        lost = ids[away]
        self._failed_wakes.difference_update(lost.tolist())
        asleep_in = world.table.pstate_of[int(world.machines.mode[lost[0]])]
        if world.tracer is not None:
            world.tracer.pstate(world.now, HostSet(lost), asleep_in)
        world.meter_row("p")
        world.outbox.append(ResourceStateChanged(world.stamp, HostSet(lost), asleep_in, self._tells_switches))
        requests = []
        for hosts, waiting in self._waiting[pstate]:
            rest = np.setdiff1d(hosts.ids, lost, assume_unique=True)
            if len(rest):
                requests.append((HostSet(rest), waiting.difference(lost.tolist())))
        self._waiting[pstate] = requests
        world.states_row()
        return ids[~away]

    def _answer(self, ids: IntArray, pstate: int) -> bool:
        """Mark hosts as arrived, and answer the requests that this completes, if any."""
        arrived, requests = set(ids.tolist()), self._waiting[pstate]
        for _, waiting in requests:
            there = waiting & arrived
            waiting -= there
            arrived -= there
        finished = [hosts for hosts, waiting in requests if not waiting]
        self._waiting[pstate] = [request for request in requests if request[1]]
        world = self._world
        for hosts in finished:
            if world.tracer is not None:
                world.tracer.pstate(world.now, hosts, pstate)
            world.meter_row("p")
            world.outbox.append(ResourceStateChanged(world.stamp, hosts, pstate, self._tells_switches))
        return bool(finished)
