"""``beasy-sched compare``: what it refuses, the user's own files, and scenarios."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS, exit_code
from project.shell import run
from small_campaign import SMALL
from small_site import small_site

from beasy_sched.formats.site_file import default_site_text
from beasy_sched.plugins.campaigns.commands.compare import _CompareProgress, _comparison
from beasy_sched.plugins.campaigns.comparisons.compared_policy import ComparedPolicy
from beasy_sched.plugins.campaigns.comparisons.days import POLICIES, GeneratedDays
from beasy_sched.plugins.campaigns.comparisons.scenarios import scenario_comparison
from beasy_sched.plugins.campaigns.comparisons.side_by_side import Comparison, with_short_labels
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
        patch.setattr("beasy_sched.plugins.campaigns.commands.compare._comparison", note)
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
        (["--jobs", "0"], "expected an integer from 1 to 1000000"),
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
        (["--scenario", "greenslot", "--swf", "/dev/null"], "its own workload and weather: omit --swf"),
        (["--scenario", "greenslot", "--cores-per-host", "4", "--swf", "/dev/null"], "omit --swf"),
        (["--scenario", "greenslot", "--quick"], "omit --quick"),
        (["--scenario", "greenslot", "--seed", "2"], "omit --seed"),
        (["--scenario", "greenslot", "--production", "worst"], "pass exact for perfect predictions"),
        pytest.param(
            ["--scenario", "greenslot", "--policy", "greenslot", "--options", '{"prices": "free"}'],
            "prices",
            marks=pytest.mark.plugins("greenslot"),
        ),
        (["-p", "/dev/null"], "your own files must include a platform and a workload: also pass -w WORKLOAD"),
        (["-p", "/dev/null", "-w", "/dev/null", "--seed", "2"], "-p and -w replace the generated days: omit"),
        (["-p", "/dev/null", "-w", "/dev/null", "--no-plan"], "omit --no-plan"),
        (["--plan", "/dev/null"], "omit --plan"),
        (["--scenario", "greenslot", "-p", "/dev/null"], "defines its own files: omit --platform"),
        (["--against", "easy"], "pass SCENARIOs"),
        (["--policy", "easy x=1", "--policy", "easy x 1"], "would use the same output folder as easy x=1"),
        (["--policy", "easy priority=slowdown", "--option", "priority=arrival"], "already has options"),
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


def test_the_site_may_be_the_one_of_the_other_commands() -> None:
    site_text = chosen("--site", "default").days.site_text
    assert site_text == default_site_text() != chosen().days.site_text


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


@pytest.mark.slow
def test_own_files_and_a_policy_of_ones_own(tmp_path: Path) -> None:
    small_site(tmp_path, jobs=3)
    (tmp_path / "mine.py").write_text(MINE)
    files = ("-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml")
    policies = ("--policy", "easy", "--policy", "mine:Mine", "--policy", "easy priority=slowdown")
    done = run(*PROGRAM, *files, *policies, "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out/run").iterdir()} == {
        "comparison.md", "easy", "Mine", "easy_priority_slowdown",
    }  # fmt: skip
    assert "Workload and weather: platform.xml, workload.json, power.txt" in done.stdout
    found = {
        name: json.loads((tmp_path / f"out/run/{name}/run_summary.json").read_text("utf-8"))
        for name in ("easy", "Mine", "easy_priority_slowdown")
    }
    assert found["Mine"]["jobs"] == found["easy"]["jobs"]
    assert found["easy_priority_slowdown"]["settings"]["options"] == {"priority": "slowdown"}
    single = run(*PROGRAM, *files, "--policy", "mine:Mine", "--no-report", "-o", "one", cwd=tmp_path)
    assert single.returncode == 0, single.stderr
    assert "jobs submitted" in single.stdout


def test_policies_that_wait_for_a_process_do_not_run() -> None:
    with _CompareProgress(3, 2, quiet=True) as progress:
        for name in ("a", "b", "c"):  # a pool of processes takes one more than it runs
            progress.began(name)
        assert progress.where() == "  0 of 3 policies have ended; running: a, b"
        progress.ended("b", "b: 1 s")
        assert progress.where() == "  1 of 3 policies have ended; running: a, c"


@pytest.mark.parametrize(
    ("folder", "message"),
    [("taken/in", "is not a folder: choose another one"), ("a" * 300, "cannot be written: File name too")],
)
def test_a_folder_that_cannot_be_made_is_an_error_of_use(
    folder: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert exit_code("compare", "--quick", "--policy", "easy", "--no-plan", "-o", folder) == 2
    assert message in capfd.readouterr().err


@pytest.mark.slow
def test_a_command_that_is_not_on_the_path_is_made_available_first(tmp_path: Path) -> None:
    command = (*PROGRAM, "--quick", "--no-plan", "--no-report", "--policy", "easy", "--policy", "fcfs")
    activate = Path(sys.prefix, "bin", "activate")
    hint = f"To make the command beasy-sched available: . {os.path.relpath(activate, tmp_path)}\n"
    done = run(*command, cwd=tmp_path, variables={"PATH": os.defpath})
    assert (hint in done.stdout) == activate.exists()
    (tmp_path / "beasy-sched").write_text("#!/bin/sh\n")
    (tmp_path / "beasy-sched").chmod(0o755)
    done = run(*command, cwd=tmp_path, variables={"PATH": f"{tmp_path}{os.pathsep}{os.defpath}"})
    assert "make the command" not in done.stdout
    assert "beasy-sched explain out/run/easy" in done.stdout


@pytest.mark.slow
def test_runs_of_an_earlier_comparison_are_named(tmp_path: Path) -> None:
    command = (*PROGRAM, "--quick", "--no-plan", "--no-report", "--policy", "easy", "--policy")
    for _ in range(2):
        assert "earlier comparison" not in run(*command, "fcfs", "-o", "my out", cwd=tmp_path).stdout
    said = run(*command, "random", "-o", "my out", cwd=tmp_path).stdout
    assert "Also in my out, from an earlier comparison: fcfs\n" in said
    assert "beasy-sched explain 'my out/easy'\n" in said  # as a shell takes it


@pytest.mark.slow
def test_own_files_that_do_not_fit_together_write_nothing(tmp_path: Path) -> None:
    small_site(tmp_path, jobs=3)
    (tmp_path / "workload.json").write_text("{}")
    files = ("-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml")
    done = run(*PROGRAM, *files, "--policy", "easy", "--policy", "fcfs", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: workload.json" in done.stderr
    assert not (tmp_path / "out").exists()
    done = run(*PROGRAM, *files, "--policy", "easy", "--policy", "beasy", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "beasy-sched: policy 'beasy' requires an offline plan: pass --plan FILE\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "a.gif"], "figure format: found '.gif', expected png, svg, pdf"),
        (["--figure", "no/a.png"], "no/a.png: cannot be written: its folder does not exist"),
        (["--measure", "killed"], "--measure requires --figure FILE"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_told_before_the_runs(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert exit_code("compare", "best-begin", "--policy", "easy", "--policy", "fcfs", *arguments) == 2
    assert message in capfd.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_scenarios_with_differences_from_one_policy(tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.py").write_text(MINE)
    policies = ("--policy", "easy", "--policy", "mine:Mine", "--policy", "workload-reactive")
    small = SMALL.replace("policies = [", 'policies = ["mine:Mine", ')  # --policy takes its place
    (tmp_path / "small.toml").write_text(small)
    command = (*PROGRAM, "small.toml", *policies, "--against", "easy", "-o", "two")
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "12 runs, 12 executed now, 0 failed" in done.stderr or "executed now, 0 failed" in done.stderr
    text = (tmp_path / "two/comparison.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    place = next(n for n, row in enumerate(rows) if row[0] == "Mine" and len(row) == 6)
    assert rows[place][2].startswith("+0.00 [+0.00, +0.00]")
    assert rows[place][4:] == ["100 %", ""]
    assert "Differences from easy: small" in text
    again = run(*command, "--markdown", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert ", 0 executed now" in again.stderr
    assert again.stdout == text


def test_policies_of_ones_own_are_called_by_their_class_if_it_is_the_only_one() -> None:
    given = [ComparedPolicy.of(text) for text in ("easy", "mine:Mine least=2", "v1:Other", "v2:Other")]
    labels = [policy.label for policy in with_short_labels(given)]
    assert labels == ["easy", "Mine least=2", "v1:Other", "v2:Other"]


@pytest.mark.parametrize("against", ["Mine", "mine:Mine"])
def test_the_policy_to_compare_with_as_it_was_given_or_as_it_is_called(
    against: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    given = [ComparedPolicy.of("easy"), ComparedPolicy.of("mine:Mine")]
    found = scenario_comparison(["best-begin"], given, tmp_path / "out", against=against)
    assert found.against == "Mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best-begin", "--seed", "3"), "scenarios define their own workload, weather and files"),
        (("best-begin", "--against", "nobody"), "--against: found 'nobody', expected a policy compared"),
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


@pytest.mark.slow
def test_a_campaign_is_compared_after_the_fact(tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("highspy")
    pytest.importorskip("matplotlib")
    (tmp_path / "small.toml").write_text(SMALL + "\n[sweep]\nbattery_kwh = [1, 2]\n")
    out = str(tmp_path / "out")
    assert exit_code("campaign", "run", str(tmp_path / "small.toml"), "-o", out, "-q") == 0
    figure = tmp_path / "d.svg"
    command = ("campaign", "compare", out, "--against", "easy")
    assert exit_code(*command, "--policy", "follow-plan", "--markdown", "--figure", str(figure)) == 0
    text = capfd.readouterr().out
    titles = [line for line in text.splitlines() if line.startswith("### Differences from easy: ")]
    assert titles[0] == "### Differences from easy: small, battery_kwh 1, guard kill-all without veto"
    assert len(titles) == 4  # two sizes, two guard settings
    assert "workload-reactive" not in text
    assert figure.read_text("utf-8").startswith("<?xml")
    assert exit_code("campaign", "compare", out, "--against", "beasy") == 2
    assert "--against: found 'beasy', expected one of easy, follow-plan" in capfd.readouterr().err
    assert exit_code("campaign", "compare", out, "--scenario", "other") == 2
    assert "--scenario: found 'other', expected one of small" in capfd.readouterr().err
    assert exit_code("campaign", "compare", out, "--measure", "killed") == 2
    assert "--measure requires --figure" in capfd.readouterr().err


@pytest.mark.slow
def test_scenarios_on_a_trace_of_ones_own(tmp_path: Path, capfd: Capture) -> None:
    """Windows of three hours, on the first and the last day of the trace; walltimes are the trace's."""
    pytest.importorskip("highspy")
    tuples = "\n[[tuples]]\nworkload = { seed = 1 }\n" * 3
    (tmp_path / "small.toml").write_text(SMALL + tuples)
    rows = [f"{n} {n * 900} 0 {300 + n} 1 -1 -1 1 3600 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 400)]
    (tmp_path / "trace.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    command = ("compare", str(tmp_path / "small.toml"), "--swf", str(tmp_path / "trace.swf"), "-o")
    policies = ("--policy", "easy", "--policy", "fcfs", "--seeds", "1", "--quick", "--max-run-time", "690")
    assert exit_code(*command, str(tmp_path / "out"), *policies) == 0
    assert "8 runs, 8 executed now, 0 failed" in capfd.readouterr().err  # two days, both guard settings
    manifest = json.loads((tmp_path / "out/campaign/campaign.json").read_text("utf-8"))
    (scenario,) = manifest["scenarios"]
    assert [part["workload"]["from"] for part in scenario["tuples"]] == [0.0, 4 * 86_400.0]
    assert {part["workload"]["cores_per_host"] for part in scenario["tuples"]} == {2}
    assert {part["workload"]["max_run_s"] for part in scenario["tuples"]} == {690.0}
    assert (scenario["noise"]["walltimes"], scenario["seeds"]) == ("keep", [1])
    for what in (["compare", "best-begin"], ["compare"], ["year"]):
        for option in ("--cores-per-host", "--max-run-time"):
            assert exit_code(*what, option, "2", "-o", str(tmp_path / "x")) == 2
            assert f"{option} requires a trace: pass --swf FILE" in capfd.readouterr().err


def test_a_part_of_the_runs(tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("highspy")
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("compare", str(tmp_path / "small.toml"), "--policy", "easy", "--policy", "fcfs", "-o")
    for part, told in (("1/2", "4 runs are left to other parts"), ("2/2", "8 runs, 4 executed now")):
        assert exit_code(*command, str(tmp_path / "out"), "--part", part) == 0
        assert told in capfd.readouterr().err
    assert (tmp_path / "out/comparison.md").exists()
