"""The options of scripts/run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

HOSTS = 50
JOBS_PER_DAY = 300
PV_KW = 10
WIND_KW = 7
SIGMA_PCT = 20.0
POLICIES = (
    "beasy", "follow-plan", "peak", "next", "last", "workload", "power-reactive", "workload-reactive",
)  # fmt: skip
"""Those that the BEASY paper compares."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="scripts/run",
        description=f"Make a platform of {HOSTS} servers, a workload of three days and the power of "
        f"{PV_KW} kW of sun and {WIND_KW} kW of wind, as forecast and as they really come; plan the window "
        f"from the forecast; then let each of {len(POLICIES)} policies schedule the same real days, as a "
        "process of its own that the simulator asks over ZeroMQ, just as Batsim would; print one table.",
        epilog="Variables: PYTHON names the Python for the environment; BEASY_VENV=DIR uses a ready "
        "environment and installs nothing.",
    )
    _add_what_runs(parser.add_argument_group("what runs"))
    _add_scenario(parser.add_argument_group("the days"))
    _add_own_data(parser.add_argument_group("your own data"))
    chosen = parser.parse_args(arguments)
    _check(parser, chosen)
    chosen.policies = chosen.policy or list(POLICIES)
    chosen.jobs = chosen.jobs or min(_cores(), len(chosen.policies))
    return chosen


def _add_what_runs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--policy", action="append", metavar="NAME", help="run this one only (may be repeated; default: "
        "eight); a single one prints all it came to")  # fmt: skip
    add("--options", metavar="JSON|@FILE", help="the options of the one --policy")
    add("--no-plan", action="store_true", help="do not plan the window; name a --policy that needs no plan")
    add("--jobs", type=_positive, metavar="N", help="policies that run at a time (default: one a processor)")
    add("--markdown", action="store_true", help="print the table in Markdown")
    add("--out", type=Path, default=Path("out/run"), metavar="DIR", help="where to write (default: out/run)")
    add("--quick", action="store_true", help="one day instead of three")


def _add_scenario(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--seed", type=int, default=1, metavar="N", help="seed of all that is drawn (default: 1)")
    add("--arrivals", choices=("begin", "end", "uniform"), help="when most jobs arrive (default: begin)")
    add("--production", choices=("exact", "best", "worst", "between"), default="between",
        help="what sun and wind really bring: the forecast; the upper bound of its band; the lower; "
        "anywhere between (default)")  # fmt: skip
    add("--sigma", type=_percent, default=SIGMA_PCT, metavar="PCT", help="how far real arrivals and run "
        "times are off the forecast: Gaussian noise, percent; 0 for none (default: %(default)g)")  # fmt: skip


def _add_own_data(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--site", type=Path, metavar="FILE", help="your site file instead of scripts/site.toml")
    add("--swf", type=Path, metavar="FILE", help="your trace (SWF, plain or gzip) instead of drawn jobs")
    add("--from", dest="begin", metavar="TIME", help="where in the trace to begin, such as 30d")
    add("--cores-per-host", metavar="N", help="processors of the trace that a server has (default: 1)")
    add("--ninja-pv", type=Path, metavar="FILE", help="your Renewables.ninja export for the sun")
    add("--ninja-wind", type=Path, metavar="FILE", help="your Renewables.ninja export for the wind")
    add("--start", metavar="TIME", help="where in the exports to begin, such as 2019-06-01")


def _check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if chosen.swf is None and (chosen.begin or chosen.cores_per_host):
        parser.error("--from and --cores-per-host are for a trace: name one with --swf FILE")
    if chosen.swf is not None and chosen.arrivals:
        parser.error("--arrivals is for drawn jobs: a trace has its own")
    if chosen.site is not None and chosen.quick:
        parser.error("--quick is for the site of scripts/site.toml: set window_h in your own")
    twice = next((name for name in chosen.policy or () if chosen.policy.count(name) > 1), None)
    if twice is not None:
        parser.error(f"--policy {twice}: named twice; each policy runs once, on the same days")
    if chosen.options is not None and len(chosen.policy or ()) != 1:
        parser.error("--options are those of one policy: name it with --policy NAME")
    if chosen.no_plan and not chosen.policy:
        parser.error("--no-plan: most of the eight policies need a plan; name others, such as --policy easy")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from 1 on")
    return int(text)


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected percent, 0 to 100")
    return value


def _cores() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
