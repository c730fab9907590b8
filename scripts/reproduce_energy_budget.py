"""The energy-budget paper's evaluation: run, print as tables beside the paper's numbers, draw as figures.

Started by scripts/reproduce_energy_budget, which makes the environment.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from reproduce_options import writable

from beasy_sched._version import __version__
from beasy_sched.campaign.workers import Processes
from beasy_sched.cli.run_options import progress_bar
from beasy_sched.errors import BeasyError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.reproduction.claims import judge
from beasy_sched.reproduction.energy_budget_claims import CLAIMS, Results, energy_claim_table, results_of
from beasy_sched.reproduction.energy_budget_figures import (
    energy_figures,
    figure_tables,
    table_2,
    week_table,
)
from beasy_sched.reproduction.energy_budget_study import EnergyStudy, all_settings, prepare_weeks
from beasy_sched.reproduction.figures import write_figures
from beasy_sched.reproduction.text_table import TextTable, markdown_of


def reproduce(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    settings = all_settings()
    study = EnergyStudy(chosen.out, (), settings, chosen.allocation)
    study.begin()
    weeks = prepare_weeks(chosen.out / "weeks", chosen.week, quick=chosen.quick)
    study = replace(study, weeks=weeks)
    started = time.monotonic()
    with progress_bar("energy budgets") as report:
        failed = study.go_on(
            Processes(chosen.jobs), None if report is None else lambda done, total: report(done / total)
        )
    tell(
        f"{len(study.runs)} runs, {failed} failed; {time.monotonic() - started:.0f} s; {study.write_table()}"
    )
    runs = study.table()
    for _, run in runs[runs["error"] != ""].head(10).iterrows():
        tell(f"failed: {run['week']}, {run['algorithm']}, {run['budget']:g}: {run['error']}")
    results = results_of(runs, settings)
    if not results.executions:
        raise BeasyError("no week is complete")
    report_on(chosen, study, results)
    return int(failed > 0)


def report_on(chosen: argparse.Namespace, study: EnergyStudy, results: Results) -> None:
    """Print tables, draw figures."""
    tables: list[TextTable] = [
        week_table(study.weeks),
        *figure_tables(results),
        table_2(results),
        energy_claim_table(judge(CLAIMS, results)),
    ]
    width = shutil.get_terminal_size((150, 24)).columns if sys.stdout.isatty() else 150
    for table in tables:
        table.print(width)
    heading = provenance(chosen, study, results)
    print(heading)
    written = write_figures(energy_figures(results), chosen.out / "figures")
    tell(f"{len(written) // 2} figures (PDF and PNG) in {chosen.out / 'figures'}")
    if chosen.markdown:
        write_atomic(chosen.markdown, f"{heading}\n\n{markdown_of(tables)}")
        tell(f"tables in Markdown: {chosen.markdown}")


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


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends the program with code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="scripts/reproduce_energy_budget",
        description="Reproduce the energy-budget paper's evaluation (Section V): EASY, powercap, reducePC and"
        " energyBud with eight budgets on the three middle days of weeks of jobs, with and without shutdown;"
        " Figures 2 to 5, Table II and the paper's claims. Runs that are there already are not run again.",
        epilog="Variables: PYTHON names the Python for the environment; BEASY_VENV=DIR uses a ready"
        " environment and installs nothing.",
    )
    add = parser.add_argument
    add("--week", type=Path, action="append", default=[], metavar="FILE",
        help="a week of a trace, SWF (may be repeated); its header's MaxProcs says how many processors there"
        " are. Without one: synthetic weeks")  # fmt: skip
    add("--quick", action="store_true", help="try it out on two small synthetic weeks: a minute")
    add("--out", type=Path, metavar="DIR",
        help="where to write, and where to go on (default: out/energy-budget)")  # fmt: skip
    add("--jobs", type=int, default=cores(), metavar="N", help="runs at a time (default: one a processor)")
    add("--allocation", choices=("any", "contiguous"), default="any",
        help="any processors for a job, or neighbours as the paper assumes: slower")  # fmt: skip
    add("--markdown", type=writable, metavar="FILE", help="write the tables to FILE, in Markdown")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error(f"--jobs: found {chosen.jobs}, expected 1 or more")
    if chosen.quick and chosen.week:
        parser.error("--quick goes with synthetic weeks: leave out --week")
    chosen.out = chosen.out or Path("out/energy-budget-quick" if chosen.quick else "out/energy-budget")
    if chosen.out.exists() and not chosen.out.is_dir():
        parser.error(f"--out: {chosen.out} is no folder")
    return chosen


def cores() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def tell(text: str) -> None:
    """Say how far it is, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Read the command line, run, and say in a line what went wrong; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = parse_arguments()
    try:
        return reproduce(chosen)
    except BeasyError as error:
        tell(f"reproduce_energy_budget: {error}")
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        tell(f"reproduce_energy_budget: {where}{error.strerror}")
        return 1
    except KeyboardInterrupt:
        tell("reproduce_energy_budget: stopped; the runs that have ended are kept, the same command goes on")
        return 130


if __name__ == "__main__":
    sys.exit(main())
