"""What scripts/run does before its policies run: check them, make their inputs, plan the window.

A program of its own, with the options of scripts/run: what it loads for that is not needed by the process
that waits for the policies.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from console import exit_code_of, tell
from run_options import (
    HOSTS,
    JOBS_PER_DAY,
    PV_KW,
    WIND_KW,
    Files,
    files_in,
    parse_arguments,
    show,
)
from two_processes import PROGRAM, RunFailed, how

from beasy_sched.cli.run_options import read_options
from beasy_sched.energy.site import Site, parse_site
from beasy_sched.errors import BeasyError, why
from beasy_sched.policies.registry import make_policy
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

QUICK_H = 24
SHAPED_DAYS = 3
"""Length of a workload with most arrivals at its begin or end, days."""


def prepare(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code. Raises BeasyError."""
    check_policies(chosen)
    files = make_inputs(chosen)
    make_plan(chosen, files)
    arguments = ["check", "-p", files.platform, "-w", files.workload, "--events", files.power]
    run(*arguments, "--site", files.site, *files.plan_options(chosen), "-q")  # prints what is odd about them
    return 0


def check_policies(chosen: argparse.Namespace) -> None:
    """See that each policy can be made with its options, before anything is. Raises BeasyError."""
    options = read_options(chosen.options) if chosen.options is not None else {}
    for policy in chosen.policies:
        try:
            make_policy(policy, options)
        except BeasyError:
            raise
        except Exception as error:  # whatever a policy of someone else's raises
            raise RunFailed(f"policy {policy!r}: {why(error)}", 1) from None


def make_inputs(chosen: argparse.Namespace) -> Files:
    """Write platform, workload and power as forecast and as they really come, and the site."""
    text = site_text(chosen)
    site = parse_site(text, str(chosen.site or "site.toml"))
    days = site.window_s / SECONDS_PER_DAY
    workload, power = workload_arguments(chosen, days), power_arguments(chosen, site)
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunFailed(f"--out {chosen.out}: {error.filename} is no folder: name another one", 2) from None
    files = files_in(chosen.out)
    Path(files.site).write_text(text, "utf-8")
    generate("platform", "--servers", f"gros:{HOSTS}", "-o", files.platform)
    generate("workload", *workload, "-o", files.forecast_workload)
    generate("workload", *workload, "--noise", f"{chosen.sigma:g}", "-o", files.workload)
    generate("power", *power, "-o", files.forecast_power)
    generate("power", *power, "--case", chosen.production, "-o", files.power)
    tell(f"site: {files.site}, a window of {site.window_s / SECONDS_PER_HOUR:g} h")
    return files


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


def make_plan(chosen: argparse.Namespace, files: Files) -> None:
    """Plan the window from the forecast, with a picture, where a plan is wanted; there may be none."""
    if chosen.no_plan:
        return
    for old in (files.plan, files.figure):  # of an earlier run
        Path(old).unlink(missing_ok=True)
    forecast = ["-w", files.forecast_workload, "--production", files.forecast_power]
    outputs = ["-o", files.plan, "--figure", files.figure, "-q"]
    if run("plan", "-p", files.platform, "--site", files.site, *forecast, *outputs):
        tell("run: no plan for this window (see above); it goes on without one")


def generate(*arguments: str) -> None:
    """Run `beasy-sched generate`. Raises RunFailed."""
    if code := run("generate", *arguments):
        raise RunFailed(f"'beasy-sched generate {arguments[0]}' ended with exit code {code}", code)


def run(*arguments: str) -> int:
    """Run `beasy-sched`; return its exit code. Raises RunFailed where a signal ended it."""
    show(arguments)
    code = subprocess.run([*PROGRAM, *arguments], stdin=subprocess.DEVNULL, check=False).returncode
    if code < 0:
        raise RunFailed(f"'beasy-sched {arguments[0]}' {how(code)}", 128 - code)
    return code


if __name__ == "__main__":
    # a signal that ends this reaches scripts/run, too, which says so
    sys.exit(exit_code_of("run", lambda: prepare(parse_arguments()), stopped=""))
