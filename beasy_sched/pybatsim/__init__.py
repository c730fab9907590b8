"""Policies of beasy-sched inside pybatsim: ``pybatsim beasy_sched/pybatsim -o '{"policy": "easy"}'``.

pybatsim derives the class name from the last part of the path, hence `Pybatsim`.
"""

from beasy_sched.pybatsim.scheduler import BeasyScheduler

Pybatsim = BeasyScheduler

__all__ = ["BeasyScheduler", "Pybatsim"]
