"""``beasy-sched generate budget``."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path

import click

from beasy_sched.cli.options import (
    FILE,
    CommandOptions,
    number_type,
    option,
    output_option,
    parsed,
    print_line,
    print_written,
    with_options,
    write_output,
)
from beasy_sched.errors import ConfigError, InputError
from beasy_sched.numbers import Range
from beasy_sched.units import counted, parse_duration


def _moment(text: str) -> datetime:
    """Read a time with its offset from UTC."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(
            f"found {text!r}, expected a time with its offset, such as 2022-03-07T00:00:00+01:00"
        )
    return moment


class _BudgetOptions(CommandOptions):
    output: str = output_option("CSV file")
    price: Path | None = option("Price file: less energy at a higher price.", type=FILE, metavar="FILE")
    carbon: Path | None = option("Carbon intensity file, in place of a price.", type=FILE, metavar="FILE")
    kwh: float = option("Total energy.", type=number_type(Range(0)), required=True, metavar="KWH")
    start: datetime = option(
        "Moment of time 0, to find its price.", type=parsed(_moment), required=True, metavar="TIME"
    )
    period_start: float = option(
        "Start of the period, counted from time 0.", type=parsed(parse_duration), default="0", metavar="TIME"
    )
    period_end: float = option(
        "End of the period.", type=parsed(parse_duration), required=True, metavar="TIME"
    )
    every: float = option("Length of each part.", type=parsed(parse_duration), default="1h", metavar="TIME")
    least_kwh: float = option(
        "Least energy of a part.", type=number_type(Range(0)), default=0.0, metavar="KWH"
    )
    most_kwh: float | None = option("Most energy of a part.", type=number_type(Range(0)), metavar="KWH")
    column: str | None = option("Column of the file, if several are possible.", metavar="NAME")
    unit: str | None = option("Unit of the column, such as EUR/MWh, if its name has none.", metavar="UNIT")
    quiet: bool = option("Do not report what was written.", "-q")


@click.command()
@with_options(_BudgetOptions)
def budget(given: _BudgetOptions) -> None:
    """Write the energy budgets of the parts of a period, for option budgets of policy energybud.

    A total is distributed inversely to the price or the carbon intensity of each part: a part at twice the
    price gets half the energy. Prices below a tenth of the mean, also those of 0 and below, count as that.
    The file formats are those of [grid] price and carbon of a site file.

    \b
      beasy-sched generate budget --price prices.csv --kwh 20000 --every 1h \\
          --start 2022-03-07T00:00:00+01:00 --period-end 7d -o budget.csv
      beasy-sched simulate -p platform.xml -w workload.json --policy energybud \\
          --option budgets=budget.csv --option period_end=7d
    """
    from beasy_sched.energy.calendar import Calendar
    from beasy_sched.formats.grid_rates import CARBON, PRICE, RateFile, read_rate
    from beasy_sched.plugins.energy_budget.budget_file import budget_lines, parts_of
    from beasy_sched.plugins.energy_budget.spread import spread

    if (given.price is None) == (given.carbon is None):
        raise click.UsageError("Give one of --price FILE and --carbon FILE.")
    if not given.period_end > given.period_start:
        raise ConfigError(f"--period-end: found {given.period_end:g} s, expected more than --period-start")
    edges_s = parts_of(given.period_start, given.period_end, given.every, "--every")
    path, quantity = (given.price, PRICE) if given.carbon is None else (given.carbon, CARBON)
    assert path is not None
    signal = read_rate(RateFile(path, quantity, given.column, given.unit), Calendar(given.start)).signal
    if not signal.covers(given.period_start, given.period_end):
        first_s, last_s = signal.span_s
        raise InputError(
            path,
            f"has values from {first_s:g} s to {last_s:g} s after --start, expected {given.period_start:g} s"
            f" to {given.period_end:g} s (--period-start to --period-end)",
        )
    rates = signal.means(edges_s)
    most_kwh = math.inf if given.most_kwh is None else given.most_kwh
    try:
        energies_kwh = spread(given.kwh, rates, least_kwh=given.least_kwh, most_kwh=most_kwh)
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith("--") else f"{path}: {error}") from None
    name = "price_per_kwh" if given.carbon is None else "carbon_g_per_kwh"
    write_output(given.output, budget_lines(edges_s, energies_kwh, [(name, rates)]))
    print_written(given.output, quiet=given.quiet)
    if not given.quiet and not (rates > 0.0).all():
        low = counted(int((rates <= 0.0).sum()), "part")
        print_line(f"{low} at 0 or below: counted as a tenth of the mean of the others")
