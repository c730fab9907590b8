"""Features of an installed beasy-sched with its extras, and its messages about missing extras.

``python extras_smoke.py [EXTRA ...]`` runs in the environment of that Python, which has these extras and no
others, in a temporary folder: each extra's commands must work, and those of all others must name the extra
to install. Nothing but the standard library and the installed package is used.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

BROUGHT = {"report": ("data",), "learn": ("plan",), "dask": ("data",), "bundle": ("data",)}
"""Extras that bring other extras."""
PATIENCE_S = 300

SITE = """\
[battery]
capacity_kwh = 4.0
charge_limit_kw = 2.0
discharge_limit_kw = 2.0
self_discharge_pct_per_day = 0
soc_target_pct = 20
[time]
window_h = 3
"""
AGEING = """\
[battery.life]
chemistry = "lmo"
"""
SCENARIO = """\
name = "small"
seeds = [1]
policies = ["easy"]
[platform]
servers = { gros = 4 }
[workload]
source = "synthetic"
seed = 1
jobs = 20
run_median_s = 300
run_cap_s = 1800
host_shares = { 1 = 3, 2 = 1 }
[production]
source = "synthetic"
seed = 1
start = "2024-10-01 09:00"
pv_kw = 1
[site.battery]
capacity_kwh = 2.0
charge_limit_kw = 0.5
discharge_limit_kw = 1.0
[site.time]
window_h = 3
[plan]
make = false
"""
WRITE_PLAN = """
import numpy as np
from beasy_sched.formats.plan_file import write_plans
from beasy_sched.formats.site_file import read_site
from beasy_sched.planner.plan import Plan, PlanStore, Provenance
from beasy_sched.planner.power_problem import PowerPlan

steps, zero = 4, np.zeros(4)
storage = read_site("site.toml").storage
level_j = np.full(5, storage.battery.start_j)
power = PowerPlan(zero, zero, zero, zero, zero, zero, zero, level_j, np.zeros(5))
plan = Plan(0.0, 900.0, storage, power, zero, zero, None, Provenance("by hand"))
write_plans("hand.msgpack", PlanStore([plan]))
"""
READ_RUN = """
import beasy_sched
run = beasy_sched.read_run("easy")
assert len(run.jobs) == 30 and len(run.energy_trace) > 10
print(beasy_sched.compare([run]))
"""
STEP = """
import beasy_sched.learning
from beasy_sched.campaigns.scenario_file import parse_scenario
from beasy_sched.plugins.learning.environment import CompensationEnv
import gymnasium, numpy
scenario = parse_scenario(open("planned.toml").read())
made = gymnasium.make(beasy_sched.learning.ENVIRONMENT, scenario=scenario, days=1)
made.reset(seed=1)
for _ in range(3):
    observation, reward, ended, truncated, info = made.step(numpy.int64(0))
made.close()
"""
CLUSTER = """
import subprocess, sys
import distributed
if __name__ == "__main__":
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=None
    ) as cluster:
        sys.exit(subprocess.call([*sys.argv[1:], "--scheduler", cluster.scheduler_address]))
"""


def beasy(*arguments: str) -> list[str]:
    """The installed command with arguments."""
    return [str(Path(sys.executable).parent / "beasy-sched"), *arguments]


def python(script: str, *arguments: str) -> list[str]:
    """A script in a separate file, with arguments."""
    path = Path(f"script{abs(hash(script))}.py")
    path.write_text(script)
    return [sys.executable, str(path), *arguments]


FILES = ("-p", "platform.xml", "-w", "workload.json")
RUN = (*FILES, "--events", "power.txt", "--site", "site.toml")
CAMPAIGN = ("campaign", "run", "small.toml", "-q", "-o")
PLAN = ("plan", *FILES, "--site", "site.toml", "--production", "power.txt", "-o", "plan.msgpack", "-q")


def without() -> None:
    """Try what needs no extra."""
    done(beasy("--version"))
    done(beasy("check", *RUN), codes=(0, 1))
    done(beasy("explain", "easy"))
    done(beasy("simulate", *RUN, "--policy", "power-reactive", "-e", "reactive", "-q"))


def data() -> None:
    """A run as data frames, and a campaign."""
    done(python(READ_RUN))
    done(beasy(*CAMPAIGN, "campaign"))


def plan() -> None:
    """Make a plan, a run that follows it, and a run with plans made during the run."""
    done(beasy(*PLAN))
    done(beasy("simulate", *RUN, "--policy", "beasy", "--plan", "plan.msgpack", "-e", "beasy", "-q"))
    replan = ("--windows", "2", "--replan", "window", "-e", "replanned", "-q")
    done(beasy("simulate", *RUN, "--policy", "follow-plan", *replan))


def dask() -> None:
    """Try a campaign on a cluster."""
    done(python(CLUSTER, *beasy(*CAMPAIGN, "on-dask", "--executor", "dask")))


def bundle() -> None:
    """Bundle a campaign, and run it again."""
    done(beasy(*CAMPAIGN, "finished"))
    done(beasy("campaign", "bundle", "finished", "-o", "bundle"))
    done(beasy("campaign", "rerun", "bundle", "--environment", "present"))


def learn() -> None:
    """Training, and the environment."""
    done(beasy("learn", "--scenario", "planned.toml", "--episodes", "2", "-o", "model.msgpack", "-q"))
    done(python(STEP))


def pybatsim() -> None:
    """pybatsim with a policy of ours, and the simulator at the other end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    program = [str(Path(sys.executable).parent / "pybatsim"), "beasy_sched/pybatsim", "-s", endpoint]
    options = json.dumps({"policy": "power-reactive", "site": "site.toml", "export": "inside"})
    with subprocess.Popen([*program, "-v", "warning", "-t", "60000", "-o", options]) as scheduler:
        try:
            events = ("--events", "power.txt", "--forward-unknown-events", "-E")
            done(beasy("batsim", *FILES, *events, "-e", "inside", "-s", endpoint))
            if scheduler.wait(PATIENCE_S) != 0:
                raise SystemExit(f"pybatsim ended with {scheduler.returncode}")
        finally:
            scheduler.kill()
    if json.loads(Path("inside_summary.json").read_text())["error"] is not None:
        raise SystemExit("the run inside pybatsim failed")


WORKS: dict[str, Callable[[], None]] = {
    "data": data,
    "plan": plan,
    "plot": lambda: done(beasy("plan", "show", "hand.msgpack", "--figure", "plan.png")),
    "report": lambda: done(beasy("report", "easy", "-o", "report.html")),
    "dask": dask,
    "bundle": bundle,
    "pybatsim": pybatsim,
    "learn": learn,
    "life": lambda: done(beasy("simulate", *RUN, "--site", "ageing.toml", "-q")),
    "metrics": lambda: done(beasy("simulate", *RUN, "--metrics", ":0", "-q")),
}
REFUSED: dict[str, Callable[[], list[str]]] = {
    "data": lambda: beasy(*CAMPAIGN, "campaign"),
    "plan": lambda: beasy(*PLAN),
    "plot": lambda: beasy("plan", "show", "hand.msgpack", "--figure", "plan.png"),
    "report": lambda: beasy("report", "easy", "-o", "report.html"),
    "dask": lambda: beasy(*CAMPAIGN, "on-dask", "--executor", "dask", "--scheduler", "tcp://localhost:1"),
    "bundle": lambda: beasy("campaign", "bundle", "finished"),
    "pybatsim": lambda: [sys.executable, "-c", "import beasy_sched.pybatsim"],
    "learn": lambda: [sys.executable, "-c", "import beasy_sched.plugins.learning.environment"],
    "life": lambda: beasy("simulate", *RUN, "--site", "ageing.toml", "-q"),
    "metrics": lambda: beasy("simulate", *RUN, "--metrics", ":0", "-q"),
}
FIRST = {"dask": "data"}
"""The extra that is named first where two are missing."""


def done(command: list[str], codes: tuple[int, ...] = (0,)) -> None:
    """Run a command, which must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if ended.returncode not in codes or "Traceback" in ended.stderr:
        raise SystemExit(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")


def refused(command: list[str], extra: str) -> None:
    """Run a command, which must name the extra that it needs."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    told = f"pip install '.[{extra}]'" in ended.stderr
    if ended.returncode == 0 or not told or (command[0] == beasy()[0] and "Traceback" in ended.stderr):
        raise SystemExit(f"{command} does not name [{extra}] ({ended.returncode}):\n{ended.stderr}")


def make_inputs() -> None:
    """Write a small site's files, and a run with policy ``easy``."""
    Path("site.toml").write_text(SITE)
    Path("ageing.toml").write_text(SITE + AGEING)
    Path("small.toml").write_text(SCENARIO)
    Path("planned.toml").write_text(SCENARIO.replace("make = false", "make = true"))
    done(beasy("generate", "platform", "-n", "gros:4", "-o", "platform.xml", "-q"))
    jobs = ("--synthetic", "--hosts", "4", "--jobs", "30", "--seed", "1")
    done(beasy("generate", "workload", *jobs, "-o", "workload.json", "-q"))
    done(beasy("generate", "power", "--synthetic", "--pv-kw", "1", "--wind-kw", "1", "-o", "power.txt", "-q"))
    done(beasy("simulate", *RUN, "--policy", "easy", "-e", "easy", "-q"))
    done(python(WRITE_PLAN))


def main(extras: list[str]) -> None:
    """Try everything."""
    there = {*extras, *(name for extra in extras for name in BROUGHT.get(extra, ()))}
    make_inputs()
    without()
    for extra, works in WORKS.items():
        if extra in there:
            works()
        else:
            first = FIRST.get(extra, extra)
            refused(REFUSED[extra](), extra if first in there else first)


if __name__ == "__main__":
    for name in ("PYTHONPATH", "PYTHONHOME"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(sys.argv[1:])
        os.chdir("/")
