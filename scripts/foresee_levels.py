"""Measure forecasts of a battery's levels on windows of two days: the share of levels in the fan of 90 %.

Each window begins on another day of a year of solar and wind power (Renewables.ninja exports), and has
another synthetic workload. A small site runs it under a policy, and is foreseen once; levels 6 and 24 hours
ahead are judged. The production forecast has quantiles made from that year
(``generate power --write-forecast``), or there is none.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from beasy_sched.cli import cli
from beasy_sched.generate.platform_file import preset_platform, write_platform
from beasy_sched.outputs.files import RunFiles
from beasy_sched.plugins.foresee.following import ForecastFollower, Moments
from beasy_sched.plugins.foresee.forecast import MomentForecast
from beasy_sched.plugins.foresee.judgement import AHEAD_H, judge_levels
from beasy_sched.run.in_process import run_in_process
from beasy_sched.run.settings import RunSettings
from beasy_sched.simulator import Inputs

HOSTS = 8
HOURS = 54
SITE = """
[battery]
capacity_kwh = 12.0
charge_limit_kw = 6.0
discharge_limit_kw = 6.0
[grid]
[time]
step_s = 900
window_h = {hours}
start = "{start}+00:00"
"""


def foreseen(given: argparse.Namespace, seed: int) -> list[MomentForecast]:
    """Run the window of a seed; return its forecasts."""
    rng = np.random.default_rng([52, seed])
    first = datetime.fromisoformat(given.first_day) + timedelta(days=int(rng.integers(given.days)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload, power, forecast = (folder / each for each in ("workload.json", "power.txt", "forecast.csv"))
        jobs = ["--synthetic", "--seed", seed, "--jobs", int(rng.integers(150, 400)), "--hosts", HOSTS]
        _generate("workload", *jobs, "--day-shares", "1,1,1", "--host-shares", "1:5,2:3,4:1", "-o", workload)
        sources = ["--pv", given.pv, "--wind", given.wind]
        size = ["--pv-kw", 3, "--wind-kw", 1, "--start", first.date(), "--days", HOURS / 24, "--dt", 900]
        told = ["--write-forecast", forecast] if given.forecast == "quantiles" else []
        _generate("power", *sources, *size, *told, "-o", power)
        write_platform(preset_platform({"gros": HOSTS}), folder / "platform.xml")
        settings = RunSettings(
            policy=given.policy,
            site=SITE.format(hours=HOURS, start=first.isoformat()),
            site_name=str(folder / "site.toml"),
            forecast=str(forecast) if told else None,
        )
        foresight = ForecastFollower(
            Moments(at_s=tuple(3600.0 * at_h for at_h in given.at_h)), continuations=given.n, at_once=given.j
        )
        files = RunFiles(str(folder / "run"), settings, decisions=False)
        run_in_process(Inputs(folder / "platform.xml", [workload], [power]), files, followers=[foresight])
    return foresight.forecasts


def _generate(*arguments: object) -> None:
    cli.main(["generate", *map(str, arguments)], standalone_mode=False)


def rows(given: argparse.Namespace) -> Iterator[str]:
    """Yield the rows of the table."""
    forecasts: list[MomentForecast] = []
    for seed in range(given.seed, given.seed + given.windows):
        forecasts += foreseen(given, seed)
    yield "| policy | forecast | windows | hours ahead | levels | in the fan of 90 % | within 0.1 points |"
    yield "|---|---|---|---|---|---|---|"
    for ahead_h in AHEAD_H:
        judged, inside = judge_levels(forecasts, ahead_h)
        share = f"{100.0 * inside / judged:.0f} %" if judged else ""
        near = judge_levels(forecasts, ahead_h, 0.1)[1]
        cells = [given.policy, given.forecast, given.windows, f"{ahead_h:g}", judged, share, near]
        yield "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pv", help="solar power of a year")
    parser.add_argument("wind", help="wind power of the year")
    parser.add_argument(
        "--first-day",
        required=True,
        help="first day on which windows begin, YYYY-MM-DD: after 98 days of the year for quantiles",
    )
    parser.add_argument("--days", type=int, default=235, help="days on which windows begin (default: 235)")
    parser.add_argument("--policy", default="easy", help="policy (default: easy)")
    parser.add_argument("--forecast", choices=("quantiles", "none"), default="quantiles")
    parser.add_argument("--windows", type=int, default=60, help="number of windows (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first window (default: 1)")
    parser.add_argument("--at-h", nargs="+", type=float, default=[28.0], help="hours of forecasts")
    parser.add_argument("-n", type=int, default=30, help="continuations (default: 30)")
    parser.add_argument("-j", type=int, default=2, help="continuations at the same time (default: 2)")
    for row in rows(parser.parse_args(arguments)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
