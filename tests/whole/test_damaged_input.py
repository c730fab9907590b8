"""Commands with damaged files: exit code 2 and one line that names file, line and field."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import exit_code
from sample_files import SWF, WEATHER
from small_campaign import SMALL, run_campaign
from small_site import SmallSite, small_site

from beasy_sched import limits

Capture = pytest.CaptureFixture[str]


def told(capfd: Capture, *arguments: object) -> str:
    """Call a command that refuses its input; return its one line."""
    capfd.readouterr()
    assert exit_code(*map(str, arguments)) == 2
    message = capfd.readouterr().err
    assert "Traceback" not in message
    assert "Warning" not in message
    assert message.count("\n") == 1, message
    return message


@pytest.fixture(scope="module")
def campaign_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign") / "out"
    run_campaign(folder)
    return folder


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"jobs_finished"', b'"jobs\xd7finished"', ":1: is not the result of a run: is not UTF-8 text"),
        (b'"tuple":0', b'"tuple":"x"', "row.tuple: found 'x', expected an integer"),
        (b'"tuple":0', b'"tuple":' + b"9" * 40, "row.tuple: found an integer of 40 digits"),
        (b'"finished_pct":', b'"finished_pct":1e999,"x":', "1e999"),
        (b'"status":"ok"', b'"status":7', "row.status: found 7, expected a string"),
        (b'"wall_s":', b'"wall_s":-', "wall_s: found -"),
    ],
)
@pytest.mark.parametrize("command", [["campaign", "status"], ["report", "-o", "page.html"]])
def test_rows_of_a_campaign(
    campaign_folder: Path, command: list[str], old: bytes, new: bytes, message: str, capfd: Capture,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    row = min((campaign_folder / "rows").glob("*.json"))
    valid = row.read_bytes()
    assert old in valid
    row.write_bytes(valid.replace(old, new, 1))
    try:
        line = told(capfd, *command, campaign_folder)
    finally:
        row.write_bytes(valid)
    assert f"{row.name}" in line
    assert message in line
    assert "delete the file to repeat the run" in line
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("windows", ["99999999999999999999", "0", "nan", "true", '"3"', "1000001"])
def test_windows_of_a_scenario(windows: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "small.toml").write_text(f"windows = {windows}\n{SMALL}")
    line = told(capfd, "campaign", "run", tmp_path / "small.toml", "-o", tmp_path / "out")
    assert "small.toml: windows: found " in line
    assert "expected" in line


def test_a_byte_that_is_no_text_in_a_name(tmp_path: Path, capfd: Capture) -> None:
    site = small_site(tmp_path, jobs=5)
    text = site.workload.read_bytes().splitlines(keepends=True)
    text[2] = text[2].replace(b'"profile"', b'"deadl\xefne_s":1,"profile"')
    site.workload.write_bytes(b"".join(text))
    line = told(capfd, "simulate", "-p", site.platform, "-w", site.workload, "-o", tmp_path / "run")
    assert "workload.json:3: is not UTF-8 text: found the byte 0xef" in line


def test_a_change_of_no_server(tmp_path: Path, capfd: Capture) -> None:
    prefix = run_of(small_site(tmp_path, jobs=10), tmp_path / "run")
    table = Path(f"{prefix}_pstate_changes.csv")
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:2], "18006,,13", ""]))
    line = told(capfd, "report", prefix, "-o", tmp_path / "page.html")
    assert "run_pstate_changes.csv:3: machine_id: found nothing, expected hosts such as '0-3 5'" in line


def run_of(site: SmallSite, prefix: Path) -> Path:
    given = ("-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site)
    assert exit_code("simulate", *map(str, given), "-o", str(prefix), "-q") == 0
    return prefix


def test_a_name_that_no_terminal_can_show(tmp_path: Path, capfd: Capture) -> None:
    prefix = run_of(small_site(tmp_path, jobs=10), tmp_path / "run")
    table = Path(f"{prefix}_jobs.csv")
    head, first, *rest = table.read_text().split("\n")
    table.write_text("\n".join([head, first.replace("w0", "\x01" * 100_000, 1), *rest]))
    assert len(told(capfd, "explain", prefix)) < limits.LONGEST_ERROR + 100


def test_a_report_takes_the_runs_among_what_a_shell_names(tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "out"
    run_of(small_site(tmp_path, jobs=10), out / "run")
    (out / "notes.txt").write_text("")
    (out / "empty").mkdir()
    page = tmp_path / "page.html"
    named = sorted(map(str, out.iterdir()))
    capfd.readouterr()
    assert exit_code("report", *named, "-o", str(page)) == 0
    note = capfd.readouterr().err
    assert f"warning: skipped, because they are not runs: {out / 'empty'}, {out / 'notes.txt'}\n" in note
    assert page.exists()
    assert "is not a run" in told(capfd, "report", out / "notes.txt", "-o", tmp_path / "other.html")
    assert "gone" in told(capfd, "report", out / "run", out / "gone", "-o", tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


BAD: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "no UTF-8": lambda path: path.write_bytes(b'{"\xff": 1}'),
    "null bytes": lambda path: path.write_bytes(b"\0" * 5000),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "huge": lambda path: path.write_bytes(b'{"a": ' + b"9" * 5000 + b"}"),
    "text": lambda path: path.write_bytes(b"once upon a time"),
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
}
SIM = ("simulate", "-p", "platform.xml", "-w", "workload.json", "-o", "out")
GIVEN = (*SIM, "--events", "power.txt", "--site", "site.toml")
COMMANDS: dict[str, tuple[str, ...]] = {
    "platform": ("simulate", "-p", "BAD", "-w", "workload.json", "-o", "out"),
    "workload": ("simulate", "-p", "platform.xml", "-w", "BAD", "-o", "out"),
    "site": (*SIM, "--site", "BAD"),
    "plan": (*GIVEN, "--plan", "BAD"),
    "forecast": (*GIVEN, "--forecast", "BAD"),
    "perfect forecast": (*GIVEN, "--forecast", "perfect:BAD"),
    "options": (*SIM, "--options", "@BAD"),
    "replan demand": (*GIVEN, "--replan", "window", "--replan-demand", "BAD"),
    "trace": ("generate", "workload", "--swf", "BAD", "-o", "out"),
    "past jobs": ("slurm", "import", "--file", "BAD", "-o", "out"),
    "nodes": ("slurm", "platform", "--file", "BAD", "--server", "gros", "-o", "out"),
    "weather": ("generate", "power", "--pv", "BAD", "--pv-kw", "1", "-o", "out"),
    "demand": (
        "plan",
        "-p",
        "platform.xml",
        "--site",
        "site.toml",
        "--demand",
        "BAD",
        "--production",
        "power.txt",
        "-o",
        "out",
    ),
    "plan show": ("plan", "show", "BAD"),
    "convert": ("convert", "BAD", "-o", "out"),
    "campaign": ("campaign", "run", "BAD", "-o", "out"),
    "size": ("size", "BAD", "--balance"),
    "replay": ("replay", "BAD"),
    "learn show": ("learn", "show", "BAD"),
    "report": ("report", "BAD", "-o", "out"),
    "explain": ("explain", "BAD"),
    "batsim": ("batsim", "-p", "BAD", "-w", "workload.json", "-e", "out"),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid")
    small_site(folder, jobs=5)
    (folder / "trace.swf").write_text(SWF)
    (folder / "weather.csv").write_text(WEATHER)
    return folder


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_it_in_one_line(
    valid: Path, command: str, bad: str, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SILENT_PIPE_S", 0.05)
    monkeypatch.chdir(valid)
    path = tmp_path / "bad.toml"
    BAD[bad](path)
    capfd.readouterr()
    arguments = [
        text.replace("BAD", str(path)).replace("out", str(tmp_path / "out")) for text in COMMANDS[command]
    ]
    code = exit_code(*arguments)
    message = capfd.readouterr().err
    assert "Traceback" not in message
    if bad == "nothing" and command == "site":  # all of a site has defaults
        return
    assert code == 2, message
    last = message.rstrip().splitlines()[-1]
    assert "bad.toml" in last or command in ("report", "explain")
    assert not [*tmp_path.glob("out*")]


def test_a_manifest_with_a_huge_number(campaign_folder: Path, capfd: Capture) -> None:
    path = campaign_folder / "campaign.json"
    valid = path.read_text()
    manifest = json.loads(valid)
    manifest["scenarios"][0]["windows"] = 10**20
    path.write_text(json.dumps(manifest))
    try:
        line = told(capfd, "campaign", "status", campaign_folder)
    finally:
        path.write_text(valid)
    assert "campaign.json: " in line
    assert "scenarios[0].windows: found 100000000000000000000, expected an integer" in line
