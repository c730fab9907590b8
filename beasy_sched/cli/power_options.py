"""The options of ``beasy-sched generate power``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from beasy_sched.energy.resample import Interpolation
from beasy_sched.formats.power_events import EventsFormat
from beasy_sched.formats.timestamps import DateOrder, parse_moment
from beasy_sched.generate.noise import ProductionCase
from beasy_sched.generate.power import Gaps, Route
from beasy_sched.generate.synthetic_power import SyntheticWeather
from beasy_sched.units import SECONDS_PER_DAY

Command = TypeVar("Command", bound=Callable[..., Any])


def _above(least: float, *, inclusive: bool = False) -> Callable[[Any], float]:
    """An option type: a finite number above ``least`` (or equal to it)."""

    def number(value: Any) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (number > least or (inclusive and number == least)) or math.isinf(number):
            sign = ">=" if inclusive else ">"
            raise click.BadParameter(f"found {value!r}, expected a number {sign} {least:g}")
        return number

    return number


def _moment(value: Any) -> int:
    """An option type: a date, with a time of day or without, in UTC, as seconds since 1970."""
    moment = value if isinstance(value, int) else parse_moment(str(value))
    if moment is None:
        raise click.BadParameter(f"found {value!r}, expected a time such as 2019-06-01 or '2019-06-01 05:00'")
    return moment


def _choice(kind: type[Any]) -> click.Choice[str]:
    return click.Choice([member.value for member in kind])


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """The command's options, as they are named on the command line."""

    output: str
    pv: str | None
    wind: str | None
    pv_kw: float | None
    wind_kw: float | None
    pv_capacity_kw: float | None
    wind_capacity_kw: float | None
    start: int | None
    pv_start: int | None
    wind_start: int | None
    days: float
    dt: float
    interpolation: str
    gaps: str
    route: str
    pv_efficiency: float
    cut_in: float
    rated_speed: float
    cut_out: float
    pv_column: str | None
    wind_column: str | None
    unit: str | None
    interval: int | None
    first_time: int | None
    date_order: str | None
    synthetic: bool
    seed: int
    latitude: float
    cloudiness: float
    wind_mean: float
    write_ninja: str | None
    case: str
    events_format: str
    quiet: bool

    @property
    def steps(self) -> int:
        """Whole steps in the window."""
        return int(self.days * SECONDS_PER_DAY / self.dt + 1e-9)


_OPTIONS = (
    click.option("-o", "--output", required=True, metavar="FILE", help="The events file; - is the terminal."),
    click.option("--pv", metavar="FILE", help="Sun: a Renewables.ninja, NASA POWER, ENTSO-E or CSV file."),
    click.option("--wind", metavar="FILE", help="Wind: the same kinds of file."),
    click.option("--pv-kw", type=_above(0), metavar="KW", help="Size of the site's PV plant (peak power)."),
    click.option(
        "--wind-kw", type=_above(0), metavar="KW", help="Size of the site's turbines (rated power)."
    ),
    click.option(
        "--start", type=_moment, metavar="TIME", help="Start of the window, UTC. [default: the file's]"
    ),
    click.option(
        "--days", type=_above(0), metavar="DAYS", default=3.0, show_default=True, help="Length of the window."
    ),
    click.option(
        "--dt",
        type=_above(1, inclusive=True),
        metavar="S",
        default=300.0,
        show_default=True,
        help="Step, seconds.",
    ),
    click.option(
        "--format",
        "events_format",
        type=_choice(EventsFormat),
        default="batsim4",
        show_default=True,
        help="batsim5 knows generic events only.",
    ),
    click.option(
        "--interpolation",
        type=_choice(Interpolation),
        default="smooth",
        show_default=True,
        help="How power runs inside an hour; its energy is kept either way.",
    ),
    click.option(
        "--gaps",
        type=_choice(Gaps),
        default="refuse",
        show_default=True,
        help="Hours that a file lacks: interpolate bridges up to six.",
    ),
    click.option(
        "--route",
        type=_choice(Route),
        default="auto",
        show_default=True,
        help="Take the file's electricity, or compute it from the file's weather.",
    ),
    click.option(
        "--pv-efficiency",
        type=float,
        default=0.9,
        show_default=True,
        help="Weather route: eta_pv of Eq. 2.2.",
    ),
    click.option("--cut-in", type=float, default=3.0, show_default=True, help="Weather route: m/s, Eq. 2.1."),
    click.option("--rated-speed", type=float, default=12.0, show_default=True, help="Weather route: m/s."),
    click.option("--cut-out", type=float, default=25.0, show_default=True, help="Weather route: m/s."),
    click.option(
        "--pv-capacity-kw",
        type=_above(0),
        metavar="KW",
        help="Capacity that the file's electricity is for, where the file does not state it.",
    ),
    click.option("--wind-capacity-kw", type=_above(0), metavar="KW", help="The same for wind."),
    click.option("--pv-start", type=_moment, metavar="TIME", help="Start in the PV file, if not --start."),
    click.option(
        "--wind-start", type=_moment, metavar="TIME", help="Start in the wind file, if not --start."
    ),
    click.option(
        "--pv-column", metavar="NAME", help="Column of a CSV or ENTSO-E file, or a part of its name."
    ),
    click.option("--wind-column", metavar="NAME", help="The same for wind; WS10M or so for NASA POWER."),
    click.option("--unit", metavar="UNIT", help="Of a CSV column without one: W, kW, MW, GW or per-unit."),
    click.option(
        "--interval", type=click.IntRange(1), metavar="S", help="Row length of a CSV without times."
    ),
    click.option(
        "--first-time", type=_moment, metavar="TIME", help="Date of the first row of a CSV without dates."
    ),
    click.option(
        "--date-order", type=_choice(DateOrder), help="How to read 03/04/2019. [default: what fits]"
    ),
    click.option("--synthetic", is_flag=True, help="Make the weather up, from --seed; no files needed."),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Of synthetic weather, and of --case between.",
    ),
    click.option("--latitude", type=float, default=43.6, show_default=True, help="Synthetic: degrees north."),
    click.option("--cloudiness", type=float, default=0.5, show_default=True, help="Synthetic: 0 to 1."),
    click.option(
        "--wind-mean",
        type=float,
        default=SyntheticWeather.wind_mean_m_s,
        show_default=True,
        help="Synthetic: mean wind, m/s.",
    ),
    click.option(
        "--write-ninja",
        metavar="PREFIX",
        help="Synthetic: also write PREFIX_pv.csv and PREFIX_wind.csv, like Renewables.ninja exports.",
    ),
    click.option(
        "--case",
        type=_choice(ProductionCase),
        default=ProductionCase.EXACT.value,
        show_default=True,
        help="What really comes where this had been forecast: at the upper bound of its band (best), at the "
        "lower (worst), or anywhere between in each step. The band is that of plans: 5 %, growing to 30 % "
        "after 72 h.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print no summary."),
)


def power_options(command: Command) -> Command:
    """Give a click command all of them, in the order of this file."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
