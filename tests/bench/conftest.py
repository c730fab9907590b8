"""The traces' inputs, and the table that is printed at the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench.days import make_days
from bench.traces import ROWS, TRACES, Inputs, command


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--traces", type=Path, help="folder of real SWF traces")
    parser.addoption("--release", type=Path, help="wheel of the release to compare with")
    parser.addoption("--quick", action="store_true", help="leave out what takes longer than a minute")


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


@pytest.fixture(scope="session")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Make three days of a site; return what `simulate` is told of them."""
    return make_days(tmp_path_factory.mktemp("days"))


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
