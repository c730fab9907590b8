"""Tables of text, for a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """Table with a title, a header and rows of strings; columns named in ``numbers`` are right-aligned."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: tuple[str, ...] = ()
    note: str = ""

    def markdown(self) -> str:
        """Return the table in Markdown, under its title."""
        line = ["---:" if name in self.numbers else "---" for name in self.head]
        rows = [_markdown_row(self.head), _markdown_row(line), *map(_markdown_row, self.rows)]
        note = f"\n{self.note}\n" if self.note else ""
        return f"### {self.title}\n{note}\n" + "\n".join(rows) + "\n"

    def print(self, width: int) -> None:
        """Print the table, cells wrapped to ``width`` columns."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(title=self.title, title_justify="left", caption=self.note or None, box=box.SIMPLE_HEAD)
        table.caption_justify = "left"
        for name in self.head:
            table.add_column(name, justify="right" if name in self.numbers else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        Console(width=width, highlight=False, markup=False, color_system=None).print(table)


def markdown_of(tables: Iterable[TextTable]) -> str:
    """Return several tables, one below the other."""
    return "\n".join(table.markdown() for table in tables)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(escaped)} |"
