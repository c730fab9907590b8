"""``beasy-sched generate workload``."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from beasy_sched.cli.generate import write_output
from beasy_sched.cli.progress import progress_bar
from beasy_sched.cli.workload_parameters import COMMON, SYNTHETIC, TRACE, names_of, parameters
from beasy_sched.generate.durations import format_duration
from beasy_sched.generate.noise import WalltimeRule, noisy_workload
from beasy_sched.generate.server_spec import load_server
from beasy_sched.generate.workload import GeneratedWorkload
from beasy_sched.generate.workload_options import FILTER_FIELDS, SwfOptions
from beasy_sched.generate.workload_swf import workload_from_swf
from beasy_sched.generate.workload_synthetic import ARRIVAL_SHAPES, SyntheticOptions, synthetic_workload

_DEFAULT_PRESET = "gros"
_DEFAULT_HOSTS = 50


class _SectionedCommand(click.Command):
    """A command whose help lists its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {
            "Options": [*names_of(COMMON), "help"],
            "Options for a trace": names_of(TRACE),
            "Options for --synthetic": names_of(SYNTHETIC),
        }
        for title, names in sections.items():
            records = [p.get_help_record(ctx) for p in self.get_params(ctx) if p.name in names]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record])


@click.command(cls=_SectionedCommand)
@click.argument("trace", required=False, metavar="[SWF]")
@parameters
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
    for line in _warnings(made) if quiet else _summary(made, values["output"], speed_source):
        click.echo(line, err=True)


def _check_section(context: click.Context, trace: str | None, synthetic: bool) -> None:
    """Refuse options that would have no effect."""
    if synthetic == (trace is not None):
        raise click.UsageError("Give either an SWF trace or --synthetic.")
    foreign = names_of(TRACE if synthetic else SYNTHETIC)
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
    same = "absolute carry_over cores_per_host hosts keep_oversize processors requested_time_field max_hosts"
    same += " missing_walltime clip_run_time profile_type seed accept_damaged"
    return SwfOptions(
        reference_speed_flops=speed,
        start_s=start,
        end_s=math.inf if end is None else end,
        keep={name: values[name] for name in FILTER_FIELDS if values[name] is not None},
        min_run_s=values["min_run_time"] or 0.0,
        max_run_s=math.inf if values["max_run_time"] is None else values["max_run_time"],
        zero_run_time_s=values["zero_run_time"],
        walltimes=values["walltimes"] or "trace",
        extras=values["extras"] or (),
        **{name: values[name] for name in same.split()},
    )


def _synthetic_options(values: dict[str, Any], speed: float) -> SyntheticOptions:
    if values["walltimes"] == "trace":
        raise click.UsageError("--walltimes trace is only for a trace.")
    shares, night = values["day_shares"], values["night_ratio"]
    if night is None:
        night = 0.3 if values["arrivals"] == "uniform" and shares is None else 1.0
    return SyntheticOptions(
        reference_speed_flops=speed,
        jobs=values["jobs"],
        hosts=values["hosts"] or _DEFAULT_HOSTS,
        day_shares=shares or ARRIVAL_SHAPES[values["arrivals"]],
        night_ratio=night,
        gap_log_sd=values["gap_log_sd"],
        run_median_s=values["run_median"],
        run_log_sd=values["run_log_sd"],
        run_cap_s=values["run_cap"],
        host_shares=values["host_shares"],
        walltimes=values["walltimes"] != "none",
        profile_type=values["profile_type"],
        seed=values["seed"],
    )


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
        examples = ", ".join(report.examples.get(reason, []))
        lines.append(
            f"    {count} {reason}" + (f" ({examples}{', ...' * _more(made, reason)})" if examples else "")
        )
    return lines + [f"warning: {text}" for text in report.warnings]


def _more(made: GeneratedWorkload, reason: str) -> bool:
    return made.report.dropped[reason] > len(made.report.examples[reason])


def _warnings(made: GeneratedWorkload) -> list[str]:
    return [f"warning: {text}" for text in made.report.warnings]
