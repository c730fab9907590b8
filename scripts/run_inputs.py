"""The preparation of scripts/run: check the policies, generate the inputs, plan the window.

A program of its own with the options of scripts/run, because the process that waits for the policies does not
need the modules that this one loads.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from console import exit_code_of, tell
from policy_run import PROGRAM, RunFailed
from run_options import (
    HOSTS,
    JOBS_PER_DAY,
    PV_KW,
    WIND_KW,
    Files,
    decider,
    files_in,
    parse_arguments,
    show,
)

from beasy_sched.campaigns.workers import how
from beasy_sched.energy.site import Site
from beasy_sched.errors import BeasyError, why
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.site_file import parse_site
from beasy_sched.generate.greenslot_week import (
    ACTUAL_W,
    NODES,
    PREDICTED_W,
    WorkflowOptions,
    forecast_lines,
    step_power_w,
    workflow_workload,
)
from beasy_sched.policies.registry import make_policy
from beasy_sched.run.settings import read_options
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

QUICK_H = 24
SHAPED_DAYS = 3
"""Length of a workload with most arrivals at its start or end, days."""


def prepare(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code. Raises BeasyError."""
    check_policies(chosen)
    files = make_inputs(chosen)
    make_plan(chosen, files)
    arguments = ["check", "-p", files.platform, "-w", files.workload, "--events", files.power]
    run(*arguments, "--site", files.site, *files.plan_options(chosen), "-q")  # prints its findings
    return 0


def check_policies(chosen: argparse.Namespace) -> None:
    """Check that each policy can be created with its options. Raises BeasyError."""
    for name in chosen.policies:
        policy, arguments = decider(chosen, name)
        given = [*zip(arguments[::2], arguments[1::2], strict=True)]
        text = dict(given).get("--options", "{}")
        single = [each for option, each in given if option == "--option"]
        options = read_options(text, single) if given else {}
        try:
            make_policy(policy, options)
        except BeasyError:
            raise
        except Exception as error:  # whatever a user's own policy raises
            raise RunFailed(f"policy {policy!r}: {why(error)}", 1) from None


def make_inputs(chosen: argparse.Namespace) -> Files:
    """Write the platform, the site, and workload and power both as forecast and as they really occur."""
    text = site_text(chosen)
    site = parse_site(text, str(chosen.site or "site.toml"))
    if chosen.scenario is None:
        days = site.window_s / SECONDS_PER_DAY
        workload, power = workload_arguments(chosen, days), power_arguments(chosen, site)
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunFailed(
            f"--out {chosen.out}: {error.filename} is not a folder: choose another one", 2
        ) from None
    files = files_in(chosen.out)
    write_atomic(files.site, text)
    if chosen.scenario is not None:
        make_greenslot_inputs(files, site)
        return files
    generate("platform", "--servers", f"gros:{HOSTS}", "-o", files.platform)
    generate("workload", *workload, "-o", files.forecast_workload)
    generate("workload", *workload, "--noise", f"{chosen.sigma:g}", "-o", files.workload)
    generate("power", *power, "-o", files.forecast_power)
    generate("power", *power, "--case", chosen.production, "-o", files.power)
    tell(f"site: {files.site}, a window of {site.window_s / SECONDS_PER_HOUR:g} h")
    return files


def make_greenslot_inputs(files: Files, site: Site) -> None:
    """Write the platform, the workload and the sun of GreenSlot's paper, with its predictions.

    Raises RunFailed for steps that do not fit the sun.
    """
    if SECONDS_PER_HOUR % site.step_s:
        raise RunFailed(
            f"{files.site}: time.step_s: found {site.step_s:g}, expected a divisor of an hour: the sun"
            " of this scenario is known by the hour",
            2,
        )
    generate("platform", "--servers", f"greenslot-xeon:{NODES}", "-o", files.platform)
    week = workflow_workload(WorkflowOptions())
    week.write(files.workload)
    load = f"{100 * week.load:.1f} % of what the servers can do"
    tell(f"{files.workload}: {week.size} jobs in workflows with deadlines, {load}")
    power_w = step_power_w(ACTUAL_W, site.step_s)[: site.steps]
    write_atomic(files.power, power_event_lines(power_w, site.step_s))
    write_atomic(files.forecast, forecast_lines(PREDICTED_W))
    tell(f"{files.power}: {ACTUAL_W.sum() / 1000.0:.1f} kWh of sun; {files.forecast}: its predictions")
    tell(f"site: {files.site}, with the grid behind it, a window of {site.window_s / SECONDS_PER_HOUR:g} h")


def site_text(chosen: argparse.Namespace) -> str:
    """Return the text of the site file, with a shorter window for a quick run. Raises RunFailed."""
    if chosen.site is None:
        name = "site.toml" if chosen.scenario is None else f"{chosen.scenario}.toml"
        text = Path(__file__).with_name(name).read_text("utf-8")
        hours = f"window_h = {QUICK_H}"
        return re.sub(r"^window_h = \S+", hours, text, flags=re.MULTILINE) if chosen.quick else text
    return read_text(chosen.site)


def workload_arguments(chosen: argparse.Namespace, days: float) -> list[str]:
    """Return the arguments of `generate workload`. Raises RunFailed if --arrivals does not fit the window."""
    shared = ["--hosts", str(HOSTS), "--seed", str(chosen.seed)]
    if chosen.swf is not None:
        cut = ["--duration", f"{days:g}d", "--cores-per-host", str(chosen.cores_per_host or 1)]
        return ["--swf", str(chosen.swf), *cut, *(["--from", chosen.begin] if chosen.begin else []), *shared]
    if days == SHAPED_DAYS:
        shape = ["--arrivals", chosen.arrivals or "begin"]
    elif chosen.arrivals:
        raise RunFailed(
            f"--arrivals requires a window of {SHAPED_DAYS} days, but it has {days:g}: omit the option", 2
        )
    else:
        shape = ["--day-shares", ",".join(["1"] * max(round(days), 1))]
    return ["--synthetic", "--jobs", str(round(JOBS_PER_DAY * days)), *shape, *shared]


def power_arguments(chosen: argparse.Namespace, site: Site) -> list[str]:
    """Return the arguments of `generate power`: the given exports, or synthetic weather."""
    window = ["--days", f"{site.window_s / SECONDS_PER_DAY:g}", "--dt", f"{site.step_s:g}"]
    if chosen.start:
        window += ["--start", chosen.start]
    return [*power_sources(chosen, PV_KW, WIND_KW), *window, "--seed", str(chosen.seed)]


def power_sources(chosen: argparse.Namespace, pv_kw: float, wind_kw: float) -> list[str]:
    """Return the arguments of `generate power` that name the given exports, or synthetic weather."""
    sources = []
    if chosen.ninja_pv is not None:
        sources += ["--pv", str(chosen.ninja_pv), "--pv-kw", f"{pv_kw:g}"]
    if chosen.ninja_wind is not None:
        sources += ["--wind", str(chosen.ninja_wind), "--wind-kw", f"{wind_kw:g}"]
    return sources or ["--synthetic", "--pv-kw", f"{pv_kw:g}", "--wind-kw", f"{wind_kw:g}"]


def make_plan(chosen: argparse.Namespace, files: Files) -> None:
    """Plan the window from the forecast, with a figure, unless --no-plan; planning may fail."""
    if chosen.no_plan:
        return
    for old in (files.plan, files.figure):  # of an earlier run
        Path(old).unlink(missing_ok=True)
    forecast = ["-w", files.forecast_workload, "--production", files.forecast_power]
    outputs = ["-o", files.plan, "--figure", files.figure, "-q"]
    if run("plan", "-p", files.platform, "--site", files.site, *forecast, *outputs):
        tell("run: no plan for this window (see above); continuing without one")


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
    # a signal that ends this program also reaches scripts/run, which reports it
    sys.exit(exit_code_of("run", lambda: prepare(parse_arguments()), stopped=""))
