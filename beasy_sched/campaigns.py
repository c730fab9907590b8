"""Public name of the campaigns, a plug-in."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns import *  # noqa: F403

sys.modules[__name__] = import_module("beasy_sched.plugins.campaigns")
