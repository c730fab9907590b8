"""Policies of beasy-sched inside pybatsim, which loads them as ``beasy_sched/pybatsim``."""

from beasy_sched.plugin import Plugin

PLUGIN = Plugin("pybatsim")
