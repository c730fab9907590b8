"""Reactive baselines: EASY on servers that follow the queue or the renewable power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np

from beasy_sched.arrays import BoolArray, FloatArray
from beasy_sched.engine.actions import Action, FactDict
from beasy_sched.engine.guard import StepBudget
from beasy_sched.engine.policy import Options, Policy, View
from beasy_sched.engine.power_actions import sleep, wake
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.choices import Placement
from beasy_sched.model.host_states import ASLEEP, BUSY, IDLE, SWITCHING_ON
from beasy_sched.policies.easy import (
    EASY_WORDS,
    IDLE_WORDS,
    EasyPass,
    break_even_s,
    hosts_wanted,
    sleep_after,
    wake_for_queue,
)
from beasy_sched.policies.offering import (
    OFFERED_FOR_QUEUE,
    SteadyCounts,
    counts_by_kind,
    demand_hosts,
    offer_counts,
    offer_demand,
)


class WorkloadReactive(Policy):
    """Wakes servers for queued jobs immediately, at full speed; puts idle ones to sleep after T_wait."""

    name = "workload-reactive"
    summary = "EASY; wakes servers for waiting jobs immediately and puts them to sleep after an idle time"
    words: ClassVar[Sentences] = {**EASY_WORDS, **IDLE_WORDS, **words_of(OFFERED_FOR_QUEUE)}
    can_offer = True

    def begin(self, view: View) -> None:
        """Compute each server's T_wait."""
        wait_s = np.array([break_even_s(kind) for kind in view.platform.kinds])
        self._wait_s = wait_s[view.platform.kind_of]

    def schedule(self, view: View) -> Sequence[Action]:
        """Run EASY, wake servers for the remaining jobs, put servers to sleep after a long idle time.

        Where others place jobs, offer these servers.
        """
        if view.placement is Placement.EXTERNAL:
            return offer_demand(view, self._wait_s, demand_hosts(view), OFFERED_FOR_QUEUE)
        easy = EasyPass(view)
        actions = easy.run()
        wanted = hosts_wanted(view, sum(job.res for job in easy.started))
        actions += wake_for_queue(view, wanted, easy.free)
        if view.power_actions_allowed:
            actions += sleep_after(view, easy, self._wait_s, spare=easy.free - wanted)
        return actions


_COUNTED: Final = (
    "[count=actual? Busy servers count at full power, idle ones at idle power.]"
    "[count=wake? Servers count at idle power, those that must wake at their mean power in the step.]"
    "[count=idle? Every server counts at idle power.]"
    "[count=full? Every server counts at full power.]"
)

_BESIDE: Final = (
    "[ Services take {services_w} of it first.][ Every server counts with its cooling: the PUE is {pue}.]"
)

FED: Final = Rule(
    "P-state",
    "fed by the arriving power",
    Words(
        "Current production is {renewable_w}, enough for {hosts_busy:busy server} and {hosts_fed} more."
        + _COUNTED
        + _BESIDE
    ),
)
NOT_FED: Final = Rule(
    "P-state",
    "not fed by the arriving power",
    Words(
        "Of {renewable_w} production, {hosts_busy:busy server} and those asleep take {taken_w}:"
        " enough for {hosts_fed} more." + _COUNTED + _BESIDE
    ),
)


OFFERED_AS_FED: Final = Rule(
    "offer",
    "fed by the arriving power",
    Words(
        "Current production is {renewable_w}, enough for {hosts_fed:server}; {hosts_busy} have a job."
        + _COUNTED
        + _BESIDE
    ),
)


Count: TypeAlias = Literal["actual", "wake", "idle", "full"]


class PowerReactiveOptions(Options, frozen=True):
    """Options of `power-reactive`."""

    count: Count = "actual"
    """Power that each server counts for: busy ones full power, others idle power (``actual``; where others
    place jobs, as ``full``); every server idle power (``idle``), one that must wake its mean power in the
    step (``wake``); or every server full power (``full``)."""


class PowerReactive(Policy):
    """Keeps as many servers on in each step as the renewable power can supply, those with jobs first.

    An option sets the power that each server counts for. The battery supplies power beyond that, and
    running jobs when production falls short.
    """

    name = "power-reactive"
    summary = "EASY on as many servers as the renewable power can supply"
    words: ClassVar[Sentences] = {**EASY_WORDS, **words_of(FED, NOT_FED, OFFERED_AS_FED)}
    needs_power = True
    can_offer = True
    options_type = PowerReactiveOptions
    options: PowerReactiveOptions

    def begin(self, view: View) -> None:
        """Begin without an offer."""
        self._steady = SteadyCounts([break_even_s(kind) for kind in view.platform.kinds])

    def power_actions(self, view: View) -> Sequence[Action]:
        """Keep the busy servers on, then as many others as the remaining power can supply."""
        if view.placement is Placement.EXTERNAL:
            return self._offer(view)
        if view.budget is None or not view.power_actions_allowed:
            return ()
        state, power, counts = view.host_state, view.power_model, self.options.count
        kinds = view.platform.kind_of
        busy = state == BUSY
        out = (state == IDLE) & np.logical_not(view.available)
        busy_w = power.full_w if counts in ("actual", "full") else power.idle_w
        fixed_w = (
            busy_w[kinds, view.pstate][busy].sum()
            + power.idle_w[kinds, view.pstate][out].sum()
            + power.sleep_w[kinds][~(busy | out)].sum()
        )
        asleep = state == ASLEEP
        ready = (state == IDLE) | (state == SWITCHING_ON)
        candidates = np.concatenate([np.flatnonzero(mask & view.available) for mask in (ready, asleep)])
        step_s = view.budget.end_s - view.budget.start_s
        each_w = (self._counted_w(view, asleep, step_s, counts) - power.sleep_w[kinds])[candidates]
        fed = int(np.searchsorted(np.cumsum(each_w), _for_servers_w(view.budget) - fixed_w, side="right"))
        chosen, others = candidates[:fed], candidates[fed:]
        to_sleep = others[state[others] != ASLEEP]
        to_wake = chosen[state[chosen] == ASLEEP]
        why: FactDict = {
            "renewable_w": view.budget.renew_w,
            **_beside(view.budget),
            "taken_w": float(fixed_w),
            "hosts_busy": int(np.count_nonzero(busy)),
            "hosts_fed": fed,
            "count": counts,
        }
        actions = sleep(view, np.sort(to_sleep), NOT_FED, why)
        return actions + wake(view, np.sort(to_wake), FED, why)

    def _offer(self, view: View) -> Sequence[Action]:
        """Offer as many servers as the power can supply, those with jobs first: without exception.

        With ``actual``, each counts at full power, since others may start a job on any offered server: if
        idle ones counted less, the offer would fall whenever a job starts, and rise when it ends.
        """
        if view.budget is None:
            return ()
        state, power, kinds = view.host_state, view.power_model, view.platform.kind_of
        busy, asleep = state == BUSY, state == ASLEEP
        ready = (state == IDLE) | (state == SWITCHING_ON)
        out = (state == IDLE) & np.logical_not(view.available)
        masks = (busy, ready & view.available, asleep & view.available)
        candidates = np.concatenate([np.flatnonzero(mask) for mask in masks])
        count = "full" if self.options.count == "actual" else self.options.count
        each_w = self._counted_w(view, asleep, view.budget.end_s - view.budget.start_s, count)
        sleep_w = power.sleep_w[kinds]
        fixed_w = sleep_w[~out].sum() + power.idle_w[kinds, view.pstate][out].sum()
        most_w = _for_servers_w(view.budget) - fixed_w
        fed = int(np.searchsorted(np.cumsum((each_w - sleep_w)[candidates]), most_w, side="right"))
        on = np.zeros(view.platform.size, dtype=np.bool_)
        on[candidates[:fed]] = True
        why: FactDict = {
            "renewable_w": view.budget.renew_w,
            **_beside(view.budget),
            "hosts_busy": int(np.count_nonzero(busy)),
            "hosts_fed": fed,
            "count": count,
        }
        counts = self._steady.next(counts_by_kind(view.platform, on), view.now)
        return offer_counts(view.platform, counts, view.now, OFFERED_AS_FED, why)

    def _counted_w(self, view: View, asleep: BoolArray, step_s: float, count: Count) -> FloatArray:
        """Return the power that each server without a job counts for while it is on, W, [N]."""
        power, kinds = view.power_model, view.platform.kind_of
        pstates = np.where(asleep, view.platform.fastest_of_kind[kinds], view.pstate)
        if count == "full":
            return np.asarray(power.full_w[kinds, pstates])
        idle_w = power.idle_w[kinds, pstates]
        if count != "wake":
            return np.asarray(idle_w)
        waking = np.minimum(power.on_s[kinds] / step_s, 1.0)
        return np.where(asleep, waking * power.on_w[kinds] + (1.0 - waking) * idle_w, idle_w)

    def schedule(self, view: View) -> Sequence[Action]:
        """Run EASY on the servers that are on."""
        if view.placement is Placement.EXTERNAL:
            return ()
        return EasyPass(view).run()


def _for_servers_w(budget: StepBudget) -> float:
    """Return the production that is left for servers: services are served first, cooling takes its share."""
    return max(budget.renew_w - budget.load.services_w, 0.0) / budget.load.pue


def _beside(budget: StepBudget) -> FactDict:
    """Return the facts on the load besides the servers, of a site that has any."""
    facts: FactDict = {}
    if budget.load.services_w > 0.0:
        facts["services_w"] = budget.load.services_w
    if budget.load.pue > 1.0:
        facts["pue"] = budget.load.pue
    return facts
