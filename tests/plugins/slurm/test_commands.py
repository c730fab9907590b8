"""Slurm's commands: programs are run as they are to be, and what they say becomes one error."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from plugins.slurm.fake_slurm import START_S, FakeSlurm

from beasy_sched.plugins.slurm.records import SlurmAway
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, NoSlurm, Slurm, environment, run_program

ANSWERS = Path(__file__).parent / "answers"


class Recorded:
    """Prints what was recorded, and keeps the commands."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        """``answers``: by how their commands begin."""
        self.answers = answers
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        self.commands.append(" ".join(command))
        return next(
            (text for start, text in self.answers.items() if " ".join(command).startswith(start)), b""
        )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A shell script of a test's own, which the test writes."""
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_nodes_are_asked_for_as_the_version_knows_it():
    nodes = (ANSWERS / "sinfo-22.05.json").read_bytes()
    old = Recorded({"sinfo --version": b"slurm-wlm 22.05.8\n", "sinfo --all": nodes})
    assert [node.name for node in Slurm(old).nodes()] == ["n1", "n2", "n3", "n4"]
    assert old.commands == ["sinfo --version", "sinfo --all --json"]
    new = Recorded({"sinfo": b"slurm 23.11.10\n", "scontrol show nodes": b'{"nodes": []}'})
    assert Slurm(new).nodes() == []
    assert new.commands[1:] == ["scontrol show nodes --json"]
    with pytest.raises(CommandFailed, match="sinfo --version: found 'no', expected a version"):
        _ = Slurm(Recorded({"sinfo": b"no"})).version


def test_settings_and_the_controllers_clock():
    recorded = Recorded({"scontrol show config": (ANSWERS / "config-22.05.txt").read_bytes()})
    config = Slurm(recorded).config()
    assert config["SuspendTime"] == "8640000 sec"
    assert config["SelectType"] == "select/linear"
    assert config["SLURM_VERSION"] == "22.05.8"
    assert config["SchedulerParameters"] == "batch_sched_delay=0,sched_interval=1"
    assert 1.7e9 < float(config["now"]) < 2e9
    assert Slurm(FakeSlurm(1)).config()["now"] == f"{START_S:.0f}"
    assert "now" not in Slurm(Recorded({"scontrol": b"Configuration data as of 2026-01-01\n"})).config()
    assert Slurm(FakeSlurm(2)).partition("main")["Nodes"] == "n1,n2"


def test_the_commands_of_the_history():
    recorded = Recorded({"sacct": b"{}"})
    slurm = Slurm(recorded)
    assert slurm.history("2026-01-01") == b"{}"
    slurm.history("2026-01-01", "2026-02-01", "main")
    assert recorded.commands == [
        "sacct --json --allusers --starttime=2026-01-01",
        "sacct --json --allusers --starttime=2026-01-01 --endtime=2026-02-01 --partition=main",
    ]


def test_a_users_habits_do_not_change_the_answers(program: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    program.write_text("#!/bin/sh\nenv\n")
    found = dict(line.split("=", 1) for line in run_program([str(program)]).decode().splitlines())
    assert "SQUEUE_PARTITION" not in found
    assert found["SLURM_CONF"] == "/etc/slurm/slurm.conf"
    assert (found["SLURM_BITSTR_LEN"], found["SLURM_TIME_FORMAT"]) == ("0", "%s")
    assert environment({"SINFO_FORMAT": "x", "HOME": "/root"})["HOME"] == "/root"


def test_no_shell_reads_an_argument(program: Path):
    program.write_text('#!/bin/sh\nprintf "%s" "$1"\n')
    assert run_program([str(program), "a; touch b $(c) `d`"]) == b"a; touch b $(c) `d`"


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurm_update error: Socket timed out on send/recv operation",
        "Unexpected message received for job 3\nslurm_suspend error: Unexpected message received",
        'scontrol: error: Munge encode failed: Failed to access "/run/munge.sock": No such file or directory',
    ],
)
def test_a_controller_that_is_away(program: Path, said: str):
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    with pytest.raises(SlurmAway) as caught:
        run_program([str(program)])
    assert said.replace("\n", "; ") in str(caught.value)


def test_a_warning_of_a_command_that_worked_is_no_error(program: Path):
    program.write_text("#!/bin/sh\necho 'backup controller: Connection refused' >&2\necho fine\n")
    assert run_program([str(program)]) == b"fine\n"


def test_a_command_that_hangs(program: Path):
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(SlurmAway, match=r"program did not respond within 0.2 s"):
        run_program([str(program)], timeout_s=0.2)


def test_what_slurm_refuses_is_said_in_its_words(program: Path):
    program.write_text("#!/bin/sh\necho Invalid job id specified for job 99 >&2\nexit 1\n")
    with pytest.raises(CommandFailed, match=r"program release 99: Invalid job id specified for job 99$"):
        run_program([str(program), "release", "99"])
    program.write_text("#!/bin/sh\necho Partition nope not found\nexit 1\n")
    with pytest.raises(CommandFailed, match=r"Partition nope not found$"):
        run_program([str(program)])
    program.write_text("#!/bin/sh\nexit 7\n")
    with pytest.raises(CommandFailed, match=r"ended with exit code 7$"):
        run_program([str(program)])


def test_no_slurm(program: Path):
    with pytest.raises(NoSlurm, match=r"cannot be started \(No such file or directory\): install Slurm's"):
        run_program(["/nowhere/squeue"])
    program.write_text("#!/bin/sh\necho 'sinfo: fatal: Unable to process configuration file' >&2\nexit 1\n")
    with pytest.raises(NoSlurm, match="configuration file; is SLURM_CONF correct"):
        run_program([str(program)])
