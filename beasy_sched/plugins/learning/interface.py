"""Learning of the choice of compensation policies: training on executions of scenarios, and an environment.

Importing it registers the environment ``beasy_sched/Compensation-v0`` if Gymnasium is installed.
"""

from __future__ import annotations

from beasy_sched.errors import ConfigError
from beasy_sched.extras import load_optional
from beasy_sched.plugins.learning.agent import Agent

__all__ = ["ENVIRONMENT", "Agent"]

ENVIRONMENT = "beasy_sched/Compensation-v0"


def _register() -> None:
    try:
        gymnasium = load_optional("gymnasium", "beasy-sched[learn]", "the environment")
    except ConfigError:  # not required by the agent
        return
    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(
            ENVIRONMENT, entry_point="beasy_sched.plugins.learning.environment:CompensationEnv"
        )


_register()
