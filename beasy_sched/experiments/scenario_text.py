"""The text of the scenario files that come with the program."""

from __future__ import annotations

from typing import Final

CASES: Final = ("best", "worst")
SHAPES: Final = ("begin", "end")
NAMES: Final = (*(f"{case}-{shape}" for case in CASES for shape in SHAPES), "average")


def scenario_text(name: str) -> str:
    """Return the file of one of `NAMES`."""
    if name == "average":
        return _average()
    case, _, shape = name.partition("-")
    return _HEAD_CRITICAL.format(name=name, case=case, shape=shape, seed=_CRITICAL_SEEDS[shape]) + _SITE


_CRITICAL_SEEDS: Final = {"begin": 1, "end": 2}

_HEAD_CRITICAL: Final = """\
name = "{name}"
comment = "BEASY paper, Section V-A: production {case} case, workload in the {shape}"
seeds = [1]

[platform]
servers = {{ gros = 50 }}

[workload]
source = "synthetic"
shape = "{shape}"
seed = {seed}
jobs = 900
run_median_s = 1800
run_log_sd = 1.3
run_cap_s = 21600
host_shares = {{ 1 = 70, 2 = 15, 4 = 15 }}

[production]
source = "synthetic"
seed = 1
case = "{case}"
pv_kw = 10
wind_kw = 7
"""

_SITE: Final = """
[site.battery]
capacity_kwh = 100.0
charge_limit_kw = 25.0
discharge_limit_kw = 50.0
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


def _average() -> str:
    return ""
