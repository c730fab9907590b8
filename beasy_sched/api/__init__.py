"""The Python interface: generate inputs, plan, simulate, compare, and read results as data frames.

    import beasy_sched as bs

    platform = bs.generate_platform({"gros": 50}, "platform.xml")
    workload = bs.generate_workload("workload.json", seed=1)
    power = bs.generate_power("power.txt", pv_kw=10, wind_kw=7, seed=1)
    plan = bs.plan(platform, workload, production=power)
    run = bs.simulate(platform, workload, power, policy="beasy", site="default", plan=plan)
    run.plot()

All functions work on files, the same as those of the command line and Batsim, and raise the same errors:
`ConfigError` for an argument, `InputError` for a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beasy_sched.api.inputs import generate_platform, generate_power, generate_workload
from beasy_sched.api.plans import plan
from beasy_sched.api.runs import Run, compare, read_run, simulate
from beasy_sched.plugin import load, target_of

if TYPE_CHECKING:
    from beasy_sched.plugins.campaigns.from_python import campaign
    from beasy_sched.plugins.foresee.from_python import foresee, what_if
    from beasy_sched.plugins.reports.pages import explain, report

__all__ = [
    "Run",
    "campaign",
    "compare",
    "explain",
    "foresee",
    "generate_platform",
    "generate_power",
    "generate_workload",
    "plan",
    "read_run",
    "report",
    "simulate",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """Load what plug-ins add to the interface."""
    target = target_of("interface", name) if not name.startswith("_") else None
    if target is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(target)
