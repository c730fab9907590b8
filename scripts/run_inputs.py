"""The inputs of scripts/run: platform, workload and power as forecast and as they really come, site, plan."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_options import HOSTS, JOBS_PER_DAY, PV_KW, WIND_KW
from two_processes import RunFailed, Stopped

from beasy_sched.energy.site import Site
from beasy_sched.formats.site_file import parse_site
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

QUICK_H = 24
SHAPED_DAYS = 3
"""Length of a workload with most arrivals at its begin or end, days."""
PROGRAM = [sys.executable, "-m", "beasy_sched"]
INPUT_NAMES = ("platform.xml", "workload.json", "power.txt", "site.toml")
FORECAST_NAMES = ("forecast_workload.json", "forecast_power.txt")
PLAN_NAMES = ("plan.msgpack", "plan.png")


@dataclass(frozen=True)
class Inputs:
    """Paths of what the simulator and the scheduler read, then of what the plan is made from."""

    platform: str
    workload: str
    power: str
    site: str
    forecast_workload: str
    forecast_power: str


def make_inputs(chosen: argparse.Namespace) -> Inputs:
    """Write all of them to the chosen folder. Raises RunFailed, or BeasyError for the site."""
    text = site_text(chosen)
    site = parse_site(text, str(chosen.site or "site.toml"))
    days = site.window_s / SECONDS_PER_DAY
    workload, power = workload_arguments(chosen, days), power_arguments(chosen, site)
    folder: Path = chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    inputs = Inputs(*(str(folder / name) for name in (*INPUT_NAMES, *FORECAST_NAMES)))
    Path(inputs.site).write_text(text, "utf-8")
    generate("platform", "--servers", f"gros:{HOSTS}", "-o", inputs.platform)
    generate("workload", *workload, "-o", inputs.forecast_workload)
    generate("workload", *workload, "--noise", f"{chosen.sigma:g}", "-o", inputs.workload)
    generate("power", *power, "-o", inputs.forecast_power)
    generate("power", *power, "--case", chosen.production, "-o", inputs.power)
    print(f"site: {inputs.site}, a window of {site.window_s / SECONDS_PER_HOUR:g} h", file=sys.stderr)
    return inputs


def site_text(chosen: argparse.Namespace) -> str:
    """Return the site file of the run, its window shortened for a quick one. Raises RunFailed."""
    if chosen.site is None:
        text = Path(__file__).with_name("site.toml").read_text("utf-8")
        hours = f"window_h = {QUICK_H}"
        return re.sub(r"^window_h = \S+", hours, text, flags=re.MULTILINE) if chosen.quick else text
    try:
        return str(chosen.site.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RunFailed(f"the site file {chosen.site} cannot be read: {error}", 2) from None


def workload_arguments(chosen: argparse.Namespace, days: float) -> list[str]:
    """Return what `generate workload` is asked for. Raises RunFailed for arrivals that the window has not."""
    shared = ["--hosts", str(HOSTS), "--seed", str(chosen.seed)]
    if chosen.swf is not None:
        cut = ["--duration", f"{days:g}d", "--cores-per-host", chosen.cores_per_host or "1"]
        return [str(chosen.swf), *cut, *(["--from", chosen.begin] if chosen.begin else []), *shared]
    if days == SHAPED_DAYS:
        shape = ["--arrivals", chosen.arrivals or "begin"]
    elif chosen.arrivals:
        raise RunFailed(
            f"--arrivals shape {SHAPED_DAYS} days, but the window has {days:g}: leave them out", 2
        )
    else:
        shape = ["--day-shares", ",".join(["1"] * max(round(days), 1))]
    return ["--synthetic", "--jobs", str(round(JOBS_PER_DAY * days)), *shape, *shared]


def power_arguments(chosen: argparse.Namespace, site: Site) -> list[str]:
    """Return what `generate power` is asked for: the exports given, or a synthetic sky without any."""
    window = ["--days", f"{site.window_s / SECONDS_PER_DAY:g}", "--dt", f"{site.step_s:g}"]
    if chosen.start:
        window += ["--start", chosen.start]
    sources = []
    if chosen.ninja_pv is not None:
        sources += ["--pv", str(chosen.ninja_pv), "--pv-kw", str(PV_KW)]
    if chosen.ninja_wind is not None:
        sources += ["--wind", str(chosen.ninja_wind), "--wind-kw", str(WIND_KW)]
    if not sources:
        sources = ["--synthetic", "--pv-kw", str(PV_KW), "--wind-kw", str(WIND_KW)]
    return [*sources, *window, "--seed", str(chosen.seed)]


def make_plan(chosen: argparse.Namespace, inputs: Inputs) -> str | None:
    """Plan the window from the forecast, with a picture; None where no plan is wanted or found."""
    if chosen.no_plan:
        return None
    plan, figure = (str(chosen.out / name) for name in PLAN_NAMES)
    arguments = ["-p", inputs.platform, "--site", inputs.site, "-w", inputs.forecast_workload]
    arguments += ["--production", inputs.forecast_power, "-o", plan, "--figure", figure, "-q"]
    show(["plan", *arguments])
    done = subprocess.run([*PROGRAM, "plan", *arguments], stdin=subprocess.DEVNULL, check=False)
    if done.returncode < 0:
        raise Stopped(-done.returncode)
    if done.returncode:
        print("run: no plan for this window (see above); it goes on without one", file=sys.stderr)
    return None if done.returncode else plan


def check_inputs(inputs: Inputs, plan: str | None) -> None:
    """Print what is odd about what the runs will read. Raises Stopped."""
    arguments = ["check", "-p", inputs.platform, "-w", inputs.workload, "--events", inputs.power]
    arguments += ["--site", inputs.site, *(["--plan", plan] if plan else []), "-q"]
    show(arguments)
    done = subprocess.run([*PROGRAM, *arguments], stdin=subprocess.DEVNULL, check=False)
    if done.returncode < 0:
        raise Stopped(-done.returncode)


def generate(*arguments: str) -> None:
    """Run `beasy-sched generate`. Raises RunFailed."""
    show(["generate", *arguments])
    code = subprocess.run(
        [*PROGRAM, "generate", *arguments], stdin=subprocess.DEVNULL, check=False
    ).returncode
    if code:
        raise RunFailed(f"'beasy-sched generate {arguments[0]}' ended with exit code {code}", code)


def show(arguments: Sequence[str]) -> None:
    """Print a command as one would type it, so that it can be repeated by hand."""
    print(f"$ beasy-sched {shlex.join(arguments)}", file=sys.stderr, flush=True)


def scenario(chosen: argparse.Namespace) -> str:
    """Say in words what the days are like, and how they differ from the forecast."""
    came = {
        "exact": "production as forecast",
        "best": "production at the upper bound of its forecast",
        "worst": "production at the lower bound of its forecast",
        "between": "production anywhere between the bounds of its forecast",
    }[chosen.production]
    jobs = f"{chosen.sigma:g} % noise on arrivals and run times" if chosen.sigma else "jobs as forecast"
    shape = "" if chosen.swf or chosen.quick else f"arrivals: {chosen.arrivals or 'begin'}; "
    return f"{shape}{came}; {jobs}; seed {chosen.seed}"
