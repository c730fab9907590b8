"""Sweep the band of the battery's target in the critical cases, and print what a point of it buys.

Started by scripts/target_band, which makes the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from console import count, exit_code_of
from msgspec.structs import replace

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.campaign_table import read_campaign
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS, PolicyPart, Scenario, quick
from beasy_sched.plugins.campaigns.scenario_file import find_scenario
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.units import counted
from studies.command_line import STOPPED, parser_of, present, read_arguments, run_progress
from studies.comparison.study import CRITICAL

BAND: Final = "target_band_pct"
BANDS: Final = (0.0, 5.0, 10.0)
"""Widths of the band, percentage points."""
POLICIES: Final = ("beasy", "bid-price")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "",
        "Run beasy and bid-price on the critical cases of the BEASY paper with bands of 0, 5 and 10 points"
        " around the battery's target. Prints finished jobs and final levels by width, and what a point of"
        " the band buys. Completed runs are not repeated.",
        prog="target_band",
        quick="small relatives of two cases, a pair of days each; the results are not conclusive",
        out="out/target-band",
    )
    parser.add_argument(
        "--pairs",
        type=count(1),
        default=5,
        metavar="N",
        help="pairs of workload and production of each case, at most its five (default: %(default)s)",
    )
    chosen = read_arguments(parser, arguments)
    chosen.out = chosen.out or Path("out/target-band-quick" if chosen.quick else "out/target-band")
    return chosen


def scenarios(*, pairs: int, small: bool) -> list[Scenario]:
    """Return the critical cases with a sweep of the band, one noise seed and one guard each."""
    found = []
    for name in CRITICAL[: 2 if small else None]:
        scenario = find_scenario(name)
        own = replace(
            scenario,
            policies=tuple(PolicyPart(name=policy, label=policy) for policy in POLICIES),
            sweep={BAND: BANDS},
            tuples=scenario.tuples[: 1 if small else pairs],
            seeds=scenario.seeds[:1],
            guards=tuple(guard for guard in PAPER_GUARDS if guard.veto),
        )
        found.append(replace(quick(own), sweep={BAND: BANDS}) if small else own)
    return found


def tables(runs: Any) -> Iterator[TextTable]:
    """Yield the means by case and width, and the gain of a point, from the runs of the campaign."""
    yield _means(runs)
    yield _gains(runs)


def _means(runs: Any) -> TextTable:
    names = ("case", "policy", "band", "finished", "killed", "final SoC", "off target")
    rows: list[tuple[str, ...]] = []
    for (case, policy, band), part in runs.groupby(["scenario", "policy", BAND], sort=False):
        means = part[["finished_pct", "killed_pct", "soc_final_pct", "soc_distance_points"]].mean()
        finished, killed, final, off = means.tolist()
        width = f"{band:g}"
        rows.append(
            (str(case), str(policy), width, f"{finished:.2f}", f"{killed:.2f}", f"{final:.1f}", f"{off:+.1f}")
        )
    title = (
        "Finished and killed jobs (%), final state of charge (%), points off the band, by its width (points)"
    )
    return TextTable(title, names, rows, names[2:])


def _gains(runs: Any) -> TextTable:
    """Return the paired differences from the width of 0, for each point of the band."""
    widest, names = BANDS[1:], ["policy", "executions"]
    names += [f"{what}, band {band:g}" for band in widest for what in ("finished", "per point", "final SoC")]
    rows = []
    for policy, part in runs.groupby("policy", sort=False):
        by_band = part.pivot_table(
            index=["scenario", "tuple", "seed"], columns=BAND, values=["finished_pct", "soc_final_pct"]
        )
        cells = [str(policy), str(len(by_band))]
        for band in widest:
            more, lower = (
                by_band[name][band] - by_band[name][BANDS[0]] for name in ("finished_pct", "soc_final_pct")
            )
            cells += [f"{more.mean():+.2f}", f"{more.mean() / band:+.3f}", f"{lower.mean():+.1f}"]
        rows.append(tuple(cells))
    title = (
        "What the band buys against a band of 0: finished jobs (points of %), final state of charge (points)"
    )
    return TextTable(title, tuple(names), rows, tuple(names[1:]))


def sweep_bands(chosen: argparse.Namespace) -> int:
    """Run the sweep, or what is left of it; return the exit code."""
    folder = chosen.out / "runs"
    begin(scenarios(pairs=chosen.pairs, small=chosen.quick), folder)
    with run_progress("bands") as progress:
        outcome = go_on(folder, Processes(chosen.jobs), progress=progress)
    print_line(f"{outcome.runs} runs, {outcome.failed} failed; {folder / 'runs.parquet'}")
    campaign = read_campaign(folder)
    runs = campaign.runs[campaign.runs["status"] == "ok"]
    if not len(runs):
        raise BeasyError(f"no run is complete: see 'beasy-sched campaign status {folder}'")
    origin = (
        f"{len(runs)} runs, one noise seed, guard shed with veto; {campaign.timings['cpu_s'].sum():.0f} s of"
        f" CPU time without plans, {counted(chosen.jobs, 'concurrent run')}."
    )
    if chosen.quick:
        origin += "\nA trial run on small sites: the results are not conclusive."
    present(chosen, "The band of the battery's target", tables(runs), origin, iter(()), columns=120)
    return int(outcome.failed > 0)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("target_band", lambda: sweep_bands(chosen), stopped=STOPPED)
