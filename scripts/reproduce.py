"""The BEASY paper's experiments: run, print as tables beside the paper's numbers, draw as figures.

Started by scripts/reproduce_critical and scripts/reproduce_average, which make the environment.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from reproduce_options import parse_arguments

from beasy_sched._version import __version__
from beasy_sched.campaign.campaign import begin, go_on
from beasy_sched.campaign.scenario_file import find_scenario
from beasy_sched.campaign.table import Campaign
from beasy_sched.campaign.workers import Processes
from beasy_sched.cli.run_options import progress_bar
from beasy_sched.errors import BeasyError
from beasy_sched.reproduction.beasy_claims import CLAIMS
from beasy_sched.reproduction.beasy_figures import (
    average_figures,
    critical_figures,
    make_closeups,
    runs_to_compare,
)
from beasy_sched.reproduction.beasy_results import (
    Study,
    ablation_table,
    guard_table,
    left_out,
    result_tables,
    study_of,
    verdict_tables,
)
from beasy_sched.reproduction.beasy_study import (
    ABLATION,
    HEADLINES,
    SHED,
    Experiment,
    campaign_in,
    check_folder,
    experiments,
)
from beasy_sched.reproduction.claims import judge
from beasy_sched.reproduction.figures import write_figures
from beasy_sched.reproduction.text_table import TextTable, markdown_of, write_markdown

ROOT = Path(__file__).resolve().parent.parent


def reproduce(chosen: argparse.Namespace) -> int:
    """Do all of it; return the exit code."""
    check_folder(chosen.out)
    scenarios = [find_scenario(str(name)) for name in chosen.scenarios]
    failed = sum(
        run_experiment(chosen, each) for each in experiments(chosen.headline, scenarios, chosen.size)
    )
    campaign = campaign_in(chosen.out, chosen.headline)
    assert campaign is not None
    study = study_of(campaign.runs)
    if not study:
        raise BeasyError(
            f"no execution is complete: see 'beasy-sched campaign status {chosen.out / chosen.headline}'"
        )
    tables = list(all_tables(chosen, campaign, study))
    for table in tables:
        table.print(width())
    heading = provenance(chosen, campaign)
    print(heading)
    draw(chosen, campaign, study)
    if chosen.markdown:
        write_markdown(chosen.markdown, chosen.headline, f"{heading}\n\n{markdown_of(tables)}")
        tell(f"tables in Markdown: {chosen.markdown}")
    return int(failed > 0)


def run_experiment(chosen: argparse.Namespace, part: Experiment) -> int:
    """Run a campaign, or what is left of it; return how many of its runs failed."""
    folder, started = chosen.out / part.name, time.monotonic()
    begin(list(part.scenarios), folder)
    with progress_bar(part.name) as report:
        outcome = go_on(
            folder,
            Processes(chosen.jobs),
            progress=None if report is None else lambda done, total: report(done / total),
        )
    took = (
        f"{outcome.executed} in {time.monotonic() - started:.0f} s" if outcome.executed else "all were there"
    )
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    tell(f"{part.name}: {outcome.runs} runs, {took}{failed}")
    return outcome.failed


def all_tables(chosen: argparse.Namespace, campaign: Campaign, study: Study) -> list[TextTable]:
    """Return the tables that there are results for."""
    everything = {**study}
    for name in HEADLINES:  # claims about all scenarios need the other script's results, too
        other = campaign_in(chosen.out, name) if name != chosen.headline else None
        if other is not None:
            everything |= study_of(other.runs)
    verdicts = judge(
        [claim for claim in CLAIMS if claim.part in study or claim.part in (chosen.headline, "table")],
        everything,
    )
    tables = [*result_tables(study), *verdict_tables(verdicts)]
    shed, ablation = (campaign_in(chosen.out, name) for name in (chosen.headline + SHED, ABLATION))
    if shed is not None:
        tables.append(guard_table(campaign.runs, shed.runs))
    if ablation is not None and chosen.headline == "critical":
        tables.append(ablation_table(ablation.runs))
    return [table for table in tables if table.rows]


def draw(chosen: argparse.Namespace, campaign: Campaign, study: Study) -> None:
    """Run the executions of Figures 10 and 15 again with all their files, and draw all figures."""
    first = next(iter(study))
    compared = runs_to_compare(campaign, study, first)
    closeups = make_closeups(campaign, compared.values(), chosen.out, jobs=chosen.jobs)
    figures = critical_figures if chosen.headline == "critical" else average_figures
    folder = chosen.out / "figures"
    written = write_figures(figures(campaign, study, closeups, compared), folder)
    tell(f"{len(written) // 2} figures (PDF and PNG) in {folder}")
    for run, closeup in closeups.items():
        tell(f"all files of {run}: {closeup.folder}; try beasy-sched explain {closeup.folder} --at 12h")


def provenance(chosen: argparse.Namespace, campaign: Campaign) -> str:
    """Return where the numbers come from, in a few lines."""
    runs, timings = campaign.runs, campaign.timings
    seeds = sorted(runs["seed"].unique())
    missing = left_out(runs)
    lines = [
        f"{len(runs)} runs: {', '.join(runs['scenario'].unique())}; noise seeds {seeds[0]} to {seeds[-1]}; "
        f"{timings['cpu_s'].sum():.0f} s of processor time, {timings['cpu_s'].mean():.2f} s a run.",
        f"Tables by beasy-sched {__version__}{commit()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}; {processor()}, {os.cpu_count()} cores.",
        "Intervals: 95 %, bootstrap over executions (plans first, where there are several), seed 1.",
    ]
    if missing:
        lines.append(f"{missing} executions are left out of all comparisons: a run of theirs failed.")
    if len(runs.groupby(["tuple", "seed"])) < 5:
        lines.append("So few executions say next to nothing about others: intervals are too narrow.")
    return "\n".join(lines)


def commit() -> str:
    """Return the checkout's commit, where there is one."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({found})"


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def width() -> int:
    """Return how many columns there are to print on."""
    return shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 160


def tell(text: str) -> None:
    """Say how far it is, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Read the command line, run, and say in a line what went wrong; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = parse_arguments()
    name = f"reproduce_{chosen.headline}"
    try:
        return reproduce(chosen)
    except BeasyError as error:
        tell(f"{name}: {error}")
        return error.exit_code
    except BrokenPipeError:  # whoever read the tables has had enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        tell(f"{name}: {where}{error.strerror}")
        return 1
    except KeyboardInterrupt:
        tell(f"{name}: stopped; the runs that have ended are kept, the same command goes on")
        return 130


if __name__ == "__main__":
    sys.exit(main())
