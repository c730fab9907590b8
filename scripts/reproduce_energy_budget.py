"""The energy-budget paper's evaluation: run, print as tables beside the paper's numbers, draw as figures.

Started by scripts/reproduce_energy_budget, which makes the environment.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from reproduce_common import STOPPED, counted, exit_code_of, parser_of, present, tell

from beasy_sched._version import __version__
from beasy_sched.campaign.workers import Processes
from beasy_sched.errors import BeasyError
from beasy_sched.reproduction.claims import judge
from beasy_sched.reproduction.energy_budget_claims import CLAIMS, Results, energy_claim_table, results_of
from beasy_sched.reproduction.energy_budget_figures import (
    energy_figures,
    figure_tables,
    table_2,
    week_table,
)
from beasy_sched.reproduction.energy_budget_study import EnergyStudy, all_settings, prepare_weeks


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with code 2 where it makes no sense."""
    parser = parser_of(
        "energy_budget",
        "Reproduce the energy-budget paper's evaluation (Section V): EASY, powercap, reducePC and"
        " energyBud with eight budgets on the three middle days of weeks of jobs, with and without shutdown;"
        " Figures 2 to 5, Table II and the paper's claims. Runs that are there already are not run again.",
        quick="two small synthetic weeks, a minute",
        out="out/energy-budget",
        markdown="",
    )
    add = parser.add_argument
    add("--week", type=Path, action="append", default=[], metavar="FILE",
        help="a week of a trace, SWF (may be repeated); its header's MaxProcs says how many processors there"
        " are. Without one: synthetic weeks")  # fmt: skip
    add("--allocation", choices=("any", "contiguous"), default="any",
        help="any processors for a job, or neighbours as the paper assumes: slower")  # fmt: skip
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.week:
        parser.error("--quick goes with synthetic weeks: leave out --week")
    chosen.out = chosen.out or Path("out/energy-budget-quick" if chosen.quick else "out/energy-budget")
    if chosen.out.exists() and not chosen.out.is_dir():
        parser.error(f"--out: {chosen.out} is no folder")
    return chosen


def reproduce(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    settings = all_settings()
    study = EnergyStudy(chosen.out, (), settings, chosen.allocation)
    study.begin()
    weeks = prepare_weeks(chosen.out / "weeks", chosen.week, quick=chosen.quick)
    study = replace(study, weeks=weeks)
    started = time.monotonic()
    with counted("energy budgets") as progress:
        failed = study.go_on(Processes(chosen.jobs), progress)
    tell(
        f"{len(study.runs)} runs, {failed} failed; {time.monotonic() - started:.0f} s; {study.write_table()}"
    )
    runs = study.table()
    for _, run in runs[runs["error"] != ""].head(10).iterrows():
        tell(f"failed: {run['week']}, {run['algorithm']}, {run['budget']:g}: {run['error']}")
    results = results_of(runs, settings)
    if not results.executions:
        raise BeasyError("no week is complete")
    tables = [
        week_table(weeks),
        *figure_tables(results),
        table_2(results),
        energy_claim_table(judge(CLAIMS, results)),
    ]
    origin = provenance(chosen, study, results)
    present(chosen, "energy-budget", tables, origin, energy_figures(results), columns=150)
    return int(failed > 0)


def provenance(chosen: argparse.Namespace, study: EnergyStudy, results: Results) -> str:
    """Return where the numbers come from, in a few lines."""
    lines = [
        f"{len(study.runs)} runs of {len(study.weeks)} weeks, {chosen.allocation} processors;"
        f" {study.cpu_s():.0f} s of processor time.",
        f"beasy-sched {__version__}, Python {platform.python_version()}, NumPy {np.__version__};"
        f" {chosen.jobs} runs at a time.",
        "Verdicts: 95 % of 2000 resamples of the weeks, seed 1.",
    ]
    if results.left_out:
        lines.append(f"{results.left_out} weeks are left out: a run of theirs failed.")
    if not chosen.week:
        lines.append(
            "The weeks are synthetic: they show how it works, and say little about the paper's traces."
        )
    if len(results.executions) < 5:
        lines.append("So few weeks say next to nothing about others.")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = parse_arguments()
    sys.exit(exit_code_of("reproduce_energy_budget", lambda: reproduce(chosen), stopped=STOPPED))
