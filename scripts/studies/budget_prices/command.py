"""Run weeks of jobs within an even budget and within one that follows the price; print what this saves.

Started by scripts/budget_prices, which makes the environment.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from console import exit_code_of, readable

from beasy_sched.arrays import FloatArray
from beasy_sched.cli.options import print_line
from beasy_sched.energy.calendar import Calendar
from beasy_sched.energy.grid import Signal
from beasy_sched.engine import Session
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.grid_rates import PRICE, RateFile, read_rate
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.platform_file import host_properties, preset_platform
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.model.jobs import bounded_slowdown
from beasy_sched.plugins.campaigns.text_tables import TextTable
from beasy_sched.plugins.energy_budget.budget_file import budget_lines
from beasy_sched.plugins.energy_budget.spread import spread
from beasy_sched.policies.registry import make_policy
from beasy_sched.simulator import Simulation, SimulationOptions
from beasy_sched.units import JOULES_PER_KWH, SECONDS_PER_HOUR, j_to_kwh
from studies.command_line import STOPPED, parser_of, present, read_arguments
from studies.energy_budget.study import SERVER, WEEK_S, Week, prepare_weeks

EDGES_S: Final = np.arange(0.0, WEEK_S + 1.0, SECONDS_PER_HOUR)
"""Hours of the week, each with a separate budget, s."""
_START: Final = "2022-03-07T00:00:00+01:00"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 if it is invalid."""
    parser = parser_of(
        "",
        "Run weeks of jobs with policy energybud, once with an even energy budget, once with a budget of the"
        " same total for each hour that is inversely proportional to its price; print cost, price per kWh,"
        " utilization and slowdown. Servers are switched off when idle. A run that is interrupted"
        " continues where it stopped.",
        prog="budget_prices",
        quick="two small synthetic weeks with the synthetic price, under a minute",
        out="out/budget-prices",
    )
    add = parser.add_argument
    add("--week", type=readable, action="append", default=[], metavar="FILE",
        help="one week of a trace in SWF (may be repeated); MaxProcs in its header gives the number of"
        " processors (default: synthetic weeks)")  # fmt: skip
    add("--price", type=readable, metavar="FILE",
        help="file with prices (default: a synthetic price with two peaks a day)")  # fmt: skip
    add("--start", type=datetime.fromisoformat, default=datetime.fromisoformat(_START), metavar="TIME",
        help="moment at which the week of the prices begins (default: %(default)s)")  # fmt: skip
    add("--share", type=float, default=0.6, metavar="SHARE",
        help="budget, as a share of the energy of all servers computing (default: %(default)s)")  # fmt: skip
    chosen = read_arguments(parser, arguments)
    if chosen.quick and (chosen.week or chosen.price):
        parser.error("--quick uses synthetic weeks and prices: omit --week and --price")
    if not 0.0 < chosen.share <= 1.0:
        parser.error(f"--share: found {chosen.share:g}, expected above 0 and at most 1")
    chosen.out = chosen.out or Path("out/budget-prices-quick" if chosen.quick else "out/budget-prices")
    return chosen


def prices_of(path: Path | None, start: datetime) -> FloatArray:
    """Return the price of each hour of the week, per kWh. Raises ConfigError and InputError."""
    if path is None:
        hours = np.arange(len(EDGES_S) - 1) % 24
        return 0.2 + 0.1 * np.cos((hours - 8) * np.pi / 6)
    signal: Signal = read_rate(RateFile(path, PRICE), Calendar(start)).signal
    if not signal.covers(0.0, WEEK_S):
        raise ConfigError(f"--start: {path} does not have the week from {start.isoformat()} on")
    return signal.means(EDGES_S)


@dataclass(frozen=True)
class WeekResult:
    """A week within a budget."""

    hourly_kwh: list[float]
    utilization: float
    started: int
    slowdown: float
    debts: int
    cpu_s: float

    @property
    def energy_kwh(self) -> float:
        """Energy of the week, kWh."""
        return sum(self.hourly_kwh)

    def cost(self, prices: FloatArray) -> float:
        """Return the cost of the week's energy."""
        return float(np.array(self.hourly_kwh) @ prices)


def run_week(week: Week, total_kwh: float, budgets: Path | None) -> WeekResult:
    """Run a week within a total that is even, or that of a file of ``budgets``. Raises ConfigError."""
    platform = preset_platform({SERVER: week.hosts}, one_pstate=True)
    [kind] = platform.kinds
    platform = replace(platform, properties=(host_properties(kind),) * week.hosts)
    marks = [ExternalEvent(at, "mark", {"type": "mark"}) for at in EDGES_S.tolist()]
    budget = {"budget": f"{total_kwh!r} kWh"} if budgets is None else {"budgets": str(budgets)}
    options = {**budget, "period_end": WEEK_S, "shutdown": "opportunistic"}
    simulation = Simulation(
        SimGridPlatform(platform, "master_host"),
        [read_workload(week.workload, "w0")],
        [marks],
        SimulationOptions(energy=True, forward_unknown_events=True),
    )
    session = Session(make_policy("energybud", options))
    energy_j = dict[float, float]()
    wanted = frozenset(EDGES_S.tolist())

    def decide(message: Message) -> Reply:
        if message.now in wanted and message.now not in energy_j:
            meter = simulation.world.meter
            meter.accrue(message.now)
            energy_j[message.now] = meter.energy_j
        return session.step(message)

    started_s = time.process_time()
    simulation.run(decide)
    columns = session.outcomes.columns()
    begun = np.isfinite(columns["start_s"])
    start_s, end_s = columns["start_s"][begun], columns["end_s"][begun]
    within_s = np.clip(np.minimum(end_s, WEEK_S) - start_s, 0.0, None)
    slowdown = bounded_slowdown(start_s - columns["subtime_s"][begun], end_s - start_s)
    energies_j = np.array([energy_j.get(at, 0.0) for at in EDGES_S.tolist()])
    return WeekResult(
        hourly_kwh=(np.diff(energies_j) / JOULES_PER_KWH).tolist(),
        utilization=float(within_s @ columns["res"][begun]) / (week.hosts * WEEK_S),
        started=int(np.count_nonzero(start_s < WEEK_S)),
        slowdown=float(slowdown.mean()) if len(slowdown) else float("nan"),
        debts=session.policy.results()["budget"]["measurements_in_debt"],
        cpu_s=time.process_time() - started_s,
    )


def kept_run(folder: Path, week: Week, total_kwh: float, budgets: Path | None) -> WeekResult:
    """Return the run that an earlier call has kept in ``folder``; otherwise run the week and keep the result.

    Raises ConfigError.
    """
    given = f"{week.sha256} {total_kwh!r} {budgets.read_text() if budgets else 'even'}"
    path = folder / "runs" / f"{week.name}-{hashlib.sha256(given.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=WeekResult)
    result = run_week(week, total_kwh, budgets)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, msgspec.json.encode(result))
    return result


def budgets_of(week: Week, share: float, prices: FloatArray) -> tuple[float, FloatArray]:
    """Return the total of the week's budget, and its hours', kWh: at least the energy of sleeping servers."""
    [kind] = preset_platform({SERVER: 1}, one_pstate=True).kinds
    hours = len(prices)
    most_kwh = j_to_kwh(kind.full_w[0] * week.hosts * SECONDS_PER_HOUR)
    sleep_w = kind.idle_w[kind.sleep.pstate] if kind.sleep else kind.idle_w[0]
    least_kwh = j_to_kwh(sleep_w * week.hosts * SECONDS_PER_HOUR)
    total_kwh = share * most_kwh * hours
    return total_kwh, spread(total_kwh, prices, least_kwh=least_kwh, most_kwh=most_kwh)


def results_table(results: Sequence[tuple[Week, WeekResult, WeekResult]], prices: FloatArray) -> TextTable:
    """Return a row for each week: the even budget, and the one that follows the price."""
    names = ("week", "kWh", "cost", "saved", "per kWh", "utilization", "jobs started", "AVEbsld")

    def pair(values: tuple[float, float], digits: int) -> str:
        return " / ".join(f"{value:.{digits}f}" for value in values)

    rows: list[tuple[str, ...]] = []
    saved_all: list[float] = []
    for week, *both in results:
        costs, kwh = [each.cost(prices) for each in both], [each.energy_kwh for each in both]
        per_kwh = [cost / each for cost, each in zip(costs, kwh, strict=True)]
        saved_all.append(100.0 * (1.0 - per_kwh[1] / per_kwh[0]))
        rows.append((
            week.name,
            pair((kwh[0], kwh[1]), 0),
            pair((costs[0], costs[1]), 0),
            f"{100.0 * (1.0 - costs[1] / costs[0]):.1f} %",
            f"{saved_all[-1]:.1f} %",
            pair((both[0].utilization, both[1].utilization), 3),
            f"{both[0].started} / {both[1].started}",
            pair((both[0].slowdown, both[1].slowdown), 0),
        ))  # fmt: skip
    mean = f"{float(np.mean(saved_all)):.1f} %"
    rows.append(("mean", "", "", "", mean, "", "", ""))
    title = "Even budget / budget that follows the price; saved: of the cost, and of the cost per kWh"
    return TextTable(title, names, rows, names[1:])


def save(chosen: argparse.Namespace) -> int:
    """Run all weeks; return the exit code."""
    prices = prices_of(chosen.price, chosen.start)
    weeks = prepare_weeks(chosen.out / "weeks", chosen.week, quick=chosen.quick)
    results = [*_results(chosen, weeks, prices)]
    runs = [each for _, *both in results for each in both]
    debts, cpu_s = sum(each.debts for each in runs), sum(each.cpu_s for each in runs)
    origin = (
        f"{len(runs)} runs of {len(weeks)} weeks, budget {100.0 * chosen.share:g} % of all servers"
        f" computing, from the first hour to the last; {cpu_s:.0f} s of CPU time."
        f"\nPrices: {'synthetic' if chosen.price is None else chosen.price.name}, from {prices.min():.3f} to"
        f" {prices.max():.3f} per kWh, mean {prices.mean():.3f}; {debts} measurements found a debt."
    )
    if chosen.quick:
        origin += "\nA trial run on synthetic weeks: the results are not conclusive."
    table = results_table(results, prices)
    present(chosen, "Energy budgets that follow the price", [table], origin, iter(()), columns=140)
    return 0


def _results(
    chosen: argparse.Namespace, weeks: Sequence[Week], prices: FloatArray
) -> Iterator[tuple[Week, WeekResult, WeekResult]]:
    for week in weeks:
        total_kwh, hourly_kwh = budgets_of(week, chosen.share, prices)
        path = chosen.out / f"budget-{week.name}.csv"
        write_atomic(path, budget_lines(EDGES_S, hourly_kwh, [("price_per_kwh", prices)]))
        yield week, kept_run(chosen.out, week, total_kwh, None), kept_run(chosen.out, week, total_kwh, path)
        print_line(f"{week.name}: done")


def main(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; return the exit code."""
    chosen = parse_arguments(arguments)
    return exit_code_of("budget_prices", lambda: save(chosen), stopped=STOPPED)
