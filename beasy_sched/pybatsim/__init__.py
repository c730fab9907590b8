"""Our policies inside pybatsim: ``pybatsim beasy_sched/pybatsim -o '{"policy": "easy"}'``.

pybatsim makes the class's name from the last part of the path it is given, hence `Pybatsim`.
"""

from beasy_sched.pybatsim.scheduler import BeasyScheduler

Pybatsim = BeasyScheduler

__all__ = ["BeasyScheduler", "Pybatsim"]
