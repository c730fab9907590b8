"""Learning which compensation policy acts when: training on executions of scenarios, and an environment.

Importing it registers the environment ``beasy_sched/Compensation-v0`` where Gymnasium is installed.
"""

from __future__ import annotations

import importlib.util

from beasy_sched.learning.agent import Agent

__all__ = ["ENVIRONMENT", "Agent"]

ENVIRONMENT = "beasy_sched/Compensation-v0"


def _register() -> None:
    if importlib.util.find_spec("gymnasium") is None:
        return
    import gymnasium

    if ENVIRONMENT not in gymnasium.registry:
        gymnasium.register(ENVIRONMENT, entry_point="beasy_sched.learning.environment:CompensationEnv")


_register()
