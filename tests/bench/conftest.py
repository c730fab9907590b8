"""The traces' inputs, and the table that is printed at the end."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from bench.days import make_days
from bench.traces import ROWS, TRACES, Inputs, command
from studies.command_line import stamp

from beasy_sched.formats.atomic import write_atomic

HEAD = ("what", "ours", "peer", "ratio", "remark")
SECTIONS: dict[str, list[tuple[str, ...]]] = {}
"""Rows by what their module measures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--traces", type=Path, help="folder of real SWF traces")
    parser.addoption("--release", type=Path, help="wheel of the release to compare with")
    parser.addoption("--page", type=Path, help="file for the table, in Markdown")
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


@pytest.fixture(autouse=True)
def section(request: pytest.FixtureRequest) -> Iterator[None]:
    """Count the rows that come from each module, so that the page has a table for each."""
    before = len(ROWS)
    yield
    SECTIONS.setdefault(request.module.__doc__.splitlines()[0], []).extend(ROWS[before:])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    widths = [max(len(row[i]) for row in (HEAD, *ROWS)) for i in range(len(HEAD))]
    terminalreporter.write_line("")
    for row in (HEAD, *ROWS):
        terminalreporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        )
    if (path := terminalreporter.config.getoption("--page")) is not None:
        write_atomic(path, page())
        terminalreporter.write_line(str(path))


def page() -> str:
    """Return the tables in Markdown, with a stamp."""
    lines = ["# Performance, measured", "", f"- {stamp(shlex.join(['scripts/bench', *sys.argv[1:]]))}", "",
             "Times and the largest resident memory are of whole processes, unless a row has something else;"
             " a ratio is the peer's time divided by ours."]  # fmt: skip
    for title, rows in SECTIONS.items():
        if not rows:  # all skipped
            continue
        lines += ["", title, "", markdown_row(HEAD), "| --- " * len(HEAD) + "|", *map(markdown_row, rows)]
    return "\n".join([*lines, ""])


def markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
