"""Whole files or none: what is written appears under its name only when it is complete.

Until then it is beside that name as ``.NAME.part`` (``.NAME.1.part`` where several write the same file),
locked for as long as its writer lives: that is how leftovers of a killed process are recognized; the next
writer of the file removes them.

A link in the place of a file is replaced, never followed; a pipe, a device, a socket or a folder there is an
error. Names in /dev and /proc, such as /dev/stdout, are written directly. A file gets its name in the folder
in which it was begun, whatever has taken that folder's name since.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from beasy_sched.errors import InputError, PathLike

Content = str | bytes

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that ask a program to end."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}
_MOST_WRITERS = 100
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_OLD_FILE = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomic(path: PathLike, content: Content | Iterable[Content]) -> None:
    """Write ``content`` (one text or many pieces; text as UTF-8) to ``path``, whole or not at all.

    Raises InputError, naming ``path``, where it cannot be written. A piece that fails to be made
    leaves an older file as it was.
    """
    with PartFile(path) as file:
        for piece in [content] if isinstance(content, (str, bytes)) else content:
            file.write(piece)


class PartFile:
    """A file that is written bit by bit, and gets its name when it is finished.

    Either `finish` or `discard` must be called in the end; as a context manager it does so itself.
    """

    def __init__(self, path: PathLike, *, alone: bool = False) -> None:
        """Open it under a temporary name. Raises InputError where that cannot be.

        With ``alone``, not while another process, or another part of this one, writes the same file.
        """
        self.path = Path(path)
        self._open = True
        self._folder: int | None = None
        """Its folder, opened; None where the system only knows folders by their names."""
        self._names: tuple[Path, Path] | None = None
        """The temporary name and the one to get; None for a device or a pipe, and once it has its name."""
        target = _target(path)
        with _explained(self.path):
            if target is None:
                self._file: BinaryIO = self.path.open("wb")  # may wait for whoever reads the pipe
                return
            with _signals_wait():
                self._folder = _open_folder(target.parent)
                try:
                    place, self._file = _open_part(target, self._folder, alone=alone)
                except BaseException:
                    self._leave_folder()
                    raise
                self._names = place, target
                _unfinished[id(self)] = self

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

    def finish(self) -> Path:
        """Give the file its name, and return that. Raises InputError, and leaves nothing then."""
        if not self._open:
            return self.path
        try:
            with _explained(self.path):
                self._file.flush()
                if self._names is None:
                    self._file.close()
                else:
                    self._give_name(*self._names)
        finally:
            self.discard()
        return self.path

    def _give_name(self, place: Path, target: Path) -> None:
        with _signals_wait():
            if sys.platform == "win32":  # no open file can be renamed there
                self._file.close()
            folder = self._folder  # renamed while it is locked, so that it is not taken for a leftover
            os.replace(_in(folder, place), _in(folder, target), src_dir_fd=folder, dst_dir_fd=folder)
            self._names = None
            try:
                self._file.close()
            except OSError:  # some file systems tell only now that there was no room
                _remove(target, folder)
                raise

    def discard(self) -> None:
        """Throw away what has been written, unless the file is finished."""
        if not self._open:
            return
        if self._names is None:
            self._close()
        with _signals_wait():
            if self._open and self._names is not None:
                if sys.platform == "win32":
                    self._close()
                _remove(self._names[0], self._folder)
                self._close()
            _unfinished.pop(id(self), None)

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # what is thrown away need not fit on the disk
            self._file.close()
        self._leave_folder()
        self._open = False

    def _leave_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.discard()


_unfinished: dict[int, PartFile] = {}
"""Files of this process that have neither been finished nor discarded."""


def discard_unfinished() -> None:
    """Discard every file that is still being written: for a program that ends for any reason."""
    for part in [*_unfinished.values()]:
        part.discard()


def remove_old(paths: Iterable[PathLike]) -> None:
    """Remove an earlier run's files, and their leftovers, so that they do not mix with a new one's.

    Of a link, only the link is removed. Raises InputError where one cannot be removed.
    """
    for path in paths:
        target = _target(path)
        if target is None:
            continue
        _remove_dead_from(target, 0)
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                path, f"is from an earlier run and cannot be removed: {error.strerror or error}"
            ) from error


def leftover(path: PathLike) -> Path | None:
    """Return what a killed process has left of ``path``; None where there is nothing.

    Raises InputError where the process still lives.
    """
    target = _target(path)
    if target is None or not (part := _part(target, 0)).is_file():
        return None
    with _explained(part):
        if _is_being_written(part):
            raise InputError(path, "is still being written: the run has not ended")
    return part


def rescue(path: PathLike, size: int) -> bool:
    """Give the first ``size`` bytes of what a killed process has left of ``path`` that name, if it is there.

    Raises InputError where the process still lives, or the file is shorter.
    """
    part = leftover(path)
    if part is None:
        return False
    with _explained(path):
        if part.stat().st_size < size:
            raise InputError(part, f"is shorter than the {size} bytes written by the last finished window")
        os.truncate(part, size)
        os.replace(part, part.with_name(Path(path).name))
    return True


def remove_if_dead(part: Path, folder: int | None = None) -> None:
    """Remove a temporary file, unless its writer still lives; ``folder`` is its folder where that is open."""
    if sys.platform == "win32":
        _remove(part, folder)  # refused where it is open
        return
    name = _in(folder, part)
    try:
        descriptor = os.open(name, _OLD_FILE, dir_fd=folder)
    except OSError:  # there is none; or it is a link, and nothing of ours
        return
    try:
        found = os.fstat(descriptor)
        # Only who has the lock removes or renames a part: what has its name now is the file that is locked.
        if not (stat.S_ISREG(found.st_mode) and _lock(descriptor)):
            return
        if os.path.samestat(found, os.stat(name, dir_fd=folder, follow_symlinks=False)):
            os.unlink(name, dir_fd=folder)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def own_folder(path: Path) -> Path:
    """Make a folder for files of ours, unless it is there, and return it.

    Raises InputError where it cannot be made, or a link or a file has its name.
    """
    with _explained(path):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise InputError(path, f"is {_KINDS.get(stat.S_IFMT(mode), 'a file')}, expected a folder: remove it")
    return path


def _target(path: PathLike) -> Path | None:
    """Where the file goes; None for a name of the system's, such as /dev/stdout, which is written directly.

    Raises InputError where something else than a file or a link has that name.
    """
    place = Path(path)
    folder = os.path.realpath(place.parent)
    if (folder == "/dev" or folder.startswith("/proc/")) and place.exists():
        return None
    target = Path(folder, place.name)
    try:
        mode = target.lstat().st_mode
    except (OSError, ValueError):  # there is none; or opening it tells what is wrong
        return target
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise InputError(path, f"cannot be written: it is {kind}; remove it, or choose another name")
    return target


def _part(target: Path, number: int) -> Path:
    return target.with_name(f".{target.name}.{number}.part" if number else f".{target.name}.part")


def _open_folder(folder: Path) -> int | None:
    """Open a folder, so that its files are found whatever happens to its name; None where that cannot be.

    Raises OSError for what is no folder, or a link.
    """
    if os.open not in os.supports_dir_fd or not hasattr(os, "O_DIRECTORY"):
        return None
    try:
        return os.open(folder, _FOLDER)
    except PermissionError:  # without O_PATH: files can be written, but not listed
        return None


def _in(folder: int | None, place: Path) -> str | Path:
    """Return how a file is named relative to its folder, or by its path where that is not open."""
    return place if folder is None else place.name


def _open_part(target: Path, folder: int | None, *, alone: bool) -> tuple[Path, BinaryIO]:
    for number in range(_MOST_WRITERS):
        place = _part(target, number)
        remove_if_dead(place, folder)
        try:
            descriptor = os.open(_in(folder, place), _NEW_FILE, 0o666, dir_fd=folder)
        except FileExistsError:  # somebody else is writing the file, or has put something here
            written = False
            with contextlib.suppress(OSError):
                written = alone and _is_being_written(place, folder)
            if written:
                what = "another process is writing it: wait until that has ended, or choose another name"
                raise FileExistsError(errno.EEXIST, what, str(target)) from None
            continue
        if _lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            _remove_dead_from(target, number + 1, folder)
            return place, os.fdopen(descriptor, "wb")
        os.close(descriptor)  # another process takes it for a leftover in this very moment
    raise FileExistsError(errno.EEXIST, "too many processes are writing this file", str(target))


def _is_being_written(part: Path, folder: int | None = None) -> bool:
    """Whether the writer of a temporary file lives. Raises OSError for what is no file that can be opened."""
    descriptor = os.open(_in(folder, part), _OLD_FILE, dir_fd=folder)
    try:
        return _lock(descriptor) is False
    finally:
        os.close(descriptor)


def _remove_dead_from(target: Path, number: int, folder: int | None = None) -> None:
    while number < _MOST_WRITERS and _exists(place := _part(target, number), folder):
        remove_if_dead(place, folder)
        number += 1


def _exists(place: Path, folder: int | None) -> bool:
    try:
        os.stat(_in(folder, place), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _remove(path: Path, folder: int | None) -> None:
    with contextlib.suppress(OSError):
        os.unlink(_in(folder, path), dir_fd=folder)


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
def _signals_wait() -> Iterator[None]:
    """Let signals that end the program wait: no file may be lost sight of between two lines."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _explained(path: PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        lost = isinstance(error, FileNotFoundError)
        reason = "its folder does not exist; create it first" if lost else error.strerror or str(error)
        raise InputError(path, f"cannot be written: {reason}") from error
