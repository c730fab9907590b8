"""A run made by hand: four servers, four jobs, four steps; small enough to know every number.

Also rows of a campaign's table: ten jobs a run, finished or killed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from summaries import members

from beasy_sched.plugins.reports.comparison import FIGURES

JOBS = """\
job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,\
starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata
1,w,p,0.000000,2,100.0,1,COMPLETED_SUCCESSFULLY,10.000000,100.0,110.000000,10.0,110.0,1.1,0 2,1.0,""
2,w,p,20.000000,1,100.0,0,COMPLETED_KILLED,50.000000,150.0,200.001000,30.0,180.0,1.2,1,1.0,""
3,w,p,30.000000,4,100.0,0,REJECTED,,,,,,,,,""
4,w,p,300.000000,1,100.0,0,COMPLETED_KILLED,300.000000,100.0,400.001000,0.0,100.0,1.0,1,1.0,""
"""
DECISIONS = [
    {"time": 10.0, "action": "start", "job": "w!1", "hosts": "0 2", "rule": "head of the queue"},
    {"time": 50.0, "action": "start", "job": "w!2", "hosts": "1", "rule": "backfilled"},
    {"time": 200.0, "action": "kill", "job": "w!2", "hosts": "1", "rule": "guard: no energy for it"},
    {"time": 300.0, "action": "start", "job": "w!4", "hosts": "1", "rule": "head of the queue"},
    {"time": 400.0, "action": "kill", "job": "w!4", "hosts": "1", "rule": "the run is over"},
    {"time": 400.0, "action": "reject", "job": "w!3", "rule": "the run is over"},
]
STARTS = "".join(json.dumps(line) + "\n" for line in DECISIONS if line["action"] == "start")
PSTATES = "time,machine_id,new_pstate\n0,0-3,0\n100,2-3,-2\n110,2-3,13\n150,1,4\n250,3,-1\n260,3,2\n"
STATES = """\
time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing
0,0,0,0,4,0
10,0,0,0,2,2
10,0,0,0,1,3
100,0,0,2,0,2
110,2,0,0,1,1
250,1,1,0,1,1
260,1,0,0,2,1
"""
TRACE = """\
step,start_s,duration_s,renewable_w,demand_w,charge_w,discharge_w,electrolyzer_w,fuel_cell_w,curtailed_w,unserved_w,\
soc_pct,hydrogen_kg,residual_j
0,0.0,100.0,500.0,300.0,200.0,0.0,0.0,0.0,0.0,0.0,55.0,0.0,0.0
1,100.0,100.0,0.0,300.0,0.0,250.0,0.0,0.0,0.0,50.0,45.0,0.0,0.0
2,200.0,100.0,100.0,100.0,0.0,0.0,0.0,0.0,0.0,0.0,45.0,0.0,0.0
3,300.0,100.0,2000.0,200.0,800.0,0.0,0.0,0.0,1000.0,0.0,60.0,0.0,0.0
"""


def summary(**changes: Any) -> dict[str, Any]:
    """The summary of the run."""
    jobs = {"submitted": 4, "finished": 1, "failed": 0, "reached_walltime": 0, "killed": 1,
            "not_completely_finished": 1, "postponed": 1, "rejected": 0, "still_waiting": 0,
            "still_running": 0}  # fmt: skip
    energy = {"production": 1.0, "consumed": 0.9, "finished_jobs": 0.5, "other_jobs": 0.1, "idle": 0.2,
              "transitions": 0.05, "sleeping": 0.05, "wasted": 0.4, "curtailed": 0.1,
              "unserved": 0.0}  # fmt: skip
    quality = {"waiting_s_mean": 20.0, "bounded_slowdown_mean": 1.5, "bounded_slowdown_p50": 1.2,
               "utilization": 0.5, "server_switches": 3}  # fmt: skip
    site = {"guard": "shed", "veto": True, "soc_start_pct": 50.0, "soc_lowest_pct": 45.0,
            "soc_final_pct": 60.0, "soc_target_pct": 50.0, "soc_distance_points": 10.0, "soc_min_pct": 20.0,
            "soc_max_pct": 90.0}  # fmt: skip
    told = {
        "version": "0.1.0", "complete": True, "error": None, "end_s": 400.0, "hosts": 4, "jobs": jobs,
        "settings": {"policy": "easy", "options": {}, "plan": None, "windows": 1, "energy": "batsim",
                     "power_actions": True},
        "quality": quality, "warnings": [], "site": site, "energy_kwh": energy, **changes,
    }  # fmt: skip
    return members(**told)


def write_run(prefix: Path, **changes: str | None) -> str:
    """Write the run's files under ``prefix``; ``changes`` are other contents, None for no such file.

    Returns the prefix as text.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    contents: dict[str, str | None] = {
        "jobs.csv": JOBS,
        "decisions.jsonl": "".join(json.dumps(line) + "\n" for line in DECISIONS),
        "pstate_changes.csv": PSTATES,
        "machine_states.csv": STATES,
        "energy_trace.csv": TRACE,
        "summary.json": json.dumps(summary()),
    }
    for name in contents:
        key = name.partition(".")[0]
        content = changes.get(key, contents[name])
        if content is not None:
            Path(f"{prefix}_{name}").write_text(content, "utf-8")
    return str(prefix)


_COUNTS = ("submitted", "finished", "failed", "reached_walltime", "killed", "not_completely_finished",
           "postponed", "rejected")  # fmt: skip


def row(policy: str, seed: int, finished: int, **changes: Any) -> dict[str, Any]:
    """One run; ``changes`` are other values of its columns."""
    counts = {f"jobs_{name}": 0 for name in _COUNTS} | {
        "jobs_submitted": 10, "jobs_finished": finished, "jobs_killed": 10 - finished,
    }  # fmt: skip
    figures = dict.fromkeys((figure.column for figure in FIGURES), 0.0) | {"finished_pct": 10.0 * finished}
    known = {"run": f"{policy}-{seed}", "scenario": "s", "guard": "shed", "veto": True, "policy": policy,
             "seed": seed, "status": "ok", "error": "", "version": "1"}  # fmt: skip
    return {**known, **counts, **figures, **changes}
