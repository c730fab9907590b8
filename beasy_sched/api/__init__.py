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

from beasy_sched.api.inputs import generate_platform, generate_power, generate_workload
from beasy_sched.api.pages import explain, report
from beasy_sched.api.plans import plan
from beasy_sched.api.runs import Run, campaign, compare, read_run, simulate

__all__ = [
    "Run",
    "campaign",
    "compare",
    "explain",
    "generate_platform",
    "generate_power",
    "generate_workload",
    "plan",
    "read_run",
    "report",
    "simulate",
]
