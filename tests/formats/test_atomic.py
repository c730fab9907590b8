from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.atomic import (
    PartFile,
    discard_unfinished,
    hold_folder,
    leftover,
    remove_if_dead,
    remove_old,
    rescue,
    write_atomic,
    write_inside,
)


def test_text_bytes_and_pieces(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_atomic(target, "é\n")
    assert target.read_bytes() == b"\xc3\xa9\n"
    write_atomic(target, b"\x00\x01")
    assert target.read_bytes() == b"\x00\x01"
    write_atomic(target, (piece for piece in ("a", b"b", "c")))
    assert target.read_text() == "abc"


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def pieces() -> Iterator[str]:
        yield "new"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_atomic(target, pieces())
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_of_the_caller_is_not_called_a_write_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="of the source"), PartFile(tmp_path / "a"):
        raise OSError("of the source")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("leads_to", ["real", "nowhere", "folder"])
def test_a_link_is_replaced_and_not_followed(tmp_path: Path, leads_to: str) -> None:
    real, folder, link = tmp_path / "real", tmp_path / "folder", tmp_path / "link"
    real.write_text("precious")
    folder.mkdir()
    link.symlink_to(tmp_path / leads_to)
    write_atomic(link, "new")
    assert link.read_text() == "new"
    assert not link.is_symlink()
    assert real.read_text() == "precious"
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "real"]


def test_of_a_link_from_an_earlier_run_only_the_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_old([tmp_path / "link"])
    assert [path.name for path in tmp_path.iterdir()] == ["real"]


def put(path: Path, kind: str) -> None:
    """Put something at a path that is neither a file nor a link."""
    if kind == "a directory":
        path.mkdir()
    elif kind == "a named pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(path))


@pytest.mark.parametrize("kind", ["a directory", "a named pipe", "a socket"])
@pytest.mark.parametrize(
    "do", [PartFile, lambda path: remove_old([path]), lambda path: write_atomic(path, "x")]
)
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, do: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a", kind)
    with pytest.raises(InputError, match=f"a: cannot be written: it is {kind}; remove it, or choose another"):
        do(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(("name", "reason"), [("nowhere/a", "folder does not exist"), ("", "irectory")])
def test_what_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        write_atomic(tmp_path / name, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_directly() -> None:
    write_atomic("/dev/null", "x")
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no /dev/fd here")
def test_a_pipe_by_the_name_of_its_descriptor() -> None:
    """As /dev/stdout is in 'beasy-sched report RUN -o /dev/stdout | less'."""
    reading, writing = os.pipe()
    try:
        write_atomic(f"/dev/fd/{writing}", "all of it")
        assert os.read(reading, 100) == b"all of it"
    finally:
        os.close(reading)
        os.close(writing)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_has_left_goes_with_the_next_file(tmp_path: Path) -> None:
    for number in ("", ".1", ".2"):
        (tmp_path / f".a.txt{number}.part").write_text("half")
    (tmp_path / ".other.part").write_text("half")
    write_atomic(tmp_path / "a.txt", "whole")
    assert names(tmp_path) == [".other.part", "a.txt"]
    assert (tmp_path / "a.txt").read_text() == "whole"


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    first, second = PartFile(tmp_path / "a"), PartFile(tmp_path / "a")
    first.write("first")
    second.write("second")
    remove_old([tmp_path / "a"])
    for part in tmp_path.iterdir():
        remove_if_dead(part)
    assert names(tmp_path) == [".a.1.part", ".a.part"]
    second.finish()
    first.finish()
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "first"


def test_a_writer_that_wants_to_be_alone(tmp_path: Path) -> None:
    with PartFile(tmp_path / "a", alone=True) as first:
        first.write("first")
        with pytest.raises(InputError, match=r"a: cannot be written: another process is writing it: wait"):
            PartFile(tmp_path / "a", alone=True)
        assert names(tmp_path) == [".a.part"]
    with PartFile(tmp_path / "a", alone=True) as second:
        second.write("second")
    assert (tmp_path / "a").read_text() == "second"


@pytest.mark.parametrize("alone", [False, True])
def test_a_planted_link_is_not_followed(tmp_path: Path, alone: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".a.part").symlink_to(victim)
    with PartFile(tmp_path / "a", alone=alone) as file:
        file.write("new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "a").is_symlink()


def test_what_is_not_finished_can_be_thrown_away_from_outside(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "a")
    part.write("half")
    discard_unfinished()
    part.finish()  # too late: it has been discarded
    assert names(tmp_path) == []


def test_a_name_that_is_taken_at_the_end_leaves_nothing(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "a")
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        part.finish()
    assert names(tmp_path) == ["a"]


def test_devices_of_the_system_are_not_removed(tmp_path: Path) -> None:
    remove_old([tmp_path / "none", "/dev/null"])
    assert Path("/dev/null").is_char_device()


def test_what_is_done_in_a_folder_that_is_held_stays_in_it(tmp_path: Path) -> None:
    """All that a run does after its beginning, when a link to other files has its folder's name."""
    ours, moved, theirs = tmp_path / "ours", tmp_path / "moved", tmp_path / "theirs"
    every = ["old", "new", "killed", ".killed.part", ".dead.part", "dead"]
    for folder in (ours, theirs):
        folder.mkdir()
        for name in every:
            (folder / name).write_text("precious")
    with hold_folder(ours) as held:
        ours.rename(moved)
        ours.symlink_to(theirs)
        remove_old([ours / "old", ours / "dead"], held)
        write_atomic(ours / "new", "new", held)
        with PartFile(ours / "more", folder=held) as file:
            file.write("more")
        assert leftover(ours / "killed", held) == ours / ".killed.part"
        assert rescue(ours / "killed", 4, "killed", held)
        assert not rescue(ours / "killed", 4, "killed", held)
        with pytest.raises(InputError, match="is still being written"), PartFile(ours / "x", folder=held):
            leftover(ours / "x", held)
    assert {path.name: path.read_text() for path in moved.iterdir()} == {
        "new": "new",
        "more": "more",
        "killed": "prec",
    }
    assert sorted(path.name for path in theirs.iterdir()) == sorted(every)
    assert {path.read_text() for path in theirs.iterdir()} == {"precious"}


@pytest.mark.parametrize("kind", ["a directory", "a named pipe", "a socket", "a link"])
def test_what_no_killed_writer_can_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text("mine")
    part = tmp_path / ".a.part"
    part.symlink_to(tmp_path / "victim") if kind == "a link" else put(part, kind)
    for do in (leftover, lambda path: rescue(path, 1, "a")):
        with pytest.raises(InputError, match=rf"\.a\.part: is {kind}, expected what a killed run has left"):
            do(tmp_path / "a")
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("leads_to", ["link", "folder", "nothing"])
@pytest.mark.parametrize("finishes", [True, False])
def test_a_folder_that_is_exchanged_meanwhile(tmp_path: Path, leads_to: str, finishes: bool) -> None:
    """What is written, renamed and removed stays in the folder in which the file was begun."""
    ours, moved, theirs = tmp_path / "ours", tmp_path / "moved", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    for name in ("a.txt", ".a.txt.part"):
        (theirs / name).write_text("precious")
    file = PartFile(ours / "a.txt")
    file.write("new")
    ours.rename(moved)
    if leads_to == "link":
        ours.symlink_to(theirs)
    elif leads_to == "folder":
        theirs.rename(ours)
        theirs = ours
    file.finish() if finishes else file.discard()
    assert [path.read_text() for path in moved.iterdir()] == ["new"] * finishes
    assert [path.read_text() for path in theirs.iterdir()] == ["precious"] * 2


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        write_atomic(tmp_path / name, "x")
        PartFile(tmp_path / name).discard()
        with pytest.raises(InputError):
            PartFile(tmp_path / "folder")
        with pytest.raises(InputError):
            PartFile(tmp_path / "nowhere" / name)
    one = PartFile(tmp_path / "a", alone=True)
    with pytest.raises(InputError):
        PartFile(tmp_path / "a", alone=True)
    one.finish()
    with hold_folder(tmp_path) as held:
        write_atomic("a", "x", held)
        remove_old(["a", "b", "none"], held)
        assert leftover("a", held) is None
    (tmp_path / ".b.part").write_text("x")
    assert rescue(tmp_path / "b", 1, "b")
    remove_if_dead(tmp_path / ".c.part")
    assert len(os.listdir("/proc/self/fd")) == before


def test_inside_a_folder_no_link_is_followed(tmp_path: Path) -> None:
    """A link to the folder itself is the user's."""
    (tmp_path / "real").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_inside(tmp_path / "link", "rows/deep/a.json", "1")
    assert (tmp_path / "real" / "rows" / "deep" / "a.json").read_text() == "1"
    (tmp_path / "real" / "other").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="other: is a link, expected a folder: remove it"):
        write_inside(tmp_path / "real", "other/a.json", "1")
    assert not [*(tmp_path / "precious").iterdir()]
