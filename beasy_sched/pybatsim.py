"""Public name of the scheduler for pybatsim, a plug-in."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beasy_sched.plugins.pybatsim.scheduler import *  # noqa: F403

sys.modules[__name__] = import_module("beasy_sched.plugins.pybatsim.scheduler")
