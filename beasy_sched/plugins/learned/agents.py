"""Agents that choose one of a few actions from features, and learn from rewards.

Only the features depend on servers and batteries: an agent maps `Features` to a value of each action. It
chooses the action with the largest value, the first among equals; actions are in the order of their names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError
from beasy_sched.plugins.learned.feature_names import FEATURES, Features
from beasy_sched.plugins.learned.features import EDGES, STATES, as_numbers, state_of

LearnerName = Literal["q-learning", "bandit"]

HALF_LIFE_GAMMA: Final = 0.998
"""Discount of five minutes by default: a reward in 29 hours counts half."""
GAMMA_STEP_S: Final = 300.0
"""Time to which a discount refers, s."""


class Transition(NamedTuple):
    """Choice, and its results until the next one."""

    features: Features
    action: int
    reward: float
    """Discounted sum of the rewards of the steps until the next choice."""
    discount: float
    """Discount of the time until the next choice; 0 if the window ended before."""
    credit: float
    """Discounted mean of the rewards to the window's end."""


@dataclass
class QTable:
    """Watkins' Q-learning with one table, or two of them (double Q-learning, van Hasselt 2010)."""

    actions: tuple[str, ...]
    values: FloatArray
    """Value of each action, of shape (tables, states, actions)."""
    visits: IntArray
    """Number of updates of each cell, of shape (tables, states, actions)."""
    without: frozenset[str] = frozenset()
    """Features that the agent does not use."""
    trace: float = 0.0
    """Lambda: weight of the outcome of later choices, instead of expectation, in updates."""

    @classmethod
    def new(
        cls,
        actions: tuple[str, ...],
        *,
        double: bool = False,
        without: Iterable[str] = (),
        trace: float = 0.0,
    ) -> QTable:
        """Return an untrained table."""
        shape = (1 + double, STATES, len(actions))
        return cls(actions, np.zeros(shape), np.zeros(shape, dtype=np.int64), frozenset(without), trace)

    def value_of(self, features: Features) -> FloatArray:
        """Return the value of each action: mean of the tables."""
        return np.asarray(self.values[:, state_of(features, self.without)].mean(axis=0))

    def knows(self, features: Features) -> int:
        """Return the number of updates in this state."""
        return int(self.visits[:, state_of(features, self.without)].sum())

    def learn(self, steps: Iterable[Transition], coin: np.random.Generator) -> None:
        """Learn from a window's steps; ``coin`` chooses the table if there are two.

        With a ``trace``, Q(lambda) as by Peng and Williams (1996), from the last step to the first: updates
        of a cell in one window count as one visit, because its steps are similar.
        """
        trail = [*steps]
        states = [state_of(step.features, self.without) for step in trail]
        if self.trace:
            self._learn_returns(trail, states, int(coin.integers(len(self.values))))
            return
        for number, step in enumerate(trail):
            table = int(coin.integers(2)) if len(self.values) == 2 else 0
            cell = table, states[number], step.action
            goal = step.reward
            if number + 1 < len(trail):
                goal += step.discount * self._promised(table, states[number + 1])
            alpha = float(1 + self.visits[cell]) ** -0.6
            self.visits[cell] += 1
            self.values[cell] += alpha * (goal - self.values[cell])

    def _promised(self, table: int, state: int) -> float:
        """Return the value of the best action in a state; with two tables, by the other one."""
        best = int(self.values[table, state].argmax())
        return float(self.values[-1 - table, state, best])

    def _learn_returns(self, trail: Sequence[Transition], states: Sequence[int], table: int) -> None:
        goals: defaultdict[tuple[int, int, int], list[float]] = defaultdict(list)
        goal = 0.0
        for number in range(len(trail) - 1, -1, -1):
            step, ahead = trail[number], 0.0
            if number + 1 < len(trail):
                expected = self._promised(table, states[number + 1])
                ahead = self.trace * goal + (1.0 - self.trace) * expected
            goal = step.reward + step.discount * ahead
            goals[table, states[number], step.action].append(goal)
        for cell, returns in goals.items():
            self.visits[cell] += 1
            self.values[cell] += (float(np.mean(returns)) - self.values[cell]) / float(self.visits[cell])


@dataclass
class LinearBandit:
    """LinUCB with disjoint models (Li et al. 2010): a linear model of the credit of each action."""

    actions: tuple[str, ...]
    inverse: FloatArray
    """Inverse of the sum of outer products of inputs, plus 1: of shape (actions, inputs, inputs)."""
    rewarded: FloatArray
    """Sum of inputs times credit: of shape (actions, inputs)."""
    alpha: float = 0.0
    """Weight of uncertainty in a choice: 1 during training, 0 in use."""
    without: frozenset[str] = frozenset()
    """Features that the agent does not use."""
    weights: FloatArray = field(init=False)
    """Weights of the inputs for each action, of shape (actions, inputs)."""

    def __post_init__(self) -> None:
        self._solve()

    @classmethod
    def new(cls, actions: tuple[str, ...], *, without: Iterable[str] = ()) -> LinearBandit:
        """Return an untrained bandit."""
        count, inputs = len(actions), len(FEATURES) + 1
        return cls(
            actions,
            np.tile(np.eye(inputs), (count, 1, 1)),
            np.zeros((count, inputs)),
            without=frozenset(without),
        )

    def _solve(self) -> None:
        self.weights = np.einsum("aij,aj->ai", self.inverse, self.rewarded)

    def inputs(self, features: Features) -> FloatArray:
        """Return the features as numbers, and a constant; unused features are 0."""
        seen = [name not in self.without for name in FEATURES]
        return np.append(np.where(seen, as_numbers(features), 0.0), 1.0)

    def value_of(self, features: Features) -> FloatArray:
        """Return the expected credit of each action plus ``alpha`` times its standard deviation."""
        inputs = self.inputs(features)
        values = self.weights @ inputs
        if self.alpha:
            values = values + self.alpha * np.sqrt(np.einsum("i,aij,j->a", inputs, self.inverse, inputs))
        return np.asarray(values)

    def learn(self, steps: Iterable[Transition], coin: np.random.Generator | None = None) -> None:
        """Learn from a window's steps (Sherman and Morrison's formula for each)."""
        for step in steps:
            inputs = self.inputs(step.features)
            inverse = self.inverse[step.action]
            ahead = inverse @ inputs
            inverse -= np.outer(ahead, ahead) / (1.0 + float(inputs @ ahead))
            self.rewarded[step.action] += step.credit * inputs
        self._solve()


Agent = QTable | LinearBandit


def gamma_of(gamma: float, step_s: float) -> float:
    """Return the discount of a step of ``step_s`` seconds, from that of five minutes."""
    return float(gamma ** (step_s / GAMMA_STEP_S))


def check_definitions(edges: dict[str, tuple[float, ...]]) -> None:
    """Raise ConfigError if a model was trained with other features than this program's."""
    if tuple(edges) != FEATURES:
        names = ", ".join(edges)
        raise ConfigError(
            f"was trained with other features ({names}; expected {', '.join(FEATURES)}): retrain it"
        )
    for name, own in EDGES.items():
        if edges[name] != own:
            raise ConfigError(
                f"was trained with other classes of {name!r} ({edges[name]}; expected {own}): retrain it"
            )
