"""A year in one run: weather and work of a year, policies with rolling plans, a table by month, a picture.

Started by scripts/run_year, which creates the environment. Each policy runs in a process of its own, on the
embedded simulator; its plans are made in a further one, window by window.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from console import ENVIRONMENT, PERCENT, SEED, SIZE_KW, count, exit_code_of, readable, tell, width
from main_job import PATIENCE_S, print_text
from policy_run import RunFailed, summary_in
from rich.progress import ProgressColumn, TaskID
from rich.progress import Task as RichTask
from rich.progress_bar import ProgressBar
from run_inputs import generate, power_sources, run
from run_options import Files, files_in, show

from beasy_sched.campaigns.workers import Failure, Processes, Task, processors, work_through
from beasy_sched.energy.site import Site
from beasy_sched.errors import Interrupted
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.reading import read_text
from beasy_sched.formats.site_file import parse_site
from beasy_sched.outputs.files import RunFiles
from beasy_sched.outputs.tables import Contender, comparison_lines
from beasy_sched.policies.registry import make_policy
from beasy_sched.reports.months import draw_year, month_lines
from beasy_sched.reports.run_data import read_run_data
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.simulator import Inputs
from beasy_sched.units import SECONDS_PER_DAY

SERVERS = 20
JOBS_PER_DAY = 100
PV_KW = 6
WIND_KW = 4
DAYS = 366
QUICK_DAYS = 6
MOST_DAYS = 3660
"""Ten years."""
POLICIES = ("bid-price", "beasy", "power-reactive")
SITE = Path(__file__).with_name("year.toml")
TABLE, PICTURE, SEASON = "months.txt", "year.png", "season.msgpack"
SHARE = "progress"
"""A file in a policy's folder: the share of the jobs that have been submitted."""


def run_year(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code. Raises BeasyError."""
    began = time.monotonic()
    for policy in chosen.policies:
        make_policy(policy, {})  # raises for one that does not exist
    files, site = make_inputs(chosen)
    windows = windows_in(chosen, site)
    season = None
    if site.storage.hydrogen is not None and windows > 1:
        season = make_season(chosen, files)
    tell(f"{chosen.days} days on {chosen.servers} servers, a plan for each of {windows} windows")
    failures, stop = run_policies(chosen, files, season, windows)
    ended = [name for name in chosen.policies if name not in failures]
    contenders = [
        Contender(name, summary_in(chosen.out / name), failures.get(name)) for name in chosen.policies
    ]
    print("", *comparison_lines(contenders, width(100)), "", sep="\n", flush=True)
    if ended:
        show_months(chosen, ended)
    tell(f"{time.monotonic() - began:.0f} s")
    if stop is not None:
        raise stop
    return int(bool(failures))


# --- inputs -------------------------------------------------------------------------------------------------


def make_inputs(chosen: argparse.Namespace) -> tuple[Files, Site]:
    """Write the platform, the site, and workload and power both as expected and as they really occur."""
    text = read_text(chosen.site or SITE)
    if chosen.start:
        text = re.sub(
            r"^start = .*", f'start = "{chosen.start:%Y-%m-%dT%H:%M:%S+00:00}"', text, flags=re.MULTILINE
        )
    site = parse_site(text, str(chosen.site or SITE))
    chosen.out.mkdir(parents=True, exist_ok=True)
    files = files_in(chosen.out)
    write_atomic(files.site, text)
    generate("platform", "--servers", f"gros:{chosen.servers}", "-o", files.platform)
    jobs = workload_arguments(chosen)
    generate("workload", *jobs, "-o", files.forecast_workload, "-q")
    generate("workload", *jobs, "--noise", f"{chosen.sigma:g}", "-o", files.workload)
    power = power_arguments(chosen, site)
    generate("power", *power, "-o", files.forecast_power, "-q")
    generate("power", *power, "--case", "between", "-o", files.power)
    arguments = ["check", "-p", files.platform, "-w", files.workload, "--events", files.power]
    windows = str(windows_in(chosen, site))
    run(*arguments, "--site", files.site, "--windows", windows, "-q")  # prints its findings
    return files, site


def make_season(chosen: argparse.Namespace, files: Files) -> str:
    """Plan the hydrogen of the whole time coarsely; return the plan's file. Raises RunFailed."""
    inputs = ["-p", files.platform, "-w", files.forecast_workload, "--production", files.forecast_power]
    out = chosen.out / SEASON
    command = ["plan", "--season", *inputs, "--site", files.site, "-o", str(out)]
    if code := run(*command, "--figure", str(out.with_suffix(".png")), "-q"):
        raise RunFailed(f"the plan of the season ended with exit code {code}", code)
    return str(out)


def workload_arguments(chosen: argparse.Namespace) -> list[str]:
    """Return the arguments of `generate workload`: the given trace, or as many jobs each day."""
    shared = ["--hosts", str(chosen.servers), "--seed", str(chosen.seed)]
    if chosen.swf is not None:
        cut = ["--duration", f"{chosen.days}d", "--cores-per-host", str(chosen.cores_per_host)]
        return ["--swf", str(chosen.swf), *cut, *shared]
    days = ",".join(["1"] * chosen.days)
    jobs = [
        "--synthetic",
        "--jobs",
        str(JOBS_PER_DAY * chosen.days * chosen.servers // SERVERS),
        "--day-shares",
        days,
    ]
    return [*jobs, "--night-ratio", "0.3", *shared]


def power_arguments(chosen: argparse.Namespace, site: Site) -> list[str]:
    """Return the arguments of `generate power`: the given exports, or synthetic weather."""
    start = chosen.start or datetime(2024, 1, 1)
    window = ["--days", str(chosen.days), "--dt", f"{site.step_s:g}", "--start", f"{start:%Y-%m-%d}"]
    return [*power_sources(chosen, chosen.pv_kw, chosen.wind_kw), *window, "--seed", str(chosen.seed)]


def windows_in(chosen: argparse.Namespace, site: Site) -> int:
    """Return the number of windows that cover the days."""
    return math.ceil(chosen.days * SECONDS_PER_DAY / site.window_s - 1e-9)


# --- the policies -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Year:
    """What a process is to run."""

    settings: RunSettings
    inputs: Inputs
    folder: Path


def simulate(year: Year) -> float:
    """Run a policy, in a process of its own; return how long it took, s."""
    began = told = time.monotonic()
    share = year.folder / SHARE

    def tell_share(done: float) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            write_atomic(share, repr(done))

    year.folder.mkdir(parents=True, exist_ok=True)
    try:
        summary = run_in_process(year.inputs, RunFiles(str(year.folder / "run"), year.settings), tell_share)
    finally:
        share.unlink(missing_ok=True)
    if not summary.complete:
        raise RunFailed(f"the run is not complete: {summary.error or 'it ended early'}")
    return time.monotonic() - began


def run_policies(
    chosen: argparse.Namespace, files: Files, season: str | None, windows: int
) -> tuple[dict[str, str], Interrupted | None]:
    """Run the chosen policies, ``chosen.jobs`` at a time; return what failed, by policy, and the signal that
    stopped them early, if any."""
    command = ["simulate", "-p", files.platform, "-w", files.workload, "--events", files.power, "--site",
               files.site, "--windows", str(windows), "--replan", "window", "--replan-workload",
               files.forecast_workload, "--replan-production", files.forecast_power]  # fmt: skip
    command += [] if season is None else ["--replan-season", season]
    show([*command, "--policy", "POLICY", "-e", str(chosen.out / "POLICY" / "run")])
    site_text = read_text(Path(files.site))
    forecast = ReplanSettings(
        "window", (files.forecast_workload,), production=files.forecast_power, season=season
    )
    failures: dict[str, str] = {}
    ended: set[str] = set()
    stop = None
    with contextlib.ExitStack() as stack:
        bars = stack.enter_context(Bars(chosen.out))
        executor = Processes(chosen.jobs, patience_s=PATIENCE_S)
        stack.enter_context(contextlib.closing(executor))

        def tasks() -> Iterator[Task]:
            for policy in chosen.policies:
                settings = RunSettings(
                    policy=policy,
                    site=site_text,
                    site_name=files.site,
                    windows=windows,
                    replan=forecast,
                )
                bars.began(policy)
                inputs = Inputs(files.platform, [files.workload], [files.power])
                yield policy, simulate, Year(settings, inputs, chosen.out / policy)

        def done(policy: str, result: float | Failure) -> None:
            ended.add(policy)
            if isinstance(result, Failure):
                failures[policy] = result.error
            bars.ended(policy, failures.get(policy) or f"{result:.0f} s")

        try:
            work_through(executor, tasks(), done)
        except Interrupted as error:
            stop = error
    failures |= {name: f"stopped by {stop}" for name in chosen.policies if name not in ended}
    return failures, stop


class Bars(contextlib.AbstractContextManager):
    """A line for each policy that ends; on a terminal, a bar for each that runs."""

    def __init__(self, folder: Path) -> None:
        from rich.console import Console
        from rich.progress import Progress, TextColumn, TimeElapsedColumn

        self._folder = folder
        columns = (TextColumn("  {task.description}"), ShareColumn(), TimeElapsedColumn())
        hidden = not sys.stderr.isatty()
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def began(self, policy: str) -> None:
        """Add a policy's bar."""
        self._tasks[policy] = self._bars.add_task(policy, share=self._folder / policy / SHARE)

    def ended(self, policy: str, story: str) -> None:
        """Replace a policy's bar by a line."""
        self._bars.remove_task(self._tasks.pop(policy))
        self._bars.console.print(f"  {policy}: {story}", highlight=False, markup=False, soft_wrap=True)


class ShareColumn(ProgressColumn):
    """A bar as long as the share that a run has written to its file."""

    max_refresh = 0.5

    def render(self, task: RichTask) -> ProgressBar:
        """Read the share."""
        share = 0.0
        with contextlib.suppress(OSError, ValueError):
            share = float(task.fields["share"].read_text("utf-8"))
        return ProgressBar(total=1.0, completed=share, width=40)


# --- results ------------------------------------------------------------------------------------------------


def show_months(chosen: argparse.Namespace, policies: Sequence[str]) -> None:
    """Print the table by month, and write it and the picture."""
    runs = [read_run_data(policy, str(chosen.out / policy / "run")) for policy in policies]
    print(*month_lines(runs, width(100)), "", sep="\n", flush=True)
    write_atomic(chosen.out / TABLE, "\n".join(month_lines(runs)) + "\n")
    work = "generated jobs" if chosen.swf is None else f"jobs of {chosen.swf.name}"
    write_atomic(
        chosen.out / PICTURE, draw_year(runs, f"{chosen.days} days, {chosen.servers} servers, {work}")
    )
    print_text(
        "fin., killed: percent of the jobs submitted in the month that finished, or started but did not; "
        "low: lowest charge of the battery; H2: hydrogen at the end of the month."
    )
    print_text(f"Files in {chosen.out}: the table in {TABLE}, the picture {PICTURE}, results in POLICY/run_*")
    print_text(f"To see why at a moment: {explain_command(chosen.out / policies[0], chosen.days)}")


def explain_command(run: Path, days: int) -> str:
    """Return the command that explains a noon of a run of some days: of its middle, or of day 21."""
    return shlex.join(["beasy-sched", "explain", str(run), "--at", f"{min(days // 2, 20)}d12h"])


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/run_year",
        description=f"Make {DAYS} days of weather and jobs for {SERVERS} servers with {PV_KW} kW of sun, "
        f"{WIND_KW} kW of wind, a battery and hydrogen; let policies schedule them, with a new plan at the "
        "start of every window; print a table by month, and draw the levels of the storages over the year.",
        epilog=ENVIRONMENT,
    )
    add = parser.add_argument
    add("--policy", action="append", metavar="NAME", dest="policies",
        help=f"run only this policy (may be repeated; default: {', '.join(POLICIES)})")  # fmt: skip
    add("--days", type=count(1, MOST_DAYS), metavar="N", help=f"number of days (default: {DAYS})")
    add("--quick", action="store_true", help=f"{QUICK_DAYS} days")
    add("--seed", type=SEED, default=1, metavar="N", help="seed of all random numbers (default: 1)")
    add("--sigma", type=PERCENT, default=20.0, metavar="PCT", help="how far real arrivals and run times "
        "deviate from the forecast: Gaussian noise, percent (default: %(default)g)")  # fmt: skip
    add("--servers", type=count(1), default=SERVERS, metavar="N", help="number of servers; generated jobs "
        "are proportional (default: %(default)s)")  # fmt: skip
    add(
        "--pv-kw",
        type=SIZE_KW,
        default=PV_KW,
        metavar="KW",
        help="size of the solar plant (default: %(default)g)",
    )
    add(
        "--wind-kw",
        type=SIZE_KW,
        default=WIND_KW,
        metavar="KW",
        help="size of the wind plant (default: %(default)g)",
    )
    add("--site", type=readable, metavar="FILE", help="your site file, with battery and hydrogen, instead of "
        "scripts/year.toml")  # fmt: skip
    add(
        "--swf",
        type=readable,
        metavar="FILE",
        help="your trace (SWF, plain or gzip) instead of generated jobs",
    )
    add("--cores-per-host", type=count(1), default=1, metavar="N",
        help="processors of the trace per server (default: 1)")  # fmt: skip
    add("--ninja-pv", type=readable, metavar="FILE", help="your Renewables.ninja export for the sun")
    add("--ninja-wind", type=readable, metavar="FILE", help="your Renewables.ninja export for the wind")
    add("--start", type=date, metavar="DATE", help="first day within the exports (default: 2024-01-01)")
    add("--jobs", type=count(1), metavar="N", help="number of policies that run concurrently (default: one "
        "per core)")  # fmt: skip
    add("-o", "--out", type=Path, default=Path("out/year"), metavar="DIR",
        help="output folder (default: out/year)")  # fmt: skip
    chosen = parser.parse_args(arguments)
    if chosen.days and chosen.quick:
        parser.error("--quick has its own number of days: omit --days")
    chosen.days = chosen.days or (QUICK_DAYS if chosen.quick else DAYS)
    chosen.policies = list(dict.fromkeys(chosen.policies or POLICIES))
    chosen.jobs = chosen.jobs or min(processors(), len(chosen.policies))
    return chosen


def date(text: str) -> datetime:
    """Parse a day."""
    try:
        found = datetime.strptime(text, "%Y-%m-%d")
        if not 1900 <= found.year <= 2200:
            raise ValueError
        return found
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected a day such as 2019-01-01") from None


if __name__ == "__main__":
    chosen = parse_arguments()
    sys.exit(exit_code_of("run_year", lambda: run_year(chosen)))
