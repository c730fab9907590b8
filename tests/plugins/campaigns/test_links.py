"""What stands, or is put, in the place of a campaign's files and folders: no file elsewhere is touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_campaign import Here, scenario

from beasy_sched import limits
from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.campaign import begin, go_on
from beasy_sched.plugins.campaigns.shared_plans import STORE
from beasy_sched.run.results import find_runs

ONE = (("seeds = [1, 2]", "seeds = [1]"), ('"easy", "follow-plan", "workload-reactive"', '"easy"'))
FOLDERS = ("inputs", "rows", "runs")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A campaign of one run that has begun, and everything of one that has ended beside it."""
    for name in ("theirs", "ours"):
        begin([scenario(*ONE)], tmp_path / name, keep="everything")
    go_on(tmp_path / "theirs", Here())
    return tmp_path / "ours"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*FOLDERS, "runs/RUN"])
@pytest.mark.parametrize("kind", ["a link", "a dangling link", "a file", "a named pipe"])
def test_in_the_place_of_a_folder(begun: Path, name: str, kind: str) -> None:
    theirs = begun.parent / "theirs"
    run = min((theirs / "runs").iterdir())
    name = name.replace("RUN", run.name)
    place = begun / name
    place.parent.mkdir(exist_ok=True)
    before = contents(theirs)
    if kind == "a named pipe":
        os.mkfifo(place)
    elif kind == "a file":
        place.write_text("")
    else:
        place.symlink_to(theirs / name if kind == "a link" else begun.parent / "nowhere")
    kind = kind.replace("dangling ", "")
    with pytest.raises(BeasyError, match=rf"{name}: is {kind}, expected a folder: remove it"):
        go_on(begun, Here())
    assert contents(theirs) == before
    assert not (begun.parent / "nowhere").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["campaign.json", ".lock", "runs.parquet", "timings.parquet"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_in_the_place_of_a_file(begun: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SILENT_PIPE_S", 0.05)
    precious, place = begun.parent / "precious", begun / name
    precious.write_text("precious")
    place.unlink(missing_ok=True)
    put: dict[str, Callable[[], object]] = {
        "link": lambda: place.symlink_to(precious),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    put[kind]()
    replaced = kind == "link" and name.endswith("parquet")
    if replaced or (name, kind) == (".lock", "pipe"):  # which can be locked
        go_on(begun, Here())
        assert place.is_symlink() is False
    else:
        with pytest.raises(BeasyError, match=name):
            go_on(begun, Here())
    assert precious.read_text() == "precious"


class Exchanging(Here):
    """Puts a link to files elsewhere in the place of a folder before the first run is written."""

    def __init__(self, folder: Path, link: Path) -> None:
        super().__init__()
        self.folder, self.link = folder, link

    def next_done(self) -> tuple[Any, Any]:
        if not self.folder.is_symlink():
            if self.folder.exists():
                self.folder.rename(self.folder.with_name("moved"))
            self.folder.symlink_to(self.link)
        return super().next_done()


@pytest.mark.parametrize("name", ["inputs", "rows", "runs"])
def test_a_folder_that_is_exchanged_meanwhile(begun: Path, name: str) -> None:
    theirs = begun.parent / "theirs"
    before = contents(theirs)
    if name == "inputs":  # a plan is made and written, before the run
        shutil.rmtree(begun)
        shutil.rmtree(begun.parent / STORE)
        begin([scenario(ONE[0], (ONE[1][0], '"follow-plan"'))], begun, keep="everything")
    with pytest.raises(BeasyError, match=f"{name}: is a link, expected a folder"):
        go_on(begun, Exchanging(begun / name, theirs / name))
    assert contents(theirs) == before


def test_what_was_kept_of_a_run_that_failed_goes(begun: Path) -> None:
    """And of a link in it, only the link."""
    theirs = begun.parent / "theirs"
    run = min((theirs / "runs").iterdir())
    before = contents(theirs)
    place = begun / "runs" / run.name
    (place / "run_plans").mkdir(parents=True)
    (place / "run_plans" / "old").write_text("")
    (place / "link").symlink_to(theirs)
    go_on(begun, Here())
    assert contents(theirs) == before
    assert sorted(path.name for path in place.iterdir()) == sorted(path.name for path in run.iterdir())
    assert find_runs([str(place)])


def test_leftovers_are_removed_in_the_campaign_alone(begun: Path) -> None:
    other = begun.parent / "other"
    for folder in (other, begun / "rows"):
        folder.mkdir()
        (folder / ".a.part").write_text("")
    (begun / "link").symlink_to(other)
    go_on(begun, Here())
    assert (other / ".a.part").exists()
    assert not (begun / "rows" / ".a.part").exists()
