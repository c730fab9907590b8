"""Peak, Next, Last and Workload: what the battery gained or lost goes into, or out of, future steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beasy_sched.arrays import IntArray
from beasy_sched.policies.actions import Action, Compensate
from beasy_sched.policies.beasy_compensation import compensation_j
from beasy_sched.policies.envelope import EnvelopeRefit
from beasy_sched.policies.follow_plan import FollowPlan
from beasy_sched.policies.view import View


class EnvelopePolicy(FollowPlan):
    """Follows a plan that it refits at each step, so that the window ends at the target level.

    E_comp goes into the steps in the policy's `order`, each as far as its servers can take it. The
    envelope of a step is what its servers are planned to draw. See docs/decisions/envelope-policies.md.
    """

    needs_speeds = True

    def begin(self, view: View) -> None:
        """Copy the plan."""
        super().begin(view)
        self._refit = EnvelopeRefit(self.plan, view.platform)

    def power_actions(self, view: View) -> Sequence[Action]:
        """Compensate, then follow the plan as it is now."""
        assert view.budget is not None
        step = self.plan.step_at(view.budget.start_s)
        if step is None or not view.power_actions_allowed:
            return ()
        self.plan.set_production(step, view.budget.renew_w)
        return [self.compensate(view, step), *self.follow(view, step)]

    def order(self, steps: IntArray, surplus: bool) -> IntArray:
        """Put the steps (given from first to last) in the order in which they are changed."""
        raise NotImplementedError

    def compensate(self, view: View, step: int) -> Compensate:
        """Spend or save E_comp (Eq. 3.31) in the rest of the window, from ``step`` on, and say so."""
        assert view.plans is not None
        assert view.storage_state is not None
        plan = self.plan
        place = view.plans.place(plan.start_of(step))
        assert place is not None
        end_step = step + view.plans[place.window].steps - place.step
        levels_j = plan.project_soc(step, view.storage_state.battery_j)
        diff_j = float(levels_j[end_step - step]) - plan.battery.target_j
        comp_j = compensation_j(plan.battery, diff_j)
        busy_until_s = np.zeros(view.platform.size)
        for end_s, _, job in view.ends:
            assert job.hosts is not None
            busy_until_s[job.hosts.ids] = end_s
        steps = self.order(np.arange(step, end_step), comp_j > 0)
        left_j, steps_changed = self._refit.spread(steps, comp_j, busy_until_s)
        why = {
            "diff_j": diff_j,
            "comp_j": comp_j,
            "window_end_s": plan.start_of(end_step),
            "spent_j" if comp_j > 0 else "saved_j": float(abs(comp_j - left_j)),
            "steps_changed": steps_changed,
        }
        return Compensate("surplus" if comp_j > 0 else "shortage", why)


class Peak(EnvelopePolicy):
    """The steps of the largest envelope first."""

    name = "peak"
    summary = "follows the plan; what the battery gained or lost goes to the steps of most power"

    def order(self, steps: IntArray, surplus: bool) -> IntArray:
        """By envelope, the largest first; of equals the earlier."""
        return steps[np.argsort(-self.plan.energy_j[steps], kind="stable")]


class Next(EnvelopePolicy):
    """The next step onward."""

    name = "next"
    summary = "follows the plan; what the battery gained or lost goes to the next steps"

    def order(self, steps: IntArray, surplus: bool) -> IntArray:
        """As time goes by."""
        return steps


class Last(EnvelopePolicy):
    """The last step backward."""

    name = "last"
    summary = "follows the plan; what the battery gained or lost goes to the window's last steps"

    def order(self, steps: IntArray, surplus: bool) -> IntArray:
        """From the last to the first."""
        return steps[::-1]


class Workload(EnvelopePolicy):
    """The steps first where demand exceeds the envelope most, or the envelope demand for a lack of energy."""

    name = "workload"
    summary = "follows the plan; what the battery gained or lost goes where demand and plan differ most"

    def order(self, steps: IntArray, surplus: bool) -> IntArray:
        """By predicted demand less envelope: the largest first for a surplus, the smallest for a lack."""
        unmet_w = self.plan.load_w[steps] - self.plan.energy_j[steps] / self.plan.step_s
        return steps[np.argsort(-unmet_w if surplus else unmet_w, kind="stable")]
