"""SET_RESOURCE_STATE: P-state changes on the spot, and switches through transition P-states.

P-state requests that wait for their hosts, with Batsim's book-keeping, quirk included.

A request that Batsim loses (for a host in transition) stays in its books, and is answered by mistake
when a later request for the same P-state completes on that host.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.errors import DecisionRefused
from beasy_sched.model.events import ResourceStateChanged
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.execution import Rates
from beasy_sched.simulator.machines import (
    COMPUTATION,
    IDLE,
    SLEEP,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TRANSITION,
)
from beasy_sched.simulator.mailbox import Item
from beasy_sched.simulator.world import SWITCH, World


class Switch:
    """One SET_RESOURCE_STATE."""

    __slots__ = ("hosts", "pstate", "waiting")

    def __init__(self, hosts: HostSet, pstate: int) -> None:
        """``hosts`` are to come to ``pstate``."""
        self.hosts = hosts
        self.pstate = pstate
        self.waiting: IntArray = hosts.ids
        """Those that are not there yet."""


class Switches:
    """All requests that have not been answered."""

    def __init__(self) -> None:
        """Start with none."""
        self._by_pstate: dict[int, list[Switch]] = {}

    def add(self, hosts: HostSet, pstate: int) -> None:
        """Enter a request."""
        self._by_pstate.setdefault(pstate, []).append(Switch(hosts, pstate))

    def done(self, ids: IntArray, pstate: int) -> list[Switch]:
        """Mark hosts as arrived; return the requests that this completes."""
        finished: list[Switch] = []
        requests = self._by_pstate[pstate]
        for switch in list(requests):
            if not len(ids):
                break
            if len(switch.waiting) == len(ids) and np.array_equal(switch.waiting, ids):
                left = rest = ids[:0]
            else:
                left = np.setdiff1d(switch.waiting, ids, assume_unique=True)
                rest = np.setdiff1d(ids, switch.waiting, assume_unique=True)
            switch.waiting, ids = left, rest
            if not len(left):
                requests.remove(switch)
                finished.append(switch)
        return finished


_ON_THE_WAY = {COMPUTATION: -1, SLEEP: -2, TRANSITION: -42}
"""What the P-state file says at a request, by the sort of P-state that is asked for."""


class PowerStates:
    """Carries out P-state requests."""

    def __init__(self, world: World, rates: Rates) -> None:
        """Work on ``world``."""
        self._world = world
        self._rates = rates
        self._switches = Switches()

    def request(self, hosts: HostSet, pstate: int) -> None:
        """Begin to bring hosts to a P-state. Raises DecisionRefused where Batsim aborts.

        Hosts in transition, and transition P-states as targets, are passed over without an answer.
        """
        world = self._world
        table, machines = world.table, world.machines
        self._check(hosts, pstate)
        self._switches.add(hosts, pstate)
        world.meter_row("p")
        first = int(machines.mode[hosts.ids[0]])
        if world.tracer is not None:
            world.tracer.pstate(world.now, hosts, _ON_THE_WAY[table.sort_of_pstate(first, pstate)])
        world.tally.grouped_switches += 1
        world.tally.machine_switches += len(hosts)
        modes = machines.mode[hosts.ids]
        at_once: list[IntArray] = []
        for mode in np.unique(modes).tolist():
            ids = hosts.ids[modes == mode]
            was, wanted = table.sort_of[mode], table.sort_of_pstate(mode, pstate)
            if was == COMPUTATION and wanted == COMPUTATION:
                at_once.append(ids)
            elif was == COMPUTATION and wanted == SLEEP:
                off, _ = table.transition(mode, pstate)
                self._begin(ids, off, SWITCHING_OFF, pstate)
            elif was == SLEEP:
                _, on = table.transition(mode, table.pstate_of[mode])
                self._begin(ids, on, SWITCHING_ON, pstate)
        if at_once:
            ids = np.sort(np.concatenate(at_once))
            self._change_pstate(ids, pstate)
            self._answer(self._switches.done(ids, pstate))
        world.states_row()

    def _check(self, hosts: HostSet, pstate: int) -> None:
        table, machines = self._world.table, self._world.machines
        modes = machines.mode[hosts.ids]
        for mode in np.unique(modes).tolist():
            was, wanted = table.sort_of[mode], table.sort_of_pstate(mode, pstate)
            ids = hosts.ids[modes == mode]
            if was == TRANSITION:
                continue
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
            busy = ids[machines.owner[ids] >= 0]
            if wanted == SLEEP and len(busy):
                raise DecisionRefused(f"jobs are running on machine {busy[0]}")

    def _begin(self, ids: IntArray, through: int, state: int, target: int) -> None:
        """Put hosts of one mode into a transition: 1 flop is run at the transition P-state's speed."""
        world = self._world
        world.machines.change_state(ids, state, world.now)
        self._change_pstate(ids, through)
        mode = int(world.machines.mode[ids[0]])
        world.switching += len(ids)
        world.clock.work(SWITCH, (ids, target), world.table.speed_of[mode])

    def _change_pstate(self, ids: IntArray, pstate: int) -> None:
        world = self._world
        before_w = self._hosts_w(ids)
        world.meter.accrue(world.now)
        world.meter.wattmin_w += world.machines.change_pstate(ids, pstate)
        self._rates.hosts_changed(ids, before_w)

    def _hosts_w(self, ids: IntArray) -> float:
        return float(self._world.table.resting_w[self._world.machines.mode[ids]].sum())

    def arrived(self, ids: IntArray, pstate: int) -> None:
        """Bring hosts out of their transition."""
        world = self._world
        asleep = world.table.sort_of_pstate(int(world.machines.mode[ids[0]]), pstate) == SLEEP
        before_w = self._hosts_w(ids)
        world.meter.accrue(world.now)
        world.machines.change_state(ids, SLEEPING if asleep else IDLE, world.now)
        world.meter.wattmin_w += world.machines.change_pstate(ids, pstate)
        world.switching -= len(ids)
        self._rates.hosts_changed(ids, before_w)

    def tell(self, ids: IntArray, pstate: int) -> None:
        """Let each host of those arrived report to the server; the last one answers what that completes."""
        mailbox = self._world.mailbox
        for _ in range(len(ids) - 1):
            mailbox.put(Item())
        mailbox.put(Item(partial(self._complete, ids, pstate)))

    def _complete(self, ids: IntArray, pstate: int) -> None:
        finished = self._switches.done(ids, pstate)
        if finished:
            self._answer(finished)
            self._world.states_row()

    def _answer(self, finished: list[Switch]) -> None:
        world = self._world
        for switch in finished:
            if world.tracer is not None:
                world.tracer.pstate(world.now, switch.hosts, switch.pstate)
            world.meter_row("p")
            world.outbox.append(ResourceStateChanged(world.stamp, switch.hosts, switch.pstate))
