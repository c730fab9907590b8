"""A simulation that begins in the midst of a run, from the state that its session knows.

Everything that the simulator still has to do is there: running jobs, transitions under way, requested calls,
unanswered commands. What the session cannot know, the jobs' run times and all that arrives later, comes from
`Simulation.replace_future`; without it, waiting and running jobs take their walltimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.engine.session import Session
from beasy_sched.engine.under_way import UnderWay
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_jobs import JobColumns, WorkloadJob
from beasy_sched.formats.batsim_profiles import Delay, Homogeneous
from beasy_sched.formats.batsim_workload import Workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.model.decisions import CallMeLater, KillJobs
from beasy_sched.model.events import EnergyAnswer
from beasy_sched.model.host_states import ASLEEP, BUSY, SWITCHING_OFF, SWITCHING_ON
from beasy_sched.model.host_states import IDLE as IDLE_HOST
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.simulator import machines as m
from beasy_sched.simulator.simulated_jobs import SimJob
from beasy_sched.simulator.simulation import Simulation
from beasy_sched.simulator.world import SimulationOptions
from beasy_sched.units import SECONDS_PER_DAY

_STATES = {
    IDLE_HOST: m.IDLE,
    BUSY: m.COMPUTING,
    ASLEEP: m.SLEEPING,
    SWITCHING_OFF: m.SWITCHING_OFF,
    SWITCHING_ON: m.SWITCHING_ON,
}
_LONG_S = 7 * SECONDS_PER_DAY
"""Run time of a job without a walltime, until its future is drawn, s."""
_LATE_SHARE = 0.1
"""Rest of a transition that takes longer than it should, as a share of its usual time."""


def check_hosts(session: Session) -> None:
    """Raise ConfigError if a simulation cannot begin from a session: the speeds of its hosts are unknown."""
    if not session.cluster.platform.has_speeds:
        raise ConfigError(
            "forecasts require the servers' speeds, which the simulator does not send: pass the platform file"
            " with -p/--platform"
        )


def simulation_of(
    session: Session,
    now: float,
    past: Mapping[str, Sequence[WorkloadJob]],
    events: Sequence[ExternalEvent] = (),
) -> Simulation:
    """Return a simulation that continues ``session`` from ``now`` (s), to be resumed as from a pause.

    ``past`` has the jobs submitted so far by workload, ``events`` the external events, both in the order of
    time. Call it in a copy of the session's process: it brings the session's account up to now. Raises
    ConfigError as `check_hosts` does.
    """
    check_hosts(session)
    session.lives.register_from_now()
    platform = session.cluster.platform
    start = replace(platform, initial_pstates=np.zeros_like(platform.initial_pstates))
    options = SimulationOptions(
        energy=session.options.power_actions,
        dynamic_jobs=session.lives.is_open,
        profile_reuse=session.lives.is_open,
        host_parts=session.options.placer is not None,
    )
    workloads = [
        Workload(name, "", platform.size, JobColumns.of(jobs), {}, {}) for name, jobs in past.items()
    ]
    simulation = Simulation(SimGridPlatform(start, ""), workloads, [events], options)
    for name, jobs in past.items():
        for profile in {job.profile for job in jobs}:
            simulation.world.profiles[name][profile] = _lasting(simulation, session, name, profile, _LONG_S)
    simulation.begin_at(now)
    _Beginning(simulation, session, session.under_way()).set_up()
    return simulation


def _lasting(
    simulation: Simulation, session: Session, workload: str, name: str, run_s: float
) -> Homogeneous | Delay:
    """Return a profile that takes ``run_s`` (s) at full speed, and computes as the session's of that name."""
    if session.profile_computes(workload, name):
        return Homogeneous(name, 0, run_s * simulation.full_speed_flops)
    return Delay(name, 0, run_s)


class _Beginning:
    """Brings a new simulation into the state of a session."""

    def __init__(self, simulation: Simulation, session: Session, under_way: UnderWay) -> None:
        self._simulation, self._session, self._under_way = simulation, session, under_way
        self._world, self._cluster = simulation.world, session.cluster

    def set_up(self) -> None:
        simulation, asked = self._simulation, self._under_way
        simulation.arrivals.take_as_sent(expects_jobs=asked.expects_jobs)
        self._set_hosts()
        for job in self._session.waiting_jobs():
            self._submit(job)
        for job in self._cluster.running.values():
            simulation.resume_job(self._submit(job), job.hosts, job.start_s)
        self._share_hosts()
        self._set_meter()
        self._switch(asked)
        for at_s in reversed(asked.calls_s):  # a later one was requested first
            simulation.decided(CallMeLater(self._world.now, max(at_s, self._world.now + 1e-5)))
        if asked.kills:
            simulation.decided(KillJobs(self._world.now, asked.kills))
        for _ in range(asked.queries):
            self._world.outbox.append(EnergyAnswer(self._world.stamp, round(self._world.meter.energy_j, 6)))
        simulation.await_message()

    def _set_hosts(self) -> None:
        world, cluster = self._world, self._cluster
        machines, table = world.machines, world.table
        states = np.array([_STATES[state] for state in range(len(_STATES))])[cluster.state]
        base = np.array(table.base)[cluster.platform.kind_of]
        machines.mode[:] = base + self._pstates() * m.STATES + states
        away = ~cluster.in_service & (cluster.state < SWITCHING_OFF)
        machines.mode[away] += m.UNAVAILABLE - states[away]
        machines.last_change[:] = world.now
        world.meter.power_w = float(table.resting_w[machines.mode].sum())
        world.meter.wattmin_w = float(table.epsilon_w[machines.mode].sum())
        counts = np.bincount(table.states[machines.mode], minlength=m.STATES)
        machines.counts[:] = counts.tolist()

    def _pstates(self) -> IntArray:
        """Return the P-state of each host in the simulator: that of the transition while it is switched."""
        cluster, pstates = self._cluster, self._cluster.pstate.astype(np.intp)
        for row, kind in enumerate(cluster.platform.kinds):
            of_kind = cluster.platform.kind_of == row
            for state, name in ((SWITCHING_OFF, "off_pstate"), (SWITCHING_ON, "on_pstate")):
                if kind.sleeps:
                    pstates[of_kind & (cluster.state == state)] = getattr(kind.sleeps[0], name)
        return pstates

    def _submit(self, job: Job) -> SimJob:
        """Let a job be known to the simulation; its run time is its walltime for now."""
        request, workload = job.request, job.id.partition("!")[0]
        walltime_s = -1.0 if request.walltime is None else float(request.walltime)
        run_s = walltime_s if walltime_s > 0.0 else _LONG_S
        profile = _lasting(self._simulation, self._session, workload, request.profile, run_s)
        submitted = SimJob(workload, profile, request, float(request.subtime), walltime_s, profile)
        self._world.jobs[job.id] = submitted
        self._world.profiles.setdefault(workload, {}).setdefault(request.profile, profile)
        return submitted

    def _share_hosts(self) -> None:
        """Let hosts be shared if they are."""
        sizes = sum(len(job.hosts) for job in self._cluster.running.values())
        if sizes > int(np.count_nonzero(self._cluster.state == BUSY)):
            self._simulation.share_hosts()

    def _set_meter(self) -> None:
        """Set the energy used so far to what the session knows."""
        power, world = self._session.power, self._world
        measured = self._session.view.measured
        used_j = 0.0 if measured is None else measured.energy_j
        if power is not None:
            used_j = power.used_by_j(world.now)
        world.meter.energy_j = used_j + self._session.storage_w * world.now

    def _switch(self, asked: UnderWay) -> None:
        """Continue the transitions under way, and answer what has been done."""
        cluster, states = self._cluster, self._simulation.power_states
        for hosts, pstate, is_switch in asked.commands:
            ids = hosts.ids
            if not is_switch or not (cluster.state[ids] >= SWITCHING_OFF).all():
                states.answer_soon(hosts, pstate)
                continue
            left_s = float(cluster.switch_end_s[ids[0]]) - self._world.now
            if left_s <= 0.0:
                left_s = _LATE_SHARE * self._usual_s(hosts)
            states.resume(hosts, pstate, left_s)

    def _usual_s(self, hosts: HostSet) -> float:
        """Return how long a transition of hosts of one kind takes, s."""
        cluster, first = self._cluster, int(hosts.ids[0])
        falls = cluster.state[first] == SWITCHING_OFF
        durations_s = cluster.power.off_s if falls else cluster.power.on_s
        return max(float(durations_s[cluster.platform.kind_of[first]]), 1e-3)
