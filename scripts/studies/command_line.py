"""Shared by the studies: options, progress, the presentation of results, and their page of tables."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from console import ENVIRONMENT, count

from beasy_sched._version import __version__
from beasy_sched.cli.options import print_line, width
from beasy_sched.cli.progress import progress_bar
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.plugins.campaigns.campaign import Progress
from beasy_sched.plugins.campaigns.text_tables import TextTable, markdown_of
from beasy_sched.plugins.campaigns.workers import processors
from studies.comparison.study import TUNING_BELOW, Extent
from studies.figures import Figures, write_figures

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = re.compile(r"(?<![\w.])(?:\.{0,2}/)(?:[^\s/\"',=]+/)*(?=[^\s/\"',=]+\.\w)")
"""Folders of a file in an argument, which may have several."""
STOPPED = "stopped; completed runs are kept, and the same command continues"


def parser_of(
    name: str, description: str, *, quick: str, out: str, prog: str = ""
) -> argparse.ArgumentParser:
    """Return a parser with the options of all studies; ``prog`` names one that is not a reproduction."""
    parser = argparse.ArgumentParser(
        prog=f"scripts/{prog or f'reproduce_{name}'}", description=description, epilog=ENVIRONMENT
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"a trial run: {quick}")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"output folder; an interrupted study continues there (default: {out})",
    )
    add(
        "--jobs",
        type=count(1),
        default=processors(),
        metavar="N",
        help="number of concurrent runs (default: one per core)",
    )
    return parser


def read_arguments(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    chosen: argparse.Namespace | None = None,
) -> argparse.Namespace:
    """Return what a command line chooses, and itself as ``command``. Exits with code 2 if it is invalid."""
    chosen = parser.parse_args(arguments, chosen)
    chosen.command = shlex.join([parser.prog, *stated(arguments)])
    return chosen


def stated(arguments: Iterable[str]) -> Iterator[str]:
    """Return the arguments that decide the results, with names of files without their folders."""
    left = iter(arguments)
    for argument in left:
        if argument in ("--out", "--jobs"):
            next(left, None)
        elif not argument.startswith(("--out=", "--jobs=")):
            yield FOLDERS.sub("", argument)


@contextlib.contextmanager
def run_progress(title: str) -> Iterator[Progress | None]:
    """Show the number of completed runs in a progress bar, on a terminal only."""
    with progress_bar(title) as report:
        yield None if report is None else lambda done, total: report(done / total)


def present(
    chosen: argparse.Namespace,
    title: str,
    tables: Iterable[TextTable],
    origin: str,
    figures: Figures,
    *,
    columns: int,
    notes: Iterable[str] = (),
    page: str = "tables.md",
) -> None:
    """Print the tables and the origin of the numbers, draw the figures, write ``page`` into the folder."""
    tables = [table for table in tables if table.rows]
    for table in tables:
        table.print(width(columns))
    origin = f"{origin}\n{stamp(chosen.command)}"
    print(origin)
    written = write_figures(figures, chosen.out / "figures")
    print_line(f"{len(written) // 2} figures (PDF and PNG) in {chosen.out / 'figures'}")
    for note in notes:
        print_line(note)
    write_atomic(chosen.out / page, page_of(title, origin, tables, written))
    print_line(f"all tables: {chosen.out / page}")


def page_of(title: str, origin: str, tables: Iterable[TextTable], figures: Iterable[Path]) -> str:
    """Return a page in Markdown: the source of the numbers, the tables, and links to the figures."""
    items = "\n".join(f"- {line}" for line in origin.splitlines())
    pictures = [f"![{path.stem}](figures/{path.name})\n" for path in figures if path.suffix == ".png"]
    parts = [f"# {title}\n", f"{items}\n", "## Tables\n", markdown_of(tables)]
    return "\n".join([*parts, *(["## Figures\n", *pictures] if pictures else [])])


def stamp(command: str) -> str:
    """Return the line with the command, date, version and machine of the results."""
    return f"Written by `{command}` on {datetime.now(timezone.utc):%Y-%m-%d}; {program()}."


def cautions(extent: Extent, trial: str) -> list[str]:
    """Return warnings about the validity of the results; ``trial`` names a small evaluation."""
    lines = []
    if min(extent.seeds.start, extent.days.start) < TUNING_BELOW:
        lines.append(
            f"Seeds below {TUNING_BELOW} may have been used to tune policies: results are not independent."
        )
    if extent.small:
        lines.append(f"{trial}: one day, one noise seed. It is not conclusive.")
    return lines


def span(some: range) -> str:
    """Return the first and last of ``some`` seeds in words."""
    return f"{some.start} to {some.stop - 1}" if len(some) > 1 else str(some.start)


def program() -> str:
    """Return the versions of what computed the results, and the machine."""
    versions = (
        f"beasy-sched {__version__}{commit()}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    return f"{versions}; {processor()}, {os.cpu_count()} cores"


def commit() -> str:
    """Return the commit of the checkout, if there is one, and whether other files than results differ."""
    try:
        name = _git("describe", "--always")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({name}-dirty)" if changed else f" ({name})"


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
