from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.atomic import atomic_file, write_atomic


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
    with pytest.raises(OSError, match="of the source"), atomic_file(tmp_path / "a"):
        raise OSError("of the source")
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


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
