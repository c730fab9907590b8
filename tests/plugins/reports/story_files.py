"""The files of a small run, written by hand: two servers, four jobs, two steps of five minutes."""

from __future__ import annotations

import json
from pathlib import Path

JOBS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
TRACE = (
    "step,start_s,duration_s,renewable_w,demand_w,charge_w,discharge_w,electrolyzer_w,fuel_cell_w,curtailed_w,"
    "unserved_w,planned_electrolyzer_w,planned_fuel_cell_w,consumed_kwh,soc_pct,hydrogen_kg,residual_j,"
    "planned_renewable_w,planned_load_w,planned_envelope_w,planned_charge_w,planned_discharge_w,planned_soc_pct,"
    "planned_hydrogen_kg,planned_servers_on"
)

DECISIONS: list[dict[str, object]] = [
    {"time": 10.0, "action": "start", "job": "w0!a", "hosts": "0-1", "rule": "head of the queue"},
    {
        "time": 20.0,
        "action": "postpone",
        "job": "w0!b",
        "rule": "reserved",
        "facts": {"hosts_asked": 1, "hosts_free": 0, "reserved_at_s": 3610.0},
    },
    {
        "time": 250.0,
        "action": "start",
        "job": "w0!b",
        "hosts": "0",
        "rule": "head of the queue",
        "facts": {
            "hosts_free": 2,
            "waited_s": 230.0,
            "slowdown": 1.5,
            "headroom_j": 72_000.0,
            "cost_j": 5000.0,
        },
    },
    {
        "time": 250.0,
        "action": "start",
        "job": "w0!c",
        "hosts": "1",
        "rule": "backfilled",
        "facts": {"hosts_free": 1, "waited_s": 220.0, "reserved_for": "w0!d", "hosts_extra": 1},
    },
    {
        "time": 300.0,
        "action": "compensate",
        "rule": "surplus",
        "facts": {
            "diff_j": 36_000.0,
            "comp_j": 40_000.0,
            "window_end_s": 600.0,
            "spent_j": 3600.0,
            "steps_changed": 1,
        },
    },
    {
        "time": 300.0,
        "action": "P-state 1",
        "hosts": "0-1",
        "rule": "planned",
        "facts": {"hosts_to_speed": 2, "planned_w": 150.0, "hosts_replanned": 2},
    },
    {
        "time": 300.0,
        "action": "kill",
        "job": "w0!c",
        "hosts": "1",
        "rule": "guard: no energy for it",
        "facts": {
            "supply_j": 36_000.0,
            "needed_j": 54_000.0,
            "missing_j": 18_000.0,
            "soc_pct": 20.0,
            "mode": "shed",
            "spent_j": 5000.0,
            "saves_j": 28_500.0,
        },
    },
    {
        "time": 300.0,
        "action": "P-state 2",
        "hosts": "1",
        "rule": "guard: no energy for it",
        "facts": {"hosts_to_sleep": 1, "killed": "w0!c"},
    },
    {
        "time": 600.0,
        "action": "reject",
        "job": "w0!d",
        "rule": "the run is over",
        "facts": {"waited_s": 570.0},
    },
]


def write_run(folder: Path, name: str = "run", *, jobs: bool = True, site: bool = True) -> str:
    """Write the run's files into ``folder``; return their prefix."""
    prefix = folder / name
    lines = "".join(json.dumps(each) + "\n" for each in DECISIONS)
    Path(f"{prefix}_decisions.jsonl").write_text(lines, "utf-8")
    if jobs:
        rows = [
            'a,w0,p,10.0,2,3600.0,1,COMPLETED_SUCCESSFULLY,10.0,240.0,250.0,0.0,240.0,1.0,0-1,48000.0,""',
            'c,w0,p,30.0,1,600.0,0,COMPLETED_KILLED,250.0,50.001,300.001,220.0,270.0,5.4,1,5000.0,""',
            'b,w0,p,20.0,1,400.0,1,COMPLETED_SUCCESSFULLY,250.0,280.0,530.0,230.0,510.0,1.8,0,25000.0,""',
            'd,w0,p,30.0,2,-1,0,REJECTED,,,,,,,,,""',
        ]
        Path(f"{prefix}_jobs.csv").write_text("\n".join([JOBS, *rows]) + "\n")
    if site:
        steps = [
            "0,0.0,300.0,400.0,200.0,200.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0167,21.0,0.0,0.0,"
            "400.0,180.0,180.0,220.0,0.0,22.0,0.0,2",
            "1,300.0,300.0,90.0,130.0,0.0,36.0,0.0,0.0,0.0,4.0,0.0,50.0,0.0108,20.0,0.5,0.0,,,,,,,,",
        ]
        Path(f"{prefix}_energy_trace.csv").write_text("\n".join([TRACE, *steps]) + "\n")
    return str(prefix)
