"""Commands say where they are, and are quiet, verbose or traced in the same way."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS, exit_code

from beasy_sched import cli as package
from beasy_sched.cli.progress import LINE_EVERY_S, Bars, ProgressLines, progress_bar

Capture = pytest.CaptureFixture[str]

SHOWING = {
    "batsim", "campaign rerun", "campaign resume", "campaign run", "compare", "generate workload", "learn",
    "plan", "report", "simulate", "size", "year",
}  # fmt: skip
"""Commands that show progress."""
OF_BATSIM = {"batsim"}
"""Commands whose -v is Batsim's: --verbosity."""


class Clock:
    """Passes time only when it is waited for, and ends after some waits."""

    def __init__(self, waits: int) -> None:
        self.now_s, self.left = 1000.0, waits

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        self.left -= 1
        return self.left < 0


def test_a_line_every_ten_seconds(capfd: Capture) -> None:
    clock = Clock(waits=3)
    shares = iter((0.0, 0.25, 0.5))
    lines = ProgressLines(lambda: f"runs: {next(shares):.0%}", now_s=lambda: clock.now_s, wait=clock.wait)
    lines.print_all()
    assert LINE_EVERY_S == 10.0
    assert capfd.readouterr() == ("", "runs: 0%, after 10 s\nruns: 25%, after 20 s\nruns: 50%, after 30 s\n")


def test_lines_end_where_nobody_can_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(waits=3), []

    def closed(text: str) -> None:
        told.append(text)
        raise BrokenPipeError

    monkeypatch.setattr("beasy_sched.cli.progress.print_line", closed)
    ProgressLines(lambda: "runs", now_s=lambda: clock.now_s, wait=clock.wait).print_all()
    assert told == ["runs, after 10 s"]


def wait_for(text: str, capfd: Capture) -> None:
    """Wait until the standard error has a text."""
    err, until_s = "", time.monotonic() + 60.0
    while text not in err:
        assert time.monotonic() < until_s, err
        err += capfd.readouterr().err
        time.sleep(0.001)


def test_redirected_bars_are_lines(monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.setattr("beasy_sched.cli.progress.LINE_EVERY_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with progress_bar("runs") as report:
        assert report is not None
        report(0.5)
        wait_for("runs: 50%, after", capfd)
    with Bars(where=lambda: "two of nine"):
        wait_for("two of nine, after", capfd)
    capfd.readouterr()
    with progress_bar("runs", quiet=True) as report, Bars(where=lambda: "two", quiet=True) as bars:
        assert report is None
        bars.say("a note")
    assert capfd.readouterr() == ("", "")


def test_these_are_all_that_show_progress() -> None:
    """A module that shows progress has a command in the list above."""
    commands = Path(package.__file__).parents[1]
    modules = [*commands.glob("cli/*.py"), *commands.glob("plugins/*/commands/*.py")]
    uses = re.compile(r"\b(?:progress_bar|Bars)\(")
    found = {path.stem for path in modules if uses.search(path.read_text())} - {"progress"}
    assert found == {
        "batsim", "campaign", "campaign_bundle", "compare", "generate_workload", "learn", "plan", "report",
        "simulate", "size", "year",
    }  # fmt: skip
    others = [path for path in modules if path.stem != "progress"]
    assert not [path.name for path in others if re.search(r"\bProgress\(", path.read_text())]


@pytest.mark.parametrize("name", sorted(SHOWING))
def test_all_that_show_progress_are_quiet_and_verbose_alike(name: str) -> None:
    options = {
        flag: option.opts for option in ALL_COMMANDS[name].params if isinstance(option, click.Option)
        for flag in option.opts
    }  # fmt: skip
    assert {"-q", "--quiet"} <= {*options["-q"]}
    if name not in OF_BATSIM:
        assert {"-v", "--verbose"} <= {*options["-v"]}


@pytest.mark.parametrize("name", sorted(ALL_COMMANDS))
def test_all_commands_take_traceback(name: str, capfd: Capture) -> None:
    assert exit_code(*name.split(), "--help") == 0
    assert "--traceback" in capfd.readouterr().out


def test_verbose_tells_the_time(tmp_path: Path, capfd: Capture) -> None:
    for given, expected in (("-v", r"took \d+\.\d\d s\n"), ("-q", "")):
        with contextlib.suppress(SystemExit):
            exit_code("plan", "show", str(tmp_path / "nothing"), given)
        took = re.findall(r"took .*\n", capfd.readouterr().err)
        assert bool(took) == bool(expected)
        assert all(re.fullmatch(expected, line) for line in took)


def test_a_quiet_comparison_prints_its_results_only(tmp_path: Path, capfd: Capture) -> None:
    given = (
        "compare",
        "--quick",
        "--no-plan",
        "--policy",
        "easy",
        "--policy",
        "power-reactive",
        "--no-report",
    )
    assert exit_code(*given, "-q", "-o", str(tmp_path / "out")) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "power-reactive" in out
    assert "Files in" not in out
