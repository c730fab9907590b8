"""Batsim 5 in front of the embedded simulator: the physics is that of Batsim 4, the differences are here.

`Batsim5Simulation` takes the decisions and sends the events of `protocol.batsim5`. It behaves as Batsim
v5.0.0-rc2 was observed to (docs/guides/batsim.md), and rejects what that aborts on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from beasy_sched.arrays import IntArray, distinct
from beasy_sched.checks import RunInputs
from beasy_sched.errors import DecisionRefused, PathLike
from beasy_sched.formats import run_files
from beasy_sched.formats.atomic import PartFile
from beasy_sched.formats.batsim_events import ExternalEvent, merge_events
from beasy_sched.formats.batsim_profiles import Composed
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.model import decisions as d
from beasy_sched.model.events import (
    Event,
    JobsKilled,
    Notify,
    RequestedCall,
    Resource,
    ResourceStateChanged,
    SimulationBegins,
)
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.platform import Platform
from beasy_sched.protocol.batsim5 import RequestedFeatures
from beasy_sched.protocol.batsim5_terms import NO_MORE, complete_name, read_notice
from beasy_sched.protocol.json_numbers import Forwarding, as_batsim_reads, rounded
from beasy_sched.protocol.notices import notice
from beasy_sched.simulator.arrivals import Arrivals
from beasy_sched.simulator.clock import CALL, PROBE, Action
from beasy_sched.simulator.decision_requests import PowerStates, Requests, executors_of
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.machines import COMPUTATION, COMPUTING, IDLE, SLEEP, STATE_NAMES, TRANSITION
from beasy_sched.simulator.mailbox import Item
from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.periodic import Periodic
from beasy_sched.simulator.simulated_jobs import SimJob
from beasy_sched.simulator.simulation import Inputs, Simulation, note_findings, refuse_formulas
from beasy_sched.simulator.world import Dialect, SimulationOptions, World

BATSIM_VERSION: Final = "v5.0.0-rc2"
"""The version whose behaviour is reproduced."""

_DECIMALS: Final = 12
_TAKEN_AS_READ: Final = Forwarding(as_batsim_reads, partial(rounded, decimals=_DECIMALS))


# --- decisions ---


class Batsim5PowerStates(PowerStates):
    """Switches hosts on and off, and changes their P-states: two requests in Batsim 5."""

    _tells_switches = True

    def __init__(self, world: World, execution: Execution, names: Sequence[str]) -> None:
        super().__init__(world, execution)
        self._names = names
        self._switches: list[Action] = []
        """Transitions under way, and some that are over."""

    def _begin(self, ids: IntArray, through: int, state: int, target: int) -> Action:
        self._switches = [action for action in self._switches if not action.over]
        self._switches.append(super()._begin(ids, through, state, target))
        return self._switches[-1]

    def change(self, hosts: HostSet, pstate: int) -> None:
        """Change hosts' P-states at once, without checks but that the P-state exists.

        A host in the middle of a switch continues it at the new P-state's speed, as in Batsim: it then ends
        at once.
        """
        world = self._world
        table, machines = world.table, world.machines
        modes = machines.mode[hosts.ids]
        for mode in distinct(modes):
            name = self._names[hosts.ids[modes == mode].item(0)]
            if not 0 <= pstate < table.pstate_count(mode):
                raise DecisionRefused(
                    f"Invalid parameters for CPU {name} (pstate {pstate} >= length of pstates"
                    f" {table.pstate_count(mode)})"
                )
        world.meter_row("p")
        if world.tracer is not None:
            world.tracer.pstate(world.now, hosts, pstate)
        self._hurry(hosts, pstate)
        self._execution.change_pstate(hosts.ids, pstate)
        world.outbox.append(ResourceStateChanged(world.stamp, hosts, pstate, switch=False))

    def _hurry(self, hosts: HostSet, pstate: int) -> None:
        """Continue switches under way at the speed of another P-state."""
        table, machines = self._world.table, self._world.machines
        for action in self._switches:
            ids = action.subject[0]
            inside = np.isin(ids, hosts.ids)
            if action.over or not inside.any():
                continue
            if not inside.all():
                raise DecisionRefused(
                    f"ChangeHostsPState of some of the hosts {HostSet(ids)}, in the middle of a switch of all"
                    " of them: that is not simulated"
                )
            mode = table.with_pstate(int(machines.mode[ids[0]]), pstate, IDLE)
            self._world.clock.change_rate(action, table.speed_of[mode])

    def _check(self, mode: int, ids: IntArray, pstate: int) -> None:
        world = self._world
        table, host = world.table, ids.item(0)
        was, wanted, current = table.sort_of[mode], table.sort_of_pstate(mode, pstate), table.pstate_of[mode]
        problem = ""
        if was == TRANSITION:
            raise DecisionRefused(f"Machine {host} ('{self._names[host]}') has an invalid pstate : {current}")
        if was == COMPUTATION and wanted == COMPUTATION:
            problem = f"Asked to turn ON a host already in a computing pstate (current: {current}"
        elif was == SLEEP and wanted == SLEEP:
            problem = f"Asked to turn OFF a host already in a sleep pstate (current: {current}"
        elif wanted == TRANSITION or not 0 <= pstate < table.pstate_count(mode):
            kind = "computation" if was == COMPUTATION else "sleep"
            problem = f"Switching from a {kind} pstate to an invalid pstate: {current} -> {pstate}"
            raise DecisionRefused(f"Invalid turning ON/OFF of host {host} ('{self._names[host]}'): {problem}")
        if problem:
            raise DecisionRefused(
                f"Invalid turning ON/OFF of host {host} ('{self._names[host]}'): {problem} target: {pstate})"
            )
        busy = ids[world.machines.owner[ids] >= 0]
        if len(busy):
            raise DecisionRefused(f"jobs are running on machine {busy[0]}")


class Batsim5Requests(Requests):
    """Carries out the decisions of Batsim 5."""

    power_states: Batsim5PowerStates

    def __init__(self, world: World, execution: Execution, arrivals: Arrivals, names: Sequence[str]) -> None:
        self._names = names
        self.forward_on_kills = False
        """Whether the profiles of killed jobs are sent."""
        super().__init__(world, execution, arrivals)
        self.periodic = Periodic(world, names)
        for unknown in (d.SetJobMetadata, d.QueryEnergy, d.ContinueRegistration, d.ChangeJobState):
            del self.apply[unknown]
        self.apply |= {
            d.CallPeriodically: self.periodic.call,
            d.StopCalls: self.periodic.stop_call,
            d.ProbeRequest: self.periodic.probe,
            d.ForceStop: self._force_stop,
        }

    def _make_power_states(self) -> Batsim5PowerStates:
        return Batsim5PowerStates(self._world, self._execution, self._names)

    def _check_readiness(self, decision: d.ExecuteJob) -> None:
        """Reject hosts that are asleep or in transition; busy ones are shared from now on."""
        world = self._world
        for host in decision.alloc:
            state = world.table.state_of[int(world.machines.mode[host])]
            if state not in (IDLE, COMPUTING):
                raise DecisionRefused(
                    f"Job '{decision.job_id}': Invalid job allocation ('{decision.alloc}'): machine {host}"
                    f" (hostname='{self._names[host]}') cannot compute jobs now (the machine is not computing"
                    f" nor idle, its state is '{STATE_NAMES[state]}')"
                )
        if (world.machines.owner[decision.alloc.ids] >= 0).any():
            self._execution.share_hosts()

    def _place(self, decision: d.ExecuteJob, job: SimJob) -> None:
        """Lay out as many executors as the job requested, on as many hosts as it was given."""
        placement = decision.placement or {}
        for name in ("profile_allocation_override", "storage_placement"):
            if placement.get(name):
                raise DecisionRefused(f"Job '{decision.job_id}': {name} is not simulated")
        world, ids, res = self._world, decision.alloc.ids, job.request.res
        if not res:
            raise DecisionRefused(f"Job '{decision.job_id}' asks for no host: it can only be rejected")
        if decision.mapping is not None:
            job.executors = executors_of(decision, job)
        elif placement.get("strategy") == "FillOneHostCoresFirst":
            cores = world.table.cores[world.machines.mode[ids]].astype(np.intp)
            job.executors = np.resize(np.repeat(np.arange(len(ids)), cores), res)
        elif len(ids) != res:
            job.executors = np.arange(res) % len(ids)

    def _kills_some(self, killed: list[str]) -> bool:
        if not killed:
            raise DecisionRefused("Invalid (empty) job_ids received: the jobs are being killed already.")
        return True

    def _tell_kills(self, killed: tuple[str, ...], ended: list[SimJob], progress: dict[str, Any]) -> None:
        world = self._world
        profiles: dict[str, dict[str, dict[str, Any]]] = {}
        for job in ended:
            world.tell_end(job)
            if self.forward_on_kills:
                raw = self.raw_profile(job.workload, job.request.profile)
                profiles.setdefault(job.workload, {})[job.request.profile] = raw or {}
            self._in_repetitions(job, progress[job.request.id])
        world.outbox.append(JobsKilled(world.stamp, killed, progress, profiles))

    def _in_repetitions(self, job: SimJob, progress: dict[str, Any]) -> None:
        """Express the position in a sequence by the repetition, and the position in that."""
        while "current_task" in progress:
            profile = self._world.profiles[job.workload][progress["profile_name"]]
            if isinstance(profile, Composed):
                at = divmod(progress["current_task_index"], len(profile.sequence))
                progress["current_repetition"], progress["current_task_index"] = at
            progress = progress["current_task"]

    def _set_state(self, decision: d.SetResourceState) -> None:
        self._check_hosts(decision.resources.ids)
        if decision.switch:
            self.power_states.request(decision.resources, decision.state)
        else:
            self.power_states.change(decision.resources, decision.state)

    def _call(self, decision: d.CallMeLater) -> None:
        """Request a call; one for now or the past is made at once."""
        world = self._world
        world.calls += 1
        world.clock.wait(CALL, decision, max(decision.at - world.now, 0.0))

    def _need_dynamic(self, what: str) -> None:
        """Let jobs be registered in any case."""

    def _register_job(self, decision: d.RegisterJob) -> None:
        job = {name: value for name, value in decision.job.items() if name != "rigid"}
        job.setdefault("subtime", self._world.stamp)
        super()._register_job(msgspec.structs.replace(decision, job=job))

    def _force_stop(self, decision: d.ForceStop) -> None:
        raise DecisionRefused(
            "ForceSimulationStop is not simulated: kill what runs and reject what waits, and the run ends"
        )


# --- files that are played ---


class Batsim5Arrivals(Arrivals):
    """Plays workloads and lists of generic events; Batsim 5 begins when it has heard of all of them."""

    def __init__(
        self,
        world: World,
        execution: Execution,
        workloads: Sequence[Workload],
        events: Sequence[Sequence[ExternalEvent]],
        begins: Callable[[], SimulationBegins],
    ) -> None:
        self._begins = begins
        super().__init__(world, execution, workloads, events)
        self._unheard = len(self._senders)

    def begin(self) -> None:
        """Start the senders."""
        if not self._senders:
            self.world.outbox.append(self._begins())
        super().begin()

    def _hello(self) -> None:
        self._unheard -= 1
        if not self._unheard:
            self.world.outbox.append(self._begins())

    def _entries(self, number: int, events: Sequence[ExternalEvent]) -> Sequence[tuple[str, str | None]]:
        return [(f"ee{number}!{event.number}", event.text) for event in events]

    def play(self, event: Any) -> None:
        """Send a generic event: its name and its data."""
        event_id, text = event
        self.world.outbox.append(notice(self.world.stamp, *read_notice(text), event_id))


# --- the simulation ---


class Batsim5Simulation(Simulation):
    """The simulator as a Batsim 5, ready to run once."""

    dialect = Dialect(
        decimals=_DECIMALS,
        from_files=_TAKEN_AS_READ,
        from_schedulers=_TAKEN_AS_READ,
        takes_time=float,
        always_sleeps=True,
    )
    _requests: Batsim5Requests

    def __init__(
        self,
        platform: SimGridPlatform,
        workloads: Sequence[Workload],
        events: Sequence[Sequence[ExternalEvent]] = (),
        options: SimulationOptions | None = None,
        tracer: Tracer | None = None,
        arguments: Sequence[str] = (),
        context: str = "{}",
    ) -> None:
        """Set everything up at time 0.

        ``events`` has a list for each file; ``arguments`` is the command line that the scheduler receives,
        and ``context`` the options in effect (a JSON object).
        """
        self._config = {
            "batsim_arguments": list(arguments),
            "batsim_execution_context_json": context,
            "batsim_version": BATSIM_VERSION,
            "batsim_commit": "",
        }
        self._told_s = 0.0
        self._forward_on_begin = False
        super().__init__(platform, workloads, events, options, tracer)

    def _make_arrivals(self, events: Sequence[Sequence[ExternalEvent]]) -> Batsim5Arrivals:
        return Batsim5Arrivals(self.world, self._execution, self.workloads, events, self.begins)

    def _make_requests(self) -> Batsim5Requests:
        return Batsim5Requests(self.world, self._execution, self.arrivals, self._platform.platform.names)

    def greet(self, features: RequestedFeatures) -> None:
        """Take over what the scheduler has asked for in its hello; call it before the start."""
        self.world.options = replace(
            self.world.options,
            forward_profiles=features.forward_profiles_on_job_submission,
            dynamic_jobs=features.dynamic_registration,
            acknowledge_dynamic_jobs=features.acknowledge_dynamic_jobs,
            profile_reuse=features.profile_reuse,
        )
        self._requests.dynamic_open = features.dynamic_registration
        self._requests.forward_on_kills = features.forward_profiles_on_jobs_killed
        self._forward_on_begin = features.forward_profiles_on_simulation_begins

    def start(self) -> list[Event]:
        """Start everything at time 0, and return the events of the first message."""
        self.arrivals.begin()
        self.world.mailbox.turn()
        self._ready = True
        return self.listen()

    def _machines(self) -> Platform:
        """Return the compute hosts: what Batsim 5 makes of storage hosts is not simulated."""
        return self._platform.platform

    def begins(self) -> SimulationBegins:
        """Return the first event."""
        machines, size = self._platform.machines, self._platform.platform.size
        kinds = [machines.kinds[kind] for kind in machines.kind_of]
        hosts = zip(
            machines.names,
            machines.properties,
            machines.zone_properties,
            machines.initial_pstates.tolist(),
            [kind.speeds_flops for kind in kinds],
            [kind.cores for kind in kinds],
            strict=True,
        )
        resources = tuple(
            Resource(
                index, name, "idle", _told_properties(own), _told_properties(zone), pstate, speeds, cores
            )
            for index, (name, own, zone, pstate, speeds, cores) in enumerate(hosts)
        )
        raw = {w.name: dict(sorted(w.raw_profiles.items())) for w in self.workloads}
        return SimulationBegins(
            0.0,
            resources=resources[:size],
            storage_resources=resources[size:],
            config=self._config,
            workloads={w.name: w.path for w in self.workloads},
            profiles=raw if self._forward_on_begin else {},
            answers_queries=False,
        )

    def _told(self) -> list[Event]:
        """Return the events to send; some have the time of the one sent before, as in Batsim."""
        events = super()._told()
        for index, event in enumerate(events):
            if _has_old_time(event):
                events[index] = msgspec.structs.replace(event, timestamp=self._told_s)
            else:
                self._told_s = event.timestamp
        return events

    def _woken(self, action: Action, put: Callable[[Item], None]) -> None:
        if action.kind == PROBE:
            put(Item(partial(self.world.outbox.extend, action.subject.tick())))
        else:
            super()._woken(action, put)

    def _tell_call(self, asked: Any) -> None:
        world = self.world
        if isinstance(asked, Periodic):
            world.outbox.extend(asked.tick())
        else:
            world.calls -= 1
            world.outbox.append(RequestedCall(world.stamp, asked.id))


def _told_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a host's properties as Batsim 5 lists them."""
    return {key: value for key, value in sorted(properties.items()) if key != "role" or value}


def _has_old_time(event: Event) -> bool:
    if isinstance(event, ResourceStateChanged):
        return bool(event.switch)
    return isinstance(event, JobsKilled) or (isinstance(event, Notify) and event.kind not in NO_MORE)


# --- files that are written ---

EXECUTION_INFO: Final = "real_exec_info.json"
_NAMES: Final = {run_files.SCHEDULE: "schedule.json"}
_WALL_TIMES: Final = {"scheduling_time": "time_in_edc_seconds", "simulation_time": "time_in_simu_seconds"}


class Batsim5Tracer(Tracer):
    """Batsim 5's files: the prefix is taken literally, names of profiles are complete, summaries are JSON."""

    _no_note = ""  # schedulers have no way to note anything
    storage_hosts = 0
    """Number of storage hosts, which are counted among the machines."""

    def _names(self) -> tuple[str, ...]:
        return (*super()._names(), EXECUTION_INFO)

    def _place(self, name: str, further: str = "") -> Path:
        return Path(self.prefix + further + _NAMES.get(name, name))

    def _profile(self, job: SimJob) -> str:
        return complete_name(job.request.profile, job.workload)

    def _schedule_text(self, schedule: Mapping[str, str]) -> str:
        figures = {name: "null" if text == "-nan" else text for name, text in schedule.items()}
        machines = int(figures["nb_computing_machines"]) + self.storage_hosts
        own = {"batsim_version": json.dumps(BATSIM_VERSION), "nb_computing_machines": str(machines)}
        return _json_text({**figures, **own})

    def commit(self, schedule: Mapping[str, str]) -> list[Path]:
        """Write the summaries, and bring all files to their names; return them. Raises InputError."""
        figures = {name: text for name, text in schedule.items() if name not in _WALL_TIMES}
        info = PartFile(self._place(EXECUTION_INFO), folder=self._folder)
        info.write(_json_text({new: schedule[old] for old, new in _WALL_TIMES.items()}))
        self._files[EXECUTION_INFO] = info
        return super().commit(figures)


def _json_text(values: Mapping[str, str]) -> str:
    """Return an object with values that are JSON texts already."""
    lines = ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in values.items())
    return f"{{\n{lines}\n}}\n"


def batsim5_from_files(
    inputs: Inputs,
    options: SimulationOptions,
    prefix: PathLike | None = None,
    *,
    machine_states: bool = False,
    pstates: bool = False,
    arguments: Sequence[str] = (),
    context: str = "{}",
    note: Callable[[str], None] | None = None,
) -> Batsim5Simulation:
    """Read ``inputs``, which must be strict; with a ``prefix``, Batsim's files will be written there.

    ``note`` is called with each notice on the files. Raises InputError and ConfigError.
    """
    platform, workloads, lists = inputs.read(options)
    if note is not None:
        events = merge_events(lists) if lists else None
        given = RunInputs(platform.platform, options.energy, workloads=workloads, events=events)
        note_findings(platform, given, note)
    tracer = None
    if prefix is not None:
        refuse_formulas(workloads)
        tracer = Batsim5Tracer(
            str(prefix), energy=options.energy, machine_states=machine_states, pstates=pstates
        )
        tracer.storage_hosts = platform.storage.size
    return Batsim5Simulation(platform, workloads, lists, options, tracer, arguments, context)
