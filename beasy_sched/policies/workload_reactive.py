"""Workload-reactive: servers follow the queue, whatever the power."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.model.hosts import HostIds
from beasy_sched.model.power import IDLE
from beasy_sched.policies.actions import NO_FACTS, Action, CallAt, Facts
from beasy_sched.policies.base import Policy
from beasy_sched.policies.easy import EasyPass
from beasy_sched.policies.orders import largest_slowdown, smallest_size
from beasy_sched.policies.switching import break_even_s, hosts_wanted, sleep, wake_for_queue
from beasy_sched.policies.view import View
from beasy_sched.units import TIME_TOLERANCE_S


class WorkloadReactive(Policy):
    """Wakes servers for queued jobs at once, at full speed; lets idle ones sleep after T_wait (Eq. 2.9)."""

    name = "workload-reactive"
    summary = "EASY; wakes servers for waiting jobs at once, lets them sleep after an idle time"

    def begin(self, view: View) -> None:
        """Work out each server's T_wait."""
        wait_s = np.array([break_even_s(kind) for kind in view.platform.kinds])
        self._wait_s = wait_s[view.platform.kind_of]

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what EASY starts, wake for the rest, let the long idle sleep."""
        easy = EasyPass(view)
        easy.run_heads(largest_slowdown)
        easy.backfill(smallest_size)
        wanted = hosts_wanted(view, sum(job.res for job in easy.started))
        actions = [*easy.actions, *wake_for_queue(view, wanted, easy.free)]
        if view.power_actions_allowed:
            actions += self._let_sleep(view, easy, spare=easy.free - wanted)
        return actions

    def _idle_facts(self, view: View, hosts: HostIds) -> Facts:
        """How long the ``hosts`` have been idle at least, and how long they had to be at most."""
        if not len(hosts):
            return NO_FACTS
        idle_s = view.now - float(np.max(view.state_since_s[hosts]))
        return {"idle_s": idle_s, "t_wait_s": float(self._wait_s[hosts].max())}

    def _let_sleep(self, view: View, easy: EasyPass, spare: int) -> list[Action]:
        """Put up to ``spare`` servers to sleep that were idle for T_wait; ask for a call for the next."""
        idle = np.flatnonzero(easy.free_mask() & (view.host_state == IDLE))
        if spare <= 0 or not len(idle):
            return []
        due_s = view.state_since_s[idle] + self._wait_s[idle]
        ripe = idle[due_s <= view.now + TIME_TOLERANCE_S]
        chosen = ripe[::-1][:spare][::-1]
        actions = sleep(view, chosen, "idle for T_wait", self._idle_facts(view, chosen))
        later = due_s[due_s > view.now + TIME_TOLERANCE_S]
        if len(later) and np.isfinite(later.min()):
            actions.append(CallAt(float(later.min())))
        return actions
