"""A progress bar for reading a large file: only on a terminal, on the standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Final

_LARGE_BYTES: Final = 1_000_000


@contextlib.contextmanager
def reading_progress(path: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], object] | None]:
    """Give a function that takes (bytes read, bytes in all), or None where no bar should be shown."""
    large = os.path.isfile(path) and os.path.getsize(path) >= _LARGE_BYTES
    if quiet or not large or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"Reading {os.path.basename(path)}")
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
