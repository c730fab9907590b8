"""Policy and simulator in one process: what `simulate` and the Python interface have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beasy_sched.errors import BeasyError
from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message
from beasy_sched.outputs.files import RunFiles
from beasy_sched.session import Session
from beasy_sched.settings import build_session
from beasy_sched.simulator import Simulation, SimulationOptions, Tracer


@dataclass(frozen=True)
class RunInputs:
    """The simulator's side of a run."""

    platform: Path
    workloads: Sequence[Path]
    events: Sequence[Path] = ()
    master_host: str = "master_host"
    metering: bool = True
    """Batsim's ``-E``: meter energy, allow P-state changes."""

    def simulation(self, prefix: str | None) -> Simulation:
        """Read the files; ``prefix`` is for Batsim's CSV files. Raises InputError."""
        platform = read_simgrid_platform(self.platform, master=self.master_host, energy=self.metering)
        workloads = [read_workload(path, f"w{number}") for number, path in enumerate(self.workloads)]
        events = [e for path in self.events for e in read_external_events(path, forward_unknown=True)]
        options = SimulationOptions(energy=self.metering, forward_unknown_events=bool(self.events))
        tracer = None if prefix is None else Tracer(prefix, energy=self.metering)
        return Simulation(platform, workloads, events if self.events else None, options, tracer)


def run_in_process(
    inputs: RunInputs, files: RunFiles, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Run to the end and return the summary; what there is, is written even when the run fails.

    ``progress`` is told the share of jobs submitted. Raises InputError, ConfigError, and whatever ends
    a run early; the summary then says so.
    """
    session = build_session(files.settings, log=files.log)
    simulation = inputs.simulation(files.prefix)
    error: str | None = "stopped by the user"
    try:
        result = simulation.run(_decide(session, files), progress)
        files.written.extend(result.files)
        session.warnings.extend(result.notes)
        error = None
    except BeasyError as found:
        error = str(found)
        raise
    finally:
        summary = files.finish(session, error)
    return summary


def _decide(session: Session, files: RunFiles) -> Callable[[Message], Reply]:
    """Return the session's step, with every message recorded where a recording is wanted."""
    if files.recording is None:
        return session.step
    from beasy_sched.protocol.batsim4 import encode_message, encode_reply

    add = files.recording.add

    def decide(message: Message) -> Reply:
        reply = session.step(message)
        add(encode_message(message), encode_reply(reply))
        return reply

    return decide
