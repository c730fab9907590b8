"""Host failures and failed wake-ups (not available in Batsim).

A host that breaks goes out of service as by an event ``machine_unavailable``, but its job also fails, and a
wake-up under way fails. A wake-up that fails takes its time and energy, and the host is asleep again at its
end. The scheduler is notified of it before the other hosts of the group are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beasy_sched.errors import InputError
from beasy_sched.formats.failures import HostFailure, HostFailureKind
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.execution import Execution
from beasy_sched.simulator.machines import IDLE, SLEEP, SLEEPING, SWITCHING_OFF, SWITCHING_ON, UNAVAILABLE
from beasy_sched.simulator.world import World


class HostFailures:
    """Plays the lines of a file of failures."""

    def __init__(self, world: World, execution: Execution, notify: Callable[..., None]) -> None:
        """``notify`` sends a notice to the scheduler: its kind, and its fields."""
        self._world = world
        self._execution = execution
        self._notify = notify

    def play(self, failure: HostFailure) -> None:
        """Let hosts fail, or repair them. Raises InputError for hosts that do not exist."""
        fallible, ids = self._world.fallible, failure.hosts.ids
        if ids.item(-1) >= self._world.machines.size:
            raise InputError(None, f"{failure.where}: there is no machine {ids[-1]}")
        if fallible is None:
            raise RuntimeError("a failure is played in a world whose hosts do not fail")
        if failure.kind is HostFailureKind.WAKES_FAIL:
            fallible.expect(ids, failure.percent, failure.seed)
        elif failure.kind is HostFailureKind.BREAKS:
            fallible.broken[ids] = True
            self._break(failure.hosts)
        else:
            fallible.repair(ids)
            self._put_back(failure.hosts)

    def _break(self, hosts: HostSet) -> None:
        """Take hosts out of service, those being switched at the end of the switch; fail the jobs on them."""
        world, ids = self._world, hosts.ids
        states = world.table.states[world.machines.mode[ids]]
        resting = (states != SWITCHING_ON) & (states != SWITCHING_OFF)
        world.machines.change_state(ids[resting], UNAVAILABLE, world.now)
        jobs = self._execution.jobs_on(ids)
        self._notify("event_machine_unavailable", resources=str(hosts))
        for job in jobs:
            job.moved = True
            self._execution.fail(job)
            world.tell_end(job)
        world.states_row()

    def _put_back(self, hosts: HostSet) -> None:
        world, ids = self._world, hosts.ids
        modes = world.machines.mode[ids]
        away = world.table.states[modes] == UNAVAILABLE
        asleep = np.array([world.table.sort_of[mode] == SLEEP for mode in modes.tolist()])
        world.machines.change_state(ids[away & asleep], SLEEPING, world.now)
        world.machines.change_state(ids[away & ~asleep], IDLE, world.now)
        self._notify("event_machine_available", resources=str(hosts))
        world.states_row()
