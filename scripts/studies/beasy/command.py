"""Run the BEASY paper's experiments, print tables with the paper's numbers and ours, draw its figures.

Started by scripts/reproduce_critical and scripts/reproduce_average, which make the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas
from console import count, exit_code_of
from msgspec.structs import replace

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario import ABUNDANT_PREFIX, Scenario
from beasy_sched.plugins.campaigns.scenario_file import find_scenario
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.beasy.attribution import (
    READINGS,
    attribution,
    attribution_table,
    unmet_table,
)
from studies.beasy.claims import CLAIMS
from studies.beasy.figures import (
    Closeup,
    average_figures,
    critical_figures,
    make_closeups,
    runs_to_compare,
)
from studies.beasy.study import (
    ABLATION,
    HEADLINES,
    SHED,
    VARIED,
    Size,
    Study,
    ablation_table,
    campaign_in,
    check_folder,
    experiments,
    guard_table,
    left_out,
    result_tables,
    study_of,
    verdict_tables,
)
from studies.claims import judge
from studies.command_line import STOPPED, parser_of, present, read_arguments, run_progress
from studies.figures import Figures

SCENARIOS = {
    "critical": ("best-begin", "best-end", "worst-begin", "worst-end"),
    "average": ("average",),
}
WHAT = {
    "critical": "the four critical scenarios of the BEASY paper (Section V-A)",
    "average": "the average cases of the BEASY paper (Section V-B): ten plans, ten noise seeds each",
}
SEEDS = {"critical": 2, "average": 10}
"""Number of seeds for each pair of workload and production, of which there are five and ten."""
SHED_SEEDS = 1


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    everything = argparse.ArgumentParser(add_help=False)
    everything.add_argument("headline", choices=SCENARIOS)
    headline, rest = everything.parse_known_args(arguments)
    chosen = read_arguments(_parser(headline.headline), rest, headline)
    chosen.scenarios = chosen.scenario or SCENARIOS[chosen.headline]
    if chosen.out is None:
        chosen.out = Path("out/reproduction-quick" if chosen.quick else "out/reproduction")
    seeds = chosen.seeds or (1 if chosen.quick else SEEDS[chosen.headline])
    shed = SHED_SEEDS if chosen.shed_seeds is None else chosen.shed_seeds
    chosen.size = Size(seeds, min(shed, seeds), getattr(chosen, "ablation_seeds", 0), chosen.quick)
    return chosen


def _parser(headline: str) -> argparse.ArgumentParser:
    parser = parser_of(
        headline,
        f"Reproduce {WHAT[headline]}: run the eight policies, compare the paper's Table I, numbers and "
        "claims with ours, and draw its figures. Completed runs are not repeated.",
        quick="one day, fewer jobs, one seed; the results are not conclusive",
        out="out/reproduction",
    )
    add = parser.add_argument
    add(
        "--seeds",
        type=count(1),
        metavar="N",
        help=f"seeds under the papers' guard (default: {SEEDS[headline]})",
    )
    add("--shed-seeds", type=count(0), metavar="N", help="number of these seeds also run under our guard "
        f"(shed with veto; default: {SHED_SEEDS}; 0 for none)")  # fmt: skip
    if headline == "critical":
        add("--ablation-seeds", type=count(0), default=0, metavar="N", help="number of these seeds run in "
            "each variant of the ablation (default: 0 for none)")  # fmt: skip
    add("--readings-seeds", type=count(0), default=0, metavar="N", help="number of these seeds run in each "
        "reading of the paper (default: 0 for none)")  # fmt: skip
    add("--scenario", type=Path, action="append", metavar="NAME|FILE", help="use this scenario (may be "
        "repeated); its guards are replaced by those of this command, and its seeds are counted from its "
        "first one")  # fmt: skip
    return parser


def reproduce(chosen: argparse.Namespace) -> int:
    """Reproduce the study; return the exit code."""
    check_folder(chosen.out)
    scenarios = [as_in_the_paper(find_scenario(str(name))) for name in chosen.scenarios]
    campaigns = experiments(chosen.headline, scenarios, chosen.size)
    if chosen.readings_seeds:
        papers = campaigns[chosen.headline]
        base = [replace(scenario, seeds=scenario.seeds[: chosen.readings_seeds]) for scenario in papers]
        campaigns[chosen.headline + VARIED] = attribution(base, READINGS)
    failed = sum(run(chosen, name, parts) for name, parts in campaigns.items())
    campaign = read_campaign(chosen.out / chosen.headline)
    study = study_of(campaign.runs)
    if not study:
        raise BeasyError(
            f"no execution is complete: see 'beasy-sched campaign status {chosen.out / chosen.headline}'"
        )
    closeups: dict[str, Closeup] = {}

    def figures() -> Figures:
        """Run the executions of Figures 10 and 15 again with all their files, and draw all figures."""
        compared = runs_to_compare(campaign, study, next(iter(study)))
        closeups.update(make_closeups(campaign, compared.values(), chosen.out, jobs=chosen.jobs))
        draw = critical_figures if chosen.headline == "critical" else average_figures
        yield from draw(campaign, study, closeups, compared)

    def notes() -> Iterator[str]:
        for name, closeup in closeups.items():
            yield f"all files of {name}: {closeup.folder}; try beasy-sched explain {closeup.folder} --at 12h"

    tables, origin = all_tables(chosen, campaign, study), provenance(campaign)
    title, page = f"The BEASY paper: {chosen.headline} cases", f"tables-{chosen.headline}.md"
    present(chosen, title, tables, origin, figures(), notes=notes(), columns=160, page=page)
    return int(failed > 0)


def as_in_the_paper(scenario: Scenario) -> Scenario:
    """Return a scenario under the name by which the paper's claims are found."""
    return replace(scenario, name=scenario.name.removeprefix(ABUNDANT_PREFIX))


def run(chosen: argparse.Namespace, name: str, scenarios: Sequence[Scenario]) -> int:
    """Run a campaign, or what is left of it; return how many of its runs failed."""
    folder, started = chosen.out / name, time.monotonic()
    begin(scenarios, folder)
    with run_progress(name) as progress:
        outcome = go_on(folder, Processes(chosen.jobs), progress=progress)
    took = (
        f"{outcome.executed} in {time.monotonic() - started:.0f} s" if outcome.executed else "all done before"
    )
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    print_line(f"{name}: {outcome.runs} runs, {took}{failed}")
    return outcome.failed


def all_tables(chosen: argparse.Namespace, campaign: Campaign, study: Study) -> Iterator[TextTable]:
    """Yield the tables; a table without results is empty."""
    everything = {**study}
    for name in HEADLINES:  # claims about all scenarios also need the other script's results
        other = campaign_in(chosen.out, name) if name != chosen.headline else None
        if other is not None:
            everything |= study_of(other.runs)
    claims = [claim for claim in CLAIMS if claim.part in (*study, chosen.headline, "table")]
    yield from result_tables(study)
    yield from verdict_tables(judge(claims, everything))
    shed, ablation = (campaign_in(chosen.out, name) for name in (chosen.headline + SHED, ABLATION))
    if shed is not None:
        yield guard_table(campaign.runs, shed.runs)
    if chosen.readings_seeds:
        yield from readings_tables(chosen)
    if ablation is not None and chosen.headline == "critical":
        yield ablation_table(ablation.runs)


def readings_tables(chosen: argparse.Namespace) -> Iterator[TextTable]:
    """Yield what each reading changes: in this command's scenarios, and in all if the others are there."""
    found = {}
    for name in (chosen.headline, *HEADLINES):
        papers, varied = (campaign_in(chosen.out, name + part) for part in ("", VARIED))
        if papers is not None and varied is not None:
            found[name] = papers.runs, varied.runs
    yield attribution_table(*found[chosen.headline], READINGS)
    papers, varied = (pandas.concat(parts, ignore_index=True) for parts in zip(*found.values(), strict=True))
    if len(found) > 1:
        yield attribution_table(papers, varied, READINGS, title="Readings: all scenarios")
    yield unmet_table(papers, varied, READINGS)


def provenance(campaign: Campaign) -> str:
    """Return the source of the numbers, in a few lines."""
    runs, timings = campaign.runs, campaign.timings
    seeds = sorted(runs["seed"].unique())
    missing = left_out(runs)
    lines = [
        f"{len(runs)} runs: {', '.join(runs['scenario'].unique())}; noise seeds {seeds[0]} to {seeds[-1]}; "
        f"{timings['cpu_s'].sum():.0f} s of CPU time, {timings['cpu_s'].mean():.2f} s per run.",
        "Intervals: 95 %, bootstrap over executions (plans first, where there are several), seed 1.",
    ]
    if missing:
        lines.append(f"{missing} executions are excluded everywhere because one of their runs failed.")
    if len(runs.groupby(["tuple", "seed"])) < 5:
        lines.append("Too few executions to generalize: the intervals are too narrow.")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of(f"reproduce_{chosen.headline}", lambda: reproduce(chosen), stopped=STOPPED)
