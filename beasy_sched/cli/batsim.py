"""``beasy-sched batsim``: stands where the ``batsim`` binary stands, with its option names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from beasy_sched._version import __version__
from beasy_sched.cli.batsim_options import batsim_options, execution_context, refuse_unsupported, role_map
from beasy_sched.errors import ConfigError, DecisionRefused, Interrupted, RunIncomplete

_DEADLOCK = "Deadlock detected: nothing is left to happen, but {why}"


def _told(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option that prints ``text`` and stops."""

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            click.echo(text)
            context.exit()

    return click.option(
        name,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the version, and stop.",
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@batsim_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up when a reply takes longer (not an option of Batsim's; default: wait for ever).",
)
@_told("--simgrid-version", "3.34.0 (whose behaviour is reproduced; SimGrid itself is not used)")
@_told("--version", f"v4.2.1 (the simulator embedded in beasy-sched {__version__})")
def batsim(timeout: float | None, **given: Any) -> None:
    """Simulate a platform for a scheduler over ZeroMQ, as Batsim 4.2.1 does.

    Files and messages are Batsim's; a deadlock ends with exit code 1. The network, MPI replay and storage
    are not simulated (profiles that need them are refused by name). Start the scheduler first, or within
    --timeout.

    \b
    beasy-sched batsim -p platform.xml -w workload.json -e out/run -E \\
        --events power.txt --forward-unknown-events -s tcp://localhost:28000
    """
    refuse_unsupported(given)
    if given["dump_execution_context"]:
        click.echo(json.dumps(execution_context(given)))
        return
    say: Callable[[str], None] = lambda text: None if given["quiet"] else click.echo(text, err=True)  # noqa: E731
    _simulate(given, timeout, say)


def _simulate(given: dict[str, Any], timeout: float | None, say: Callable[[str], None]) -> None:
    from beasy_sched.cli.progress import progress_bar
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
        role_map(given["add_role_to_hosts"]),
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
        raise RunIncomplete(_DEADLOCK.format(why=why))


def _sched_config(given: dict[str, Any]) -> str:
    if given["sched_cfg"] and given["sched_cfg_file"]:
        raise ConfigError("give --sched-cfg or --sched-cfg-file, not both")
    if given["sched_cfg_file"]:
        try:
            return Path(given["sched_cfg_file"]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"--sched-cfg-file {given['sched_cfg_file']}: cannot be read ({error})"
            ) from None
    return str(given["sched_cfg"] or "")
