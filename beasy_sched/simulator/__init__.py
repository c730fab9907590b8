"""The embedded stand-in for Batsim 4.2.1: same messages, same files, without the network.

`Simulation` runs a scheduler (any callable from `Message` to `Reply`) on a platform and workloads;
`docs/design/conformance.md` describes its agreement with Batsim, and the evidence.
"""

from beasy_sched.simulator.outputs import Tracer
from beasy_sched.simulator.simulation import (
    Decide,
    Ending,
    Inputs,
    Simulation,
    SimulationResult,
    simulation_from_files,
)
from beasy_sched.simulator.world import SimulationOptions

__all__ = [
    "Decide",
    "Ending",
    "Inputs",
    "Simulation",
    "SimulationOptions",
    "SimulationResult",
    "Tracer",
    "simulation_from_files",
]
