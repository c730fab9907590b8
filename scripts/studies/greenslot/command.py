"""Run GreenSlot's evaluation, print tables with the paper's numbers and ours, draw its figures.

Started by scripts/reproduce_greenslot, which makes the environment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from console import count, exit_code_of, readable

from beasy_sched.cli.options import print_line
from beasy_sched.errors import BeasyError, ConfigError
from beasy_sched.forecast.accuracy import AccuracyTable, accuracy
from beasy_sched.forecast.solar import SolarModel
from beasy_sched.forecast.weather import ActualWeather
from beasy_sched.formats.grid_rates import CARBON, PRICE
from beasy_sched.formats.solar_history import read_solar_history
from beasy_sched.plugins.campaigns.processes import Processes
from beasy_sched.plugins.campaigns.text_tables import TextTable
from studies.claims import tally
from studies.command_line import STOPPED, parser_of, present, read_arguments, run_progress
from studies.greenslot.cases import (
    STUDIES,
    Case,
    Row,
    carbon_rows,
    paper_cases,
    prediction_rows,
    price_rows,
    quick_cases,
    stand_in_cases,
    trace_rows,
)
from studies.greenslot.claims import green_claim_table, verdicts_of
from studies.greenslot.figures import greenslot_figures
from studies.greenslot.inputs import (
    AVERAGE,
    HOURS,
    ZONE,
    SunWeek,
    distinct,
    grid_file,
    synthetic_weeks,
    weeks_of_file,
)
from studies.greenslot.results import (
    GreenResults,
    figure_table,
    gain_table,
    knowledge_rows,
    load_rows,
    results_of,
    trace_table,
    week_table,
)
from studies.greenslot.study import GreenSlotStudy, round_times_s
from studies.greenslot.traces import LONG_WEEK, MOST_NODES, RULES, TraceWeek, trace_week

SEEDS = 2
WEEKS_OF_FILE = 9


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "greenslot",
        "Reproduce GreenSlot's evaluation (Section 5): Conventional, GreenOnly and GreenVarPrices on the"
        " paper's three workloads; Figures 5 to 15 and the paper's claims. Completed runs are not repeated.",
        quick="the main figures of the week Average, half a minute",
        out="out/greenslot",
    )
    add = parser.add_argument
    add("--study", choices=[*STUDIES, "all"], action="append", default=[], metavar="NAME",
        help=f"a study beyond the paper (may be repeated): {', '.join(STUDIES)}, or all")  # fmt: skip
    add("--seeds", type=count(1), default=SEEDS, metavar="N",
        help="synthetic weeks that replace each of the paper's four (default: %(default)s)")  # fmt: skip
    add("--sun", type=readable, metavar="FILE", help="solar production with dates (such as a Renewables.ninja"
        f" export of a year); {WEEKS_OF_FILE} of its weeks replace the synthetic ones")  # fmt: skip
    add("--history", type=readable, metavar="FILE", help="a year of production and conditions: the"
        " predictor's errors are measured on it (claims C01 to C03); with --sun and --study prediction, it"
        " also predicts the sun of those weeks")  # fmt: skip
    _add_files(parser)
    chosen = read_arguments(parser, arguments)
    if chosen.quick and (chosen.study or chosen.sun):
        parser.error("--quick runs the main figures only: omit --study and --sun")
    chosen.out = chosen.out or Path("out/greenslot-quick" if chosen.quick else "out/greenslot")
    if chosen.out.exists() and not chosen.out.is_dir():
        parser.error(f"--out: {chosen.out} is not a folder")
    if (chosen.deadlines or chosen.nodes != MOST_NODES) and not chosen.swf:
        parser.error("--deadlines and --nodes are for the jobs of a trace: add --swf FILE")
    chosen.deadlines = [*dict.fromkeys(chosen.deadlines or RULES)]
    chosen.study = [*STUDIES] if "all" in chosen.study else [*dict.fromkeys(chosen.study)]
    return chosen


@dataclass(frozen=True)
class Files:
    """Data from the user's own files."""

    weeks: Sequence[SunWeek]
    """The week "Average" with the prices or the carbon intensity of a file."""
    traces: Sequence[TraceWeek]
    rules: Sequence[str]
    predicted: Sequence[SunWeek] = ()
    """Weeks whose solar power is predicted."""

    @property
    def price_rows(self) -> list[Row]:
        return price_rows(self.weeks)

    @property
    def carbon_rows(self) -> list[Row]:
        return carbon_rows(self.weeks)

    @property
    def trace_rows(self) -> list[Row]:
        return trace_rows(self.traces, self.rules)

    @property
    def prediction_rows(self) -> list[Row]:
        return prediction_rows(self.predicted)

    def tables(self, results: GreenResults) -> Iterator[TextTable]:
        price = _listed(week.price.label for week in self.weeks if week.price is not None)
        carbon = _listed(week.carbon.label for week in self.weeks if week.carbon is not None)
        traces = _listed(trace.label for trace in self.traces)
        of_files = f"In each file's currency. {price}"
        of_jobs = f"Energy and cost without those of the sleeping site. Missed, refused: jobs. {traces}"
        yield gain_table("Prices from files", self.price_rows, results, of_files, currency="")
        yield gain_table("Carbon intensity from files", self.carbon_rows, results, carbon)
        yield trace_table(self.trace_rows, results, of_jobs)
        yield gain_table("Weeks from a file by what is known of the sun", self.prediction_rows, results)


def _listed(labels: Iterable[str]) -> str:
    return f"{'; '.join(labels)}."


def read_files(chosen: argparse.Namespace) -> Files:
    """Read the files of --swf, --prices and --carbon. Raises ConfigError and InputError."""
    given = [(text, PRICE) for text in chosen.prices] + [(text, CARBON) for text in chosen.carbon]
    files = distinct(grid_file(text, quantity, AVERAGE.start, HOURS) for text, quantity in given)
    traces = [trace_week(path, chosen.nodes) for path in chosen.swf]
    names = [trace.name for trace in traces]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--swf: two traces have the name {twice[0]!r}: rename one of the files")
    for trace in traces:
        for rule in chosen.deadlines:
            trace.due_by(rule)
    return Files([AVERAGE.with_file(file) for file in files], traces, chosen.deadlines)


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options for the user's own files."""
    add = parser.add_argument_group("with your own files").add_argument
    add("--swf", type=readable, action="append", default=[], metavar="FILE", help="a trace in SWF (may be"
        " repeated): the week, Monday 9:00 to Friday 17:00, whose load is nearest to the paper's"
        )  # fmt: skip
    add("--deadlines", action="append", default=[], metavar="RULE", help="when the jobs of --swf are due, as"
        " for 'generate workload --deadlines' (may be repeated; default:"
        f" {', '.join(RULES)})")  # fmt: skip
    add("--nodes", type=count(1), default=MOST_NODES, metavar="N", help="largest site for --swf: processors"
        " of a larger machine share nodes; panels and base load grow with the nodes (default:"
        " %(default)s)")  # fmt: skip
    add("--prices", action="append", default=[], metavar="FILE", help="prices in place of the paper's (may"
        " be repeated): a file, or a table as in a site file's [grid], such as '{ file = \"omie.csv\","
        " column = \"Precio_DA\", gaps = \"hold\", zone = \"Europe/Madrid\", week = 2026-06-22 }' (default"
        f" zone: {ZONE}; default week: the one nearest in the year to that of the sun)")  # fmt: skip
    add("--carbon", action="append", default=[], metavar="FILE",
        help="a carbon intensity, in the same way (may be repeated)")  # fmt: skip


def reproduce(chosen: argparse.Namespace) -> int:
    """Reproduce the study; return the exit code."""
    errors = None if chosen.history is None else _accuracy(chosen.history)
    others, files = _other_weeks(chosen), read_files(chosen)
    weeks = [AVERAGE, LONG_WEEK, *others, *files.weeks]
    files = replace(files, predicted=others if _predicts(chosen) else ())
    study = GreenSlotStudy(chosen.out, weeks, _cases(chosen, others, files), files.traces, chosen.history)
    study.begin()
    timing = round_times_s()
    started = time.monotonic()
    with run_progress("GreenSlot") as progress:
        failed = study.go_on(Processes(chosen.jobs), progress)
    print_line(
        f"{len(study.cases)} runs, {failed} failed; {time.monotonic() - started:.0f} s; {study.write_table()}"
    )
    for case, error in study.failures()[:10]:
        print_line(f"failed: {case.name}: {error}")
    results = results_of(study.results(), [week.name for week in others], errors, timing)
    if not results.runs:
        raise BeasyError("no run is complete")
    figures = greenslot_figures(results, files.weeks)
    tables = all_tables(chosen, results, files)
    present(chosen, "GreenSlot", tables, provenance(chosen, study, results), figures, columns=160)
    return int(failed > 0)


def _accuracy(path: Path) -> AccuracyTable:
    """The predictor's errors on a year that it also learns from, without the day it predicts."""
    history = read_solar_history(path)
    return accuracy(SolarModel(history, 1), ActualWeather(history))


def _other_weeks(chosen: argparse.Namespace) -> list[SunWeek]:
    if chosen.quick:
        return []
    return weeks_of_file(chosen.sun, WEEKS_OF_FILE) if chosen.sun else synthetic_weeks(chosen.seeds)


def _predicts(chosen: argparse.Namespace) -> bool:
    """Whether the predictor is to be tried in weeks out of a file."""
    return "prediction" in chosen.study and chosen.sun is not None and chosen.history is not None


def _cases(chosen: argparse.Namespace, others: Sequence[SunWeek], files: Files) -> list[Case]:
    cases = quick_cases() if chosen.quick else [*paper_cases(), *stand_in_cases(week.name for week in others)]
    for name in chosen.study:
        for row in STUDIES[name][1]:
            cases += [row.case.reference, row.case]
    for rows in (files.price_rows, files.carbon_rows, files.trace_rows, files.prediction_rows):
        cases += [row.case for row in rows]
    return [*dict.fromkeys(cases)]


def all_tables(chosen: argparse.Namespace, results: GreenResults, files: Files) -> Iterator[TextTable]:
    """Yield the tables; a table without results is empty."""
    yield green_claim_table(verdicts_of(results), only_judged=chosen.quick)
    yield figure_table(results)
    yield gain_table("Week Average by what is known of the sun", knowledge_rows(), results)
    yield gain_table("Utilization: further copies of W3", load_rows(), results)
    yield week_table(results)
    for name in chosen.study:
        what, rows = STUDIES[name]
        yield gain_table(f"Study {name}: {what}", rows, results)
    yield from files.tables(results)


def provenance(chosen: argparse.Namespace, study: GreenSlotStudy, results: GreenResults) -> str:
    """Return the source of the numbers, in a few lines."""
    lines = [
        f"{len(study.cases)} runs, {study.cpu_s():.0f} s of CPU time, {chosen.jobs} concurrent"
        f" runs. {tally(verdicts_of(results))}.",
        "Slots and steps of 900 s. Green and saved: against Conventional under the same conditions.",
    ]
    if not chosen.quick:
        where = str(chosen.sun.name) if chosen.sun else "synthetic"
        lines.append(f"Other weeks than Average: {where}, with perfect predictions.")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("reproduce_greenslot", lambda: reproduce(chosen), stopped=STOPPED)
