"""The scenarios that come with the program: those of the BEASY paper's Section V."""

from __future__ import annotations

import os
from collections.abc import Collection

from beasy_sched.errors import ConfigError
from beasy_sched.experiments.scenario import Scenario
from beasy_sched.experiments.scenario_file import parse_scenario, read_scenario
from beasy_sched.experiments.scenario_text import NAMES, scenario_text


def find_scenario(name: str, *, allowed: Collection[str] = ()) -> Scenario:
    """Read the scenario file ``name``, or the scenario of this name that comes with the program.

    ``allowed`` are the policies ``package.module:Class`` that a file may have imported.

    Raises ConfigError and InputError.
    """
    if name in NAMES and not os.path.exists(name):
        return parse_scenario(scenario_text(name), f"{name}.toml")
    if not os.path.exists(name) and not name.endswith(".toml"):
        raise ConfigError(f"no scenario is called {name!r}, and no file: there are {', '.join(NAMES)}")
    return read_scenario(name, allowed=allowed)
