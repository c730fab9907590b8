"""Messages of a real Batsim 5 beside the project, where they are: read in place, never copied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "batsim5-recordings"
needs_recordings = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no recordings of Batsim 5 beside the project (../shared/batsim5-recordings)"
)
"""Mark of tests that need them."""


@dataclass(frozen=True)
class Recorded:
    """One recorded run: raw frames, by sender, in their order."""

    name: str
    frames: tuple[tuple[str, bytes], ...]
    """``batsim`` or ``scheduler``, and what it sent; the first two are the handshake."""
    exit_code: int | None
    errors: tuple[str, ...]

    def of(self, sender: str) -> Iterator[bytes]:
        """Return the messages of one side, after the handshake."""
        return (raw for who, raw in self.frames[2:] if who == sender)


@cache
def recorded(folder: str = "rc2") -> dict[str, Recorded]:
    return {path.name: _read(path) for path in sorted((FOLDER / folder).glob("*")) if path.is_dir()}


def _read(path: Path) -> Recorded:
    lines = [json.loads(line) for line in (path / "messages.jsonl").read_text().splitlines()]
    frames = [line for line in lines if "dir" in line]
    result = path / "run.json"
    run = json.loads(result.read_text()) if result.exists() else {"rc": None, "err": []}
    return Recorded(
        path.name,
        tuple(
            # handshakes begin with binary numbers, which are kept as characters
            (
                "batsim" if frame["dir"] == "B>S" else "scheduler",
                frame["raw"].encode("latin-1" if n < 2 else "utf-8"),
            )
            for n, frame in enumerate(frames)
        ),
        run["rc"],
        tuple(run["err"]),
    )


def golden() -> dict[str, bytes]:
    return {
        path.stem.removeprefix("example_"): path.read_bytes()
        for path in sorted((FOLDER / "golden").glob("*.json"))
    }


def value_of(raw: bytes) -> Any:
    """The JSON value of a message, where different ways to write the same are made alike."""
    value = json.loads(raw.removesuffix(b"\0"))
    for event in value["events"]:
        if event["event_type"] == "ExecuteJobEvent":
            for name in ("profile_allocation_override", "storage_placement"):  # may be left out where empty
                event["event"].setdefault(name, [])
            placement = event["event"]["allocation"]
            if placement["executor_placement_type"].startswith("Predefined"):
                placement["executor_placement"].setdefault("strategy", "SpreadOverHostsFirst")
        if event["event_type"] == "RegisterJobEvent":
            event["event"]["job"] = {"extra_data": "", "rigid": True, **event["event"]["job"]}
    return _alike(value)


def _alike(value: Any) -> Any:
    if isinstance(value, list):
        return [_alike(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _alike(item) for name, item in value.items()}
    for name in {"host_allocation", "host_ids"} & set(found):
        found[name] = _hosts(found[name])
    if found.get("walltime") == -1.0:
        found["walltime"] = None
    if found.get("time_unit") == "Second":
        for name in {"time", "period", "offset"} & set(found):
            found[name] *= 1000
        found["time_unit"] = "Millisecond"
    if "data" in found and isinstance(found["data"], str) and found["data"].startswith("{"):
        found["data"] = json.loads(found["data"])
    return found


def _hosts(text: str) -> set[int]:
    bounds = [[int(end) for end in part.split("-")] for part in text.replace(",", " ").split()]
    return {host for part in bounds for host in range(part[0], part[-1] + 1)}
