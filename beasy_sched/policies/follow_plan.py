"""Follow-plan: the servers exactly as the offline plan has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import BoolArray
from beasy_sched.model.job import Job
from beasy_sched.policies.actions import Action, Facts, Kill
from beasy_sched.policies.base import Policy
from beasy_sched.policies.orders import largest_slowdown, smallest_size
from beasy_sched.policies.planned import planned_states
from beasy_sched.policies.planned_easy import PlannedEasyPass
from beasy_sched.policies.view import View
from beasy_sched.policies.working_plan import WorkingPlan


class FollowPlan(Policy):
    """EASY on the planned servers; a job on a server that the plan puts to sleep is killed.

    After the last planned window the servers stay as they are. Subclasses change ``plan`` and follow it.
    """

    name = "follow-plan"
    summary = "EASY on the servers of the offline plan, which is followed to the letter"
    needs_power = True
    needs_plan = True

    def begin(self, view: View) -> None:
        """Copy the plan."""
        assert view.plans is not None
        self.plan = WorkingPlan(view.plans, view.platform, view.pstate)
        self._asked = view.pstate.copy()

    def power_actions(self, view: View) -> Sequence[Action]:
        """Kill the jobs on servers that are to sleep, and give every server its planned state."""
        assert view.budget is not None
        step = self.plan.step_at(view.budget.start_s)
        if step is None or not view.power_actions_allowed:
            return ()
        return self.follow(view, step)

    def follow(self, view: View, step: int) -> list[Action]:
        """Kills and P-states that bring every server in service to its planned state."""
        planned, on = self.plan.states[step], self.plan.on[step]
        to_sleep = np.logical_and(view.available, ~on)
        actions: list[Action] = [
            Kill(job, "its server is planned to sleep", _kill_facts(view, job, to_sleep))
            for job in view.running.values()
            if job.hosts is not None and to_sleep[job.hosts.ids].any()
        ]
        pending = np.where(on, view.sleep_wished(), view.waking_wished())
        differs = (view.pstate != planned) | (self._asked != planned) | pending
        hosts = np.flatnonzero(np.logical_and(differs, view.available))
        self._asked[hosts] = planned[hosts]
        return actions + planned_states(view, self.plan, step, hosts)

    def schedule(self, view: View) -> Sequence[Action]:
        """Start what EASY starts on the servers that are on."""
        easy = PlannedEasyPass(view, self.plan)
        easy.run_heads(largest_slowdown)
        easy.backfill(smallest_size)
        return easy.actions


def _kill_facts(view: View, job: Job, to_sleep: BoolArray) -> Facts:
    """How many of a job's hosts are to sleep, and how long it might have run on."""
    assert job.hosts is not None
    facts: dict[str, float | int | str] = {"hosts_to_sleep": int(np.count_nonzero(to_sleep[job.hosts.ids]))}
    if np.isfinite(job.expected_end_s):
        facts["walltime_left_s"] = job.expected_end_s - view.now
    return facts
