"""``beasy-sched slurm``: a real cluster's past jobs and nodes as inputs; what it lacks to be scheduled."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, Final, Literal

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.cli.findings_table import show_findings
from beasy_sched.cli.generate import write_platform
from beasy_sched.cli.generate_workload import (
    CommonOptions,
    missing_walltime,
    reference_speed_of,
    write_workload,
)
from beasy_sched.cli.options import (
    CommandOptions,
    option,
    option_of,
    output_option,
    parsed,
    with_options,
)
from beasy_sched.declared import made_of
from beasy_sched.formats.batsim_versions import BatsimFormat
from beasy_sched.formats.reading import read_plain_bytes
from beasy_sched.generate.workload import ProfileType
from beasy_sched.slurm.check import cluster_facts, cluster_findings, hold_script, look_at_cluster
from beasy_sched.slurm.commands import Slurm
from beasy_sched.slurm.history import HistoryOptions, moment_s, read_history, workload_from_history
from beasy_sched.slurm.platform import (
    ServerRule,
    cluster_platform,
    of_partition,
    parse_rule,
    read_nodes_file,
)

_COMMANDS: Final = {
    "import": __name__,
    "platform": __name__,
    "check": __name__,
    "run": "beasy_sched.cli.slurm_run",
    "release": "beasy_sched.cli.slurm_run",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def slurm() -> None:
    """A Slurm cluster: its past jobs as a workload, its nodes as a platform, what it lacks to be scheduled.

    \b
    What would a policy have done with last month's jobs?
      beasy-sched slurm import --from 2026-01-01 --to 2026-02-01 -o workload.json
      beasy-sched slurm platform --server gros -o platform.xml
      beasy-sched generate power --synthetic --days 31 --pv-kw 10 --wind-kw 7 -o power.txt
      beasy-sched compare -p platform.xml -w workload.json --events power.txt
    """


def _partition(help: str) -> Any:
    return option(help, "-P", metavar="NAME")


def _checked_moment(text: str) -> str:
    """Check a time, which sacct takes as it is."""
    moment_s(text)
    return text


_DATE: Final[dict[str, Any]] = {"type": parsed(_checked_moment), "metavar": "DATE", "default": None}


class _ImportOptions(CommandOptions):
    output: str = CommonOptions.output
    start: str | None = option_of(HistoryOptions, "from_s", "--from", **_DATE)
    end: str | None = option_of(HistoryOptions, "to_s", "--to", **_DATE)
    partition: str | None = option_of(HistoryOptions, "partition", "-P", metavar="NAME")
    cluster: str | None = option_of(HistoryOptions, "cluster", metavar="NAME")
    missing_walltime: float | Literal["drop", "none"] = option_of(
        HistoryOptions, "missing_walltime", type=parsed(missing_walltime), metavar="RULE"
    )
    file: Path | None = option(
        "Instead of asking Slurm, read what 'sacct --json' or 'sacct -P' has printed into this file."
    )
    hosts: int | None = option_of(HistoryOptions, "hosts")
    reference: str | None = CommonOptions.reference
    reference_speed_flops: float | None = CommonOptions.reference_speed_flops
    profile_type: ProfileType = CommonOptions.profile_type
    form: BatsimFormat = CommonOptions.form
    quiet: bool = CommonOptions.quiet


@click.command("import")
@with_options(_ImportOptions)
def import_(given: _ImportOptions) -> None:
    """Write a Batsim workload of the jobs that ran on the cluster, from Slurm's accounting.

    Each job has its real run time, the nodes that it had (whole ones), its time limit as walltime, and its
    time of submission; time 0 is the first submission. Job ids are Slurm's (4711, or 4711_3 for a task of an
    array). Jobs that never ran, or still run, are left out and counted in a summary on the standard error.

    \b
    Examples:
      beasy-sched slurm import --from 2026-01-01 --to 2026-02-01 -o workload.json
      beasy-sched slurm import --from 2026-01-01 --partition main --platform-preset taurus -o workload.json
      sacct --json -a -S 2026-01-01 -E 2026-02-01 > jobs.json      # where Slurm is
      beasy-sched slurm import --file jobs.json -o workload.json   # anywhere

    \b
    A text has to have the columns JobID, State, Submit, Start, End, NNodes, Timelimit, in any order, and may
    have Partition, Elapsed, NodeList and Cluster:
      SLURM_TIME_FORMAT=%s sacct -P -X -a -S 2026-01-01 -o \\
          JobID,Partition,State,Submit,Start,End,Elapsed,Timelimit,NNodes,NodeList > jobs.txt
    Times without SLURM_TIME_FORMAT=%s are taken for local ones of this machine (TZ=Europe/Berlin sets it).
    """
    given.reference_speed_flops, speed_source = reference_speed_of(
        given.reference_speed_flops, given.reference
    )
    from_s = -math.inf if given.start is None else moment_s(given.start)
    to_s = math.inf if given.end is None else moment_s(given.end)
    if to_s <= from_s:
        raise click.UsageError(f"--to {given.end} is not after --from {given.start}.")
    if given.file is not None:
        source, data = str(given.file), read_plain_bytes(given.file)
    elif given.start is None:
        raise click.UsageError("Give --from DATE, to ask Slurm, or --file FILE.")
    else:
        cluster = Slurm()
        source, data = "sacct --json", cluster.history(given.start, given.end, given.partition, given.cluster)
        given.hosts = given.hosts or len(of_partition(cluster.nodes(), given.partition))
    options = made_of(HistoryOptions, vars(given), from_s=from_s, to_s=to_s)
    made = workload_from_history(read_history(data, source), options, source)
    write_workload(made, given.output, given.form, speed_source, quiet=given.quiet)


class _PlatformOptions(CommandOptions):
    servers: tuple[ServerRule, ...] = option(
        "Which nodes are which servers: NODES=SERVER (n[1-4]=gros), feature:NAME=SERVER"
        " (feature:gpu=my.toml), or SERVER for all. SERVER is a preset or a server file. Repeat it; the first"
        " that fits a node counts.",
        "--server",
        type=parsed(parse_rule),
        metavar="RULE",
        multiple=True,
        required=True,
    )
    output: str = output_option("XML file")
    partition: str | None = _partition("Take the nodes of this partition only.")
    file: Path | None = option(
        "Instead of asking Slurm, read what 'scontrol show nodes --json' (Slurm 22.05: 'sinfo --json') has"
        " printed into this file."
    )
    one_pstate: bool = option(
        "Keep only the fastest P-state of each server, and its sleep state: for 'slurm run --act' without"
        " --pstate-command."
    )
    quiet: bool = option("Print no summary.", "-q")


@click.command()
@with_options(_PlatformOptions)
def platform(given: _PlatformOptions) -> None:
    """Write a SimGrid platform file of the cluster's nodes.

    The hosts have the nodes' names; speeds, powers, P-states and sleep are those of servers, as in 'generate
    platform'. Each node is one host.

    \b
    Examples:
      beasy-sched slurm platform --server gros -o platform.xml
      beasy-sched slurm platform --server 'n[1-4]=gros' --server feature:gpu=my.toml -o platform.xml
      scontrol show nodes --json > nodes.json                      # where Slurm is
      beasy-sched slurm platform --file nodes.json --server gros -o platform.xml
    """
    nodes = Slurm().nodes() if given.file is None else read_nodes_file(given.file)
    built = cluster_platform(of_partition(nodes, given.partition), given.servers, one_pstate=given.one_pstate)
    write_platform(built, given.output, quiet=given.quiet)


class _CheckOptions(CommandOptions):
    partition: str | None = _partition("Look at this partition, too.")
    script: bool = option(
        "Print the script of the plugin job_submit/lua that holds what is submitted to the partition, and"
        " check nothing."
    )
    as_json: bool = option("Print the findings as one JSON object.", "--json")
    quiet: bool = option("No table: only the findings, on standard error.", "-q")


@click.command()
@with_options(_CheckOptions)
@click.pass_context
def check(context: click.Context, given: _CheckOptions) -> None:
    """Check what the cluster has, and lacks, for a scheduler beside it, with the lines to add.

    It looks at power saving, whether jobs are held when they are submitted, the rights of this user, whole
    nodes, clocks and Slurm's version. Nothing is changed. The exit code is 0 if all is fine, 1 if something
    is odd, 2 if a scheduler could not act.

    \b
    beasy-sched slurm check
    beasy-sched slurm check --partition main
    beasy-sched slurm check --partition main --script > /etc/slurm/job_submit.lua
    """
    if given.script:
        if given.partition is None:
            raise click.UsageError("--script needs --partition NAME.")
        click.echo(hold_script(given.partition), nl=False)
        return
    found = look_at_cluster(Slurm(), given.partition, time.time)
    rows = dict(cluster_facts(found))
    findings = [*cluster_findings(found)]
    code = show_findings(rows.items(), findings, rows, as_json=given.as_json, quiet=given.quiet)
    context.exit(code)
