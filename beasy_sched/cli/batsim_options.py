"""Batsim 4.2.1's command-line options: accepted, or refused by name with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from beasy_sched.errors import ConfigError

Option = tuple[tuple[str, ...], dict[str, Any]]


def _value(*names: str, help: str, metavar: str = "TEXT", **more: Any) -> Option:
    return names, {"help": help, "metavar": metavar, "show_default": "default" in more, **more}


def _files(*names: str, help: str, metavar: str = "FILE", **more: Any) -> Option:
    return names, {"help": help, "metavar": metavar, "multiple": True, **more}


def _flag(*names: str, help: str) -> Option:
    return names, {"help": help, "is_flag": True}


_WITHOUT_REDIS = "Ignored without --enable-redis."
_VERBOSITIES = click.Choice(["quiet", "network-only", "information", "debug"])

_OPTIONS: list[Option] = [
    # Input
    _value("-p", "--platform", metavar="FILE", required=True, help="The SimGrid platform to simulate."),
    _files("-w", "--workload", help="The workload JSON files to simulate."),
    _files("-W", "--workflow", help="Not supported."),
    _files("--WS", "--workflow-start", "workflow_start", nargs=2, metavar="FILE TIME", help="Not supported."),
    _files("--events", help="The files of external events to simulate."),
    # Most common
    _value(
        "-m",
        "--master-host",
        metavar="NAME",
        default="master_host",
        help="The host that no job runs on; 'none' if the platform file itself gives a host that role.",
    ),
    _files(
        "-r",
        "--add-role-to-hosts",
        metavar="HOSTS:ROLE",
        help="Give hosts (comma separated) a role: master, storage or compute_node.",
    ),
    _flag("-E", "--energy", help="Meter energy, and write the energy files."),
    # Execution context
    _value(
        "-s",
        "--socket-endpoint",
        metavar="ENDPOINT",
        default="tcp://localhost:28000",
        help="Where the scheduler listens.",
    ),
    _flag("--enable-redis", help="Not supported."),
    _value("--redis-hostname", default="127.0.0.1", help=_WITHOUT_REDIS),
    _value("--redis-port", default="6379", help=_WITHOUT_REDIS),
    _value("--redis-prefix", default="default", help=_WITHOUT_REDIS),
    # Output
    _value("-e", "--export", metavar="PREFIX", default="out", help="Prefix of the output files."),
    _flag("--disable-schedule-tracing", help="Accepted: the Pajé trace is never written."),
    _flag("--disable-machine-state-tracing", help="Do not write the machine states."),
    # Platform size
    _value(
        "--mmax",
        metavar="NB",
        type=click.IntRange(min=0),
        default=0,
        help="Use only so many machines (0: all).",
    ),
    _flag("--mmax-workload", help="Use only as many machines as the workloads' 'nb_res'."),
    # Jobs
    _flag("--forward-profiles-on-submission", help="Attach its profile to each submitted job."),
    _flag("--enable-dynamic-jobs", help="Let the scheduler register jobs and profiles."),
    _flag("--acknowledge-dynamic-jobs", help="Answer a registration with JOB_SUBMITTED."),
    _flag("--enable-profile-reuse", help="Accepted: profiles are always kept."),
    # Verbosity
    _value(
        "-v",
        "--verbosity",
        metavar="LEVEL",
        type=_VERBOSITIES,
        default="information",
        help="How much is said.",
    ),
    _flag("-q", "--quiet", help="Shortcut for --verbosity quiet."),
    # Workflows
    _value("--workflow-jobs-limit", default="0", help="Without effect: workflows are not supported."),
    _flag("--ignore-beyond-last-workflow", help="Without effect, like the one above."),
    # Other
    _flag("--dump-execution-context", help="Print the execution context (JSON), and stop."),
    _flag("--enable-compute-sharing", help="Allow several jobs at a time on a machine."),
    _flag("--disable-storage-sharing", help="Only told to the scheduler."),
    _flag("--no-sched", help="Not supported."),
    _value("--sched-cfg", help="Text for the scheduler, sent in the first message."),
    _value("--sched-cfg-file", metavar="FILE", help="The same, from a file."),
    _files("--sg-cfg", metavar="NAME:VALUE", help="Ignored: there is no SimGrid."),
    _files("--sg-log", metavar="OPTION", help="Ignored: there is no SimGrid."),
    _flag("--forward-unknown-events", help="Send external events of unknown types to the scheduler."),
]

_UNSUPPORTED = {
    "workflow": "-W/--workflow is not supported: workflows are not simulated, make a workload (-w) of them",
    "workflow_start": "--WS is not supported: workflows are not simulated, make a workload (-w) of them",
    "enable_redis": "--enable-redis is not supported: jobs are sent in the messages, Batsim's default",
    "no_sched": "--no-sched is not supported: give a scheduler, such as 'beasy-sched serve --policy fcfs'",
}


def batsim_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all of Batsim's options to a click command."""
    for names, attributes in reversed(_OPTIONS):
        command = click.option(*names, **attributes)(command)
    return command


def refuse_unsupported(given: dict[str, Any]) -> None:
    """Raise ConfigError for an option that cannot be honoured; settle ``quiet``."""
    for name, reason in _UNSUPPORTED.items():
        if given[name]:
            raise ConfigError(reason)
    given["quiet"] = given["quiet"] or given["verbosity"] in ("quiet", "network-only")


def role_map(given: Sequence[str]) -> dict[str, str]:
    """Read ``host1,host2:role`` options; the last one for a host counts. Raises ConfigError."""
    roles: dict[str, str] = {}
    for text in given:
        hosts, _, role = text.partition(":")
        names = [name for name in hosts.split(",") if name]
        if text.count(":") != 1 or not names or not role:
            raise ConfigError(f"-r {text!r}: expected HOSTS:ROLE, for example host1,host2:storage")
        roles.update(dict.fromkeys(names, role))
    return roles


def execution_context(given: dict[str, Any]) -> dict[str, Any]:
    """Return what ``--dump-execution-context`` prints."""
    return {
        "socket_endpoint": given["socket_endpoint"],
        "redis_enabled": False,
        "redis_hostname": given["redis_hostname"],
        "redis_port": int(given["redis_port"]),
        "redis_prefix": given["redis_prefix"],
        "export_prefix": given["export"],
        "external_scheduler": True,
    }
