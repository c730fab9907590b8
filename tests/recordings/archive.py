"""The recorded runs of a real Batsim 4.2.1, unpacked, and the simulator's inputs made of them."""

from __future__ import annotations

import json
import lzma
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.simulator import SimulationOptions

SMALL, LATENCY = "recordings", "latency"
"""Archives: small runs without latency, mostly; runs on Batsim's own platforms, which have latency."""


@dataclass(frozen=True)
class Recording:
    name: str
    platform_name: str
    platform: str
    arguments: tuple[str, ...]
    exit_code: int
    errors: tuple[str, ...]
    workload: str
    events: str | None
    messages: tuple[tuple[str, str], ...]
    clocks_s: tuple[float, ...]
    """Batsim's clock at each of its messages, in full digits; nothing where that is unknown."""
    csv: dict[str, str]

    @property
    def deadlock(self) -> bool:
        return any("Deadlock detected" in line for line in self.errors)

    @property
    def aborted(self) -> bool:
        return self.exit_code != 0


@cache
def recordings(archive: str = SMALL) -> dict[str, Recording]:
    packed = Path(__file__).parent / f"{archive}.json.xz"
    data = json.loads(lzma.decompress(packed.read_bytes()))
    return {
        name: Recording(
            name,
            run["platform"] if run["platform"] in data["platforms"] else "its own",
            data["platforms"].get(run["platform"], run["platform"]),
            tuple(run["arguments"]),
            run["exit_code"],
            tuple(run["errors"]),
            run["workload"],
            run["events"],
            tuple((who, raw) for who, raw in run["messages"]),
            tuple(run.get("clocks_s", ())),
            run["csv"],
        )
        for name, run in data["runs"].items()
    }


def options(recording: Recording) -> SimulationOptions:
    given = recording.arguments
    config = given[given.index("--sched-cfg") + 1] if "--sched-cfg" in given else ""
    return SimulationOptions(
        energy="-E" in given,
        forward_profiles="--forward-profiles-on-submission" in given,
        dynamic_jobs="--enable-dynamic-jobs" in given,
        acknowledge_dynamic_jobs="--acknowledge-dynamic-jobs" in given,
        compute_sharing="--enable-compute-sharing" in given,
        forward_unknown_events="--forward-unknown-events" in given,
        sched_config=config,
    )


def inputs(recording: Recording):
    """Read platform, workload and events through the real readers. Raises InputError."""
    given = recording.arguments
    limit = int(given[given.index("--mmax") + 1]) if "--mmax" in given else 0
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        (files / "platform.xml").write_text(recording.platform)
        (files / "workload.json").write_text(recording.workload)
        platform = read_simgrid_platform(files / "platform.xml", limit=limit, energy="-E" in given)
        workload = read_workload(files / "workload.json")
        workload.path = "workload.json"
        events = []
        if recording.events is not None:
            (files / "events.txt").write_text(recording.events, newline="")
            forward_unknown = "--forward-unknown-events" in given
            events.append(read_external_events(files / "events.txt", forward_unknown=forward_unknown))
    return platform, [workload], events
