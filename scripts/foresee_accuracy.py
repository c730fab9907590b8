"""Measure forecasts of starts on traces: coverage of the intervals, and errors next to those of walltimes.

Each trace is cut to some days, run under a policy, and foreseen at an interval. With --power, the servers
are those of a site with solar and wind power of a year (Renewables.ninja exports), a forecast of it with
quantiles, and a battery, in windows of three days; the plan of beasy expects the actual production. Without
it, power is not limited. The table on the standard output is Markdown. Names of users are from the trace.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from beasy_sched.cli import cli
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
from beasy_sched.plugins.foresee.judgement import StartsJudged, judge_starts
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

USER = 11
"""Column of a job's user in a trace, from 0."""


WINDOW_DAYS, STEP_S = 3, 900
"""Windows and steps of the site."""
SITE = """
[battery]
capacity_kwh = {capacity_kwh:g}
charge_limit_kw = {limit_kw:g}
discharge_limit_kw = {limit_kw:g}
soc_min_pct = 20.0
[time]
step_s = {step_s}
window_h = {window_h}
start = "{start}T00:00:00+00:00"
"""


def users_of(swf: Path) -> dict[str, int]:
    """Return the user of each job of a trace, by its number."""
    opened = gzip.open if swf.suffix == ".gz" else open
    with opened(swf, "rt", encoding="utf-8", errors="replace") as lines:
        rows = (line.split() for line in lines if not line.startswith(";"))
        return {row[0]: int(float(row[USER])) for row in rows if len(row) > USER}


def workload_of(swf: Path, folder: Path, days: float, start: str, cores: int) -> tuple[Path, int]:
    """Write the workload of some days of a trace, with users; return it and its number of hosts."""
    path = folder / "workload.json"
    asked = ["generate", "workload", "--swf", str(swf), "--from", start, "--duration", f"{days:g}d"]
    cli.main([*asked, "--cores-per-host", str(cores), "-o", str(path)], standalone_mode=False)
    workload, users = json.loads(path.read_text()), users_of(swf)
    for job in workload["jobs"]:
        user = users.get(str(job["id"]))
        if user is not None:
            job["user"] = user
    path.write_text(json.dumps(workload))
    return path, workload["nb_res"]


def powered(
    settings: RunSettings, folder: Path, hosts: int, days: float, sources: Sequence[str]
) -> tuple[RunSettings, Path]:
    """Return settings with a site and a plan for some hosts, and its production."""
    site, power, plan = folder / "site.toml", folder / "power.txt", folder / "plan.msgpack"
    windows = max(round(days / WINDOW_DAYS), 1)
    text = SITE.format(
        capacity_kwh=1.2 * hosts,
        limit_kw=0.3 * hosts,
        step_s=STEP_S,
        window_h=24 * WINDOW_DAYS,
        start=sources[-1],
    )
    site.write_text(text)
    pv, wind, first_day = sources
    forecast = folder / "forecast.csv"
    sizes = [
        "--pv-kw",
        0.2 * hosts,
        "--wind-kw",
        hosts / 7.0,
        "--days",
        WINDOW_DAYS * windows,
        "--dt",
        STEP_S,
    ]
    given = ["--pv", pv, "--wind", wind, "--start", first_day, "--write-forecast", forecast]
    _run("generate", "power", *given, *sizes, "-o", power)
    files = ["-p", folder / "platform.xml", "-w", folder / "workload.json", "--site", site]
    _run("plan", *files, "--production", power, "--windows", windows, "-o", plan, "-q")
    plan_name = str(plan) if settings.policy == "beasy" else None
    return replace(
        settings, site=text, site_name=str(site), plan=plan_name, windows=windows, forecast=str(forecast)
    ), power


def _run(*arguments: object) -> None:
    cli.main([*map(str, arguments)], standalone_mode=False)


def measure(
    swf: Path,
    policy: str,
    days: float,
    start: str,
    every_s: float,
    continuations: int,
    cores: int,
    at_once: int,
    *,
    sources: Sequence[str] = (),
) -> tuple[StartsJudged, ForecastFollower, float]:
    """Run some days of a trace with forecasts; return their judgement, and the time that it took, s."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload, hosts = workload_of(swf, folder, days, start, cores)
        write_platform(preset_platform({"gros": hosts}), folder / "platform.xml")
        foresight = ForecastFollower(
            Moments(every_s), continuations=continuations, at_once=at_once, warn=print
        )
        settings, events = RunSettings(policy=policy), []
        if sources:
            settings, power = powered(settings, folder, hosts, days, sources)
            events.append(power)
        files = RunFiles(str(folder / "run"), settings, decisions=False)
        run_in_process(Inputs(folder / "platform.xml", [workload], events), files, followers=[foresight])
    return judge_starts(foresight.forecasts), foresight, time.monotonic() - began


def rows(given: argparse.Namespace) -> Iterator[str]:
    """Yield the rows of the table."""
    yield "| trace | policy | forecasts | starts | in 80 % intervals | median error | by walltimes | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for swf in given.swf:
        for policy in given.policy:
            judged, foresight, _ = measure(
                swf,
                policy,
                given.days,
                given.start,
                given.every_h * 3600.0,
                given.n,
                given.cores,
                given.j,
                sources=given.power,
            )
            both = judged.median_errors_of_both_s
            covered = "" if judged.coverage_pct is None else f"{judged.coverage_pct:.0f} %"
            errors = ("", "", "")
            if both is not None:
                ratio = f"{both[0] / both[1]:.2f}" if both[1] else ""
                errors = (f"{both[0] / 3600.0:.2f} h", f"{both[1] / 3600.0:.2f} h", ratio)
            cells = [
                swf.name.partition(".")[0],
                policy,
                len(foresight.forecasts),
                judged.jobs,
                covered,
                *errors,
            ]
            yield "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("swf", nargs="+", type=Path, help="traces (SWF, plain or gzip)")
    parser.add_argument("--policy", nargs="+", default=["easy"], help="policies (default: easy)")
    parser.add_argument("--days", type=float, default=14.0, help="length of the run, days (default: 14)")
    parser.add_argument(
        "--start", default="0", help="start of the run in the trace, such as 30d (default: 0)"
    )
    parser.add_argument("--every-h", type=float, default=12.0, help="interval of forecasts, h (default: 12)")
    parser.add_argument("--cores", type=int, default=1, help="processors per host (default: 1)")
    parser.add_argument("-n", type=int, default=30, help="continuations (default: 30)")
    parser.add_argument("-j", type=int, default=2, help="continuations at the same time (default: 2)")
    parser.add_argument(
        "--power",
        nargs=3,
        default=(),
        metavar=("PV", "WIND", "DAY"),
        help="limit the power by the production of a site from a day on, YYYY-MM-DD",
    )
    parser.add_argument("--quick", action="store_true", help="one day, two continuations, two forecasts")
    given = parser.parse_args(arguments)
    if given.quick:
        given.days, given.every_h, given.n = 1.0, 8.0, 2
    for row in rows(given):
        print(row, flush=True)


if __name__ == "__main__":
    main()
