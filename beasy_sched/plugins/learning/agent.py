"""A policy that uses an agent of stable-baselines3, trained in the Gymnasium environment."""

from __future__ import annotations

from pathlib import Path

from beasy_sched.engine.policy import View
from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional
from beasy_sched.plugins.learned.feature_names import Features
from beasy_sched.plugins.learned.features import as_numbers
from beasy_sched.plugins.learned.learned_policy import Choice, ChoosingEnvelope
from beasy_sched.plugins.learned.model import ACTIONS, ALL_ACTIONS
from beasy_sched.policies.envelope import EnvelopeOptions


class AgentOptions(EnvelopeOptions, frozen=True, kw_only=True):
    """Options of `Agent`."""

    model: str
    """File of the agent."""
    algorithm: str = "PPO"
    """Its class in stable-baselines3."""


class Agent(ChoosingEnvelope):
    """Policy that compensates each step by the deterministic choice of an agent of stable-baselines3."""

    name = "agent"
    summary = "follows the plan; balances the battery by a policy that an agent of stable-baselines3 chooses"
    options_type = AgentOptions
    options: AgentOptions

    def begin(self, view: View) -> None:
        """Load the agent. Raises ConfigError."""
        algorithms = load_optional("stable_baselines3", "stable-baselines3", "the policy")
        algorithm = getattr(algorithms, self.options.algorithm, None)
        if algorithm is None:
            raise ConfigError(f"algorithm: stable-baselines3 has no {self.options.algorithm!r}")
        if not Path(self.options.model).exists():
            raise ConfigError(f"model: {self.options.model} does not exist: give the file of a trained agent")
        try:
            agent = algorithm.load(self.options.model)
        except Exception as error:  # a broken archive can raise anything
            raise ConfigError(f"model: {self.options.model} cannot be loaded: {error}") from error
        self.actions = ALL_ACTIONS if int(agent.action_space.n) == len(ALL_ACTIONS) else ACTIONS
        super().begin(view)

        def choose(features: Features) -> Choice:
            action, _ = agent.predict(as_numbers(features).astype("float32"), deterministic=True)
            return int(action), {}

        self.choose = choose
