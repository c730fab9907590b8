"""What the benchmarks share: the traces, and the rows of the closing table."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trace:
    """A trace, and what a real Batsim 4.2.1 with its fastest C++ scheduler took on such a machine."""

    name: str
    file: str
    hosts: int
    jobs: int
    batsim_s: float | None = None
    slow: bool = False
    options: tuple[object, ...] = ()
    """For the conversion of the trace."""


TRACES = {
    trace.name: trace
    for trace in (
        Trace("sdscblue", "sdscblue_1w_61845732.swf", 1152, 2635, 2.8),
        Trace("metacentrum", "metacentrum_1w_1367276567.swf", 3356, 6902, 15.4),
        Trace("metacentrum-queue", "metacentrum_1w_1362000000.swf", 3356, 31934),
        Trace("kth-sp2", "KTH-SP2-1996-2.swf", 100, 28481, 15.9),
        Trace("ricc", "RICC-2010-2.swf.gz", 8192, 447794, slow=True, options=("--zero-run-time", 1)),
    )
}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "beasy_sched", *map(str, arguments)]


@dataclass(frozen=True)
class Inputs:
    """Generated inputs of one trace."""

    trace: Trace
    platform: Path
    workload: Path
    real: bool


ROWS: list[tuple[str, ...]] = []
"""Rows of the closing table: (what, ours, peer, ratio, remark)."""
