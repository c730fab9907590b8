"""``beasy-sched batsim``: emulates the ``batsim`` binary, with the options of Batsim 4.2.1 or 5.0.0-rc2.

Each of them is accepted, or rejected by name with a reason.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import click

from beasy_sched._version import __version__
from beasy_sched.cli.options import (
    SECONDS,
    CommandOptions,
    Whole,
    noting_prefix,
    option,
    print_line,
    with_options,
)
from beasy_sched.cli.progress import progress_bar
from beasy_sched.errors import ConfigError, DecisionRefused, Interrupted, RunIncomplete
from beasy_sched.formats.run_files import OF_BATSIM
from beasy_sched.limits import MOST_HOSTS

if TYPE_CHECKING:
    from beasy_sched.simulator import Simulation
    from beasy_sched.simulator.zmq_client import ZmqScheduler

_ENDPOINT = "tcp://localhost:28000"
_WITHOUT_REDIS = "Ignored without --enable-redis."


class _BatsimOptions(CommandOptions):
    protocol: Literal["4", "5"] = option(
        "Emulate Batsim 4.2.1, or 5.0.0-rc2, with its options, files and messages"
        " (see docs/guides/batsim.md).",
        default="4",
    )
    # Input
    platform: str = option("The SimGrid platform to simulate.", "-p", metavar="FILE", required=True)
    workload: tuple[str, ...] = option("The workload JSON files to simulate.", "-w", metavar="FILE")
    workflow: tuple[str, ...] = option("Not supported.", "-W", metavar="FILE")
    workflow_start: tuple[str, ...] = option(
        "Not supported.", "--WS", "--workflow-start", nargs=2, metavar="FILE TIME"
    )
    events: tuple[str, ...] = option("The files of external events to simulate.", metavar="FILE")
    # Most common
    master_host: str = option(
        "Name of the master host, which runs no jobs; 'none' if the platform file already marks one.",
        "-m",
        metavar="NAME",
        default="master_host",
    )
    add_role_to_hosts: tuple[str, ...] = option(
        "Give hosts (comma separated) a role: master, storage or compute_node.", "-r", metavar="HOSTS:ROLE"
    )
    energy: bool = option("Meter energy, and write the energy files.", "-E")
    # Execution context
    socket_endpoint: str = option("Endpoint of the scheduler.", "-s", metavar="ENDPOINT", default=_ENDPOINT)
    enable_redis: bool = option("Not supported.")
    redis_hostname: str = option(_WITHOUT_REDIS, metavar="TEXT", default="127.0.0.1")
    redis_port: str = option(_WITHOUT_REDIS, metavar="TEXT", default="6379")
    redis_prefix: str = option(_WITHOUT_REDIS, metavar="TEXT", default="default")
    # Output
    export: str = option(
        "Prefix of the output files.",
        "-e",
        metavar="PREFIX",
        default="out",
        callback=noting_prefix(OF_BATSIM),
    )
    disable_schedule_tracing: bool = option("Accepted for compatibility; the Pajé trace is never written.")
    disable_machine_state_tracing: bool = option("Do not write the machine states.")
    # Platform size
    mmax: int = option(
        "Use only this many machines (0: all).", type=Whole(0, MOST_HOSTS), metavar="NB", default=0
    )
    mmax_workload: bool = option("Use only as many machines as the workloads' 'nb_res'.")
    # Jobs
    forward_profiles_on_submission: bool = option("Attach the profile to each submitted job.")
    enable_dynamic_jobs: bool = option("Let the scheduler register jobs and profiles.")
    acknowledge_dynamic_jobs: bool = option("Acknowledge a registration with JOB_SUBMITTED.")
    enable_profile_reuse: bool = option("Accepted for compatibility; profiles are always kept.")
    # Verbosity
    verbosity: Literal["quiet", "network-only", "information", "debug"] = option(
        "Log level.", "-v", metavar="LEVEL", default="information"
    )
    quiet: bool = option("Shortcut for --verbosity quiet.", "-q")
    # Workflows
    workflow_jobs_limit: str = option("No effect: workflows are not supported.", metavar="TEXT", default="0")
    ignore_beyond_last_workflow: bool = option("No effect: workflows are not supported.")
    # Other
    dump_execution_context: bool = option("Print the execution context (JSON) and exit.")
    enable_compute_sharing: bool = option("Allow several jobs at a time on a machine.")
    disable_storage_sharing: bool = option("Passed on to the scheduler; no effect on the simulation.")
    no_sched: bool = option("Not supported.")
    sched_cfg: str | None = option(
        "Init string passed to the scheduler in the first message.", metavar="TEXT"
    )
    sched_cfg_file: str | None = option("The same, from a file.", metavar="FILE")
    sg_cfg: tuple[str, ...] = option("Ignored: SimGrid is not used.", metavar="NAME:VALUE")
    sg_log: tuple[str, ...] = option("Ignored: SimGrid is not used.", metavar="OPTION")
    forward_unknown_events: bool = option("Send external events of unknown types to the scheduler.")
    timeout: float | None = option(
        "Give up if a reply takes longer (not an option of Batsim; default: wait forever).",
        type=SECONDS,
        metavar="SECONDS",
    )


_NO_WORKFLOW = "-W/--workflow is not supported: workflows are not simulated, convert them to a workload (-w)"
_UNSUPPORTED = {
    "workflow": _NO_WORKFLOW,
    "workflow_start": "--WS is not supported: workflows are not simulated, convert them to a workload (-w)",
    "enable_redis": "--enable-redis is not supported: jobs are sent in the messages, Batsim's default",
    "no_sched": "--no-sched is not supported: give a scheduler, such as 'beasy-sched serve --policy fcfs'",
}


class _Batsim5Options(CommandOptions):
    protocol: Literal["4", "5"] = _BatsimOptions.protocol
    # Input
    platform: str = _BatsimOptions.platform
    workload: tuple[str, ...] = option("A workload JSON file to simulate.", "-w", metavar="FILE")
    external_events: tuple[str, ...] = option(
        "A file of external events to simulate.", "--external-events", "--ee", metavar="FILE"
    )
    workflow: tuple[str, ...] = _BatsimOptions.workflow
    # Output
    export: str = option(
        "Prefix of the output files, taken literally.", "-e", metavar="PREFIX", default="out/"
    )
    trace_machine_state: bool = option("Write the states of machines over time.")
    trace_pstate_changes: bool = option("Write the changes of P-states over time.")
    # External decision component
    edc_socket_str: tuple[str, str] | None = option(
        f"Endpoint of the scheduler and an init string for it. [default: {_ENDPOINT} and an empty string]",
        "-s",
        "--edc-socket-str",
        type=(str, str),
        metavar="ENDPOINT TEXT",
    )
    edc_socket_file: tuple[str, str] | None = option(
        "The same, with the init string from a file.",
        "-S",
        "--edc-socket-file",
        type=(str, str),
        metavar="ENDPOINT FILE",
    )
    edc_library_str: str | None = option("Not supported: give -s.", "-l", metavar="LIBRARY")
    edc_library_file: str | None = option("Not supported: give -S.", "-L", metavar="LIBRARY")
    # Platform
    master_host: str = _BatsimOptions.master_host
    add_role: tuple[tuple[str, str], ...] = option(
        "Give a host a role: master, storage or compute_node.",
        "-r",
        type=(str, str),
        multiple=True,
        metavar="HOST ROLE",
    )
    mmax: int = _BatsimOptions.mmax
    mmax_workload: bool = _BatsimOptions.mmax_workload
    # Simulation model
    energy_host: bool = option("Meter the energy of hosts, and write the energy file.")
    energy_link: bool = option("Not supported.")
    energy: bool = option("Not supported, by Batsim 5 itself: give --energy-host.", "-E")
    sg_cfg: tuple[str, ...] = _BatsimOptions.sg_cfg
    # Verbosity
    verbosity: Literal["quiet", "info", "debug"] = option("Log level.", "-v", metavar="LEVEL", default="info")
    quiet: bool = _BatsimOptions.quiet
    sg_log: tuple[str, ...] = _BatsimOptions.sg_log
    # Other
    timeout: float | None = _BatsimOptions.timeout


_UNSUPPORTED_5 = {
    "workflow": _NO_WORKFLOW,
    "edc_library_str": "-l is not supported: give a scheduler that listens on a socket, with -s",
    "edc_library_file": "-L is not supported: give a scheduler that listens on a socket, with -S",
    "energy_link": "--energy-link is not supported: the network is not simulated",
    "energy": "--energy is not implemented in Batsim 5.0.0-rc2: give --energy-host",
}


@click.command("batsim", context_settings={"help_option_names": ["-h", "--help"]})
@with_options(_Batsim5Options)
@click.version_option(
    f"v5.0.0-rc2 (the simulator embedded in beasy-sched {__version__})",
    "--version",
    "--batsim-version",
    message="%(version)s",
    help="Show the version and exit.",
)
def _batsim5(given: _Batsim5Options) -> None:
    """Simulate a platform for a scheduler over ZeroMQ, as Batsim 5.0.0-rc2 does.

    Files and messages (JSON) are those of Batsim 5; 'beasy-sched convert' converts the files of Batsim 4. The
    network, MPI replay and storage are not simulated. Only probes of the energy of all hosts together are
    supported. Start the scheduler first, or within --timeout.

    \b
    beasy-sched batsim --protocol 5 -p platform.xml -w workload5.json -e out/run_ --energy-host \\
        --external-events power5.txt -s tcp://localhost:28000 ''
    """
    for name, reason in _UNSUPPORTED_5.items():
        if getattr(given, name):
            raise ConfigError(reason)
    endpoint, init = _scheduler(given)
    _simulate_5(given, endpoint, init, quiet=given.quiet or given.verbosity == "quiet")


def _scheduler(given: _Batsim5Options) -> tuple[str, bytes]:
    """Return the endpoint of the scheduler and the init string for it."""
    from beasy_sched.formats.reading import read_bytes

    if given.edc_socket_str is not None and given.edc_socket_file is not None:
        raise ConfigError("give only one of -s and -S")
    if given.edc_socket_file is not None:
        endpoint, path = given.edc_socket_file
        return endpoint, read_bytes(path)
    endpoint, text = given.edc_socket_str or (_ENDPOINT, "")
    return endpoint, text.encode()


class _EitherBatsim(click.Command):
    """The command with the options of Batsim 4, or of Batsim 5."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse with the options of the requested version."""
        wants_5 = "--protocol=5" in args or ("--protocol", "5") in pairwise(args)
        if not wants_5:
            return super().make_context(info_name, args, parent, **extra)
        own = [parameter.name for parameter in _batsim5.params]
        _batsim5.params += [one for one in self.params if one.name == "traceback" and one.name not in own]
        return _batsim5.make_context(info_name, args, parent, **extra)


@click.command(cls=_EitherBatsim, context_settings={"help_option_names": ["-h", "--help"]})
@with_options(_BatsimOptions)
@click.version_option(
    "3.34.0 (whose behaviour is reproduced; SimGrid itself is not used)",
    "--simgrid-version",
    message="%(version)s",
    help="Show the version and exit.",
)
@click.version_option(
    f"v4.2.1 (the simulator embedded in beasy-sched {__version__})",
    message="%(version)s",
    help="Show the version and exit.",
)
def batsim(given: _BatsimOptions) -> None:
    """Simulate a platform for a scheduler over ZeroMQ, as Batsim 4.2.1 does.

    With --protocol 5, it emulates Batsim 5; --protocol 5 --help lists its options.

    Files and messages are Batsim's; a deadlock ends with exit code 1. The network, MPI replay and storage
    are not simulated (profiles that need them are rejected by name). Start the scheduler first, or within
    --timeout.

    \b
    beasy-sched batsim -p platform.xml -w workload.json -e out/run -E \\
        --events power.txt --forward-unknown-events -s tcp://localhost:28000
    """
    for name, reason in _UNSUPPORTED.items():
        if getattr(given, name):
            raise ConfigError(reason)
    if given.dump_execution_context:
        context = {
            "socket_endpoint": given.socket_endpoint,
            "redis_enabled": False,
            "redis_hostname": given.redis_hostname,
            "redis_port": int(given.redis_port),
            "redis_prefix": given.redis_prefix,
            "export_prefix": given.export,
            "external_scheduler": True,
        }
        click.echo(json.dumps(context))
        return
    _simulate(given, quiet=given.quiet or given.verbosity in ("quiet", "network-only"))


def _simulate(given: _BatsimOptions, *, quiet: bool) -> None:
    from beasy_sched.model.choices import BatsimFormat
    from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files
    from beasy_sched.simulator.zmq_client import ZmqScheduler

    options = SimulationOptions(
        energy=given.energy,
        forward_profiles=given.forward_profiles_on_submission,
        dynamic_jobs=given.enable_dynamic_jobs,
        acknowledge_dynamic_jobs=given.acknowledge_dynamic_jobs,
        profile_reuse=given.enable_profile_reuse,
        compute_sharing=given.enable_compute_sharing,
        storage_sharing=not given.disable_storage_sharing,
        forward_unknown_events=given.forward_unknown_events,
        sched_config=_sched_config(given),
    )
    inputs = Inputs(
        given.platform,
        given.workload,
        given.events,
        given.master_host,
        _role_map(given.add_role_to_hosts),
        given.mmax,
        given.mmax_workload,
        strict=BatsimFormat.BATSIM4,
    )
    scheduler = ZmqScheduler(given.socket_endpoint, timeout_s=given.timeout)

    def ready(note: Callable[[str], None]) -> Simulation:
        traced = not given.disable_machine_state_tracing
        return simulation_from_files(inputs, options, given.export, machine_states=traced, note=note)

    _run(ready, scheduler, quiet=quiet)


def _simulate_5(given: _Batsim5Options, endpoint: str, init: bytes, *, quiet: bool) -> None:
    from beasy_sched.model.choices import BatsimFormat
    from beasy_sched.simulator import Inputs, SimulationOptions
    from beasy_sched.simulator.batsim5_peer import batsim5_from_files
    from beasy_sched.simulator.zmq_client import ZmqScheduler

    inputs = Inputs(
        given.platform,
        given.workload,
        given.external_events,
        given.master_host,
        dict(given.add_role),
        given.mmax,
        given.mmax_workload,
        strict=BatsimFormat.BATSIM5,
    )
    context = {"socket_endpoint": endpoint, "export_prefix": given.export}
    scheduler = ZmqScheduler(endpoint, timeout_s=given.timeout, form=BatsimFormat.BATSIM5)

    def ready(note: Callable[[str], None]) -> Simulation:
        simulation = batsim5_from_files(
            inputs,
            SimulationOptions(energy=given.energy_host),
            given.export,
            machine_states=given.trace_machine_state,
            pstates=given.trace_pstate_changes,
            arguments=sys.argv,
            context=json.dumps(context),
            note=note,
        )
        try:
            simulation.greet(scheduler.greet(init).features)
        except BaseException:
            simulation.discard()
            raise
        return simulation

    _run(ready, scheduler, quiet=quiet)


def _run(
    ready: Callable[[Callable[[str], None]], Simulation], scheduler: ZmqScheduler, *, quiet: bool
) -> None:
    """Run the simulation that ``ready`` creates (with warnings), close the connection and print the result.

    Raises any error that ends it early, and RunIncomplete after a deadlock.
    """
    from beasy_sched.simulator import Ending

    def say(text: str) -> None:
        if not quiet:
            print_line(text)

    def note(text: str) -> None:
        say(f"warning: {text}")

    try:
        simulation = ready(note)
        with progress_bar("jobs submitted", quiet=quiet) as report:
            result = simulation.run(scheduler, report)
    except DecisionRefused as error:
        raise DecisionRefused(f"{error}\nBatsim aborts here; no output file was written") from None
    except Interrupted as error:
        raise Interrupted(f"{error}; no output file was written", error.number) from None
    finally:
        scheduler.close()
    for text in (*result.notes, *scheduler.notices):
        note(text)
    say(f"jobs={result.jobs}, success={result.succeeded}, makespan={result.makespan_s:.6f}")
    for file in result.files:
        say(f"wrote {file}")
    if result.ending is not Ending.FINISHED:
        why = "registration was never finished"
        if result.waiting:
            why = f"jobs wait: {', '.join(result.waiting[:5])}{' ...' if len(result.waiting) > 5 else ''}"
        raise RunIncomplete(f"Deadlock detected: no further events are scheduled, but {why}")


def _sched_config(given: _BatsimOptions) -> str:
    from beasy_sched.formats.reading import read_text

    if given.sched_cfg and given.sched_cfg_file:
        raise ConfigError("give only one of --sched-cfg and --sched-cfg-file")
    return read_text(given.sched_cfg_file) if given.sched_cfg_file else given.sched_cfg or ""


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
