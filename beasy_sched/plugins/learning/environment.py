"""The Gymnasium environment of learned compensation: an episode is an execution of a scenario.

The simulation runs in a thread that waits at each step to compensate; the action passed to
`CompensationEnv.step` replaces the choice of a policy.
"""

from __future__ import annotations

import io
import threading
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from beasy_sched.extras import import_problem

try:
    import gymnasium
    from gymnasium import spaces
except Exception as problem:
    raise import_problem(problem, "gymnasium", "beasy-sched[learn]", "the environment") from problem

from beasy_sched.engine.actions import FactDict
from beasy_sched.engine.policy import View
from beasy_sched.errors import ConfigError, Interrupted, why
from beasy_sched.model.jobs import JobState
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.campaigns.scenario import Scenario
from beasy_sched.plugins.campaigns.scenario_file import find_scenario
from beasy_sched.plugins.campaigns.tasks import settings_in
from beasy_sched.plugins.learned.agents import HALF_LIFE_GAMMA
from beasy_sched.plugins.learned.feature_names import FEATURES, Features
from beasy_sched.plugins.learned.features import RewardName, as_numbers
from beasy_sched.plugins.learned.learned_policy import Choice, ChoosingEnvelope, Trail
from beasy_sched.plugins.learned.model import ACTIONS, ALL_ACTIONS
from beasy_sched.plugins.learning.executions import (
    FIRST_SEED,
    SEEDS_END,
    Days,
    TrainingExecution,
    prepare,
    task_of,
)
from beasy_sched.policies.envelope import EndOfWindow
from beasy_sched.run.in_process import run_in_process

Observation = npt.NDArray[np.float32]

DAYS: Final = 20
"""Number of pairs of jobs and weather from which episodes are drawn; each has a plan, made once."""


class _Moment(NamedTuple):
    """State in which the simulation waits for an action, or has ended."""

    features: Features | None
    """Features of the step; None at the end."""
    error: BaseException | None = None


class _Asked(ChoosingEnvelope):
    """Policy that gets each choice from another thread."""

    name = "asked"
    summary = "an environment's actions"

    def __init__(self, episode: _EpisodeThread, gamma: float) -> None:
        super().__init__()
        self.actions, self.reward, self.shaped = episode.actions, episode.reward, episode.shaped
        self.choose = episode.ask
        self._gamma = gamma
        self.time_s = self.soc_pct = 0.0
        self.counts = dict.fromkeys(JobState, 0)
        self.levels: list[tuple[float, float]] = []

    def begin(self, view: View) -> None:
        super().begin(view)
        self.note_rewards(self._gamma)

    def place(self, view: View, ending: EndOfWindow) -> tuple[str, FactDict]:
        """Record the data of `info` and figures, then wait for an action."""
        self.time_s = view.now
        if view.budget is not None:
            self.soc_pct = view.budget.soc_pct
            self.levels.append((view.now, self.soc_pct))
        for job in view.ended:
            self.counts[job.state] += 1
        return super().place(view, ending)


class _EpisodeThread:
    """A run in a separate thread."""

    def __init__(
        self, execution: TrainingExecution, days: Days, env: CompensationEnv, prefix: str | None
    ) -> None:
        self.actions: tuple[str, ...] = env.actions
        self.reward: RewardName = env.reward
        self.shaped = env.shaped
        self.policy = _Asked(self, env.gamma)
        self._execution, self._days, self._prefix = execution, days, prefix
        self._moments: SimpleQueue[_Moment] = SimpleQueue()
        self._answers: SimpleQueue[int | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="beasy-episode", daemon=True)
        self._thread.start()

    def ask(self, features: Features) -> Choice:
        """Wait for an action; called in the run's thread."""
        self._moments.put(_Moment(features))
        answer = self._answers.get()
        if answer is None:
            raise Interrupted("the episode was aborted", 0)
        return answer, {}

    def next_moment(self) -> _Moment:
        """Wait for the run."""
        return self._moments.get()

    def answer(self, action: int) -> None:
        """Resume the run."""
        self._answers.put(action)

    def close(self) -> None:
        """Abort the run, if it has not ended, and wait for it."""
        self._answers.put(None)
        self._thread.join()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with TemporaryDirectory(prefix="beasy-learn-") as place:
                settings, inputs = settings_in(task_of(self._execution, self._days), Path(place))
                run_in_process(inputs, RunFiles(self._prefix, settings), policy=self.policy)
        except BaseException as raised:  # passed to the waiting thread
            error = raised
        self._moments.put(_Moment(None, error))


class CompensationEnv(gymnasium.Env[Observation, np.int64]):
    """Environment in which each action chooses the compensation policy of a five-minute step.

    An action is requested at each step with a surplus or a shortage.

    The observation has the seven features (`FEATURES`) as numbers from -1 to 1; the actions are `actions`, by
    default ``last``, ``next``, ``peak``, ``workload``. The reward is that of the step and of those without a
    choice after it. An episode ends with the run; it is never truncated.

    ``reset(seed=n)`` draws days and noise; ``options={"day": d, "noise": n}`` sets them. Training uses seeds
    from 10000.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        scenario: str | Scenario = "average",
        *,
        none: bool = False,
        gamma: float = HALF_LIFE_GAMMA,
        reward: RewardName = "jobs",
        shaped: bool = True,
        days: int = DAYS,
        first_seed: int = FIRST_SEED,
        render_mode: str | None = None,
    ) -> None:
        """Draw episodes from a scenario, a file or a built-in one.

        ``none`` adds an action that changes nothing; ``gamma`` discounts five minutes; ``reward`` counts
        ``jobs`` or their ``work``, and ``shaped`` adds the potential; ``days`` is the number of pairs of jobs
        and weather, from ``first_seed``. Raises ConfigError and InputError.
        """
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode: found {render_mode!r}, expected None or 'rgb_array'")
        if reward not in get_args(RewardName):
            raise ConfigError(f"reward: found {reward!r}, expected one of {', '.join(get_args(RewardName))}")
        if not FIRST_SEED <= first_seed < first_seed + days <= SEEDS_END:
            raise ConfigError(f"first_seed: found {first_seed}, expected {FIRST_SEED} to {SEEDS_END - days}")
        self.scenario = find_scenario(scenario) if isinstance(scenario, str) else scenario
        self.actions = ALL_ACTIONS if none else ACTIONS
        self.gamma, self.reward, self.shaped, self.render_mode = gamma, reward, shaped, render_mode
        self._day_seeds = range(first_seed, first_seed + days)
        self.observation_space = spaces.Box(-1.0, 1.0, (len(FEATURES),), np.float32)
        self.action_space = spaces.Discrete(len(self.actions))
        self._days: dict[int, Days] = {}
        self._episode: _EpisodeThread | None = None
        self._last = np.zeros(len(FEATURES), dtype=np.float32)
        self._rewarded = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an execution; see the class. ``options["export"]`` is the prefix of files to write.

        Raises ConfigError for seeds that are not for training, and any error that ends a run early.
        """
        super().reset(seed=seed)
        self.close()
        chosen = options or {}
        day = int(chosen.get("day", self._day_seeds[int(self.np_random.integers(len(self._day_seeds)))]))
        noise = int(chosen.get("noise", self.np_random.integers(FIRST_SEED, SEEDS_END)))
        for name, value in (("day", day), ("noise", noise)):
            if not FIRST_SEED <= value < SEEDS_END:
                raise ConfigError(f"{name}: found {value}, expected {FIRST_SEED} to {SEEDS_END - 1}")
        execution = TrainingExecution(self.scenario, day, noise)
        if day not in self._days:
            self._days[day] = prepare(execution)
        self._episode = _EpisodeThread(execution, self._days[day], self, chosen.get("export"))
        self._rewarded = 0
        observation, _, _ = self._wait(self._episode)
        return observation, {**self._info(self._episode), "day": day, "noise": noise}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Compensate with an action, and run to the next choice or the end. Raises any error of the run."""
        if self._episode is None:
            raise ConfigError("there is no episode: call reset() first")
        if not 0 <= int(action) < len(self.actions):
            raise ConfigError(f"action: found {int(action)}, expected 0 to {len(self.actions) - 1}")
        self._episode.answer(int(action))
        observation, reward, ended = self._wait(self._episode)
        return observation, reward, ended, False, self._info(self._episode)

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return an image of the state of charge so far, with the compensation of each step."""
        if self.render_mode is None or self._episode is None:
            return None
        return _picture(self._episode.policy)

    def close(self) -> None:
        """Abort the current episode, if any."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _wait(self, episode: _EpisodeThread) -> tuple[Observation, float, bool]:
        moment = episode.next_moment()
        if moment.error is not None:
            self._episode = None
            raise ConfigError(f"the run failed: {why(moment.error)}") from moment.error
        trail = episode.policy.trail
        ended = moment.features is None
        reward, until = 0.0, 0
        if trail is not None:
            until = len(trail.work) if ended else len(trail.work) - 1
            reward = trail.reward_between(self._rewarded, until)
        self._rewarded = until
        if moment.features is not None:
            self._last = as_numbers(moment.features).astype(np.float32)
        return self._last, reward, ended

    def _info(self, episode: _EpisodeThread) -> dict[str, Any]:
        policy = episode.policy
        counts = {state.value: count for state, count in policy.counts.items() if count}
        return {"time_s": policy.time_s, "soc_pct": policy.soc_pct, "jobs": counts}


def _picture(policy: _Asked) -> npt.NDArray[np.uint8]:
    from beasy_sched.plugins.reports.drawing import PALETTE, figure_bytes, new_figure
    from beasy_sched.units import SECONDS_PER_HOUR

    figure = new_figure("png", (7.0, 3.5))
    axes = figure.subplots()
    times, levels = (np.array([row[column] for row in policy.levels]) for column in (0, 1))
    axes.plot(times / SECONDS_PER_HOUR, levels, color=PALETTE[0], linewidth=1.5)
    trail: Trail | None = policy.trail
    if trail is not None:
        for number, name in enumerate(policy.actions):
            steps = [step for step, (_, action) in trail.choices.items() if action == number]
            axes.plot(
                times[steps] / SECONDS_PER_HOUR,
                levels[steps],
                ".",
                markersize=4,
                color=PALETTE[1 + number],
                label=name,
            )
    axes.set_xlabel("hours")
    axes.set_ylabel("state of charge [%]")
    axes.set_ylim(0, 100)
    axes.legend(loc="upper right", ncols=len(policy.actions), fontsize=8)
    from matplotlib.image import imread

    picture = imread(io.BytesIO(figure_bytes(figure, "png")), format="png")
    return np.asarray(picture[..., :3] * 255, dtype=np.uint8)
