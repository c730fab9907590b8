"""``beasy-sched generate workload``: from a trace, or a synthetic one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_type_hints

import click
from click.core import ParameterSource

from beasy_sched.cli.options import (
    CommandOptions,
    Number,
    SectionedCommand,
    again,
    option,
    option_of,
    output_option,
    parsed,
    print_line,
    with_options,
    write_output,
)
from beasy_sched.cli.progress import ProgressOptions, counting, progress_bar
from beasy_sched.declared import HOSTS, default_of, made_of, meaning_of
from beasy_sched.generate.job_deadlines import (
    DEADLINES,
    DeadlineRule,
    clock_s,
    parse_deadlines,
    with_deadlines,
)
from beasy_sched.generate.workflow_options import WorkflowOptions
from beasy_sched.generate.workload_options import (
    ARRIVAL_SHAPES,
    EXTRA_FIELDS,
    FILTER_FIELDS,
    ArrivalShape,
    Chains,
    ProfileType,
    SwfOptions,
    SyntheticOptions,
    WorkloadOptions,
)
from beasy_sched.limits import LARGEST_NUMBER, shortened
from beasy_sched.model.choices import BatsimFormat, WalltimeRule
from beasy_sched.numbers import ANY_NUMBER, ANY_WHOLE, Range
from beasy_sched.units import counted, format_duration, parse_duration

if TYPE_CHECKING:
    from beasy_sched.generate.workload import GeneratedWorkload


def _speed(text: str) -> float:
    from beasy_sched.formats.simgrid_xml import parse_speed

    speed = parse_speed(text)
    if not 0 < speed <= LARGEST_NUMBER:
        raise ValueError(f"{shortened(text, 40)!r} is not a speed above 0, such as 25.57Gf")
    return speed


def _numbers(allowed: Range, expected: str) -> Callable[[str], tuple[float, ...]]:
    """Read numbers between commas."""

    def read(text: str) -> tuple[float, ...]:
        try:
            return tuple(allowed.read(part) for part in text.split(","))
        except ValueError as error:
            raise ValueError(f"{shortened(text, 40)!r} is not {expected}: {error}") from None

    return read


def _names(text: str) -> tuple[str, ...]:

    names = tuple(part.strip() for part in text.split(","))
    unknown = [name for name in names if name not in EXTRA_FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(EXTRA_FIELDS)}")
    return names


def missing_walltime(text: str) -> float | Literal["drop", "none"]:
    """Read the rule for jobs without a walltime. Raises ValueError."""
    if text == "drop" or text == "none":
        return "drop" if text == "drop" else "none"
    try:
        multiple: float = (meaning_of(SwfOptions, "missing_walltime").range or ANY_NUMBER).read(text)
    except ValueError:
        raise ValueError(
            f"{shortened(text, 40)!r} is not 'drop', 'none' or a multiple of the run time, 1 or more"
        ) from None
    return multiple


_SHARE: Final = Range(0)


def _host_shares(text: str) -> dict[int, float]:
    shares: dict[int, float] = {}
    for part in text.split(","):
        count, _, share = part.partition(":")
        try:
            shares[HOSTS.read(count)] = _SHARE.read(share)
        except ValueError:
            raise ValueError(
                f"{shortened(part, 40)!r} is not HOSTS:SHARE; write such as 1:70,2:15,4:15"
            ) from None
    return shares


def _shares_text(shares: Mapping[int, float]) -> str:
    """Shares as the option takes them."""
    return ",".join(f"{count}:{share:g}" for count, share in shares.items())


_TIME: Final[dict[str, Any]] = {"type": parsed(parse_duration), "metavar": "TIME"}


def _filter_option(field: str) -> Any:
    read = parsed(_numbers(ANY_WHOLE, "a list of integers such as 1,5"))
    return option(f"Keep only jobs with these values of {field}.", type=read, metavar="N,...")


class CommonOptions(CommandOptions):
    """Options of all ways to generate a workload, some also of the import of past jobs."""

    output: str = output_option("JSON file")
    swf: str | None = option(
        "Take the jobs of this trace in the Standard Workload Format, plain or gzip.", metavar="FILE"
    )
    synthetic: bool = option("Generate a random workload instead of reading a trace.")
    workflows: bool = option(
        "Generate the three workloads of GreenSlot's paper: 28 workflows with deadlines, on 16 hosts."
    )
    hosts: int | None = option_of(WorkloadOptions, "hosts")
    reference: str | None = option_of(
        WorkloadOptions, "reference", "--platform-preset", default=None, metavar="SERVER"
    )
    reference_speed_flops: float | None = option_of(
        WorkloadOptions, "reference_speed_flops", "--reference-speed", type=parsed(_speed), metavar="SPEED"
    )
    profile_type: ProfileType = option_of(WorkloadOptions, "profile_type")
    walltimes: Literal["trace", "groups", "none"] | None = option_of(WorkloadOptions, "walltimes")
    form: BatsimFormat = option(
        "For Batsim 5, other names of profile types, and extra fields in 'extra_data'.",
        "--format",
        default="batsim4",
    )
    seed: int = option_of(WorkloadOptions, "seed")
    noise: float = option(
        "Write the actual workload for this forecast: apply Gaussian noise (percent) to inter-arrival times "
        "and run times. Grouped walltimes are based on the real run times.",
        type=Number(0, 100),
        default=0.0,
        metavar="PCT",
    )
    deadlines: DeadlineRule | None = option(
        DEADLINES.sentence, type=parsed(parse_deadlines), metavar="RULE", default="none"
    )
    clock_at_0: float | None = option(
        "Local time of day at time 0, for clock deadlines. [default: from the trace's header; midnight for "
        "--synthetic]",
        type=parsed(clock_s),
        metavar="HH:MM",
    )
    quiet: bool = again(ProgressOptions.quiet, help="Print warnings only.")
    verbose: bool = ProgressOptions.verbose


class _ForTrace(CommandOptions):
    heading = "Options for --swf"

    start_s: float | None = option_of(SwfOptions, "start_s", "--from", **_TIME)
    end_s: float | None = option_of(SwfOptions, "end_s", "--to", **_TIME)
    duration: float | None = option("Length of the window, for --to.", **_TIME)
    absolute: bool = option_of(SwfOptions, "absolute")
    carry_over: bool = option_of(SwfOptions, "carry_over")
    cores_per_host: int = option_of(SwfOptions, "cores_per_host")
    processors: Literal["allocated", "requested"] = option_of(SwfOptions, "processors")
    keep_oversize: bool = option_of(SwfOptions, "keep_oversize")
    max_hosts: int | None = option_of(SwfOptions, "max_hosts")
    min_run_s: float | None = option_of(SwfOptions, "min_run_s", "--min-run-time", default=None, **_TIME)
    max_run_s: float | None = option_of(SwfOptions, "max_run_s", "--max-run-time", **_TIME)
    zero_run_time_s: float | None = option_of(SwfOptions, "zero_run_time_s", "--zero-run-time", **_TIME)
    status: tuple[float, ...] | None = _filter_option("status (1 completed, 0 failed, 5 cancelled)")
    user: tuple[float, ...] | None = _filter_option("user")
    group: tuple[float, ...] | None = _filter_option("group")
    queue: tuple[float, ...] | None = _filter_option("queue")
    partition: tuple[float, ...] | None = _filter_option("partition")
    missing_walltime: float | Literal["drop", "none"] = option_of(
        SwfOptions,
        "missing_walltime",
        type=parsed(missing_walltime),
        metavar="RULE",
        default=f"{SwfOptions.missing_walltime:g}",
    )
    requested_time_field: int = option_of(SwfOptions, "requested_time_field")
    clip_run_time: bool = option_of(SwfOptions, "clip_run_time")
    extras: tuple[str, ...] | None = option_of(
        SwfOptions, "extras", "--extra", type=parsed(_names), default=None, metavar="NAME,..."
    )
    chains: Chains = option_of(SwfOptions, "chains")
    accept_damaged: bool = option_of(SwfOptions, "accept_damaged")


class _ForSynthetic(CommandOptions):
    heading = "Options for --synthetic"

    jobs: int = option_of(SyntheticOptions, "jobs")
    arrivals: ArrivalShape = option(
        "Three days with 75, 17 and 8 % of the arrivals; the same backwards; or three equal days with a "
        "day and night cycle.",
        default="begin",
    )
    day_shares: tuple[float, ...] | None = option_of(
        SyntheticOptions,
        "day_shares",
        type=parsed(_numbers(ANY_NUMBER, "one number a day such as 75,17,8")),
        default=None,  # those of --arrivals
        metavar="N,...",
    )
    night_ratio: float | None = option_of(SyntheticOptions, "night_ratio", default=None)
    quiet_end_h: float = option_of(SyntheticOptions, "quiet_end_h", "--quiet-end", metavar="H")
    gap_log_sd: float = option_of(SyntheticOptions, "gap_log_sd")
    run_median_s: float = option_of(
        SyntheticOptions,
        "run_median_s",
        "--run-median",
        default=f"{SyntheticOptions.run_median_s / 60:g}m",
        **_TIME,
    )
    run_log_sd: float = option_of(SyntheticOptions, "run_log_sd")
    run_cap_s: float = option_of(
        SyntheticOptions, "run_cap_s", "--run-cap", default=f"{SyntheticOptions.run_cap_s / 3600:g}h", **_TIME
    )
    host_shares: dict[int, float] = option_of(
        SyntheticOptions,
        "host_shares",
        type=parsed(_host_shares),
        default=_shares_text(default_of(SyntheticOptions, "host_shares")),
        metavar="HOSTS:SHARE,...",
    )


class _ForWorkflows(CommandOptions):
    heading = "Options for --workflows"

    staggered: bool = option_of(WorkflowOptions, "staggered")
    multi_node: bool = option_of(WorkflowOptions, "multi_node")
    copies: int = option_of(WorkflowOptions, "copies")
    estimate_error_pct: tuple[float, ...] = option_of(
        WorkflowOptions,
        "estimate_error_pct",
        "--estimate-error",
        type=parsed(_numbers(ANY_NUMBER, "two numbers such as -20,20")),
        metavar="LOW,HIGH",
        default="0,0",
    )
    deadline_shift_h: float = option_of(WorkflowOptions, "deadline_shift_h", "--deadline-shift", metavar="H")


class _WithoutArgument(SectionedCommand):
    """A command that hides its argument in --help."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [self.options_metavar or ""]


@click.command(cls=_WithoutArgument)
@click.argument("argument", required=False)
@with_options(CommonOptions)
@with_options(_ForTrace)
@with_options(_ForSynthetic)
@with_options(_ForWorkflows)
@click.pass_context
def workload(
    context: click.Context,
    given: CommonOptions,
    cut: _ForTrace,
    drawn: _ForSynthetic,
    flows: _ForWorkflows,
    argument: str | None,
) -> None:
    """Write a Batsim workload: of a trace (SWF), a synthetic one, or workflows with deadlines.

    A trace in the Standard Workload Format (Parallel Workloads Archive) may be plain or gzip. A job asks for
    ceil(processors / cores-per-host) hosts and computes run time x reference speed flops on each.
    Rows that cannot be read or used are counted, by reason, in a summary on stderr.

    \b
    Examples:
      beasy-sched generate workload --swf KTH-SP2-1996-2.swf -o kth.json
      beasy-sched generate workload --swf RICC-2010-2.swf.gz --from 30d --duration 3d \\
          --cores-per-host 8 --max-run-time 6h --walltimes groups --seed 1 -o week.json
      beasy-sched generate workload --swf mira.swf --requested-time-field 6 -o mira.json
      beasy-sched generate workload --synthetic --arrivals end --seed 7 -o end.json
      beasy-sched generate workload --synthetic --jobs 300 --day-shares 1,1 --hosts 16 \\
          --host-shares 1:3,8:1 --run-median 10m -o small.json
      beasy-sched generate workload --swf KTH-SP2-1996-2.swf --duration 7d --deadlines clock:09:00,14:00 \\
          --chains keep -o due.json
      beasy-sched generate workload --workflows --copies 4 -o workflows.json

    Deadlines, chains and workflows are stored in the job fields deadline_s, after, think_time_s, workflow and
    phase of the jobs. All policies keep the order of chains and workflows, and results report which
    deadlines were met.

    \b
    Weeks cut by the energy-budget study's script have the jobs that were running at 0 and those that
    waited at 0.1: they are kept unchanged; --from 1 omits them. To cut weeks in this way
    yourself, use --carry-over.
    """
    from beasy_sched.generate.greenslot_week import workflow_workload
    from beasy_sched.generate.workload import synthetic_workload
    from beasy_sched.generate.workload_swf import workload_from_swf

    if argument is not None and given.swf is not None:
        raise click.UsageError(f"Got unexpected extra argument ({argument}).")
    given.swf = given.swf or argument  # a trace without --swf, as it was given before, still works
    _check_section(context, given)
    usual = "greenslot-xeon" if given.workflows else WorkloadOptions.reference
    speed, speed_source = reference_speed_of(given.reference_speed_flops, given.reference, usual)
    if given.workflows:
        made = workflow_workload(_workflow_options(given, flows, speed))
    elif given.swf is None:
        made = synthetic_workload(_synthetic_options(given, drawn, speed))
    else:
        options = _swf_options(given, cut, speed)
        with progress_bar(f"Reading {os.path.basename(given.swf)}", quiet=given.quiet) as show:
            made = workload_from_swf(given.swf, options, counting(show))
    made = _with_noise(made, given, cut.clip_run_time)
    if given.deadlines is not None:
        if given.clock_at_0 is not None:
            made = replace(made, midnight_s=-given.clock_at_0)
        made = with_deadlines(made, given.deadlines, seed=given.seed)
    more = [] if given.swf is None or given.quiet else _fits(made)
    write_workload(made, given.output, given.form, speed_source, *more, quiet=given.quiet)


_SECTIONS: Final = {"--swf": _ForTrace, "--synthetic": _ForSynthetic, "--workflows": _ForWorkflows}
_NOT_FOR_WORKFLOWS: Final = ("hosts", "walltimes", "noise", "deadlines", "profile_type")


def _check_section(context: click.Context, given: CommonOptions) -> None:
    """Raise UsageError for options that would have no effect."""
    chosen = [
        name
        for name, is_given in zip(
            _SECTIONS, (given.swf is not None, given.synthetic, given.workflows), strict=True
        )
        if is_given
    ]
    if len(chosen) != 1:
        raise click.UsageError("Give one of --swf FILE, --synthetic and --workflows.")
    owners = {name: where for where, kind in _SECTIONS.items() for name in get_type_hints(kind)}
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if owners.get(name, chosen[0]) != chosen[0]:
            raise click.UsageError(f"{parameter.opts[0]} is only for {owners[name]}.")
        if given.workflows and name in _NOT_FOR_WORKFLOWS:
            raise click.UsageError(f"{parameter.opts[0]} is not for --workflows, which are the paper's.")
    if given.clock_at_0 is not None and (given.deadlines is None or not given.deadlines.clock_s):
        raise click.UsageError("--clock-at-0 is only for --deadlines clock:....")


def reference_speed_of(
    speed_flops: float | None, server: str | None, usual: str = WorkloadOptions.reference
) -> tuple[float, str]:
    """Return the reference speed, flops/s, and where it comes from. Raises UsageError for two sources."""
    from beasy_sched.generate.platform_file import load_server

    if speed_flops is None:
        kind = load_server(server or usual).kind()
        return kind.reference_speed_flops, f"median P-state of {kind.name}"
    if server is not None:
        raise click.UsageError("Give either --reference-speed or --platform-preset.")
    return speed_flops, "as given"


def _swf_options(given: CommonOptions, cut: _ForTrace, speed: float) -> SwfOptions:

    end_s = cut.end_s
    if cut.duration is not None:
        if end_s is not None:
            raise click.UsageError("Give either --to or --duration.")
        if cut.absolute and cut.start_s is None:
            raise click.UsageError("--absolute with --duration needs --from.")
        end_s = (cut.start_s or 0.0) + cut.duration
    if cut.carry_over and cut.start_s is None:
        raise click.UsageError("--carry-over needs --from.")
    keep = {name: frozenset(kept) for name in FILTER_FIELDS if (kept := getattr(cut, name)) is not None}
    settled = {"reference_speed_flops": speed, "end_s": end_s, "keep": keep}
    return made_of(SwfOptions, vars(given) | vars(cut) | settled)


def _synthetic_options(given: CommonOptions, drawn: _ForSynthetic, speed: float) -> SyntheticOptions:

    if given.walltimes == "trace":
        raise click.UsageError("--walltimes trace is only for --swf.")
    night = drawn.night_ratio
    if night is None:
        night = 0.3 if drawn.arrivals == "uniform" and drawn.day_shares is None else 1.0
    settled = {
        "reference_speed_flops": speed,
        "day_shares": drawn.day_shares or ARRIVAL_SHAPES[drawn.arrivals],
        "night_ratio": night,
        "walltimes": given.walltimes != "none",
    }
    return made_of(SyntheticOptions, vars(given) | vars(drawn) | settled)


def _workflow_options(given: CommonOptions, flows: _ForWorkflows, speed: float) -> WorkflowOptions:
    if len(flows.estimate_error_pct) != 2:
        raise click.UsageError("--estimate-error: give two numbers such as -20,20")
    return made_of(WorkflowOptions, vars(given) | vars(flows) | {"reference_speed_flops": speed})


def _with_noise(made: GeneratedWorkload, given: CommonOptions, clip: bool) -> GeneratedWorkload:
    """Return the actual workload for the forecast ``made``; requested times of a trace stay."""
    import numpy as np

    from beasy_sched.generate.noise import noisy_workload

    sigma = given.noise / 100.0
    if sigma == 0.0:
        return made
    rules: dict[str, WalltimeRule] = {"trace": "keep", "groups": "groups", "none": "none"}
    walltimes = rules[given.walltimes or ("groups" if given.synthetic else "trace")]
    real = noisy_workload(made, seed=given.seed, arrivals_sigma=sigma, run_sigma=sigma, walltimes=walltimes)
    return replace(real, run_s=np.fmin(real.run_s, real.walltime_s)) if clip else real


def _extent(made: GeneratedWorkload) -> str:
    """Return the number of jobs and the time of their arrivals."""
    jobs = counted(made.size, "job")
    return f"{jobs} in {format_duration(made.window_s)}" if made.window_s > 0 else f"{jobs}, all at once,"


def _load(made: GeneratedWorkload) -> str:
    """Return the load, which is unknown if all jobs arrive at once."""
    return f", load {made.load:.3f}" if made.window_s > 0 else ""


def _fits(made: GeneratedWorkload) -> list[str]:
    """Describe log-normal fits of run times and gaps between arrivals."""
    import numpy as np

    from beasy_sched.generate.log_normal_fit import fit_log_normal

    times_s = {"run times": made.run_s, "gaps between arrivals": np.diff(made.submit_s)}
    fits = {name: fit_log_normal(values_s) for name, values_s in times_s.items()}
    return [f"  {name}: {fit}" for name, fit in fits.items() if fit is not None]


def write_workload(
    made: GeneratedWorkload, output: str, form: BatsimFormat, speed_source: str, *more: str, quiet: bool
) -> None:
    """Write a workload file; print a summary, ``more`` about it, and warnings."""
    write_output(output, made.json_pieces(form))
    for line in () if quiet else (*_summary(made, output, speed_source), *more):
        print_line(line)
    for text in made.report.warnings:
        print_line(f"warning: {text}")


def _summary(made: GeneratedWorkload, output: str, speed_source: str) -> list[str]:
    """Return the lines of the summary, with the rows that were omitted."""
    report = made.report
    speed = made.reference_speed_flops / 1e9
    lines = [
        f"{output}: {_extent(made)} for {counted(made.nb_res, 'host')}" + _load(made),
        f"  reference speed: {speed:g} Gflops ({speed_source})",
        *(f"  {note}" for note in report.notes),
    ]
    if made.beyond_walltime:
        some = f"{made.beyond_walltime} of {counted(made.size, 'job')}"
        lines.append(f"  longer than their walltime: {some}, which Batsim will kill")
    if report.dropped:
        lines.append(f"  omitted: {report.dropped_total} of {report.rows}")
    for reason, count in report.dropped.items():
        examples = report.examples.get(reason, [])
        more = ["..."] if count > len(examples) else []
        lines.append(f"    {count} {reason}" + (f" ({', '.join(examples + more)})" if examples else ""))
    return lines
