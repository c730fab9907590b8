"""The options of scripts/run, and what follows from them: its files, and a description of its days."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from console import ENVIRONMENT, PERCENT, SEED, count, readable, tell

from beasy_sched.campaigns.workers import processors

HOSTS = 50
JOBS_PER_DAY = 300
PV_KW = 10
WIND_KW = 7
SIGMA_PCT = 20.0
POLICIES = (
    "bid-price", "beasy", "follow-plan", "peak", "next", "last", "workload", "power-reactive",
    "workload-reactive",
)  # fmt: skip
"""Ours, and those that the BEASY paper compares."""


GREENSLOT_RUNS = {
    "conventional": ("conventional", []),
    "greenonly": ("greenslot", ["--option", "prices=flat"]),
    "greenslot": ("greenslot", []),
    "lowest-window": ("lowest-window", []),
}
"""What --scenario greenslot compares: the policy behind each name, and its options. GreenOnly is the paper's
name for GreenSlot where all brown energy costs the same."""


EXAMPLE_JOBS = {None: "17", "greenslot": "W2.5.1.8"}
"""A job of each scenario, to show how one asks for it."""


class Files(NamedTuple):
    """All files: those that the runs read, those that the plan is made from, and the plan."""

    platform: str = "platform.xml"
    workload: str = "workload.json"
    power: str = "power.txt"
    site: str = "site.toml"
    forecast_workload: str = "forecast_workload.json"
    forecast_power: str = "forecast_power.txt"
    plan: str = "plan.msgpack"
    figure: str = "plan.png"
    forecast: str = "forecast.csv"

    def forecast_options(self, chosen: argparse.Namespace) -> list[str]:
        """Return the --forecast option of a command, for a scenario whose policies plan with one."""
        if chosen.scenario is None:
            return []
        return ["--forecast", f"perfect:{self.power}" if chosen.production == "exact" else self.forecast]

    def plan_options(self, chosen: argparse.Namespace) -> list[str]:
        """Return the --plan option of a command, if there is a plan."""
        return [] if chosen.no_plan or not Path(self.plan).exists() else ["--plan", self.plan]


def files_in(folder: Path) -> Files:
    """Return the paths of all files in the chosen folder."""
    return Files(*(str(folder / name) for name in Files()))


def decider(chosen: argparse.Namespace, name: str) -> tuple[str, list[str]]:
    """Return the policy behind a name in the table, and the arguments that give its options."""
    policy, own = (GREENSLOT_RUNS if chosen.scenario else {}).get(name, (name, []))
    given = [] if chosen.options is None else ["--options", chosen.options]
    given += [word for each in chosen.option for word in ("--option", each)]
    return policy, given or own


def show(arguments: Sequence[str]) -> None:
    """Print a command as a user would type it, so that it can be repeated by hand."""
    tell(f"$ beasy-sched {shlex.join(arguments)}")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/run",
        description=f"Make a platform of {HOSTS} servers, a workload of three days and the power of "
        f"{PV_KW} kW of solar and {WIND_KW} kW of wind plants, as forecast and as they really occur; plan "
        f"the window from the forecast; then let each of {len(POLICIES)} policies schedule the same days; "
        "print one table, and write a report with charts (HTML).",
        epilog=ENVIRONMENT,
    )
    _add_what_runs(parser.add_argument_group("what runs"))
    _add_scenario(parser.add_argument_group("the days"))
    _add_own_data(parser.add_argument_group("your own data"))
    chosen = parser.parse_args(arguments)
    _check(parser, chosen)
    chosen.no_plan |= chosen.scenario is not None
    chosen.policies = chosen.policy or list(GREENSLOT_RUNS if chosen.scenario else POLICIES)
    chosen.jobs = chosen.jobs or min(processors(), len(chosen.policies))
    return chosen


def _add_what_runs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--policy", action="append", metavar="NAME", help="run only this policy (may be repeated; default: "
        "all nine); a single policy prints its full summary")  # fmt: skip
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the policy (may be "
        "repeated); requires a single --policy")  # fmt: skip
    add("--options", metavar="JSON|@FILE", help="all options of the policy; requires a single --policy")
    add(
        "--no-plan",
        action="store_true",
        help="do not plan the window; requires a --policy that needs no plan",
    )
    add(
        "--jobs",
        type=count(1),
        metavar="N",
        help="number of policies that run concurrently (default: one per core)",
    )
    add("--wire", action="store_true", help="run scheduler and simulator as two processes that communicate "
        "over ZeroMQ, as with a real Batsim: slower, with the same results")  # fmt: skip
    add("--no-report", action="store_true", help="do not write the HTML report")
    add("--markdown", action="store_true", help="print the table in Markdown")
    add("-o", "--out", type=Path, default=Path("out/run"), metavar="DIR",
        help="output folder (default: out/run)")  # fmt: skip
    add("--quick", action="store_true", help="one day instead of three")


def _add_scenario(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--scenario", choices=("greenslot",), help="instead of these days the week of GreenSlot's paper: 28 "
        "workflows with deadlines on 16 servers with 2.3 kW of solar panels, and the grid behind them; runs "
        f"{', '.join(GREENSLOT_RUNS)}")  # fmt: skip
    add("--seed", type=SEED, default=1, metavar="N", help="seed of all random numbers (default: 1)")
    add("--arrivals", choices=("begin", "end", "uniform"), help="when most jobs arrive (default: begin)")
    add("--production", choices=("exact", "best", "worst", "between"), default="between",
        help="real production of sun and wind: as forecast, at the upper or the lower bound of the "
        "forecast, or anywhere between (default)")  # fmt: skip
    add("--sigma", type=PERCENT, default=SIGMA_PCT, metavar="PCT", help="how far real arrivals and run "
        "times deviate from the forecast: Gaussian noise, percent (default: %(default)g)")  # fmt: skip


def _add_own_data(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--site", type=readable, metavar="FILE", help="your site file instead of scripts/site.toml")
    add(
        "--swf",
        type=readable,
        metavar="FILE",
        help="your trace (SWF, plain or gzip) instead of generated jobs",
    )
    add("--from", dest="begin", metavar="TIME", help="start within the trace, for example 30d")
    add(
        "--cores-per-host", type=count(1), metavar="N", help="processors of the trace per server (default: 1)"
    )
    add("--ninja-pv", type=readable, metavar="FILE", help="your Renewables.ninja export for the sun")
    add("--ninja-wind", type=readable, metavar="FILE", help="your Renewables.ninja export for the wind")
    add("--start", metavar="TIME", help="start within the exports, for example 2019-06-01")


def _check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if chosen.scenario is not None:
        _check_scenario(parser, chosen)
    if chosen.swf is None and (chosen.begin or chosen.cores_per_host):
        parser.error("--from and --cores-per-host require a trace: pass --swf FILE")
    if chosen.swf is not None and chosen.arrivals:
        parser.error("--arrivals is for generated jobs: a trace has its own arrivals")
    if chosen.site is not None and chosen.quick:
        parser.error("--quick applies to scripts/site.toml only: set window_h in your site file instead")
    twice = next((name for name in chosen.policy or () if chosen.policy.count(name) > 1), None)
    if twice is not None:
        parser.error(f"--policy {twice}: given twice; each policy runs once, on the same days")
    if (chosen.option or chosen.options is not None) and len(chosen.policy or ()) != 1:
        parser.error("--option and --options require exactly one policy: pass --policy NAME")
    if chosen.no_plan and not chosen.policy and not chosen.scenario:
        parser.error("--no-plan: most of the nine policies need a plan; choose others, such as --policy easy")


def _check_scenario(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Refuse options of other days than those of the scenario."""
    names = {"begin": "from", **{name: name for name in ("quick", "seed", "arrivals", "sigma", "swf")}}
    names |= {name: name for name in ("cores_per_host", "ninja_pv", "ninja_wind", "start")}
    for name, option in names.items():
        if getattr(chosen, name) != parser.get_default(name):
            option = option.replace("_", "-")
            parser.error(f"--scenario {chosen.scenario} has its own days: omit --{option}")
    if chosen.production in ("best", "worst"):
        parser.error(
            f"--production {chosen.production}: the sun of --scenario {chosen.scenario} was measured; omit"
            " the option, or pass exact for perfect predictions"
        )


def days_in_words(chosen: argparse.Namespace) -> str:
    """Describe the days, and how they differ from the forecast."""
    if chosen.scenario is not None:
        known = "exactly as it comes" if chosen.production == "exact" else "as the paper's predictor said"
        return f"GreenSlot's workflows, Monday to Friday; sun of 12 July 2010 on, predicted {known}"
    came = {
        "exact": "production as forecast",
        "best": "production at the upper bound of its forecast",
        "worst": "production at the lower bound of its forecast",
        "between": "production anywhere between the bounds of its forecast",
    }[chosen.production]
    jobs = f"{chosen.sigma:g} % noise on arrivals and run times" if chosen.sigma else "jobs as forecast"
    shape = "" if chosen.swf or chosen.quick else f"arrivals: {chosen.arrivals or 'begin'}; "
    return f"{shape}{came}; {jobs}; seed {chosen.seed}"
