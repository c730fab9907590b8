"""Files that belong together: they replace those of an earlier run at the same time, or none of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from beasy_sched.formats.atomic import PartFile, check_place, joining, remove_old, signals_wait, taking
from beasy_sched.formats.earlier import has_left, has_replaced, will_replace
from beasy_sched.formats.held_folder import HeldFolder


class FileSet:
    """Files of one run. Each is written under a temporary name; `publish` gives all of them their names.

    A run that failed has other names for its files, so that those of an earlier run stay.
    """

    def __init__(self) -> None:
        """Begin without files."""
        self._parts: list[tuple[PartFile, Path]] = []
        self._owned: list[tuple[Path, Path, HeldFolder | None]] = []
        self._further: list[Callable[[bool], Iterable[Path]]] = []

    def own(self, paths: Iterable[tuple[Path, Path]], folder: HeldFolder | None = None) -> None:
        """Take over files of earlier runs, each by its name and by its name for a failed run.

        Those that this run does not write are removed when it gives its own their names. Raises InputError
        where something else than a file has one of the names.
        """
        for path, failed in paths:
            for place in (path, failed):
                check_place(place, folder)
            self._owned.append((path, failed, folder))
            will_replace(path)

    def add(self, part: PartFile, failed: Path | None = None) -> None:
        """Add a file with all its content; ``failed`` is its name if the run fails. Raises InputError.

        A file that raises is discarded.
        """
        try:
            part.complete()
        except BaseException:
            part.discard()
            raise
        self._parts.append((part, failed or part.path))
        will_replace(part.path)

    def at_the_end(self, act: Callable[[bool], Iterable[Path]]) -> None:
        """Have ``act`` called when the files have their names: with whether the run failed.

        It returns what else there is then.
        """
        self._further.append(act)

    def publish(self, *, failed: bool = False) -> list[Path]:
        """Give all files their names, remove what is left of earlier runs, and return the files.

        Raises InputError; where a name cannot be taken, no file has got its name then.
        """
        try:
            for part, otherwise in self._parts:
                part.path = otherwise if failed else part.path
                part.check_place()
            with signals_wait():
                written = [part.take_name() for part, _ in self._parts]
                for path, otherwise, folder in self._owned:
                    self._remove([otherwise] if failed else [path, otherwise], written, folder)
                for act in self._further:
                    written += act(failed)
        finally:
            self.discard()
        if failed:
            has_left(written)
        return written

    def _remove(self, paths: Iterable[Path], written: Iterable[Path], folder: HeldFolder | None) -> None:
        stale = [path for path in paths if path not in written]
        remove_old(stale, folder)
        for path in stale:
            has_replaced(path)

    def hand_over(self) -> bool:
        """Hand the files to the set around this one, if there is one; return whether there is."""
        take = taking()
        if take is None:
            return False
        while self._parts:
            take(self._parts.pop(0)[0])
        return True

    def discard(self) -> None:
        """Remove the files that have not got their names."""
        for part, _ in self._parts:
            part.discard()
        self._parts.clear()
        self._further.clear()


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Give the files that are written in the block their names at its end, all of them or none.

    Within another such block, its end counts. Raises InputError as `FileSet.publish` does.
    """
    files = FileSet()
    try:
        with joining(files.add):
            yield
        if not files.hand_over():
            files.publish()
    finally:
        files.discard()
