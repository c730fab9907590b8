"""Whole files or none: what is written appears under its name only when it is complete.

Until then it is next to that name as ``.NAME.part`` (``.NAME.1.part`` where several write the same file),
locked for as long as its writer lives: that is how leftovers of a killed process are recognized; the next
writer of the file removes them. Files of a `FileSet` get their names together.

A link in the place of a file is replaced, never followed; a pipe, a device, a socket or a folder there is an
error. Names in /dev and /proc, such as /dev/stdout, are written directly. A file gets its name in the folder
in which it was begun, whatever has taken that folder's name since. Functions that are given a ``folder`` work
in it, and of a path only the name counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from beasy_sched.errors import InputError, PathLike
from beasy_sched.formats.earlier import has_replaced, will_replace
from beasy_sched.formats.held_folder import HeldFolder, kind_of
from beasy_sched.signals import ENDING_SIGNALS

Content = str | bytes

_MOST_WRITERS = 100
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_OLD_FILE = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomic(
    path: PathLike, content: Content | Iterable[Content], folder: HeldFolder | None = None
) -> None:
    """Write ``content`` (one text or many pieces; text as UTF-8) to ``path`` atomically.

    Raises InputError, naming ``path``, where it cannot be written. A piece that fails to be made
    leaves an older file as it was.
    """
    with PartFile(path, folder=folder) as file:
        for piece in [content] if isinstance(content, (str, bytes)) else content:
            file.write(piece)


def write_inside(outer: PathLike, place: str, content: Content | Iterable[Content]) -> None:
    """Write ``content`` as `write_atomic` does to ``outer/place``; folders within are made where missing.

    Links to folders are followed up to ``outer``, which is the user's, not within it. Raises InputError.
    """
    *names, name = place.split("/")
    with contextlib.ExitStack() as held:
        folder = held.enter_context(hold_folder(outer))
        for each in names:
            folder = held.enter_context(folder.inner(each))
        write_atomic(folder.path / name, content, folder)


class PartFile:
    """A file that is written bit by bit, and gets its name when it is finished.

    Either `finish` or `discard` must be called in the end; as a context manager it does so itself.
    """

    def __init__(self, path: PathLike, *, alone: bool = False, folder: HeldFolder | None = None) -> None:
        """Open the file under a temporary name. Raises InputError where that cannot be.

        With ``alone``, not while another process, or another part of this one, writes the same file.
        """
        self.path = Path(path)
        """Name that the file gets; it may be changed to another one in the same folder until then."""
        self._open = True
        self._complete = False
        self._folder: HeldFolder | None = None
        """Folder of the file; None for a device or a pipe that is written directly."""
        self._part = ""
        """Temporary name of the file; empty where there is none, or none any more."""
        with _explained(self.path):
            if _is_written_directly(self.path, folder):
                self._file: BinaryIO = self.path.open("wb")  # may wait for whoever reads the pipe
                return
            with signals_wait():
                self._folder = _folder_of(self.path, folder)
                try:
                    _refuse_what_is_no_file(self.path, self._folder)
                    self._part, self._file = _open_part(self._folder, _name(self.path), alone=alone)
                except BaseException:
                    self._folder.close()
                    raise
                _unfinished[id(self)] = self
        will_replace(self.path)

    def write(self, data: str | bytes | bytearray) -> None:
        """Add ``data``, text as UTF-8. Raises InputError where it cannot be written (a full disk)."""
        content = data.encode() if isinstance(data, str) else data
        with _explained(self.path):
            self._file.write(content)

    def keep(self) -> int:
        """Hand what has been written to the system, so that it outlives this process; return the size, bytes.

        Raises InputError where it cannot be written.
        """
        with _explained(self.path):
            self._file.flush()
            return os.fstat(self._file.fileno()).st_size

    def start_again(self) -> None:
        """Forget what has been written. Raises InputError where that is not possible."""
        with _explained(self.path):
            self._file.seek(0)
            self._file.truncate()

    def complete(self) -> None:
        """Hand all of the file to the system, so that only its name is missing. Raises InputError."""
        if not self._open or self._complete:
            return
        with _explained(self.path):
            self._file.flush()
            if self._folder is None or sys.platform == "win32":  # no open file can be renamed there
                self._file.close()
            else:
                _check_stored(self._file.fileno())
        self._complete = True

    def check_place(self) -> None:
        """Raise InputError where something else than a file has the file's name."""
        if self._open and self._folder is not None:
            check_place(self.path, self._folder)

    def take_name(self) -> Path:
        """Give the complete file its name, and return that. Raises InputError."""
        if self._open and self._folder is not None:
            with _explained(self.path), signals_wait():
                # Renamed while it is locked, so that it is not taken for a leftover.
                self._folder.rename(self._part, _name(self.path))
                self._part = ""
                has_replaced(self.path)
                self.discard()
        elif self._open:
            self.discard()
        return self.path

    def finish(self) -> Path:
        """Give the file its name, and return that; in a set, when the set does. Raises InputError.

        Where that fails, nothing is left of it.
        """
        if not self._open:
            return self.path
        try:
            self.complete()
            if (join := _join.get()) is not None and self._folder is not None:
                join(self)
                return self.path
            self.check_place()
            return self.take_name()
        except BaseException:
            self.discard()
            raise

    def leave(self) -> None:
        """Leave the complete file under its temporary name, as if this process had been killed."""
        if self._open:
            self._close()
            _unfinished.pop(id(self), None)

    def discard(self) -> None:
        """Throw away what has been written, unless the file is finished."""
        if not self._open:
            return
        if not self._part:
            self._close()
        with signals_wait():
            if self._open and self._folder is not None:
                if sys.platform == "win32":
                    self._file.close()
                _remove(self._part, self._folder)
                self._close()
            _unfinished.pop(id(self), None)

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # what is thrown away need not fit on the disk
            self._file.close()
        if self._folder is not None:
            self._folder.close()
        self._open = False

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.discard()


_join: ContextVar[Callable[[PartFile], None] | None] = ContextVar("what takes finished files", default=None)


@contextlib.contextmanager
def joining(take: Callable[[PartFile], None]) -> Iterator[None]:
    """Have ``take`` called with each file that is finished in the block, in place of giving it its name."""
    token = _join.set(take)
    try:
        yield
    finally:
        _join.reset(token)


def taking() -> Callable[[PartFile], None] | None:
    """Return what takes finished files now, if anything does."""
    return _join.get()


@contextlib.contextmanager
def leaving_unnamed() -> Iterator[None]:
    """Leave each file that is finished in the block under its temporary name, for `name_unnamed`."""
    with joining(lambda part: part.leave()):
        yield


def name_unnamed(paths: Iterable[PathLike]) -> None:
    """Give files that another process has left unnamed their names, all or none.

    Raises InputError where one is missing, or something else than a file has its name.
    """
    places = [*map(Path, paths)]
    for place in places:
        check_place(place)
        if leftover(place) is None:
            raise InputError(place, "cannot be written: what was made of it has disappeared")
    with signals_wait():
        for place in places:
            with _explained(place), HeldFolder(place.parent) as held:
                held.rename(_part(_name(place), 0), _name(place))
            has_replaced(place)


def remove_unnamed(paths: Iterable[PathLike]) -> None:
    """Remove what another process has left of files, where it is still there."""
    for place in map(Path, paths):
        with contextlib.suppress(OSError), HeldFolder(place.parent) as held:
            remove_leftover(place, held)


_unfinished: dict[int, PartFile] = {}
"""Files of this process that have neither been finished nor discarded."""


def discard_unfinished() -> None:
    """Discard every file that is still being written: for a program that ends for any reason."""
    for part in [*_unfinished.values()]:
        part.discard()


def hold_folder(path: PathLike) -> HeldFolder:
    """Hold a folder open. Raises InputError where it is missing, or cannot be opened."""
    with _explained(path):
        return HeldFolder(path)


def remove_old(paths: Iterable[PathLike], folder: HeldFolder | None = None) -> None:
    """Remove an earlier run's files, and their leftovers, so that they do not mix with a new one's.

    Of a link, only the link is removed. Raises InputError where one cannot be removed.
    """
    for path in map(Path, paths):
        if _is_written_directly(path, folder):
            continue
        try:
            with HeldFolder(path.parent) if folder is None else contextlib.nullcontext(folder) as held:
                _refuse_what_is_no_file(path, held)
                _remove_dead_from(held, _name(path), 0)
                held.remove(_name(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(
                path, f"cannot be removed, although it is from an earlier run: {error.strerror or error}"
            ) from error


def leftover(path: PathLike, folder: HeldFolder | None = None) -> Path | None:
    """Return what a killed process has left of ``path``; None where there is nothing.

    Raises InputError where the process still lives, and where a link or another thing has that name.
    """
    place = Path(path)
    try:
        held = _folder_of(place, folder)
    except OSError:
        return None
    with held:
        part = place.with_name(_part(_name(place), 0))
        mode = held.mode(part.name)
        if mode is None:
            return None
        with _explained(part):
            if not stat.S_ISREG(mode):
                raise InputError(part, f"is {kind_of(mode)}, expected what a killed run has left: remove it")
            if _is_being_written(part.name, held):
                raise InputError(path, "is still being written: the run has not ended")
    return part


def check_leftover(path: PathLike, size: int, folder: HeldFolder | None = None) -> bool:
    """Whether a killed process has left ``size`` bytes of ``path``; False where there is nothing.

    Raises InputError where the process still lives, or the file is shorter.
    """
    with _explained(path), _folder_of(Path(path), folder) as held:
        left = leftover(path, held)
        if left is not None and held.stat(left.name).st_size < size:
            written = f"the {size} bytes written by the last finished window"
            raise InputError(left, f"is shorter than {written}")
    return left is not None


def rescue(path: PathLike, size: int, name: str, folder: HeldFolder | None = None) -> bool:
    """Give the first ``size`` bytes of what a killed process has left of ``path`` a name, if it is there.

    Raises InputError as `check_leftover` does.
    """
    place = Path(path)
    if not check_leftover(path, size, folder):
        return False
    with _explained(path), _folder_of(place, folder) as held:
        part = _part(_name(place), 0)
        descriptor = held.open(part, _OLD_FILE)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
        held.rename(part, name)
    return True


def remove_leftover(path: PathLike, folder: HeldFolder) -> None:
    """Remove what a killed process has left of a file."""
    _remove_dead_from(folder, _name(Path(path)), 0)


def remove_if_dead(part: PathLike, folder: HeldFolder | None = None) -> None:
    """Remove a temporary file, unless its writer still lives."""
    place = Path(part)
    with contextlib.suppress(OSError), _folder_of(place, folder) as held:
        if sys.platform == "win32":
            held.remove(place.name)  # refused where it is open
            return
        descriptor = held.open(place.name, _OLD_FILE)  # there may be none; a link is nothing of ours
        try:
            status = os.fstat(descriptor)
            # Only who has the lock removes or renames a part: what has its name now is what is locked.
            ours = stat.S_ISREG(status.st_mode) and _lock(descriptor)
            if ours and os.path.samestat(status, held.stat(place.name)):
                held.remove(place.name)
        finally:
            os.close(descriptor)


def _is_written_directly(path: Path, folder: HeldFolder | None) -> bool:
    """Whether ``path`` is a name of the system's, such as /dev/stdout."""
    place = os.path.realpath(path.parent) if folder is None else os.fspath(folder.path)
    return (place == "/dev" or place.startswith("/proc/")) and path.exists()


def _folder_of(path: Path, folder: HeldFolder | None) -> HeldFolder:
    """Hold the folder of a file, or the one that is given, once more. Raises OSError."""
    return HeldFolder(path.parent) if folder is None else folder.again()


def _name(path: Path) -> str:
    return path.name or "."


def check_place(path: Path, folder: HeldFolder | None = None) -> None:
    """Raise InputError where something else than a file or a link has the name of a file to be written."""
    if folder is not None:
        _refuse_what_is_no_file(path, folder)
        return
    with contextlib.suppress(OSError), HeldFolder(path.parent) as held:
        _refuse_what_is_no_file(path, held)


def _refuse_what_is_no_file(path: Path, folder: HeldFolder) -> None:
    """Raise InputError where something else than a file or a link has a file's name."""
    mode = folder.mode(_name(path))
    if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise InputError(path, f"cannot be written: it is {kind_of(mode)}; remove it, or choose another name")


def _part(name: str, number: int) -> str:
    return f".{name}.{number}.part" if number else f".{name}.part"


def _open_part(folder: HeldFolder, name: str, *, alone: bool) -> tuple[str, BinaryIO]:
    for number in range(_MOST_WRITERS):
        part = _part(name, number)
        remove_if_dead(part, folder)
        try:
            descriptor = folder.open(part, _NEW_FILE)
        except FileExistsError:  # somebody else is writing the file, or has put something here
            written = False
            with contextlib.suppress(OSError):
                written = alone and _is_being_written(part, folder)
            if written:
                what = "another process is writing it: wait until that has ended, or choose another name"
                raise FileExistsError(errno.EEXIST, what, name) from None
            continue
        if _lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            _remove_dead_from(folder, name, number + 1)
            return part, os.fdopen(descriptor, "wb")
        os.close(descriptor)  # another process takes it for a leftover in this very moment
    raise FileExistsError(errno.EEXIST, "too many processes are writing this file", name)


def _is_being_written(part: str, folder: HeldFolder) -> bool:
    """Whether the writer of a temporary file lives. Raises OSError if the file cannot be opened."""
    descriptor = folder.open(part, _OLD_FILE)
    try:
        return _lock(descriptor) is False
    finally:
        os.close(descriptor)


def _remove_dead_from(folder: HeldFolder, name: str, number: int) -> None:
    while number < _MOST_WRITERS and folder.mode(part := _part(name, number)) is not None:
        remove_if_dead(part, folder)
        number += 1


def _remove(name: str, folder: HeldFolder) -> None:
    with contextlib.suppress(OSError):
        folder.remove(name)


def _check_stored(descriptor: int) -> None:
    """Raise OSError where the file system has no room: some report this only when a file is closed."""
    try:
        copy = os.dup(descriptor)
    except OSError:  # too many files are open: the file's own end must do
        return
    os.close(copy)


def _lock(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False if another writer has, None if locking is not possible."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Let signals that end the program wait: no file may be lost sight of between two lines."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers, arrived = dict[int, Any](), list[int]()
    if threading.current_thread() is threading.main_thread():  # another thread may be given the signal
        handlers = {n: h for n in ENDING_SIGNALS if (h := signal.getsignal(n)) not in (None, signal.SIG_IGN)}
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        for number in handlers:
            signal.signal(number, lambda number, _: arrived.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in arrived:
            signal.raise_signal(number)


@contextlib.contextmanager
def _explained(path: PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        lost = isinstance(error, FileNotFoundError)
        reason = "its folder does not exist; create it first" if lost else error.strerror or str(error)
        raise InputError(path, f"cannot be written: {reason}") from error
