"""Run the energy-budget paper's evaluation, print tables with the paper's numbers and ours, draw figures.

Started by scripts/reproduce_energy_budget, which makes the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from console import exit_code_of, readable

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.energy_budget.energy_budget_options import Allocation, EnergyBudgetOptions
from beasy_sched.units import counted
from studies.claims import judge
from studies.command_line import STOPPED, parser_of, present, read_arguments, run_progress
from studies.energy_budget.claims import CLAIMS, Results, energy_claim_table, results_of
from studies.energy_budget.figures import (
    energy_figures,
    figure_tables,
    table_2,
    week_table,
)
from studies.energy_budget.study import EnergyStudy, all_settings, prepare_weeks


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "energy_budget",
        "Reproduce the energy-budget paper's evaluation (Section V): EASY, powercap, reducePC and"
        " energyBud with eight budgets on the three middle days of weeks of jobs, with and without shutdown;"
        " Figures 2 to 5, Table II and the paper's claims. Completed runs are not repeated.",
        quick="two small synthetic weeks, about a minute",
        out="out/energy-budget",
    )
    add = parser.add_argument
    add("--week", type=readable, action="append", default=[], metavar="FILE",
        help="one week of a trace in SWF (may be repeated); MaxProcs in its header gives the number of"
        " processors (default: synthetic weeks)")  # fmt: skip
    add("--allocation", choices=get_args(Allocation), default=EnergyBudgetOptions().allocation,
        help="processors of a job: any, or only consecutive ones as in the paper (slower)")  # fmt: skip
    add("--reservation", choices=("stock", "strict"), default=EnergyBudgetOptions().reservation,
        help="reservation of energy for the first waiting job: as by the paper's program, or so that it"
        " starts at the promised time")  # fmt: skip
    chosen = read_arguments(parser, arguments)
    if chosen.quick and chosen.week:
        parser.error("--quick uses synthetic weeks: omit --week")
    chosen.out = chosen.out or Path("out/energy-budget-quick" if chosen.quick else "out/energy-budget")
    if chosen.out.exists() and not chosen.out.is_dir():
        parser.error(f"--out: {chosen.out} is not a folder")
    return chosen


def reproduce(chosen: argparse.Namespace) -> int:
    """Reproduce the study; return the exit code."""
    settings = all_settings()
    study = EnergyStudy(chosen.out, (), settings, chosen.allocation, chosen.reservation)
    study.begin()
    weeks = prepare_weeks(chosen.out / "weeks", chosen.week, quick=chosen.quick)
    study = replace(study, weeks=weeks)
    started = time.monotonic()
    with run_progress("energy budgets") as progress:
        failed = study.go_on(Processes(chosen.jobs), progress)
    print_line(
        f"{len(study.runs)} runs, {failed} failed; {time.monotonic() - started:.0f} s; {study.write_table()}"
    )
    runs = study.table()
    for _, run in runs[runs["error"] != ""].head(10).iterrows():
        print_line(f"failed: {run['week']}, {run['algorithm']}, {run['budget']:g}: {run['error']}")
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
    present(chosen, title_of(chosen), tables, origin, energy_figures(results), columns=150)
    return int(failed > 0)


def title_of(chosen: argparse.Namespace) -> str:
    """Return the title of the page, with the options that differ from the defaults."""
    variants = {
        "strict rule of reservation": chosen.reservation == "strict",
        "neighbouring processors": chosen.allocation == "contiguous",
    }
    names = [name for name, given in variants.items() if given]
    return f"The energy-budget paper: {', '.join(names)}" if names else "The energy-budget paper"


def provenance(chosen: argparse.Namespace, study: EnergyStudy, results: Results) -> str:
    """Return the source of the numbers, in a few lines."""
    lines = [
        f"{len(study.runs)} runs of {len(study.weeks)} weeks, {chosen.allocation} processors,"
        f' reservation "{chosen.reservation}";'
        f" {study.cpu_s():.0f} s of CPU time, {counted(chosen.jobs, 'concurrent run')}.",
        "Verdicts: 95 % of 2000 resamples of the weeks, seed 1.",
    ]
    if results.left_out:
        lines.append(f"{results.left_out} weeks are excluded because one of their runs failed.")
    if not chosen.week:
        lines.append(
            "The weeks are synthetic: they show the method, but do not represent the paper's traces."
        )
    if len(results.executions) < 5:
        lines.append("Too few weeks to generalize.")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("reproduce_energy_budget", lambda: reproduce(chosen), stopped=STOPPED)
