"""An agent of stable-baselines3, trained in the environment and run as a policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_campaign import SMALL

from beasy_sched.errors import ConfigError
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.campaigns.tasks import settings_in
from beasy_sched.plugins.learning.executions import TrainingExecution, prepare, task_of
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.in_process import run_in_process

AGENT = "beasy_sched.learning:Agent"


@pytest.mark.slow
def test_ppo_is_trained_and_decides(tmp_path: Path) -> None:
    algorithms = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    from beasy_sched.plugins.learning.environment import CompensationEnv

    scenario = parse_scenario(SMALL)
    env = CompensationEnv(scenario, days=2)
    agent = algorithms.PPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=1, device="cpu")
    agent.learn(2000)
    env.close()
    agent.save(tmp_path / "ppo.zip")

    execution = TrainingExecution(scenario, 10_000, 10_001)
    settings, inputs = settings_in(task_of(execution, prepare(execution)), tmp_path)
    policy = make_policy(AGENT, {"model": str(tmp_path / "ppo.zip")})
    summary = run_in_process(inputs, RunFiles(str(tmp_path / "run"), settings), policy=policy)
    assert summary.complete
    assert sum(summary.by_policy["compensation"].values()) > 10


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    for options, told in (
        ({"model": str(tmp_path / "none.zip")}, "does not exist"),
        ({"model": str(tmp_path / "none.zip"), "algorithm": "XYZ"}, "has no 'XYZ'"),
    ):
        policy = make_policy(AGENT, options)
        with pytest.raises(ConfigError, match=told):
            policy.begin(None)  # type: ignore[arg-type]
