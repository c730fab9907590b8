"""The options of ``generate workload``, in three sections: common ones, traces, synthetic workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import click

from beasy_sched.formats.simgrid_units import parse_speed
from beasy_sched.generate.durations import parse_duration
from beasy_sched.generate.workload_options import EXTRA_FIELDS, FILTER_FIELDS
from beasy_sched.generate.workload_synthetic import ARRIVAL_SHAPES

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Make a callback that reads an option's text; a ValueError becomes a usage error."""

    def callback(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _speed(text: str) -> float:
    speed = parse_speed(text)
    if speed <= 0:
        raise ValueError(f"{text!r} is not a speed above 0, such as 25.57Gf")
    return speed


def _integers(text: str) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not a list of whole numbers such as 1,5") from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    unknown = [name for name in names if name not in EXTRA_FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(EXTRA_FIELDS)}")
    return names


def _missing(text: str) -> float | Literal["drop", "none"]:
    if text == "drop" or text == "none":
        return "drop" if text == "drop" else "none"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not 'drop', 'none' or a multiple of the run time such as 2") from None


def _day_shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not one number a day such as 75,17,8") from None


def _host_shares(text: str) -> dict[int, float]:
    shares: dict[int, float] = {}
    for part in text.split(","):
        count, _, share = part.partition(":")
        try:
            shares[int(count)] = float(share)
        except ValueError:
            raise ValueError(f"{part!r} is not HOSTS:SHARE; write such as 1:70,2:15,4:15") from None
    return shares


COMMON: Final[Sequence[Decorator]] = [
    click.option(
        "-o", "--output", required=True, metavar="FILE", help="The JSON file to write; - prints it."
    ),
    click.option("--synthetic", is_flag=True, help="Draw a workload instead of reading a trace."),
    click.option(
        "--hosts", type=click.IntRange(1), help="Hosts of the site (default: the trace's size; 50)."
    ),
    click.option(
        "--platform-preset",
        metavar="SERVER",
        help="Take the median P-state's speed of this preset or server file as the reference speed "
        "(default: gros).",
    ),
    click.option(
        "--reference-speed",
        callback=_reading(_speed),
        metavar="SPEED",
        help="Speed at which a job takes its run time, such as 25.57Gf: cpu = run time x this.",
    ),
    click.option(
        "--profile-type",
        type=click.Choice(["parallel_homogeneous", "delay"]),
        default="parallel_homogeneous",
        show_default=True,
        help="A delay takes the same time at every speed and draws only idle power.",
    ),
    click.option(
        "--walltimes",
        type=click.Choice(["trace", "groups", "none"]),
        help="The trace's requested time; or five equal groups of jobs with 5, 3.33, 2, 1.43 and 1.11 times "
        "the run time; or no limit. (default: trace; groups for --synthetic)",
    ),
    click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all that is drawn."
    ),
    click.option(
        "--noise",
        type=click.FloatRange(0, 100),
        default=0.0,
        metavar="PCT",
        help="What really comes where this had been forecast: Gaussian noise of this many percent on the "
        "times between arrivals and on run times. Walltimes in groups are those of the real run times.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print warnings only."),
]

TRACE: Final[Sequence[Decorator]] = [
    click.option(
        "--from",
        "start_s",
        callback=_reading(parse_duration),
        metavar="TIME",
        help="Start of the window after the trace's first submission: seconds, or such as 3d or 12h.",
    ),
    click.option(
        "--to", "end_s", callback=_reading(parse_duration), metavar="TIME", help="End of the window."
    ),
    click.option(
        "--duration",
        callback=_reading(parse_duration),
        metavar="TIME",
        help="Length of the window, for --to.",
    ),
    click.option("--absolute", is_flag=True, help="Read --from and --to in the trace's own time."),
    click.option(
        "--carry-over",
        is_flag=True,
        help="Take along jobs that the trace shows running at --from (submitted at 0, with what is left of "
        "them) or waiting then (submitted at 0.1).",
    ),
    click.option(
        "--cores-per-host",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Processors of the trace that one host stands for; rounded up.",
    ),
    click.option(
        "--processors",
        type=click.Choice(["allocated", "requested"]),
        default="allocated",
        show_default=True,
        help="Which count of the trace to take; the other one where it is missing.",
    ),
    click.option("--keep-oversize", is_flag=True, help="Keep jobs larger than --hosts (dropped otherwise)."),
    click.option("--max-hosts", type=click.IntRange(1), help="Drop jobs that need more hosts."),
    click.option(
        "--min-run-time", callback=_reading(parse_duration), metavar="TIME", help="Drop jobs that ran less."
    ),
    click.option(
        "--max-run-time", callback=_reading(parse_duration), metavar="TIME", help="Drop jobs that ran longer."
    ),
    click.option(
        "--zero-run-time",
        callback=_reading(parse_duration),
        metavar="TIME",
        help="Run time for jobs whose run time is 0 (otherwise dropped). Jobs without one are always "
        "dropped.",
    ),
    *(
        click.option(
            f"--{name}",
            callback=_reading(_integers),
            metavar="N,...",
            help=f"Keep jobs of these values of {name}"
            + (" (1 completed, 0 failed, 5 cancelled)." if name == "status" else "."),
        )
        for name in FILTER_FIELDS
    ),
    click.option(
        "--missing-walltime",
        callback=_reading(_missing),
        metavar="RULE",
        default="2",
        show_default=True,
        help="For jobs without a requested time: a multiple of the run time, 'none' for no limit, or 'drop'.",
    ),
    click.option(
        "--requested-time-field",
        type=click.IntRange(1, 18),
        default=9,
        show_default=True,
        help="Field with the requested time; conversions of ALCF logs have it in 6.",
    ),
    click.option(
        "--clip-run-time",
        is_flag=True,
        help="Shorten jobs that ran longer than their walltime (otherwise Batsim kills them).",
    ),
    click.option(
        "--extra",
        "extras",
        callback=_reading(_names),
        metavar="NAME,...",
        help=f"Give jobs these members, for the scheduler: {', '.join(EXTRA_FIELDS)}.",
    ),
    click.option(
        "--accept-damaged", is_flag=True, help="Take what comes before the damage in a cut gzip file."
    ),
]

SYNTHETIC: Final[Sequence[Decorator]] = [
    click.option("--jobs", type=click.IntRange(1), default=900, show_default=True, help="Number of jobs."),
    click.option(
        "--arrivals",
        type=click.Choice(list(ARRIVAL_SHAPES)),
        default="begin",
        show_default=True,
        help="Three days with 75, 17 and 8 % of the arrivals; the same backwards; or three equal days with a "
        "day and night cycle.",
    ),
    click.option(
        "--day-shares",
        callback=_reading(_day_shares),
        metavar="N,...",
        help="Share of the arrivals of each day, as many days as you like.",
    ),
    click.option(
        "--night-ratio",
        type=click.FloatRange(0, 1, min_open=True),
        help="Arrival rate in the night over that at 14:00 (default: 1, no cycle; 0.3 for uniform).",
    ),
    click.option(
        "--gap-log-sd",
        type=click.FloatRange(0, 10),
        default=1.0,
        show_default=True,
        help="Log-sd of the gaps between arrivals: 0 is even, 1 is as irregular as real users.",
    ),
    click.option(
        "--run-median",
        callback=_reading(parse_duration),
        default="30m",
        show_default=True,
        metavar="TIME",
        help="Median run time.",
    ),
    click.option("--run-log-sd", type=click.FloatRange(0, 10), default=1.3, show_default=True),
    click.option(
        "--run-cap",
        callback=_reading(parse_duration),
        default="6h",
        show_default=True,
        metavar="TIME",
        help="Longest run time.",
    ),
    click.option(
        "--host-shares",
        callback=_reading(_host_shares),
        default="1:70,2:15,4:15",
        show_default=True,
        metavar="HOSTS:SHARE,...",
        help="Hosts that jobs request, and the share of such jobs.",
    ),
]


def parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option to a command's function, in the order above."""
    options: list[Decorator] = [*COMMON, *TRACE, *SYNTHETIC]
    for option in reversed(options):
        command = option(command)
    return command


def names_of(options: Sequence[Decorator]) -> list[str]:
    """Return the parameter names of a section."""

    def bare() -> None: ...

    for option in reversed(options):
        option(bare)
    return [name for parameter in bare.__click_params__ if (name := parameter.name)]  # type: ignore[attr-defined]
