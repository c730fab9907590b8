"""``beasy-sched batsim --protocol 5``: stands in for the ``batsim`` binary of Batsim 5.0.0-rc2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import click

from beasy_sched._version import __version__
from beasy_sched.cli.batsim import protocol_option, simulate
from beasy_sched.cli.options import CommandOptions, option, with_options
from beasy_sched.errors import ConfigError
from beasy_sched.formats.batsim_versions import BatsimFormat
from beasy_sched.formats.reading import read_bytes

if TYPE_CHECKING:
    from beasy_sched.simulator import Simulation

_ENDPOINT = "tcp://localhost:28000"


class _Batsim5Options(CommandOptions):
    protocol: Literal["4", "5"] = protocol_option()
    # Input
    platform: str = option("The SimGrid platform to simulate.", "-p", metavar="FILE", required=True)
    workload: tuple[str, ...] = option("A workload JSON file to simulate.", "-w", metavar="FILE")
    external_events: tuple[str, ...] = option(
        "A file of external events to simulate.", "--external-events", "--ee", metavar="FILE"
    )
    workflow: tuple[str, ...] = option("Not supported.", "-W", metavar="FILE")
    # Output
    export: str = option(
        "Prefix of the output files, taken literally.", "-e", metavar="PREFIX", default="out/"
    )
    trace_machine_state: bool = option("Write the states of machines over time.")
    trace_pstate_changes: bool = option("Write the changes of P-states over time.")
    # External decision component
    edc_socket_str: tuple[str, str] | None = option(
        f"Where the scheduler listens, and a text for it. [default: {_ENDPOINT} and no text]",
        "-s",
        "--edc-socket-str",
        type=(str, str),
        metavar="ENDPOINT TEXT",
    )
    edc_socket_file: tuple[str, str] | None = option(
        "The same, with the text from a file.",
        "-S",
        "--edc-socket-file",
        type=(str, str),
        metavar="ENDPOINT FILE",
    )
    edc_library_str: str | None = option("Not supported: give -s.", "-l", metavar="LIBRARY")
    edc_library_file: str | None = option("Not supported: give -S.", "-L", metavar="LIBRARY")
    # Platform
    master_host: str = option(
        "The host that runs no jobs; 'none' if the platform file itself gives a host that role.",
        "-m",
        metavar="NAME",
        default="master_host",
    )
    add_role: tuple[tuple[str, str], ...] = option(
        "Give a host a role: master, storage or compute_node.",
        "-r",
        type=(str, str),
        multiple=True,
        metavar="HOST ROLE",
    )
    mmax: int = option(
        "Use only so many machines (0: all).", type=click.IntRange(min=0), metavar="NB", default=0
    )
    mmax_workload: bool = option("Use only as many machines as the workloads' 'nb_res'.")
    # Simulation model
    energy_host: bool = option("Meter the energy of hosts, and write the energy file.")
    energy_link: bool = option("Not supported.")
    energy: bool = option("Not supported, by Batsim 5 itself: give --energy-host.", "-E")
    sg_cfg: tuple[str, ...] = option("Ignored: there is no SimGrid.", metavar="NAME:VALUE")
    # Verbosity
    verbosity: Literal["quiet", "info", "debug"] = option(
        "How much is said.", "-v", metavar="LEVEL", default="info"
    )
    quiet: bool = option("Shortcut for --verbosity quiet.", "-q")
    sg_log: tuple[str, ...] = option("Ignored: there is no SimGrid.", metavar="OPTION")
    # Other
    timeout: float | None = option(
        "Give up if a reply takes longer (not one of Batsim's options; default: wait forever).",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
    )


_UNSUPPORTED = {
    "workflow": "-W/--workflow is not supported: workflows are not simulated, make a workload (-w) of them",
    "edc_library_str": "-l is not supported: give a scheduler that listens on a socket, with -s",
    "edc_library_file": "-L is not supported: give a scheduler that listens on a socket, with -S",
    "energy_link": "--energy-link is not supported: the network is not simulated",
    "energy": "--energy is not implemented in Batsim 5.0.0-rc2: give --energy-host",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@with_options(_Batsim5Options)
@click.version_option(
    f"v5.0.0-rc2 (the simulator embedded in beasy-sched {__version__})",
    "--version",
    "--batsim-version",
    message="%(version)s",
    help="Show the version, and stop.",
)
def batsim5(given: _Batsim5Options) -> None:
    """Simulate a platform for a scheduler over ZeroMQ, as Batsim 5.0.0-rc2 does.

    Files and messages (JSON) are those of Batsim 5; 'beasy-sched convert' makes its files of Batsim 4's. The
    network, MPI replay and storage are not simulated. Of the probes, those are that read the energy of all
    hosts together. Start the scheduler first, or within --timeout.

    \b
    beasy-sched batsim --protocol 5 -p platform.xml -w workload5.json -e out/run_ --energy-host \\
        --external-events power5.txt -s tcp://localhost:28000 ''
    """
    for name, reason in _UNSUPPORTED.items():
        if getattr(given, name):
            raise ConfigError(reason)
    endpoint, init = _scheduler(given)
    quiet = given.quiet or given.verbosity == "quiet"
    _simulate(given, endpoint, init, lambda text: None if quiet else click.echo(text, err=True), quiet)


def _scheduler(given: _Batsim5Options) -> tuple[str, bytes]:
    """Return where the scheduler listens, and the text for it."""
    if given.edc_socket_str is not None and given.edc_socket_file is not None:
        raise ConfigError("give -s or -S, not both: one scheduler is simulated for")
    if given.edc_socket_file is not None:
        endpoint, path = given.edc_socket_file
        return endpoint, read_bytes(path)
    endpoint, text = given.edc_socket_str or (_ENDPOINT, "")
    return endpoint, text.encode()


def _simulate(
    given: _Batsim5Options, endpoint: str, init: bytes, say: Callable[[str], None], quiet: bool
) -> None:
    from beasy_sched.simulator import Inputs, SimulationOptions
    from beasy_sched.simulator.batsim5 import batsim5_from_files
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

    def ready() -> Simulation:
        simulation = batsim5_from_files(
            inputs,
            SimulationOptions(energy=given.energy_host),
            given.export,
            machine_states=given.trace_machine_state,
            pstates=given.trace_pstate_changes,
            arguments=sys.argv,
            context=json.dumps(context),
            note=lambda text: say(f"note: {text}"),
        )
        try:
            simulation.greet(scheduler.greet(init).features)
        except BaseException:
            simulation.discard()
            raise
        return simulation

    simulate(ready, scheduler, quiet, say)
