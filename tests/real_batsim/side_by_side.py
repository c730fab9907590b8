"""One run of a real Batsim, and the same run of the embedded simulator: what differs.

The scheduler decides for the real Batsim; its replies are then given to the simulator, which has to send the
same messages and write the same files.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from recordings.replay import Outcome, compare_csv, compare_messages, feed

from beasy_sched.errors import BeasyError
from beasy_sched.model.decisions import Reply
from beasy_sched.model.events import Message, SimulationEnds
from beasy_sched.protocol.batsim4 import decode_message, encode_reply
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

_LONGEST_S = 300.0
_FLAGS = {
    "energy": "-E",
    "dynamic_jobs": "--enable-dynamic-jobs",
    "acknowledge_dynamic_jobs": "--acknowledge-dynamic-jobs",
    "profile_reuse": "--enable-profile-reuse",
    "forward_profiles": "--forward-profiles-on-submission",
    "compute_sharing": "--enable-compute-sharing",
    "forward_unknown_events": "--forward-unknown-events",
}

Decide = Callable[[Message], Reply]


@dataclass
class RealRun:
    """What a real Batsim said, and what it left."""

    messages: list[bytes] = field(default_factory=list)
    replies: list[bytes] = field(default_factory=list)
    csv: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    error: str = ""
    """Batsim's reason, where it has aborted; or the scheduler's, where that has failed."""


def run_batsim(
    program: Path, inputs: Inputs, options: SimulationOptions, decide: Decide, folder: Path
) -> RealRun:
    """Run Batsim with a scheduler in this process; its files are written to ``folder``."""
    run = RealRun()
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        process = subprocess.Popen(
            [program, "-s", f"tcp://localhost:{port}", *arguments(inputs, options), "-e", folder / "real"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        late = threading.Timer(_LONGEST_S, process.kill)
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
        said: list[bytes] = []
        late.start()
        reader.start()
        try:
            _serve(socket, process, decide, run)
            run.exit_code = process.wait()
        finally:
            late.cancel()
            process.kill()
            process.wait()
            reader.join()
    critical = [line for line in said[0].decode(errors="replace").splitlines() if "CRITICAL" in line]
    run.error = run.error or "".join(critical[:1])
    run.csv = {path.stem.removeprefix("real_"): path.read_text() for path in folder.glob("real_*.csv")}
    return run


def _serve(socket: zmq.Socket[bytes], process: subprocess.Popen[bytes], decide: Decide, run: RealRun) -> None:
    while process.poll() is None:
        if not socket.poll(100):
            continue
        raw = socket.recv()
        message = decode_message(raw)
        run.messages.append(raw)
        try:
            reply = encode_reply(decide(message))
        except BeasyError as error:
            run.error = f"the scheduler: {error}"
            return
        run.replies.append(reply)
        socket.send(reply)
        if isinstance(message.events[-1], SimulationEnds):
            return


def arguments(inputs: Inputs, options: SimulationOptions) -> list[str | Path]:
    """Return Batsim's arguments for these inputs, without where it connects and writes."""
    flags = [flag for name, flag in _FLAGS.items() if getattr(options, name)]
    workloads = [part for path in inputs.workloads for part in ("-w", path)]
    events = [part for path in inputs.events for part in ("--events", path)]
    roles = [part for name, role in inputs.roles.items() for part in ("-r", f"{name}:{role}")]
    return ["-q", "-p", inputs.platform, "-m", inputs.master, *workloads, *events, *roles, *flags]  # type: ignore[list-item]


def replay(run: RealRun, inputs: Inputs, options: SimulationOptions, folder: Path) -> Outcome:
    """Give the recorded replies to the embedded simulator."""
    outcome = Outcome()
    simulation = simulation_from_files(inputs, options, folder / "ours")
    try:
        feed([reply.decode() for reply in run.replies], simulation, outcome)
    except BeasyError as error:
        outcome.refusal = str(error)
    simulation._result(None, 0.0)  # type: ignore[arg-type]
    outcome.csv = {p.stem.removeprefix("ours_"): p.read_text() for p in folder.glob("ours_*.csv")}
    return outcome


def differences(run: RealRun, outcome: Outcome) -> list[str]:
    """Return what differs between a real run and the simulator's: messages, files, or how they end."""
    recorded = [decode_message(raw) for raw in run.messages]
    faults = compare_messages(outcome.told[1:], recorded[1:])
    if bool(run.exit_code) != bool(outcome.refusal):
        faults.append(
            f"Batsim ended with {run.exit_code} {run.error!r}, the simulator with {outcome.refusal!r}"
        )
    if not run.exit_code and not outcome.refusal:
        if run.csv.keys() != outcome.csv.keys():
            faults.append(f"Batsim wrote {sorted(run.csv)}, the simulator {sorted(outcome.csv)}")
        for kind in sorted(run.csv.keys() & outcome.csv.keys()):
            faults += compare_csv(kind, *(_settled(kind, texts[kind]) for texts in (outcome.csv, run.csv)))
    return faults


def _settled(kind: str, text: str) -> str:
    """Leave out of machine states what an instant ends otherwise than it is in a row.

    The order of what happens within an instant is not compared (docs/design/conformance.md).
    """
    if kind != "machine_states":
        return text
    last = {line.partition(",")[0]: line for line in text.splitlines()}
    return "\n".join(last.values()) + "\n"


def compare_run(
    program: Path, inputs: Inputs, options: SimulationOptions, decide: Decide, folder: Path
) -> tuple[RealRun, list[str]]:
    """Run both, with their files in ``folder``; return the real run, and what differs."""
    real = run_batsim(program, inputs, options, decide, folder)
    return real, differences(real, replay(real, inputs, options, folder))
