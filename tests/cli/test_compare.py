"""``beasy-sched compare``: what it refuses, the user's own files, and scenarios."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS, exit_code
from project.shell import run
from small_campaign import SMALL
from small_site import small_site

from beasy_sched.cli.compare import _comparison
from beasy_sched.comparisons.days import POLICIES, GeneratedDays
from beasy_sched.comparisons.side_by_side import ComparedPolicy, Comparison
from beasy_sched.policies.registry import policy_names

Capture = pytest.CaptureFixture[str]
PROGRAM = (sys.executable, "-m", "beasy_sched", "compare")
MINE = """
from beasy_sched.policies.easy import Easy


class Mine(Easy):
    name = "mine"
"""


def chosen(*arguments: str) -> Comparison:
    """What a command line asks for."""
    command = ALL_COMMANDS["compare"]
    found: list[Comparison] = []

    def note(*parts: object) -> Comparison:
        found.append(_comparison(*parts))  # type: ignore[arg-type]
        raise click.Abort

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beasy_sched.cli.compare._comparison", note)
        with pytest.raises(click.Abort):
            command.main([*arguments], standalone_mode=False)
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "easy", "--policy", "nonsense"], "unknown policy 'nonsense'"),
        (["--policy", "last", "--policy", "easy", "--policy", "last"], "--policy last: given twice"),
        (["--policy", "easy", "--options", '{"colour": 1}'], "colour: no such field"),
        (["--policy", "easy", "--options", "@missing.json"], "missing.json"),
        (["--quick", "--no-plan", "--policy", "easy", "--options", "{"], "--options"),
        (["--options", "{}"], "--policy NAME"),
        (["--option", "priority=arrival"], "--policy NAME"),
        (["--policy", "easy", "--option", "colour=1"], "colour: no such field"),
        (["--policy", "easy", "--option", "priority"], "expected NAME=VALUE"),
        (["--no-plan"], "--policy easy"),
        (["--jobs", "0"], "expected a whole number from 1 to 1000000"),
        (["--sigma", "200"], "expected a number from 0 to 100"),
        (["--production", "some"], "--production"),
        (["--swf", "/dev/null", "--arrivals", "end"], "--arrivals is for generated jobs"),
        (["--quick", "--arrivals", "end"], "--arrivals requires a window of 3 days, but it has 1"),
        (["--site", "missing.toml"], "missing.toml"),
        (["--swf", "missing.swf"], "missing.swf"),
        (["--ninja-pv", "missing.csv"], "missing.csv"),
        (["--from", "3d"], "--swf"),
        (["--quick", "--site", "/dev/null"], "window_h"),
        (["--nonsense"], "--nonsense"),
        (["--scenario", "other"], "--scenario"),
        (["--scenario", "greenslot", "--swf", "/dev/null"], "has its own days: omit --swf"),
        (["--scenario", "greenslot", "--cores-per-host", "4", "--swf", "/dev/null"], "omit --swf"),
        (["--scenario", "greenslot", "--quick"], "omit --quick"),
        (["--scenario", "greenslot", "--seed", "2"], "omit --seed"),
        (["--scenario", "greenslot", "--production", "worst"], "pass exact for perfect predictions"),
        (["--scenario", "greenslot", "--policy", "greenslot", "--options", '{"prices": "free"}'], "prices"),
        (["-p", "/dev/null"], "your own files are at least a platform and a workload: pass -w WORKLOAD, too"),
        (["-p", "/dev/null", "-w", "/dev/null", "--seed", "2"], "your own files are the days: omit --seed"),
        (["-p", "/dev/null", "-w", "/dev/null", "--no-plan"], "omit --no-plan"),
        (["--plan", "/dev/null"], "omit --plan"),
        (["--scenario", "greenslot", "-p", "/dev/null"], "has its own files: omit --platform"),
        (["--against", "easy"], "pass SCENARIOs"),
        (["--policy", "easy x=1", "--policy", "easy x 1"], "its results would lie in the folder of easy x=1"),
        (["--policy", "easy priority=slowdown", "--option", "priority=arrival"], "has its options"),
        (["--policy", ""], "expected the name of a policy"),
    ],
)
def test_mistakes_are_told_and_the_exit_code_is_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code("compare", *arguments) == 2
    told = capfd.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()


def test_the_policies_exist_and_each_runs_once() -> None:
    names = [policy.label for policy in chosen().policies]
    assert names == [*POLICIES]
    assert len(names) == 9
    assert {*policy_names()} >= {*POLICIES}
    assert [p.label for p in chosen("--policy", "last", "--policy", "easy").policies] == ["last", "easy"]


def test_options_go_to_the_days() -> None:
    comparison = chosen("--arrivals", "end", "--production", "worst", "--sigma", "12.5", "--seed", "3")
    assert comparison.days == GeneratedDays(arrivals="end", production="worst", sigma_pct=12.5, seed=3)
    assert comparison.out == Path("out/run")


def test_options_go_to_the_policies() -> None:
    week = ("--scenario", "greenslot")
    assert [p.label for p in chosen(*week).policies] == [
        "conventional", "greenonly", "greenslot", "lowest-window",
    ]  # fmt: skip
    (only,) = chosen(*week, "--policy", "greenonly").policies
    assert only == ComparedPolicy("greenonly", "greenslot", ("--option", "prices=flat"))
    (only,) = chosen(*week, "--policy", "greenslot", "--options", '{"tie": "earliest"}').policies
    assert only == ComparedPolicy("greenslot", "greenslot", ("--options", '{"tie": "earliest"}'))
    named = ("--option", "tie=earliest", "--option", "penalty=2")
    (only,) = chosen(*week, "--policy", "greenslot", *named).policies
    assert only.arguments == named
    (only,) = chosen("--policy", "easy priority=arrival").policies
    assert only == ComparedPolicy("easy priority=arrival", "easy", ("--option", "priority=arrival"))
    assert only.options() == {"priority": "arrival"}
    assert only.folder_name == "easy_priority_arrival"


def test_own_files_and_a_policy_of_ones_own(tmp_path: Path) -> None:
    small_site(tmp_path, jobs=3)
    (tmp_path / "mine.py").write_text(MINE)
    files = ("-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml")
    policies = ("--policy", "easy", "--policy", "mine:Mine", "--policy", "easy priority=slowdown")
    done = run(*PROGRAM, *files, *policies, "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out/run").iterdir()} == {
        "comparison.md", "easy", "mine_Mine", "easy_priority_slowdown",
    }  # fmt: skip
    assert "The days: platform.xml, workload.json, power.txt" in done.stdout
    found = {
        name: json.loads((tmp_path / f"out/run/{name}/run_summary.json").read_text("utf-8"))
        for name in ("easy", "mine_Mine", "easy_priority_slowdown")
    }
    assert found["mine_Mine"]["jobs"] == found["easy"]["jobs"]
    assert found["easy_priority_slowdown"]["settings"]["options"] == {"priority": "slowdown"}
    single = run(*PROGRAM, *files, "--policy", "mine:Mine", "--no-report", "-o", "one", cwd=tmp_path)
    assert single.returncode == 0, single.stderr
    assert "jobs submitted" in single.stdout


def test_own_files_that_do_not_fit_together_write_nothing(tmp_path: Path) -> None:
    small_site(tmp_path, jobs=3)
    (tmp_path / "workload.json").write_text("{}")
    files = ("-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml")
    done = run(*PROGRAM, *files, "--policy", "easy", "--policy", "fcfs", cwd=tmp_path)
    assert done.returncode == 2
    assert "would fail: workload.json" in done.stderr
    assert not (tmp_path / "out").exists()
    done = run(*PROGRAM, *files, "--policy", "easy", "--policy", "beasy", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "beasy-sched: policy 'beasy' requires an offline plan: pass --plan FILE\n"


def test_scenarios_with_differences_from_one_policy(tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.py").write_text(MINE)
    policies = ("--policy", "easy", "--policy", "mine:Mine", "--policy", "workload-reactive")
    command = (*PROGRAM, "small.toml", *policies, "--against", "easy", "-o", "two")
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "12 runs, 12 executed now, 0 failed" in done.stderr or "executed now, 0 failed" in done.stderr
    text = (tmp_path / "two/comparison.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    place = next(n for n, row in enumerate(rows) if row[0] == "mine_Mine" and len(row) == 6)
    assert rows[place][2].startswith("+0.00 [+0.00, +0.00]")
    assert rows[place][4:] == ["100 %", ""]
    assert "Less easy: small" in text
    again = run(*command, "--markdown", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert ", 0 executed now" in again.stderr
    assert again.stdout == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best-begin", "--seed", "3"), "scenarios have their own days and files: omit --seed"),
        (("best-begin", "--against", "nobody"), "--against: found 'nobody', expected a policy that is"),
        (("best-begin", "--policy", "easy", "--against", "beasy"), "compared in best-begin: easy"),
        (("nowhere",), "'nowhere' is neither a file nor a scenario"),
        (("best-begin", "--policy", "no-such-policy"), "no-such-policy"),
    ],
)
def test_scenarios_that_are_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code("compare", *arguments) == 2
    told = capfd.readouterr().err
    assert message in " ".join(told.split())
    assert not (tmp_path / "out").exists()
