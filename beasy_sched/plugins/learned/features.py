"""Features of a step, and rewards.

All features are ratios, so that a model trained on one site can be used on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.engine.policy import View
from beasy_sched.model.jobs import Job, JobState
from beasy_sched.model.platform import Platform
from beasy_sched.planner.forecast import draw_by_busy_w
from beasy_sched.plugins.learned.feature_names import FEATURES, Features
from beasy_sched.policies.envelope import EndOfWindow
from beasy_sched.policies.planned.follower import battery_j
from beasy_sched.policies.planned.working_plan import WorkingPlan
from beasy_sched.units import SECONDS_PER_HOUR

COMP_UNIT: Final = 0.01
"""E_comp of a step over the capacity that maps to 1: most values are much smaller."""
_TREND_H, _NIGHT_H = 2, 6
"""Look-ahead of the trend and night features, hours."""


EDGES: Final[dict[str, tuple[float, ...]]] = {
    "comp": (-0.01, 0.0, 0.001, 0.01),
    "soc": (0.25, 0.5, 0.75),
    "left": (1 / 3, 2 / 3),
    "pressure": (1e-9, 0.25),
    "danger": (0.5,),
    "trend": (0.0,),
    "night": (-1 / 3,),
}
"""Boundaries between the classes of each feature; a boundary value belongs to the upper class."""
CLASSES: Final = tuple(len(EDGES[name]) + 1 for name in FEATURES)
STATES: Final = int(np.prod(CLASSES))
"""Number of states of a table."""


def state_of(features: Features, without: frozenset[str] = frozenset()) -> int:
    """Return the number of the features' state; features ``without`` count as their first class."""
    state = 0
    for name, value, classes in zip(FEATURES, features, CLASSES, strict=True):
        place = 0 if name in without else int(np.searchsorted(EDGES[name], value, side="right"))
        state = state * classes + place
    return state


def classes_of(state: int) -> dict[str, int]:
    """Return the class of each feature in a state."""
    places = np.unravel_index(state, CLASSES)
    return {name: int(place) for name, place in zip(FEATURES, places, strict=True)}


def as_numbers(features: Features) -> FloatArray:
    """Return the features as numbers from -1 to 1, in their order."""
    comp, soc, left, pressure, danger, trend, night = features
    scaled = (comp / COMP_UNIT, 2 * soc - 1, 2 * left - 1, 2 * pressure - 1, 2 * danger - 1, trend, night)
    return np.clip(np.array(scaled, dtype=np.float64), -1.0, 1.0)


def observe(view: View, plan: WorkingPlan, ending: EndOfWindow, *, dangerous: bool) -> Features:
    """Return the features of a step; ``dangerous`` by the nine curves of its window."""
    battery, (step, end_step, _, comp_j) = plan.battery, ending
    waiting = view.queue.res[view.queue.places()]
    ahead = slice(step + 1, min(step + 1 + _steps(plan, _TREND_H), plan.steps))
    sky = slice(step, min(step + _steps(plan, _NIGHT_H), plan.steps))
    now_j, later_j = float(plan.energy_j[step]), _mean(plan.energy_j[ahead])
    room_j = max(battery.max_j - battery.min_j, 1e-9)
    window_steps = end_step - plan.window_start(step)
    return Features(
        comp=comp_j / battery.capacity_j if battery.exists else 0.0,
        soc=min(max((battery_j(view) - battery.min_j) / room_j, 0.0), 1.0),
        left=(end_step - step) / window_steps,
        pressure=float(waiting.sum()) / view.platform.size,
        danger=float(dangerous),
        trend=_contrast(later_j, now_j) if ahead.stop > ahead.start else 0.0,
        night=_contrast(float(plan.renew_w[sky].sum()), float(plan.load_w[sky].sum())),
    )


def _steps(plan: WorkingPlan, hours: int) -> int:
    return max(1, round(hours * SECONDS_PER_HOUR / plan.step_s))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _contrast(one: float, other: float) -> float:
    """Return (one - other) / (one + other) of two non-negative numbers; 0 if both are 0."""
    return (one - other) / (one + other) if one + other > 0.0 else 0.0


# --- reward -------------------------------------------------------------------------------------------------

RewardName = Literal["jobs", "work"]
KILLED: Final = 2.0
"""Cost of losing a job (or its work), relative to the gain of finishing it."""
DISTANCE: Final = 2.0
"""Weight of the distance from the target in the potential."""


class RewardMeter:
    """Rewards of steps: jobs finished - 2 x jobs killed; or the same with work, over its expectation.

    Work is the work of jobs until they ended. The potential -2 |E(T) - target| / capacity is added as
    gamma x next - current. This does not change optimal policies (Ng, Harada, Russell 1999), but shows the
    effect of the distance from the target immediately instead of at the window's end.
    """

    def __init__(self, platform: Platform, *, reward: RewardName = "jobs", shaped: bool = True) -> None:
        """Reward events on ``platform``: ``jobs`` or their ``work``; ``shaped``: with the potential."""
        self._reward, self._shaped = reward, shaped
        self._draw_w = draw_by_busy_w(platform)
        speeds = [kind.speeds_flops[kind.fastest] for kind in platform.kinds]
        self._speed_flops = float(np.asarray(speeds)[platform.kind_of].mean())

    def outcome(self, view: View, plan: WorkingPlan, step: int) -> float:
        """Return the reward of the jobs that have just ended in ``step``, without the potential."""
        if self._reward == "work":
            return self.work(view, view.ended) / self.expected_flops(plan, step)
        states = [job.state for job in view.ended if job.state is not JobState.REJECTED]
        return float(sum(1.0 if state in _DONE else -KILLED for state in states))

    def expected_flops(self, plan: WorkingPlan, step: int) -> float:
        """Return the expected work of each step in the window of ``step``, flops."""
        window = slice(plan.window_start(step), plan.window_end(step))
        busy = np.interp(plan.load_w[window], self._draw_w, np.arange(len(self._draw_w)))
        return max(float(busy.mean()), 1e-3) * self._speed_flops * plan.step_s

    def work(self, view: View, ended: Sequence[Job]) -> float:
        """Return the work finished - 2 x work killed of jobs that have ended, flops."""
        counted = [job for job in ended if job.state is not JobState.REJECTED]
        if not counted:
            return 0.0
        flops = view.progress(counted).work_flops * np.array([job.res for job in counted])
        done = np.array([job.state in _DONE for job in counted])
        return float(np.nansum(np.where(done, flops, -KILLED * flops)))

    def potential(self, plan: WorkingPlan, diff_j: float) -> float:
        """Return the potential of a step projected to end its window ``diff_j`` (J) from the target."""
        if not self._shaped or not plan.battery.exists:
            return 0.0
        return -DISTANCE * abs(diff_j) / plan.battery.capacity_j


_DONE: Final = frozenset({JobState.FINISHED, JobState.FAILED})
