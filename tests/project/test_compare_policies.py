"""scripts/compare_policies, with all its real parts."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from project.shell import ROOT, run
from small_campaign import scenario
from studies.comparison.command import compare, parse_arguments
from studies.comparison.study import (
    COMPARED_POLICIES,
    SURPRISES,
    ComparisonCase,
    Extent,
    replaced,
)

from beasy_sched.errors import BeasyError
from beasy_sched.plugins.campaigns.scenario import PAPER_GUARDS

SCRIPT = ROOT / "scripts" / "compare_policies"


def test_the_whole_of_it():
    chosen = parse_arguments([])
    assert chosen.extent == Extent(range(6000, 6010), range(6000, 6012), 3, PAPER_GUARDS)
    assert [case.name for case in chosen.cases] == ["critical", "average", *SURPRISES]
    assert [policy.label for policy in chosen.policies] == [*COMPARED_POLICIES]
    assert chosen.out == Path("out/comparison")


def test_a_trial_has_a_folder_and_seeds_of_its_own():
    chosen = parse_arguments(["--quick"])
    assert chosen.extent == Extent(range(5000, 5001), range(5000, 5002), 1, PAPER_GUARDS[:1], small=True)
    assert chosen.out == Path("out/comparison-quick")
    given = parse_arguments(["--quick", "--seeds", "7:9", "--days", "3:9"]).extent
    assert (given.seeds, given.days) == (range(7, 8), range(3, 5))


def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.swf", "b.csv"):
        Path(name).touch()
    arguments = "--policies easy,beasy --cases average --seeds 4:6 --days 1:3 --seeds-per-day 1 --guard shed"
    chosen = parse_arguments([*arguments.split(), "--swf", "a.swf", "--weather", "b.csv"])
    assert chosen.extent == Extent(range(4, 6), range(1, 3), 1, PAPER_GUARDS[1:])
    assert [case.name for case in chosen.cases] == ["average", "real"]
    variant = parse_arguments(
        ["--policies", "beasy,beasy+shortage=sleep-first", "--against", "beasy+shortage=sleep-first"]
    )
    assert variant.policies[1].options == {"shortage": "sleep-first"}
    assert variant.against == variant.policies[1].label == "beasy.shortage-sleep-first"
    alone = parse_arguments(["--cases", "real", "--swf", "a.swf"])
    assert [case.name for case in alone.cases] == ["real"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--seeds 7", "found '7', expected a range such as 6000:6010"),
        ("--days 9:9", "found '9:9', expected a range"),
        ("--policies easy,,beasy", "expected names, each once"),
        ("--policies easy,easy", "expected names, each once"),
        ("--policies easy,beasy+shortage", "--policies: --option: found 'shortage', expected NAME=VALUE"),
        ("--policies easy", "--against: 'beasy' is not among --policies"),
        ("--cases real", "'real' requires files: pass --weather FILE, or --swf FILE, or both"),
        ("--cases worst", "unknown case 'worst': choose some of critical, critical-days, average"),
        ("--seeds-per-day 0", "expected an integer from 1 to 1000000"),
    ],
)
def test_mistakes_end_with_2(arguments: str, told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        parse_arguments(arguments.split())
    assert stop.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--policies nobody,beasy", "unknown policy 'nobody'"),
        ("--policies easy,beasy --swf mine/thesis.tex", "mine/thesis.tex: "),
        ("--policies easy,beasy --out mine", "mine is not empty and does not contain an earlier comparison"),
    ],
)
def test_mistakes_that_show_later(arguments: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("mine")
    with pytest.raises(BeasyError, match=told) as caught:
        compare(parse_arguments(["--quick", *arguments.split()]))
    assert caught.value.exit_code == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert not list(tmp_path.rglob("campaign.json"))


@pytest.mark.slow
def test_a_comparison_and_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """On a scenario whose runs take a moment."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    arguments = "--quick --policies workload-reactive,easy --against easy --bound --jobs 2 --out out"
    chosen = parse_arguments(arguments.split())
    tiny = scenario()
    chosen.cases = [
        ComparisonCase("tiny", "tiny cases", lambda extent: [replaced(tiny, guards=extent.guards)])
    ]
    assert compare(chosen) == 0
    out, told = capsys.readouterr()
    assert "2 runs, 2 executed" in told
    for title in ("Means: tiny cases", "Upper bound: tiny cases", "Differences from easy: tiny cases"):
        assert title in out
    assert "It is not conclusive." in out
    tables, _, origin = out.partition("2 runs; noise: seed")
    assert origin
    assert max(map(len, tables.splitlines())) <= 120
    text = (tmp_path / "out/tables.md").read_text()
    assert text.startswith("# The policies compared\n\n- 2 runs; noise: seed")
    stated = arguments.partition(" --jobs")[0]
    assert f"\n- Written by `scripts/compare_policies {stated}` on 20" in text
    assert text.endswith("\n![comparison](figures/comparison.png)\n")
    assert "| workload-reactive | finished jobs [points] |" in text
    made = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.p*")}
    assert {"campaign/runs.parquet", "figures/comparison.pdf", "figures/comparison.png"} <= made
    assert compare(chosen) == 0
    again = capsys.readouterr()
    assert "2 runs, 0 executed" in again.err
    assert again.out.startswith(tables)


@pytest.mark.slow
def test_all_cases_in_short(tmp_path: Path):
    names = ["workload-reactive", "beasy", "power-reactive"]
    done = run(SCRIPT, "--quick", "--policies", ",".join(names), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("critical cases", "demand forecast 30 % too high", "production up to twice as far off"):
        assert f"Differences from beasy: {title}" in done.stdout
    assert (tmp_path / "out/comparison-quick/figures/comparison.pdf").exists()


@pytest.mark.slow
def test_stops_cleanly_and_goes_on(tmp_path: Path):
    command = [
        SCRIPT,
        "--quick",
        "--cases",
        "average",
        "--policies",
        "beasy,workload-reactive,power-reactive",
    ]
    command = [*map(str, command), "--jobs", "1"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    rows = tmp_path / "out/comparison-quick/campaign/rows"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (rows.is_dir() and any(rows.iterdir())):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert process.returncode == 130
    assert told.strip().endswith("the same command continues")
    assert "Traceback" not in told
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 runs, 6 executed" not in done.stderr
    assert "6 runs, " in done.stderr
