"""What a recording contains, for tests."""

from __future__ import annotations

from pathlib import Path

from beasy_sched.outputs.recording import open_recording


def exchanges_in(path: Path) -> list[tuple[bytes, bytes]]:
    """Every message and its reply."""
    with open_recording(path) as recording:
        return list(recording.exchanges())
