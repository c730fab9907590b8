"""``beasy-sched batsim``: stands in for the ``batsim`` binary, with Batsim 4.2.1's options.

Each of them is accepted, or refused by name with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from beasy_sched._version import __version__
from beasy_sched.cli.options import Option, progress_bar, with_options
from beasy_sched.errors import ConfigError, DecisionRefused, Interrupted, RunIncomplete
from beasy_sched.formats.reading import read_text


def _value(*names: str, help: str, metavar: str = "TEXT", **more: Any) -> Option:
    return click.option(*names, help=help, metavar=metavar, **more)


def _files(*names: str, help: str, metavar: str = "FILE", **more: Any) -> Option:
    return click.option(*names, help=help, metavar=metavar, multiple=True, **more)


def _flag(*names: str, help: str) -> Option:
    return click.option(*names, help=help, is_flag=True)


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
        help="The host that runs no jobs; 'none' if the platform file itself gives a host that role.",
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@with_options(*_OPTIONS)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up if a reply takes longer (not one of Batsim's options; default: wait forever).",
)
@click.version_option(
    "3.34.0 (whose behaviour is reproduced; SimGrid itself is not used)",
    "--simgrid-version",
    message="%(version)s",
    help="Show the version, and stop.",
)
@click.version_option(
    f"v4.2.1 (the simulator embedded in beasy-sched {__version__})",
    message="%(version)s",
    help="Show the version, and stop.",
)
def batsim(timeout: float | None, **given: Any) -> None:
    """Simulate a platform for a scheduler over ZeroMQ, as Batsim 4.2.1 does.

    Files and messages are Batsim's; a deadlock ends with exit code 1. The network, MPI replay and storage
    are not simulated (profiles that need them are refused by name). Start the scheduler first, or within
    --timeout.

    \b
    beasy-sched batsim -p platform.xml -w workload.json -e out/run -E \\
        --events power.txt --forward-unknown-events -s tcp://localhost:28000
    """
    for name, reason in _UNSUPPORTED.items():
        if given[name]:
            raise ConfigError(reason)
    given["quiet"] = given["quiet"] or given["verbosity"] in ("quiet", "network-only")
    if given["dump_execution_context"]:
        context = {
            "socket_endpoint": given["socket_endpoint"],
            "redis_enabled": False,
            "redis_hostname": given["redis_hostname"],
            "redis_port": int(given["redis_port"]),
            "redis_prefix": given["redis_prefix"],
            "export_prefix": given["export"],
            "external_scheduler": True,
        }
        click.echo(json.dumps(context))
        return
    say: Callable[[str], None] = lambda text: None if given["quiet"] else click.echo(text, err=True)  # noqa: E731
    _simulate(given, timeout, say)


def _simulate(given: dict[str, Any], timeout: float | None, say: Callable[[str], None]) -> None:
    from beasy_sched.simulator import Ending, Inputs, SimulationOptions, simulation_from_files
    from beasy_sched.simulator.zmq_client import ZmqScheduler

    options = SimulationOptions(
        energy=given["energy"],
        forward_profiles=given["forward_profiles_on_submission"],
        dynamic_jobs=given["enable_dynamic_jobs"],
        acknowledge_dynamic_jobs=given["acknowledge_dynamic_jobs"],
        profile_reuse=given["enable_profile_reuse"],
        compute_sharing=given["enable_compute_sharing"],
        storage_sharing=not given["disable_storage_sharing"],
        forward_unknown_events=given["forward_unknown_events"],
        sched_config=_sched_config(given),
    )
    inputs = Inputs(
        given["platform"],
        given["workload"],
        given["events"],
        given["master_host"],
        _role_map(given["add_role_to_hosts"]),
        given["mmax"],
        given["mmax_workload"],
        strict=True,
    )
    scheduler = ZmqScheduler(given["socket_endpoint"], timeout_s=timeout)
    try:
        simulation = simulation_from_files(
            inputs,
            options,
            given["export"],
            machine_states=not given["disable_machine_state_tracing"],
            note=lambda text: say(f"note: {text}"),
        )
        with progress_bar("jobs submitted", quiet=given["quiet"]) as report:
            result = simulation.run(scheduler, report)
    except DecisionRefused as error:
        raise DecisionRefused(f"{error}\nBatsim aborts here; no output file was written") from None
    except Interrupted as error:
        raise Interrupted(f"{error}; no output file was written", error.number) from None
    finally:
        scheduler.close()
    for note in (*result.notes, *scheduler.notices):
        say(f"note: {note}")
    say(f"jobs={result.jobs}, success={result.succeeded}, makespan={result.makespan_s:.6f}")
    for file in result.files:
        say(f"wrote {file}")
    if result.ending is not Ending.FINISHED:
        why = (
            f"jobs wait: {', '.join(result.waiting[:5])}{' ...' if len(result.waiting) > 5 else ''}"
            if result.waiting
            else "registration was never finished"
        )
        raise RunIncomplete(f"Deadlock detected: nothing is left to happen, but {why}")


def _sched_config(given: dict[str, Any]) -> str:
    if given["sched_cfg"] and given["sched_cfg_file"]:
        raise ConfigError("give --sched-cfg or --sched-cfg-file, not both")
    if given["sched_cfg_file"]:
        return read_text(given["sched_cfg_file"])
    return str(given["sched_cfg"] or "")


def _role_map(given: Sequence[str]) -> dict[str, str]:
    """Read ``host1,host2:role`` options; the last one for a host counts. Raises ConfigError."""
    roles: dict[str, str] = {}
    for text in given:
        hosts, _, role = text.partition(":")
        names = [name for name in hosts.split(",") if name]
        if text.count(":") != 1 or not names or not role:
            raise ConfigError(f"-r {text!r}: expected HOSTS:ROLE, for example host1,host2:storage")
        roles.update(dict.fromkeys(names, role))
    return roles
