"""The hosts as the policies use them: which can take a job, which are promised, which may be switched off."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.model.hosts import HostIds
from beasy_sched.model.job import Job
from beasy_sched.model.power import ASLEEP, BUSY, IDLE, SWITCHING_OFF
from beasy_sched.policies.view import View


class Claim(Struct, frozen=True):
    """Hosts that were given to a job and of which some have to wake before it can start."""

    job: Job
    ids: HostIds


class Fleet:
    """What is known of hosts beyond the view: claims, hosts kept awake, latest ends of their jobs."""

    def __init__(self, view: View, switches: bool) -> None:
        """``switches``: whether hosts are switched off and woken, so that sleeping ones can be given jobs."""
        size = view.platform.size
        self.switches = switches
        self.claims: dict[str, Claim] = {}
        self.claimed: BoolArray = np.zeros(size, dtype=np.bool_)
        self.kept: BoolArray = np.zeros(size, dtype=np.bool_)
        """Hosts that stay on, or wake, for the first waiting job's reservation."""
        self.taken: BoolArray = np.zeros(size, dtype=np.bool_)
        """Hosts whose job starts in the decision under way."""
        self._end_s: FloatArray = np.zeros(size)
        self._view = view
        model = view.power_model
        self._on_s, self._off_s = float(model.on_s.max(initial=0.0)), float(model.off_s.max(initial=0.0))

    @property
    def lead_s(self) -> float:
        """The longest time that it takes until a host is on, s."""
        if not self.switches:
            return 0.0
        falling = int(self._view.state_counts[:, SWITCHING_OFF].sum())
        return self._on_s + (self._off_s if falling else 0.0)

    def usable(self) -> BoolArray:
        """Return the mask of the hosts that can be given to a job, some of which may have to wake."""
        free = self._view.free_mask()
        if not self.switches:
            return free
        sleeping = (self._view.host_state >= ASLEEP) & self._view.available
        usable: BoolArray = (free | sleeping) & ~(self.claimed | self.taken)
        return usable

    def idle_now(self, hosts: HostIds) -> BoolArray:
        """Tell which of some usable hosts are on."""
        idle: BoolArray = self._view.host_state[hosts] == IDLE
        return idle

    def promise(self, hosts: HostIds, end_s: float) -> None:
        """Note until when a job has ``hosts`` at the latest."""
        self._end_s[hosts] = end_s

    def claim(self, job: Job, hosts: HostIds) -> None:
        """Give ``hosts`` to a job before all of them are on."""
        self.claims[job.id] = Claim(job, hosts)
        self.claimed[hosts] = True

    def unclaim(self, job_id: str) -> Claim:
        """Take a claim back: the job starts, or has to wait again."""
        claim = self.claims.pop(job_id)
        self.claimed[claim.ids] = False
        return claim

    def free_at(self, usable: BoolArray) -> FloatArray:
        """Return when each host can be given to a job by walltimes, s; infinite where that is not known."""
        view = self._view
        busy = (view.host_state == BUSY) | self.claimed | self.taken
        times = np.where(busy & view.available, self._end_s, np.inf)
        times[usable] = view.now
        return times
