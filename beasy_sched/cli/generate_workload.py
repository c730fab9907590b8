"""``beasy-sched generate workload``: from a trace, or a synthetic one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Literal

import click
import numpy as np
from click.core import ParameterSource

from beasy_sched.cli.generate import write_output
from beasy_sched.cli.options import Option, parsed, progress_bar, quiet_option, with_options
from beasy_sched.formats.simgrid_xml import parse_speed
from beasy_sched.generate.noise import WalltimeRule, noisy_workload
from beasy_sched.generate.platform import load_server
from beasy_sched.generate.workload import (
    ARRIVAL_SHAPES,
    EXTRA_FIELDS,
    FILTER_FIELDS,
    GeneratedWorkload,
    SwfOptions,
    SyntheticOptions,
    synthetic_workload,
)
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.units import format_duration, parse_duration


def _speed(text: str) -> float:
    speed = parse_speed(text)
    if speed <= 0:
        raise ValueError(f"{text!r} is not a speed above 0, such as 25.57Gf")
    return speed


def _numbers(kind: type[int] | type[float], expected: str) -> Callable[[str], tuple[float, ...]]:
    """Read numbers between commas."""

    def read(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise ValueError(f"{text!r} is not {expected}") from None

    return read


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


def _host_shares(text: str) -> dict[int, float]:
    shares: dict[int, float] = {}
    for part in text.split(","):
        count, _, share = part.partition(":")
        try:
            shares[int(count)] = float(share)
        except ValueError:
            raise ValueError(f"{part!r} is not HOSTS:SHARE; write such as 1:70,2:15,4:15") from None
    return shares


def _time_option(*names: str, **attributes: Any) -> Option:
    return click.option(*names, type=parsed(parse_duration), metavar="TIME", **attributes)


_COMMON: Final[Sequence[Option]] = [
    click.option(
        "-o", "--output", required=True, metavar="FILE", help="The JSON file to write; - prints it."
    ),
    click.option("--synthetic", is_flag=True, help="Generate a random workload instead of reading a trace."),
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
        type=parsed(_speed),
        metavar="SPEED",
        help="Speed at which a job takes its run time, such as 25.57Gf: cpu = run time x speed.",
    ),
    click.option(
        "--profile-type",
        type=click.Choice(["parallel_homogeneous", "delay"]),
        default="parallel_homogeneous",
        help="A delay takes the same time at every speed and draws only idle power.",
    ),
    click.option(
        "--walltimes",
        type=click.Choice(["trace", "groups", "none"]),
        help="The trace's requested time; or five equal groups of jobs with 5, 3.33, 2, 1.43 and 1.11 times "
        "the run time; or no limit. (default: trace; groups for --synthetic)",
    ),
    click.option("--seed", type=click.IntRange(0), default=0, help="Seed of all random numbers."),
    click.option(
        "--noise",
        type=click.FloatRange(0, 100),
        default=0.0,
        metavar="PCT",
        help="Write what really comes if this had been forecast: Gaussian noise of this many percent on the "
        "times between arrivals and on run times. Grouped walltimes are based on the real run times.",
    ),
    quiet_option("Print warnings only."),
]

_TRACE: Final[Sequence[Option]] = [
    _time_option(
        "--from",
        "start_s",
        help="Start of the window after the trace's first submission: seconds, or such as 3d or 12h.",
    ),
    _time_option("--to", "end_s", help="End of the window."),
    _time_option("--duration", help="Length of the window, for --to."),
    click.option("--absolute", is_flag=True, help="Read --from and --to in the trace's own time."),
    click.option(
        "--carry-over",
        is_flag=True,
        help="Include jobs that the trace shows running at --from (submitted at 0, with what is left of "
        "them) or waiting then (submitted at 0.1).",
    ),
    click.option(
        "--cores-per-host",
        type=click.IntRange(1),
        default=1,
        help="Processors of the trace per host; rounded up.",
    ),
    click.option(
        "--processors",
        type=click.Choice(["allocated", "requested"]),
        default="allocated",
        help="Which count of the trace to use; the other one is used where it is missing.",
    ),
    click.option("--keep-oversize", is_flag=True, help="Keep jobs larger than --hosts (dropped otherwise)."),
    click.option("--max-hosts", type=click.IntRange(1), help="Drop jobs that need more hosts."),
    _time_option("--min-run-time", "min_run_s", help="Drop jobs that ran for less."),
    _time_option("--max-run-time", "max_run_s", help="Drop jobs that ran for longer."),
    _time_option(
        "--zero-run-time",
        "zero_run_time_s",
        help="Run time for jobs whose run time is 0 (otherwise dropped). Jobs without one are always "
        "dropped.",
    ),
    *(
        click.option(
            f"--{name}",
            type=parsed(_numbers(int, "a list of whole numbers such as 1,5")),
            metavar="N,...",
            help=f"Keep only jobs with these values of {name}"
            + (" (1 completed, 0 failed, 5 cancelled)." if name == "status" else "."),
        )
        for name in FILTER_FIELDS
    ),
    click.option(
        "--missing-walltime",
        type=parsed(_missing),
        metavar="RULE",
        default="2",
        help="Walltime of jobs that requested none: a multiple of the run time, 'none' (no limit) or 'drop'.",
    ),
    click.option(
        "--requested-time-field",
        type=click.IntRange(1, 18),
        default=9,
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
        type=parsed(_names),
        metavar="NAME,...",
        help=f"Give jobs these extra fields, for the scheduler: {', '.join(EXTRA_FIELDS)}.",
    ),
    click.option(
        "--accept-damaged", is_flag=True, help="Use what comes before the damage in a truncated gzip file."
    ),
]

_SYNTHETIC: Final[Sequence[Option]] = [
    click.option("--jobs", type=click.IntRange(1), default=900, help="Number of jobs."),
    click.option(
        "--arrivals",
        type=click.Choice(list(ARRIVAL_SHAPES)),
        default="begin",
        help="Three days with 75, 17 and 8 % of the arrivals; the same backwards; or three equal days with a "
        "day and night cycle.",
    ),
    click.option(
        "--day-shares",
        type=parsed(_numbers(float, "one number a day such as 75,17,8")),
        metavar="N,...",
        help="Share of the arrivals of each day, for any number of days.",
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
        help="Log-sd of the gaps between arrivals: 0 is even, 1 is as irregular as real users.",
    ),
    _time_option("--run-median", "run_median_s", default="30m", help="Median run time."),
    click.option("--run-log-sd", type=click.FloatRange(0, 10), default=1.3),
    _time_option("--run-cap", "run_cap_s", default="6h", help="Longest run time."),
    click.option(
        "--host-shares",
        type=parsed(_host_shares),
        default="1:70,2:15,4:15",
        metavar="HOSTS:SHARE,...",
        help="Numbers of hosts that jobs request, and the share of each.",
    ),
]


def _names_of(options: Sequence[Option]) -> list[str]:
    """Return the parameter names of a section."""

    def bare() -> None: ...

    for option in reversed(options):
        option(bare)
    return [name for parameter in bare.__click_params__ if (name := parameter.name)]  # type: ignore[attr-defined]


_DEFAULT_PRESET = "gros"


class _SectionedCommand(click.Command):
    """A command whose help lists its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {
            "Options": [*_names_of(_COMMON), "help"],
            "Options for a trace": _names_of(_TRACE),
            "Options for --synthetic": _names_of(_SYNTHETIC),
        }
        for title, names in sections.items():
            records = [p.get_help_record(ctx) for p in self.get_params(ctx) if p.name in names]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record])


@click.command(cls=_SectionedCommand)
@click.argument("trace", required=False, metavar="[SWF]")
@with_options(*_COMMON, *_TRACE, *_SYNTHETIC)
@click.pass_context
def workload(context: click.Context, /, trace: str | None, **values: Any) -> None:
    """Write a Batsim workload from an SWF trace, or a synthetic one.

    SWF is a trace in the Standard Workload Format (Parallel Workloads Archive), plain or gzip. A job asks
    for ceil(processors / cores-per-host) hosts and computes run time x reference speed flops on each.
    Rows that cannot be read or used are counted, by reason, in a summary on the standard error.

    \b
    Examples:
      beasy-sched generate workload KTH-SP2-1996-2.swf -o kth.json
      beasy-sched generate workload RICC-2010-2.swf.gz --from 30d --duration 3d \\
          --cores-per-host 8 --max-run-time 6h --walltimes groups --seed 1 -o week.json
      beasy-sched generate workload mira.swf --requested-time-field 6 -o mira.json
      beasy-sched generate workload --synthetic --arrivals end --seed 7 -o end.json
      beasy-sched generate workload --synthetic --jobs 300 --day-shares 1,1 --hosts 16 \\
          --host-shares 1:3,8:1 --run-median 10m -o small.json

    \b
    Weeks cut by the energy-budget study's script have the jobs that were running at 0 and those that
    waited at 0.1: they are kept as they are; --from 1 leaves them out. To cut weeks in this way
    yourself, use --carry-over.
    """
    _check_section(context, trace, values["synthetic"])
    speed, speed_source = _reference_speed(values)
    quiet = values["quiet"]
    if trace is None:
        made = synthetic_workload(_synthetic_options(values, speed))
    else:
        options = _swf_options(values, speed)
        with progress_bar(f"Reading {os.path.basename(trace)}", quiet=quiet) as show:
            progress = None if show is None else lambda done, total: show(done / total if total else 0.0)
            made = workload_from_swf(trace, options, progress)
    made = _with_noise(made, values)
    write_output(values["output"], made.json_pieces())
    lines = [] if quiet else _summary(made, values["output"], speed_source)
    for line in (*lines, *(f"warning: {text}" for text in made.report.warnings)):
        click.echo(line, err=True)


def _check_section(context: click.Context, trace: str | None, synthetic: bool) -> None:
    """Refuse options that would have no effect."""
    if synthetic == (trace is not None):
        raise click.UsageError("Give either an SWF trace or --synthetic.")
    foreign = _names_of(_TRACE if synthetic else _SYNTHETIC)
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in foreign and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            where = "a trace" if synthetic else "--synthetic"
            raise click.UsageError(f"{parameter.opts[0]} is only for {where}.")


def _reference_speed(values: dict[str, Any]) -> tuple[float, str]:
    given, preset = values["reference_speed"], values["platform_preset"]
    if given is not None and preset is not None:
        raise click.UsageError("Give either --reference-speed or --platform-preset.")
    if given is not None:
        return given, "as given"
    kind = load_server(preset or _DEFAULT_PRESET).kind()
    return kind.reference_speed_flops, f"median P-state of {kind.name}"


def _swf_options(values: dict[str, Any], speed: float) -> SwfOptions:
    start, end = values["start_s"], values["end_s"]
    if values["duration"] is not None:
        if end is not None:
            raise click.UsageError("Give either --to or --duration.")
        if values["absolute"] and start is None:
            raise click.UsageError("--absolute with --duration needs --from.")
        end = (start or 0.0) + values["duration"]
    if values["carry_over"] and start is None:
        raise click.UsageError("--carry-over needs --from.")
    keep = {name: frozenset(values[name]) for name in FILTER_FIELDS if values[name] is not None}
    return SwfOptions(
        **_fields_of(SwfOptions, {**values, "reference_speed_flops": speed, "end_s": end, "keep": keep})
    )


def _synthetic_options(values: dict[str, Any], speed: float) -> SyntheticOptions:
    if values["walltimes"] == "trace":
        raise click.UsageError("--walltimes trace is only for a trace.")
    shares, night = values["day_shares"], values["night_ratio"]
    if night is None:
        night = 0.3 if values["arrivals"] == "uniform" and shares is None else 1.0
    settled = {
        "reference_speed_flops": speed,
        "day_shares": shares or ARRIVAL_SHAPES[values["arrivals"]],
        "night_ratio": night,
        "walltimes": values["walltimes"] != "none",
    }
    return SyntheticOptions(**_fields_of(SyntheticOptions, {**values, **settled}))


def _fields_of(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values of the fields of a dataclass, but for those that are not given."""
    names = [field.name for field in fields(kind)]
    return {name: values[name] for name in names if values.get(name) is not None}


def _with_noise(made: GeneratedWorkload, values: dict[str, Any]) -> GeneratedWorkload:
    """Return what really comes where ``made`` had been forecast; requested times of a trace stay."""
    sigma = values["noise"] / 100.0
    if sigma == 0.0:
        return made
    rules: dict[str, WalltimeRule] = {"trace": "keep", "groups": "groups", "none": "none"}
    walltimes = rules[values["walltimes"] or ("groups" if values["synthetic"] else "trace")]
    real = noisy_workload(
        made, seed=values["seed"], arrivals_sigma=sigma, run_sigma=sigma, walltimes=walltimes
    )
    return replace(real, run_s=np.fmin(real.run_s, real.walltime_s)) if values["clip_run_time"] else real


def _summary(made: GeneratedWorkload, output: str, speed_source: str) -> list[str]:
    report = made.report
    speed = made.reference_speed_flops / 1e9
    lines = [
        f"{output}: {made.size} jobs in {format_duration(made.window_s)} for {made.nb_res} hosts, "
        f"load {made.load:.3f}",
        f"  reference speed: {speed:g} Gflops ({speed_source})",
        *(f"  {note}" for note in report.notes),
    ]
    if made.beyond_walltime:
        lines.append(f"  {made.beyond_walltime} jobs run longer than their walltime: Batsim will kill them")
    if report.dropped:
        lines.append(f"  left out: {report.dropped_total} of {report.rows}")
    for reason, count in report.dropped.items():
        examples = report.examples.get(reason, [])
        more = ["..."] if count > len(examples) else []
        lines.append(f"    {count} {reason}" + (f" ({', '.join(examples + more)})" if examples else ""))
    return lines
