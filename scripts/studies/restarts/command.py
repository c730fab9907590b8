"""Compare policies with killed jobs lost, requeued, and continued from checkpoints.

Started by scripts/compare_restarts, which makes the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from console import count, exit_code_of

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.folder import must_be_empty
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS
from studies.command_line import STOPPED, cautions, parser_of, present, read_arguments, run_progress, span
from studies.comparison.results import blocks_by_case
from studies.comparison.study import Extent, comparison, find_cases
from studies.restarts.study import POLICIES, conditions, counts_of, findings, restart_tables

SEEDS, FIRST_DAY, DAYS = range(7000, 7001), 7000, 10
QUICK_SEEDS, QUICK_DAYS = range(5000, 5001), range(5000, 5002)
"""A trial uses other seeds, so that it gives away nothing of the results."""
CASES = ("critical-days", "average")
QUICK_CASES = ("average",)
QUICK_POLICIES = ("beasy", "workload-reactive", "bid-price")
GUARDS = {guard.mode.value: guard for guard in PAPER_GUARDS}
RUNS = "campaign"
"""The folder of the runs, in that of the study."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "",
        "Compare eight policies and bid-price with killed jobs lost (drop), requeued (requeue), and "
        "continued from hourly checkpoints (checkpoint): the four critical cases of the BEASY paper and the "
        "average ones, on ten days each. Prints means, paired differences and rankings. Completed runs are "
        "not repeated.",
        prog="compare_restarts",
        quick="two shorter days, fewer jobs, cases and policies; the results are not conclusive",
        out="out/restarts",
    )
    parser.add_argument(
        "--days",
        type=count(1),
        default=DAYS,
        metavar="N",
        help=f"number of days of each case (default: {DAYS}); a folder has one number",
    )
    parser.add_argument("--guard", choices=[*GUARDS], help="one of the two guards (default: both)")
    chosen = read_arguments(parser, arguments)
    chosen.out = chosen.out or Path("out/restarts-quick" if chosen.quick else "out/restarts")
    all_days = range(FIRST_DAY, FIRST_DAY + chosen.days)
    noise, days = (QUICK_SEEDS, QUICK_DAYS) if chosen.quick else (SEEDS, all_days)
    guards = PAPER_GUARDS[:1] if chosen.quick else PAPER_GUARDS
    if chosen.guard is not None:
        guards = (GUARDS[chosen.guard],)
    chosen.extent = Extent(noise, days, 1, guards, small=chosen.quick)
    chosen.cases = QUICK_CASES if chosen.quick else CASES
    chosen.policies = QUICK_POLICIES if chosen.quick else POLICIES
    return chosen


def compare(chosen: argparse.Namespace) -> int:
    """Make the whole study; return the exit code."""
    folder, cases = chosen.out / RUNS, find_cases(chosen.cases)
    if not folder.is_dir():
        must_be_empty(chosen.out, "an earlier comparison")
    begin(comparison(cases, conditions(chosen.policies), chosen.extent), folder)
    started = time.monotonic()
    with run_progress("restarts") as progress:
        outcome = go_on(folder, Processes(chosen.jobs), progress=progress)
    print_line(
        f"{outcome.runs} runs, {outcome.executed} executed in {time.monotonic() - started:.0f} s,"
        f" {outcome.failed} failed; {folder / 'runs.parquet'}"
    )
    campaign = read_campaign(folder)
    runs = campaign.runs.fillna({"redone_kwh": 0.0, "restart_count": 0})  # where jobs are lost
    blocks = blocks_by_case(runs)
    if not blocks:
        raise BeasyError(f"no execution is complete: see 'beasy-sched campaign status {folder}'")
    titles = {case.name: case.title for case in cases}
    shown = (blocks, chosen.policies, titles, counts_of(runs))
    lines = [
        f"{len(campaign.runs)} runs; noise: seed {span(chosen.extent.seeds)}; days: seeds"
        f" {span(chosen.extent.days)}; checkpoints every hour, 60 s to write and 90 s to read.",
        f"{campaign.timings['cpu_s'].sum():.0f} s of CPU time.",
        *cautions(chosen.extent, "A quick comparison"),
        *findings(*shown),
    ]
    tables = restart_tables(*shown)
    present(chosen, "Killed jobs that come back", tables, "\n".join(lines), iter(()), columns=120)
    return int(outcome.failed > 0)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("compare_restarts", lambda: compare(chosen), stopped=STOPPED)
