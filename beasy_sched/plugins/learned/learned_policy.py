"""Random, Q-learning, bandit: one of the four compensation policies acts at each step (thesis, ch. 5).

Each follows the plan like `peak`, `next`, `last` and `workload`, and compensates a step exactly like the
chosen one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.policy import View
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.learned.agents import (
    HALF_LIFE_GAMMA,
    Agent,
    LearnerName,
    Transition,
    gamma_of,
)
from beasy_sched.plugins.learned.feature_names import FEATURES, Features
from beasy_sched.plugins.learned.features import RewardMeter, RewardName, observe
from beasy_sched.plugins.learned.model import ACTIONS, ALL_ACTIONS, read_model, shipped_model
from beasy_sched.policies.envelope import TOLERANCE_J, EndOfWindow, EnvelopeOptions, EnvelopePolicy
from beasy_sched.policies.planned.follower import CurrentWindow, enter_window

SHIPPED: Final = "the built-in model"

Choice = tuple[int, FactDict]
"""Number of an action, and facts with the reason."""


@dataclass
class Trail:
    """Rewards and choices of each step, for training window by window."""

    gamma: float
    """Discount of the rewards for a step."""
    work: list[float] = field(default_factory=list)
    """Reward of each step, without the potential."""
    potential: list[float] = field(default_factory=list)
    """Potential at the beginning of each step."""
    windows: list[int] = field(default_factory=list)
    """Window of each step."""
    choices: dict[int, tuple[Features, int]] = field(default_factory=dict)
    """Features seen and action chosen, by step."""

    def reward_of(self, step: int) -> float:
        """Reward of a step, with the potential; that of a window's end is 0."""
        more = step + 1 < len(self.work)
        ahead = self.potential[step + 1] if more and self.windows[step + 1] == self.windows[step] else 0.0
        return (self.work[step + 1] if more else 0.0) + self.gamma * ahead - self.potential[step]

    def rewards(self) -> list[float]:
        """Reward of each step. Events in the last step are not observed and count as 0."""
        return [self.reward_of(step) for step in range(len(self.work))]

    def steps(self, reference: Sequence[float] = ()) -> list[list[Transition]]:
        """Return the choices of each window, with their results.

        Rewards are relative to a ``reference``, the rewards of another run of the same execution.
        """
        rewards, chosen = self.rewards(), sorted(self.choices)
        for step, value in enumerate(reference[: len(rewards)]):
            rewards[step] -= value
        stretches: list[list[Transition]] = []
        for place, step in enumerate(chosen):
            window = self.windows[step]
            end = self._end_of(step)
            following = chosen[place + 1] if place + 1 < len(chosen) else end
            until = min(following, end)
            features, action = self.choices[step]
            reward = self._discounted(rewards[step:until])
            discount = 0.0 if following >= end else self.gamma ** (following - step)
            credit = self._discounted(rewards[step:end]) / self._discounted([1.0] * (end - step))
            if not place or self.windows[chosen[place - 1]] != window:
                stretches.append([])
            stretches[-1].append(Transition(features, action, reward, discount, credit))
        return stretches

    def retold(self, gamma: float, *, shaped: bool) -> Trail:
        """Return the trail with another discount per step, and optionally without the potential."""
        potential = self.potential if shaped else [0.0] * len(self.potential)
        return replace(self, gamma=gamma, potential=potential)

    def reward_between(self, first: int, until: int) -> float:
        """Return the discounted sum of the rewards of some completed steps."""
        return self._discounted([self.reward_of(step) for step in range(first, until)])

    def _end_of(self, step: int) -> int:
        end = step + 1
        while end < len(self.windows) and self.windows[end] == self.windows[step]:
            end += 1
        return end

    def _discounted(self, rewards: list[float]) -> float:
        return float(np.dot(rewards, self.gamma ** np.arange(len(rewards))))


class ChoosingEnvelope(EnvelopePolicy):
    """Compensates each step like the policy chosen for it."""

    actions: tuple[str, ...] = ACTIONS
    choose: Callable[[Features], Choice]
    """Function that chooses; subclasses and trainers set it."""
    trail: Trail | None = None
    """Trail that records rewards and choices; None outside of training."""
    reward: RewardName = "jobs"
    """Unit of the recorded rewards: jobs, or their work."""
    shaped: bool = True
    """Whether recorded rewards include the potential."""

    def begin(self, view: View) -> None:
        """Copy the plan."""
        super().begin(view)
        self._window: CurrentWindow | None = None
        self._meter = RewardMeter(view.platform, reward=self.reward, shaped=self.shaped)
        self._chosen = dict.fromkeys(self.actions, 0)

    def note_rewards(self, gamma: float = HALF_LIFE_GAMMA) -> Trail:
        """Begin to record; ``gamma`` is the discount of five minutes."""
        step_s = self.plan.step_s
        self.trail = Trail(gamma_of(gamma, step_s))
        return self.trail

    def place(self, view: View, ending: EndOfWindow) -> tuple[str, FactDict]:
        """Choose an action, unless there is nothing to compensate."""
        plan, step = self.plan, ending.step
        self._window = enter_window(view, plan, step, self._window)
        if self.trail is not None:
            self.trail.work.append(self._meter.outcome(view, plan, step))
            self.trail.potential.append(self._meter.potential(plan, ending.diff_j))
            self.trail.windows.append(-1 if self._window is None else self._window.number)
        if abs(ending.comp_j) <= TOLERANCE_J:
            return self.actions[0], {}
        dangerous = self._window is not None and self._window.dangerous(step)
        features = observe(view, plan, ending, dangerous=dangerous)
        action, why = self.choose(features)
        if self.trail is not None:
            self.trail.choices[len(self.trail.work) - 1] = features, action
        name = self.actions[action]
        self._chosen[name] += 1
        return name, {"as_policy": name, **why} if view.wants_facts else {}

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the number of choices of each action."""
        return {"compensation": {f"chosen_{name}": count for name, count in self._chosen.items()}}


class RandomOptions(EnvelopeOptions, frozen=True):
    """Options of `random`."""

    seed: int = 0
    """Seed of the random choices."""
    none: bool = False
    """Whether changing nothing is one of the actions."""


class RandomChoice(ChoosingEnvelope):
    """Policy that chooses each of its actions with equal probability."""

    name = "random"
    summary = "follows the plan; compensates each step like a randomly chosen policy"
    options_type = RandomOptions
    options: RandomOptions

    def begin(self, view: View) -> None:
        """Begin to choose randomly."""
        self.actions = ALL_ACTIONS if self.options.none else ACTIONS
        super().begin(view)
        draws = np.random.default_rng(self.options.seed)
        self.choose = lambda features: (int(draws.integers(len(self.actions))), {})


class LearnedOptions(EnvelopeOptions, frozen=True):
    """Options of `q-learning` and `bandit`."""

    model: str = ""
    """Model file of `beasy-sched learn`; empty: the built-in model."""


class LearnedChoice(ChoosingEnvelope):
    """Chooses the action with the highest expected value."""

    options_type = LearnedOptions
    options: LearnedOptions
    learner: LearnerName

    def __init__(self, options: Any = None) -> None:
        """Read the model. Raises ConfigError and InputError."""
        super().__init__(options)
        path = Path(self.options.model) if self.options.model else shipped_model(self.learner)
        model = read_model(path)
        if model.learner != self.learner:
            raise ConfigError(
                f"{path}: found a model of {model.learner!r}, expected one of {self.learner!r}: use"
                f" --policy {model.learner}"
            )
        self.model_name = str(path) if self.options.model else SHIPPED
        self._agent = model.agent()
        self.actions = model.actions

    def begin(self, view: View) -> None:
        """Begin to choose."""
        super().begin(view)
        self.choose = greedy(self._agent)

    def results(self) -> dict[str, dict[str, Any]]:
        """Return the number of choices of each action, and the model."""
        ((name, section),) = super().results().items()
        return {name: {"model": self.model_name, **section}}


def greedy(agent: Agent) -> Callable[[Features], Choice]:
    """Choose the action with the largest value, the first among equals; return all values as facts."""

    def choose(features: Features) -> Choice:
        values = agent.value_of(features)
        why: FactDict = {
            f"value_{name}": float(value) for name, value in zip(agent.actions, values, strict=True)
        }
        seen = {f"seen_{name}": float(value) for name, value in zip(FEATURES, features, strict=True)}
        return int(values.argmax()), {**why, **seen}

    return choose


class QLearning(LearnedChoice):
    """Policy that chooses by a table of states and actions."""

    name = "q-learning"
    summary = "follows the plan; compensates each step like a policy chosen by Q-learning"
    learner = "q-learning"


class Bandit(LearnedChoice):
    """Policy that chooses by a linear model for each action."""

    name = "bandit"
    summary = "follows the plan; compensates each step like a policy chosen by a contextual bandit"
    learner = "bandit"
