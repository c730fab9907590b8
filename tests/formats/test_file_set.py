"""Files that get their names together, and the account of what a command has kept."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats import atomic
from beasy_sched.formats.atomic import PartFile, leaving_unnamed, name_unnamed, remove_unnamed, write_atomic
from beasy_sched.formats.earlier import noting
from beasy_sched.formats.file_set import FileSet, together
from beasy_sched.formats.held_folder import HeldFolder


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def old(tmp_path: Path) -> dict[str, str]:
    for name in "abc":
        (tmp_path / name).write_text(f"old {name}")
    return contents(tmp_path)


def complete(path: Path) -> PartFile:
    part = PartFile(path)
    part.write("new")
    return part


def write_together(folder: Path, *names: str, then: Callable[[], object] = bool) -> None:
    with together():
        for name in names:
            write_atomic(folder / name, "new" if name < "b" else "newer")
        then()


def test_all_get_their_names_at_the_end(tmp_path: Path, old: dict[str, str]) -> None:
    with together():
        for name in "ab":
            write_atomic(tmp_path / name, "new")
        assert {name: (tmp_path / name).read_text() for name in "abc"} == old
    assert contents(tmp_path) == {"a": "new", "b": "new", "c": "old c"}


def test_none_does_where_the_block_raises(tmp_path: Path, old: dict[str, str]) -> None:
    with pytest.raises(ZeroDivisionError):
        write_together(tmp_path, "a", then=lambda: 1 / 0)
    assert contents(tmp_path) == old


def test_the_end_of_the_outer_block_counts(tmp_path: Path, old: dict[str, str]) -> None:
    with together():
        with together():
            write_atomic(tmp_path / "a", "new")
        assert (tmp_path / "a").read_text() == "old a"
    assert (tmp_path / "a").read_text() == "new"


def test_none_does_where_one_has_no_room(
    tmp_path: Path, old: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic, "_check_stored", full)
    with pytest.raises(InputError, match="b: cannot be written: No space left"):
        write_together(tmp_path, "a", "b")
    assert contents(tmp_path) == old


def test_none_does_where_something_else_has_a_name(tmp_path: Path, old: dict[str, str]) -> None:
    with pytest.raises(InputError, match="d: cannot be written: it is a directory"):
        write_together(tmp_path, "a", "d", then=(tmp_path / "d").mkdir)
    (tmp_path / "d").rmdir()
    assert contents(tmp_path) == old


def test_a_signal_waits_until_all_have_their_names(
    tmp_path: Path, old: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = HeldFolder.rename

    def interrupted(folder: HeldFolder, name: str, new: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        rename(folder, name, new)

    monkeypatch.setattr(HeldFolder, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together(tmp_path, "a", "b")
    assert contents(tmp_path) == {"a": "new", "b": "newer", "c": "old c"}


@pytest.mark.parametrize("failed", [False, True])
def test_what_a_run_owns_and_does_not_write(tmp_path: Path, old: dict[str, str], failed: bool) -> None:
    for name in ("failed_b", "failed_c"):
        (tmp_path / name).write_text("old")
    with noting() as earlier:
        files = FileSet()
        files.own((tmp_path / name, tmp_path / f"failed_{name}") for name in "ab")
        files.add(complete(tmp_path / "a"), tmp_path / "failed_a")
        written = files.publish(failed=failed)
    if failed:
        assert contents(tmp_path) == {**old, "failed_a": "new", "failed_c": "old"}
        assert earlier.kept() == [str(tmp_path / name) for name in "ab"]
    else:
        assert contents(tmp_path) == {"a": "new", "c": "old c", "failed_c": "old"}
        assert earlier.kept() == []
    assert [*earlier.accounts] == ([str(path) for path in written] if failed else [])


def test_a_set_that_is_discarded_changes_nothing(tmp_path: Path, old: dict[str, str]) -> None:
    with noting() as earlier:
        files = FileSet()
        files.own([(tmp_path / "b", tmp_path / "failed_b")])
        files.add(complete(tmp_path / "a"))
        files.discard()
    assert contents(tmp_path) == old
    assert earlier.kept() == [str(tmp_path / "b"), str(tmp_path / "a")]


def test_files_that_another_process_has_left_unnamed(tmp_path: Path, old: dict[str, str]) -> None:
    paths = [tmp_path / name for name in "ab"]

    def make() -> None:
        with leaving_unnamed():
            for path in paths:
                write_atomic(path, "new")

    make()
    assert {name: (tmp_path / name).read_text() for name in "abc"} == old
    remove_unnamed(paths)
    assert contents(tmp_path) == old
    with pytest.raises(InputError, match="what was made of it has disappeared"):
        name_unnamed(paths)
    make()
    name_unnamed(paths)
    assert contents(tmp_path) == {"a": "new", "b": "new", "c": "old c"}
