"""Tables of the actions that a model prefers in each state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.plugins.learned.agents import QTable
from beasy_sched.plugins.learned.feature_names import FEATURES
from beasy_sched.plugins.learned.features import CLASSES, COMP_UNIT, EDGES
from beasy_sched.plugins.learned.model import Model

MEANINGS: Final = {
    "comp": (
        "lacks over 1 %",
        "lacks up to 1 %",
        "up to 0.1 % over",
        "0.1 to 1 % over",
        "more than 1 % over",
    ),
    "soc": ("lowest quarter", "second", "third", "highest quarter"),
    "left": ("last third", "second third", "first third"),
    "pressure": ("nothing waits", "up to a quarter", "more"),
    "danger": ("no", "yes"),
    "trend": ("plan falls", "plan rises"),
    "night": ("less than half", "at least half"),
}
"""The classes of each feature in words."""


def model_rows(model: Model) -> Iterator[tuple[str, str]]:
    """Yield the description of a model and its training."""
    training = model.training
    yield "learner", model.learner
    yield "actions", ", ".join(model.actions)
    if model.without:
        yield "does not see", ", ".join(model.without)
    yield "learned by", training.program
    yield "scenarios", ", ".join(training.scenarios)
    yield "episodes", f"{training.episodes:,} of {training.settings.get('planned_episodes', '?')}"
    yield "seeds of the days", f"{training.days[0]} to {training.days[1]}"
    yield "seeds of the noise", f"{training.noises[0]} to {training.noises[1]}"
    yield "seed of the choices", str(training.seed)
    for name, value in training.settings.items():
        if name != "planned_episodes":
            yield name, value
    if len(model.curve):
        last = model.curve[-10:]
        yield "reward of a step", f"{last.mean():.4f} (mean of the last {len(last)} episodes)"


def preference_table(model: Model) -> list[dict[str, Any]]:
    """Return one row per class of each feature: how often each action is preferred in it, %.

    Of a table: of the states that were visited, by their visits. Of a bandit: of all combinations of
    the classes' middles, which count alike.
    """
    values, weights = (_of_table if model.learner == "q-learning" else _of_bandit)(model)
    best = values.argmax(axis=1)
    places = np.array(np.unravel_index(np.arange(len(values)), CLASSES))
    rows = []
    for number, name in enumerate(FEATURES):
        if name in model.without:
            continue
        for place in range(CLASSES[number]):
            here = (places[number] == place) & (weights > 0)
            total = float(weights[here].sum())
            shares = {
                action: 100.0 * float(weights[here & (best == index)].sum()) / total if total else None
                for index, action in enumerate(model.actions)
            }
            rows.append({"feature": name, "class": MEANINGS[name][place], "steps": total, **shares})
    return rows


def preference_lines(model: Model) -> Iterator[str]:
    """Yield the lines of the table."""
    rows = preference_table(model)
    counted = "steps" if model.learner == "q-learning" else "states"
    yield f"{'feature':<9} {'class':<20} {counted:>8}" + "".join(f" {name:>9}" for name in model.actions)
    for row in rows:
        shares = (row[name] for name in model.actions)
        cells = "".join(f" {'' if share is None else f'{share:.0f} %':>9}" for share in shares)
        yield f"{row['feature']:<9} {row['class']:<20} {row['steps']:>8,.0f}{cells}"


def _of_table(model: Model) -> tuple[FloatArray, FloatArray]:
    return model.values.mean(axis=0), model.visits.sum(axis=(0, 2)).astype(np.float64)


def _of_bandit(model: Model) -> tuple[FloatArray, FloatArray]:
    agent = model.agent()
    if isinstance(agent, QTable):
        raise TypeError("a bandit was expected")
    grids = np.meshgrid(*(_middles(name) for name in FEATURES), indexing="ij")
    inputs = np.column_stack([grid.ravel() for grid in grids] + [np.ones(grids[0].size)])
    seen = np.array([name not in agent.without for name in FEATURES] + [True])
    return np.where(seen, inputs, 0.0) @ agent.weights.T, np.ones(len(inputs))


_ENDS: Final = {"comp": (-0.02, 0.02), "soc": (0, 1), "left": (0, 1), "pressure": (0, 1), "danger": (0, 1)}


def _middles(name: str) -> FloatArray:
    """Return the middle of each class of a feature, as a number from -1 to 1."""
    low, high = _ENDS.get(name, (-1, 1))
    edges = np.array([low, *EDGES[name], high], dtype=np.float64)
    middles = (edges[:-1] + edges[1:]) / 2
    if name == "danger":
        middles = np.array([0.0, 1.0])
    if name == "comp":
        middles = np.clip(middles / COMP_UNIT, -1.0, 1.0)
    if name in ("soc", "left", "pressure", "danger"):
        middles = 2 * middles - 1
    return np.asarray(middles)
