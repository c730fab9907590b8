"""Folders of outputs, held open: what is done in one stays in it, whatever takes its name meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from beasy_sched.errors import InputError, PathLike

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def kind_of(mode: int) -> str:
    """Return the kind of file with this ``st_mode``."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


class HeldFolder:
    """A folder whose files are named relative to it; links in the place of one are never followed.

    Where the system cannot open folders (Windows), or this one only for writing, its files are found by its
    name. Must be closed in the end; as a context manager it closes itself.
    """

    def __init__(self, path: PathLike, outer: HeldFolder | None = None) -> None:
        """Open the folder: links on the way count as they are now. Within ``outer``, ``path`` is a name.

        Raises OSError; within ``outer`` also for a link.
        """
        self.path: Path = Path(os.path.realpath(path)) if outer is None else outer.path / path
        self._descriptor: int | None = None
        if _BY_DESCRIPTOR:
            name = self.path if outer is None else outer._at(os.fspath(path))
            with contextlib.suppress(PermissionError):  # without O_PATH: files can be written, but not listed
                self._descriptor = os.open(name, _FOLDER, dir_fd=None if outer is None else outer._descriptor)

    def again(self) -> HeldFolder:
        """Hold the same folder a second time."""
        other = HeldFolder.__new__(HeldFolder)
        other.path = self.path
        other._descriptor = None if self._descriptor is None else os.dup(self._descriptor)
        return other

    def inner(self, name: str) -> HeldFolder:
        """Hold a folder in this one, which is made where it is missing.

        Raises InputError where it cannot be made, or a link or a file has its name.
        """
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), dir_fd=self._descriptor)
            mode = self.stat(name).st_mode
            if stat.S_ISDIR(mode):
                return HeldFolder(name, self)
        except OSError as error:
            raise InputError(self.path / name, f"cannot be written: {error.strerror or error}") from error
        raise InputError(self.path / name, f"is {kind_of(mode)}, expected a folder: remove it")

    def _at(self, name: str) -> str:
        """Return a file's name for the system: by itself where the folder is open, by its path where not."""
        return name if self._descriptor is not None else os.fspath(self.path / name)

    def open(self, name: str, flags: int) -> int:
        """Open a file in the folder; return its descriptor. Raises OSError."""
        return os.open(self._at(name), flags, 0o666, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of what has a name in the folder. Raises OSError."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def mode(self, name: str) -> int | None:
        """Return the ``st_mode`` of what has a name in it; None where nothing has it."""
        try:
            return self.stat(name).st_mode
        except (OSError, ValueError):  # or opening it reports the error
            return None

    def rename(self, name: str, new: str) -> None:
        """Give a file another name in the folder; what had that is replaced. Raises OSError."""
        folder = self._descriptor
        os.replace(self._at(name), self._at(new), src_dir_fd=folder, dst_dir_fd=folder)

    def move(self, name: str, other: HeldFolder) -> None:
        """Move a file to another folder, where it replaces what has its name. Raises OSError."""
        source, target = self._descriptor, other._descriptor
        os.replace(self._at(name), other._at(name), src_dir_fd=source, dst_dir_fd=target)

    def remove(self, name: str) -> None:
        """Remove a file, or a link, from the folder. Raises OSError."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """All names in the folder, in order. Raises OSError."""
        return [name for name, _ in self._entries()]

    def files(self) -> Iterator[tuple[HeldFolder, str]]:
        """Yield all files in the folder and in its inner ones, each with its folder. Raises OSError.

        Folders that may not be listed count as empty.
        """
        try:
            entries = self._entries()
        except PermissionError:
            return
        for name, is_folder in entries:
            if not is_folder:
                yield self, name
                continue
            with HeldFolder(name, self) as inner:
                yield from inner.files()

    def clear(self, keep: Collection[str] = ()) -> None:
        """Remove everything in the folder but the files to ``keep``, relative to it. Raises OSError."""
        for name, is_folder in self._entries():
            if not is_folder and name not in keep:
                self.remove(name)
            if not is_folder:
                continue
            within = [path.removeprefix(f"{name}/") for path in keep if path.startswith(f"{name}/")]
            with HeldFolder(name, self) as inner:
                inner.clear(within)
            if not within:
                self.remove_empty(name)

    def remove_empty(self, name: str) -> None:
        """Remove an empty folder from this one. Raises OSError."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def _entries(self) -> list[tuple[str, bool]]:
        """The names in the folder, in order, and which are folders."""
        if self._descriptor is None:
            listed: int | Path = self.path
        else:
            listed = self.open(".", os.O_RDONLY | _DIRECTORY)  # what is opened with O_PATH cannot be listed
        try:
            with os.scandir(listed) as entries:
                return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        finally:
            if isinstance(listed, int):
                os.close(listed)

    def close(self) -> None:
        """Let the folder go; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> HeldFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
