"""Table of hosts: states, requests and availability.

A request is a P-state wanted by the scheduler, kept here until its command is sent. A `PowerModel` has the
power of a host by state, a `PowerAccount` counts the energy of every use.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import FloatArray, PStateArray, all_of, any_of, are_places, distinct
from beasy_sched.errors import PolicyError
from beasy_sched.model.host_power import PowerAccount, PowerModel
from beasy_sched.model.host_states import ASLEEP, IDLE, SWITCHING_OFF, SWITCHING_ON, HostState
from beasy_sched.model.hosts import HostIds, HostSet
from beasy_sched.model.platform import Platform

NOT_REQUESTED: Final = -1
"""Placeholder for a requested P-state if none is requested."""
_OUT_OF_TRANSITION = {SWITCHING_OFF: ASLEEP, SWITCHING_ON: IDLE}
_INTO_TRANSITION = {after: before for before, after in ((IDLE, SWITCHING_OFF), (ASLEEP, SWITCHING_ON))}


class HostTable:
    """Hosts of a site, with read-only arrays."""

    def __init__(self, platform: Platform) -> None:
        """Begin with all servers idle, or asleep if their initial P-state is a sleep state."""
        size = platform.size
        self.platform = platform
        self.size = size
        self.state = np.zeros(size, dtype=np.int8)
        """`HostState` of each host."""
        self.pstate = platform.initial_pstates.astype(np.int16)
        """Current P-state of each host; the target while it is switching."""
        self.state_counts = np.zeros((len(platform.kinds) or 1, len(HostState)), dtype=np.int64)
        """Number of hosts of each kind in each `HostState`, [kind, state]."""
        self._counts = self.state_counts[0].data if len(self.state_counts) == 1 else None
        """View of the only kind's counts, for faster changes of single numbers."""
        self.load = np.zeros(size)
        """Share of full load that a job puts on each host: 1 on its slowest, 0 if it does not compute."""
        self.in_service = np.ones(size, dtype=np.bool_)
        """Whether each host is in service according to the peer."""
        self.lost = np.zeros(size, dtype=np.bool_)
        """Whether each host failed to wake and must not be woken yet."""
        self.available = np.ones(size, dtype=np.bool_)
        """Whether each host is in service and not lost."""
        self.all_available = True
        self.free = np.ones(size, dtype=np.bool_)
        """Whether each host is idle and available, so that it may be given to a job now."""
        self.free_count = size
        self.hosts_version = 0
        """Counter that changes with the state, request or availability of any host, except at the start of
        jobs: before it changes, no further host is free or ready for a command."""
        self.requested_pstate = np.full(size, NOT_REQUESTED, dtype=np.int16)
        """Requested P-state of each host until the command is sent; else `NOT_REQUESTED`."""
        self.requests = 0
        """Number of hosts with a request."""
        self.sleep_requested = np.zeros(size, dtype=np.bool_)
        """Whether each host has a request to sleep, so that it is not given to new jobs."""
        self.wake_requested = np.zeros(size, dtype=np.bool_)
        """Whether each host is asleep and has a request to wake that has not been sent yet."""
        self._some_requested = False
        """Whether any P-state was ever requested."""
        self.state_since_s = np.zeros(size)
        """Time at which each host entered its current state, s."""
        self.switch_end_s = np.zeros(size)
        """Time at which the transition of each switching host will end, s."""
        self._wakes: list[tuple[float, int]] | None = None
        """Result of the last call of `wakes`, until hosts change."""
        self.power = PowerModel(platform)
        self._account: PowerAccount | None = None
        """Account of energy by use; None if energy is not counted."""
        self.uniform_speed = True
        """Whether all hosts run at the same speed."""
        paces_flops = _paces_flops(platform)
        self._one_speed = len(paces_flops) < 2
        """Whether all computing P-states of all hosts have the same speed."""
        self._pace_flops = min(paces_flops) if len(paces_flops) == 1 else None
        """Speed of every host that has a job, flops/s; None if they may differ."""
        for row, kind in enumerate(platform.kinds):
            asleep = np.isin(self.pstate, list(kind.asleep_in)) & (platform.kind_of == row)
            self.state[asleep] = ASLEEP
        np.add.at(self.state_counts, (platform.kind_of, self.state), 1)
        self._refresh_free(np.arange(size))
        self._refresh_speed()

    def open_account(self) -> PowerAccount:
        """Start counting the energy of every use and job; call it at time 0."""
        self._account = PowerAccount(self.power, self.state, self.pstate)
        return self._account

    @property
    def draw_w(self) -> FloatArray:
        """Current power of each host, W; read-only."""
        if self._account is not None:
            return self._account.draw_w
        return self.power.draw_w(np.arange(self.size), self.state, self.pstate, self.load)

    def any_in(self, state: int) -> bool:
        """Return whether any host is in a `HostState`."""
        if self._counts is not None:
            return bool(self._counts[state])
        return bool(np.count_nonzero(self.state_counts[:, state]))

    def speed_flops(self, hosts: HostIds, pstate: PStateArray | None = None) -> FloatArray:
        """Return the speed of each host, now or in ``pstate``, flops/s (0 if unknown)."""
        pstates = self.pstate[hosts] if pstate is None else pstate
        return np.asarray(self.power.speed_flops[self.platform.kind_of[hosts], pstates])

    def wakes(self) -> list[tuple[float, int]]:
        """Return the hosts that are waking: (ready time in s, number), sorted."""
        if not self.any_in(SWITCHING_ON):
            return []
        if self._wakes is None:
            waking = (self.state == SWITCHING_ON) & self.available & ~self.sleep_requested
            self._wakes = sorted(Counter(self.switch_end_s[waking].tolist()).items())
        return self._wakes[:]

    def check_hosts(self, hosts: HostSet, who: str) -> None:
        """Raise PolicyError unless ``hosts`` are hosts of the platform, sorted, each once."""
        ids, index = hosts.ids, hosts.index
        if type(index) is int and 0 <= index < self.size:
            return
        if not are_places(ids, self.size):
            raise PolicyError(
                f"{who} hosts {ids.tolist()[:20]}: expected some of 0 to {self.size - 1}, sorted, each once"
            )

    def request(self, hosts: HostIds, pstate: int) -> None:
        """Request a P-state of ``hosts``, until a command is sent or the request is dropped.

        Hosts with a request to sleep are not given to jobs.
        """
        self._some_requested = True
        self.requested_pstate[hosts] = pstate
        self.requests = int(np.count_nonzero(self.requested_pstate != NOT_REQUESTED))
        to_sleep = self.platform.sleep_of_kind[self.platform.kind_of[hosts]] == pstate
        self.sleep_requested[hosts] = to_sleep
        self.wake_requested[hosts] = ~to_sleep & (self.state[hosts] == ASLEEP)
        self._refresh_free(hosts)

    def drop_requests(self, hosts: HostIds) -> None:
        """Drop the requests of ``hosts``."""
        self.requests -= int(np.count_nonzero(self.requested_pstate[hosts] != NOT_REQUESTED))
        self.requested_pstate[hosts] = NOT_REQUESTED
        self.sleep_requested[hosts] = False
        self.wake_requested[hosts] = False
        self._refresh_free(hosts)

    def begin_switch(
        self, hosts: HostIds, state: int, pstate: int | npt.NDArray[np.integer], now: float
    ) -> None:
        """Start falling asleep or waking, towards ``pstate``, a common one or one for each host."""
        duration_s = self.power.on_s if state == SWITCHING_ON else self.power.off_s
        self.switch_end_s[hosts] = now + duration_s[self.platform.kind_of[hosts]]
        self.pstate[hosts] = pstate
        self._move(HostSet(hosts), _INTO_TRANSITION[state], state, now)
        self.drop_requests(hosts)

    def end_switch(self, hosts: HostIds, pstate: int, now: float) -> None:
        """End a transition: hosts are now asleep or awake in ``pstate``."""
        state = self.state[hosts]
        self.pstate[hosts] = pstate
        for before in distinct(state):
            if before in _OUT_OF_TRANSITION:
                self._move(HostSet(hosts[state == before]), before, _OUT_OF_TRANSITION[before], now)
        self._refresh_free(hosts)
        self._refresh_speed()

    def take_over(self, hosts: HostIds, pstate: int, now: float) -> None:
        """Take over the P-state of hosts without a job that others have put to sleep or woken."""
        to_sleep = self.platform.sleep_of_kind[self.platform.kind_of[hosts]] == pstate
        after = np.where(to_sleep, ASLEEP, IDLE)
        before = self.state[hosts]
        self.pstate[hosts] = pstate
        for old in distinct(before):
            for new in (ASLEEP, IDLE):
                moved = (before == old) & (after == new)
                if old != new and any_of(moved):
                    self._move(HostSet(hosts[moved]), old, new, now)
        self.drop_requests(hosts)
        self._refresh_speed()

    def set_in_service(self, hosts: HostIds, in_service: bool) -> None:
        """Take hosts out of service, or put them back."""
        self.in_service[hosts] = in_service
        self._refresh_available(hosts)

    def fail_wake(self, hosts: HostIds, now: float) -> None:
        """End the transition of hosts that failed to wake: they are asleep, and lost."""
        self.lost[hosts] = True
        self.pstate[hosts] = self.platform.sleep_of_kind[self.platform.kind_of[hosts]]
        self._move(HostSet(hosts), SWITCHING_ON, ASLEEP, now)
        requested = self.requested_pstate[hosts] != NOT_REQUESTED
        self.wake_requested[hosts] = requested & ~self.sleep_requested[hosts]
        self._refresh_available(hosts)
        self._refresh_speed()

    def find(self, hosts: HostIds) -> None:
        """Make lost hosts available again if they are in service."""
        self.lost[hosts] = False
        self._refresh_available(hosts)

    def _refresh_available(self, hosts: HostIds) -> None:
        self.available[hosts] = self.in_service[hosts] & ~self.lost[hosts]
        self.all_available = all_of(self.available)
        self._refresh_free(hosts)

    def _move(
        self, hosts: HostSet, before: int, after: int, now: float, load: FloatArray | float = 1.0
    ) -> None:
        """Change hosts from one `HostState` to another; ``load`` is the share of full load of busy ones."""
        ids, index, counts = hosts.ids, hosts.index, self._counts
        if counts is not None:
            counts[before] -= ids.size
            counts[after] += ids.size
        else:
            by_kind = np.bincount(self.platform.kind_of[ids], minlength=len(self.state_counts))
            self.state_counts[:, before] -= by_kind
            self.state_counts[:, after] += by_kind
        self.state[index] = after
        self.state_since_s[index] = now
        if self._account is not None:
            self._account.change(ids, before, after, self.pstate[ids], now, load)

    def _refresh_free(self, hosts: HostIds) -> None:
        self.hosts_version += 1
        self._wakes = None
        idle = self.state[hosts] == IDLE
        self.free[hosts] = idle & self.available[hosts] & ~self.sleep_requested[hosts]
        self.free_count = int(np.count_nonzero(self.free))

    def _refresh_speed(self) -> None:
        if self.size and not self._one_speed:
            speeds = self.power.speed_flops[self.platform.kind_of, self.pstate]
            self.uniform_speed = all_of(speeds == speeds[0])
            self._pace_flops = float(speeds[0]) if self.uniform_speed else None

    def _not_free(self, ids: HostIds) -> str:
        bad = ids[~self.free[ids]]
        groups: dict[str, list[int]] = {}
        for host in bad.tolist():
            groups.setdefault(self._condition(host), []).append(host)
        return ", ".join(f"{HostSet.of(hosts)} ({condition})" for condition, hosts in groups.items())

    def _condition(self, host: int) -> str:
        state = HostState(int(self.state[host]))
        if state is HostState.IDLE:
            return "unavailable" if not self.available[host] else "idle, but to sleep"
        return state.name.lower().replace("_", " ")


def _paces_flops(platform: Platform) -> set[float]:
    """Return the distinct speeds of computing P-states, flops/s (0 if unknown)."""
    return {
        kind.speeds_flops[p] if kind.speeds_flops else 0.0 for kind in platform.kinds for p in kind.computing
    }
