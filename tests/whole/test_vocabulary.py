"""One vocabulary: the same option means the same in every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import ALL_COMMANDS, exit_code

from beasy_sched.cli import cli
from beasy_sched.policies.registry import make_policy, policy_names

Capture = pytest.CaptureFixture[str]


PARAMETERS = [
    (name, parameter)
    for name, command in ALL_COMMANDS.items()
    if name != "batsim"  # its options are Batsim's
    for parameter in command.params
    if isinstance(parameter, click.Option)
]


def test_o_is_the_output_q_is_quiet_and_json_is_a_flag() -> None:
    meaning = {"-o": "--output", "-q": "--quiet", "-w": "--workload", "-p": "--platform"}
    for name, parameter in PARAMETERS:
        for short, long in meaning.items():
            if short in parameter.opts:
                assert {long, f"{long}s"} & {*parameter.opts}, f"{name} {short}: {parameter.opts}"
        for long in (*meaning.values(), "--verbose"):
            if long in parameter.opts and long not in ("--workload", "--verbose"):
                assert {short for short in meaning if meaning[short] == long} <= {*parameter.opts}, name
        if "--json" in parameter.opts:
            assert parameter.is_flag
    having_json = {name for name, parameter in PARAMETERS if "--json" in parameter.opts}
    assert having_json >= {"policies", "simulate", "plan show", "campaign status", "check", "explain", "size"}


def test_the_helps_are_whole(capfd: Capture) -> None:
    for group in ((), ("generate",), ("campaign",), ("plan",), ("slurm",)):
        assert exit_code(*group, "--help") == 0
        listed = capfd.readouterr().out.partition("Commands:" if group else "Make inputs:")[2]
        assert "..." not in listed
        assert max(map(len, listed.splitlines())) <= 80


def test_commands_stand_by_task(capfd: Capture) -> None:
    assert exit_code("--help") == 0
    listed = capfd.readouterr().out
    headings = [line for line in listed.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options:", "Make inputs:", "Run:", "Compare:", "Understand:"]
    below = listed.partition("Make inputs:")[2].splitlines()
    named = [line.split()[0] for line in below if line.startswith("  ") and line[2].isalpha()]
    assert sorted(named) == sorted(name for names in cli.headed().values() for name in names)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("vocabulary")
    assert exit_code("generate", "platform", "-n", "gros:4", "-o", str(place / "p.xml"), "-q") == 0
    synthetic = ("generate", "workload", "--synthetic", "--hosts", "4", "--jobs", "20")
    assert exit_code(*synthetic, "-o", str(place / "w.json"), "-q") == 0
    power = ("generate", "power", "--synthetic", "--pv-kw", "2")
    assert exit_code(*power, "-o", str(place / "power.txt"), "-q") == 0
    return place


def simulate(place: Path, *arguments: str) -> int:
    return exit_code("simulate", "-p", str(place / "p.xml"), "-w", str(place / "w.json"), *arguments)


def test_the_summary_as_json_is_the_file(place: Path, capfd: Capture) -> None:
    assert simulate(place, "-o", str(place / "run"), "--json", "-v") == 0
    out, err = capfd.readouterr()
    assert json.loads(out) == json.loads((place / "run_summary.json").read_text())
    assert "took " in err
    assert simulate(place, "--export", str(place / "old"), "-q") == 0
    assert capfd.readouterr() == ("", "")
    assert (place / "old_jobs.csv").exists()


def test_options_one_by_one_or_together(place: Path, capfd: Capture) -> None:
    for given in (
        ["--option", "priority=slowdown", "--option", "backfill=smallest"],
        ["--options", '{"priority": "slowdown"}', "--option", "backfill=smallest"],
        ["--options", '{"priority": "slowdown", "backfill": "smallest"}'],
    ):
        assert simulate(place, *given, "--json") == 0
        options = json.loads(capfd.readouterr().out)["settings"]["options"]
        assert options == {"priority": "slowdown", "backfill": "smallest"}


def test_json_where_the_output_is_expected(place: Path, capfd: Capture) -> None:
    assert simulate(place, "-o", '{"priority": "slowdown"}') == 2
    assert "to set a policy option, use --option NAME=VALUE" in " ".join(capfd.readouterr().err.split())


@pytest.mark.slow
def test_the_policies_and_their_options(capfd: Capture) -> None:
    assert exit_code("policies", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in found] == policy_names()
    for each in found:
        defaults = {name: schema["default"] for name, schema in each["options"].items()}
        make_policy(each["name"], defaults)
        assert all(schema["description"] for schema in each["options"].values()), each["name"]
    assert exit_code("policies", "greenslot") == 0
    out = capfd.readouterr().out
    assert "  prices              flat or real (default: real)\n" in out
    assert "  price_floor         a number (default: null)\n" in out
    assert "                      Minimum price used; null: none.\n" in out
    assert exit_code("policies", "nonsense") == 2


@pytest.mark.slow
def test_the_plan_as_json(place: Path, capfd: Capture) -> None:
    pytest.importorskip("highspy", reason="planning needs highspy")
    files = (
        "-p",
        str(place / "p.xml"),
        "-w",
        str(place / "w.json"),
        "--production",
        str(place / "power.txt"),
    )
    out = str(place / "plan.msgpack")
    assert exit_code("plan", *files, "-o", out, "-q", "--export-json", str(place / "plan.json")) == 0
    capfd.readouterr()
    assert exit_code("plan", "show", out, "--json") == 0
    assert capfd.readouterr() == ((place / "plan.json").read_text(), "")


def test_a_trace_is_given_with_swf_or_as_before(place: Path, capfd: Capture) -> None:
    rows = [f"{n} {n * 600} 5 300 4 -1 -1 4 900 -1 1 1 1 -1 1 -1 -1 -1" for n in range(1, 9)]
    (place / "t.swf").write_text("\n".join(rows) + "\n")
    trace = str(place / "t.swf")
    for name, given in (("a", ["--swf", trace]), ("b", [trace])):
        assert exit_code("generate", "workload", *given, "-q", "-o", str(place / f"{name}.json")) == 0
    assert (place / "a.json").read_bytes() == (place / "b.json").read_bytes()
    capfd.readouterr()
    assert exit_code("generate", "workload", "--swf", trace, trace, "-o", "-") == 2
    assert "unexpected extra argument" in capfd.readouterr().err


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "expected"),
    [("beasy-sched simulate --policy be", "plain,beasy"), ("beasy-sched generate si", "plain,site")],
)
def test_shells_complete_commands_and_policies(words: str, expected: str) -> None:
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_BEASY_SCHED_COMPLETE": "bash_complete",
    }
    command = [sys.executable, "-m", "beasy_sched"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [expected]


def test_levels_of_the_daemon(capfd: Capture) -> None:
    """-v alone is debug; -v LEVEL, as Batsim has it, works all the same."""
    for given in (["-v"], ["-q"], ["-v", "silent"], ["--verbosity", "info"]):
        assert exit_code("serve", "-s", "tcp://127.0.0.1:0", "--timeout", "0.01", *given) == 1
        assert "no simulator sent a first message" in capfd.readouterr().err
    assert exit_code("serve", "--verbosity", "loud") == 2
