"""``beasy-sched slurm``: import jobs and nodes of a real cluster, and check its configuration."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, Final, Literal

import click

from beasy_sched.cli import LazyGroup
from beasy_sched.cli.findings_table import show_findings
from beasy_sched.cli.generate_workload import (
    CommonOptions,
    missing_walltime,
    reference_speed_of,
    write_workload,
)
from beasy_sched.cli.options import (
    CommandOptions,
    Whole,
    option,
    option_of,
    output_option,
    parsed,
    with_options,
)
from beasy_sched.declared import made_of
from beasy_sched.generate.workload_options import ProfileType
from beasy_sched.model.choices import BatsimFormat
from beasy_sched.plugins.slurm.history_options import HistoryOptions
from beasy_sched.plugins.slurm.live_settings import Mode
from beasy_sched.plugins.slurm.partition_platform import (
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
    "run": "beasy_sched.plugins.slurm.commands.slurm_run",
    "release": "beasy_sched.plugins.slurm.commands.slurm_run",
}


@click.group(cls=LazyGroup, lazy={"slurm": _COMMANDS})
def slurm() -> None:
    """Import jobs and nodes from a Slurm cluster, check its configuration, and schedule a partition.

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
    """Check a time, which is passed to sacct unchanged."""
    from beasy_sched.plugins.slurm.job_history import moment_s

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
        "Read the output of 'sacct --json' or 'sacct -P' from this file instead of querying Slurm."
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

    Each job has its actual run time, its number of (whole) nodes, its time limit as walltime, and its time of
    submission; time 0 is the first submission. Job ids are Slurm's (4711, or 4711_3 for a task of an array).
    Jobs that never ran, or are still running, are omitted and counted in a summary on stderr.

    \b
    Examples:
      beasy-sched slurm import --from 2026-01-01 --to 2026-02-01 -o workload.json
      beasy-sched slurm import --from 2026-01-01 --partition main --platform-preset taurus -o workload.json
      sacct --json -a -S 2026-01-01 -E 2026-02-01 > jobs.json      # on the cluster
      beasy-sched slurm import --file jobs.json -o workload.json   # anywhere

    \b
    A text file must have the columns JobID, State, Submit, Start, End, NNodes, Timelimit, in any order, and
    may have Partition, Elapsed, NodeList and Cluster:
      SLURM_TIME_FORMAT=%s sacct -P -X -a -S 2026-01-01 -o \\
          JobID,Partition,State,Submit,Start,End,Elapsed,Timelimit,NNodes,NodeList > jobs.txt
    Without SLURM_TIME_FORMAT=%s, times are local times of this computer (set by TZ=Europe/Berlin).
    """
    from beasy_sched.formats.reading import read_plain_bytes
    from beasy_sched.plugins.slurm.job_history import moment_s, read_history, workload_from_history
    from beasy_sched.plugins.slurm.slurm_commands import Slurm

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
        raise click.UsageError("Give --from DATE, to query Slurm, or --file FILE.")
    else:
        cluster = Slurm()
        source, data = "sacct --json", cluster.history(given.start, given.end, given.partition, given.cluster)
        given.hosts = given.hosts or len(of_partition(cluster.nodes(), given.partition))
    options = made_of(HistoryOptions, vars(given), from_s=from_s, to_s=to_s)
    made = workload_from_history(read_history(data, source), options, source)
    write_workload(made, given.output, given.form, speed_source, quiet=given.quiet)


class _ClusterPlatformOptions(CommandOptions):
    servers: tuple[ServerRule, ...] = option(
        "Map nodes to server models: NODES=SERVER (n[1-4]=gros), feature:NAME=SERVER"
        " (feature:gpu=my.toml), or SERVER for all. SERVER is a preset or a server file. May be repeated; the"
        " first match of a node applies.",
        "--server",
        type=parsed(parse_rule),
        metavar="RULE",
        multiple=True,
        required=True,
    )
    output: str = output_option("XML file")
    partition: str | None = _partition("Use only the nodes of this partition.")
    file: Path | None = option(
        "Read the output of 'scontrol show nodes --json' (Slurm 22.05: 'sinfo --json') from this file instead"
        " of querying Slurm."
    )
    one_pstate: bool = option(
        "Keep only the fastest P-state of each server, and its sleep state: for 'slurm run --act' without"
        " --pstate-command."
    )
    quiet: bool = option("Do not print a summary.", "-q")


@click.command()
@with_options(_ClusterPlatformOptions)
def platform(given: _ClusterPlatformOptions) -> None:
    """Write a SimGrid platform file of the cluster's nodes.

    The hosts have the nodes' names; speeds, powers, P-states and sleep are those of servers, as in 'generate
    platform'. Each node is one host.

    \b
    Examples:
      beasy-sched slurm platform --server gros -o platform.xml
      beasy-sched slurm platform --server 'n[1-4]=gros' --server feature:gpu=my.toml -o platform.xml
      scontrol show nodes --json > nodes.json                      # on the cluster
      beasy-sched slurm platform --file nodes.json --server gros -o platform.xml
    """
    from beasy_sched.cli.generate import write_platform
    from beasy_sched.plugins.slurm.slurm_commands import Slurm

    nodes = Slurm().nodes() if given.file is None else read_nodes_file(given.file)
    built = cluster_platform(of_partition(nodes, given.partition), given.servers, one_pstate=given.one_pstate)
    write_platform(built, given.output, quiet=given.quiet)


class _ClusterCheckOptions(CommandOptions):
    partition: str | None = _partition("Also check this partition.")
    mode: Mode = option("Mode of 'slurm run' to check for: 'jobs' (default) or 'nodes-only'.", default="jobs")
    low_partition: str | None = option(
        "With --mode nodes-only: also check this partition for 'slurm run --low-partition'.", metavar="NAME"
    )
    script: bool = option(
        "Print the script of the plugin job_submit/lua that holds jobs submitted to the partition, and exit."
    )
    merge: bool = option(
        "With --script: print only the functions, to be called from the site's own job_submit.lua."
    )
    uid: int = option(
        "With --script: numeric id of the user of 'slurm run --act', if it is not root.",
        type=Whole(0, 2**32 - 1),
        metavar="UID",
        default=0,
    )
    as_json: bool = option("Print the findings as one JSON object.", "--json")
    quiet: bool = option("No table: only the findings, on stderr.", "-q")


@click.command()
@with_options(_ClusterCheckOptions)
@click.pass_context
def check(context: click.Context, given: _ClusterCheckOptions) -> None:
    """Check that the Slurm configuration allows an external scheduler, and print the lines to add.

    It checks power saving, whether submitted jobs are held, the rights of this user, whole-node allocation,
    clocks and Slurm's version. Nothing is changed. The exit code is 0 without problems, 1 if there are
    warnings, 2 if a scheduler could not control the partition.

    \b
    beasy-sched slurm check
    beasy-sched slurm check --partition main
    beasy-sched slurm check --partition main --script > /etc/slurm/job_submit.lua
    beasy-sched slurm check --partition main --mode nodes-only
    """
    from beasy_sched.plugins.slurm.cluster_check import (
        cluster_facts,
        cluster_findings,
        hold_script,
        look_at_cluster,
    )
    from beasy_sched.plugins.slurm.nodes_only_check import look_at_low, offering_checks, offering_facts
    from beasy_sched.plugins.slurm.slurm_commands import Slurm

    if given.script:
        if given.partition is None:
            raise click.UsageError("--script requires --partition NAME.")
        click.echo(hold_script(given.partition, given.uid, whole=not given.merge), nl=False)
        return
    if given.merge or given.uid:
        raise click.UsageError("--merge and --uid require --script.")
    if given.low_partition is not None and given.mode != "nodes-only":
        raise click.UsageError("--low-partition requires --mode nodes-only.")
    cluster = Slurm()
    if given.mode == "nodes-only":
        if given.partition is None:
            raise click.UsageError("--mode nodes-only requires --partition NAME.")
        reservations, low = cluster.reservations(), look_at_low(cluster, given.low_partition)
        slurm_facts = look_at_cluster(cluster, given.partition, time.time)
        rows = dict(offering_facts(slurm_facts, reservations, low)) | dict(cluster_facts(slurm_facts))
        findings = [*offering_checks(slurm_facts, reservations, low)]
    else:
        slurm_facts = look_at_cluster(cluster, given.partition, time.time)
        rows, findings = dict(cluster_facts(slurm_facts)), [*cluster_findings(slurm_facts)]
    code = show_findings(rows.items(), findings, rows, as_json=given.as_json, quiet=given.quiet)
    context.exit(code)
