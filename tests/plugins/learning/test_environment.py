"""The Gymnasium environment: its own checks, and the same runs as policies make."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from small_campaign import SMALL

from beasy_sched.errors import ConfigError
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.tasks import settings_in
from beasy_sched.plugins.learned.model import ACTIONS
from beasy_sched.plugins.learning.executions import TrainingExecution, prepare, task_of
from beasy_sched.run.in_process import run_in_process

gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium is not installed")

SCENARIO = parse_scenario(SMALL)
WHEN = {"day": 10_003, "noise": 10_004}


@pytest.fixture
def env():
    import beasy_sched.learning

    made = gymnasium.make(beasy_sched.learning.ENVIRONMENT, scenario=SCENARIO, days=2)
    yield made.unwrapped
    made.close()


@pytest.mark.slow
def test_gymnasium_s_own_checks(env):
    from gymnasium.utils.env_checker import check_env

    check_env(env, skip_render_check=True)


def test_an_episode_ends_with_the_run(env):
    observation, info = env.reset(seed=1, options=WHEN)
    assert (info["day"], info["noise"], info["time_s"]) == (10_003, 10_004, 0.0)
    steps, rewards, ended = 0, [], False
    while not ended:
        assert env.observation_space.contains(observation)
        observation, reward, ended, truncated, info = env.step(np.int64(steps % 4))
        steps, rewards = steps + 1, [*rewards, reward]
        assert not truncated
    assert 10 < steps <= 36
    assert sum(info["jobs"].values()) > 10
    assert np.isfinite(rewards).all()


@pytest.mark.sampled
@pytest.mark.parametrize("action", [0, 3])
def test_the_same_actions_give_the_same_run(env, tmp_path: Path, action: int):
    env.reset(options={**WHEN, "export": str(tmp_path / "env")})
    while not env.step(np.int64(action))[2]:
        pass
    execution = TrainingExecution(SCENARIO, **WHEN)
    settings, inputs = settings_in(task_of(execution, prepare(execution), ACTIONS[action]), tmp_path)
    run_in_process(inputs, RunFiles(str(tmp_path / "own"), settings))
    for name in ("jobs.csv", "energy_trace.csv"):
        assert (tmp_path / f"env_{name}").read_bytes() == (tmp_path / f"own_{name}").read_bytes()


def test_the_same_seed_draws_the_same_days(env):
    first = env.reset(seed=5)[1]
    assert env.reset(seed=5)[1] == first
    assert env.reset()[1] != first
    assert 10_000 <= first["day"] < 10_002


def test_an_episode_that_is_given_up_leaves_no_thread(env):
    env.reset(seed=1)
    env.step(np.int64(0))
    env.reset(seed=2)
    env.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "beasy-episode"]


def test_a_picture_of_the_window_so_far():
    from beasy_sched.plugins.learning.environment import CompensationEnv

    env = CompensationEnv(SCENARIO, render_mode="rgb_array")
    assert env.render() is None
    env.reset(options=WHEN)
    for _ in range(5):
        env.step(np.int64(1))
    picture = env.render()
    env.close()
    assert picture is not None
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert len(np.unique(picture)) > 10


def test_wrong_use(env):
    from beasy_sched.plugins.learning.environment import CompensationEnv

    with pytest.raises(ConfigError, match=r"call reset\(\) first"):
        env.step(np.int64(0))
    with pytest.raises(ConfigError, match="day: found 7, expected 10000"):
        env.reset(options={"day": 7})
    env.reset(options=WHEN)
    with pytest.raises(ConfigError, match="action: found 9"):
        env.step(np.int64(9))
    with pytest.raises(ConfigError, match="render_mode"):
        CompensationEnv(SCENARIO, render_mode="human")
    with pytest.raises(ConfigError, match="first_seed: found 5"):
        CompensationEnv(SCENARIO, first_seed=5)
