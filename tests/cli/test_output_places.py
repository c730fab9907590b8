"""Files that commands write: a link in the place of one is replaced, whatever else is there stays."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import exit_code
from small_site import small_site

Place = Callable[[Path], object]

RUN = [
    f"run_{name}"
    for name in (
        "summary.json",
        "decisions.jsonl",
        "energy_trace.csv",
        "jobs.csv",
        "schedule.csv",
        "machine_states.csv",
        "consumed_energy.csv",
        "pstate_changes.csv",
    )
]
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "simulate": (
        [
            "simulate",
            "-p",
            "platform.xml",
            "-w",
            "workload.json",
            "--events",
            "power.txt",
            "--site",
            "site.toml",
            "-q",
            "-o",
            "out/run",
            "--record",
            "out/a.rec",
        ],
        [*RUN, "a.rec"],
    ),
    "platform": (["generate", "platform", "-n", "gros:2", "-o", "out/p.xml"], ["p.xml"]),
    "workload": (
        ["generate", "workload", "--synthetic", "--jobs", "3", "--hosts", "16", "-o", "out/w.json"],
        ["w.json"],
    ),
    "site": (["generate", "site", "--battery-kwh", "1", "-o", "out/s.toml"], ["s.toml"]),
}
NOT_FILES: dict[str, Place] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(path.name),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_site(tmp_path, jobs=3)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_links(folder: Path, name: str) -> None:
    command, files = COMMANDS[name]
    precious = folder / "precious"
    precious.write_text("precious")
    for file in files:
        (folder / "out" / file).symlink_to(precious)
    assert exit_code(*command) == 0
    written = [*(folder / "out").iterdir()]
    assert {path.name for path in written} == set(files)
    assert not any(path.is_symlink() for path in written)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("kind", NOT_FILES)
@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, (_, files) in COMMANDS.items() for file in files]
)
def test_what_is_no_file(
    folder: Path, capfd: pytest.CaptureFixture[str], name: str, file: str, kind: str
) -> None:
    place = folder / "out" / file
    os.chdir(folder / "out")
    NOT_FILES[kind](place)
    os.chdir(folder)
    before = stat.S_IFMT(place.lstat().st_mode)
    assert exit_code(*COMMANDS[name][0]) in (1, 2)
    last = capfd.readouterr().err.splitlines()[-1]
    assert file in last
    assert "cannot be written: it is a" in last or "is a directory" in last
    assert stat.S_IFMT(place.lstat().st_mode) == before
    assert not list(folder.glob("**/*.part"))
