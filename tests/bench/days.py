"""Three days of a site like those of `scripts/run`, and the CPU time of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.traces import ROWS, command

SERVERS, JOBS, DAYS, STEP_S = 50, 900, 3, 300
SITE = Path(__file__).resolve().parents[2] / "beasy_sched/plugins/campaigns/comparisons/sites/days.toml"

LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
sys.exit(code)
"""


def cpu_s(*arguments: object) -> float:
    """Run a command of beasy-sched to its end; return the CPU time of its process, s."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command(*arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def note(what: str, seconds: float) -> None:
    """Add a row with a CPU time."""
    ROWS.append(
        (what, f"{seconds:.2f} s", "-", "-", f"CPU time; {JOBS} jobs, {SERVERS} servers, {DAYS} days")
    )


def make_days(folder: Path) -> list[object]:
    """Make platform, workload, power and plan; return what `simulate` is told of them."""
    platform, workload = folder / "platform.xml", folder / "workload.json"
    power, plan = folder / "power.txt", folder / "plan.msgpack"
    taken_s = cpu_s("generate", "platform", "--servers", f"gros:{SERVERS}", "-o", platform)
    taken_s += cpu_s(
        "generate", "workload", "--synthetic", "--jobs", JOBS, "--hosts", SERVERS, "-o", workload
    )
    sources = ["--synthetic", "--pv-kw", 10, "--wind-kw", 7, "--days", DAYS, "--dt", STEP_S]
    taken_s += cpu_s("generate", "power", *sources, "-o", power)
    files = ["-p", platform, "-w", workload, "--site", SITE]
    note("inputs and plan", taken_s + cpu_s("plan", *files, "--production", power, "-o", plan, "-q"))
    return [*files, "--events", power, "--plan", plan]
