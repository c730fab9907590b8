"""What the benchmarks share: the traces, and the table that is printed at the end."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--traces", type=Path, help="folder of real SWF traces")
    parser.addoption("--quick", action="store_true", help="leave out what takes longer than a minute")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "beasy_sched", *map(str, arguments)]


@dataclass(frozen=True)
class Inputs:
    """Generated inputs of one trace."""

    trace: Trace
    platform: Path
    workload: Path
    real: bool


@pytest.fixture(scope="session")
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Make a trace's platform (one host a processor) and workload, once a session."""
    folder = request.config.getoption("--traces")
    made: dict[str, Inputs] = {}

    def make(name: str) -> Inputs:
        trace = TRACES[name]
        if trace.slow and request.config.getoption("--quick"):
            pytest.skip("takes longer than a minute")
        if name not in made:
            there = tmp_path_factory.mktemp(name)
            swf = folder / trace.file if folder else None
            real = swf is not None and swf.exists()
            source = [swf, *trace.options] if real else [
                "--synthetic", "--jobs", trace.jobs, "--seed", 1, "--run-median", 30 * 60]  # fmt: skip
            platform, workload = there / "platform.xml", there / "workload.json"
            servers = f"taurus:{trace.hosts}"
            subprocess.run(
                command("generate", "platform", "-n", servers, "--one-pstate", "-q", "-o", platform),
                check=True,
            )
            subprocess.run(
                command("generate", "workload", *source, "--hosts", trace.hosts, "-q",
                        "--platform-preset", "taurus", "-o", workload),
                check=True,
            )  # fmt: skip
            made[name] = Inputs(trace, platform, workload, real)
        return made[name]

    return make


ROWS: list[tuple[str, ...]] = []
"""Rows of the closing table: (what, ours, peer, ratio, remark)."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    head = ("what", "ours", "peer", "ratio", "remark")
    widths = [max(len(row[i]) for row in (head, *ROWS)) for i in range(len(head))]
    terminalreporter.write_line("")
    for row in (head, *ROWS):
        terminalreporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        )
