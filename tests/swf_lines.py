"""Small traces for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from beasy_sched.formats.swf import FIELDS_A_ROW


def write_trace(path: Path, jobs: Iterable[tuple[float, float, int, float]], header: str) -> Path:
    """Write an SWF trace; jobs are (submission, run time, processors, requested time)."""
    lines = [header]
    for number, (submit_s, run_s, processors, requested_s) in enumerate(jobs, 1):
        fields = {1: number, 2: submit_s, 3: 0, 4: run_s, 5: processors, 8: processors, 9: requested_s, 11: 1}
        lines.append(" ".join(str(fields.get(i, -1)) for i in range(1, FIELDS_A_ROW + 1)))
    path.write_text("\n".join(lines) + "\n")
    return path
