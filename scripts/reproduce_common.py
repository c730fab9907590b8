"""What the reproductions of the papers have in common: options, progress, and how results are presented."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from console import ENVIRONMENT, cores, count, exit_code_of, tell, width, writable

from beasy_sched.campaign.campaign import Progress
from beasy_sched.cli.run_options import progress_bar
from beasy_sched.reproduction.figures import Figures, write_figures
from beasy_sched.reproduction.text_table import TextTable, markdown_of, write_markdown

STOPPED = "stopped; the runs that have ended are kept, the same command goes on"

__all__ = ["STOPPED", "count", "counted", "exit_code_of", "parser_of", "present", "tell"]


def parser_of(name: str, description: str, *, quick: str, out: str, markdown: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all reproductions."""
    parser = argparse.ArgumentParser(
        prog=f"scripts/reproduce_{name}", description=description, epilog=ENVIRONMENT
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"try it out: {quick}")
    add("--out", type=Path, metavar="DIR", help=f"where to write, or to go on (default: {out})")
    add("--jobs", type=count(1), default=cores(), metavar="N", help="runs at a time (default: one a core)")
    add("--markdown", type=writable, metavar="FILE", help=f"write the tables to FILE, in Markdown{markdown}")
    return parser


@contextlib.contextmanager
def counted(title: str) -> Iterator[Progress | None]:
    """Show how many runs have ended, in a bar where there is a terminal."""
    with progress_bar(title) as report:
        yield None if report is None else lambda done, total: report(done / total)


def present(
    chosen: argparse.Namespace,
    name: str,
    tables: Iterable[TextTable],
    origin: str,
    figures: Figures,
    *,
    columns: int,
    notes: Iterable[str] = (),
) -> None:
    """Print tables and where the numbers come from, draw the figures, write the tables in Markdown."""
    tables = [table for table in tables if table.rows]
    for table in tables:
        table.print(width(columns))
    print(origin)
    written = write_figures(figures, chosen.out / "figures")
    tell(f"{len(written) // 2} figures (PDF and PNG) in {chosen.out / 'figures'}")
    for note in notes:
        tell(note)
    if chosen.markdown:
        write_markdown(chosen.markdown, name, f"{origin}\n\n{markdown_of(tables)}")
        tell(f"tables in Markdown: {chosen.markdown}")
