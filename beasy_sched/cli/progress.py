"""Progress of a command: bars on a terminal, a line every 10 s elsewhere; and the options for it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import click

from beasy_sched.cli.options import CommandOptions, option, print_line

LINE_EVERY_S: Final = 10.0
"""Time between two lines if stderr is not a terminal."""


def _time_it(context: click.Context, _: click.Parameter, wanted: bool) -> bool:
    """Let the command print its duration at its end, if requested."""
    if wanted and not context.resilient_parsing:
        began_s = time.monotonic()
        context.call_on_close(lambda: print_line(f"took {time.monotonic() - began_s:.2f} s"))
    return wanted


class ProgressOptions(CommandOptions):
    """Options of every command that shows progress (besides --traceback, which all commands have)."""

    quiet: bool = option("No progress, no summary.", "-q")
    verbose: bool = option("Also print the duration of the command.", "-v", callback=_time_it)


class ProgressLines(AbstractContextManager["ProgressLines"]):
    """Printer of a progress line every `LINE_EVERY_S` on stderr while the block runs."""

    def __init__(
        self,
        where: Callable[[], str],
        *,
        now_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """``where`` returns the line, in a separate thread; ``wait`` takes seconds and is true at the end."""
        self._where, self._now_s = where, now_s
        self._ended = threading.Event()
        self._wait = self._ended.wait if wait is None else wait
        self._thread = threading.Thread(target=self.print_all, daemon=True)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def print_all(self) -> None:
        """Print lines until the end, or until nobody can read them."""
        began_s = self._now_s()
        while not self._wait(LINE_EVERY_S):
            try:
                print_line(f"{self._where()}, after {self._now_s() - began_s:.0f} s")
            except (OSError, ValueError):
                return


class Bars(AbstractContextManager["Bars"]):
    """Bars on stderr while the block runs; if that is not a terminal, a line every 10 s."""

    def __init__(self, *columns: Any, where: Callable[[], str], quiet: bool = False) -> None:
        """``columns`` are those of `rich.progress.Progress`, and ``where`` returns the same in words."""
        from rich.console import Console
        from rich.progress import Progress

        shown = not quiet and sys.stderr.isatty()
        self.rich = Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown)
        self._lines: AbstractContextManager[Any] = nullcontext() if quiet or shown else ProgressLines(where)
        self._quiet = quiet

    def __enter__(self) -> Bars:
        self.rich.start()
        self._lines.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__(None, None, None)
        self.rich.stop()

    def say(self, text: str) -> None:
        """Print a permanent line above the bars; none if the command is quiet."""
        if not self._quiet:
            self.rich.console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def counting(report: Callable[[float], None] | None) -> Callable[[int, int], None] | None:
    """Return a callback that takes the numbers done and in total, for a bar that takes the share."""
    return None if report is None else lambda done, total: report(done / total if total else 0.0)


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """Show one bar, or its lines, while the block runs.

    Yields a callback for the share that is done, 0 to 1; None if the command is quiet.
    """
    if quiet:
        yield None
        return
    share = 0.0

    def where() -> str:
        return f"{title}: {share:.0%}"

    def note(done: float) -> None:
        nonlocal share
        share = done

    if not sys.stderr.isatty():
        with ProgressLines(where):
            yield note
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, where=where) as bars:
        task = bars.rich.add_task(title, total=1.0)
        yield lambda done: bars.rich.update(task, completed=done)
