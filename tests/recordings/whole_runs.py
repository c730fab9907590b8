"""Whole runs of a real Batsim 4.2.1 with the daemon, unpacked and replayed."""

from __future__ import annotations

import base64
import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recordings.replay import Outcome, feed

from beasy_sched.cli.options import RunOptions, settings_of
from beasy_sched.cli.serve import serve
from beasy_sched.engine import Session
from beasy_sched.run.building import build_session
from beasy_sched.simulator import Inputs, SimulationOptions, simulation_from_files

REFITTING = {"keep": "never", "shortage": "by-step"}
OPTIONS_THEN = {
    "beasy": {"shortage": "sleep-first"},
    **dict.fromkeys(("peak", "next", "last", "workload"), REFITTING),
    "power-reactive": {"count": "full"},
}
"""The options of policies that the daemon of that time had no choice about."""
ARCHIVE = Path(__file__).parent / "whole_runs.json.xz"


@dataclass(frozen=True)
class WholeRun:
    name: str
    arguments: tuple[str, ...]
    """Of Batsim."""
    scheduler: tuple[str, ...]
    """``serve`` and its options."""
    files: dict[str, str]
    """Inputs by name; the plan in base 64."""
    exchanges: tuple[tuple[str, str], ...]
    """What Batsim said, and what the daemon answered."""
    csv: dict[str, str]

    def write_inputs(self, folder: Path) -> None:
        """Write the inputs; the daemon of that time followed the plan of the hydrogen to the letter."""
        for name, text in self.files.items():
            if name == "site.toml":
                text = text.replace("[hydrogen]\n", '[hydrogen]\nhold = "never"\n')
            data = base64.b64decode(text) if name.endswith(".msgpack") else text.encode()
            (folder / name).write_bytes(data)


@cache
def _packed() -> dict[str, Any]:
    return json.loads(lzma.decompress(ARCHIVE.read_bytes()))


def names() -> list[str]:
    return sorted(_packed()["runs"])


def whole_run(name: str) -> WholeRun:
    run = _packed()["runs"][name]
    return WholeRun(
        name,
        tuple(run["arguments"]),
        tuple(run["scheduler"]),
        _packed()["inputs"][run["inputs"]],
        tuple((told, reply) for told, reply in run["exchanges"]),
        run["csv"],
    )


def replay_whole_run(run: WholeRun, folder: Path) -> Outcome:
    """Feed the daemon's recorded replies to the simulator; what it writes comes to ``folder``."""
    run.write_inputs(folder)
    events = [folder / "power.txt"] if "--events" in run.arguments else []
    options = SimulationOptions(
        energy="-E" in run.arguments, forward_unknown_events="--forward-unknown-events" in run.arguments
    )
    files = Inputs(folder / "platform.xml", [folder / "workload.json"], events)
    simulation = simulation_from_files(files, options, folder / "out")
    outcome = Outcome()
    feed([reply for _, reply in run.exchanges], simulation, outcome)
    simulation._result(None, 0.0)  # type: ignore[arg-type]
    outcome.csv = {p.stem.removeprefix("out_"): p.read_text() for p in folder.glob("out_*.csv")}
    return outcome


def session_of(run: WholeRun, folder: Path) -> Session:
    """Make the session that the daemon of a run had; its inputs are in ``folder``."""
    own = (
        "socket_endpoint",
        "platform",
        "prefix",
        "decisions",
        "record",
        "timeout",
        "keep_serving",
        "verbosity",
    )
    arguments = [str(folder / a) if a in run.files else a for a in run.scheduler[1:]]
    if "--budget" in run.scheduler:  # there was one rule of reservation then
        arguments += ["--options", '{"reservation": "strict"}']
    policy = run.scheduler[run.scheduler.index("--policy") + 1]
    if policy in OPTIONS_THEN:
        arguments += ["--options", json.dumps(OPTIONS_THEN[policy])]
    given = serve.make_context("serve", arguments).params
    given = {name: value for name, value in given.items() if name not in own}
    return build_session(settings_of(RunOptions(**given)))
