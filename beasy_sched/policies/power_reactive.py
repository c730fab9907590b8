"""Power-reactive: as many servers on as the arriving power feeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.model.power import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.policies.actions import Action
from beasy_sched.policies.base import Policy
from beasy_sched.policies.easy import EasyPass
from beasy_sched.policies.facts import FactDict
from beasy_sched.policies.orders import largest_slowdown, smallest_size
from beasy_sched.policies.switching import sleep, wake
from beasy_sched.policies.view import View


class PowerReactive(Policy):
    """At each step turns on as many servers as the renewable power feeds, running ones first.

    The battery serves running jobs when production falls short, and never turns on more.
    """

    name = "power-reactive"
    summary = "EASY on as many servers as the arriving renewable power feeds"
    needs_power = True

    def power_actions(self, view: View) -> Sequence[Action]:
        """Feed the busy servers, then as many others as the rest of the power carries at full load."""
        assert view.budget is not None
        if not view.power_actions_allowed:
            return ()
        state, power = view.host_state, view.power_model
        kinds, hosts = view.platform.kind_of, np.arange(view.platform.size)
        busy = state == BUSY
        out = (state == IDLE) & np.logical_not(view.available)
        fixed_w = (
            power.full_w[kinds, view.pstate][busy].sum()
            + power.idle_w[kinds, view.pstate][out].sum()
            + power.sleep_w[kinds][~(busy | out)].sum()
        )
        ready = ((state == IDLE) | (state == SWITCHING_ON)) & view.available
        asleep = state == ASLEEP
        candidates = np.concatenate([hosts[ready], hosts[asleep & view.available]])
        pstates = np.where(asleep, np.array([k.fastest for k in view.platform.kinds])[kinds], view.pstate)
        each_w = power.full_w[kinds, pstates][candidates] - power.sleep_w[kinds][candidates]
        fed = int(np.searchsorted(np.cumsum(each_w), view.budget.renew_w - fixed_w, side="right"))
        chosen, others = candidates[:fed], candidates[fed:]
        to_sleep = others[state[others] != ASLEEP]
        to_wake = chosen[state[chosen] == ASLEEP]
        why: FactDict = {
            "renewable_w": view.budget.renew_w,
            "taken_w": float(fixed_w),
            "hosts_busy": int(np.count_nonzero(busy)),
            "hosts_fed": fed,
        }
        actions = sleep(view, np.sort(to_sleep), "not fed by the arriving power", why)
        return actions + wake(view, np.sort(to_wake), "fed by the arriving power", why)

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what EASY starts on the servers that are on."""
        easy = EasyPass(view)
        easy.run_heads(largest_slowdown)
        easy.backfill(smallest_size)
        return easy.actions
