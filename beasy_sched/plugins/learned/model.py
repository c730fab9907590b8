"""Files of trained agents: table or matrices, definitions of the features, and origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from beasy_sched.arrays import FloatArray, IntArray
from beasy_sched.errors import ConfigError, InputError, PathLike
from beasy_sched.formats.packed_file import PackedFormat
from beasy_sched.plugins.learned.agents import Agent, LearnerName, LinearBandit, QTable, check_definitions
from beasy_sched.plugins.learned.feature_names import FEATURES
from beasy_sched.plugins.learned.features import EDGES, STATES
from beasy_sched.policies.envelope import NOWHERE, ORDERS

MODEL_FORMAT: Final = PackedFormat("beasy-sched model", 1, "model")
ACTIONS: Final = tuple(sorted(ORDERS))
"""Actions of agents, in the order of their names."""
ALL_ACTIONS: Final = tuple(sorted((*ORDERS, NOWHERE)))
"""Actions of agents, including the one that changes nothing."""


@dataclass(frozen=True)
class Training:
    """Origin of a model."""

    program: str
    """Name and version of the program."""
    scenarios: dict[str, str]
    """SHA-256 of each scenario, by name."""
    seed: int
    days: tuple[int, int]
    """First and last seed of the days (jobs and weather)."""
    noises: tuple[int, int]
    """First and last seed of the noise."""
    episodes: int
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """Trained model. `agent` returns its agent; raises ConfigError for an invalid model."""

    learner: LearnerName
    actions: tuple[str, ...]
    edges: dict[str, tuple[float, ...]]
    """Features by name, and the boundaries of their classes."""
    without: tuple[str, ...]
    """Features that the agent does not see."""
    values: FloatArray
    """Values of a table (tables, states, actions); inverses of a bandit (actions, inputs, inputs)."""
    visits: IntArray
    """Visits of a table (tables, states, actions); empty for a bandit."""
    rewarded: FloatArray
    """Rewarded inputs of a bandit (actions, inputs); empty for a table."""
    training: Training
    curve: FloatArray
    """Mean reward per step in each episode."""

    @classmethod
    def of(cls, agent: Agent, training: Training, curve: FloatArray) -> Model:
        """Return the model of a trained agent."""
        table = isinstance(agent, QTable)
        return cls(
            learner="q-learning" if table else "bandit",
            actions=agent.actions,
            edges=dict(EDGES),
            without=tuple(sorted(agent.without)),
            values=agent.values if isinstance(agent, QTable) else agent.inverse,
            visits=agent.visits if isinstance(agent, QTable) else np.zeros(1, dtype=np.int64),
            rewarded=np.zeros(1) if isinstance(agent, QTable) else agent.rewarded,
            training=training,
            curve=curve,
        )

    def agent(self) -> Agent:
        """Return the agent, which no longer explores. Raises ConfigError."""
        self.check()
        if self.learner == "q-learning":
            return QTable(self.actions, self.values, self.visits, frozenset(self.without))
        return LinearBandit(self.actions, self.values, self.rewarded, without=frozenset(self.without))

    def check(self) -> None:
        """Raise ConfigError for the first invalid part: features, actions, shapes or numbers."""
        check_definitions(self.edges)
        if self.actions not in (ACTIONS, ALL_ACTIONS):
            raise ConfigError(f"actions: found {', '.join(self.actions)}, expected {', '.join(ALL_ACTIONS)}")
        if unknown := set(self.without) - set(FEATURES):
            raise ConfigError(f"excludes {', '.join(sorted(unknown))}, which is not a feature")
        count, inputs = len(self.actions), len(FEATURES) + 1
        if self.learner == "q-learning":
            tables = len(self.values)
            shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("values", "visits"), (tables, STATES, count))
            possible = tables in (1, 2)
        else:
            shapes = {"values": (count, inputs, inputs), "rewarded": (count, inputs)}
            possible = True
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or not possible:
                raise ConfigError(f"{name}: found an array of shape {array.shape}, expected {shape}")
            if not np.isfinite(array).all():
                raise ConfigError(f"{name}: found infinite or missing numbers, expected finite ones")


def write_model(path: PathLike, model: Model) -> None:
    """Write a model atomically. Raises InputError."""
    MODEL_FORMAT.write(path, model)


def read_model(path: PathLike) -> Model:
    """Read and check a model. Raises InputError if damaged, too new, or for other features."""
    model = MODEL_FORMAT.read(path, Model)
    try:
        model.check()
    except ConfigError as error:
        raise InputError(path, str(error)) from None
    return model


def shipped_model(learner: LearnerName) -> Path:
    """Return the built-in model."""
    return Path(str(resources.files("beasy_sched.plugins.learned") / "models" / f"{learner}.msgpack"))
