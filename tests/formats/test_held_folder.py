from __future__ import annotations

import os
from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.held_folder import HeldFolder


def write(folder: HeldFolder, name: str) -> None:
    os.close(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


@pytest.fixture(params=[True, False], ids=["by descriptor", "by name"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Linux, and as where folders cannot be opened."""
    monkeypatch.setattr("beasy_sched.formats.held_folder._BY_DESCRIPTOR", request.param)


@pytest.mark.usefixtures("_either")
def test_what_is_done_in_it(tmp_path: Path) -> None:
    with HeldFolder(tmp_path) as held, held.inner("deep") as deep, deep.inner("down") as down:
        write(held, "a")
        write(down, "b")
        held.rename("a", "c")
        assert held.names() == ["c", "deep"]
        assert [(folder.path, name) for folder, name in held.files()] == [
            (tmp_path, "c"),
            (tmp_path / "deep" / "down", "b"),
        ]
        assert (held.mode("a"), held.mode("c")) == (None, held.stat("c").st_mode)
        held.remove("c")
        held.clear()
        assert held.names() == []
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("_either")
def test_links_in_it_are_not_followed(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    (theirs / "precious").write_text("precious")
    (ours / "link").symlink_to(theirs)
    (ours / "to a file").symlink_to(theirs / "precious")
    with HeldFolder(ours) as held:
        assert [name for _, name in held.files()] == ["link", "to a file"]
        held.clear()
        assert held.names() == []
    assert (theirs / "precious").read_text() == "precious"


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("kind", ["a named pipe", "a link", "a file"])
def test_what_is_no_folder_in_it(tmp_path: Path, kind: str) -> None:
    place, other = tmp_path / "plans", tmp_path / "other"
    other.mkdir()
    if kind == "a link":
        place.symlink_to(other)
    elif kind == "a file":
        place.write_text("x")
    else:
        os.mkfifo(place)
    with HeldFolder(tmp_path) as held:
        with pytest.raises(InputError, match=f"plans: is {kind}, expected a folder: remove it"):
            held.inner("plans")
        for name in ("other", "new"):
            held.inner(name).close()
    assert (tmp_path / "new").is_dir()
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="x: is a file"), HeldFolder(tmp_path) as held:
        held.inner("x")


def test_its_name_may_be_taken(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "a").write_text("precious")
    with HeldFolder(ours) as held, held.inner("inner") as inner, inner.again() as again:
        ours.rename(tmp_path / "moved")
        ours.symlink_to(theirs)
        (tmp_path / "moved" / "inner").rename(tmp_path / "moved" / "other")
        (tmp_path / "moved" / "inner").symlink_to(theirs / "inner")
        with pytest.raises(InputError, match="inner: is a link"):
            held.inner("inner")
        inner.close()
        assert again.names() == ["a"]
        again.clear()
        assert again.names() == []
    assert (theirs / "inner" / "a").read_text() == "precious"


def test_a_folder_that_may_not_be_listed_counts_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_text("")
    entries = HeldFolder._entries

    def listed(folder: HeldFolder) -> list[tuple[str, bool]]:
        if folder.path.name == "secret":
            raise PermissionError
        return entries(folder)

    monkeypatch.setattr(HeldFolder, "_entries", listed)
    with HeldFolder(tmp_path) as held:
        assert list(held.files()) == []
