"""The evaluation of learned compensation: what is run, and what is trained for it.

The built-in agents, `random`, and the four policies that they choose from are one campaign,
on executions not used in training. *Variations* are agents of Q-learning that learn from one training's
episodes with one change each; they are a separate campaign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace as replaced

from beasy_sched.errors import ConfigError, InputError
from beasy_sched.formats.atomic import hold_folder, write_atomic, write_inside
from beasy_sched.formats.decoding import Malformed, decode_json, decode_msgpack, read_json
from beasy_sched.formats.reading import read_bytes
from beasy_sched.plugins.campaigns.scenario import PolicyPart, Scenario, quick
from beasy_sched.plugins.campaigns.scenario_file import check_scenario, find_scenario
from beasy_sched.plugins.campaigns.workers import Executor
from beasy_sched.plugins.learned.feature_names import FEATURES
from beasy_sched.plugins.learned.model import ACTIONS, Model, read_model, shipped_model, write_model
from beasy_sched.plugins.learning.executions import FIRST_SEED
from beasy_sched.plugins.learning.training import (
    BATCH,
    Experience,
    Lesson,
    learn_from,
    learn_to_file,
    lesson_of,
    level_lines,
)
from studies.comparison.study import (
    Extent,
    average_cases,
    comparison,
    find_cases,
)

FIXED: Final = ACTIONS
"""The policies that agents choose from."""
LEARNERS: Final = ("q-learning", "bandit")
CHANCE: Final = "random"
MIXES: Final = (*LEARNERS, CHANCE)
EVALUATED: Final = (*LEARNERS, CHANCE, *FIXED)
FULL: Final = "full"
"""The variation that varies nothing."""
GREEDY: Final = "gamma-0"
UNSHAPED: Final = "no-shaping"
VARIATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    FULL: {},
    GREEDY: {"gamma": 0.0},
    UNSHAPED: {"shaped": False},
    **{f"without-{name}": {"without": (name,)} for name in FEATURES},
}
"""Settings of a `Lesson` in which an agent differs, by the name that tables use."""
_VARIED_LEARNER: Final = "q-learning"
VARIED: Final = "variations"
"""Name of the scenario of the variations."""
_QUICK_EPISODES: Final = 8


@dataclass(frozen=True)
class Evaluation:
    """Agents, policies and executions of the evaluation. ``extent.small``: a trial with reduced numbers."""

    extent: Extent
    variation_noises: int
    """Number of noise seeds of each pair of days where variations are compared; 0: no variations."""
    episodes: int = 40
    """Number of episodes that variations learn from."""
    others: tuple[PolicyPart, ...] = ()
    """Further policies that are evaluated."""

    def __post_init__(self) -> None:
        """Raise ConfigError for executions that agents may have learned from."""
        for seeds in (self.extent.seeds, self.extent.days):
            if seeds.stop > FIRST_SEED:
                raise ConfigError(
                    f"seeds {seeds.start} to {seeds.stop - 1}: agents learn from seeds of {FIRST_SEED} and"
                    f" more, and are evaluated on others: choose seeds up to {FIRST_SEED - 1}"
                )

    @property
    def variations(self) -> tuple[str, ...]:
        """Names of the variations: in a trial, only three."""
        names = tuple(VARIATIONS) if self.variation_noises else ()
        return names[:3] if self.extent.small else names

    def scenarios(self) -> list[Scenario]:
        """Return the average and the critical cases, with all policies that are evaluated."""
        cases = find_cases(("average", "critical"))
        return comparison(cases[::-1], (*EVALUATED, *self.others), self.extent)

    def varied(self, models: Mapping[str, Path]) -> list[Scenario]:
        """Return the average cases with the variations, whose models are in files."""
        parts = tuple(
            PolicyPart(name=_VARIED_LEARNER, label=name, options={"model": str(path)})
            for name, path in models.items()
        )
        [found] = average_cases(replace(self.extent, seeds_per_day=self.variation_noises))
        found = replaced(found, name=VARIED, policies=parts)
        check_scenario(found)
        return [quick(found) if self.extent.small else found]

    def lesson(self) -> tuple[Lesson, list[Scenario]]:
        """Return how the full variation learns, and on what: as the built-in agent."""
        shipped = read_model(shipped_model(_VARIED_LEARNER))
        lesson = lesson_of(shipped)
        scenarios = [find_scenario(name) for name in shipped.training.scenarios]
        if self.extent.small:
            return replace(lesson, episodes=_QUICK_EPISODES), [quick(scenarios[0])]
        return replace(lesson, episodes=self.episodes), scenarios

    def train(
        self, folder: Path, executor: Executor, report: Callable[[float], None] | None = None
    ) -> dict[str, Path]:
        """Train the full variation, or what is left of it, and let the others learn from its episodes.

        The files of the models, which are returned by variation, and the episodes are in a folder. ``report``
        is called with the share of the episodes. Raises InputError for another lesson's files, TrainingFailed
        and MachineError; the executor is closed in any case.
        """
        lesson, scenarios = self.lesson()
        folder.mkdir(parents=True, exist_ok=True)
        with hold_folder(folder) as held, held.inner("episodes"):
            pass  # it can be made, or is there

        def keep(first: int, found: list[Experience]) -> None:
            write_inside(folder, f"episodes/{first}.msgpack", msgspec.msgpack.encode(found))

        paths = {name: folder / f"{name}.msgpack" for name in self.variations}
        full = learn_to_file(paths[FULL], lesson, scenarios, executor, report=report, keep=keep)
        for name, path in paths.items():
            if name != FULL:
                write_model(path, _learned_again(folder / "episodes", lesson, VARIATIONS[name], full))
        return paths


def _learned_again(folder: Path, lesson: Lesson, changes: Mapping[str, Any], full: Model) -> Model:
    """Training of an agent with a changed lesson the episodes of another one. Raises InputError."""
    changed = replace(lesson, **changes)
    agent = changed.new_agent()
    for first in range(0, lesson.episodes, BATCH):
        path = folder / f"{first}.msgpack"
        try:
            found = decode_msgpack(read_bytes(path), list[Experience])
        except Malformed:
            raise InputError(path, "is damaged: remove the folder of the models, and train again") from None
        learn_from(agent, changed, first, [each.retold(lesson, changed) for each in found])
    training = replace(full.training, settings=changed.described())
    return Model.of(agent, training, full.curve)


def learned_models() -> dict[str, Model]:
    """Return the built-in models, by learner."""
    return {name: read_model(shipped_model(name)) for name in LEARNERS}


class _Levels(msgspec.Struct):
    """The file of the rewards of chance and of the fixed policies."""

    training: dict[str, Any]
    levels: dict[str, float]


def reward_levels(
    path: Path, model: Model, executor: Executor, report: Callable[[float], None] | None = None
) -> dict[str, float]:
    """Return the rewards of chance and of the fixed policies on a model's last executions.

    They are kept in a file, and read from there where it is of the same training. Raises TrainingFailed; the
    executor is closed in any case.
    """
    origin: Any = decode_json(msgspec.json.encode(model.training), object)
    if path.exists():
        kept = read_json(path, _Levels)
        if kept.training == origin:
            executor.close()
            return kept.levels
    scenarios = [find_scenario(name) for name in model.training.scenarios]
    levels = level_lines(model, scenarios, executor, report=report)
    write_atomic(path, msgspec.json.encode({"training": origin, "levels": levels}))
    return levels
