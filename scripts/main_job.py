"""The main job of beasy-sched: inputs, then scheduler and simulator as two processes over ZeroMQ.

Started by scripts/run, which makes the environment.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from two_processes import RunFailed, Stopped, run_both

from beasy_sched.energy.site import Site, parse_site
from beasy_sched.errors import BeasyError
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

HOSTS = 50
JOBS_PER_DAY = 300
PV_KW = 10
WIND_KW = 7
QUICK_H = 24
PROGRAM = [sys.executable, "-m", "beasy_sched"]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/run",
        description=f"Make a platform of {HOSTS} servers, a workload of three days and the power of "
        f"{PV_KW} kW of sun and {WIND_KW} kW of wind; plan the window; let a policy schedule it, as a "
        "process of its own that the simulator asks over ZeroMQ, just as Batsim would. Takes seconds, "
        "once it is installed.",
        epilog="Variables: PYTHON names the Python for the environment; BEASY_VENV=DIR uses a ready "
        "environment and installs nothing.",
    )
    add = parser.add_argument
    add("--policy", default="easy", metavar="NAME", help="which policy decides (default: easy)")
    add("--options", default="{}", metavar="JSON|@FILE", help="the policy's options")
    add("--site", type=Path, metavar="FILE", help="your site file instead of scripts/site.toml")
    add("--swf", type=Path, metavar="FILE", help="your trace (SWF, plain or gzip) instead of drawn jobs")
    add("--from", dest="begin", metavar="TIME", help="where in the trace to begin, such as 30d")
    add("--cores-per-host", metavar="N", help="processors of the trace that a server has (default: 1)")
    add("--ninja-pv", type=Path, metavar="FILE", help="your Renewables.ninja export for the sun")
    add("--ninja-wind", type=Path, metavar="FILE", help="your Renewables.ninja export for the wind")
    add("--start", metavar="TIME", help="where in the exports to begin, such as 2019-06-01")
    add("--seed", type=int, default=1, metavar="N", help="seed of all that is drawn (default: 1)")
    add("--out", type=Path, default=Path("out/run"), metavar="DIR", help="where to write (default: out/run)")
    add("--no-plan", action="store_true", help="do not plan the window beforehand")
    add("--quick", action="store_true", help="one day instead of three")
    chosen = parser.parse_args(arguments)
    if chosen.swf is None and (chosen.begin or chosen.cores_per_host):
        parser.error("--from and --cores-per-host are for a trace: name one with --swf FILE")
    if chosen.site is not None and chosen.quick:
        parser.error("--quick is for the site of scripts/site.toml: set window_h in your own")
    return chosen


@dataclass(frozen=True)
class Inputs:
    """Paths of what the two processes read."""

    platform: str
    workload: str
    power: str
    site: str


def site_text(chosen: argparse.Namespace) -> str:
    """Return the site file of the run, its window shortened for a quick one."""
    if chosen.site is None:
        text = Path(__file__).with_name("site.toml").read_text("utf-8")
        hours = f"window_h = {QUICK_H}"
        return re.sub(r"^window_h = \S+", hours, text, flags=re.MULTILINE) if chosen.quick else text
    try:
        return str(chosen.site.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RunFailed(f"the site file {chosen.site} cannot be read: {error}", 2) from None


def workload_arguments(chosen: argparse.Namespace, days: float) -> list[str]:
    """Return what `generate workload` is asked for."""
    shared = ["--hosts", str(HOSTS), "--seed", str(chosen.seed)]
    if chosen.swf is None:
        shares = [] if days == 3 else ["--day-shares", ",".join(["1"] * max(round(days), 1))]
        return ["--synthetic", "--jobs", str(round(JOBS_PER_DAY * days)), *shares, *shared]
    cut = ["--duration", f"{days:g}d", "--cores-per-host", chosen.cores_per_host or "1"]
    return [str(chosen.swf), *cut, *(["--from", chosen.begin] if chosen.begin else []), *shared]


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
        sources = ["--synthetic", "--seed", str(chosen.seed)]
        sources += ["--pv-kw", str(PV_KW), "--wind-kw", str(WIND_KW)]
    return [*sources, *window]


def show(arguments: Sequence[str]) -> None:
    """Print a command as one would type it, so that it can be repeated by hand."""
    print(f"$ beasy-sched {shlex.join(arguments)}", file=sys.stderr, flush=True)


def generate(*arguments: str) -> None:
    """Run `beasy-sched generate`."""
    show(["generate", *arguments])
    code = subprocess.run(
        [*PROGRAM, "generate", *arguments], stdin=subprocess.DEVNULL, check=False
    ).returncode
    if code:
        raise RunFailed(f"'beasy-sched generate {arguments[0]}' ended with exit code {code}", code)


def make_inputs(chosen: argparse.Namespace) -> Inputs:
    """Write platform, workload, power and site to the chosen folder."""
    text = site_text(chosen)
    site = parse_site(text, str(chosen.site or "site.toml"))
    folder: Path = chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    inputs = Inputs(*(str(folder / name) for name in INPUT_NAMES))
    Path(inputs.site).write_text(text, "utf-8")
    generate("platform", "--servers", f"gros:{HOSTS}", "-o", inputs.platform)
    days = site.window_s / SECONDS_PER_DAY
    generate("workload", *workload_arguments(chosen, days), "-o", inputs.workload)
    generate("power", *power_arguments(chosen, site), "-o", inputs.power)
    print(f"site: {inputs.site}, a window of {site.window_s / SECONDS_PER_HOUR:g} h", file=sys.stderr)
    return inputs


def make_plan(chosen: argparse.Namespace, inputs: Inputs) -> str | None:
    """Plan the window, with a picture; None where that is not wanted or there is no plan."""
    if chosen.no_plan:
        return None
    plan, figure = (str(chosen.out / name) for name in PLAN_NAMES)
    arguments = ["-p", inputs.platform, "--site", inputs.site, "-w", inputs.workload]
    arguments += ["--production", inputs.power, "-o", plan, "--figure", figure, "-q"]
    show(["plan", *arguments])
    done = subprocess.run([*PROGRAM, "plan", *arguments], stdin=subprocess.DEVNULL, check=False)
    if done.returncode < 0:
        raise Stopped(-done.returncode)
    if done.returncode:
        print("run: no plan for this window (see above); it goes on without one", file=sys.stderr)
    return None if done.returncode else plan


PLAN_NAMES = ("plan.msgpack", "plan.png")
INPUT_NAMES = ("platform.xml", "workload.json", "power.txt", "site.toml")


def simulate(chosen: argparse.Namespace, inputs: Inputs, plan: str | None) -> None:
    """Run both processes."""
    prefix = str(chosen.out / "run")
    serve = ["serve", "-s", "tcp://127.0.0.1:0", "--policy", chosen.policy, "-o", chosen.options]
    serve += ["--site", inputs.site, "-e", prefix, "--timeout", "60"]
    serve += ["--plan", plan] if plan else []
    batsim = ["batsim", "-p", inputs.platform, "-w", inputs.workload, "--events", inputs.power]
    batsim += ["--forward-unknown-events", "-E", "-e", prefix]
    show(serve)
    show([*batsim, "-s", "ENDPOINT"])
    run_both([*PROGRAM, *serve], [*PROGRAM, *batsim])


def list_files(folder: Path) -> None:
    """Name what was written."""
    print(f"Files in {folder}:")
    inputs = [folder / name for name in (*INPUT_NAMES, *PLAN_NAMES)]
    for path in [*(path for path in inputs if path.exists()), *sorted(folder.glob("run_*"))]:
        print(f"  {path.name:<26} {path.stat().st_size:>9,} bytes")


def main() -> int:
    """Do all of it; return the exit code."""
    chosen = parse_arguments()
    try:
        inputs = make_inputs(chosen)
        simulate(chosen, inputs, make_plan(chosen, inputs))
        list_files(chosen.out)
    except (RunFailed, BeasyError, Stopped) as error:
        print(f"run: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"run: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("run: SIGINT", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
