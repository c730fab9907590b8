"""The text of the scenario files that come with the program."""

from __future__ import annotations

from typing import Final

CASES: Final = ("best", "worst")
SHAPES: Final = ("begin", "end")
NAMES: Final = (*(f"{case}-{shape}" for case in CASES for shape in SHAPES), "average")
"""Names of the scenarios: the four critical ones, and the average cases."""

_AVERAGE_TUPLES: Final = 10
_AVERAGE_SHAPES: Final = ("begin", "end", "uniform")
_CRITICAL_WORKLOADS: Final = {"begin": 101, "end": 102}
"""Seeds of the two workloads."""
_CRITICAL_PRODUCTION: Final = 18
"""Seed of the one profile; the file says why this one."""


def scenario_text(name: str) -> str:
    """Return the file of one of `NAMES`. Raises KeyError."""
    if name == "average":
        return _AVERAGE + _average_tuples() + _SITE + _ENDING
    case, shape = {f"{case}-{shape}": (case, shape) for case in CASES for shape in SHAPES}[name]
    head = _CRITICAL.format(
        name=name,
        case=case,
        bound={"best": "upper", "worst": "lower"}[case],
        shape=shape,
        day={"begin": "first", "end": "third"}[shape],
        workload=_CRITICAL_WORKLOADS[shape],
        production=_CRITICAL_PRODUCTION,
        platform=_PLATFORM,
        sky=_SKY,
    )
    return head + _SITE + _ENDING


def _average_tuples() -> str:
    """Ten pairs, as their seeds draw them."""
    lines = ["", "# The ten pairs, a plan each: seeds 1 to 10 as they come, none left out."]
    for number in range(_AVERAGE_TUPLES):
        shape = _AVERAGE_SHAPES[number % len(_AVERAGE_SHAPES)]
        seed = number + 1
        lines += ["[[tuples]]", f'workload = {{ seed = {seed}, shape = "{shape}" }}']
        lines.append(f"production = {{ seed = {seed} }}")
    return "\n".join([*lines, ""])


_PLATFORM: Final = """
[platform]
servers = { gros = 50 }         # 0.2 kW asleep, 7.2 kW busy
"""

_SKY: Final = """\
# The sky is the generator's own (October, half cloudy, 4 m/s of wind on average). Over seeds 1000 to 1029,
# which no result uses, 10 kW of sun and 7 kW of wind give 186 +- 51 kWh in three days; the workloads' demand
# (seeds 1000 to 1009) is 162 +- 3 kWh with all other servers asleep. That is 1.15 of it on average; with idle
# servers and wakes, policies that start what they can use 145 to 210 kWh.
"""

_CRITICAL: Final = """\
# BEASY paper, Section V-A, one of four: jobs mainly on the {day} of three days, production at the
# {bound} bound of its prediction. The paper prints no sizes: those here, and why, are ours.

name = "{name}"
comment = "BEASY paper, Section V-A: {case} case, workload in the {shape}"
seeds = [1]                     # of the noise; more of them show how much hangs on it
{platform}
# 900 jobs in three days: 75, 17 and 8 % in each ("begin"), or the other way round ("end").
[workload]
source = "synthetic"
shape = "{shape}"
seed = {workload}
jobs = 900
run_median_s = 1800             # log-normal, cut at six hours
run_log_sd = 1.3
run_cap_s = 21600
host_shares = {{ 1 = 70, 2 = 15, 4 = 15 }}

{sky}# The profile is the first one, from seed 1 on, that gives 1.0 to 1.2 of the demand of both workloads: a
# window that can be planned, and that is not drowned in energy. No result was looked at to choose it.
[production]
source = "synthetic"
seed = {production}
case = "{case}"
pv_kw = 10
wind_kw = 7
"""

_AVERAGE: Final = f"""\
# BEASY paper, Section V-B: ten pairs of workload and production with a plan each, ten noises each; production
# anywhere between the bounds of its prediction, step by step. The paper prints no sizes: those here, and why,
# are ours.

name = "average"
comment = "BEASY paper, Section V-B: average cases"
seeds = {{ first = 1, count = 10 }}
{_PLATFORM}
[workload]
source = "synthetic"
jobs = 900
run_median_s = 1800             # log-normal, cut at six hours
run_log_sd = 1.3
run_cap_s = 21600
host_shares = {{ 1 = 70, 2 = 15, 4 = 15 }}

{_SKY}[production]
source = "synthetic"
case = "between"
pv_kw = 10
wind_kw = 7
"""

_SITE: Final = """
# A battery whose use is 70 kWh, less than half a window's demand, so that it matters how one deals with it:
# on four pairs of seeds from 1000 on, twice the battery ended six to eight in ten of the kills of the
# reactive policies (kill-all).
[site.battery]
capacity_kwh = 100.0
charge_limit_kw = 25.0          # 0.25 of the capacity an hour
discharge_limit_kw = 50.0       # 0.5 of it
soc_min_pct = 20.0
soc_max_pct = 90.0
soc_start_pct = 50.0
soc_target_pct = 50.0
charge_efficiency = 0.95
discharge_efficiency = 0.95
self_discharge_pct_per_day = 0.2

[site.time]
step_s = 300
window_h = 72
"""

_ENDING: Final = """
# The rest is as without these lines. The forecast of production is off by 5 % at once and by 30 % after 72 h,
# here and in the plan.
[noise]
arrivals_sigma = 0.2            # of the times between arrivals
run_time_sigma = 0.2
walltimes = "groups"            # run time x 5, 3.33, 2, 1.43 or 1.11

[plan]
load_uncertainty_pct = [5, 30]
renew_uncertainty_pct = [5, 30]

[[guards]]                      # the papers': below 20 % every running job is killed
mode = "kill-all"
veto = false

[[guards]]                      # ours: as few as need be, and nothing starts that there is no energy for
mode = "shed"
veto = true
"""
