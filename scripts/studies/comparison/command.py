"""Compare policies on the same executions: means, paired differences, and an upper bound.

Started by scripts/compare_policies, which makes the environment.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from console import MOST, count, exit_code_of, readable

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError
from beasy_sched.limits import shortened
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import Campaign, read_campaign
from beasy_sched.plugins.campaigns.folder import must_be_empty
from beasy_sched.plugins.campaigns.own_days import OwnFiles
from beasy_sched.plugins.campaigns.paired import Block, ComparedPolicies
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS
from studies.beasy.figures import make_closeups
from studies.command_line import STOPPED, cautions, parser_of, present, read_arguments, run_progress, span
from studies.comparison.bound import Bounds, compute_bounds
from studies.comparison.figures import comparison_figures, runs_to_show
from studies.comparison.results import blocks_by_case, comparison_tables
from studies.comparison.study import (
    CASES,
    COMPARED_POLICIES,
    QUICK_POLICY,
    REAL,
    SURPRISES,
    TUNING_BELOW,
    Extent,
    comparison,
    find_cases,
    policy_part,
    real_case,
)
from studies.figures import Figures

SEEDS, DAYS = range(6000, 6010), range(6000, 6012)
QUICK_SEEDS, QUICK_DAYS = range(5000, 5001), range(5000, 5002)
"""A trial uses other seeds, so that it gives away nothing of the results."""
DEFAULT_CASES = ("critical", "average", *SURPRISES)
QUICK_CASES = ("critical", "average", "demand-high", "weather-wild", "short-jobs")
QUICK_POLICIES = COMPARED_POLICIES[:5]
RUNS = "campaign"
"""The folder of the runs, in that of the comparison."""
_LARGEST_SEED = 2**62


def seeds(text: str) -> range:
    """Parse ``6000:6010``: from the first to before the second."""
    found = re.fullmatch(r"([0-9]{1,18}):([0-9]{1,18})", text)
    span = range(int(found[1]), int(found[2])) if found else range(0)
    if not 0 < span.stop - span.start <= MOST or span.stop > _LARGEST_SEED:
        raise argparse.ArgumentTypeError(
            f"found {shortened(text)!r}, expected a range such as 6000:6010 (without 6010)"
        )
    return span


def names(text: str) -> list[str]:
    """Parse names with commas between."""
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected names, each once, with commas between")
    return found


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "",
        "Compare policies on the same executions: the critical and the average cases of the BEASY paper, on "
        "days and noise seeds of your choice, and average cases in which a forecast is wrong. Prints means "
        "and paired differences. Completed runs are not repeated.",
        prog="compare_policies",
        quick="one day, fewer jobs, one noise seed, fewer cases and policies; the results are not conclusive",
        out="out/comparison",
    )
    add = parser.add_argument
    add("--policies", type=names, metavar="A,B,...", help="what to compare, with options where "
        f"some are chosen: beasy+shortage=sleep-first; {QUICK_POLICY} is bid-price+patience=0 "
        f"(default: {','.join(COMPARED_POLICIES)})")  # fmt: skip
    add("--against", default="beasy", metavar="POLICY",
        help="the policy that the others are compared with (default: %(default)s)")  # fmt: skip
    add("--cases", type=names, metavar="A,B,...",
        help=f"of {', '.join(case.name for case in CASES)}; '{REAL}' alone for only your own files "
        f"(default: {','.join(DEFAULT_CASES)})")  # fmt: skip
    add("--seeds", type=seeds, metavar="A:B", help="seeds of the noise, from A to before B "
        f"(default: {SEEDS.start}:{SEEDS.stop}); tuning uses seeds below {TUNING_BELOW}")  # fmt: skip
    add("--days", type=seeds, metavar="A:B", help="seeds of the days, a pair of workload and "
        f"sky each, in all cases but 'critical' (default: {DAYS.start}:{DAYS.stop})")  # fmt: skip
    add("--seeds-per-day", type=count(1), default=3, metavar="N",
        help="noise seeds of each pair of days (default: %(default)s; one if a "
        "forecast is wrong)")  # fmt: skip
    add("--guard", choices=["both", *(guard.mode.value for guard in PAPER_GUARDS)], default="both",
        help="kill-all without veto, as in the papers; shed with veto; or both (default), but the first only "
        "where a forecast is wrong")  # fmt: skip
    add("--weather", type=readable, action="append", default=[], metavar="FILE", help="weather, or "
        "production of sun or wind (may be repeated): a further case, 'real', on days spread over the "
        "file")  # fmt: skip
    add("--swf", type=readable, metavar="FILE", help="a trace: the case 'real' gets its jobs, of days spread "
        "over it; without --weather, under synthetic skies")  # fmt: skip
    add("--bound", action="store_true", help="also compute the most that could be finished if all was known "
        "beforehand (a linear program per execution, about half a second each)")  # fmt: skip
    chosen = read_arguments(parser, arguments)
    _check(parser, chosen)
    return chosen


def _check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Fill in what depends on other options, and refuse what does not go together."""
    chosen.policies = chosen.policies or [*(QUICK_POLICIES if chosen.quick else COMPARED_POLICIES)]
    try:
        parts = {text: policy_part(text) for text in chosen.policies}
    except BeasyError as error:
        parser.error(f"--policies: {error}")
    if chosen.against not in parts:
        parser.error(f"--against: {chosen.against!r} is not among --policies")
    chosen.policies, chosen.against = [*parts.values()], parts[chosen.against].label
    wanted = chosen.cases or [*(QUICK_CASES if chosen.quick else DEFAULT_CASES)]
    files = bool(chosen.weather) or chosen.swf is not None
    if REAL in wanted and not files:
        parser.error(f"--cases: {REAL!r} requires files: pass --weather FILE, or --swf FILE, or both")
    try:
        chosen.cases = find_cases([name for name in wanted if name != REAL])
    except BeasyError as error:
        parser.error(f"--cases: {error}")
    if files:
        chosen.cases.append(real_case(OwnFiles(tuple(chosen.weather), chosen.swf)))
    chosen.out = chosen.out or Path("out/comparison-quick" if chosen.quick else "out/comparison")
    guards = PAPER_GUARDS if chosen.guard == "both" else [g for g in PAPER_GUARDS if g.mode == chosen.guard]
    if chosen.quick:
        noise, days = (chosen.seeds or QUICK_SEEDS)[:1], (chosen.days or QUICK_DAYS)[:2]
        chosen.extent = Extent(noise, days, 1, tuple(guards[:1]), small=True)
    else:
        noise, days = chosen.seeds or SEEDS, chosen.days or DAYS
        chosen.extent = Extent(noise, days, chosen.seeds_per_day, tuple(guards))


def compare(chosen: argparse.Namespace) -> int:
    """Make the whole comparison; return the exit code."""
    folder = chosen.out / RUNS
    if not folder.is_dir():
        must_be_empty(chosen.out, "an earlier comparison")
    begin(comparison(chosen.cases, chosen.policies, chosen.extent), folder)
    started = time.monotonic()
    with run_progress("comparison") as progress:
        outcome = go_on(folder, Processes(chosen.jobs), progress=progress)
    print_line(f"{outcome.runs} runs, {outcome.executed} executed in {time.monotonic() - started:.0f} s, "
         f"{outcome.failed} failed; {folder / 'runs.parquet'}")  # fmt: skip
    campaign = read_campaign(folder)
    blocks = blocks_by_case(campaign.runs)
    if not blocks:
        raise BeasyError(f"no execution is complete: see 'beasy-sched campaign status {folder}'")
    titles = {case.name: case.title for case in chosen.cases}
    tables = comparison_tables(blocks, chosen.against, titles, _bounds(chosen, campaign))
    figures = _figures(chosen, campaign, blocks)
    present(chosen, "The policies compared", tables, provenance(chosen, campaign), figures, columns=120)
    return int(outcome.failed > 0)


def _bounds(chosen: argparse.Namespace, campaign: Campaign) -> Bounds | None:
    """The bounds of all executions, where they are wanted."""
    if not chosen.bound:
        return None
    with run_progress("bounds") as progress, contextlib.closing(Processes(chosen.jobs)) as executor:
        return compute_bounds(campaign, chosen.out / "bounds", executor, progress)


def _figures(
    chosen: argparse.Namespace, campaign: Campaign, blocks: Mapping[Block, ComparedPolicies]
) -> Figures:
    """Run two policies once more, with all their files, and draw them; nothing for a single policy."""
    others = [policy.label for policy in chosen.policies if policy.label != chosen.against]
    if not others:
        return
    shown = runs_to_show(campaign, next(iter(blocks.values())), (others[0], chosen.against))
    closeups = make_closeups(campaign, shown.runs.values(), chosen.out, jobs=chosen.jobs)
    if set(shown.runs.values()) <= closeups.keys():
        battery = campaign.manifest.parsed()[0].parsed_site().storage.battery
        yield from comparison_figures(blocks, shown, closeups, battery)


def provenance(chosen: argparse.Namespace, campaign: Campaign) -> str:
    """Return the source of the numbers, in a few lines."""
    runs, timings, extent = campaign.runs, campaign.timings, chosen.extent
    cpu_s = timings.set_index("run")["cpu_s"].reindex(runs["run"]).to_numpy()
    per_policy = runs.assign(cpu_s=cpu_s).groupby("policy", sort=False)["cpu_s"].mean()
    lines = [
        f"{len(runs)} runs; noise: seeds {', '.join(map(str, extent.day_seeds))} for each pair of days (the"
        f" first where a forecast is wrong); days: seeds {span(extent.days)}, in critical those of the"
        " scenario files.",
        f"{timings['cpu_s'].sum():.0f} s of CPU time; per run: "
        + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in per_policy.items())
        + ".",
        *cautions(extent, "A quick comparison"),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("compare_policies", lambda: compare(chosen), stopped=STOPPED)
