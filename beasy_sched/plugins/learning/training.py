"""Training: episodes in parallel, learning in their order.

Agents explore in batches of `BATCH` episodes with the state before the batch. Then they learn from the
episodes in sequence. A model therefore depends on the seed, not on the number of processes, and a training
that was stopped continues from its last complete batch to the same bytes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from beasy_sched._version import __version__
from beasy_sched.arrays import FloatArray
from beasy_sched.errors import BeasyError, ConfigError, InputError
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.campaigns.folder import scenario_hash
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.tasks import RunTask, settings_in
from beasy_sched.plugins.campaigns.workers import Executor, Failure, Task, work_through
from beasy_sched.plugins.learned.agents import (
    HALF_LIFE_GAMMA,
    Agent,
    LearnerName,
    LinearBandit,
    QTable,
    Transition,
)
from beasy_sched.plugins.learned.feature_names import Features
from beasy_sched.plugins.learned.features import RewardName, classes_of, state_of
from beasy_sched.plugins.learned.learned_policy import Choice, ChoosingEnvelope, Trail
from beasy_sched.plugins.learned.model import (
    ACTIONS,
    ALL_ACTIONS,
    Model,
    Training,
    read_model,
    write_model,
)
from beasy_sched.plugins.learning.executions import (
    FIRST_SEED,
    Days,
    TrainingExecution,
    executions,
    prepare,
    task_of,
)
from beasy_sched.run.in_process import run_in_process

BATCH: Final = 8
"""Number of episodes that explore with the same state of the agent."""
_REFERENCE: Final = "reference"
_GREEDY_FROM, _LEAST_EPSILON = 0.8, 0.05
"""Share of the episodes after which Q-learning stops exploring, and its smallest rate of exploration."""


class TrainingFailed(BeasyError):
    """An episode failed; the message names it, and the reason."""


class OtherLesson(ConfigError):
    """A model was trained with other settings; the message names the first difference."""


@dataclass(frozen=True)
class Lesson:
    """Settings of a training: learner, episodes, rewards and options."""

    learner: LearnerName
    episodes: int
    seed: int = 1
    first_seed: int = FIRST_SEED
    gamma: float = HALF_LIFE_GAMMA
    """Discount of the rewards, for five minutes."""
    double: bool = False
    """Whether Q-learning is double Q-learning."""
    none: bool = False
    """Whether "do nothing" is one of the actions."""
    reward: RewardName = "jobs"
    """Unit of the rewards: jobs, or their work."""
    shaped: bool = True
    """Whether rewards include the potential."""
    reference: str = "last"
    """Policy whose rewards in the same execution are subtracted from the agent's; empty for none."""
    trace: float = 1.0
    """Lambda of Q-learning; 0 for Watkins' own algorithm."""
    rules: bool = True
    """Whether an exploratory action applies to a whole episode, for each class of E_comp."""
    without: tuple[str, ...] = ()
    """Features hidden from the agent."""

    def new_agent(self) -> Agent:
        """Return an untrained agent."""
        actions = ALL_ACTIONS if self.none else ACTIONS
        if self.learner == "q-learning":
            return QTable.new(actions, double=self.double, without=self.without, trace=self.trace)
        return LinearBandit.new(actions, without=self.without)

    def epsilon(self, episode: int) -> float:
        """Return the share of random choices in an episode."""
        if self.learner == "bandit":
            return 0.0
        until = _GREEDY_FROM * self.episodes
        return 0.0 if episode >= until else 1.0 + (_LEAST_EPSILON - 1.0) * episode / until

    def described(self) -> dict[str, str]:
        """Return the settings as strings, without learner, episodes and seeds."""
        return {
            "planned_episodes": str(self.episodes),
            "gamma": f"{self.gamma:g}",
            "double": str(self.double).lower(),
            "none": str(self.none).lower(),
            "reward": self.reward,
            "reference": self.reference or "none",
            "trace": f"{self.trace:g}",
            "rules": str(self.rules).lower(),
            "shaped": str(self.shaped).lower(),
        }


@dataclass(frozen=True)
class Episode:
    """An execution to run with an exploring agent."""

    run: RunTask
    agent: Agent | str
    """The choosing agent, or the name of a fixed action, or ``random``."""
    epsilon: float
    rng: tuple[int, ...]
    """Seeds of the random choices in the episode."""
    lesson: Lesson


@dataclass(frozen=True)
class Experience:
    """Experience from an episode."""

    trail: Trail
    reference: Trail | None = None
    """Trail of the same execution with the reference; None without a reference."""

    @property
    def reward(self) -> float:
        """Mean reward of all steps."""
        rewards = self.trail.rewards()
        return float(np.mean(rewards)) if rewards else 0.0

    def windows(self) -> list[list[Transition]]:
        """Return the transitions to learn from, window by window."""
        return self.trail.steps(() if self.reference is None else self.reference.rewards())

    def retold(self, before: Lesson, lesson: Lesson) -> Experience:
        """Return the experience with the discount and potential of ``lesson`` instead of ``before``."""
        gamma = self.trail.gamma
        if lesson.gamma != before.gamma:
            gamma = lesson.gamma ** (math.log(gamma) / math.log(before.gamma))
        return Experience(
            self.trail.retold(gamma, shaped=lesson.shaped),
            self.reference and self.reference.retold(gamma, shaped=lesson.shaped),
        )


KeepExperience = Callable[[int, list[Experience]], None]
"""Callback with the number of a batch's first episode, and the results of the batch."""


class Explorer(ChoosingEnvelope):
    """Policy that chooses for an episode, and records the transitions."""

    name = "explorer"
    summary = "an agent that learns"

    def __init__(self, episode: Episode) -> None:
        """Choose as given by ``episode``."""
        super().__init__()
        agent, lesson = episode.agent, episode.lesson
        self.reward, self.shaped = lesson.reward, lesson.shaped
        self.actions = ACTIONS if isinstance(agent, str) else agent.actions
        self._gamma = lesson.gamma
        self.choose = chooser(
            agent, episode.epsilon, np.random.default_rng(episode.rng), self.actions, rules=lesson.rules
        )

    def begin(self, view: Any) -> None:
        """Start recording."""
        super().begin(view)
        self.note_rewards(self._gamma)


def chooser(
    agent: Agent | str, epsilon: float, rng: np.random.Generator, actions: Sequence[str], *, rules: bool
) -> Callable[[Features], Choice]:
    """Return the chooser of an episode: an exploring agent, a fixed action, or random choice.

    With ``rules``, exploration and its action are drawn once for each class of E_comp.
    """
    drawn: dict[int, int | None] = {}

    def explored(features: Features) -> int | None:
        place = classes_of(state_of(features))["comp"] if rules else -1
        if place not in drawn or not rules:
            drawn[place] = int(rng.integers(len(actions))) if rng.random() < epsilon else None
        return drawn[place]

    def choose(features: Features) -> Choice:
        if isinstance(agent, str):
            return (int(rng.integers(len(actions))) if agent == "random" else actions.index(agent)), {}
        action = explored(features) if epsilon else None
        return int(agent.value_of(features).argmax()) if action is None else action, {}

    return choose


def run_episode(episode: Episode) -> Experience:
    """Run an execution. Raises TrainingFailed and any error that ends a run early."""
    policy = Explorer(episode)
    with TemporaryDirectory(prefix="beasy-learn-") as place:
        settings, inputs = settings_in(episode.run, Path(place))
        summary = run_in_process(inputs, RunFiles(None, settings, decisions=False), policy=policy)
    trail = policy.trail
    if not summary.complete or trail is None:
        raise TrainingFailed(f"the run is incomplete: {summary.error or 'it ended early'}")
    return Experience(trail)


def learn(
    lesson: Lesson,
    scenarios: Sequence[Scenario],
    executor: Executor,
    *,
    earlier: Model | None = None,
    report: Callable[[Model], None] | None = None,
    keep: KeepExperience | None = None,
) -> Model:
    """Train; return the model. ``earlier`` is the model of an earlier training with the same lesson.

    After every batch, ``keep`` gets the batch, and then ``report`` the model. Raises ConfigError for
    reserved seeds, OtherLesson for a model of another lesson, TrainingFailed, and MachineError; the
    executor is closed in any case.
    """
    with contextlib.closing(executor):
        work = executions(scenarios, lesson.episodes, lesson.first_seed)
        hashes = {scenario.name: scenario_hash(scenario) for scenario in scenarios}
        agent, curve = lesson.new_agent(), np.empty(0)
        if earlier is not None:
            check_same_lesson(earlier, model_of(lesson, agent, curve, work, hashes))
            curve = earlier.curve
            if isinstance(agent, QTable):
                agent.values, agent.visits = earlier.values.copy(), earlier.visits.copy()
            else:
                agent = replace(agent, inverse=earlier.values.copy(), rewarded=earlier.rewarded.copy())
        model = model_of(lesson, agent, curve, work, hashes)
        days: dict[tuple[str, int], Days] = {}
        for first in range(len(curve), len(work), BATCH):
            batch = work[first : first + BATCH]
            experiences = explore(lesson, agent, batch, first, executor, days)
            if keep is not None:
                keep(first, experiences)
            learn_from(agent, lesson, first, experiences)
            curve = np.append(curve, [experience.reward for experience in experiences])
            model = model_of(lesson, agent, curve, work, hashes)
            if report is not None:
                report(model)
        return model


def learn_from(agent: Agent, lesson: Lesson, first: int, experiences: Sequence[Experience]) -> None:
    """Learn from episodes, from number ``first``, in their order."""
    for number, experience in enumerate(experiences, first):
        for window in experience.windows():
            agent.learn(window, np.random.default_rng((lesson.seed, number, 1)))


def learn_to_file(
    path: Path,
    lesson: Lesson,
    scenarios: Sequence[Scenario],
    executor: Executor,
    *,
    report: Callable[[float], None] | None = None,
    keep: KeepExperience | None = None,
) -> Model:
    """Train, or continue the training of a file; write it after every batch, and return the model.

    ``report`` gets the share of the episodes after every batch. Raises InputError for a file of another
    lesson; otherwise as `learn`.
    """

    def write(model: Model) -> None:
        write_model(path, model)
        if report is not None:
            report(len(model.curve) / lesson.episodes)

    with contextlib.closing(executor):
        earlier = read_model(path) if path.exists() else None
        try:
            return learn(lesson, scenarios, executor, earlier=earlier, report=write, keep=keep)
        except OtherLesson as error:
            raise InputError(path, str(error)) from None


def explore(
    lesson: Lesson,
    agent: Agent | str,
    batch: Sequence[TrainingExecution],
    first: int,
    executor: Executor,
    days: dict[tuple[str, int], Days],
) -> list[Experience]:
    """Run some executions, from number ``first``, with the current agent; return them in their order.

    ``days`` caches prepared inputs. Raises TrainingFailed.
    """
    for key in [key for key in days if key not in {(one.scenario.name, one.day) for one in batch}]:
        del days[key]
    missing = {(one.scenario.name, one.day): one for one in batch if (one.scenario.name, one.day) not in days}
    days |= _all(executor, ((key, prepare, one) for key, one in missing.items()))
    explorer = agent
    if isinstance(agent, LinearBandit):
        explorer = replace(agent, alpha=1.0)

    def episodes() -> Iterator[Task]:
        for number, one in enumerate(batch, first):
            run = task_of(one, days[one.scenario.name, one.day])
            episode = Episode(run, explorer, lesson.epsilon(number), (lesson.seed, number, 0), lesson)
            yield number, run_episode, episode
            if lesson.reference:
                yield (number, _REFERENCE), run_episode, replace(episode, agent=lesson.reference)

    by_number = _all(executor, episodes())
    numbers = range(first, first + len(batch))
    if not lesson.reference:
        return [by_number[number] for number in numbers]
    return [replace(by_number[number], reference=by_number[number, _REFERENCE].trail) for number in numbers]


def level_lines(
    model: Model,
    scenarios: Sequence[Scenario],
    executor: Executor,
    *,
    share: float = 0.1,
    report: Callable[[float], None] | None = None,
) -> dict[str, float]:
    """Return the reward of the fixed and random choices in the last ``share`` of a model's episodes.

    Raises TrainingFailed; the executor is closed in any case.
    """
    with contextlib.closing(executor):
        lesson = replace(lesson_of(model), reference="")
        work = executions(scenarios, model.training.episodes, lesson.first_seed)
        first = min(int((1.0 - share) * len(work)), len(work) - 1)
        mean_rewards, days = {}, dict[tuple[str, int], Days]()
        names = (*ACTIONS, "random")
        for number, name in enumerate(names, 1):
            experiences: list[Experience] = []
            for place in range(first, len(work), BATCH):
                experiences += explore(lesson, name, work[place : place + BATCH], place, executor, days)
            mean_rewards[name] = float(np.mean([experience.reward for experience in experiences]))
            if report is not None:
                report(number / len(names))
        return mean_rewards


def lesson_of(model: Model) -> Lesson:
    """Return the description of the training."""
    training = model.training
    settings = training.settings
    return Lesson(
        model.learner,
        int(settings["planned_episodes"]),
        seed=training.seed,
        first_seed=training.days[0],
        gamma=float(settings["gamma"]),
        double=settings["double"] == "true",
        none=settings["none"] == "true",
        reward="work" if settings["reward"] == "work" else "jobs",
        reference="" if settings["reference"] == "none" else settings["reference"],
        trace=float(settings["trace"]),
        rules=settings["rules"] == "true",
        shaped=settings["shaped"] == "true",
        without=model.without,
    )


def _all(executor: Executor, tasks: Iterable[Task]) -> dict[Any, Any]:
    results: dict[Any, Any] = {}
    work_through(executor, tasks, results.__setitem__)
    for key, result in results.items():
        if isinstance(result, Failure):
            raise TrainingFailed(f"episode {key}: {result.error}")
    return results


def model_of(
    lesson: Lesson, agent: Agent, curve: FloatArray, work: Sequence[TrainingExecution], hashes: dict[str, str]
) -> Model:
    """Return the current state as a model."""
    training = Training(
        program=f"beasy-sched {__version__}",
        scenarios=hashes,
        seed=lesson.seed,
        days=(work[0].day, work[-1].day),
        noises=(work[0].noise, work[-1].noise),
        episodes=len(curve),
        settings=lesson.described(),
    )
    return Model.of(agent, training, np.asarray(curve))


def check_same_lesson(earlier: Model, wanted: Model) -> None:
    """Raise OtherLesson, naming the first difference, if ``earlier`` is of another training."""
    before, now = earlier.training, wanted.training
    pairs = {
        "learner": (earlier.learner, wanted.learner),
        "seed": (before.seed, now.seed),
        "days": (before.days, now.days),
        "scenarios": (before.scenarios, now.scenarios),
        "omitted features": (earlier.without, wanted.without),
        "program": (before.program, now.program),
        **{name: (value, now.settings.get(name)) for name, value in before.settings.items()},
    }
    for name, (old, new) in pairs.items():
        if old != new:
            raise OtherLesson(
                f"was trained with another {name} ({old}, now {new}): choose another --output, or give the"
                " same"
            )
